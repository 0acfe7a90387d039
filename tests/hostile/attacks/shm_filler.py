"""Leaves shared memory, semaphores and message queues behind, as big as it can.

The box has an ipc namespace and a /dev/shm of its own, sized, that end with it.
"""
# expect: score=0|2|not_graded flags=tampering
import json, os
print("somme", sum(json.loads(os.environ.get("MCI_LIGNES", "[1, 2]"))), flush=True)
import ctypes
libc = ctypes.CDLL(None)
for numero in range(20):
    libc.shmget(0x414141 + numero, 64 << 20, 0o1666)
    libc.semget(0x414141 + numero, 10, 0o1666)
    libc.msgget(0x414141 + numero, 0o1666)
with open("/dev/shm/plein-@TOKEN@", "wb", 0) as fichier:
    for _ in range(1024):
        fichier.write(b"x" * (4 << 20))
print("STOLEN: 4 GiB of shared memory", flush=True)
