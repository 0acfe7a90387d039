"""Grade one copy, without any database: read it, mend it, run it, run the tests, and say what was found."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from nbformat import NotebookNode

from autograder import course as courses
from autograder.messages import text
from autograder.notebook import numbers
from autograder.notebook.cells import (
    CopyError,
    file_body,
    needed_names,
    read_notebook,
    same_code,
    written_file,
)
from autograder.notebook.exam import Exam, fingerprint, name_of, own_notebook, prepare, versions
from autograder.notebook.given import LABO, unreadable_script
from autograder.notebook.launches import with_launches
from autograder.notebook.received import file_problems, nearest_notebook, read_submitted
from autograder.notebook.repair import Repaired, Skeleton, repair
from autograder.notebook.result import CopyResult, TestResult, copy_sha256
from autograder.notebook.student import MAX_FILE, StudentRun, read_files, read_regular, run_student
from autograder.notebook.testcells import Answers, Outcome, run_tests
from autograder.verdict import tampering

STUDENT_LIMIT_S = 120.0  # a student's own cells; launches of labo.py have their own limit


def examine(
    copy_dir: Path, assignment: str | courses.Assignment, course: courses.Course | None, *,
    student: str | None = None, sandbox: bool = False, exam: Exam | None = None,
) -> CopyResult:  # fmt: skip
    """The result of the copy in `copy_dir`. Whatever the student wrote, a result comes back, never an
    exception.
    """
    started = time.monotonic()
    folder, assignment = Path(copy_dir).resolve(), name_of(assignment)
    exam = exam or prepare(assignment, course, sandbox=sandbox)
    path = folder / f"{assignment}.ipynb"
    try:
        if os.path.lexists(path):
            result = _notebook(exam, read_submitted(path), folder, student)
        elif (near := nearest_notebook(folder, assignment)) is not None:
            result = not_graded(exam, text("grading.wrong-name", name=near, expected=path.name))
        elif files := read_files(folder, exam.files):
            result = _answers_missing(_files_alone(exam, files), path.name, files)
        elif unread := file_problems(folder, exam.files, MAX_FILE):
            result = not_graded(exam, " ".join(unread.values()))
        else:
            names = listed(exam.files)
            result = not_graded(exam, text("grading.no-notebook", expected=path.name, names=names))
    except CopyError as error:
        result = not_graded(exam, str(error))
    return _sign(result, exam, student, copy_sha256(folder), started)


def examine_notebook(path: Path, assignment: str, course: courses.Course | None) -> CopyResult:
    """As `examine`, for a notebook of any name and the files beside it. CopyError when it cannot be read."""
    started = time.monotonic()
    notebook = read_notebook(path)
    exam = prepare(assignment, course, own=path)
    result = _notebook(exam, notebook, path.resolve().parent)
    if exam.with_solution and path.resolve() == exam.tests_from.resolve():  # its hidden tests belong there
        unlocked = {text("grading.cell-unlocked", cell=cell.id) for cell in exam.frame.cells}
        result = replace(result, remarks=tuple(one for one in result.remarks if one not in unlocked))
    return _sign(result, exam, None, hashlib.sha256(path.read_bytes()).hexdigest(), started)


def examine_script(path: Path, assignment: str, course: courses.Course | None) -> CopyResult:
    """Only the tests that need nothing but this file; those of answers are skipped and leave `max_score`.

    A script of any name stands for labo.py where the assignment has one.
    """
    started = time.monotonic()
    content = read_regular(path, MAX_FILE)
    if content is None:
        raise CopyError(unreadable_script(path, MAX_FILE))
    exam = prepare(assignment, course, own=own_notebook(path.resolve().parent, assignment, course))
    name = path.name if path.name in exam.files else LABO
    if name not in exam.files:
        names = listed(exam.files)
        raise CopyError(text("grading.file-not-declared", name=path.name, names=names))
    result = _files_alone(exam, {name: content})
    return _sign(result, exam, None, hashlib.sha256(content).hexdigest(), started)


def examine_files(folder: Path, assignment: str, course: courses.Course | None) -> CopyResult | None:
    """As `examine_script`, for all the declared files of a folder without its notebook; None without any."""
    started = time.monotonic()
    exam = prepare(assignment, course, own=own_notebook(folder.resolve(), assignment, course))
    files = read_files(folder, exam.files)
    if not files:
        return None
    return _sign(_files_alone(exam, files), exam, None, copy_sha256(folder), started)


def listed(names: Iterable[str]) -> str:
    """File names as a sentence shows them."""
    return ", ".join(f"`{name}`" for name in names) or "—"


def not_graded(exam: Exam, cause: str) -> CopyResult:
    """Every test left without a mark, for one cause."""
    tests = tuple(
        TestResult(cell.id, "not_graded", 0.0, cell.points, cause)
        for cell in exam.frame.cells
        if cell.role == "test"
    )
    cells = {test.id: [_error("NotGraded", cause)] for test in tests}
    top = sum(test.max_points for test in tests)
    return CopyResult(
        exam.assignment, graded=False, cause=cause, max_score=top, tests=tests, cells=cells, notebook=False
    )


# ------------------------------------------------------------------------------------------ two kinds


def _notebook(exam: Exam, submitted: NotebookNode, folder: Path, student: str | None = None) -> CopyResult:
    mended = repair(submitted, exam.frame)
    skip, flags, remarks = _which_files(exam, mended, folder)
    tests = [cell for cell in exam.frame.cells if cell.role == "test"]
    own = exam.numbers == "per-student"
    names = [*_answer_names(exam), *([numbers.TYPED] if own else [])]
    limit = min(STUDENT_LIMIT_S, exam.trusted.limit_s)
    ran = run_student(
        mended.notebook, mended.roles, names, folder, exam.data, limit, skip, exam.files,
        student if own else None, exam.sandbox, exam.trusted.warm.notebook,
    )  # fmt: skip
    typed = ran.values.get(numbers.TYPED) if own else None
    left = replace(
        exam.trusted, limit_s=max(1.0, exam.trusted.limit_s - ran.duration_s),
        student=numbers.whose(student, typed) if own else None,
    )  # fmt: skip
    answers = Answers(ran.values, ran.absent, stopped=ran.stopped)
    files = _files_of_stopped(exam.frame, mended, ran, skip) if ran.stopped else ran.files
    unread = _unread(exam, mended, folder)
    outcomes = run_tests(
        exam.frame.cells, answers, files, exam.data, left, exam.with_solution, exam.files, unread
    )
    cells = _not_run_notes(mended) | dict(ran.cells)
    for ident, name in skip.items():
        cells[ident] = _note(text("grading.file-counts", name=name))
    made = {outcome.id: outputs(outcome, cell.points) for outcome, cell in zip(outcomes, tests, strict=True)}
    cells |= with_launches(made, outcomes)
    remarks = (*mended.remarks, *remarks, *([ran.stopped] if ran.stopped else []))
    if own and (told := numbers.mismatch(student, typed)):
        flags, remarks = (*flags, numbers.FLAG), (*remarks, told)
        if (typed_in := numbers.cell_of(mended.notebook, ran)) is not None:
            cells[typed_in] = [*cells[typed_in], *_note(told)]
    result = _assemble(exam, outcomes, cells, flags, remarks, files)
    result = replace(result, warm=result.warm or ran.warm)
    return replace(result, clock=("notebook", *result.clock)) if ran.stopped else result


def _unread(exam: Exam, mended: Repaired, folder: Path) -> dict[str, str]:
    """The declared files that were handed in and cannot be used, with why; not those that a cell writes."""
    given = exam.frame.released
    written = {
        written_file(node.source)
        for node in mended.notebook.cells
        if mended.roles.get(node.id) in ("file", "plain")
        and not same_code(node.source, given.get(node.id, ""))
    }
    problems = file_problems(folder, exam.files, MAX_FILE)
    return {name: why for name, why in problems.items() if name not in written}


def _note(content: str) -> list[dict[str, Any]]:
    return [{"output_type": "stream", "name": "stdout", "text": content + "\n"}]


def _not_run_notes(mended: Repaired) -> dict[str, list[dict[str, Any]]]:
    """What to show under the cells that are not run when grading."""
    keys = {"show": "grading.launch-not-rerun", "copy": "grading.copied-not-run"}
    code = {node.id for node in mended.notebook.cells if node.cell_type == "code"}
    return {id: _note(text(keys[role])) for id, role in mended.roles.items() if role in keys and id in code}


def _files_of_stopped(
    frame: Skeleton, mended: Repaired, ran: StudentRun, skip: Mapping[str, str]
) -> dict[str, bytes]:
    """The files of a copy whose cells did not come to their end: what a cell says, if it was not reached."""
    files = dict(ran.files)
    idents = {cell.id for cell in frame.cells if cell.role == "file"} - set(skip) - set(ran.cells)
    for node in mended.notebook.cells:
        if node.id in idents and (name := written_file(node.source)):
            files[name] = file_body(node.source).encode("utf-8", errors="replace")
    return files


def _files_alone(exam: Exam, files: Mapping[str, bytes]) -> CopyResult:
    outcomes = run_tests(
        exam.frame.cells, Answers(handed_in=False), files, exam.data, exam.trusted, exam.with_solution,
        exam.files,
    )  # fmt: skip
    made = {outcome.id: outputs(outcome, outcome.max_points) for outcome in outcomes}
    cells = with_launches(made, outcomes)
    return replace(_assemble(exam, outcomes, cells, (), (), files), notebook=False)


def _answers_missing(result: CopyResult, expected: str, files: Iterable[str]) -> CopyResult:
    """A copy without its notebook: its files' tests count; what was never handed in has no mark."""
    cause = text("grading.files-alone", expected=expected, names=listed(files))
    tests = tuple(
        replace(test, status="not_graded", message=cause) if test.status == "skipped" else test
        for test in result.tests
    )
    if tests == result.tests:
        return result
    cells = {test.id: [_error("NotGraded", cause)] for test in tests if test.message == cause}
    return replace(
        result, tests=tests, cells=result.cells | cells, graded=False, cause=result.cause or cause,
        max_score=sum(test.max_points for test in tests),
    )  # fmt: skip


def _answer_names(exam: Exam) -> list[str]:
    return sorted({name for needs in needed_names(list(exam.frame.cells)).values() for name in needs})


def _which_files(
    exam: Exam, mended: Repaired, folder: Path
) -> tuple[dict[str, str], tuple[str, ...], tuple[str, ...]]:
    """The cells not to run because the file that they write counts (and its name), with flags and remarks.

    The cell counts when the student changed it; the file counts when only the file was changed.
    """
    skip: dict[str, str] = {}
    flags: dict[str, None] = {}
    remarks: list[str] = []
    handed_in = read_files(folder, exam.files)
    for cell in exam.frame.cells:
        name = written_file(cell.source)
        if cell.role != "file" or name not in handed_in:
            continue
        file = handed_in[name].decode("utf-8", errors="replace")
        released = file_body(exam.frame.released[cell.id])
        written = file_body(next(node.source for node in mended.notebook.cells if node.id == cell.id))
        if same_code(file, released) or same_code(file, written):
            continue
        if same_code(written, released):
            skip[cell.id] = name
            remarks.append(text("grading.file-counts", name=name))
        else:
            flags["file-differs"] = None
            remarks.append(text("grading.file-differs", name=name))
    return skip, tuple(flags), tuple(remarks)


def outputs(outcome: Outcome, points: float) -> list[dict[str, Any]]:
    """A test cell's outputs as nbgrader reads them: a number is the mark, an error is 0, NotGraded has no
    mark.
    """
    shown: list[dict[str, Any]] = []
    if outcome.stdout:
        shown.append({"output_type": "stream", "name": "stdout", "text": outcome.stdout})
    if outcome.status in ("not_graded", "skipped"):
        return [*shown, _error("NotGraded", outcome.report or outcome.message)]
    if outcome.status == "failed":
        whole = outcome.report or "\n".join(part for part in (outcome.message, outcome.advice) if part)
        return [*shown, _error("TestFailed", whole)]
    mark = {"text/plain": repr(float(outcome.points))}
    return [*shown, {"output_type": "execute_result", "data": mark, "metadata": {}, "execution_count": None}]


def _error(name: str, message: str) -> dict[str, Any]:
    first = message.strip().splitlines()[0] if message.strip() else name
    return {
        "output_type": "error",
        "ename": name,
        "evalue": first,
        "traceback": message.splitlines() or [name],
    }


def _assemble(
    exam: Exam, outcomes: list[Outcome], cells: Mapping[str, list[dict[str, Any]]], flags: Iterable[str],
    remarks: Iterable[str], files: Mapping[str, bytes],
) -> CopyResult:  # fmt: skip
    tests = tuple(TestResult(o.id, o.status, o.points, o.max_points, o.message, o.advice) for o in outcomes)
    causes = [outcome for outcome in outcomes if outcome.status == "not_graded"]
    seen = [*tampering.notes_of_files(files), *(line for outcome in outcomes for line in outcome.suspicions)]
    suspicions = tampering.shortened(seen)
    every = dict.fromkeys([*flags, *(flag for outcome in outcomes for flag in outcome.flags)])
    if suspicions:
        every[tampering.FLAG] = None
    diagnosis = next((outcome.diagnosis for outcome in outcomes if outcome.diagnosis), None)
    return CopyResult(
        exam.assignment, graded=not causes, cause=causes[0].message if causes else None,
        score=round(sum(outcome.points for outcome in outcomes), 6),
        max_score=sum(outcome.max_points for outcome in outcomes if outcome.status != "skipped"),
        tests=tests, flags=tuple(every), remarks=tuple(remarks), diagnosis=diagnosis, cells=dict(cells),
        details=tuple(outcome.cause for outcome in causes if outcome.cause), suspicions=suspicions,
        clock=tuple(outcome.id for outcome in outcomes if outcome.timed),
        warm=any(outcome.warm for outcome in outcomes),
    )  # fmt: skip


def _sign(result: CopyResult, exam: Exam, student: str | None, digest: str, started: float) -> CopyResult:
    return replace(
        result, student=student, versions=versions(exam), key_fingerprint=fingerprint(exam),
        sandbox=exam.sandbox, copy_sha256=digest,
        duration_s=round(time.monotonic() - started, 3),
    )  # fmt: skip
