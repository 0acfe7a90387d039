"""Sets PYTHONPATH, PYTHONSTARTUP, PYTHONHOME and PATH from inside, in the cell and in labo.py, to poison what follows.

Each step starts from the grader's own environment, never from a student's.
"""
# expect: score=2 flags=tampering
# harmless

# %% cell reponse
import os, sys
with open("autograder.py", "w") as fichier:
    fichier.write("raise SystemExit('STOLEN: autograder.py of the copy was imported')")
with open("torchrun", "w") as fichier:
    fichier.write("#!/bin/sh\necho somme 0\n")
os.chmod("torchrun", 0o755)
ici = os.getcwd()
os.environ.update(PYTHONPATH=ici, PYTHONSTARTUP=ici + "/autograder.py", PYTHONINSPECT="1", AUTOGRADER_RUNS=ici,
                  AUTOGRADER_KEY_FILE=ici + "/torchrun", PATH=ici, AUTOGRADER_COURSE=ici, TMPDIR=ici, AUTOGRADER_SANDBOX="0")
sys.path.insert(0, ici)
# %% labo
import json, os
print("somme", sum(json.loads(os.environ.get("MCI_LIGNES", "[1, 2]"))))
os.environ.update(PYTHONPATH=os.getcwd(), AUTOGRADER_RECORD=os.getcwd(), AUTOGRADER_SANDBOX="0", RANK="7")
os.putenv("PYTHONPATH", os.getcwd())
