"""Opens the gradebook with sqlite3 and gives full marks to itself, 0 to the others.

The box of the student's cells holds no gradebook.
"""
# expect: score=0 flags=none

# %% cell reponse
import sqlite3, os
for place in ("@ROOT@/gradebook.db", "../../../gradebook.db", "../../gradebook.db", "../gradebook.db"):
    try:
        if not os.path.exists(place):
            continue
        base = sqlite3.connect(place)
        print("STOLEN: the gradebook,", base.execute("select first_name from student").fetchall())
        base.execute("update grade set auto_score = 4, manual_score = 4")
        base.execute("update student set first_name = 'pirate'")
        base.commit()
    except Exception as erreur:
        print(type(erreur).__name__)
