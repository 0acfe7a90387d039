"""Whether, at the end of a rank, its recorder is still the one that was put there, and what it dressed too.

Whoever finds the recorder in their own process can make it say what they like. What stays of that, other
functions than ours, is told by an event named `replaced`; and the last words are said by what stands in the
closures here, not by what a script may have put in its place. (Rules: see sitecustomize.py.)
"""

# ruff: noqa: SIM105  contextlib is not loaded yet, and could be a student's
from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

FREE = {"count", "gradients"}   # what changes in a recorder by itself
_FUNCTION = type(lambda: None)
_replace, _getpid, _join, _open, _write, _close = (
    os.replace, os.getpid, os.path.join, os.open, os.write, os.close)
_NEW = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_BINARY", 0)


def guard(recorder: Any, spaces: list[dict]) -> Callable[[], None]:
    """Give the recorder `place`, `flight` and `afresh`, and return what is to be done at the end of the rank.

    `place(modules, name, value)`: this must still be there then. `flight()`: write PyTorch's Flight Recorder,
    for good where it is the `last` time, until there is another process group (`afresh()`).
    `spaces`: the globals of our own modules.
    """
    kind, write = type(recorder), type(recorder).put
    digest, folder, rank, owner, stop = (
        kind.digest, recorder.folder, recorder.rank, recorder.owner, recorder.stop)
    placed: list = []
    functions: list = []
    trace: list = []
    done: list = []

    def place(modules: tuple, name: str, value: Any) -> None:
        placed.append((modules, name, value))
        for function in (value, getattr(value, "__init__", None)):
            if type(function) is _FUNCTION:
                functions.append((f"{modules[0]}.{name}", function, function.__code__, _cells(function)))
        if name == "_dump_fr_trace_json" and value is not None:
            trace.append(value)

    def flight(last: bool = False) -> None:
        try:
            if not trace or _getpid() != owner or done:
                return
            data = trace[0]()
            data = data.encode() if isinstance(data, str) else bytes(data)
            path, begun = _join(folder, f"flight{rank}.json"), 0
            number = _open(path + ".part", _NEW, 0o600)
            try:
                while data[begun:] and (count := _write(number, data[begun:])):
                    begun += count
            finally:
                _close(number)
            # Before it is there: a kill may come between.
            write(recorder, "flight", sum=digest(recorder, data).decode())
            _replace(path + ".part", path)
            if last:
                done.append(True)
        except Exception:
            pass

    def afresh() -> None:
        done.clear()

    def restored() -> Iterator[str]:
        """What was not ours any more, and is again."""
        if type(recorder) is not kind:
            yield "recorder"
            recorder.__class__ = kind
        for name in [*vars(recorder)]:
            if name not in FREE and vars(recorder)[name] is not own.get(name, vars):
                yield f"recorder.{name}"
                vars(recorder).pop(name)
        vars(recorder).update({name: value for name, value in own.items() if name not in FREE})
        for name, value in methods.items():
            if vars(kind).get(name) is not value:
                yield f"recorder.{name}"
                setattr(kind, name, value)
        for space, before in kept:
            for name, value in before.items():
                if space.get(name, vars) is not value:
                    yield f"recorder.{name}"
                    space[name] = value
        for name, function, code, cells in functions:
            if function.__code__ is not code or not _same(_cells(function), cells):
                yield name
                function.__code__ = code
        for modules, name, value in placed:
            for module in modules:
                if getattr(sys.modules.get(module), name, value) is not value:
                    yield f"{module}.{name}"

    def end() -> None:
        found: list = []
        try:
            found.extend(restored())
        except Exception:
            found.append("recorder")
        for what in dict.fromkeys(found):
            write(recorder, "event", name="replaced", line=None, detail={"what": what})
        flight()
        write(recorder, "end")
        try:
            stop.release()
        except Exception:
            pass

    recorder.place, recorder.flight, recorder.afresh = place, flight, afresh
    own, methods = dict(vars(recorder)), {
        name: value for name, value in vars(kind).items() if type(value) is _FUNCTION}
    kept = [(space, {name: value for name, value in space.items() if not name.startswith("__")})
            for space in [*spaces, globals()]]
    for name, value in (*methods.items(), *(item for _, before in kept for item in before.items())):
        if type(value) is _FUNCTION:
            functions.append((f"recorder.{name}", value, value.__code__, _cells(value)))
    return end


def _cells(function: Any) -> list:
    found = []
    for cell in function.__closure__ or ():
        try:
            found.append(cell.cell_contents)
        except ValueError:   # it is empty still
            found.append(_cells)
    return found


def _same(these: list, those: list) -> bool:
    return len(these) == len(those) and all(a is b for a, b in zip(these, those, strict=True))
