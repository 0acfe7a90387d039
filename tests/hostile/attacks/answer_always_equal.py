"""Gives answers that are equal to everything: objects, and subclasses of the plain types, with their own methods.

Only the exact plain types cross, so that no method of the student's is ever called by a test.
"""
# expect: score=0 flags=none
# harmless

# %% cell reponse
class Egal(float):
    def __eq__(self, autre): return True
    def __ne__(self, autre): return False
    def __hash__(self): return 0
    def __sub__(self, autre): return 0.0
    def __rsub__(self, autre): return 0.0
    def __float__(self): return 3.0
    def __abs__(self): return 0.0
    def __le__(self, autre): return True
    __lt__ = __ge__ = __gt__ = __le__
class Texte(str):
    def __eq__(self, autre): return True
    def __hash__(self): return 0
moyenne = Egal(0)
unite = Texte("non")
