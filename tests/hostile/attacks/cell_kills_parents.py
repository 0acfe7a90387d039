"""Sends SIGKILL, SIGSTOP and SIGTERM to its parents, to the grading by its pid, to its group, then to everybody.

In its pid namespace there is nobody else's process; its own end is a cell that did not come to its end.
"""
# expect: score=0|not_graded

# %% cell reponse
import os, signal
print(os.getppid())
for numero in (os.getppid(), int("@PARENT@")):
    for ordre in (signal.SIGSTOP, signal.SIGTERM, signal.SIGKILL):
        if numero > 1:
            try:
                os.kill(numero, ordre)
            except OSError as erreur:
                print(type(erreur).__name__)
for ordre in (signal.SIGTERM, signal.SIGKILL):
    try:
        os.kill(-1, ordre)
        os.killpg(0, ordre)
    except OSError:
        pass
