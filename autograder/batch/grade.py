"""Grade a class: examine every copy, keep each result, then record them all. One bad copy never stops the
others.
"""

from __future__ import annotations

import functools
import os
import shutil
import traceback
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, replace
from pathlib import Path

from autograder import course as courses
from autograder import leftovers
from autograder.batch import trouble
from autograder.batch.copies import find_copies, unusable_names
from autograder.batch.groups import Standing, of_copy, of_partner, standings
from autograder.batch.record import Progress, Recorded, record
from autograder.files import sweep_drafts
from autograder.messages import text
from autograder.notebook.apart import STOP
from autograder.notebook.exam import Exam, prepare, still_good
from autograder.notebook.examine import examine, not_graded
from autograder.notebook.received import folder_problem
from autograder.notebook.recorded import RECORDED
from autograder.notebook.result import RESULTS, CopyResult, copy_sha256, keep, kept, result_path
from autograder.notebook.student import nearly_full

RUNS = Path(".autograder") / "runs" / "grading"


@dataclass(frozen=True)
class Row:
    """One copy of the class: what grading it gave (without its outputs), and what the gradebook holds now."""

    student: str
    assignment: str
    result: CopyResult
    recorded: Recorded

    @property
    def of_partner(self) -> bool:
        """The copy is another member's of the group: whatever it needs is done on that one's row."""
        return bool(self.result.group) and self.result.group[0] != self.student


@dataclass(frozen=True)
class ClassReport:
    """`missing`: students who were named, and have no copy of an assignment that was asked for. `notes`: what
    the grader should know of the groups, in French. `left_over`: what a killed grading left and we could not
    remove. `unusable`: folders of submitted/ whose names nbgrader does not take.
    """

    assignments: tuple[str, ...]
    rows: tuple[Row, ...]
    missing: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = ()
    left_over: tuple[str, ...] = ()
    unusable: tuple[str, ...] = ()

    @property
    def complete(self) -> bool:
        """Every copy was graded and recorded."""
        graded = all(row.result.graded and row.recorded.problem is None for row in self.rows)
        return graded and not self.unusable


def grade_class(
    course: courses.Course, assignments: Iterable[str] | None = None, students: Iterable[str] | None = None,
    jobs: int = 1, progress: Progress = lambda done, total, what: None, again: bool = False,
    sandbox: bool = False,
) -> ClassReport:  # fmt: skip
    """Grade submitted/<student>/<assignment>/ and record it; a group's copy for each of its members.

    `jobs` copies are examined at once (each launches two ranks: never more than half the cores). A copy
    whose kept result is still that of the same content, tests and versions is not run again, unless
    `again`. `sandbox`: students' code runs in boxes, of which the caller knows that they can be made, and a
    result without one is not kept. `progress(done, total, what)` is called before each copy, in both passes,
    and at the end.
    CourseError for an unknown assignment; CopyError when an assignment has no notebook with tests;
    GradingStopped when the machine does not let it go on (a full disk, a damaged or locked gradebook).
    """
    with trouble.alone(course.root):
        left_over = _clear_up(course.root)
        try:
            with leftovers.own_temporary(), trouble.patient():
                trouble.ready(course)
                report = _grade_class(course, assignments, students, jobs, progress, again, sandbox)
        except trouble.GradingStopped:
            raise
        except Exception as error:  # of the disk or the gradebook: one sentence; of ours: a traceback
            raise trouble.of(error, course) or error from None
    return replace(report, left_over=left_over, unusable=tuple(unusable_names(course.root)))


def _clear_up(root: Path) -> tuple[str, ...]:
    """End and remove what a grading that was killed left here; what could not be, with the reason."""
    for place in (root, root / ".autograder", *(root / RESULTS).glob("*"), *(root / RECORDED).glob("*")):
        sweep_drafts(place)
    return tuple(leftovers.sweep())


def _grade_class(
    course: courses.Course, assignments: Iterable[str] | None, students: Iterable[str] | None, jobs: int,
    progress: Progress, again: bool, sandbox: bool,
) -> ClassReport:  # fmt: skip
    chosen = [course.assignment(name).id for name in assignments or ()] or [
        one.id for one in course.assignments
    ]
    wanted = set(students or ())
    runs = course.root / RUNS
    shutil.rmtree(runs, ignore_errors=True)
    runs.mkdir(parents=True)
    exam = functools.cache(functools.partial(prepare, course=course, runs=runs, sandbox=sandbox))
    found = find_copies(course.root, chosen)
    groups = standings(course, found, exam)
    found = sorted({*found, *groups}, key=lambda copy: (copy[0], chosen.index(copy[1])))
    # Of a group all or none: its members have one mark.
    copies = [
        copy for copy in found
        if not wanted or copy[0] in wanted or (copy in groups and wanted & groups[copy].circle)
    ]  # fmt: skip
    exams = {name: exam(name) for name in dict.fromkeys(name for _, name in copies)}
    own = [copy for copy in copies if copy not in groups or groups[copy].copy == copy[0]]
    total = len(own) + len(copies)
    results: dict[tuple[str, str], CopyResult] = {}
    with ThreadPoolExecutor(max_workers=max(1, jobs)) as pool:
        tasks = {
            pool.submit(_one, course, exams[copy[1]], copy[0], again, groups.get(copy)): copy for copy in own
        }
        progress(0, total, "")
        try:
            for task in as_completed(tasks):
                # Outputs stay on disk, where recording reads them: a class of them would fill the memory.
                results[tasks[task]] = replace(task.result(), cells={})
                progress(len(results), total, " ".join(tasks[task]))
        except BaseException:
            progress(len(results), total, "stopping what runs")
            STOP.set()
            pool.shutdown(wait=True, cancel_futures=True)
            raise
        finally:
            STOP.clear()
    for student, name in copies:
        if (student, name) not in results:
            results[student, name] = replace(results[groups[student, name].copy, name], student=student)
    offset = len(own)
    recorded, told = record(
        course, copies, exams, lambda done, _, what: progress(offset + done, total, what), groups
    )
    rows = [Row(*copy, results[copy], entry) for copy, entry in zip(copies, recorded, strict=True)]
    notes = [note for copy in copies if copy in groups and (note := groups[copy].note)]
    missing = [
        (student, name) for student in sorted(wanted) for name in chosen if (student, name) not in found
    ]
    return ClassReport(tuple(chosen), tuple(rows), tuple(missing), (*notes, *told))


def _one(
    course: courses.Course, exam: Exam, student: str, again: bool, standing: Standing | None = None
) -> CopyResult:
    """The result of one copy, kept on disk for each student it counts for; whatever goes wrong in it is "not
    graded".
    """
    folder = course.root / "submitted" / student / exam.assignment
    path = result_path(course.root, exam.assignment, student)
    before = kept(path)
    if standing is not None and standing.cause is not None:
        digest = copy_sha256(folder) if os.path.isdir(folder) else ""
        result = replace(not_graded(exam, standing.cause), student=student, copy_sha256=digest)
    elif (problem := folder_problem(folder, course.root / "submitted")) is not None:
        result = replace(not_graded(exam, problem), student=student)
    elif before is not None and not again and still_good(before, exam, folder) and _own(before, student):
        result = before
    else:
        try:
            result = examine(folder, exam.assignment, course, student=student, exam=exam)
        except Exception as error:
            full = trouble.disk_full(error)
            if full and nearly_full():
                raise trouble.full(course.root) from None
            result = _failed(exam, student, "grading.disk-full" if full else "grading.examine-failed")
    result = of_copy(result, standing)
    if result != before:
        try:
            keep(result, path)
        except (ValueError, TypeError, RecursionError):  # of a shape that cannot be written: never a zero
            result = of_copy(_failed(exam, student, "grading.examine-failed"), standing)
            keep(result, path)
    if standing is not None and standing.examined:
        for partner in standing.members[1:]:
            keep(of_partner(result, partner), result_path(course.root, exam.assignment, partner))
    return result


def _failed(exam: Exam, student: str, cause: str) -> CopyResult:
    """Not graded, by the exception that is being handled: its traceback is for the grader."""
    return replace(not_graded(exam, text(cause)), student=student, details=(traceback.format_exc(),))


def _own(result: CopyResult, student: str) -> bool:
    """Not the result of another member's copy, kept when this student had none."""
    return not result.group or result.group[0] == student
