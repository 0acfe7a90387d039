"""Run one Python module apart, in a folder of its own, and end all that it started.

The student's side and the test side are both such a command: a request file in, a result file out. A box
can be put around the command and its folders without either of them knowing.
"""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import psutil

from autograder.launch import processes, view
from autograder.launch.box import Box
from autograder.launch.command import left_by_others
from autograder.leftovers import TOKEN, token

STOP = threading.Event()  # set: every command that runs is ended, and whoever waits for it gets `Stopped`
POLL_S = 0.2
LOG_TAIL = 4_000
GRACE_S = 2.0

# Not a grader's own Python settings (PYTHONPATH), which a launch would keep.
_NEEDED = re.compile(
    "PATH|HOME|USER|LOGNAME|SHELL|LANG|LANGUAGE|LC_.+|TZ|TMPDIR|TEMP|TMP|XDG_.+|VIRTUAL_ENV|CONDA_.+"
    "|LD_LIBRARY_PATH|DYLD_.+|(?:CUDA|NVIDIA|NCCL|ROCR?|HIP|HSA|MKL|OPENBLAS|OMP|KMP)_.+"
    "|SYSTEM(?:ROOT|DRIVE)|WINDIR|COMSPEC|PATHEXT|USERPROFILE|USERNAME|(?:LOCAL)?APPDATA|PROGRAM(?:DATA|FILES.*)"
    "|NUMBER_OF_PROCESSORS|PROCESSOR_.+"
)


@dataclass(frozen=True)
class Apart:
    """How the command ended. `log` is the end of what it wrote itself, for the grader only. `warm`: a warm
    server forked it.
    """

    exit_code: int | None
    timed_out: bool
    duration_s: float
    log: str
    warm: bool = False


class Stopped(BaseException):
    """The grader asked to stop (Ctrl-C) while a command ran: what it left says nothing of the copy."""


class NoBox(RuntimeError):
    """The sandbox could not be made: the machine's fault, never the copy's."""


Waited = subprocess.Popen[bytes] | processes.Boxed | processes.Forked

_SETTINGS = {"PYTHONUTF8": "1", "PYTHONDONTWRITEBYTECODE": "1", "MPLBACKEND": "Agg"}


def clean_environment(**extra: str) -> dict[str, str]:
    """The environment of a command run apart: what this system's programs need of ours, with `extra`.

    Nothing else: a script may print all it sees, and a grader's tokens would stand in the feedback.
    """
    kept = {
        name: value
        for name, value in os.environ.items()
        if _NEEDED.fullmatch(name.upper()) and not left_by_others(name)
    }
    path = os.pathsep.join([os.path.dirname(sys.executable), os.environ.get("PATH", os.defpath)])
    return kept | _SETTINGS | {"PATH": path} | extra


def boxed_environment(**extra: str) -> dict[str, str]:
    """The same for a command in a box: nothing of ours."""
    return view.environment() | _SETTINGS | extra


def run_module(
    module: str, arguments: list[str], cwd: Path, env: dict[str, str], limit_s: float, log: Path,
    box: Box | None = None, server: str | None = None,
) -> Apart:  # fmt: skip
    """`python -m module arguments` in `cwd`; ended with all its descendants after `limit_s` seconds.

    `server`: a warm one's socket, to fork it from. NoBox when a box is asked for and cannot be made.
    """
    mark = token()
    started = time.monotonic()
    # -P: a student's json.py or autograder.py must not be imported in place of the real one.
    command = [sys.executable, "-P", "-m", module, *arguments]
    own = env if box is not None else env | {TOKEN: mark}
    job = processes.Job([command], cwd, own, [(log, log)], log.parent, GRACE_S, box)
    running = processes.by_another(job, server)
    if running is not None:
        ended, timed_out = _by_another(running, started + limit_s)
        spent = time.monotonic() - started
        return Apart(ended.exit_codes[0], timed_out, spent, _tail(log), ended.warm)
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, cwd=cwd, env=own, stdin=subprocess.DEVNULL,
            stdout=output, stderr=output, start_new_session=True,
        )  # fmt: skip
        timed_out = False
        try:
            timed_out = not _ended(process, started + limit_s)
        finally:
            _end_all(process, mark)
    return Apart(process.returncode, timed_out, time.monotonic() - started, _tail(log))


def _tail(log: Path) -> str:
    if not log.exists():   # a box that was ended as a whole hands nothing back
        return ""
    with log.open("rb") as written:
        written.seek(max(0, log.stat().st_size - LOG_TAIL))
        return written.read().decode("utf-8", errors="replace")


def _by_another(
    running: processes.Boxed | processes.Forked, deadline: float
) -> tuple[processes.Ended, bool]:  # fmt: skip
    """How the one command of a box, or of a warm server's process, ended, and whether it was late."""
    try:
        timed_out = not _ended(running, deadline)
    finally:
        running.stop()
    ended = running.ended()
    if ended.failure is not None:
        raise NoBox(ended.failure)
    return ended, timed_out


def _ended(process: Waited, deadline: float) -> bool:
    """Wait for the process; False at the deadline."""
    while not STOP.is_set():
        left = deadline - time.monotonic()
        if left <= 0:
            return False
        with contextlib.suppress(subprocess.TimeoutExpired):
            if process.wait(min(POLL_S, left)) is not False:
                return True
    raise Stopped


def _end_all(process: subprocess.Popen[bytes], mark: str) -> None:
    """SIGTERM first, so that a launcher ends its own ranks; then the rest, wherever it hides."""
    left = _descendants(process.pid) if process.poll() is None else []
    if process.poll() is None:
        process.terminate()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(GRACE_S)
    for other in {*left, *_marked(mark)}:
        with contextlib.suppress(psutil.Error):
            other.kill()
    if process.poll() is None:
        process.kill()
        process.wait()
    for other in _marked(mark):  # started while we were ending the others
        with contextlib.suppress(psutil.Error):
            other.kill()


def _descendants(pid: int) -> list[psutil.Process]:
    with contextlib.suppress(psutil.Error):
        return psutil.Process(pid).children(recursive=True)
    return []


def _marked(mark: str) -> list[psutil.Process]:
    """Processes that carry this copy's token: a daemon that left its parent still has the environment it
    had.
    """
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.pid != os.getpid() and process.environ().get(TOKEN) == mark:
                found.append(process)
    return found
