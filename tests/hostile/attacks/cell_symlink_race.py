"""Makes labo.py a symlink to the hidden tests, the course key and /proc, and a thread swaps it while it is read.

Only a regular file crosses, opened without following links; nothing behind a link is in the box anyway.
"""
# expect: score=0|not_graded

# %% cell labo
import os, threading
cibles = ["@ROOT@/source/mini/mini.ipynb", "@ROOT@/.autograder/course.key", "/proc/self/environ", "/etc/passwd"]
def course():
    while True:
        for cible in cibles:
            for nom in ("labo.py", "timestamp.txt"):
                try:
                    os.symlink(cible, nom + ".n")
                    os.replace(nom + ".n", nom)
                except OSError:
                    pass
            try:
                open("labo.tmp", "w").write("print('somme 0')")
                os.replace("labo.tmp", "labo.py")
                os.remove("labo.py")
            except OSError:
                pass
threading.Thread(target=course, daemon=True).start()
import time
time.sleep(0.5)
os.path.lexists("labo.py") and os.remove("labo.py")
os.symlink(cibles[0], "labo.py")
os._exit(0)
