"""Starts children in new sessions, by setsid and nohup, that keep the output open and write to it later.

The launch does not wait for them, and they do not outlive it.
"""
# expect: score=2 flags=tampering
import json, os
print("somme", sum(json.loads(os.environ.get("MCI_LIGNES", "[1, 2]"))), flush=True)
import subprocess, sys
suite = "import time\nwhile True:\n    print('@TOKEN@ somme 0', flush=True)\n    time.sleep(0.2)"
for commande in (["setsid"], ["nohup"], ["setsid", "-f"], []):
    try:
        subprocess.Popen([*commande, sys.executable, "-S", "-c", suite], start_new_session=True)
    except OSError:
        pass
