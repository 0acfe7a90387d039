"""The class as it stands: nbgrader's gradebook, read in a handful of queries whatever the class's size, and
the results that grading kept. What the class page shows and what is exported both come from here.

Nothing is written, and no gradebook is made. A mark is whole only once nothing of its copy is left to be
graded: what is not whole has no mark, never a zero. Late penalties are taken off here, after manual marks.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from autograder import course as courses
from autograder.batch import trouble
from autograder.batch.by_hand import waiting
from autograder.batch.copies import find_copies
from autograder.messages import text
from autograder.notebook.late import penalty
from autograder.notebook.nbconfig import GRADEBOOK, gradebook_url, on_a_server, tools_on_path
from autograder.notebook.result import RESULTS, CopyResult, kept

GRADED, TO_MARK, NOT_GRADED, WAITING, ABSENT = "graded", "to-mark", "not-graded", "waiting", "absent"
_HALF_SURROGATES = range(0xD800, 0xE000)


@dataclass(frozen=True)
class Person:
    """One student; names and address as the gradebook has them, often empty."""

    id: str
    first_name: str = ""
    last_name: str = ""
    email: str = ""


@dataclass(frozen=True)
class Question:
    """One cell that gives points. `written`: a person marks it."""

    assignment: str
    name: str
    points: float
    written: bool


@dataclass(frozen=True)
class Entry:
    """One student's standing in one assignment.

    `state`: GRADED (the mark is whole), TO_MARK (cells wait for a person), NOT_GRADED (with its `cause`),
    WAITING (handed in, not graded yet), ABSENT. `raw`: the points so far, `penalty` what lateness takes off
    them. `points`: those of each cell, None where it has none yet. `pending`: the cells to mark by hand,
    `unanswered`: those where nothing was written.
    `owner`: the student whose copy it is, where a group handed in another's. `submission`: formgrader's id.
    """

    student: str
    assignment: str
    state: str = ABSENT
    cause: str = ""
    raw: float = 0.0
    top: float = 0.0
    penalty: float = 0.0
    late_s: float = 0.0
    handed_in: dt.datetime | None = None
    points: dict[str, float | None] = field(default_factory=dict)
    pending: tuple[str, ...] = ()
    unanswered: tuple[str, ...] = ()
    owner: str = ""
    submission: str = ""
    comments: tuple[tuple[str, str], ...] = ()
    result: CopyResult | None = None

    @property
    def mark(self) -> float | None:
        """What counts, the penalty taken off; None as long as something is not graded."""
        return max(0.0, round(self.raw - self.penalty, 6)) if self.state == GRADED else None

    @property
    def of_partner(self) -> bool:
        """The copy is another member's of the group."""
        return bool(self.owner) and self.owner != self.student

    @property
    def flags(self) -> tuple[str, ...]:
        """Why a person should look at the copy, whatever its mark."""
        return self.result.flags if self.result is not None else ()

    @property
    def diagnoses(self) -> dict[str, str]:
        """What went wrong in its launches, once each: id to message. Faults of the machine are left out."""
        if self.result is None:
            return {}
        tests = (getattr(test, "diagnosis", None) for test in self.result.tests)
        every = [one for one in (*tests, self.result.diagnosis) if isinstance(one, dict)]
        return {
            str(one["id"]): str(one.get("message", ""))
            for one in every if one.get("id") and one.get("cls") not in ("I", "N")
        }  # fmt: skip


@dataclass(frozen=True)
class Book:
    """The class: `entries` has every student for every assignment of `assignments`, absent ones too, in the
    order of both.
    """

    course: courses.Course
    assignments: tuple[str, ...]
    people: tuple[Person, ...]
    questions: dict[str, tuple[Question, ...]]
    entries: dict[tuple[str, str], Entry]

    def of(self, assignment: str) -> Iterator[Entry]:
        """That assignment's entries, student by student."""
        return (self.entries[person.id, assignment] for person in self.people)


@dataclass
class _Submission:
    id: str = ""
    timestamp: dt.datetime | None = None
    due: dt.datetime | None = None
    points: dict[str, float | None] = field(default_factory=dict)
    reviews: set[str] = field(default_factory=set)
    automatic: set[str] = field(default_factory=set)  # the cells whose mark no person has given
    comments: list[tuple[str, str]] = field(default_factory=list)

    @property
    def late_s(self) -> float:
        if self.timestamp is None or self.due is None:
            return 0.0
        return max(0.0, (self.timestamp - self.due).total_seconds())


@dataclass
class _Gradebook:
    people: dict[str, Person] = field(default_factory=dict)
    questions: dict[str, list[Question]] = field(default_factory=lambda: defaultdict(list))
    submissions: dict[tuple[str, str], _Submission] = field(default_factory=dict)


def read_book(course: courses.Course, names: Iterable[str] = ()) -> Book:
    """The class for the assignments `names`; without any, for all that somebody has handed in.

    Raises CourseError for an unknown assignment, GradingStopped where the gradebook cannot be read.
    """
    chosen = [course.assignment(name).id for name in names] or [one.id for one in course.assignments]
    try:
        held = _gradebook(course)
    except Exception as error:
        raise trouble.of(error, course) or error from None
    copies = set(find_copies(course.root, chosen))
    results = {(path.stem, path.parent.name): path for name in chosen
               for path in (course.root / RESULTS / name).glob("*.json")}  # fmt: skip
    seen = {copy for copy in (*copies, *results, *held.submissions) if copy[1] in chosen}
    shown = tuple(name for name in chosen if names or any(copy[1] == name for copy in seen))
    people = {student: Person(student) for student, _ in seen} | held.people
    people = {student: one for student, one in people.items() if _text(student)}
    order = sorted(people.values(), key=lambda one: (one.last_name.casefold(), one.id.casefold(), one.id))
    entries = {}
    for name in shown:
        for student in (person.id for person in order):
            path = results.get((student, name))
            result = kept(path) if path is not None else None
            light = dataclasses.replace(result, cells={}, versions={}, details=()) if result else None
            entries[student, name] = _entry(
                course, student, name, held, light, (student, name) in copies
            )
    questions = {name: tuple(held.questions.get(name, ())) for name in shown}
    return Book(course, shown, tuple(order), questions, entries)


def _text(name: str) -> bool:
    """Not a name of bytes that are no text: such a folder is told of by `grade`, and never recorded."""
    return not any(ord(letter) in _HALF_SURROGATES for letter in name)


def _entry(
    course: courses.Course, student: str, name: str, held: _Gradebook, result: CopyResult | None, copy: bool
) -> Entry:
    owner = result.group[0] if result is not None and result.group else ""
    entry = Entry(student, name, owner=owner, result=result)
    found = held.submissions.get((student, name))
    if found is None:
        if result is not None:
            cause = (result.cause or "") if not result.graded else text("class_page.not-recorded")
            return dataclasses.replace(entry, state=NOT_GRADED, cause=cause)
        return dataclasses.replace(entry, state=WAITING) if copy else entry
    questions = held.questions.get(name, [])
    written = {one.name for one in questions if one.written}
    lacking, pending = waiting(
        found.points, found.reviews, written, read=result is None or result.notebook
    )
    state, cause = GRADED, ""
    if lacking:
        state = NOT_GRADED
        cause = (result.cause if result is not None else None) or text("class_page.no-points")
    elif pending:
        state = TO_MARK
    raw = round(sum(points or 0.0 for points in found.points.values()), 6)
    return dataclasses.replace(
        entry, state=state, cause=cause, raw=raw, top=sum(one.points for one in questions),
        penalty=penalty(raw, found.late_s, course.late), late_s=found.late_s,
        handed_in=found.timestamp.replace(tzinfo=dt.UTC) if found.timestamp is not None else None,
        points=found.points, pending=pending, submission=found.id,
        unanswered=tuple(sorted(found.automatic & written)),  # an answer that was given waits for a person
        comments=tuple(sorted(found.comments)),
    )  # fmt: skip


def _gradebook(course: courses.Course) -> _Gradebook:
    """All of it that is needed, in eight queries; nothing where no gradebook was made yet."""
    held = _Gradebook()
    if not on_a_server(course) and not (course.root / GRADEBOOK).is_file():
        return held
    trouble.ready(course)
    from nbgrader import api

    tools_on_path()
    with api.Gradebook(gradebook_url(course), course.course.id) as gradebook:
        db = gradebook.db
        for ident, *names in db.query(
            api.Student.id, api.Student.first_name, api.Student.last_name, api.Student.email
        ):
            held.people[ident] = Person(ident, *(value or "" for value in names))
        cells = _questions(api, db, held)
        books: dict[str, _Submission] = {}
        for ident, student, name, timestamp, extension, due in (
            db.query(
                api.SubmittedNotebook.id, api.SubmittedAssignment.student_id, api.Assignment.name,
                api.SubmittedAssignment.timestamp, api.SubmittedAssignment.extension, api.Assignment.duedate,
            )
            .select_from(api.SubmittedNotebook)
            .join(api.SubmittedAssignment, api.SubmittedNotebook.assignment_id == api.SubmittedAssignment.id)
            .join(api.Assignment, api.SubmittedAssignment.assignment_id == api.Assignment.id)
        ):  # fmt: skip
            due = due + extension if due is not None and extension is not None else due
            books[ident] = held.submissions[student, name] = _Submission(ident, timestamp, due)
        grade = api.Grade
        for book, cell, auto, manual, extra, review in db.query(
            grade.notebook_id, grade.cell_id, grade.auto_score, grade.manual_score, grade.extra_credit,
            grade.needs_manual_grade,
        ):  # fmt: skip
            if book in books and cell in cells:
                given = manual if manual is not None else auto
                books[book].points[cells[cell]] = None if given is None else given + (extra or 0.0)
                if manual is None and auto is not None:
                    books[book].automatic.add(cells[cell])
                if review:
                    books[book].reviews.add(cells[cell])
        for book, cell, said in (
            db.query(api.Comment.notebook_id, api.BaseCell.name, api.Comment.manual_comment)
            .join(api.BaseCell, api.Comment.cell_id == api.BaseCell.id)
            .filter(api.Comment.manual_comment.isnot(None), api.Comment.manual_comment != "")
        ):
            if book in books:
                books[book].comments.append((cell, said))
    return held


def _questions(api: Any, db: Any, held: _Gradebook) -> dict[str, str]:
    """The names of the cells that give points, by id; what each is worth goes to `held`."""
    named = db.query(api.Notebook.id, api.Assignment.name)
    notebooks = dict(named.join(api.Assignment, api.Notebook.assignment_id == api.Assignment.id).all())
    solution, cells = api.SolutionCell, {}
    solutions = {(book, name) for book, name in db.query(solution.notebook_id, solution.name)}
    found = [
        row for kind in (api.GradeCell, api.TaskCell)
        for row in db.query(kind.name, kind.id, kind.notebook_id, kind.max_score, kind.cell_type)
    ]  # fmt: skip
    for name, ident, book, points, code in sorted(found):
        if book in notebooks:
            cells[ident] = name
            written = (book, name) in solutions or code != "code"
            held.questions[notebooks[book]].append(Question(notebooks[book], name, points, written))
    return cells
