"""Prints the right sum, then for ever, on both streams.

The launch is stopped at its output limit; what was printed before may count.
"""
# expect: score=0|2
# harmless
import json, os
print("somme", sum(json.loads(os.environ.get("MCI_LIGNES", "[1, 2]"))), flush=True)
import sys
while True:
    sys.stdout.write("z" * 4096)
    sys.stderr.write("\x1b[31m" * 800)
