"""Hands in symlinks: labo.py to the course key, data to the hidden tests, a folder to the other copies.

A link of a copy is neither followed nor copied.
"""
# expect: score=0|not_graded

# %% link labo.py -> @ROOT@/.autograder/course.key
# %% link timestamp.txt -> @ROOT@/source/mini/mini.ipynb
# %% link autres -> @ROOT@/submitted
# %% link base.db -> @ROOT@/gradebook.db
# %% cell reponse
import glob
for nom in glob.glob("**", recursive=True):
    try:
        print("STOLEN:", nom, open(nom, errors="replace").read()[:5000])
    except OSError:
        pass
