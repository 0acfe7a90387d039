"""Imports the autograder in the rank and in the cell and calls its internals: marks, draws, keeps a result, a Run.

These are copies of the code in the student's own process: no mark is given there.
"""
# expect: score=0 flags=tampering

# %% cell reponse
try:
    from autograder.notebook.result import CopyResult, keep
    from autograder.verdict import marks as compte
    compte.LAST = compte.TestReport(4, 4, "passed", "", "", [], None)
    from pathlib import Path
    for racine in ("@ROOT@", ".", "/tmp"):
        keep(CopyResult("mini", "trusted.internals", score=4, max_score=4),
             Path(racine) / ".autograder/results/mini/trusted.internals.json")
except Exception as erreur:
    print(type(erreur).__name__)
# %% labo
from autograder.verdict.draw import drawn
tirage = drawn("mini")
print("somme", sum(tirage.randrange(10**6, 10**9) for _ in range(3)))
