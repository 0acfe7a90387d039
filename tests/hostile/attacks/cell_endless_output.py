"""Prints without end, from a thread, to the captured streams, the real ones and through a command.

What is kept is bounded in bytes, and the cell is stopped.
"""
# expect: score=0|not_graded

# %% cell reponse
import os, threading
def flot():
    while True:
        os.write(1, b"y" * 65536)
threading.Thread(target=flot, daemon=True).start()
while True:
    print("z" * 65536)
