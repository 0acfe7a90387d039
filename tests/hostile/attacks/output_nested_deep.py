"""Displays JSON nested six hundred deep, to stop the class where results are written.

Only kinds that a page shows are kept, and those only as texts.
"""
# expect: score=2 flags=none

# %% cell reponse
from IPython.display import display
x = []
for _ in range(600):
    x = [x]
display({"text/plain": "x", "application/json": x}, raw=True)
moyenne, unite = 3.0, "ms"
