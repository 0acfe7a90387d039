"""What stops a grading as a whole, told in one sentence: a full disk, a gradebook that is locked or damaged.

Nothing is ever repaired by throwing something away: a damaged gradebook stays where it is, and the results of
the copies are kept apart from it, so that the same command goes on from there.
"""

from __future__ import annotations

import contextlib
import errno
import re
import shutil
import sqlite3
import tempfile
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from autograder.batch import postgres
from autograder.course import Course
from autograder.files import draft_of
from autograder.notebook.nbconfig import GRADEBOOK, on_a_server, tools_on_path
from autograder.notebook.result import RESULTS

LOCK_WAIT_S = 30.0  # sqlite's own 5 s are less than what formgrader can take on a slow disk
LOCK = Path(".autograder") / "grade.lock"
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_NO_ROOM = ("database or disk is full", "No space left on device", "Disk quota exceeded", "File too large")
# The last lines of a traceback: the exception's own, never what a student wrote.
_SAID = re.compile(
    r"^(?:sqlalchemy\.exc\.|sqlite3\.|nbgrader\.api\.|OSError|PermissionError)[^\n]*?"
    r"(database is locked|database or disk is full|disk I/O error|No space left on device"
    r"|Disk quota exceeded|File too large|malformed|not a database|readonly database"
    r"|unable to open database file)", re.MULTILINE,
)  # fmt: skip


class GradingStopped(Exception):
    """Grading cannot go on. The message says what stands in the way, in which file, and what to do."""


def disk_full(error: BaseException) -> bool:
    """Whether this is the machine's disk being full, whatever was to be written."""
    return isinstance(error, OSError) and error.errno in _FULL


def full(root: Path) -> GradingStopped:
    """The course's disk, or the one that copies are run on, has no room left: whichever has less."""
    free = {place: shutil.disk_usage(place).free for place in (root, Path(tempfile.gettempdir()))}
    place = min(free, key=lambda one: free[one])
    return GradingStopped(
        f"The disk that holds {place} is full ({free[place] // 2**20} MiB free): make room there. "
        f"{_resume(root)}"
    )


def of(error: BaseException, course: Course) -> GradingStopped | None:
    """What this exception, or one behind it, says of the disk or the gradebook, if it does."""
    if disk_full(error):
        return full(course.root)
    return said("".join(traceback.format_exception(error)), course)


def said(report: str, course: Course) -> GradingStopped | None:
    """As `of`, from the traceback that a failed step of nbgrader logged: the next copies would fail too."""
    if on_a_server(course) and (told := postgres.said(report, course, LOCK_WAIT_S)) is not None:
        return GradingStopped(f"{told} {_resume(course.root)}")
    found = _SAID.search(report)
    if found is None:
        return None
    path, word, root = course.root / GRADEBOOK, found[1], course.root
    if word in _NO_ROOM:
        return full(root)
    if word == "database is locked":
        return GradingStopped(
            f"{path} is in use: another program has kept it locked for {LOCK_WAIT_S:g} s. Close what writes "
            f"to it (formgrader, an nbgrader command, a database viewer). {_resume(root)}"
        )
    if word in ("malformed", "not a database"):
        return _damaged(path, word, root)
    return GradingStopped(
        f"{path} cannot be written ({word}): see to its rights, its folder's and the disk's. {_resume(root)}"
    )


def ready(course: Course) -> None:
    """Make the gradebook where there is none, whole at once; GradingStopped where it cannot be read.

    One that is locked is not waited for here: copies are examined meanwhile, and recorded at the end.
    """
    if on_a_server(course):
        try:
            problem = postgres.ready(course)
        except Exception as error:  # SQLAlchemy's own classes, or the driver's
            raise of(error, course) or error from None
        if problem is not None:
            raise GradingStopped(problem)
        return
    path = course.root / GRADEBOOK
    if not path.exists():
        _create(path, course)
        return
    if path.stat().st_size == 0:
        raise _damaged(path, "it is empty", course.root)
    try:
        with contextlib.closing(sqlite3.connect(path, timeout=1.0)) as book:
            found = book.execute("PRAGMA quick_check(1)").fetchone()[0]
            names = {row[0] for row in book.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    except sqlite3.DatabaseError as error:
        if "locked" in str(error):
            return
        raise of(error, course) or _damaged(path, str(error), course.root) from None
    if found != "ok":
        raise _damaged(path, str(found), course.root)
    if not {"alembic_version", "assignment", "student"} <= names:
        raise _damaged(path, "nbgrader's tables are not all there", course.root)


def _create(path: Path, course: Course) -> None:
    """nbgrader makes its tables one by one: a gradebook cut short there would never open again."""
    from nbgrader.api import Gradebook

    tools_on_path()
    with draft_of(path) as draft:
        draft.unlink()  # made anew by sqlite, with the rights that its files have
        try:
            Gradebook(f"sqlite:///{draft}", course.course.id).close()
        except Exception as error:  # SQLAlchemy's own classes, or the system's
            raise of(error, course) or error from None


@contextlib.contextmanager
def patient() -> Iterator[None]:
    """Let whatever opens the gradebook here wait for a lock as long as LOCK_WAIT_S."""
    from sqlalchemy import event
    from sqlalchemy.engine import Engine

    def wait(connection: Any, _: Any) -> None:
        if isinstance(connection, sqlite3.Connection):
            connection.execute(f"PRAGMA busy_timeout = {int(LOCK_WAIT_S * 1000)}")
        else:
            postgres.wait(connection, LOCK_WAIT_S)

    event.listen(Engine, "connect", wait)
    event.listen(Engine, "do_connect", postgres.connecting)
    try:
        yield
    finally:
        event.remove(Engine, "connect", wait)
        event.remove(Engine, "do_connect", postgres.connecting)


@contextlib.contextmanager
def alone(root: Path) -> Iterator[None]:
    """Grade as the only one in this course: two would write the same results and the same gradebook."""
    import filelock  # torch depends on it; slow to load, seldom needed

    path = root / LOCK
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = filelock.FileLock(path)
    try:
        lock.acquire(timeout=0)
    except filelock.Timeout:
        raise GradingStopped(
            f"Another `autograder grade` is at work in {root} (it holds {path}): wait for it, or stop it."
        ) from None
    try:
        yield
    finally:
        lock.release()


def _damaged(path: Path, why: str, root: Path) -> GradingStopped:
    why = " ".join(why.split())[:100]
    return GradingStopped(
        f"{path} is damaged ({why}); it was left as it is. Put your last backup in its place; without one, "
        f"move it away, and the same command makes a new one: automatic marks come back from "
        f"{root / RESULTS}, marks and comments given by hand do not."
    )


def _resume(root: Path) -> str:
    return f"Nothing is lost: results are kept in {root / RESULTS}, and the same command goes on from there."
