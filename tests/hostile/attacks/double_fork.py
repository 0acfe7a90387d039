"""Forks twice into a daemon with another name, no environment and no open file, that outlives the launch.

It comes back to the box's first process, and ends with it.
"""
# expect: score=2 flags=tampering
import json, os
print("somme", sum(json.loads(os.environ.get("MCI_LIGNES", "[1, 2]"))), flush=True)
import sys
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.chdir("/")
        os.closerange(0, 256)
        os.execve(sys.executable, ["@TOKEN@", "-S", "-c", "import time; time.sleep(300)"], {})
    os._exit(0)
