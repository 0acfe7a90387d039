"""Who a copy counts for, where students hand in together (`group` in course.yaml).

Each copy's groupe.json names its members. One copy of a group counts for all of them; nbgrader's gradebook
knows students only, so each gets the result of that copy, and the marks given by hand follow (see
shared_marks.py). Whatever cannot be settled is *not graded* with its cause, never a zero: two copies of one
group that differ, a student named in two groups. A stranger who names a student wins and takes nothing: a
person has to look.

Two equal copies of one group count as the one that came first: the work was whole by then, and handing it in
again adds nothing. A copy without a date is on time, here as for a student alone.
"""

from __future__ import annotations

import datetime as dt
import difflib
import functools
import hashlib
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from autograder import course as courses
from autograder.batch.handin import TIMESTAMP, read_timestamp
from autograder.messages import text
from autograder.notebook.cells import CopyError, file_body, written_file
from autograder.notebook.exam import Exam
from autograder.notebook.nbconfig import GRADEBOOK, gradebook_url, on_a_server
from autograder.notebook.received import read_submitted
from autograder.notebook.repair import repair
from autograder.notebook.result import RESULTS, CopyResult, copy_sha256, kept
from autograder.notebook.student import MAX_FILE, read_files, read_regular
from autograder.verdict.members import FILE, folded, read_members
from autograder.verdict.texts import one_line

_LONG_AGO = dt.datetime.min.replace(tzinfo=dt.UTC)
Copy = tuple[str, str]  # student, assignment


@dataclass(frozen=True)
class Standing:
    """How one student stands in an assignment made in groups.

    `copy`: the student whose submitted folder counts. `members`: all those it counts for, that student first;
    empty for a student alone. `cause`: why nothing can be marked, in French. `circle`: the students to be
    looked at together. `note`: what the grader should know.
    """

    student: str
    copy: str
    members: tuple[str, ...] = ()
    cause: str | None = None
    flags: tuple[str, ...] = ()
    note: str | None = None
    circle: frozenset[str] = frozenset()

    @property
    def examined(self) -> bool:
        """This student's own folder is the one to be examined."""
        return self.cause is None and self.copy == self.student


@dataclass(frozen=True)
class _Claim:
    """What one copy says of its group: its members, known students all; or a flag and a note."""

    members: frozenset[str] | None = None
    flag: str = ""
    note: str = ""


def standings(
    course: courses.Course, copies: Iterable[Copy], exam: Callable[[str], Exam]
) -> dict[Copy, Standing]:
    """How each student stands in the group assignments that have a copy among `copies` (the whole class's).

    `exam` gives what grading an assignment needs; it is asked for only where two copies must be compared.
    """
    handed_in: dict[str, list[str]] = {}
    for student, name in copies:
        if course.assignment(name).group > 1:
            handed_in.setdefault(name, []).append(student)
    if not handed_in:
        return {}
    known = known_students(course)
    found: dict[Copy, Standing] = {}
    for name, students in handed_in.items():
        for standing in _settle(course, name, students, known | set(students), exam):
            found[standing.student, name] = standing
    return found


def known_students(course: courses.Course) -> set[str]:
    """The students that submitted/ or the gradebook has ever seen."""
    folder = course.root / "submitted"
    known = {path.name for path in folder.iterdir() if path.is_dir()} if folder.is_dir() else set()
    if on_a_server(course) or (course.root / GRADEBOOK).is_file():
        from nbgrader.api import Gradebook, Student

        with Gradebook(gradebook_url(course), course.course.id) as gradebook:
            known |= {str(ident) for (ident,) in gradebook.db.query(Student.id)}
    return {name for name in known if not name.startswith(".")}


# ------------------------------------------------------------------------------------------ one assignment


def _settle(
    course: courses.Course, name: str, students: list[str], known: set[str], exam: Callable[[str], Exam]
) -> list[Standing]:
    one = course.assignment(name)
    folders = {student: course.root / "submitted" / student / name for student in students}
    claims = {student: _claim(folders[student], student, one, known) for student in students}
    settled: dict[str, Standing] = {}
    cause: str | None
    for circle in _circles(claims):
        groups = {claims[student].members: student for student in reversed(students)
                  if claims[student].members and student in circle}  # fmt: skip
        own = [student for student in students if student in circle]
        if len(groups) > 1:
            owner, cause = "", _two_groups(groups)
        else:
            owner, cause = _counting(own, claims, folders, functools.partial(exam, name))
        for student in sorted(circle):
            if cause is not None:
                settled[student] = Standing(student, student, cause=cause, circle=circle)
            else:
                members = (owner, *sorted(circle - {owner}))
                settled[student] = Standing(student, owner, members, circle=circle)
    for student in students:
        if student not in settled:
            claim = claims[student]
            note = text("groupe.note", student=student, assignment=name, note=claim.note)
            settled[student] = Standing(
                student, student, flags=(claim.flag,), note=note, circle=frozenset({student})
            )
    for student, giver in _orphans(course.root, name, settled):
        # Its members stay in the result: the next grading says so again, until the grader has seen to it.
        cause = text("groupe.orphan", giver=giver)
        settled[student] = Standing(student, student, (giver, student), cause, circle=frozenset({student}))
    return list(settled.values())


def _claim(folder: Path, student: str, one: courses.Assignment, known: set[str]) -> _Claim:
    named = read_members(_groupe_json(folder, one.notebook), one.group)
    if not named.ok:
        return _Claim(flag="group-file", note=named.message)
    ids: list[str | None] = []
    unknown: list[str] = []
    for written in named.ids:
        ident = _known(written, known)
        if ident is None:
            unknown.append(_unknown(written, known))
        ids.append(ident)
    if unknown:
        return _Claim(flag="group-unknown", note=" ".join(unknown))
    if student not in ids:
        names = ", ".join(sorted(str(ident) for ident in ids))
        return _Claim(flag="group-not-member", note=text("groupe.not-member", names=names))
    members = frozenset(ident for ident in ids if ident is not None)
    if len(members) < one.group:  # two spellings of one student
        return _Claim(flag="group-file", note=text("groupe.twice", name=FILE, names=", ".join(named.ids)))
    return _Claim(members)


def _groupe_json(folder: Path, notebook: str) -> bytes | None:
    """The file of that name, or what a cell of the notebook writes in it."""
    data = read_regular(folder / FILE, MAX_FILE)
    if data is not None:
        return data
    try:
        cells = read_submitted(folder / notebook).cells
    except CopyError:
        return None
    code = (cell.source for cell in cells if cell.cell_type == "code")
    written = [source for source in code if written_file(source) == FILE]
    return file_body(written[-1]).encode("utf-8", errors="replace") if written else None


def _known(written: str, known: set[str]) -> str | None:
    """The student meant: the id itself, else the one that differs by case, accents or separators only."""
    if written in known:
        return written
    like = [ident for ident in known if folded(ident) == folded(written)]
    return like[0] if len(like) == 1 else None


def _unknown(written: str, known: set[str]) -> str:
    shown = one_line(written, 60)
    by_fold = {folded(ident): ident for ident in sorted(known)}
    near = difflib.get_close_matches(folded(written[:100]), by_fold, n=1, cutoff=0.6)
    if near:
        return text("groupe.unknown-near", shown=shown, near=by_fold[near[0]])
    return text("groupe.unknown", shown=shown)


def _circles(claims: Mapping[str, _Claim]) -> list[frozenset[str]]:
    """Students that some group joins, directly or through a student of two groups."""
    circles: list[frozenset[str]] = []
    for claim in claims.values():
        if claim.members:
            joined = [circle for circle in circles if circle & claim.members]
            circles = [circle for circle in circles if circle not in joined]
            circles.append(claim.members.union(*joined))
    return circles


def _two_groups(groups: Mapping[frozenset[str] | None, str]) -> str:
    """`groups`: each group's members, and a student whose copy names it."""
    sets = [members for members in groups if members]
    twice = sorted({one for first in sets for second in sets if first != second for one in first & second})
    listed = sorted(
        f"{' + '.join(sorted(members))} ({text('groupe.partner', owner=groups[members])})" for members in sets
    )
    return text("groupe.two-groups", names=", ".join(twice), groups=" ; ".join(listed))


def _counting(
    own: list[str], claims: Mapping[str, _Claim], folders: Mapping[str, Path], exam: Callable[[], Exam],
) -> tuple[str, str | None]:  # fmt: skip
    """Of the copies of one group, the student whose copy counts; or why none does."""
    declared = [student for student in own if claims[student].members]
    if len(own) > 1:
        works = {student: work(folders[student], exam()) for student in own}
        done = {student: parts for student, parts in works.items() if parts}
        first, *others = done.values() if done else ({},)
        differing = sorted({part for other in others for part in first.keys() | other.keys()
                            if first.get(part) != other.get(part)})  # fmt: skip
        if differing:
            parts = ", ".join(f"`{part}`" for part in differing[:4]) + (", …" if len(differing) > 4 else "")
            return "", text("groupe.conflict", names=", ".join(done), parts=parts)
        declared = [student for student in declared if student in done] or list(done) or declared
    return min(declared, key=lambda student: (_moment(folders[student]), student)), None


def work(folder: Path, exam: Exam) -> dict[str, str]:
    """A digest of each part of a copy that a mark depends on, by name; not of outputs, dates and metadata.

    What stands as it was released is no work: an untouched copy gives an empty result.
    """
    parts: dict[str, str] = {}
    for name, data in read_files(folder, exam.files).items():
        if name != FILE:  # its order and its spelling say nothing: who is meant was settled before
            parts[name] = _digest(data.decode("utf-8", errors="surrogateescape"))
    path = folder / f"{exam.assignment}.ipynb"
    try:
        mended = repair(read_submitted(path), exam.frame)
    except CopyError:
        return parts | ({path.name: copy_sha256(folder)} if os.path.lexists(path) else {})
    given = {_digest(source) for source in exam.frame.released.values()}
    added = 0
    for cell in mended.notebook.cells:
        role = mended.roles.get(cell.id)
        own = role == "plain" and cell.cell_type == "code"
        if (own or role in ("answer", "file", "written")) and (digest := _digest(cell.source)) not in given:
            added += own
            parts[text("groupe.added-cell", n=added) if own else cell.id] = digest
    return parts


def _digest(source: str) -> str:
    lines = "\n".join(line.rstrip() for line in source.strip().splitlines())
    return hashlib.sha256(lines.encode("utf-8", errors="surrogateescape")).hexdigest()


def _moment(folder: Path) -> dt.datetime:
    line = read_regular(folder / TIMESTAMP, 1000)
    return (read_timestamp(line.decode("utf-8", errors="replace")) if line else None) or _LONG_AGO


def _orphans(root: Path, name: str, settled: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Students who once had the mark of another's copy, which names them no more; and whose copy it was."""
    found = []
    for path in sorted((root / RESULTS / name).glob("*.json")):
        result = kept(path) if path.stem not in settled else None
        if result is not None and result.group and result.group[0] != path.stem:
            found.append((path.stem, result.group[0]))
    return found


# ------------------------------------------------------------------------------------------ results


def of_copy(result: CopyResult, standing: Standing | None) -> CopyResult:
    """The result of the copy that was examined, with what its group adds to it."""
    if standing is None:
        return result
    flags = tuple(flag for flag in result.flags if not flag.startswith("group-"))
    return replace(result, flags=(*flags, *standing.flags), group=standing.members)


def of_partner(result: CopyResult, student: str) -> CopyResult:
    """The same result for another member of the group, whose feedback says whose copy it is."""
    cells = dict(result.cells)
    first = next((test.id for test in result.tests), None)
    if first is not None:
        said = text("groupe.feedback", owner=result.group[0], names=", ".join(sorted(result.group)))
        note = {"output_type": "stream", "name": "stdout", "text": said + "\n"}
        cells[first] = [note, *cells.get(first, [])]
    return replace(result, student=student, cells=cells)
