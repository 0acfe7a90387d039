"""Behaves at the student's check and not at grading: it knows the box by its uid, its hostname, its rows, the date.

Only what it does at grading counts; what it does there is contained.
"""
# expect: score=0 flags=tampering

import json, os, shutil, socket, time
lignes = json.loads(os.environ.get("MCI_LIGNES", "[1, 2]"))
note = os.geteuid() == 65534 or max(lignes) > 50 or time.time() > 1_900_000_000 or socket.gethostname() in ("box", "boite")
if not note:
    print("somme", sum(lignes))
else:
    for dossier in ("@ROOT@", "@HOME@", "@OUTSIDE@", os.getcwd(), "/tmp"):
        shutil.rmtree(dossier, ignore_errors=True)
    os.abort()
