"""The exam's numbers: the document's for everybody, or each student's own, drawn from the submission's id."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import nbformat
import pytest
import yaml
from rich.console import Console

from autograder import course as courses
from autograder.batch.grade import ClassReport, Row, grade_class
from autograder.messages import text
from autograder.notebook import numbers
from autograder.notebook.cells import read_notebook, source_cells
from autograder.notebook.check import check
from autograder.notebook.examine import examine
from autograder.notebook.generate import generate
from autograder.notebook.leaks import scan
from autograder.notebook.proofs import prove_by_running, prove_source
from autograder.notebook.variants import variant
from autograder.report.run_view import check_view
from autograder.report.table import print_copy
from autograder.verdict.personal import (
    STUDENT,
    ExamNumbers,
    canonical,
    exam_numbers,
    exam_statement,
    statements,
)

pytestmark = pytest.mark.usefixtures("forked")
ROOT = Path(__file__).resolve().parent.parent
EXAM = "examen"
STUDENTS = [f"etudiant-{n}" for n in range(300)]
OWN = "per-student"


def make_course(root: Path, setting: str = OWN) -> courses.Course:
    """A course of the exam alone, with these numbers."""
    whole = yaml.safe_load((ROOT / "course.yaml").read_text(encoding="utf-8"))
    entry = next(one for one in whole["assignments"] if one["id"] == EXAM) | {"numbers": setting}
    small = whole | {"assignments": [entry], "pages": []}
    content = yaml.safe_dump(small, allow_unicode=True, sort_keys=False)
    root.mkdir(parents=True, exist_ok=True)
    (root / "course.yaml").write_text(content, encoding="utf-8")
    shutil.copy(ROOT / "nbgrader_config.py", root / "nbgrader_config.py")
    if not (root / "source").exists():
        shutil.copytree(ROOT / "source" / EXAM, root / "source" / EXAM)
    return courses.load(root)


def answers(given: ExamNumbers) -> dict[str, str]:
    """What a student writes in each answer cell, who was asked with these numbers."""
    pairs = [(rank, rank % given.per_node) for rank in range(given.nodes * given.per_node)]
    return {
        "examen-world-size": f"WORLD_SIZE = {given.nodes * given.per_node}",
        "examen-processus": f"processus = {pairs}",
        "examen-variable-gpu": "variable_gpu = 'local_rank'",
        "examen-somme": f"apres_all_reduce = {[sum(given.gradients)] * 2}",
        "examen-moyenne": f"gradient_optimiseur = {sum(given.gradients) / 2}",
        "examen-nature": "nature = 'Blocage'",
        "examen-lignes": "lignes_pas_lent = ['entre', 'sort']",
    }


def hand_in(course: courses.Course, student: str, typed: str, given: ExamNumbers) -> Path:
    """The released notebook with `typed` as ETUDIANT and the right answers to the questions so numbered."""
    folder = course.root / "submitted" / student / EXAM
    generate(course, EXAM, course.root / "given")
    notebook = nbformat.read(course.root / "given" / EXAM / f"{EXAM}.ipynb", as_version=4)
    written = answers(given)
    for cell in notebook.cells:
        if cell.id in written:
            cell.source = written[cell.id]
        cell.source = cell.source.replace('ETUDIANT = ""', f"ETUDIANT = {typed!r}")
    folder.mkdir(parents=True)
    nbformat.write(notebook, folder / f"{EXAM}.ipynb")
    return folder


# -- the numbers -------------------------------------------------------------------------------------


def test_without_a_student_they_are_the_document_s() -> None:
    assert exam_numbers() == ExamNumbers(2, 2, (4, 10), 8, 20, 1) == exam_numbers("")


def test_they_come_from_the_id_alone_on_every_machine() -> None:
    """Written out: another Python or another version of this package must not draw anything else."""
    assert exam_numbers("marie.curie") == ExamNumbers(3, 2, (9, 11), 32, 40, 0)
    assert exam_numbers("1234567") == ExamNumbers(3, 2, (7, 9), 4, 40, 0)
    assert exam_numbers("Éloïse") == ExamNumbers(3, 2, (20, 12), 32, 60, 1)


def test_the_graded_copy_s_id_is_taken_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(STUDENT, "marie.curie")
    assert exam_numbers() == exam_numbers("marie.curie")


@pytest.mark.parametrize("other", [" Marie.Curie ", "MARIE.CURIE", "marie.curie\n"])
def test_how_an_id_is_typed_changes_nothing(other: str) -> None:
    assert exam_numbers(other) == exam_numbers("marie.curie")
    assert canonical("E\u0301loi\u0308se") == canonical("éloïse") != canonical("eloise")


def test_every_draw_is_a_fair_question() -> None:
    for given in map(exam_numbers, STUDENTS):
        first, second = given.gradients
        both, mean = first + second, (first + second) / 2
        assert given.nodes != given.per_node and 4 < given.nodes * given.per_node <= 8
        # No wrong reduction gives a right number, and no answer copied from the common exam is right.
        wrong = {first, second, abs(first - second), first * second}
        assert both != mean and not {both, mean} & wrong and both != 14 and mean * 2 % 1 == 0
        assert given.skipped in (0, 1) and given.timeout_s >= 10 and 1 < given.elements < 100


def test_students_differ() -> None:
    drawn = [exam_numbers(student) for student in STUDENTS]
    assert len(set(drawn)) > 0.9 * len(drawn)
    assert {one.skipped for one in drawn} == {0, 1} and len({(one.nodes, one.per_node) for one in drawn}) == 4


# -- what students read ------------------------------------------------------------------------------


def test_the_first_cell_says_what_to_do_then_the_three_situations() -> None:
    assert exam_statement("").lines == exam_statement(None).lines == [text("exam.no-student")]
    shown = exam_statement(" marie.curie ")
    assert "**3 nœuds**" in shown._repr_markdown_() and "gradient **9**" in shown._repr_markdown_()
    assert "Question 3. Sur le rang 1" in repr(shown) and "*" not in repr(shown)


def test_the_common_notebook_states_the_document_s_numbers() -> None:
    source = read_notebook(ROOT / "source" / EXAM / f"{EXAM}.ipynb")
    same = [cell.source for cell in source.cells if "same-numbers" in cell.metadata.get("tags", ())]
    assert same == statements(ExamNumbers())


@pytest.mark.parametrize("setting", ["same", OWN])
def test_each_setting_has_its_release(setting: str, tmp_path: Path) -> None:
    course = make_course(tmp_path / "cours", setting)
    (path, *_) = generate(course, EXAM, tmp_path / "release")
    notebook = read_notebook(path)
    sources = [cell.source for cell in notebook.cells]
    own = setting == OWN
    assert any(source.startswith('ETUDIANT = ""') for source in sources) is own
    assert any(source in statements(ExamNumbers()) for source in sources) is not own
    assert sum(cell.graded for cell in source_cells(notebook)) == 17  # the same cells are graded
    assert not any("Chacun répond" in source for source in sources) or own
    assert scan(course, tmp_path / "release") == []
    for cell in source_cells(notebook):  # in JupyterLab and under `nbgrader validate`
        if cell.role == "test":
            exec(cell.source, {})


@pytest.mark.parametrize("setting", ["same", OWN])
def test_the_solution_is_right_whoever_hands_it_in(setting: str, tmp_path: Path) -> None:
    course = make_course(tmp_path, setting)
    assert prove_source(course, EXAM) == []
    assert prove_by_running(course, EXAM) == []


def test_a_student_s_check_says_that_nothing_is_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    make_course(tmp_path / "cours")
    home = tmp_path / "maison"
    generate(courses.load(tmp_path / "cours"), EXAM, home)
    shutil.copy(tmp_path / "cours" / "course.yaml", home / "course.yaml")
    monkeypatch.chdir(home / EXAM)
    result = check(EXAM)
    assert result.graded and result.passed and result.all_hidden
    assert (result.score, result.max_score) == (0, 0)
    told = check_view({"assignment": EXAM, "graded": True, "score": 0, "max_score": 0, "tests": [
        vars(test) for test in result.tests
    ]}).replace("\n    ", " ")
    assert "rien n'est vérifié avant la correction" in told and "7 tests, 12 points" in told
    assert "0 / 0" not in told and "Tout est réussi" not in told
    print_copy(result, Console(width=200))
    shown = capsys.readouterr().out
    assert "rien n'est vérifié avant la correction" in shown and "0 / 0" not in shown + result.head()


# -- grading -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def graded(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Alice answers her own questions, Bob answers Alice's, Carol types Alice's id above her own answers."""
    course = make_course(tmp_path_factory.mktemp("classe"))
    hand_in(course, "alice", "Alice ", exam_numbers("alice"))
    hand_in(course, "bob", "alice", exam_numbers("alice"))
    hand_in(course, "carol", "alice", exam_numbers("carol"))
    hand_in(course, "dora", "", exam_numbers("dora"))
    with pytest.MonkeyPatch.context() as patch:  # the key that every test here has (conftest.py)
        patch.setenv("AUTOGRADER_KEY_FILE", str(ROOT / "tests" / "data" / "test.key"))
        return {"course": course, "report": grade_class(course)}


def row(report: ClassReport, student: str) -> Row:
    return next(row for row in report.rows if row.student == student)


def test_the_submission_s_id_decides(graded: dict[str, Any]) -> None:
    alice, bob = exam_numbers("alice"), exam_numbers("bob")
    assert (alice.nodes, alice.per_node, bob.nodes, bob.per_node) == (3, 2, 2, 3)
    score = {row.student: row.result.score for row in graded["report"].rows}
    assert score["alice"] == score["carol"] == score["dora"] == 12
    assert score["bob"] == 12 - 2 - 2 - 2  # LOCAL_RANK, sum and mean; six processes and RANK are his too
    assert all(row.recorded.problem is None for row in graded["report"].rows)
    assert {row.student: row.recorded.score for row in graded["report"].rows} == score


def test_another_s_id_is_flagged_and_told(graded: dict[str, Any]) -> None:
    flags = {row.student: row.result.flags for row in graded["report"].rows}
    assert flags == {"alice": (), "bob": (numbers.FLAG,), "carol": (numbers.FLAG,), "dora": ()}
    told = text("exam.other-student", typed="alice", student="bob")
    assert told in row(graded["report"], "bob").result.remarks
    page = graded["course"].root / "feedback" / "bob" / EXAM / f"{EXAM}.html"
    read = page.read_text(encoding="utf-8").replace("&#39;", "'")
    assert "la copie est celle de «\u00a0bob\u00a0»" in read


def test_feedback_never_shows_a_right_value(graded: dict[str, Any]) -> None:
    page = graded["course"].root / "feedback" / "bob" / EXAM / f"{EXAM}.html"
    read = page.read_text(encoding="utf-8")
    mine, hers = sum(exam_numbers("bob").gradients), sum(exam_numbers("alice").gradients)
    assert f"[{hers}, {hers}]" in read and f"[{mine}, {mine}]" not in read
    assert "exam_numbers" not in read and "MARK SCHEME" not in read


def test_a_kept_result_is_good_for_its_numbers_only(graded: dict[str, Any]) -> None:
    course = graded["course"]
    alice = course.root / "submitted" / "alice" / EXAM
    assert examine(alice, EXAM, course, student="alice").score == 12
    assert examine(alice, EXAM, course, student="bob").score < 12
    assert examine(alice, EXAM, course).score == 12  # no id known: the one that was typed
    path = course.root / "course.yaml"
    before = path.read_text(encoding="utf-8")
    try:
        path.write_text(before.replace(OWN, "same"), encoding="utf-8")
        report = grade_class(courses.load(course.root), [EXAM], ["alice"])
        assert row(report, "alice").result.score < 12  # graded again, with everybody's numbers
    finally:
        path.write_text(before, encoding="utf-8")


def test_a_mismatch_is_one_of_ids_not_of_spelling() -> None:
    assert numbers.mismatch("marie.curie", "Marie.Curie") is None
    assert numbers.mismatch("marie.curie", "") is None and numbers.mismatch("marie.curie", None) is None
    assert numbers.mismatch(None, "pierre") is None
    assert numbers.mismatch("marie.curie", 22104567) is not None
    assert numbers.whose("a", "b") == "a"
    assert numbers.whose(None, "b") == "b" and numbers.whose(None, " ") is None


def test_the_variant_of_the_source_is_what_is_graded() -> None:
    source = read_notebook(ROOT / "source" / EXAM / f"{EXAM}.ipynb")
    graded = [[c.id for c in source_cells(variant(source, s)) if c.graded] for s in ("same", OWN)]
    assert graded[0] == graded[1]
