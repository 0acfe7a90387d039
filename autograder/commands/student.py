"""run, check, pack, doctor, course: what a student types."""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autograder.commands import FAILED, NOT_GRADED, OK, usage
from autograder.course import Assignment, CourseError, find_root, load
from autograder.course_model import MAX_RANKS
from autograder.messages import text

if TYPE_CHECKING:
    from autograder.launch.run import Run
    from autograder.notebook.result import CopyResult
    from autograder.verdict.diagnosis import Diagnosis

RUN_SCHEMA = 1
CHECK_SCHEMA = 1
DIAGNOSIS_KEYS = ("id", "rank", "line", "message", "advice")
PLACEHOLDER = "VOTRE_IDENTIFIANT"  # what the pages write for a student's own id
DEFAULT_FILES = ("labo.py",)  # what a copy holds beside its notebook where no course.yaml says it


def run(labo: Path, *, nproc: int | None, env: Sequence[str], timeout: float | None, as_json: bool) -> int:
    """Launch `labo` once. 0: it ended well; 1: it did not; 3: the machine's fault; 2: usage."""
    pairs = [item.partition("=") for item in env]
    for item, (name, equals, _) in zip(env, pairs, strict=True):
        if not (name and equals):
            return usage(text("cli.bad-env", given=item))
    if nproc is not None and not 1 <= nproc <= MAX_RANKS:
        return usage(text("cli.bad-nproc", given=nproc))
    if timeout is not None and not 0 < timeout < float("inf"):
        return usage(text("cli.bad-timeout", given=timeout))

    from autograder.notebook.given import not_a_script

    if (why := not_a_script(labo)) is not None:
        return usage(why)

    from autograder.launch import launch
    from autograder.verdict import detail
    from autograder.verdict.diagnosis import diagnose

    variables = {name: value for name, _, value in pairs}
    try:
        result = launch(str(labo), nproc=nproc, env=variables, time_limit_s=timeout)
    except CourseError as error:
        return usage(str(error))
    diagnosis = diagnose(result)
    if detail.worth_it(result, diagnosis):
        again = launch(str(labo), nproc=nproc, env=variables, time_limit_s=timeout, detail=True)
        diagnosis = detail.better(result, diagnosis, again, diagnose(again))
    if as_json:
        _print_json(run_json(result, diagnosis))
    else:
        from autograder.report.run_view import view

        print(view(result, diagnosis))
    if result.infra:
        return NOT_GRADED
    return OK if result.exit_code == 0 and not result.timed_out else FAILED


def run_json(result: Run, diagnosis: Diagnosis | None) -> dict[str, Any]:
    """The documented JSON of `autograder run`. Where ranks could not be separated, rank is null."""
    ranks = [
        {"rank": log.rank, "exit_code": log.exit_code, "stdout": log.stdout, "stderr": log.stderr}
        for log in result.ranks
    ]
    if not ranks:
        stderr = result.stderr or result.launcher_stderr
        ranks = [{"rank": None, "exit_code": result.exit_code, "stdout": result.stdout, "stderr": stderr}]
    return {
        "schema": RUN_SCHEMA,
        "exit_code": result.exit_code,
        "timed_out": result.timed_out,
        "duration_s": result.duration_s,
        "ranks": ranks,
        "collectives": [dataclasses.asdict(collective) for collective in result.collectives],
        "diagnosis": diagnosis and {key: getattr(diagnosis, key) for key in DIAGNOSIS_KEYS},
    }


def check(assignment: str, path: Path | None, *, as_json: bool, watch: bool = False) -> int:
    """Run the assignment's tests. 0: all passed; 1: some failed; 3: not graded; 2: usage. `watch`: again
    whenever a file is saved, until Ctrl-C, which gives 0.
    """
    from autograder.batch.handin import HandinError
    from autograder.notebook.cells import CopyError
    from autograder.notebook.check import check as examine

    try:
        known = _known(assignment)
        place = path or _copy_folder(assignment)
        if watch:
            from autograder.commands.watch import watch as again

            return again(assignment, place, known.files if known else (), as_json=as_json)
        result = examine(assignment, place)
    except (CourseError, CopyError, HandinError) as error:
        return usage(str(error))
    if as_json:
        _print_json(check_json(result))
    else:
        print(check_text(result, place))
    if not result.graded:
        return NOT_GRADED
    return OK if result.passed else FAILED


def check_text(result: CopyResult, place: Path) -> str:
    """The same in French. `place`: what was checked; an instructor's source is not handed in."""
    from autograder.report.launches import pictures
    from autograder.report.run_view import check_view

    told = check_json(result) | {"tests": [dataclasses.asdict(test) for test in result.tests]}
    root = find_root(place)
    source = root is not None and place.resolve().is_relative_to(root / "source")
    return check_view(told, result.remarks, pictures(result.cells), source=source)


def check_json(result: CopyResult) -> dict[str, Any]:
    """The documented JSON of `autograder check`. A test without a mark is skipped: `cause` says why."""
    from autograder.verdict.suspicion import FLAG

    diagnosis = result.diagnosis
    tests = [dataclasses.asdict(test) for test in result.tests]
    for test in tests:
        if test["status"] == "not_graded":
            test["status"] = "skipped"
    return {
        "schema": CHECK_SCHEMA,
        "assignment": result.assignment,
        "score": result.score,
        "max_score": result.max_score,
        "graded": result.graded,
        "cause": result.cause,
        "tests": tests,
        "flags": [flag for flag in result.flags if flag != FLAG],   # that one is for the grader
        "diagnosis": diagnosis and {key: diagnosis.get(key) for key in DIAGNOSIS_KEYS},
    }


def pack(assignment: str, student: str | None, folder: Path | None) -> int:
    """Write the zip to upload into the current folder. 0, or 2 with what to do."""
    from autograder.batch.handin import HandinError, default_student_id
    from autograder.batch.handin import pack as write

    if student == PLACEHOLDER:
        return usage(text("cli.placeholder-id"))
    try:
        one = _known(assignment)
        declared = one.files if one else DEFAULT_FILES
        chosen = default_student_id() if student is None else student
        packed = write(assignment, declared, chosen, folder or Path.cwd(), out=Path.cwd())
    except (HandinError, CourseError) as error:
        return usage(str(error))
    for warning in packed.warnings:
        print(text("handin.warning", warning=warning))
    print(text("handin.written", path=packed.path))
    print(text("handin.content", names=", ".join(packed.names)))
    if student is None:
        print(text("handin.identifier", student=chosen))
    print(text("handin.upload"))
    return OK


def doctor(*, launch: bool, as_json: bool) -> int:
    """0 when two processes can be launched here, 1 otherwise."""
    from autograder import doctor as clinic

    findings = list(clinic.examine(launch=launch))
    if as_json:
        _print_json(clinic.as_json(findings))
    else:
        print(clinic.report(findings))
    return FAILED if any(finding.status == "fail" for finding in findings) else OK


def doctor_job(path: Path, *, as_json: bool) -> int:
    """What went wrong in the Slurm job that wrote `path`. 1 when a cause is found, 0 when none is known."""
    from autograder import doctor as clinic
    from autograder.verdict.slurm import read_output

    try:
        written = path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return usage(text("slurm.output.unreadable", path=path))
    found = read_output(written)
    findings = [clinic.of_slurm(found)] if found else []
    if as_json:
        _print_json(clinic.as_json(findings))
    else:
        print(clinic.lines(findings) if findings else text("slurm.output.nothing", path=path))
    return FAILED if findings else OK


def course() -> int:
    """The course's facts and dates, in French."""
    from autograder.report.course_view import view

    if find_root() is None:
        return usage(text("cli.no-course", folder=Path.cwd()))
    try:
        print(view(load()))
    except CourseError as error:
        return usage(str(error))
    return OK


def _known(name: str) -> Assignment | None:
    """The assignment; None where there is no course.yaml to know it from; HandinError for an unknown one."""
    from autograder.batch.handin import HandinError, nearest

    if find_root() is None:
        return None
    known = {one.id: one for one in load().assignments}
    if name not in known:
        near = nearest(name, known) or next((one for one in known if name and one.startswith(name)), None)
        key = "cli.no-such-assignment-near" if near else "cli.no-such-assignment"
        raise HandinError(text(key, given=name, near=near or "", names=", ".join(known)))
    return known[name]


def _copy_folder(assignment: str) -> Path:
    """Where the copy is when no path is given: here, or in the assignment's folder below."""
    from autograder.batch.handin import HandinError, find_copy

    try:
        return find_copy(assignment, Path.cwd())
    except HandinError:
        return Path.cwd()  # a labo.py alone, or nothing: the check says which


def _print_json(data: dict[str, Any]) -> None:
    json.dump(data, sys.stdout, ensure_ascii=False, indent=1)
    print()
