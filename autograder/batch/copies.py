"""Whose copies lie in submitted/, whatever else lies there."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path

from autograder.batch.handin import safe_student_id

# What nbgrader's globs would read, what a terminal would obey, and bytes that are no text (the last range).
_UNUSABLE = re.compile(r"[*?\[\]\x00-\x1f\x7f\ud800-\udfff]")


def find_copies(root: Path, assignments: Iterable[str]) -> list[tuple[str, str]]:
    """The (student, assignment) of all that stands where a copy should, student by student.

    It need not be a folder, or one that can be read: whoever grades it says so.
    """
    submitted, names = root / "submitted", list(assignments)
    return [
        (student, name)
        for student in _students(submitted)
        if not _UNUSABLE.search(student)
        for name in names
        if _stands(submitted / student, name)
    ]


def unusable_names(root: Path) -> list[str]:
    """The folders of submitted/ that cannot be graded under their names, each with what to do."""
    return [
        f"submitted/{student!r} cannot be graded under this name: rename it to {safe_student_id(shown)!r}"
        for student in _students(root / "submitted")
        if _UNUSABLE.search(student)
        for shown in [_UNUSABLE.sub("-", student)]
    ]


def _students(submitted: Path) -> list[str]:
    try:
        with os.scandir(submitted) as entries:
            return sorted(
                entry.name for entry in entries if not entry.name.startswith(".") and entry.is_dir()
            )
    except OSError:
        return []


def _stands(folder: Path, name: str) -> bool:
    try:
        return name in os.listdir(folder)
    except OSError:
        return True  # the student's folder cannot be read: nobody may conclude that nothing is in it
