"""Displays numbers, lists and scripts under kinds that hold texts: the copy could not be recorded any more.

What is no text of a kind that a page shows is left out.
"""
# expect: score=2 flags=none
# harmless

# %% cell reponse
from IPython.display import display
mal = "\"></script></style><script>pwned()</script><img src=x onerror=pwned()>"
for sorte in ("text/html", "text/plain", "text/markdown", "text/latex", "image/svg+xml", "image/png", "image/jpeg",
              "text/vnd.mermaid", "application/json", "application/vnd.jupyter.widget-view+json",
              "application/vnd.jupyter.widget-state+json", "application/pdf", "text/x\"onload=\"pwned()", mal):
    for valeur in (7, ["a", {"b": 1}], {"a": 1}, mal, None):
        display({sorte: valeur}, raw=True)
moyenne, unite = 3.0, "ms"
