"""Forges its shell's result file: half surrogates, terminal sequences, cells that are not its own, odd outputs.

Texts are made writable, cells that were not asked for are dropped.
"""
# expect: score=0 flags=none

# %% cell reponse
import json, os, sys
sorties = [{"output_type": "display_data", "data": {
    "text/plain": ["a", 3], "image/png": 7, "text/html": {"a": 1}, "image/svg+xml": ["<svg/>"],
    "application/vnd.jupyter.widget-view+json": "</script><script>pwned()</script>"}},
    {"output_type": ["stream"]}, {"output_type": "stream", "text": "\ud800"}, 3]
faux = {"moyenne": {"absent": "\ud800\x1b[2J\x1b[31mPWN"}, "unite": {"absent": "x\ny"}}
cellules = {"test-labo": [{"output_type": "execute_result", "data": {"text/plain": "2.0"}}], "../../x": [], "reponse": sorties}
open(sys.argv[2], "a").write(json.dumps({"values": faux, "cells": cellules, "running": ["a"]}) + "\n")
os._exit(0)
