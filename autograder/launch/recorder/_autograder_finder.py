"""Has the modules that a rank loads hooked, then leaves nothing to be found (rules: see sitecustomize.py)."""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


OURS = ("cuda", "finder", "guard", "marks", "mode", "nccl", "ops", "place", "torch_cuda", "witness")


def finder(recorder: Any, hooks: dict) -> Any:
    """For sys.meta_path: lets a module of `hooks` load as usual, then has it hooked before anyone has copied
    its names. Once all are hooked it is gone; until then it holds nothing that one finds by looking at it.
    """
    class Finder:
        @staticmethod
        def find_spec(name: str, path: Any = None, target: Any = None) -> Any:
            if name not in hooks:
                return None
            try:
                spec = sys.modules["_frozen_importlib_external"].PathFinder.find_spec(name, path)
                load = spec.loader.exec_module

                def exec_module(module: Any) -> None:
                    del spec.loader.exec_module
                    load(module)
                    try:
                        hooks.pop(name)(recorder, module)
                        if not hooks:
                            sys.meta_path.remove(found)
                            hide()
                    except Exception:
                        pass

                spec.loader.exec_module = exec_module
                return spec
            except Exception:
                return None

    found: Any = Finder()
    return found


def hide() -> None:
    """Take our modules out of sys.modules, but for empty ones in the place of those that Python looks for."""
    for name in OURS:   # known by name: looking at all modules touches memory that a warm launch shares
        sys.modules.pop("_autograder_" + name, None)
    for name in ("sitecustomize", "_autograder_marks"):
        sys.modules[name] = type(sys)(name)
