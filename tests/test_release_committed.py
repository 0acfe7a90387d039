"""The real course: release/ is what source/ gives, and gives nothing away."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from autograder.course import Course, load
from autograder.notebook.leaks import scan, secrets
from autograder.notebook.release import prove, stale

ROOT = Path(__file__).resolve().parent.parent
COURSE = load(ROOT)
NAMES = [one.id for one in COURSE.assignments]


@pytest.fixture
def course() -> Course:
    return COURSE


@pytest.mark.parametrize("name", NAMES)
def test_regenerating_gives_the_committed_bytes(course: Course, name: str) -> None:
    assert stale(course, name) == []


@pytest.mark.parametrize("name", NAMES)
def test_the_source_is_well_formed(course: Course, name: str) -> None:
    assert [str(finding) for finding in prove(course, name, run=False)] == []


def test_no_released_file_gives_anything_away(course: Course) -> None:
    known = secrets(course)
    for name in NAMES:  # the scan has something to look for in each assignment
        kinds = {secret.kind for secret in known if secret.assignment == name}
        by_hand = {"mark scheme"} if course.assignment(name).points.manual else set()
        assert kinds == {"solution", "hidden test"} | by_hand
    assert [str(leak) for leak in scan(course, course.root / "release", known)] == []


def test_release_holds_declared_assignments_only(course: Course) -> None:
    folders = {path.name for path in (course.root / "release").iterdir() if not path.name.startswith(".")}
    assert folders == {*NAMES, "pages"}


@pytest.mark.parametrize("name", NAMES)
def test_the_release_has_its_holes_and_its_tests(course: Course, name: str) -> None:
    path = course.root / "release" / name / f"{name}.ipynb"
    cells = json.loads(path.read_bytes())["cells"]
    roles = [cell["metadata"].get("nbgrader", {}) for cell in cells]
    assert sum(role.get("points", 0) for role in roles) == course.assignment(name).points.total
    texts = ["".join(cell["source"]) for cell in cells]
    assert any("NotImplementedError" in text or "Écrivez votre réponse ici." in text for text in texts)
    exam = name == "examen"  # nothing is checked before it is handed in
    assert any("m.total()" in text for text in texts) != exam
    if "labo.py" in course.assignment(name).files and name.startswith("ex"):
        assert any("%%writefile labo.py" in text and "NotImplementedError" in text for text in texts)


# What each exercise's holes teach, however its variables are called.
LESSONS = {
    "ex1-rang": r"""environ(\.get\(|\[)\s*["'](RANK|LOCAL_RANK|WORLD_SIZE)""",
    "ex2-moyenne": r"\ball_reduce\(|ReduceOp\.",
    "ex3-ddp": r"\b(DDP|DistributedDataParallel)\(|device_ids\s*=",
    "ex4-chronometre": r"cuda\.Event\(|\.is_cuda\b",
    "ex5-rang-lent": r"\bsleep\(\s*RALENTI",
}


@pytest.mark.parametrize("lesson", LESSONS)
def test_no_released_script_holds_a_hole_of_any_exercise_filled(course: Course, lesson: str) -> None:
    """Nor any page; but an assignment that is released once the exercise is due may show it."""
    taught = course.assignment(lesson)
    names = [name for name in NAMES if course.assignment(name).release < taught.due]
    assert lesson in names
    for where, script in scripts(course, [*names, "pages"]):
        assert not re.search(LESSONS[lesson], script), where


def scripts(course: Course, names: list[str]) -> Iterator[tuple[str, str]]:
    """What is released as a script in these folders: files, and the cells that write one."""
    for name in names:
        for path in sorted((course.root / "release" / name).iterdir()):
            if path.suffix == ".py":
                yield path.name, path.read_text(encoding="utf-8")
            if path.suffix != ".ipynb":
                continue
            for cell in json.loads(path.read_bytes())["cells"]:
                script = "".join(cell["source"])
                if cell["cell_type"] == "code" and "%%writefile" in script:
                    yield f"{path.name}, cell {cell['id']}", script


@pytest.mark.timeout(600)
def test_all_of_a_release_is_proved(course: Course) -> None:
    """With its two gradings; test_exercises.py holds these for every exercise, from the same saved Runs."""
    assert [str(finding) for finding in prove(course, NAMES[1])] == []
