"""Gives answers whose repr, str, len, iter or class attributes raise, loop, exit or flood.

The value is refused by its type; whatever its methods do is bounded like the cell that made it.
"""
# expect: score=0 flags=none
# harmless

# %% cell reponse
import os
class Mal:
    def __repr__(self): raise SystemExit(0)
    __str__ = __len__ = __iter__ = __bool__ = __float__ = __index__ = __repr__
    def tolist(self): return [os._exit(0)]
    __module__ = "numpy.faux"
Mal.__name__ = "\x1b[2J" * 50
moyenne = Mal()
class Long:
    def __repr__(self): return "x" * 50_000_000
unite = Long()
unite
