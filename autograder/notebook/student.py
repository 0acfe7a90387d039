"""Run a student's own cells apart, in a writable copy of what was handed in, and bring back data only.

What crosses back: outputs, plain answer values, and the declared files that are regular and of a sane
size. The process that runs the student's code is one command in one folder, so that a box can be put
around it.
"""

from __future__ import annotations

import contextlib
import errno
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

from autograder.launch import untrusted
from autograder.launch.box import Box
from autograder.launch.faults import NEARLY_FULL
from autograder.leftovers import scratch
from autograder.messages import text
from autograder.notebook.apart import boxed_environment, clean_environment, run_module
from autograder.notebook.outputs import Outputs, outputs_of
from autograder.notebook.plain import decode
from autograder.notebook.result import NOT_THE_COPY
from autograder.verdict.personal import STUDENT
from autograder.verdict.plain_text import MAX_BYTES

MAX_FILE = MAX_BYTES  # of one file handed in
MAX_RESULT = 40_000_000  # student_shell.py keeps less
MAX_COPIED = 50_000_000
OUTPUT_LIMIT = 64 * 1024  # characters kept of one cell's stream: head and tail
_RUN_ROLES = ("answer", "file", "plain", "locked")

@dataclass(frozen=True)
class StudentRun:
    """What the student's side left. `absent` maps a name without a usable value to why (see plain.py)."""

    cells: dict[str, Outputs] = field(default_factory=dict)
    values: dict[str, Any] = field(default_factory=dict)
    absent: dict[str, str] = field(default_factory=dict)
    files: dict[str, bytes] = field(default_factory=dict)  # the declared ones that are there
    stopped: str | None = None  # why it did not come to its end, in French
    duration_s: float = 0.0
    warm: bool = False  # a warm server forked it


def run_student(
    notebook: NotebookNode, roles: Mapping[str, str], names: Iterable[str], folder: Path | None,
    data: Iterable[Path] = (), limit_s: float = 120.0, skip: Iterable[str] = (),
    files: Iterable[str] = ("labo.py",), student: str | None = None, sandbox: bool = False,
    server: str | None = None,
) -> StudentRun:  # fmt: skip
    """Run the cells of a repaired `notebook`, in order.

    `roles` is the repair's; `names` are the answers to bring back; `folder` is the copy, `data` the
    assignment's own files, `files` the names of those that a student hands in; the cells in `skip` are not
    run (the cell that writes a file, when the file that was handed in is what counts). `student`: whose
    numbers the questions are asked with, where they are not everybody's (it is the solution that reads them).
    `sandbox`: in a box (see launch/box.py). `server`: a warm server's socket (see launch/warm).
    """
    skip, files = set(skip), list(files)
    with scratch() as base:
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
        clean = boxed_environment if sandbox else clean_environment
        env = clean(HOME=str(desk), IPYTHONDIR=str(desk / "ipython"), TMPDIR=str(desk))
        env |= {STUDENT: student} if student is not None else {}
        arguments = [str(desk / "request.json"), str(desk / "result.json")]
        back = (desk / "result.json", *(work / name for name in files))
        box = Box((work, desk), (work, desk), back=back, wall_s=limit_s, gpus=True) if sandbox else None
        done = run_module(
            "autograder.notebook.student_shell", arguments, work, env, limit_s, base / "log.txt", box,
            server,
        )  # fmt: skip
        result, whole = _read_result(desk / "result.json")
        found = read_files(work, files)
        full_is_nobody_s_fault(base)
    stopped = None
    if not whole:
        stopped = text("grading.told-too-much")
    elif done.timed_out:
        stopped = text("grading.cell-too-long", s=round(limit_s))
    elif done.exit_code != 0:
        stopped = text("grading.kernel-died", code=done.exit_code)
    outputs = outputs_of(result["cells"], [cell["id"] for cell in cells], base)
    if stopped and result["running"] in {cell["id"] for cell in cells}:
        outputs[result["running"]] = [{"output_type": "stream", "name": "stderr", "text": stopped + "\n"}]
    return StudentRun(outputs, *_answers(result["values"]), found, stopped, done.duration_s, done.warm)


def nearly_full(place: Path | None = None) -> bool:
    """Whether the disk that copies are run on has no room left: what was written there may be cut."""
    return shutil.disk_usage(place or tempfile.gettempdir()).free < NEARLY_FULL


def full_is_nobody_s_fault(place: Path) -> None:
    """OSError where the disk is full after a copy ran there: a file that could not be written is no zero."""
    if nearly_full(place):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(place))


def _notes() -> dict[str, str]:
    return {"launch": text("grading.launch-not-rerun"), "output": text("grading.output-stopped")}


def _answers(told: dict[Any, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """The values that came, and why the others have none."""
    values: dict[str, Any] = {}
    absent: dict[str, str] = {}
    for name, answer in told.items():
        try:
            if "absent" in answer:
                absent[str(name)] = untrusted.readable(answer["absent"])[:80]
            else:
                values[str(name)] = decode(answer["value"])
        except (ValueError, TypeError, KeyError):
            absent[str(name)] = "size"
    return values, absent


def _table(value: object) -> dict[Any, Any]:
    return value if isinstance(value, dict) else {}


def _read_result(path: Path) -> tuple[dict[str, Any], bool]:
    """What student_shell.py wrote, line by line, and whether that is all: a line that is cut or forged tells
    nothing, and no more is read than it ever writes.
    """
    told: dict[str, Any] = {"cells": {}, "values": {}, "running": None}
    data, whole = untrusted.read(path, MAX_RESULT)
    for line in data.split(b"\n"):
        try:
            learnt = _table(json.loads(line.decode("utf-8", errors="replace")))
        except (ValueError, RecursionError):
            continue
        told["cells"] |= _table(learnt.get("cells"))
        told["values"] = _table(learnt.get("values", told["values"]))
        running = learnt.get("running", told["running"])
        told["running"] = running if isinstance(running, str) else None
    return told, whole


def read_regular(path: Path, limit: int) -> bytes | None:
    """The bytes of a regular file of at most `limit` bytes; None for anything else (absent, link, pipe,
    folder).
    """
    try:
        if path.is_symlink():   # where the system cannot be told not to follow one
            return None
        with untrusted.regular(path) as (file, size):
            return file.read(limit) if size <= limit else None
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
    found: list[tuple[int, Path]] = []
    for place, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if name not in NOT_THE_COPY)
        for path in (Path(place, name) for name in files if name not in NOT_THE_COPY):
            with contextlib.suppress(OSError):
                status = path.lstat()
                if stat.S_ISREG(status.st_mode) and path.suffix != ".ipynb":
                    found.append((status.st_size, path))
    total = 0
    for size, path in sorted(found):  # the small ones first: a huge one must not keep a script out
        total += size
        if total > MAX_COPIED:
            return
        target = work / path.relative_to(folder)
        with contextlib.suppress(PermissionError, FileNotFoundError):
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)
