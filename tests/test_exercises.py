"""Each exercise gives the marks it promises: to its solution, its bare release, wrong and other right copies.

tests/wrong/<assignment>/ holds scripts and expected.yaml:

    scripts:                   # labo.py alone: the tests of answers are skipped
      not_divided.py:
        points: 5              # over the tests that launch
        flags: []
        diagnosis: not-divided # id, or null
        tests: {ex2-test-textes: 1}     # where the sum alone would say too little (optional)
    answers:                   # values of the student's variables, beside the solution's labo.py
      - test: ex2-test-lignes
        values: {somme: [6, 10]}        # those not named keep the solution's value
        points: 3
    copies:                    # whole copies: the solution's, but for
      edited_output:           # the files of this folder, where there is one
        without: [groupe.json]          # files that were not handed in (optional)
        values: {moyenne: [1, 2]}       # as above (optional)
        points: 12
        flags: []
        diagnosis: null
        tests: {solo-test-sortie: 0}
        graded: true           # false: not graded, and then nothing else is looked at

A launch that stands in tests/runs/ is not made again (see conftest).
"""

from __future__ import annotations

import copy
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbformat
import pytest
import yaml

from autograder import course as courses
from autograder.notebook.cells import written_file
from autograder.notebook.examine import examine, examine_script
from autograder.notebook.generate import generate, write_solution
from autograder.notebook.result import CopyResult
from autograder.notebook.variants import solution_files, variant, with_values
from autograder.verdict.shown import MIME

ROOT = Path(__file__).resolve().parent.parent
WRONG = ROOT / "tests" / "wrong"
ASSIGNMENTS = sorted(path.parent.name for path in WRONG.glob("*/expected.yaml"))
PRIVATE = re.compile(r"Traceback|HIDDEN TESTS|Root Cause|/tmp/|site-packages")
DRAWN_SHARE = 0.30   # of an exercise's autograded points, at most, follow drawn inputs

pytestmark = [
    pytest.mark.timeout(600),   # the first run, without tests/runs/, launches everything
    pytest.mark.usefixtures("forked"),
]


@dataclass(frozen=True)
class Script:
    assignment: str
    name: str
    points: float
    flags: list[str]
    diagnosis: str | None
    tests: dict[str, float]


def expected(assignment: str) -> dict[str, Any]:
    return yaml.safe_load((WRONG / assignment / "expected.yaml").read_text(encoding="utf-8"))


def scripts() -> list[Script]:
    return [
        Script(
            assignment, name, case["points"], case.get("flags", []), case.get("diagnosis"),
            case.get("tests", {}),
        )
        for assignment in ASSIGNMENTS
        for name, case in expected(assignment).get("scripts", {}).items()
    ]


def copies() -> list[tuple[str, str, dict[str, Any]]]:
    return [
        (assignment, name, case) for assignment in ASSIGNMENTS
        for name, case in expected(assignment).get("copies", {}).items()
    ]


def answers() -> list[tuple[str, dict[str, Any]]]:
    return [(name, case) for name in ASSIGNMENTS for case in expected(name).get("answers", [])]


def source(assignment: str) -> nbformat.NotebookNode:
    return nbformat.read(ROOT / "source" / assignment / f"{assignment}.ipynb", as_version=4)


def role(cell: nbformat.NotebookNode) -> dict[str, Any]:
    return dict(cell.metadata.get("nbgrader", {}))


def solved(assignment: str, folder: Path, values: dict[str, Any] | None = None) -> None:
    """The source as a copy of its own: the notebook, with other values in its answers, and given files."""
    path = write_solution(courses.load(ROOT), assignment, folder)
    notebook = nbformat.read(path, as_version=4)
    for cell in notebook.cells:
        answer = role(cell).get("solution") and cell.cell_type == "code" and not written_file(cell.source)
        if values and answer:
            cell.source = with_values(cell.source, values)
    nbformat.write(notebook, path)


def write_copy(assignment: str, name: str, case: dict[str, Any], folder: Path) -> None:
    """The solution with the files of tests/wrong/<assignment>/<name>/, as a student would hand it in."""
    one = courses.load(ROOT).assignment(assignment)
    solved(assignment, folder, case.get("values"))
    notebook = variant(nbformat.read(folder / one.notebook, as_version=4), one.numbers)
    files = {file: text.encode() for file, text in solution_files(source(assignment)).items()}
    own = (path for path in (WRONG / assignment / name).glob("*") if path.is_file())
    files |= {path.name: path.read_bytes() for path in own}
    for cell in notebook.cells:
        if (file := written_file(cell.source)) in files and role(cell).get("solution"):
            cell.source = f"%%writefile {file}\n" + files[file].decode().rstrip("\n")
            if file in case.get("without", ()):
                cell.source = ""
    nbformat.write(notebook, folder / one.notebook)
    for file, content in files.items():
        (folder / file).write_bytes(content)
    for file in case.get("without", ()):
        (folder / file).unlink(missing_ok=True)


def graded(copy: Path, assignment: str) -> CopyResult:
    return examine(copy, assignment, courses.load(ROOT))


def read_of(result: CopyResult) -> str:
    """All that the student reads, less the tracebacks of their own ranks, which are theirs."""
    cells = copy.deepcopy(result.cells)
    for output in (one for outputs in cells.values() for one in outputs):
        for launch in output.get("data", {}).get(MIME, {}).get("launches", []):
            for rank in launch.get("ranks", []):
                rank["err"] = rank["err"].replace("Traceback (most recent call last)", "")
    return "\n".join(f"{test.message}\n{test.advice}" for test in result.tests) + str(cells)


def told(result: CopyResult) -> str:
    """What a failed assertion shows."""
    return "\n".join(
        [f"{result.score:g}/{result.max_score:g} flags={list(result.flags)} diagnosis={result.diagnosis}"]
        + [f"{one.id}: {one.status} {one.points:g}/{one.max_points:g}\n{one.message}" for one in result.tests]
        + list(result.details)
    )


# -- the course's own --------------------------------------------------------------------------------


@pytest.mark.parametrize("assignment", ASSIGNMENTS)
def test_cells_hold_the_points_that_course_yaml_states(assignment: str) -> None:
    points = courses.load(ROOT).assignment(assignment).points
    cells = [cell for cell in source(assignment).cells if role(cell).get("grade")]
    assert sum(role(cell)["points"] for cell in cells if cell.cell_type == "code") == points.auto
    assert sum(role(cell)["points"] for cell in cells if cell.cell_type == "markdown") == points.manual


@pytest.mark.parametrize("assignment", ASSIGNMENTS)
def test_drawn_inputs_weigh_little(assignment: str) -> None:
    """A script with its rows written in it is right on them: it must not lose more (ex2 and ex3)."""
    cells = [cell for cell in source(assignment).cells if "follow_inputs" in cell.source]
    lost = sum(role(cell)["points"] for cell in cells)
    assert lost <= DRAWN_SHARE * courses.load(ROOT).assignment(assignment).points.auto


@pytest.mark.parametrize("assignment", ASSIGNMENTS)
def test_the_solution_gets_full_marks(assignment: str, tmp_path: Path) -> None:
    solved(assignment, tmp_path)
    result = graded(tmp_path, assignment)
    assert result.graded and result.flags == () and result.diagnosis is None, told(result)
    full = courses.load(ROOT).assignment(assignment).points.auto
    assert result.score == result.max_score == full, told(result)


@pytest.mark.parametrize("assignment", ASSIGNMENTS)
def test_the_bare_release_gets_nothing_and_is_told_why(assignment: str, tmp_path: Path) -> None:
    generate(courses.load(ROOT), assignment, tmp_path)
    result = graded(tmp_path / assignment, assignment)
    assert result.graded and result.score == 0 and result.flags == (), told(result)
    assert all(test.status == "failed" and test.message for test in result.tests), told(result)


# -- students' ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", scripts(), ids=lambda case: f"{case.assignment}/{case.name}")
def test_a_script_gets_its_mark(case: Script, tmp_path: Path) -> None:
    labo = tmp_path / "labo.py"
    labo.write_bytes((WRONG / case.assignment / case.name).read_bytes())
    result = examine_script(labo, case.assignment, courses.load(ROOT))
    assert result.graded, told(result)
    assert result.score == pytest.approx(case.points), told(result)
    assert sorted(result.flags) == sorted(case.flags), told(result)
    assert (result.diagnosis or {}).get("id") == case.diagnosis, told(result)
    each = {test.id: test.points for test in result.tests}
    assert {test: each[test] for test in case.tests} == case.tests, told(result)
    # What the student reads: no traceback or folder of ours, no hidden test, never the launcher's victim.
    read = read_of(result)
    assert not PRIVATE.search(read), read


@pytest.mark.parametrize("assignment", ASSIGNMENTS)
def test_every_script_has_its_mark_and_enough_are_wrong(assignment: str) -> None:
    whole = [case for name, _, case in copies() if name == assignment]
    cases = [case for case in scripts() if case.assignment == assignment]
    assert {case.name for case in cases} == {path.name for path in (WRONG / assignment).glob("*.py")}
    folders = {path.name for path in (WRONG / assignment).iterdir() if path.is_dir()}
    assert folders <= {name for one, name, _ in copies() if one == assignment}
    full = courses.load(ROOT).assignment(assignment).points.auto
    best = max((case.points for case in cases), default=0)
    told = [case["points"] / full for case in whole if case.get("graded", True)]
    told += [case.points / best for case in cases]
    assert sum(share < 1 for share in told) >= 6
    assert sum(share == 1 for share in told) >= 3


@pytest.mark.parametrize(
    ("assignment", "case"), answers(), ids=lambda one: one if isinstance(one, str) else one["test"],
)
def test_answers_get_their_mark(assignment: str, case: dict[str, Any], tmp_path: Path) -> None:
    solved(assignment, tmp_path, case["values"])
    result = graded(tmp_path, assignment)
    test = next(test for test in result.tests if test.id == case["test"])
    assert result.graded and test.points == pytest.approx(case["points"]), told(result)


@pytest.mark.parametrize(
    ("assignment", "name", "case"), copies(), ids=lambda one: one if isinstance(one, str) else "",
)
def test_a_copy_gets_its_mark(assignment: str, name: str, case: dict[str, Any], tmp_path: Path) -> None:
    write_copy(assignment, name, case, tmp_path)
    result = graded(tmp_path, assignment)
    assert result.graded == case.get("graded", True), told(result)
    if not result.graded:
        assert result.cause
        return
    assert result.score == pytest.approx(case["points"]), told(result)
    assert sorted(result.flags) == sorted(case.get("flags", [])), told(result)
    assert (result.diagnosis or {}).get("id") == case.get("diagnosis"), told(result)
    each = {test.id: test.points for test in result.tests}
    wanted = case.get("tests", {})
    assert {test: each[test] for test in wanted} == wanted, told(result)
    read = read_of(result)
    assert not PRIVATE.search(read), read
