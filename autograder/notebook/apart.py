"""Run one Python module apart, in a folder of its own, and end all that it started.

The student's side and the test side are both such a command: a request file in, a result file out. A box
can be put around the command and the folder without either of them knowing.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import psutil

from autograder.launch.command import left_by_others

TOKEN = "AUTOGRADER_COPY"
LOG_TAIL = 4_000
GRACE_S = 2.0

# A grader's own Python settings, PYTHONPATH too, which a launch keeps.
_PYTHONS = ("IPYTHON", "PYTHON")


@dataclass(frozen=True)
class Apart:
    """How the command ended. `log` is the end of what it wrote itself, for the grader only."""

    exit_code: int | None
    timed_out: bool
    duration_s: float
    log: str


def clean_environment(**extra: str) -> dict[str, str]:
    """The environment of a command run apart: ours without what was inherited, with `extra`."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not left_by_others(name) and not name.startswith(_PYTHONS)
    }
    return (
        kept
        | {
            "PYTHONUTF8": "1",
            "PYTHONDONTWRITEBYTECODE": "1",
            "MPLBACKEND": "Agg",
            "PATH": os.pathsep.join([os.path.dirname(sys.executable), os.environ.get("PATH", os.defpath)]),
        }
        | extra
    )


def run_module(
    module: str, arguments: list[str], cwd: Path, env: dict[str, str], limit_s: float, log: Path
) -> Apart:
    """`python -m module arguments` in `cwd`; ended with all its descendants after `limit_s` seconds."""
    token = secrets.token_hex(8)
    started = time.monotonic()
    # -P: a student's json.py or autograder.py must not be imported in place of the real one.
    command = [sys.executable, "-P", "-m", module, *arguments]
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, cwd=cwd, env=env | {TOKEN: token}, stdin=subprocess.DEVNULL,
            stdout=output, stderr=output, start_new_session=True,
        )  # fmt: skip
        timed_out = False
        try:
            process.wait(limit_s)
        except subprocess.TimeoutExpired:
            timed_out = True
        finally:
            _end_all(process, token)
    with log.open("rb") as written:
        written.seek(max(0, log.stat().st_size - LOG_TAIL))
        tail = written.read().decode("utf-8", errors="replace")
    return Apart(process.returncode, timed_out, time.monotonic() - started, tail)


def _end_all(process: subprocess.Popen[bytes], token: str) -> None:
    """SIGTERM first, so that a launcher ends its own ranks; then the rest, wherever it hides."""
    left = _descendants(process.pid) if process.poll() is None else []
    if process.poll() is None:
        process.terminate()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(GRACE_S)
    for other in {*left, *_marked(token)}:
        with contextlib.suppress(psutil.Error):
            other.kill()
    if process.poll() is None:
        process.kill()
        process.wait()
    for other in _marked(token):  # started while we were ending the others
        with contextlib.suppress(psutil.Error):
            other.kill()


def _descendants(pid: int) -> list[psutil.Process]:
    with contextlib.suppress(psutil.Error):
        return psutil.Process(pid).children(recursive=True)
    return []


def _marked(token: str) -> list[psutil.Process]:
    """Processes that carry this copy's token: a daemon that left its parent still has the environment it
    had.
    """
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.pid != os.getpid() and process.environ().get(TOKEN) == token:
                found.append(process)
    return found
