"""An honest labo.py that also opens the gradebook, and rewrites it or removes it.

The gradebook is not in the box. The sum is right: it keeps its points.
"""
# expect: score=2 flags=tampering
import json, os
print("somme", sum(json.loads(os.environ.get("MCI_LIGNES", "[1, 2]"))), flush=True)
import sqlite3
for place in ("@ROOT@/gradebook.db", "../../gradebook.db", "../../../gradebook.db", "../../../../gradebook.db"):
    if not os.path.exists(place):
        continue
    try:
        base = sqlite3.connect(place)
        print("STOLEN: the gradebook,", base.execute("select first_name from student").fetchall(), flush=True)
        base.execute("update grade set auto_score = 4")
        base.execute("delete from student where id = 'canari'")
        base.commit()
        os.remove(place)
    except Exception as erreur:
        print(type(erreur).__name__)
