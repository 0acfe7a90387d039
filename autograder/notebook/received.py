"""What was handed in, as it lies on the grader's disk: links, pipes, sockets, huge and unreadable files.

Nothing of it is followed or waited for; what cannot be used is named, with the student's next step.
"""

from __future__ import annotations

import difflib
import os
import stat
from collections.abc import Iterable
from pathlib import Path

from nbformat import NotebookNode

from autograder.launch.untrusted import printable
from autograder.messages import text
from autograder.notebook.cells import CopyError, read_notebook


def read_submitted(path: Path) -> NotebookNode:
    """The notebook that was handed in at `path`; CopyError when it is a link, or cannot be read."""
    if path.is_symlink():
        raise CopyError(text("grading.not-regular", name=path.name))
    return read_notebook(path)


def folder_problem(folder: Path, top: Path) -> str | None:
    """Why this copy's folder, somewhere below `top`, cannot be read at all; None where it can."""
    below = [folder, *folder.parents][: len(folder.relative_to(top).parts)]
    try:
        if any(one.is_symlink() for one in below):
            return text("grading.copy-link")
        if not stat.S_ISDIR(folder.lstat().st_mode):
            return text("grading.copy-no-folder", name=folder.name)
        os.listdir(folder)
        (folder / "x").exists()  # a folder can be listed and still not be entered
    except OSError:
        return text("grading.copy-unreadable")
    return None


def file_problems(folder: Path, names: Iterable[str], limit: int) -> dict[str, str]:
    """Those of `names` that stand in `folder` and cannot be used, with why."""
    found = {}
    for name in names:
        path = folder / name
        try:
            status = path.lstat()
            if not stat.S_ISREG(status.st_mode):
                found[name] = text("grading.not-regular", name=name)
            elif status.st_size > limit:
                size, most = weight(status.st_size), weight(limit)
                found[name] = text("grading.file-too-big", name=name, size=size, limit=most)
            else:
                path.open("rb").close()
        except FileNotFoundError:
            continue
        except OSError:
            found[name] = text("grading.no-right", name=name)
    return found


def weight(size: int) -> str:
    """`size` bytes, as French writes them."""
    return f"{round(size / 1e6)} Mo" if size >= 1e6 else f"{round(size / 1e3)} ko"


def nearest_notebook(folder: Path, assignment: str) -> str | None:
    """The notebook that was probably meant, when the expected one is not there, as it can be shown."""
    try:
        books = (path for path in folder.glob("*.ipynb") if path.is_file() and not path.is_symlink())
        found = sorted(path.name for path in books)
    except OSError:
        return None
    near = next(iter(difflib.get_close_matches(f"{assignment}.ipynb", found, n=1, cutoff=0.0)), None)
    return None if near is None else printable(near)
