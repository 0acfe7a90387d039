"""An honest labo.py that also prints its environment and that of every process, its parents up to 1 first.

No variable of the grader's is inherited, and no process of the grader's can be seen.
"""
# expect: score=2 flags=tampering
import json, os
print("somme", sum(json.loads(os.environ.get("MCI_LIGNES", "[1, 2]"))), flush=True)
print(dict(os.environ))
numero = os.getppid()
chaine = []
while numero > 0 and numero not in chaine:
    chaine.append(numero)
    try:
        numero = int(open(f"/proc/{numero}/stat").read().rpartition(")")[2].split()[1])
    except (OSError, ValueError):
        break
for numero in [*chaine, 1, *filter(str.isdigit, os.listdir("/proc"))]:
    for fichier in ("environ", "cmdline", "cgroup", "mountinfo"):
        try:
            lu = open(f"/proc/{numero}/{fichier}", "rb").read().replace(b"\0", b" ").decode("utf-8", "replace")
        except OSError:
            continue
        print(lu[:3000].replace("\n", " "), flush=True)
        if fichier != "mountinfo" and ("@ROOT@" in lu or "victime-@TOKEN@" in lu):
            print("STOLEN: a process of the grader's", lu, flush=True)
