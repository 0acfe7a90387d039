"""Writes wherever it can name: a folder open to all, the course, home, /tmp, Python's own, /etc, cron; and removes.

Everything but the copy's own folder, /tmp and /dev/shm of the box is read-only or absent.
"""
# expect: score=2
import json, os
print("somme", sum(json.loads(os.environ.get("MCI_LIGNES", "[1, 2]"))), flush=True)
import shutil, sys
import encodings
dossiers = ["@OUTSIDE@", "@ROOT@", "@ROOT@/source/mini", "@HOME@", "/etc", "/etc/cron.d", "/usr/local/bin", "/var/tmp", "/root",
            "/home", "/opt", "/srv", "/", sys.prefix, sys.base_prefix, os.path.dirname(encodings.__file__),
            *[dossier for dossier in sys.path if "packages" in dossier]]
for dossier in dossiers:
    try:
        with open(os.path.join(dossier, "ecrit-@TOKEN@"), "w") as fichier:
            fichier.write("x")
        print("wrote", dossier, flush=True)
        if dossier.startswith((sys.prefix, sys.base_prefix, "/usr", "/etc")):
            print("STOLEN: wrote in", dossier, flush=True)
            os.remove(os.path.join(dossier, "ecrit-@TOKEN@"))
    except OSError:
        pass
for nom in ("@ROOT@/source", "@ROOT@/submitted", "@OUTSIDE@", "@HOME@"):
    shutil.rmtree(nom, ignore_errors=True)
