"""Raises its own limits, dumps a core of a gigabyte, closes and duplicates descriptors without end, nests processes.

Hard limits cannot be raised; no core is written.
"""
# expect: score=0|2 flags=tampering
import json, os
print("somme", sum(json.loads(os.environ.get("MCI_LIGNES", "[1, 2]"))), flush=True)
import resource
for nom in ("RLIMIT_NPROC", "RLIMIT_FSIZE", "RLIMIT_AS", "RLIMIT_CPU", "RLIMIT_NOFILE"):
    quoi = getattr(resource, nom)
    doux, dur = resource.getrlimit(quoi)
    print(nom, doux, dur)
    if dur == resource.RLIM_INFINITY and nom != "RLIMIT_CPU" and nom != "RLIMIT_AS":
        print("STOLEN: no limit for", nom, flush=True)
    try:
        resource.setrlimit(quoi, (dur, resource.RLIM_INFINITY))
        if dur != resource.RLIM_INFINITY:
            print("STOLEN: raised", nom, flush=True)
    except (ValueError, OSError):
        pass
resource.setrlimit(resource.RLIMIT_CORE, (resource.getrlimit(resource.RLIMIT_CORE)[1],) * 2)
try:
    while True:
        os.dup(1)
except OSError:
    pass
gros = bytearray(200 << 20)
os.abort()
