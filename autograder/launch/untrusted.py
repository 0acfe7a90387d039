"""Read what a student's process may have written: files, lines, fields. Anything may be cut or forged.

Only regular files are opened, never more than a limit is read, and a field is right or raises ValueError.
"""

from __future__ import annotations

import _imp
import contextlib
import json
import math
import os
import re
import stat
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

MOST_BYTES = 16 * 1024 * 1024   # per file; the recorder itself writes far less
MOST_LINES = 40_000
MOST_TEXT = 8_000     # characters of any one text
MOST_VALUES = 64      # numbers of one tensor: the recorder keeps no more
MOST_INT = 2**53
MOST_FILES = 1_000    # looked at in a record's folder

_NAME = re.compile(r"[\w.:>-]+(?: [\w.:>-]+)*")
_SEALED = re.compile(rb'(?P<line>.*),"s":"(?P<seal>[0-9a-f]{16})"\}', re.DOTALL)


class NotRegular(OSError):
    """A link, a pipe, a folder: not a regular file."""


@contextlib.contextmanager
def regular(path: Path) -> Iterator[tuple[IO[bytes], int]]:
    """A regular file, open for reading, and its size; OSError for what is absent, NotRegular for the rest."""
    flags = os.O_RDONLY
    for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_BINARY", "O_CLOEXEC"):   # a link, a pipe that nobody writes
        flags |= getattr(os, name, 0)
    with open(os.open(path, flags), "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise NotRegular(f"{path} is not a regular file")
        yield file, status.st_size


def read(path: Path, limit: int = MOST_BYTES) -> tuple[bytes, bool]:
    """The first `limit` bytes of a regular file (b"" of anything else), and whether that is all of it."""
    try:
        with regular(path) as (file, size):
            return file.read(limit), size <= limit
    except NotRegular:
        return b"", False
    except (OSError, ValueError):
        return b"", True


def readable(content: object) -> str:
    """A text that can be written: half of a surrogate pair cannot."""
    return str(content).encode("utf-8", "replace").decode()


def printable(content: object, also: str = "") -> str:
    """A text without what a screen would obey or could not show, but for the characters of `also`. Spaces of
    every width stay, which `str.isprintable` refuses: our own French has no-break ones in each sentence.
    """
    return "".join(
        letter if letter.isprintable() or letter in also or unicodedata.category(letter) == "Zs" else "�"
        for letter in readable(content)
    )


def text(path: Path, limit: int = MOST_BYTES) -> str:
    return read(path, limit)[0].decode("utf-8", "replace")


@dataclass
class Marks:
    """The marks of one rank's file that can be relied on, and what is wrong with the file."""

    marks: list[dict[str, Any]] = field(default_factory=list)
    forged: int = 0        # lines that the recorder did not write, or wrote once and are there twice
    missing: int = 0       # lines that it wrote and that are not there
    whole: bool = True     # the file is one that the recorder may have written: regular, not too large


def digest(seal: int, rank: int, data: bytes) -> str:
    """As the recorder makes it (recorder/_autograder_marks.py)."""
    return _imp.source_hash(seal, b"%d:" % rank + data).hex()


def marks(path: Path, rank: int, seal: int | None) -> Marks:
    """The marks of a file. `seal` None: it was made without one, and nothing tells whose the lines are."""
    data, whole = read(path)
    found = Marks(whole=whole)
    lines = data.split(b"\n", MOST_LINES)
    if len(lines) > MOST_LINES:
        found.whole = False
    numbers: set[int] = set()
    for line in lines[:-1]:   # the last one is empty, or was cut by the end of its process
        mark = _mark(line)
        if seal is not None and line.strip():
            hit = _SEALED.fullmatch(line)
            number = mark.get("i") if mark is not None else None
            right = hit is not None and digest(seal, rank, hit["line"]) == hit["seal"].decode()
            if not right or not isinstance(number, int) or number in numbers:
                found.forged += 1
                continue
            numbers.add(number)
        if mark is not None:
            found.marks.append(mark)
    if found.whole and seal is None:
        found.marks += [mark for mark in [_mark(lines[-1])] if mark is not None]
    found.missing = max(numbers, default=-1) + 1 - len(numbers)
    return found


def _mark(line: bytes) -> dict[str, Any] | None:
    try:
        mark = json.loads(line.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None
    return mark if isinstance(mark, dict) else None


def files(folder: Path) -> Iterator[tuple[str, bool]]:
    """The names in a folder, and whether each is a regular file with that one name."""
    try:
        with os.scandir(folder) as entries:
            for count, entry in enumerate(entries):
                if count >= MOST_FILES:
                    return
                try:
                    status = entry.stat(follow_symlinks=False)
                    # st_nlink is 0 where the system does not tell it (Windows).
                    yield entry.name, stat.S_ISREG(status.st_mode) and status.st_nlink <= 1
                except OSError:
                    continue
    except OSError:
        return


# -- fields --------------------------------------------------------------------------------------------------

def moment(value: Any) -> float:
    """A time in seconds."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= MOST_INT:
        raise ValueError("not a time")   # NaN is not within anything
    return float(value)


def integer(value: Any, least: int = 0, most: int = MOST_INT) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise ValueError("not such a number")
    return value


def line(value: Any) -> int | None:
    return None if value is None else integer(value, 0, 10**7)


def words(value: Any, most: int = MOST_TEXT) -> str:
    """A text that can be written: no lone surrogate, and cut."""
    if not isinstance(value, str):
        raise ValueError("not a text")
    return readable(value[:most])


def name(value: Any) -> str:
    """An identifier: nothing that could repaint a terminal."""
    shown = words(value, 101)
    if shown and (len(shown) > 100 or not _NAME.fullmatch(shown)):
        raise ValueError("not a name")
    return shown


def shape(value: Any) -> tuple[int, ...]:
    if not isinstance(value, list | tuple) or len(value) > MOST_VALUES:
        raise ValueError("not a shape")
    return tuple(integer(size) for size in value)


def numbers(value: Any) -> tuple[float, ...] | None:
    """A small tensor's values, NaN and infinities among them; None for none."""
    if value is None:
        return None
    if not isinstance(value, list) or len(value) > MOST_VALUES:
        raise ValueError("not values")
    if any(isinstance(one, bool) or not isinstance(one, int | float) for one in value):
        raise ValueError("not values")
    return tuple(float(one) if isinstance(one, float) or abs(one) < 1e300 else math.inf for one in value)


def detail(value: Any) -> dict[str, Any]:
    """What an event tells: plain values and flat lists of them under short names."""
    if not isinstance(value, dict):
        return {}
    return {
        words(key, 60): list(map(_plain, item[:MOST_VALUES])) if isinstance(item, list) else _plain(item)
        for key, item in list(value.items())[:MOST_VALUES]
    }


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, bool | float):
        return value
    if isinstance(value, int):
        return value if abs(value) <= 2**64 else None   # an id() may be that large
    return words(value) if isinstance(value, str) else None
