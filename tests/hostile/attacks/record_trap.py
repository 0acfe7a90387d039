"""Turns what the launcher reads and writes of a rank into traps: a pipe named as the demand for stacks, links, no folder.

The rank finds the folder by its own descriptors, then sleeps. Nobody waits on a pipe or follows a link; the
launch ends at its time limit.
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
        os.remove(chemin)
        os.mkfifo(os.path.join(dossier, "dump"))
        os.mkfifo(chemin)
        os.symlink("@ROOT@/gradebook.db", os.path.join(dossier, "flight0.json"))
        for nom in ("rank1.jsonl", "rankx.jsonl", "rank\n"):
            os.symlink("/dev/zero", os.path.join(dossier, nom))
time.sleep(600)
