"""Rank 1 ignores SIGTERM and sleeps for ever, with children that do the same, while rank 0 fails at once.

The launcher's own patience is short, then the rank is killed; the class waits a few seconds.
"""
# expect: score=0
# assignment: duo

import os, signal, time
if os.environ["RANK"] == "0":
    time.sleep(1)
    raise SystemExit(3)
for _ in range(3):
    os.fork()
os.setsid() if os.getsid(0) != os.getpid() else None
for numero in range(1, 65):
    try:
        signal.signal(numero, signal.SIG_IGN)
    except (OSError, ValueError):
        pass
while True:
    time.sleep(600)
