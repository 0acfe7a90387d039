"""Brings its own torch.py, json.py, os.py, autograder.py and subprocess.py, to be imported instead of the real ones.

The trusted side imports nothing from the copy, and only declared files cross: they hurt nobody but the student.
"""
# expect: score=0
# harmless

# %% file torch.py
print("somme 0"); raise SystemExit(0)
# %% file json.py
def loads(*a): return {"answers": {}, "cells": []}
def dumps(*a, **k): return '{"score": 4}'
load = loads
# %% file autograder.py
def launch(*a, **k): raise SystemExit("4.0")
# %% file subprocess.py
raise SystemExit(0)
# %% file labo.py
import json, subprocess
print("somme 0")
