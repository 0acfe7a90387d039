"""Forges answers in its shell's result file that can be read and not be written again: huge numbers and texts.

They are bounded as those of the shell are: an answer of that size has no value.
"""
# expect: score=0 flags=none

# %% cell reponse
import json, os, sys
faux = {"moyenne": {"value": 10**4000}, "unite": {"value": {"list": ["x" * 19_999] * 40}}}
open(sys.argv[2], "a").write(json.dumps({"values": faux}) + "\n")
os._exit(0)
