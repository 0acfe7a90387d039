"""The one writer of the gradebook: put kept results into it with nbgrader's own converters, one copy after
another, in one process.
"""

from __future__ import annotations

import logging
import shutil
import warnings
from collections.abc import Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbformat

from autograder import course as courses
from autograder.batch import trouble
from autograder.batch.by_hand import waiting
from autograder.batch.groups import Standing
from autograder.batch.handin import TIMESTAMP, read_timestamp, timestamp_line
from autograder.batch.shared_marks import share
from autograder.notebook.cells import CopyError
from autograder.notebook.exam import Exam
from autograder.notebook.generate import refusal
from autograder.notebook.gradebook import sync_gradebook
from autograder.notebook.nbconfig import configure, utc_naive
from autograder.notebook.received import folder_problem, read_submitted
from autograder.notebook.repair import repair, untouched
from autograder.notebook.result import RESULTS
from autograder.notebook.student import read_files, read_regular

STAGED = Path(".autograder") / "copies"


@dataclass(frozen=True)
class Recorded:
    """What the gradebook holds for one copy. `problem`: why it could not be recorded, else None.

    `score` counts automatic and manual marks less the late penalty; `pending` are the cells to mark by hand,
    `lacking` the tests without a mark.
    """

    student: str
    assignment: str
    problem: str | None = None
    score: float = 0.0
    max_score: float = 0.0
    pending: tuple[str, ...] = ()
    lacking: tuple[str, ...] = ()
    late_s: float = 0.0
    penalty: float = 0.0


class Recorder:
    """Puts kept results into the gradebook, one copy after another, and writes their feedback.

    A copy that nbgrader refuses is named with its reason and never stops the others. `groups` tells whose
    folder counts for a student. Used in a `with`, by one thread.
    """

    def __init__(
        self, course: courses.Course, exams: Mapping[str, Exam],
        groups: Mapping[tuple[str, str], Standing] | None = None,
    ) -> None:  # fmt: skip
        self.course, self.exams, self.groups = course, exams, groups or {}
        self.problems: dict[tuple[str, str], str | None] = {}
        self._broken: dict[str, str] | None = None
        self._ending = ExitStack()

    def __enter__(self) -> Recorder:
        self.api, self._said = self._ending.enter_context(_nbgrader(self.course))
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.close()

    def add(self, student: str, assignment: str) -> str | None:
        """Record the result that is kept for this copy; why nbgrader refuses, if it does.

        GradingStopped where the gradebook or the disk does not let it: the copy can be added again later.
        """
        if self._broken is None:
            self._broken = _prepare_gradebook(self.course, set(self.exams), self.exams)
        problem = self._broken.get(assignment)
        if problem is None:
            standing = self.groups.get((student, assignment))
            stage(self.course, self.exams[assignment], student, standing.copy if standing else student)
            problem = _convert(self.api, self._said, self.course, assignment, student)
        self.problems[student, assignment] = problem
        return problem

    def finish(
        self, unread: Collection[tuple[str, str]] = ()
    ) -> tuple[dict[tuple[str, str], Recorded], tuple[str, ...]]:
        """What the gradebook holds of all that was added, once the marks given by hand are the same for all
        the members of a group; and what the grader should know of that, in French. `unread`: the copies
        whose notebook could not be read.
        """
        if not self.problems:
            return {}, ()
        broken = self._broken or {}
        together = {
            (name, self.groups[student, name].members) for student, name in self.problems
            if (student, name) in self.groups and self.groups[student, name].cause is None
        }  # fmt: skip
        with self.api.gradebook as gradebook:
            whole = [one for one in together if one[1] and one[0] not in broken]
            shared = share(gradebook, self.course, whole)
        for student, assignment in shared.changed:  # its late penalty and its feedback hold the marks too
            self.problems[student, assignment] = _convert(
                self.api, self._said, self.course, assignment, student
            )
        with self.api.gradebook as gradebook:
            found = {
                copy: _read(gradebook, self.exams[copy[1]], copy[0], problem, copy not in unread)
                for copy, problem in self.problems.items()
            }
        return found, shared.notes


def _prepare_gradebook(
    course: courses.Course, assignments: set[str], exams: Mapping[str, Exam]
) -> dict[str, str]:
    """Make the gradebook say what source/ says, where it does not; why not, by assignment."""
    broken: dict[str, str] = {}
    with (
        _nbgrader(course) as (api, _),
        api.gradebook as gradebook,
    ):  # created once, before anything else opens it
        stale = [name for name in sorted(assignments) if not in_step(gradebook, course, exams[name])]
    for name in stale:
        try:
            sync_gradebook(course, [name])
        except Exception as error:  # nbgrader's own refusals have no common class
            if (stop := trouble.of(error, course)) is not None:
                raise stop from None
            broken[name] = f"{type(error).__name__}: {error}"
    return broken


def in_step(gradebook: Any, course: courses.Course, exam: Exam) -> bool:
    """Whether the gradebook holds this very version of the assignment: cells, points, tests, due date."""
    from nbgrader.api import MissingEntry

    assignment = course.assignment(exam.assignment)
    try:
        if gradebook.find_assignment(exam.assignment).duedate != utc_naive(assignment.due):
            return False
        notebook = gradebook.find_notebook(exam.assignment, exam.assignment)
    except MissingEntry:
        return False
    points = {cell.id: cell.points for cell in exam.frame.cells if cell.role in ("test", "written")}
    tests = {cell.id: cell.source for cell in exam.frame.cells if cell.role in ("test", "locked")}
    sources = {cell.name: cell.source for cell in notebook.source_cells}
    return (
        {cell.name: cell.max_score for cell in (*notebook.grade_cells, *notebook.task_cells)} == points
        and set(sources) == set(exam.frame.graded)
        and all(sources[name] == source for name, source in tests.items())
    )


@contextmanager
def _nbgrader(course: courses.Course) -> Iterator[tuple[Any, list[str]]]:
    """nbgrader's API on staged copies and kept results, and the list of what it logs."""
    from nbgrader.apps import NbGraderAPI
    from sqlalchemy.exc import SAWarning
    from traitlets.config import Config

    config: Any = Config()
    configure(config, course)
    config.CourseDirectory.submitted_directory = str(STAGED)
    config.ExecuteApart.results = str(course.root / RESULTS)
    said: list[str] = []

    class Kept(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            said.append(record.getMessage())

    logger = logging.Logger("record")  # private: a class of thirty would fill the screen
    logger.addHandler(Kept(logging.ERROR))
    with warnings.catch_warnings():
        # nbgrader's own way with SQLAlchemy; it says so for every submission.
        warnings.filterwarnings("ignore", category=SAWarning)
        yield NbGraderAPI(config=config, log=logger), said


def stage(course: courses.Course, exam: Exam, student: str, of: str | None = None) -> Path:
    """A copy that nbgrader reads without harm: the mended notebook (or the released one), declared files,
    the time. `of`: the student whose folder it is taken from, where that is another one.

    What cannot be read is recorded on the released notebook, so that it stands in the gradebook and in
    formgrader as "to be looked at" instead of vanishing or counting 0.
    """
    folder = course.root / "submitted" / (of or student) / exam.assignment
    target = course.root / STAGED / student / exam.assignment
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    try:
        if folder_problem(folder, course.root / "submitted") is not None:
            raise CopyError
        notebook = repair(read_submitted(folder / f"{exam.assignment}.ipynb"), exam.frame).notebook
        content = nbformat.writes(notebook)
    except (CopyError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        content = nbformat.writes(untouched(exam.frame))
    (target / f"{exam.assignment}.ipynb").write_text(content, encoding="utf-8", errors="replace")
    given = {} if folder_problem(folder, course.root / "submitted") else read_files(folder, exam.files)
    for name, data in given.items():
        (target / name).write_bytes(data)
    line = read_regular(folder / TIMESTAMP, 1000)
    moment = read_timestamp(line.decode("utf-8", errors="replace")) if line else None
    if moment is not None:
        (target / TIMESTAMP).write_text(timestamp_line(moment), encoding="utf-8")
    return target


def _convert(
    api: Any, said: list[str], course: courses.Course, assignment: str, student: str
) -> str | None:
    """Record one copy and write its feedback; why not, when nbgrader refuses."""
    for step in (api.autograde, api.generate_feedback):
        said.clear()
        done = step(assignment, student, force=True)
        if not done["success"]:
            tracebacks = [line for line in said if line.startswith("Traceback")]
            error = str(done.get("error"))
            if error.rstrip().endswith("KeyboardInterrupt"):  # nbgrader would go on with the next copy
                raise KeyboardInterrupt
            if (stop := trouble.said("\n".join([*tracebacks, error]), course)) is not None:
                raise stop
            return refusal((tracebacks or said or [error])[-1])
    return None


def _read(gradebook: Any, exam: Exam, student: str, problem: str | None, read: bool) -> Recorded:
    from nbgrader.api import MissingEntry

    assignment = exam.assignment
    if problem is not None:
        return Recorded(student, assignment, problem)
    try:
        submission = gradebook.find_submission(assignment, student)
    except MissingEntry:
        return Recorded(student, assignment, "no such submission in the gradebook")
    grades = [grade for notebook in submission.notebooks for grade in notebook.grades]
    points = {one.name: one.auto_score if one.manual_score is None else one.manual_score for one in grades}
    reviews = {grade.name for grade in grades if grade.needs_manual_grade}
    written = {cell.id for cell in exam.frame.cells if cell.role == "written"}
    lacking, pending = waiting(points, reviews, written, read=read)
    penalty = submission.late_submission_penalty or 0.0
    held = Recorded(
        student, assignment, None, round(submission.score - penalty, 6), submission.max_score,
        pending, lacking, submission.total_seconds_late, penalty,
    )  # fmt: skip
    gradebook.db.expunge_all()  # a class of them would fill the memory
    return held
