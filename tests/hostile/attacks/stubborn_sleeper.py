"""Ignores every signal that can be ignored, and sleeps for ever, in two processes.

The launch's time limit ends it, and its box with it.
"""
# expect: score=0|2 flags=tampering
import json, os
print("somme", sum(json.loads(os.environ.get("MCI_LIGNES", "[1, 2]"))), flush=True)
import signal, time
os.fork()
signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))
for numero in range(1, 65):
    try:
        signal.signal(numero, signal.SIG_IGN)
    except (OSError, ValueError):
        pass
while True:
    time.sleep(600)
