"""The parts of launch/ that the server shares with the ways without it: the supervisor, the rights of a box,
the recorder's code, what a server was started from.
"""

from __future__ import annotations

import os
import sys
from importlib.util import module_from_spec, spec_from_file_location

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

LAUNCH = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# In the order in which they are loaded.
FINDER = "_autograder_finder"
RECORDER = ("_autograder_ops", FINDER, "_autograder_guard", "_autograder_marks", "sitecustomize")


def _module(name: str, *path: str) -> Any:
    spec: Any = spec_from_file_location(name, os.path.join(LAUNCH, *path))
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


rights = _module("_warm_rights", "inside", "_box_rights.py")
supervisor = _module("_warm_supervisor", "supervisor.py")
state = _module("_warm_state", "warm", "state.py")


def recorder() -> dict[str, tuple[Any, Any]]:
    """The recorder's modules that every rank loads; the code of the last one, which starts the recorder. What
    the others hold is the same in every process, so they are executed here, and are not to be found.
    """
    found: dict[str, tuple[Any, Any]] = {}
    before = {name: sys.modules.get(name) for name in RECORDER}   # of the server's own start
    for name in RECORDER:
        path = os.path.join(LAUNCH, "recorder", name + ".py")
        module: Any = module_from_spec(spec_from_file_location(name, path))   # type: ignore[arg-type]
        with open(path, "rb") as file:
            code = compile(file.read(), path, "exec", dont_inherit=True)
        if name != RECORDER[-1]:
            sys.modules[name] = module
            exec(code, module.__dict__)
        found[name] = module, code
    finder: Any = sys.modules["_frozen_importlib_external"].PathFinder
    elsewhere = [one for one in sys.path if os.path.abspath(one or ".") != os.path.join(LAUNCH, "recorder")]
    found[RECORDER[-1]][0].ALONE = finder.find_spec(RECORDER[-1], elsewhere) is None
    for name, module in before.items():
        if module is None:
            sys.modules.pop(name, None)
        else:
            sys.modules[name] = module
    return found


def dumpable(yes: bool) -> None:
    """Whether processes of our uid may look into this one."""
    rights.prctl(rights.SET_DUMPABLE, rights.ctypes.c_ulong(yes))
