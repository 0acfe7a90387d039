"""Prints what is slow to search: near misses of the expected text, digits, brackets and spaces by the ten thousand.

The search is linear enough: the test cell ends in time, and finds nothing.
"""
# expect: score=0
# harmless

import sys
for bout in ("somme ", "somme", "1", " ", "[", "-", ".", "e", "1.", "1e", "[1, ", "\\", "\x1b[", "File \"a\", line 1, in ", "é"):
    print(bout * (4000 // len(bout)))
print("Traceback (most recent call last):\n" + '  File "labo.py", line 1, in x\n' * 100, file=sys.stderr)
print("somme " * 1500 + "1" * 1500, file=sys.stderr)
raise RuntimeError("[rank0]: " * 1000)
