"""What grading an assignment needs, read once for a whole class, and what a mark depends on."""

from __future__ import annotations

import functools
import hashlib
import os
import re
from dataclasses import dataclass, replace
from pathlib import Path

from nbformat import NotebookNode

import autograder
from autograder import course as courses
from autograder.launch import engine
from autograder.launch.warm.client import Servers, told
from autograder.messages import text
from autograder.notebook.cells import CopyError, read_notebook, source_cells
from autograder.notebook.given import LABO
from autograder.notebook.repair import Skeleton, skeleton
from autograder.notebook.result import CopyResult, copy_sha256
from autograder.notebook.sources import read_source
from autograder.notebook.testcells import Trusted
from autograder.notebook.variants import variant


@dataclass(frozen=True)
class Exam:
    """What grading an assignment needs: its notebook with all tests, its data files, and what tests may
    know.
    """

    assignment: str
    tests_from: Path
    frame: Skeleton
    data: tuple[Path, ...]
    files: tuple[str, ...]  # the names of what is handed in beside the notebook
    trusted: Trusted
    tests_sha256: str
    with_solution: bool  # the notebook is the source: its answers and hidden tests are there
    sandbox: bool = False
    numbers: str = "same"  # or per-student: the questions' numbers come from the submission's id


def prepare(
    assignment: str | courses.Assignment, course: courses.Course | None, *, own: Path | None = None,
    sandbox: bool = False, runs: Path | None = None,
) -> Exam:  # fmt: skip
    """Read the assignment once for a whole class.

    Test cells come from source/<assignment>/ where it is, else release/<assignment>/, else from the
    notebook `own` (a student's machine). CopyError when there are none anywhere.
    """
    assignment = name_of(assignment)
    root = course.root if course is not None else None
    names = f"{assignment}/{assignment}.ipynb"
    source = root / "source" / names if root else None
    released = root / "release" / names if root else None
    places = [path for path in (source, released, own) if path is not None and path.is_file()]
    if not places:
        raise CopyError(_no_tests(assignment, root))
    read = read_source if source in places else read_notebook
    notebook = read(places[0])
    release = read(released) if released is not None and released.is_file() else None
    one = course.assignment(assignment) if course is not None else None
    declared = one.data if one is not None and places[0] != own else []
    data = tuple(path for name in declared if (path := places[0].parent / name).is_file())
    files = tuple(one.files) if one is not None else _named_files(notebook)
    numbers = one.numbers if one is not None else "same"
    limit = course.launch.copy_limit_s if course is not None else 600.0
    key = _key_file(root)
    kept_runs = Path(os.environ["AUTOGRADER_RUNS"]) if os.environ.get("AUTOGRADER_RUNS") else runs
    digest = hashlib.sha256(places[0].read_bytes())
    if numbers != "same":  # not written for the others, whose kept results stay good
        digest.update(numbers.encode())
    for path in data:
        digest.update(path.name.encode() + path.read_bytes())
    return Exam(
        assignment, places[0], skeleton(variant(notebook, numbers), release), data, files,
        Trusted(root, key, kept_runs, limit, sandbox=sandbox, warm=told()), digest.hexdigest(),
        places[0] == source, sandbox, numbers,
    )  # fmt: skip


def own_notebook(folder: Path, assignment: str, course: courses.Course | None) -> Path:
    """Where a student's machine has the assignment's notebook, and so its tests: beside what is checked, or
    in the course's folder.
    """
    beside = folder / f"{assignment}.ipynb"
    return beside if course is None or beside.is_file() else course.root / assignment / beside.name


def _no_tests(assignment: str, root: Path | None) -> str:
    """Where the tests were looked for, as whoever is in this folder knows it."""
    if root is None:
        return text("grading.no-tests-no-course", assignment=assignment)
    instructors = any((root / part).is_dir() for part in ("source", "release"))
    return text("grading.no-tests-source" if instructors else "grading.no-tests", assignment=assignment)


def in_box(exam: Exam, sandbox: bool) -> Exam:
    """The same exam, with or without a box for students' code."""
    return replace(exam, sandbox=sandbox, trusted=replace(exam.trusted, sandbox=sandbox))


def launched(exam: Exam, warm: Servers, runs: Path | None) -> Exam:
    """The same exam, what it runs forked by these servers (none: each starts its Python), and kept there."""
    return replace(exam, trusted=replace(exam.trusted, warm=warm, runs=runs))


def _named_files(notebook: NotebookNode) -> tuple[str, ...]:
    """Without course.yaml (a notebook fetched alone): labo.py, and the texts that test cells name."""
    tests = "\n".join(cell.source for cell in source_cells(notebook) if cell.role == "test")
    return tuple(dict.fromkeys([LABO, *re.findall(r"""["']([\w-]+\.(?:py|txt|json))["']""", tests)]))


def name_of(assignment: str | courses.Assignment) -> str:
    return assignment if isinstance(assignment, str) else assignment.id


def _key_file(root: Path | None) -> Path | None:
    """The course key's file on a grader's machine, made on first use; None where there is no source/."""
    if os.environ.get("AUTOGRADER_KEY_FILE"):
        return Path(os.environ["AUTOGRADER_KEY_FILE"])
    if root is None or not (root / "source").is_dir():
        return None
    courses.course_key(root)
    return root / courses.KEY_FILE


def versions(exam: Exam) -> dict[str, str]:
    """What a mark depends on besides the copy."""
    launched = engine.versions()
    return {
        "autograder": f"{autograder.__version__}+{_code()}",
        "python": launched["python"],
        "torch": launched["torch"],
        "tests": exam.tests_sha256,
    }


@functools.cache
def _code() -> str:
    """This package's own text: a mark that another version of a rule gave is not this one's."""
    digest = hashlib.sha256()
    package = Path(autograder.__file__).parent
    for path in sorted(package.rglob("*.py")):
        digest.update(path.relative_to(package).as_posix().encode() + path.read_bytes())
    return digest.hexdigest()[:12]


def fingerprint(exam: Exam) -> str:
    """Which key the hidden tests drew with; "public" on a student's machine."""
    if exam.trusted.key_file is None:
        return "public"
    return courses.key_fingerprint(exam.trusted.key_file.read_bytes())


def still_good(result: CopyResult | None, exam: Exam, folder: Path) -> bool:
    """Whether a kept result is that of this very copy, tests, versions and key: grading again would say the
    same.
    """
    return (
        result is not None
        and result.graded
        and (result.sandbox or not exam.sandbox)
        and result.versions == versions(exam)
        and result.key_fingerprint == fingerprint(exam)
        and result.copy_sha256 == copy_sha256(folder)
    )
