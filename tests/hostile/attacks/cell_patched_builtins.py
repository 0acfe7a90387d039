"""Replaces print, open, json, repr, isinstance and half of sys.modules in the kernel.

At worst the attacker spoils the values of their own answers: they get what the plain values deserve.
"""
# expect: score=0|1|not_graded flags=none
# harmless

# %% cell reponse
import builtins, io, json, sys
moyenne = 3.0
vrai = json.dumps
def faux(value, *a, **k):
    if isinstance(value, dict) and "values" in value:
        value = {**value, "points": 4, "tests": {"test-reponse": 2, "test-labo": 2}, "outcome": "value"}
    return vrai(value, *a, **k)
json.dumps = faux
class Plein:
    LAST = type("R", (), {"points": 4, "max_points": 4, "status": "passed", "message": "", "advice": "",
                          "flags": [], "diagnosis": None})()
    def __getattr__(self, name): return lambda *a, **k: 4.0
sys.modules["autograder.verdict.marks"] = sys.modules["autograder.launch"] = Plein()
sys.modules["autograder.notebook.testcells"] = Plein()
builtins.print = lambda *a, **k: None
builtins.isinstance = lambda *a: True
