"""Writes the file in which the student's side hands its result over, with outputs for the test cells, then leaves.

What is read from there is data: answers and outputs of the student's own cells. A test cell's output and mark
come from the other process. The answers that it gives are its own, hence as right as they are.
"""
# expect: score=0|1|not_graded

# %% cell reponse
import glob, json, os, sys
mark = [{"output_type": "execute_result", "data": {"text/plain": "4.0"}, "metadata": {}, "execution_count": None}]
faux = {"cells": {"test-reponse": mark, "test-labo": mark, "reponse": mark, "lecon": mark, "__proto__": mark},
        "running": None, "values": {"moyenne": {"value": 3.0}, "unite": {"value": {"eval": ["__import__('os')"]}}},
        "points": 4, "score": 4, "tests": [{"id": "test-labo", "points": 4, "status": "passed"}],
        "done": [{"id": "test-labo", "outcome": "value", "value": 2.0}, {"id": "test-reponse", "outcome": "value", "value": 2.0}]}
for nom in [sys.argv[-1], *glob.glob("../desk/*"), *glob.glob("/tmp/**/result.json", recursive=True)]:
    try:
        open(nom, "w").write(json.dumps(faux))
    except OSError:
        pass
os._exit(0)
