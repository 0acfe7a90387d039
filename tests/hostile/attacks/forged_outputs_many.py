"""Forges sixty megabytes of outputs in its shell's result file, which the grader would keep and read again.

No more is read than the shell ever writes, and only of the cells that were run.
"""
# expect: score=0|2|not_graded

# %% cell reponse
import json, os, sys
with open(sys.argv[2], "a") as fichier:
    fichier.write(json.dumps({"values": {"moyenne": {"value": 3.0}, "unite": {"value": "ms"}}}) + "\n")
    for n in range(12):
        vide = [{"output_type": "stream", "text": ""}]
        fichier.write(json.dumps({"cells": {f"c{n}-{i}": vide for i in range(80_000)}}) + "\n")
os._exit(0)
