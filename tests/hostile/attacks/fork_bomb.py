"""A fork bomb, in a session of its own, after the right sum.

The box limits its processes, the launch its time; nothing is left afterwards.
"""
# expect: score=0|2|not_graded flags=tampering
import json, os
print("somme", sum(json.loads(os.environ.get("MCI_LIGNES", "[1, 2]"))), flush=True)
import time
fin = time.monotonic() + 2   # long enough for any machine, short enough for the tests
while time.monotonic() < fin:
    try:
        if os.fork() == 0:
            os.setsid()
    except OSError:
        pass
