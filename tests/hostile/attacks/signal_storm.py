"""Storms every process that it can see with signals, its parents and process groups first, for seconds.

There is nobody but itself and the box's first process, which it may not signal or which ends the launch.
"""
# expect: score=0|2|not_graded flags=tampering
import json, os
print("somme", sum(json.loads(os.environ.get("MCI_LIGNES", "[1, 2]"))), flush=True)
import signal, time
fin = time.monotonic() + 2
ordres = [signal.SIGUSR1, signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGALRM, signal.SIGSTOP, signal.SIGCONT]
for ordre in ordres[:-2]:
    signal.signal(ordre, signal.SIG_IGN)
while time.monotonic() < fin:
    for numero in {os.getppid(), 1, int("@PARENT@"), *map(int, filter(str.isdigit, os.listdir("/proc")))} - {os.getpid()}:
        for ordre in ordres:
            try:
                os.kill(numero, ordre)
            except OSError:
                pass
for numero in (os.getppid(), -1):
    os.kill(numero, signal.SIGKILL)
