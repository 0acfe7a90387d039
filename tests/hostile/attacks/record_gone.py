"""Removes the folder of the record, and puts a file in its place, then sleeps.

A launch without its record is judged without it.
"""
# expect: score=0|not_graded flags=tampering

import os, shutil, time
for numero in os.listdir("/proc/self/fd"):
    try:
        chemin = os.readlink("/proc/self/fd/" + numero)
    except OSError:
        continue
    if chemin.endswith("rank0.jsonl"):
        dossier = os.path.dirname(chemin)
        shutil.rmtree(dossier)
        for dossier in (dossier, os.path.join(os.path.dirname(dossier), "logs")):
            try:
                open(dossier, "w").close()
            except OSError as erreur:
                print(type(erreur).__name__)
time.sleep(600)
