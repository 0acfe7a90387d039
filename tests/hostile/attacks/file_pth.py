"""Brings a .pth file, and a cell that puts it, and a poisoned module, into every site-packages that it can name.

Python's folders are read-only in the box.
"""
# expect: score=0 flags=none

# %% file poison.pth
import os; open("@OUTSIDE@/pth-@TOKEN@", "w").close()
# %% cell reponse
import glob, os, shutil, site, sys
import autograder
dossiers = [*site.getsitepackages(), site.getusersitepackages(), *[d for d in sys.path if os.path.isdir(d)],
            os.path.dirname(autograder.__file__), os.path.dirname(sys.executable), os.path.dirname(os.__file__)]
for dossier in dossiers:
    if os.path.abspath(dossier) == os.getcwd():
        continue
    try:
        os.makedirs(dossier, exist_ok=True)
        nom = os.path.join(dossier, "poison-@TOKEN@.txt")
        open(nom, "w").close()
        if dossier.startswith((sys.prefix, sys.base_prefix, "/usr", os.path.dirname(autograder.__file__))):
            print("STOLEN: wrote", nom)
        os.remove(nom)
    except OSError as erreur:
        print(type(erreur).__name__)
