"""What was named to be launched or checked, and cannot be: why, and what to name or to do instead.

Imports no notebook library, so that `autograder run` answers at once.
"""

from __future__ import annotations

import difflib
import re
from pathlib import Path

from autograder.messages import text

LABO = "labo.py"  # what most exercises call their script
_WRITTEN = re.compile(rb"%%writefile (?:\./)?(\w[\w.-]*\.py)\b")


def not_a_script(path: Path) -> str | None:
    """Why `path` cannot be launched, in French; None where it can."""
    if path.is_file() and path.suffix.lower() == ".py":
        return None
    if path.is_dir():
        return _sentences(text("given.folder", given=path), _right_script(path))
    if not path.exists():
        return absent(path)
    return _sentences(text("given.no-script", given=path), _right_script(path.parent))


def absent(path: Path) -> str:
    """That there is nothing at `path`: the nearest name there, or the cell that writes it."""
    if (book := _written(path.parent).get(path.name)) is not None:
        first = text("given.write-first", name=path.name, notebook=book)
        return _sentences(text("given.absent", given=path), first)
    if (near := _nearest(path)) is not None:
        return text("given.absent-near", given=path, near=path.with_name(near))
    return text("given.absent", given=path)


def unreadable_script(path: Path, limit: int) -> str:
    """Why a script that is to be checked was not read: it is not there, is no file, may not be read."""
    if not path.exists():
        return absent(path)
    if path.is_dir():
        return _sentences(text("given.folder", given=path), _right_script(path))
    if path.is_file() and not path.is_symlink() and path.stat().st_size <= limit:
        return text("given.no-right", given=path)
    return text("given.no-regular-script", given=path, ko=limit // 1000)


def _right_script(folder: Path) -> str:
    """The script of `folder` that is probably meant: one that is there, or one that its notebook writes."""
    there = sorted(path.name for path in folder.glob("*.py") if path.is_file())
    written = _written(folder)
    names = there or list(written)
    if not names:
        return text("given.any-script")
    name = LABO if LABO in names else names[0]
    told = text("given.this-script", script=folder / name)
    return told if there else _sentences(told, text("given.write-first", name=name, notebook=written[name]))


def _written(folder: Path) -> dict[str, str]:
    """The scripts that the notebooks of `folder` write when their cells are run, each with its notebook."""
    found: dict[str, str] = {}
    for book in sorted(folder.glob("*.ipynb")):
        try:
            content = book.read_bytes() if book.is_file() else b""
        except OSError:
            continue
        for name in _WRITTEN.findall(content):
            found.setdefault(name.decode(), book.name)
    return found


def _nearest(path: Path) -> str | None:
    """What stands beside `path` under the most similar name, of the same kind."""
    if not path.parent.is_dir():
        return None
    names = {one.name.casefold(): one.name for one in path.parent.iterdir() if one.suffix == path.suffix}
    near = difflib.get_close_matches(path.name.casefold(), names, n=1, cutoff=0.6)
    return names[near[0]] if near else None


def _sentences(*said: str) -> str:
    return " ".join(said)
