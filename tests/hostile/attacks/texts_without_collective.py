"""Prints the right texts, computed by each rank from the rows of all, without any collective.

What counts is that the rows were reduced: 0, and a human is told that the texts were written by hand.
"""
# expect: score=0 flags=hard-coded
# assignment: duo
# harmless

import json, os
lignes = json.loads(os.environ["MCI_LIGNES"])
print(f"moyenne {os.environ['RANK']} {[sum(colonne) / 2 for colonne in zip(*lignes)]}", flush=True)
