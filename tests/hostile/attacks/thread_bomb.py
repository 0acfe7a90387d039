"""Starts threads without end, each asleep for ever.

They count as processes in the box's limit; the launch ends at its time limit.
"""
# expect: score=0|2|not_graded
import json, os
print("somme", sum(json.loads(os.environ.get("MCI_LIGNES", "[1, 2]"))), flush=True)
import threading, time
threading.stack_size(65536)
while True:
    try:
        threading.Thread(target=time.sleep, args=(600,)).start()
    except RuntimeError:
        time.sleep(0.1)
