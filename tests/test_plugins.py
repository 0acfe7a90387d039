"""Our plug-ins inside nbgrader's own commands, which keep working and give the same marks."""

from __future__ import annotations

import copy
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest
import tiny_course
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_output
from nbgrader.converters import GenerateAssignment
from nbgrader.converters.base import NbGraderException
from nbgrader.coursedir import CourseDirectory
from traitlets.config import Config

from autograder import course as courses
from autograder.notebook.nbconfig import configure
from autograder.notebook.plugins import LimitBytes, StripTests, undeclared


def nbgrader(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """nbgrader's own command, as a grader types it in the course's folder."""
    path = os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]])
    return subprocess.run(
        [sys.executable, "-m", "nbgrader", *arguments],
        cwd=root, env=os.environ | {"PATH": path}, capture_output=True, text=True, encoding="utf-8",
    )  # fmt: skip


def scores(root: Path) -> dict[str, dict[str, tuple[float | None, bool]]]:
    from nbgrader.api import Gradebook

    with Gradebook(f"sqlite:///{root / 'gradebook.db'}", "petit-cours") as gradebook:
        return {
            submission.student.id: {
                grade.name: (grade.auto_score, grade.needs_manual_grade)
                for notebook in submission.notebooks
                for grade in notebook.grades
            }
            for submission in gradebook.assignment_submissions("mini")
        }


@pytest.fixture(scope="module")
def stock(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """A class graded with nbgrader's own commands only."""
    root = tmp_path_factory.mktemp("stock")
    tiny_course.make_course(root)
    right = tiny_course.copy_notebook(written="Parce que.")
    tiny_course.hand_in(root, "juste", right)
    copied = copy.deepcopy(right)
    copied.cells.insert(2, copy.deepcopy(copied.cells[1]))
    tiny_course.hand_in(root, "copie", copied)
    hostile = copy.deepcopy(tiny_course.copy_notebook(answer="moyenne = 0\nunite = 0"))
    for cell in hostile.cells:
        if "nbgrader" in cell.metadata:
            cell.metadata.nbgrader.update(grade=False, solution=True, locked=False)
    hostile.cells[2].source = "4"
    tiny_course.hand_in(root, "drapeaux", hostile)
    without = tiny_course.copy_notebook()
    without.cells = [cell for cell in without.cells if "test" not in cell.id]
    tiny_course.hand_in(root, "sans-tests", without)
    loud = tiny_course.copy_notebook(answer="print('x' * 30_000_000)\nmoyenne = 3.0\nunite = 's'")
    tiny_course.hand_in(root, "bavard", loud, labo_py="print('à moi')")
    tampering = "get_ipython().input_transformers_post.append(lambda lines: [])\n"
    tampering += "import subprocess; subprocess.run = None\nmoyenne = unite = None"
    tiny_course.hand_in(root, "triche", tiny_course.copy_notebook(answer=tampering, labo="print(0)"))
    steps = {}
    for step in ("generate_assignment", "autograde", "generate_feedback"):
        steps[step] = nbgrader(root, step, "mini")
    return {"root": root, "steps": steps, "scores": scores(root)}


def test_stock_commands_run_without_an_error(stock: dict[str, Any]) -> None:
    for step, done in stock["steps"].items():
        assert done.returncode == 0, f"{step}: {done.stderr[-3000:]}"


def test_a_right_copy_gets_its_marks(stock: dict[str, Any]) -> None:
    assert stock["scores"]["juste"] == {
        "mini-test-reponse": (4, False), "mini-test-labo": (2, False), "mini-ecrit": (None, True),
    }  # fmt: skip


def test_a_copied_cell_does_not_stop_the_class(stock: dict[str, Any]) -> None:
    assert stock["scores"]["copie"] == stock["scores"]["juste"]


def test_flipped_flags_and_a_weakened_test_win_nothing(stock: dict[str, Any]) -> None:
    assert stock["scores"]["drapeaux"]["mini-test-reponse"] == (0, False)
    assert stock["scores"]["drapeaux"]["mini-test-labo"] == (2, False)


def test_deleted_tests_come_back(stock: dict[str, Any]) -> None:
    marks = stock["scores"]["sans-tests"]
    assert (marks["mini-test-reponse"], marks["mini-test-labo"]) == ((4, False), (2, False))


def test_an_unanswered_question_is_zero_without_review(stock: dict[str, Any]) -> None:
    assert stock["scores"]["drapeaux"]["mini-ecrit"] == (0, False)


def test_what_a_student_does_to_the_kernel_does_not_reach_the_tests(stock: dict[str, Any]) -> None:
    assert stock["scores"]["triche"]["mini-test-reponse"] == (0, False)
    assert stock["scores"]["triche"]["mini-test-labo"] == (0, False)


def test_outputs_are_limited_in_bytes(stock: dict[str, Any]) -> None:
    root = stock["root"]
    assert (root / "autograded" / "bavard" / "mini" / "mini.ipynb").stat().st_size < 300_000
    assert (root / "feedback" / "bavard" / "mini" / "mini.html").stat().st_size < 1_500_000


def test_the_student_s_labo_is_not_overwritten(stock: dict[str, Any]) -> None:
    assert (stock["root"] / "autograded" / "bavard" / "mini" / "labo.py").read_text() == "print('à moi')"


def test_no_release_nor_feedback_shows_a_hidden_test_or_a_path(stock: dict[str, Any]) -> None:
    root = stock["root"]
    pages = list((root / "feedback").rglob("*.html"))
    assert len(pages) == 6
    for page in [*pages, *(root / "release").rglob("*.ipynb")]:
        content = page.read_text(encoding="utf-8")
        for private in (tiny_course.SECRET, "HIDDEN TESTS", "barème", str(root)):
            assert private not in content, f"{private} in {page}"


def test_feedback_says_what_was_found(stock: dict[str, Any]) -> None:
    page = (stock["root"] / "feedback" / "triche" / "mini" / "mini.html").read_text(encoding="utf-8")
    assert "moyenne" in page and "affiche pas 42" in page


def test_feedback_holds_nothing_that_a_test_left(stock: dict[str, Any]) -> None:
    names = {path.name for path in (stock["root"] / "feedback" / "juste").rglob("*") if path.is_file()}
    assert names <= {"mini.html", "table.csv"}


def test_source_holds_nothing_more_after_grading(stock: dict[str, Any]) -> None:
    assert {path.name for path in (stock["root"] / "source" / "mini").iterdir()} == {
        "mini.ipynb",
        "table.csv",
    }


def test_validate_runs_the_same_cells(stock: dict[str, Any]) -> None:
    folder = tiny_course.hand_in(stock["root"], "juste")
    done = nbgrader(stock["root"], "validate", str(folder / "mini.ipynb"))
    assert "Success" in done.stdout, done.stdout + done.stderr


# ------------------------------------------------------------------------------------------ one by one


def test_an_undeclared_file_is_never_released(tmp_path: Path) -> None:
    course = tiny_course.make_course(tmp_path)
    folder = tmp_path / "source" / "mini"
    assert undeclared(folder, course.assignment("mini")) == []
    (folder / "labo.py").write_text("la solution")
    (folder / "sub").mkdir()
    (folder / "sub" / "x.py").write_text("")
    assert undeclared(folder, course.assignment("mini")) == ["labo.py", os.path.join("sub", "x.py")]
    with pytest.raises(NbGraderException):
        generate_without_gradebook(course)
    assert not (tmp_path / "release" / "mini").exists()
    (folder / "labo.py").unlink()
    (folder / "sub" / "x.py").unlink()
    generate_without_gradebook(course)
    assert (tmp_path / "release" / "mini" / "mini.ipynb").exists()


def generate_without_gradebook(course: courses.Course) -> None:
    config: Any = Config()
    configure(config, course)
    steps = config.GenerateAssignment.preprocessors
    kept = [step for step in steps if not step.endswith((".SaveCells", ".SaveDueDate"))]
    config.GenerateAssignment.preprocessors = kept
    config.GenerateAssignment.no_database = True
    config.CourseDirectory.assignment_id = "mini"
    GenerateAssignment(coursedir=CourseDirectory(config=config), config=config).start()


def cell_with(*outputs: NotebookNode, **meta: Any) -> NotebookNode:
    metadata = tiny_course.meta("t", grade=True, locked=True, points=1) if meta.get("test") else {}
    return new_code_cell("x = 1", outputs=list(outputs), metadata=metadata)


def test_limit_bytes() -> None:
    outputs = [
        new_output("stream", text="a" * 1_000_000),
        new_output("error", ename="E", evalue="e", traceback=["b" * 1_000_000] * 200),
        new_output("display_data", data={"image/png": "c" * 1_000_000}),
    ]
    cell, _ = LimitBytes().preprocess_cell(cell_with(*outputs), {}, 0)
    assert len(json.dumps(cell)) < 2_000_000
    assert [output.output_type for output in cell.outputs] == ["stream", "error"]


def strip(cell: NotebookNode, root: Path) -> NotebookNode:
    plugin = StripTests()
    plugin._paths = [str(root)]
    return plugin.preprocess_cell(cell, {}, 0)[0]


def test_a_traceback_through_a_test_is_not_shown(tmp_path: Path) -> None:
    stock_error = new_output(
        "error", ename="AssertionError", evalue="3.0", traceback=["----> 1 assert x == 3.0"]
    )
    shown = str(strip(cell_with(stock_error, test=True), tmp_path))
    assert "3.0" not in shown and "Le test n'est pas réussi." in shown


def test_a_student_s_own_traceback_is_shown_without_the_grader_s_paths(tmp_path: Path) -> None:
    mine = new_output("error", ename="KeyError", evalue="'RANK'", traceback=[f"{tmp_path}/x.py, line 3"])
    printed = new_output("stream", text=f"{tmp_path}/secret")
    shown = strip(cell_with(mine, printed), tmp_path)
    assert shown.outputs[0].traceback == ["…/x.py, line 3"]
    assert shown.outputs[1].text == "…/secret"


def test_hidden_tests_are_cut_from_the_source_of_any_cell(tmp_path: Path) -> None:
    cell = new_code_cell("a\n### BEGIN HIDDEN TESTS\nsecret\n### END HIDDEN TESTS\nb")
    assert strip(cell, tmp_path).source == "a\nb"


def test_the_course_of_the_tests_is_a_valid_one(tmp_path: Path) -> None:
    course = tiny_course.make_course(tmp_path)
    notebook = nbformat.read(course.root / "source" / "mini" / "mini.ipynb", as_version=4)
    nbformat.validate(notebook)
    assert isinstance(course, courses.Course)
