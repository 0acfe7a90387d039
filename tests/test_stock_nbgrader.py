"""nbgrader's own commands on a real exercise: the same release, marks and due date as ours, from a Moodle zip
to the exported marks. (test_plugins.py does it on a small assignment, with hostile copies.)
"""

from __future__ import annotations

import csv
import importlib.util
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import nbformat
import pytest

from autograder import course as courses
from autograder.batch.grade import ClassReport, grade_class
from autograder.notebook.generate import generate
from autograder.notebook.nbconfig import utc_naive
from autograder.notebook.tidy import tidied

ROOT = Path(__file__).resolve().parent.parent
EXERCISE = "ex1-rang"
RIGHT, WRONG = "1234567", "7654321"
NAMES = {RIGHT: "Éloïse D'Août", WRONG: "Jean Petit"}
WRONG_ANSWER = "rang_second_gpu = 2\nlocal_rank_par_rang = [0, 0]\nrang_gpu_2_noeud_b = 6"
COPIES = {
    RIGHT: {"written": {"ex1-question-un-processus": "Un processus par GPU, car NCCL le veut exclusif."}},
    WRONG: {"labo": "local_rank_is_rank.py", "answers": {"ex1-reponse-prediction": WRONG_ANSWER}},
}
SAVED = {
    "AUTOGRADER_KEY_FILE": str(ROOT / "tests" / "data" / "test.key"),
    "AUTOGRADER_RUNS": str(ROOT / "tests" / "runs"),
}


def nbgrader(root: Path, *arguments: str) -> str:
    """nbgrader's own command, as a grader types it in the course's folder; what it said."""
    done = subprocess.run(
        [sys.executable, "-m", "nbgrader", *arguments], cwd=root, capture_output=True, text=True,
        encoding="utf-8",
        env=os.environ | SAVED | {
            "PYTHONPATH": str(ROOT), "PYTHONUTF8": "1",
            "PATH": os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]]),
        },
    )  # fmt: skip
    assert done.returncode == 0, f"nbgrader {' '.join(arguments)}\n{done.stdout}\n{done.stderr[-4000:]}"
    return done.stdout + done.stderr


def a_course(root: Path) -> courses.Course:
    root.mkdir()
    for name in ("course.yaml", "nbgrader_config.py"):
        shutil.copy(ROOT / name, root / name)
    shutil.copytree(ROOT / "source" / EXERCISE, root / "source" / EXERCISE)
    return courses.load(root)


def write_copies(course: courses.Course, folder: Path) -> None:
    """Each student's notebook and labo.py, under the names that Moodle gives them."""
    spec = importlib.util.spec_from_file_location("make_class", ROOT / "examples" / "make_class.py")
    assert spec is not None and spec.loader is not None
    make_class = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(make_class)
    for student, what in COPIES.items():
        copy = folder / f"{NAMES[student]}_{student}_assignsubmission_file_"
        copy.mkdir(parents=True)
        home = ROOT / "tests" / "wrong" / EXERCISE
        make_class._write_copy(course, course.assignment(EXERCISE), home, what, copy)


@pytest.fixture(scope="module")
def stock(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The day of a grader who knows nbgrader's commands only."""
    folder = tmp_path_factory.mktemp("stock")
    course = a_course(folder / "course")
    said = {"generate_assignment": nbgrader(course.root, "generate_assignment", EXERCISE)}
    write_copies(course, folder / "moodle")
    archive = course.root / "downloaded" / EXERCISE / "archive"
    archive.mkdir(parents=True)
    with zipfile.ZipFile(archive / "moodle.zip", "w") as moodle:
        for path in sorted((folder / "moodle").rglob("*.*")):
            moodle.write(path, path.relative_to(folder / "moodle"))
    for step in ("zip_collect", "autograde", "generate_feedback"):
        said[step] = nbgrader(course.root, step, EXERCISE)
    nbgrader(course.root, "export", "--to", "grades.csv")
    return {"course": course, "said": said}


@pytest.fixture(scope="module")
def by_us(stock: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> ClassReport:
    """The same copies, graded by `autograder grade` in a course folder of its own."""
    course = a_course(tmp_path_factory.mktemp("ours") / "course")
    shutil.copytree(stock["course"].root / "submitted", course.root / "submitted")
    with pytest.MonkeyPatch.context() as patch:
        for name, value in SAVED.items():
            patch.setenv(name, value)
        return grade_class(course)


def in_gradebook(course: courses.Course) -> dict[str, dict[str, tuple[float | None, bool]]]:
    from nbgrader.api import Gradebook

    with Gradebook(f"sqlite:///{course.root / 'gradebook.db'}", course.course.id) as gradebook:
        return {
            submission.student.id: {
                grade.name: (grade.auto_score, grade.needs_manual_grade)
                for notebook in submission.notebooks
                for grade in notebook.grades
            }
            for submission in gradebook.assignment_submissions(EXERCISE)
        }


def test_generate_assignment_gives_our_release(stock: dict[str, Any], tmp_path: Path) -> None:
    made = stock["course"].root / "release" / EXERCISE
    assert [path.name for path in made.iterdir()] == [f"{EXERCISE}.ipynb"]
    (ours,) = generate(stock["course"], EXERCISE, tmp_path)
    assert tidied((made / ours.name).read_bytes()) == ours.read_bytes()


def test_generate_assignment_gives_the_gradebook_the_due_date_of_course_yaml(stock: dict[str, Any]) -> None:
    from nbgrader.api import Gradebook

    course = stock["course"]
    with Gradebook(f"sqlite:///{course.root / 'gradebook.db'}", course.course.id) as gradebook:
        due = gradebook.find_assignment(EXERCISE).duedate
    assert due == utc_naive(course.assignment(EXERCISE).due)


def test_zip_collect_places_notebook_and_labo(stock: dict[str, Any]) -> None:
    for student in COPIES:
        names = {path.name for path in (stock["course"].root / "submitted" / student / EXERCISE).iterdir()}
        assert {f"{EXERCISE}.ipynb", "labo.py"} <= names


def test_autograde_gives_the_marks_of_autograder_grade(stock: dict[str, Any], by_us: ClassReport) -> None:
    marks = in_gradebook(stock["course"])
    assert set(marks) == set(COPIES)
    for row in by_us.rows:
        given = {name: score for name, (score, _) in marks[row.student].items()}
        assert {test.id: given[test.id] for test in row.result.tests} == {
            test.id: test.points for test in row.result.tests
        }
        pending = tuple(sorted(name for name, (_, waits) in marks[row.student].items() if waits))
        assert row.recorded.problem is None and row.recorded.pending == pending
    totals = {row.student: row.recorded.score for row in by_us.rows}
    top = stock["course"].assignment(EXERCISE).points.auto
    assert totals[RIGHT] == top and 0 < totals[WRONG] < top
    exported = (stock["course"].root / "grades.csv").read_text(encoding="utf-8")
    rows = [row for row in csv.DictReader(exported.splitlines()) if row["assignment"] == EXERCISE]
    assert {row["student_id"]: float(row["score"]) for row in rows} == totals


def test_feedback_says_what_was_found_and_gives_no_hidden_test_away(stock: dict[str, Any]) -> None:
    root = stock["course"].root
    for student in COPIES:
        page = (root / "feedback" / student / EXERCISE / f"{EXERCISE}.html").read_text(encoding="utf-8")
        for private in ("HIDDEN TESTS", "MARK SCHEME", "rang_gpu_2_noeud_b, ok=", str(root), str(ROOT)):
            assert private not in page
    assert "rang_second_gpu = 2" in page


def test_validate_passes_on_a_right_copy(stock: dict[str, Any], tmp_path: Path) -> None:
    folder = stock["course"].root / "submitted" / RIGHT / EXERCISE
    notebook = nbformat.read(folder / f"{EXERCISE}.ipynb", as_version=4)
    # validate runs every cell: without those that launch for the eye alone, on the fixed port of the course.
    notebook.cells = [cell for cell in notebook.cells if not cell.source.startswith("!")]
    nbformat.write(notebook, tmp_path / f"{EXERCISE}.ipynb")
    assert "Success" in nbgrader(tmp_path, "validate", f"{EXERCISE}.ipynb")
