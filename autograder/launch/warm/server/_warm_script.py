"""Run a script in a process that the server forked, as `python -u script` would."""

from __future__ import annotations

import _io
import gc
import os
import sys

from _warm_parts import FINDER, RECORDER, dumpable  # type: ignore[import-not-found]
from _warm_process import ended_by, execute, finish, set_environment  # type: ignore[import-not-found]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any

    from _warm_process import Fresh

    Recorder = tuple[Any, dict[str, Any], Any]   # it, its hooks, what hides it

Module = type(sys)


def run(fresh: Fresh, command: list[str], env: dict[str, str], script: str) -> None:
    path = os.path.abspath(script)
    try:
        with open(path, "rb") as file:
            code = compile(file.read(), path, "exec", dont_inherit=True)
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        execute(command, env)
    dumpable(True)   # as exec leaves it
    set_environment(env)
    env.clear()   # a script may look at the frames that it is called from
    _streams(unbuffered=command[1] == "-u")
    sys.argv[:] = [script]
    sys.orig_argv[:] = command
    _renew(fresh)
    fresh.modules.hide_again()
    _watch_imports(fresh, _recorder(fresh))
    sys.path[:] = [os.path.dirname(os.path.realpath(path)), *fresh.path]
    main = _main(path)
    try:
        exec(code, main.__dict__)
    except BaseException as error:
        finish(ended_by(error, own=1))
    finish(0)


def run_module(fresh: Fresh, command: list[str], env: dict[str, str]) -> None:
    """`python -P -m module arguments`, for a module that the server has loaded."""
    import runpy

    dumpable(True)
    set_environment(env)
    _streams(unbuffered=False)
    name, arguments = command[3], command[4:]
    sys.argv[:] = ["-m", *arguments]
    sys.orig_argv[:] = command
    _renew(fresh)
    _watch_imports(fresh, None)
    sys.path[:] = fresh.path
    sys.modules["__main__"] = Module("__main__")
    fresh.modules.kept.pop(name)   # it is run, not imported
    try:
        runpy._run_module_as_main(name)   # type: ignore[attr-defined]
    except BaseException as error:
        finish(ended_by(error, own=1))
    finish(0)


def _streams(unbuffered: bool) -> None:
    """New ones: the server's own were not for us."""
    for number, name, errors in ((1, "stdout", "surrogateescape"), (2, "stderr", "backslashreplace")):
        raw: Any = _io.FileIO(number, "wb", closefd=False)
        raw.name = f"<{name}>"
        binary = raw if unbuffered else _io.BufferedWriter(raw)
        stream: Any = _io.TextIOWrapper(
            binary, encoding="utf-8", errors=errors, newline="\n", write_through=unbuffered,
            line_buffering=not unbuffered and number == 2)
        stream.mode = "w"
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


def _renew(fresh: Fresh) -> None:
    """What a fresh process draws or looks up for itself, in the modules that are loaded already. (Python's
    own `random` sees to it at each fork, torch's when it is imported.)
    """
    loaded = fresh.modules.kept.get
    numbers: Any = loaded("numpy.random.mtrand")
    if numbers is not None:
        numbers.seed()
    process: Any = loaded("multiprocessing.process")
    if process is not None:
        process.current_process()._config["authkey"] = process.AuthenticationString(os.urandom(32))
    files: Any = loaded("tempfile")
    if files is not None:
        files.tempdir = None


def _watch_imports(fresh: Fresh, recorder: Recorder | None) -> None:
    def arrived(names: list[str]) -> None:
        nonlocal recorder
        if "torch" in names:
            sys.modules["torch"].default_generator.seed()   # drawn by each process that loads it
        if recorder is not None:
            told, hooks, hide = recorder
            fresh.modules.hook(hooks, told, names)
            if not hooks:   # as the recorder's own finder does: nothing of it is left to be found
                recorder = None
                hide()

    fresh.modules.watch(arrived)
    gc.freeze()   # as the recorder does: this function is in no list of living objects


def _recorder(fresh: Fresh) -> Recorder | None:
    """Start the recorder as Python's start does; it, its hooks for what is loaded when it is imported, and
    what hides it once all of these are there. Nothing finds a module for them but our own finder.
    """
    found: list[Recorder] = []
    none = Module("finder")

    def finder(recorder: Any, hooks: dict[str, Any]) -> Any:
        found.append((recorder, hooks, hide))
        return none

    modules, fresh.recorder = fresh.recorder, {}   # a script may look at the frames that it is called from
    for name in RECORDER:
        sys.modules[name] = modules[name][0]
    sys.modules.pop(RECORDER[0])   # as the one that needs it does
    hide, modules[FINDER][0].finder = modules[FINDER][0].hide, finder
    last, code = modules.pop(RECORDER[-1])
    exec(code, last.__dict__)
    if none in sys.meta_path:
        sys.meta_path.remove(none)
    return found.pop() if found else None   # nothing is to be recorded


def _main(path: str) -> ModuleType:
    main = Module("__main__")
    loader = sys.modules["_frozen_importlib_external"].SourceFileLoader("__main__", path)
    main.__dict__.update(
        __doc__=None, __package__=None, __loader__=loader, __spec__=None, __annotations__={},
        __builtins__=sys.modules["builtins"], __file__=path, __cached__=None)
    sys.modules["__main__"] = main
    return main
