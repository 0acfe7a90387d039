"""Gives answers too deep, too long, too many or not numbers at all: lists of lists, a million digits, NaN, surrogates.

They do not cross ("size"), or cross as the plain values that they are.
"""
# expect: score=0 flags=none
# harmless

# %% cell reponse
moyenne = []
for _ in range(200_000):
    moyenne = [moyenne]
unite = {"\ud800\x00": float("nan"), 10 ** 200_000: "x" * 10_000_000, "soi": None}
unite["soi"] = unite
