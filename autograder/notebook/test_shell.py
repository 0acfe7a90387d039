"""The trusted side: run test cells as plain Python, each one's last expression being its mark.

    python -P -m autograder.notebook.test_shell REQUEST RESULT     (in a clean folder: labo.py, data files)

No code of the student runs in this process: it sees their answers as plain values, and launches labo.py.
The result is written after each cell.
"""

from __future__ import annotations

import ast
import contextlib
import importlib
import io
import json
import os
import signal
import sys
import traceback
from collections.abc import Container, Iterator
from pathlib import Path
from typing import Any

from autograder.launch.warm.client import Used
from autograder.leftovers import end_with_parent
from autograder.notebook.plain import decode
from autograder.notebook.student_shell import shorten, write

OUTPUT_LIMIT = 64 * 1024


class Ended(BaseException):
    """We are asked to end (SIGTERM): leave every launch and folder in order, and run no other cell."""


def _end(*_: object) -> None:
    raise Ended


def main() -> None:
    signal.signal(signal.SIGTERM, _end)
    end_with_parent(signal.SIGTERM)
    with contextlib.suppress(Ended):
        run_cells()


def run_cells() -> None:
    request = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    results = Path(sys.argv[2])
    space: dict[str, Any] = {"__name__": "__main__"}
    space |= {name: decode(value) for name, value in request["answers"].items()}
    given = set(request["answers"])
    done: list[dict[str, Any]] = []
    theirs = set(os.listdir())   # what a test cell writes there later is a trial of its own, and not shown
    for cell in request["cells"]:
        write(results, {"done": done, "running": cell["id"]})
        missing = [name for name in cell["reads"] if name not in space and name not in given]
        if missing:  # an earlier test cell was to define it and did not come that far
            done.append({"id": cell["id"], "outcome": "blocked", "missing": missing[0], "stdout": ""})
        else:
            done.append({"id": cell["id"], **run_cell(cell["source"], space, theirs)})
    write(results, {"done": done, "running": None, "warm": Used.ever})


def run_cell(source: str, space: dict[str, Any], theirs: Container[str]) -> dict[str, Any]:
    """Run one test cell in `space`. Launches of other scripts than `theirs` are not for the student to see.

    outcome: "value" (with `value`: the number, or None), "failed" (TestFailed, or an assert of the
    author's), "not_graded" (NotGraded), "fault" (any other exception: the test is wrong, not the student).
    `report` is the structured report of the marks API, when the cell used it.
    """
    from autograder.verdict.outcome import NotGraded, TestFailed

    marks: Any = importlib.import_module("autograder.verdict.marks")
    marks.LAST = None
    stdout, stderr = io.StringIO(), io.StringIO()
    outcome: dict[str, Any]
    here = os.getcwd()
    try:
        with contextlib.redirect_stdout(stdout), contextlib.redirect_stderr(stderr):
            outcome = {"outcome": "value", "value": _number(_evaluate(source, space))}
    except TestFailed as error:
        outcome = {"outcome": "failed", "message": str(error)}
    except AssertionError as error:
        outcome = {"outcome": "failed", "message": str(error)}
    except NotGraded as error:
        outcome = {"outcome": "not_graded", "message": str(error)}
    except Ended:
        raise
    except BaseException as error:  # SystemExit too: a test cell has no reason to leave
        where = "".join(traceback.format_exception(error)[-3:])
        outcome = {
            "outcome": "fault",
            "message": f"{type(error).__name__}: {error}",
            "detail": shorten(where, 4000),
        }
    finally:
        os.chdir(here)
    # stderr costs nothing here: nbgrader would read it as a failed test.
    outcome |= {
        "stdout": shorten(stdout.getvalue(), OUTPUT_LIMIT),
        "stderr": shorten(stderr.getvalue(), 4000),
    }
    report = _report(marks.LAST)
    if report is not None:
        report["launches"] = [one for one in report["launches"] or () if one["script"] in theirs]
    return outcome | {"report": report}


def _evaluate(source: str, space: dict[str, Any]) -> Any:
    """Execute `source`; the value of its last statement if that is an expression, else None."""
    tree = ast.parse(source, "cellule de test")
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "cellule de test", "exec"), space)
    if not isinstance(last, ast.Expr):
        return None
    return eval(compile(ast.Expression(last.value), "cellule de test", "eval"), space)


def _number(value: Any) -> float | None:
    """None (all the points, as nbgrader has it) or a finite number from 0 on; nbgrader gives full marks to
    the rest.
    """
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < float("inf"):
        raise ValueError(f"a test cell ends with its points, not with {value!r}")
    return float(value)


def _report(last: Any) -> dict[str, Any] | None:
    if last is None:
        return None
    said = ("points", "max_points", "status", "message", "advice", "flags", "diagnosis")
    keys = (*said, "suspicions", "timed", "launches")
    return {key: _plain(getattr(last, key, None)) for key in keys}


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, str | int | float | bool):
        return value
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    return list(_items(value))


def _items(value: Any) -> Iterator[Any]:
    with contextlib.suppress(TypeError):
        yield from (_plain(item) for item in value)


if __name__ == "__main__":
    main()
