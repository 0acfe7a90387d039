"""Attaches to its parents and to every process that it sees with ptrace and process_vm_readv.

Only processes of its own box can be seen, and the first of them, which tells how the others ended, cannot be traced.
"""
# expect: score=2 flags=tampering
import json, os
print("somme", sum(json.loads(os.environ.get("MCI_LIGNES", "[1, 2]"))), flush=True)
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
for numero in {int("@PARENT@"), *map(int, filter(str.isdigit, os.listdir("/proc")))} - {os.getpid()}:
    try:
        nom = open(f"/proc/{numero}/cmdline").read().replace("\0", " ")
    except OSError:
        nom = "?"
    if libc.ptrace(16, numero, None, None) == 0:
        libc.ptrace(17, numero, None, None)
        if "victime-@TOKEN@" in nom or "labo.py" not in nom:
            print("STOLEN: traced", numero, nom, flush=True)
