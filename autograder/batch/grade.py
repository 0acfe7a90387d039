"""Grade a class: examine every copy, keep each result, then record them all. One bad copy never stops the
others.
"""

from __future__ import annotations

import shutil
import traceback
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, replace
from pathlib import Path

from autograder import course as courses
from autograder.batch.record import Progress, Recorded, record
from autograder.messages import text
from autograder.notebook.exam import Exam, prepare, still_good
from autograder.notebook.examine import examine, not_graded
from autograder.notebook.result import CopyResult, keep, kept, result_path

RUNS = Path(".autograder") / "runs" / "grading"


@dataclass(frozen=True)
class Row:
    """One copy of the class: what grading it gave (without its outputs), and what the gradebook holds now."""

    student: str
    assignment: str
    result: CopyResult
    recorded: Recorded


@dataclass(frozen=True)
class ClassReport:
    """`missing`: students who were named, and have no copy of an assignment that was asked for."""

    assignments: tuple[str, ...]
    rows: tuple[Row, ...]
    missing: tuple[tuple[str, str], ...] = ()

    @property
    def complete(self) -> bool:
        """Every copy was graded and recorded."""
        return all(row.result.graded and row.recorded.problem is None for row in self.rows)


def grade_class(
    course: courses.Course, assignments: Iterable[str] | None = None, students: Iterable[str] | None = None,
    jobs: int = 1, progress: Progress = lambda done, total, what: None, again: bool = False,
) -> ClassReport:  # fmt: skip
    """Grade submitted/<student>/<assignment>/ and record it.

    `jobs` copies are examined at once (each launches two ranks: never more than half the cores). A copy
    whose kept result is still that of the same content, tests and versions is not run again, unless
    `again`. `progress(done, total, what)` is called before each copy, in both passes, and at the end.
    CourseError for an unknown assignment; CopyError when an assignment has no notebook with tests.
    """
    chosen = [course.assignment(name).id for name in assignments or ()] or [
        one.id for one in course.assignments
    ]
    wanted = set(students or ())
    found = find_copies(course.root, chosen)
    copies = [copy for copy in found if not wanted or copy[0] in wanted]
    runs = course.root / RUNS
    shutil.rmtree(runs, ignore_errors=True)
    runs.mkdir(parents=True)
    exams = {name: prepare(name, course, runs=runs) for name in dict.fromkeys(name for _, name in copies)}
    total = 2 * len(copies)
    results: dict[tuple[str, str], CopyResult] = {}
    with ThreadPoolExecutor(max_workers=max(1, jobs)) as pool:
        tasks = {pool.submit(_one, course, exams[copy[1]], copy[0], again): copy for copy in copies}
        progress(0, total, "")
        try:
            for task in as_completed(tasks):
                # Outputs stay on disk, where recording reads them: a class of them would fill the memory.
                results[tasks[task]] = replace(task.result(), cells={})
                progress(len(results), total, " ".join(tasks[task]))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            progress(len(results), total, "stopping: the copy that runs ends first")
            raise
    offset = len(copies)
    recorded = record(course, copies, exams, lambda done, _, what: progress(offset + done, total, what))
    rows = [Row(*copy, results[copy], entry) for copy, entry in zip(copies, recorded, strict=True)]
    missing = [
        (student, name) for student in sorted(wanted) for name in chosen if (student, name) not in found
    ]
    return ClassReport(tuple(chosen), tuple(rows), tuple(missing))


def find_copies(root: Path, assignments: Iterable[str]) -> list[tuple[str, str]]:
    """The (student, assignment) of every folder of submitted/, student by student."""
    submitted = root / "submitted"
    students = (
        sorted(path.name for path in submitted.iterdir() if path.is_dir()) if submitted.is_dir() else []
    )
    names = list(assignments)
    return [
        (student, name)
        for student in students
        if not student.startswith(".")
        for name in names
        if (submitted / student / name).is_dir()
    ]


def _one(course: courses.Course, exam: Exam, student: str, again: bool) -> CopyResult:
    """The result of one copy, kept on disk; whatever goes wrong in it is "not graded"."""
    folder = course.root / "submitted" / student / exam.assignment
    path = result_path(course.root, exam.assignment, student)
    before = kept(path)
    if before is not None and not again and still_good(before, exam, folder):
        return before
    try:
        result = examine(folder, exam.assignment, course, student=student, exam=exam)
    except Exception:
        result = not_graded(exam, text("grading.examine-failed"))
        result = replace(result, student=student, details=(traceback.format_exc(),))
    keep(result, path)
    return result
