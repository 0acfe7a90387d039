"""Reads the hidden tests from source/, from the autograded folders and from what the box holds of the package.

None of these is in the box.
"""
# expect: score=0 flags=none

# %% cell reponse
import glob, os
for motif in ("@ROOT@/source/**/*.ipynb", "@ROOT@/autograded/**/*.ipynb", "@ROOT@/.autograder/**/*", "/tmp/**/*.ipynb",
              "/proc/[0-9]*/cwd/**/*.ipynb", "/proc/[0-9]*/cwd/../desk/*.json"):
    for nom in glob.glob(motif, recursive=True)[:50]:
        try:
            texte = open(nom, errors="replace").read()
        except OSError:
            continue
        if "HIDDEN " + "TESTS" in texte or "unite " + "==" in texte:
            print("STOLEN: hidden tests", texte)
