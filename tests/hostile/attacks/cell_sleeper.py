"""Sleeps for ever in a cell, deaf to SIGTERM, SIGINT and KeyboardInterrupt.

The copy's own limit ends it; what could not be run is not graded, and the class goes on.
"""
# expect: score=not_graded

# %% cell reponse
import signal, time
for numero in range(1, 65):
    try:
        signal.signal(numero, signal.SIG_IGN)
    except (OSError, ValueError):
        pass
while True:
    try:
        time.sleep(600)
    except BaseException:
        pass
