"""Brings sitecustomize.py, usercustomize.py and conftest.py, which Python or pytest run by themselves.

They are not declared: they never come near the launch nor the tests. An honest labo.py keeps its marks.
"""
# expect: score=2 flags=none

# %% file sitecustomize.py
import os
try:
    os.write(1, b"STOLEN: sitecustomize was run by the trusted side\n")
    open("@OUTSIDE@/site-@TOKEN@", "w").close()
except OSError:
    pass
# %% file usercustomize.py
open("@OUTSIDE@/user-@TOKEN@", "w").close()
# %% file conftest.py
open("@OUTSIDE@/conftest-@TOKEN@", "w").close()
# %% labo
import json, os
print("somme", sum(json.loads(os.environ.get("MCI_LIGNES", "[1, 2]"))))
