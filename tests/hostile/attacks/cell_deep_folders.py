"""Makes folders nested thousands deep wherever it may, beside the answers and labo.py, with rights that forbid to look.

Nobody walks through them: the declared files are read by their names.
"""
# expect: score=4|not_graded

# %% cell reponse
import os
moyenne, unite = 3.0, "ms"
ici = os.getcwd()
for place in (ici, os.path.join(ici, "..", "desk"), "/tmp"):
    try:
        os.chdir(place)
        for _ in range(3000):
            os.mkdir("d")
            os.chdir("d")
        os.chmod("/".join([place, "d", "d"]), 0)
    except OSError as erreur:
        print(type(erreur).__name__)
os.chdir(ici)
# %% labo
import json, os
print("somme", sum(json.loads(os.environ.get("MCI_LIGNES", "[1, 2]"))))
