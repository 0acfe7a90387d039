"""Disturb `autograder grade` from outside: kill it, interrupt it, fill its disk. Run apart from the tests,

    python tests/disturbed.py PLAN.json

since it mounts and forks (one process has everything loaded: a grading then costs its work and no imports).
The plan is a list of steps; what each gave is printed as a JSON list. Steps, each with "root":

    {"do": "grade"}                              → {"code", "stderr", "s"}
    {"do": "kill", "signal": 9, "share": 0.4}    → {"code": None where killed, "stderr", "left", "s"}
                                                   (after this share of the last "grade", "after_s", or
                                                   "once" a process has this word in its command line)
    {"do": "whole"}                              → why a result or the gradebook cannot be read, or ""
    {"do": "by_hand"}                            → the marks that a grader gives in formgrader
    {"do": "touch"}                              → the copies change a little: they are examined again
    {"do": "mount", "mib": 6}                    → a disk of that size at root, for this process only
    {"do": "copy", "from": …}                    → a course into root
    {"do": "fill", "leave_kib": 100}             → a file that leaves so little room
    {"do": "free"}                               → that file is gone
    {"do": "temp", "path": …}                    → where temporary folders are made from now on
    {"do": "marks"}                              → all that the gradebook holds of the class
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path
from typing import Any

import psutil

BALLAST = "ballast.bin"
SOON_S = 20.0  # far more than the system takes to end the children of a dead process


def main(plan: str) -> None:

    steps = json.loads(Path(plan).read_text(encoding="utf-8"))
    print(json.dumps([STEPS[step["do"]](Path(step["root"]), step) for step in steps]))


def grade(root: Path, step: dict[str, Any]) -> dict[str, Any]:
    started = time.monotonic()
    pid, heard = _fork(root)
    _, status = os.waitpid(pid, 0)
    told = _told(status, heard, started)
    CALM.append(told["s"])
    return told


def kill(root: Path, step: dict[str, Any]) -> dict[str, Any]:
    started = time.monotonic()
    pid, heard = _fork(root)
    if "once" in step:
        _wait_for(step["once"])
    else:
        time.sleep(step["after_s"] if "after_s" in step else step["share"] * CALM[-1])
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, step.get("signal", signal.SIGKILL))
    _, status = os.waitpid(pid, 0)
    told = _told(status, heard, started)
    return told | {"left": _left(root, pid)}


def _fork(root: Path) -> tuple[int, Path]:
    handle, heard = tempfile.mkstemp(dir=os.environ["HEARD"])
    pid = os.fork()
    if pid == 0:
        code = 70
        try:
            os.setsid()
            os.chdir(root)
            signal.signal(signal.SIGINT, signal.default_int_handler)
            os.dup2(handle, 2)
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            from autograder import cli

            code = cli.main(["grade", *OPTIONS])
        except SystemExit as error:
            code = int(error.code or 0)
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)
    os.close(handle)
    return pid, Path(heard)


def _told(status: int, heard: Path, started: float) -> dict[str, Any]:
    code = os.waitstatus_to_exitcode(status)
    said = heard.read_text(encoding="utf-8", errors="replace")
    return {"code": code if code >= 0 else None, "stderr": said, "s": time.monotonic() - started}


def _wait_for(word: str) -> None:
    """Until some process has this word in its command line."""
    limit = time.monotonic() + 120
    while time.monotonic() < limit:
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                if word in process.cmdline():
                    return
        time.sleep(0.1)


def _left(root: Path, pid: int) -> list[str]:
    """The processes that the grading `pid` started and that are still there after a while."""
    limit = time.monotonic() + SOON_S
    while (left := list(_started_by(root, pid))) and time.monotonic() < limit:
        time.sleep(0.1)
    return left


def _started_by(root: Path, pid: int) -> Any:
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            mark = process.environ().get("AUTOGRADER_COPY", "")
            places = [*process.cmdline(), process.environ().get("AUTOGRADER_RECORD", "")]
            inside = any(place.startswith(tempfile.gettempdir() + "/") for place in places)
            if (mark.startswith(f"{pid}.") or inside) and process.pid != os.getpid():
                yield " ".join(process.cmdline())


def whole(root: Path, step: dict[str, Any]) -> str:
    from autograder import course
    from autograder.batch import trouble
    from autograder.notebook.result import kept

    for path in (root / ".autograder" / "results").rglob("*.json"):
        if kept(path) is None:
            return f"{path} is not whole"
    try:
        if (root / "gradebook.db").exists():
            trouble.ready(course.load(root))
    except trouble.GradingStopped as error:
        return str(error)
    return ""


def by_hand(root: Path, step: dict[str, Any] | None = None) -> None:
    from nbgrader.api import Gradebook

    with Gradebook(f"sqlite:///{root / 'gradebook.db'}", "petit-cours") as gradebook:
        grade = gradebook.find_grade("mini-ecrit", "mini", "mini", "bob")
        grade.manual_score, grade.needs_manual_grade = 3, False
        gradebook.find_comment("mini-ecrit", "mini", "mini", "bob").manual_comment = "Bien vu."
        gradebook.db.commit()


def touch(root: Path, step: dict[str, Any]) -> None:
    for path in root.glob("submitted/*/*/*.ipynb"):
        path.write_text(path.read_text(encoding="utf-8") + " ", encoding="utf-8")


def mount(root: Path, step: dict[str, Any]) -> None:
    root.mkdir(parents=True, exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={step['mib']}m", "none", str(root)], check=True)


def copy(root: Path, step: dict[str, Any]) -> None:
    shutil.copytree(step["from"], root, dirs_exist_ok=True)


def fill(root: Path, step: dict[str, Any]) -> None:
    path, size = root / BALLAST, 0
    with path.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            size += file.write(b"\1" * 4096)
    os.truncate(path, max(0, size - step["leave_kib"] * 1024))


def free(root: Path, step: dict[str, Any]) -> None:
    (root / BALLAST).unlink()


def temp(root: Path, step: dict[str, Any]) -> None:
    os.environ["TMPDIR"] = tempfile.tempdir = step["path"]


def marks(root: Path, step: dict[str, Any] | None = None) -> Any:
    """Every grade of the class, and what each submission adds up to."""
    from nbgrader.api import Gradebook

    with Gradebook(f"sqlite:///{root / 'gradebook.db'}", "petit-cours") as gradebook:
        return {
            submission.student.id: [
                [submission.score, submission.late_submission_penalty],
                sorted(
                    [grade.name, grade.auto_score, grade.manual_score, grade.needs_manual_grade]
                    for notebook in submission.notebooks
                    for grade in notebook.grades
                ),
                sorted(comment.comment or "" for book in submission.notebooks for comment in book.comments),
            ]
            for submission in gradebook.assignment_submissions("mini")
        }


STEPS = {
    step.__name__: step for step in (grade, kill, whole, by_hand, touch, mount, copy, fill, free, temp, marks)
}  # fmt: skip
CALM: list[float] = []  # how long each undisturbed grading took
OPTIONS = os.environ.get("GRADE", "--no-sandbox").split()  # of `autograder grade`

if __name__ == "__main__":
    main(sys.argv[1])
