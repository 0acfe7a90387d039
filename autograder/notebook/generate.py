"""From source/ to what students get: nbgrader's own conversion, the same bytes on every run and machine."""

from __future__ import annotations

import logging
import shutil
from pathlib import Path
from typing import Any

import nbformat

from autograder.course import Assignment, Course
from autograder.leftovers import scratch
from autograder.notebook.sources import read_source
from autograder.notebook.tidy import tidied
from autograder.notebook.variants import variant

SOURCE = "source"
RELEASE = "release"


class GenerateError(RuntimeError):
    """nbgrader could not make the release of an assignment: the message says which, and why."""


class _Kept(logging.Handler):
    """Keeps nbgrader's errors, which it logs instead of raising them."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.said: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.said.append(record.getMessage())


def source_folder(course: Course, name: str) -> Path:
    """Where the instructor writes this assignment."""
    return course.root / SOURCE / name


def declared_files(one: Assignment) -> list[str]:
    """All that source/<assignment>/ may hold."""
    return [one.notebook, *one.data]


def generate(course: Course, name: str, out: Path, db_url: str | None = None) -> list[Path]:
    """Write the release of assignment `name` into folder `out`/<name>; give the files written.

    Only declared files are taken from source/. With `db_url`, the assignment's cells are also saved in that
    gradebook, as `nbgrader generate_assignment` does.
    """
    one = course.assignment(name)
    missing = [file for file in declared_files(one) if not (source_folder(course, name) / file).is_file()]
    if missing:
        raise GenerateError(f"{name}: {source_folder(course, name)} lacks {', '.join(missing)}")
    with scratch() as work:
        given = work / SOURCE / name
        given.mkdir(parents=True)
        for file in one.data:
            shutil.copyfile(source_folder(course, name) / file, given / file)
        whole = read_source(source_folder(course, name) / one.notebook)
        nbformat.write(variant(whole, one.numbers), given / one.notebook)
        _convert(course, name, work, db_url)
        made = work / RELEASE / name
        target = out / name
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir(parents=True)
        for file in declared_files(one):
            data = (made / file).read_bytes()
            (target / file).write_bytes(tidied(data) if file.endswith(".ipynb") else data)
    return [target / file for file in declared_files(one)]


def content(folder: Path) -> dict[str, bytes]:
    """Every file of a folder by its path in it; none where there is no folder."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def differences(
    committed: dict[str, bytes], made: dict[str, bytes], place: str, origin: str, command: str
) -> list[str]:
    """How the files of `place` differ from what `origin` gives, each with what to do."""
    what = []
    for file in sorted(committed.keys() | made.keys()):
        if file not in made:
            what.append(f"{place}/{file} is not made from {origin}: remove it")
        elif made[file] != committed.get(file):
            how = "out of date" if file in committed else "missing"
            what.append(f"{place}/{file} is {how}: run `{command}`")
    return what


def write_solution(course: Course, name: str, folder: Path) -> Path:
    """Write the source of assignment `name` into `folder` as a copy of its own; give its notebook."""
    one = course.assignment(name)
    folder.mkdir(exist_ok=True)
    for file in one.data:
        shutil.copyfile(source_folder(course, name) / file, folder / file)
    whole = read_source(source_folder(course, name) / one.notebook)
    nbformat.write(variant(whole, one.numbers, solution=True), folder / one.notebook)
    return folder / one.notebook


def _convert(course: Course, name: str, work: Path, db_url: str | None) -> None:
    from nbgrader.converters import GenerateAssignment
    from nbgrader.converters.base import NbGraderException
    from nbgrader.coursedir import CourseDirectory
    from traitlets.config import Config

    from autograder.notebook.nbconfig import configure

    config: Any = Config()
    configure(config, course)
    config.CourseDirectory.root = str(work)
    config.CourseDirectory.db_url = db_url or "sqlite://"
    config.CourseDirectory.assignment_id = name
    # The folder holds declared files and released cells only, and no course.yaml to read.
    left_out = {"DeclaredFilesOnly", "ReleasedCells", "SaveDueDate"} | (set() if db_url else {"SaveCells"})
    steps = config.GenerateAssignment.preprocessors
    config.GenerateAssignment.preprocessors = [step for step in steps if step.split(".")[-1] not in left_out]
    config.GenerateAssignment.no_database = db_url is None

    logger = logging.Logger("generate")  # private: nothing reaches the console or another handler
    kept = _Kept()
    logger.addHandler(kept)
    courses = CourseDirectory(config=config, log=logger)
    try:
        GenerateAssignment(coursedir=courses, config=config, log=logger).start()
    except NbGraderException as error:
        raise GenerateError(f"{name}: {_reason(kept.said) or error}") from error


def _reason(said: list[str]) -> str:
    """What really went wrong, by the last traceback that nbgrader logged."""
    tracebacks = [text for text in said if text.startswith("Traceback")]
    return refusal(tracebacks[-1]) if tracebacks else ""


def refusal(told: str) -> str:
    """The line that says what went wrong: of a traceback the error itself, whose message may have several."""
    lines = [line for line in told.splitlines() if line.strip()] or ["?"]
    frames = [number for number, line in enumerate(lines) if line.startswith("  File ")]
    after = [line for line in lines[frames[-1]:] if not line[0].isspace()] if frames else []
    return (after or lines[-1:])[0].strip()
