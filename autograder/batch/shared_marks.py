"""Give every member of a group the marks and comments that a person gave to one of them.

In formgrader a grader marks whichever member comes first. What changed since the last time is what counts, so
a mark given to one, then corrected on the other's page, ends as the correction on both. A mark is never taken
away: an empty one says nothing. Kept beside the gradebook; without that memory, two different marks are told.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autograder import course as courses
from autograder.files import write_whole
from autograder.messages import number, text

Value = float | str | tuple[float | None, float | None] | None


@dataclass(frozen=True)
class Shared:
    """The (student, assignment) whose marks changed, and what the grader should be told, in French."""

    changed: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = ()


def share(gradebook: Any, course: courses.Course, groups: Iterable[tuple[str, Sequence[str]]]) -> Shared:
    """Settle the manual marks of `groups`: (assignment, its members, the student whose copy it is first).

    A group of which some member has no submission in the gradebook is left alone.
    """
    changed: dict[tuple[str, str], None] = {}
    notes: list[str] = []
    for assignment, members in sorted({(name, tuple(members)) for name, members in groups}):
        found = [_submission(gradebook, assignment, student) for student in members]
        books = [book for book in found if book is not None]
        if len(books) < len(members):
            continue
        memory = _Memory(course.root, assignment, members)
        for cell in sorted(books[0]):
            entries = [book[cell] for book in books if cell in book]
            if len(entries) < len(members):
                continue
            for settled in (_marks(entries, memory, cell), _comments(entries, memory, cell)):
                for student, touched in zip(members, settled.touched, strict=True):
                    if touched:
                        changed[student, assignment] = None
                if settled.said:
                    notes.append(text(
                        "groupe.differ", assignment=assignment, names=" + ".join(members), cell=cell,
                        values=settled.said, owner=members[0],
                    ))  # fmt: skip
        gradebook.db.commit()
        memory.save()
    return Shared(tuple(changed), tuple(notes))


def settle(values: Sequence[Value], last: Value) -> tuple[Value, bool]:
    """What counts among the members' values (the copy's own student first), and whether they disagree.

    `last` is what was settled the time before: a value that differs from it was given since.
    """
    given = list(dict.fromkeys(value for value in values if value is not None))
    if len(given) < 2:
        return (given[0] if given else None), False
    new = [value for value in given if value != last]
    if len(new) == 1:
        return new[0], False
    return (values[0] if values[0] is not None else given[0]), True


# ------------------------------------------------------------------------------------------ one cell


@dataclass
class _Entry:
    """One cell of one member: nbgrader's grade (None where the cell has none) and comment."""

    grade: Any = None
    comment: Any = None

    @property
    def stale(self) -> bool:
        """Marked by a person, for a copy that has changed since: what it held is not known to hold now."""
        grade = self.grade
        return grade is not None and grade.manual_score is not None and bool(grade.needs_manual_grade)


@dataclass(frozen=True)
class _Settled:
    touched: list[bool]
    said: str = ""


def _marks(entries: list[_Entry], memory: _Memory, cell: str) -> _Settled:
    grades = [entry.grade for entry in entries]
    if any(grade is None for grade in grades):
        return _Settled([False] * len(entries))
    values: list[Value] = [
        None if entry.stale or entry.grade.manual_score is None
        else (float(entry.grade.manual_score), entry.grade.extra_credit or None)
        for entry in entries
    ]  # fmt: skip
    value, disagree = settle(values, memory.mark(cell))
    if not isinstance(value, tuple):
        return _Settled([False] * len(entries))
    touched = [own != value for own in values]
    for grade, other in zip(grades, touched, strict=True):
        if other:
            grade.manual_score, grade.extra_credit, grade.needs_manual_grade = value[0], value[1], False
    memory.now[cell]["mark"] = list(value)
    given = [number(one[0] or 0.0) for one in values if isinstance(one, tuple)]
    return _Settled(touched, " / ".join(given) if disagree else "")


def _comments(entries: list[_Entry], memory: _Memory, cell: str) -> _Settled:
    comments = [entry.comment for entry in entries]
    if any(comment is None for comment in comments):
        return _Settled([False] * len(entries))
    last = memory.comment(cell)
    # An empty comment is formgrader's for "erased" where there was one, and for nothing at all elsewhere.
    values: list[Value] = [
        None if entry.stale or not (entry.comment.manual_comment or last) else entry.comment.manual_comment
        for entry in entries
    ]
    value, disagree = settle(values, last)
    if not isinstance(value, str):
        return _Settled([False] * len(entries))
    touched = [own != value for own in values]
    for comment, other in zip(comments, touched, strict=True):
        if other:
            comment.manual_comment = value
    memory.now[cell]["comment"] = value
    return _Settled(touched, " / ".join(f"« {str(one)[:40]} »" for one in values if one) if disagree else "")


def _submission(gradebook: Any, assignment: str, student: str) -> dict[str, _Entry] | None:
    from nbgrader.api import MissingEntry

    try:
        submission = gradebook.find_submission(assignment, student)
    except MissingEntry:
        return None
    cells: dict[str, _Entry] = {}
    for notebook in submission.notebooks:
        for grade in notebook.grades:
            cells.setdefault(grade.name, _Entry()).grade = grade
        for comment in notebook.comments:
            cells.setdefault(comment.name, _Entry()).comment = comment
    return cells


class _Memory:
    """What one group's cells held when they were last settled."""

    def __init__(self, root: Path, assignment: str, members: Sequence[str]) -> None:
        self.path = root / ".autograder" / "recorded" / f"{assignment}.groups.json"
        self.key = "+".join(sorted(members))
        before = self._read().get(self.key)
        cells = before.items() if isinstance(before, dict) else ()
        self.now: dict[str, dict[str, Any]] = defaultdict(dict)
        self.now.update((cell, held) for cell, held in cells if isinstance(held, dict))

    def _read(self) -> dict[str, Any]:
        try:
            held = json.loads(self.path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return held if isinstance(held, dict) else {}

    def mark(self, cell: str) -> Value:
        held = self.now[cell].get("mark")
        return (held[0], held[1]) if isinstance(held, list) and len(held) == 2 else None

    def comment(self, cell: str) -> str | None:
        held = self.now[cell].get("comment")
        return held if isinstance(held, str) else None

    def save(self) -> None:
        kept = {cell: held for cell, held in self.now.items() if held}
        every = self._read()
        if every.get(self.key, {}) != kept:
            content = json.dumps(every | {self.key: kept}, ensure_ascii=False, indent=1, sort_keys=True)
            write_whole(self.path, content.encode("utf-8", errors="surrogatepass"))
