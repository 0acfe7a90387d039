"""Looks beside the autograder package, where its repository may hold source/, a gradebook, a course key, .git.

The box holds the package, not what lies around it.
"""
# expect: score=2 flags=tampering
import json, os
print("somme", sum(json.loads(os.environ.get("MCI_LIGNES", "[1, 2]"))), flush=True)
import sysconfig
places = {sysconfig.get_path("purelib"), *__import__("sys").path}
try:
    import autograder
    places.add(os.path.dirname(os.path.dirname(autograder.__file__)))
except ImportError:
    pass
for place in places:
    for nom in ("source", "gradebook.db", "course.yaml", ".git", ".autograder", "tests", "submitted", "examples", "release"):
        chemin = os.path.join(place, nom)
        if place != os.getcwd() and os.path.exists(chemin) and (nom != "tests" or os.path.exists(chemin + "/wrong")):
            print("STOLEN: sees", chemin, flush=True)
