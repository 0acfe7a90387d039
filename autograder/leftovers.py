"""What a grading that was killed leaves: its processes and temporary folders, known by their dead owner.

A process that ends in the ordinary way, or by Ctrl-C, clears up after itself. One that is killed cannot: the
next one does it here. What belongs to a living process is never touched.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import re
import secrets
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil

PREFIX = "autograder-"
TOKEN = "AUTOGRADER_COPY"  # in the environment of all that grading a copy starts
_OWNER = re.compile(r"(\d+)\.(\d+)\.(\d+)[.-]")
SIGKILL = 9  # which `signal` does not name on Windows
_SAME_START_S = 2.0  # a start is told from the boot's, which moves a little when the clock is set
_PR_SET_PDEATHSIG = 1  # Linux


def owner() -> str:
    """This process, so that no later one with its number is taken for it, nor one of another container."""
    return f"{os.getpid()}.{int(psutil.Process().create_time())}.{_numbering()}"


def _numbering() -> str:
    """Who numbers our processes (Linux: the namespace): a number of another one's tells nothing here."""
    try:
        return re.sub(r"\D", "", os.readlink("/proc/self/ns/pid")) or "0"
    except OSError:
        return "0"


def token() -> str:
    """A new mark for the processes of one command run apart."""
    return f"{owner()}.{secrets.token_hex(8)}"


@contextlib.contextmanager
def scratch() -> Iterator[Path]:
    """A temporary folder of ours, removed at the end, or by a later `sweep` if we are killed before."""
    with tempfile.TemporaryDirectory(prefix=f"{PREFIX}{owner()}-", ignore_cleanup_errors=True) as name:
        yield Path(name).resolve()


@contextlib.contextmanager
def own_temporary() -> Iterator[None]:
    """Have all temporary files of this process, a library's too, made in one such folder."""
    before = tempfile.tempdir
    with scratch() as folder:
        tempfile.tempdir = str(folder)
        try:
            yield
        finally:
            tempfile.tempdir = before


def end_with_parent(number: int = SIGKILL) -> None:
    """Have the system send us `number` when our parent ends, however it ends (Linux; elsewhere `sweep`)."""
    parent = os.getppid()
    if sys.platform.startswith("linux"):
        with contextlib.suppress(OSError, AttributeError):
            zero = ctypes.c_ulong(0)
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, ctypes.c_ulong(number), zero, zero, zero)
        if os.getppid() != parent:  # it ended just before
            os.kill(os.getpid(), number)


def sweep() -> list[str]:
    """End the processes and remove the folders whose owner is gone. What could not be, with the reason."""
    gone = functools.cache(_gone)
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            mark = process.environ().get(TOKEN)
            if mark is not None and process.pid != os.getpid() and gone(mark):
                process.kill()
    return [why for path in _folders(gone) if (why := _remove(path)) is not None]


def _gone(mark: str) -> bool:
    """Whether the process that this mark or folder's name tells is no more (False: it does not tell)."""
    found = _OWNER.match(mark)
    if found is None or found[3] != _numbering():
        return False
    try:
        started = psutil.Process(int(found[1])).create_time()
    except psutil.NoSuchProcess:
        return True
    except psutil.Error:
        return False
    return abs(started - int(found[2])) > _SAME_START_S


def _folders(gone: Callable[[str], bool]) -> list[Path]:
    ours = getattr(os, "getuid", lambda: None)()
    found = []
    for path in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError):
            known = path.is_dir() and not path.is_symlink() and ours in (None, path.stat().st_uid)
            if known and gone(path.name.removeprefix(PREFIX)):
                found.append(path)
    return found


def _remove(folder: Path) -> str | None:
    """Remove the folder, whatever rights its content was left with; else which and why."""
    problems: list[str] = []

    def note(_: Any, name: str, error: Any) -> None:
        problems.append(f"{name}: {error[1]}")

    for place, _, _ in os.walk(folder):
        with contextlib.suppress(OSError):
            os.chmod(place, 0o700)
    shutil.rmtree(folder, onerror=note)
    if not folder.exists():
        return None
    return f"{folder} was left by a grading that was killed and could not be removed ({problems[0]})"
