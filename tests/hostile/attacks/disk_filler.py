"""Fills the disk: its folder, /tmp, /dev/shm, wherever a file can be opened; one big file, then many.

What can be written in the box is a sized tmpfs; file sizes are limited too.
"""
# expect: score=0|2|not_graded flags=tampering
import json, os
print("somme", sum(json.loads(os.environ.get("MCI_LIGNES", "[1, 2]"))), flush=True)
import itertools, tempfile
bloc = b"\1" * (4 << 20)
ecrit = 0
for dossier in (".", "/tmp", tempfile.gettempdir(), "/dev/shm", "/var/tmp", "/run", "@OUTSIDE@"):
    for numero in itertools.count():
        try:
            with open(os.path.join(dossier, f"plein-@TOKEN@-{numero}"), "wb", 0) as fichier:
                while fichier.tell() < 3 << 30:
                    ecrit += fichier.write(bloc)
                    if ecrit > 3 << 30:
                        print("STOLEN: 3 GiB of the disk", flush=True)
                        os._exit(0)
        except OSError:
            break
