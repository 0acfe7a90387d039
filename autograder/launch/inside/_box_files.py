"""Files in a box: what is copied into it, what is handed back. Nothing here follows a link."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Callable, Iterable

MOST_FILES = 5_000   # that are handed back


def copy(source: str, target: str, most: int) -> None:
    """The regular files below `source`, writable, with their modification times."""
    for place, folders, files in os.walk(source):
        folders.sort()
        there = os.path.join(target, os.path.relpath(place, source))
        for name in folders:
            if not os.path.islink(os.path.join(place, name)):
                os.makedirs(os.path.join(there, name), exist_ok=True)
        for name in sorted(files):
            path = os.path.join(place, name)
            status = os.lstat(path)
            if not stat.S_ISREG(status.st_mode):
                continue
            most -= status.st_size
            if most < 0:
                return
            copied = os.path.join(there, name)
            shutil.copyfile(path, copied)
            os.chmod(copied, 0o644 | (status.st_mode & 0o111))
            os.utime(copied, ns=(status.st_atime_ns, status.st_mtime_ns))


def open_regular(path: str) -> tuple[int, int]:
    """Its descriptor and size; OSError for what is not a regular file."""
    number = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    status = os.fstat(number)
    if not stat.S_ISREG(status.st_mode):
        os.close(number)
        raise OSError(f"{path} is not a regular file")
    return number, status.st_size


def hand_back(
    paths: Iterable[str], most: int, most_of_one: int, say: Callable[[dict], None],
    write: Callable[[bytes], None],
) -> None:
    """Each regular file at or below `paths`, while there is room: a line that names it, then its bytes."""
    count = 0
    for path in _below(paths):
        try:
            number, size = open_regular(path)
        except OSError:
            continue
        with open(number, "rb") as file:
            count += 1
            if size > min(most, most_of_one) or count > MOST_FILES:
                continue
            most -= size
            say({"path": path, "size": size})
            while data := file.read(1 << 20):
                write(data)


def _below(paths: Iterable[str]) -> list[str]:
    found = []
    for top in paths:
        if os.path.isdir(top) and not os.path.islink(top):
            found += [os.path.join(place, name) for place, _, names in os.walk(top) for name in sorted(names)]
        else:
            found.append(top)
    return found
