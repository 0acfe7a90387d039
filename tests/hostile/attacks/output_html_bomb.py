"""Shows HTML whose unclosed tags are opened again in each paragraph: a few kilobytes are hours of cleaning.

What is cleaned is well nested first, and not deep; a page's HTML is bounded.
"""
# expect: score=2 flags=none

# %% cell reponse
from IPython.display import display
n = 60_000
h = "<p>" + "".join(f"<b a={i}>" for i in range(n // 20))
display({"text/html": h + "<p>x" * ((n - len(h)) // 4), "text/plain": "x"}, raw=True)
display({"text/markdown": h[:9_000] + "<p>x" * 2_000}, raw=True)
moyenne, unite = 3.0, "ms"
