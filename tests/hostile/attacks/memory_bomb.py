"""Takes all the memory that there is, touching each page, in several processes.

The box limits the address space: MemoryError, for the student alone.
"""
# expect: score=0|2|not_graded flags=tampering
import json, os
print("somme", sum(json.loads(os.environ.get("MCI_LIGNES", "[1, 2]"))), flush=True)
import mmap
for _ in range(3):
    os.fork()
pris = []
while True:
    pris.append(mmap.mmap(-1, 64 * 1024 * 1024))
    pris[-1][::4096] = b"x" * len(pris[-1][::4096])
    if len(pris) > 512:
        print("STOLEN: 32 GiB", flush=True)
        break
