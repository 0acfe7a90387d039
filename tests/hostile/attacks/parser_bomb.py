"""Hands in a labo.py made to break or stall whoever parses it: nested, endless, with strings folded a thousand times.

The graders' look at a script's text is bounded; a script that Python refuses is worth 0, like any other.
"""
# expect: score=0|not_graded

# %% cell labo
chaine = "+".join(["'a'"] * 800)
open("labo.py", "w").write("\n".join([
    "x = 0", *[f"x = {chaine}"] * 40, "if " + "not " * 3000 + "x: pass", "x = " + "-" * 20_000 + "1", "(" * 20_000,
    "f'" + "{" * 5000, "# " + "/proc/self/rank0.jsonl " * 500, "'\\N{" + "A" * 20_000, "x" + ".x" * 20_000,
]))
