"""Run a student's own cells apart, in a writable copy of what was handed in, and bring back data only.

What crosses back: outputs, plain answer values, and the declared files that are regular and of a sane
size. The process that runs the student's code is one command in one folder, so that a box can be put
around it.
"""

from __future__ import annotations

import json
import os
import shutil
import stat
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nbformat import NotebookNode

from autograder.messages import text
from autograder.notebook.apart import clean_environment, run_module
from autograder.notebook.plain import decode
from autograder.notebook.result import NOT_THE_COPY
from autograder.verdict.personal import STUDENT
from autograder.verdict.plain_text import MAX_BYTES

MAX_FILE = MAX_BYTES  # of one file handed in
MAX_RESULT = 64_000_000
MAX_COPIED = 50_000_000
OUTPUT_LIMIT = 64 * 1024  # characters kept of one cell's stream: head and tail
_RUN_ROLES = ("answer", "file", "plain", "locked")

Outputs = list[dict[str, Any]]


@dataclass(frozen=True)
class StudentRun:
    """What the student's side left. `absent` maps a name without a usable value to why (see plain.py)."""

    cells: dict[str, Outputs] = field(default_factory=dict)
    values: dict[str, Any] = field(default_factory=dict)
    absent: dict[str, str] = field(default_factory=dict)
    files: dict[str, bytes] = field(default_factory=dict)  # the declared ones that are there
    stopped: str | None = None  # why it did not come to its end, in French
    duration_s: float = 0.0


def run_student(
    notebook: NotebookNode, roles: Mapping[str, str], names: Iterable[str], folder: Path | None,
    data: Iterable[Path] = (), limit_s: float = 120.0, skip: Iterable[str] = (),
    files: Iterable[str] = ("labo.py",), student: str | None = None,
) -> StudentRun:  # fmt: skip
    """Run the cells of a repaired `notebook`, in order.

    `roles` is the repair's; `names` are the answers to bring back; `folder` is the copy, `data` the
    assignment's own files, `files` the names of those that a student hands in; the cells in `skip` are not
    run (the cell that writes a file, when the file that was handed in is what counts). `student`: whose
    numbers the questions are asked with, where they are not everybody's (it is the solution that reads them).
    """
    skip, files = set(skip), list(files)
    with tempfile.TemporaryDirectory(prefix="autograder-", ignore_cleanup_errors=True) as box:
        base = Path(box).resolve()
        work, desk = base / "work", base / "desk"
        work.mkdir()
        desk.mkdir()
        if folder is not None:
            copy_files(folder, work)
        for path in data:
            if path.name in files and (work / path.name).is_file():
                continue  # given to be changed: theirs counts
            shutil.copyfile(path, work / path.name)
        cells = [
            {"id": cell.id, "source": cell.source}
            for cell in notebook.cells
            if cell.cell_type == "code" and roles.get(cell.id) in _RUN_ROLES and cell.id not in skip
        ]
        request = {
            "cells": cells,
            "names": sorted(set(names)),
            "output_limit": OUTPUT_LIMIT,
            "messages": _notes(),
        }
        (desk / "request.json").write_text(json.dumps(request), encoding="utf-8", errors="surrogatepass")
        env = clean_environment(HOME=str(desk), IPYTHONDIR=str(desk / "ipython"), TMPDIR=str(desk))
        env |= {STUDENT: student} if student is not None else {}
        arguments = [str(desk / "request.json"), str(desk / "result.json")]
        done = run_module(
            "autograder.notebook.student_shell", arguments, work, env, limit_s, base / "log.txt"
        )
        result = _read_result(desk / "result.json")
        found = read_files(work, files)
    return _student_run(result, done.timed_out, done.exit_code, found, done.duration_s, base, limit_s)


def _notes() -> dict[str, str]:
    return {"launch": text("grading.launch-not-rerun"), "output": text("grading.output-stopped")}


def _student_run(
    result: dict[str, Any], timed_out: bool, code: int | None, files: dict[str, bytes], duration: float,
    base: Path, limit_s: float,
) -> StudentRun:  # fmt: skip
    cells = {str(ident): _outputs(outputs, base) for ident, outputs in _table(result.get("cells")).items()}
    stopped = None
    running = result.get("running")
    if timed_out:
        stopped = text("grading.cell-too-long", s=round(limit_s))
    elif code != 0:
        stopped = text("grading.kernel-died", code=code)
    if stopped and isinstance(running, str):
        cells[running] = [{"output_type": "stream", "name": "stderr", "text": stopped + "\n"}]
    values: dict[str, Any] = {}
    absent: dict[str, str] = {}
    for name, answer in _table(result.get("values")).items():
        try:
            if "absent" in answer:
                absent[str(name)] = str(answer["absent"])[:80]
            else:
                values[str(name)] = decode(answer["value"])
        except (ValueError, TypeError, KeyError):
            absent[str(name)] = "size"
    return StudentRun(cells, values, absent, files, stopped, duration)


def _table(value: object) -> dict[Any, Any]:
    return value if isinstance(value, dict) else {}


def _read_result(path: Path) -> dict[str, Any]:
    data = read_regular(path, MAX_RESULT)
    if data is None:
        return {}
    try:
        return _table(json.loads(data.decode("utf-8", errors="replace")))
    except (ValueError, RecursionError):
        return {}


def _outputs(outputs: object, base: Path) -> Outputs:
    """The outputs as a notebook holds them; anything else that a forged result holds is dropped."""
    kept: Outputs = []
    for output in outputs if isinstance(outputs, list) else []:
        if not isinstance(output, dict):
            continue
        kind = output.get("output_type")
        if kind == "stream":
            name = "stderr" if output.get("name") == "stderr" else "stdout"
            kept.append({"output_type": kind, "name": name, "text": _hide(str(output.get("text", "")), base)})
        elif kind == "error":
            lines = output.get("traceback")
            lines = [_hide(str(line), base) for line in lines] if isinstance(lines, list) else []
            error = {
                "ename": str(output.get("ename", "")),
                "evalue": _hide(str(output.get("evalue", "")), base),
            }
            kept.append({"output_type": kind} | error | {"traceback": lines})
        elif kind in ("execute_result", "display_data"):
            data = {str(k): v for k, v in _table(output.get("data")).items()}
            data = {k: _hide(v, base) if isinstance(v, str) else v for k, v in data.items()}
            shown: dict[str, Any] = {"output_type": kind, "data": data, "metadata": {}}
            kept.append(shown | ({"execution_count": None} if kind == "execute_result" else {}))
    return kept


def _hide(content: str, base: Path) -> str:
    """Without the paths of the grader's temporary folder."""
    return (
        content.replace(f"{base / 'work'}{os.sep}", "")
        .replace(str(base / "work"), ".")
        .replace(str(base), "…")
    )


def read_regular(path: Path, limit: int) -> bytes | None:
    """The bytes of a regular file of at most `limit` bytes; None for anything else (absent, link, pipe,
    folder).
    """
    try:
        if not stat.S_ISREG(path.lstat().st_mode) or path.lstat().st_size > limit:
            return None
        # O_NOFOLLOW, where it is known: the file could have become a link since.
        with open(
            os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)), "rb"
        ) as file:
            return file.read(limit)
    except OSError:
        return None


def read_files(folder: Path, names: Iterable[str]) -> dict[str, bytes]:
    """Those of `names` that are regular files of a sane size in `folder`."""
    found = {name: read_regular(folder / name, MAX_FILE) for name in names}
    return {name: data for name, data in found.items() if data is not None}


def copy_files(folder: Path, work: Path) -> None:
    """Copy the regular files of a submission, writable (copies come read-only), without its notebooks and
    links.
    """
    total = 0
    for place, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if name not in NOT_THE_COPY)
        for name in sorted(files):
            path = Path(place, name)
            if name in NOT_THE_COPY or name.endswith(".ipynb") or not stat.S_ISREG(path.lstat().st_mode):
                continue
            total += path.lstat().st_size
            if total > MAX_COPIED:
                return
            target = work / path.relative_to(folder)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)
