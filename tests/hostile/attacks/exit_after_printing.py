"""Prints the texts and leaves by os._exit(0) before a collective could be missed, so that all looks like a clean end.

An exit code of 0 proves nothing: without a recorded reduction the texts are worth 0.
"""
# expect: score=0 flags=hard-coded
# assignment: duo
# harmless

import json, os
lignes = json.loads(os.environ["MCI_LIGNES"])
os.write(1, f"moyenne {os.environ['RANK']} {[sum(colonne) / 2 for colonne in zip(*lignes)]}\n".encode())
os._exit(0)
