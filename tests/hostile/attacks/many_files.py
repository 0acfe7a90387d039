"""Makes files and folders without end: inodes, a path deeper than can be removed, names of any bytes.

The work folder is thrown away whole with the box.
"""
# expect: score=0|2|not_graded
import json, os
print("somme", sum(json.loads(os.environ.get("MCI_LIGNES", "[1, 2]"))), flush=True)
try:
    for numero in range(20_000):
        open(b"n-%d-\xff\n\x1b" % numero, "w").close()
    while True:
        os.mkdir("d" * 200)
        os.chdir("d" * 200)
except OSError as erreur:
    print(type(erreur).__name__)
