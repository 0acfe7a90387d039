"""A whole class: every copy graded, recorded once, and nothing of a human's work lost."""

from __future__ import annotations

import copy
import dataclasses
import os
from pathlib import Path
from typing import Any

import pytest
import tiny_course
from rich.console import Console

from autograder import course as courses
from autograder.batch.book import read_book
from autograder.batch.changes import changed_mark
from autograder.batch.grade import ClassReport, Row, grade_class
from autograder.batch.record import Recorder
from autograder.notebook.examine import examine
from autograder.notebook.generate import refusal
from autograder.notebook.result import CopyResult, TestResult
from autograder.report.table import class_view, left_by_hand, not_graded_lines

pytestmark = pytest.mark.usefixtures("forked")


def open_gradebook(course: courses.Course) -> Any:
    from nbgrader.api import Gradebook

    return Gradebook(f"sqlite:///{course.root / 'gradebook.db'}", "petit-cours")


def grade_of(course: courses.Course, student: str, name: str) -> dict[str, Any]:
    with open_gradebook(course) as gradebook:
        grade: dict[str, Any] = gradebook.find_grade(name, "mini", "mini", student).to_dict()
        return grade


def row(report: ClassReport, student: str) -> Row:
    return next(row for row in report.rows if row.student == student)


@pytest.fixture(scope="module")
def graded(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """A class with one copy of each kind, graded once with two at a time."""
    root = tmp_path_factory.mktemp("classe")
    course = tiny_course.make_course(root, late="daily")
    late = "2031-02-03 14:30:00 UTC"
    hand_in = tiny_course.hand_in
    right = tiny_course.copy_notebook(written="Parce que.")
    hand_in(root, "alice", right, timestamp_txt=late)
    hand_in(root, "bob", tiny_course.copy_notebook(answer="moyenne = 3.0\nunite = 0", written="Je crois."))
    hand_in(root, "carl", labo_py="print(42)")
    (hand_in(root, "dora") / "mini.ipynb").write_text('{"cells": [')
    (hand_in(root, "eve") / "mini (1).ipynb").write_text("{}")
    latin = hand_in(root, "Dupont, Jr")
    (latin / "mini.ipynb").write_bytes(b"\xef\xbb\xbf" + str_of(right).replace("\n", "\r\n").encode())
    (latin / "timestamp.txt").write_text("n'importe quoi")
    twice = copy.deepcopy(right)
    twice.cells.insert(2, copy.deepcopy(twice.cells[1]))
    locked = hand_in(root, "fred", twice, labo_py="import sys\nprint(42)")
    for path in locked.iterdir():
        path.chmod(0o444)
    here, steps = os.getcwd(), []
    with pytest.MonkeyPatch.context() as patch:  # the key that every test here has (conftest.py)
        patch.setenv("AUTOGRADER_KEY_FILE", str(tiny_course.ROOT / "tests" / "data" / "test.key"))
        report = grade_class(course, jobs=2, progress=lambda done, total, what: steps.append((done, total)))
    return {"course": course, "report": report, "steps": steps, "here": here}


def str_of(notebook: Any) -> str:
    import nbformat

    return str(nbformat.writes(notebook))


def test_every_copy_is_in_the_report_and_the_gradebook(graded: dict[str, Any]) -> None:
    report = graded["report"]
    assert [r.student for r in report.rows] == ["Dupont, Jr", "alice", "bob", "carl", "dora", "eve", "fred"]
    assert [r.recorded.problem for r in report.rows] == [None] * 7
    assert not report.complete
    assert not any(r.result.cells for r in report.rows)  # the outputs of a whole class stay on disk


def test_the_marks(graded: dict[str, Any]) -> None:
    report = graded["report"]
    auto = {r.student: (r.result.score, r.result.graded) for r in report.rows}
    assert auto == {
        "Dupont, Jr": (6, True), "alice": (6, True), "bob": (4, True), "carl": (2, False), "dora": (0, False),
        "eve": (0, False), "fred": (6, True),
    }  # fmt: skip


def test_not_graded_waits_for_a_human_and_is_no_zero(graded: dict[str, Any]) -> None:
    for student in ("dora", "eve"):
        for name in ("mini-test-reponse", "mini-test-labo", "mini-ecrit"):
            grade = grade_of(graded["course"], student, name)
            assert (grade["auto_score"], grade["needs_manual_grade"]) == (None, True)
    skipped = grade_of(graded["course"], "carl", "mini-test-reponse")
    assert (skipped["auto_score"], skipped["needs_manual_grade"]) == (None, True)
    assert grade_of(graded["course"], "carl", "mini-test-labo")["auto_score"] == 2


def test_the_page_of_an_unreadable_copy_says_no_more_than_that(graded: dict[str, Any]) -> None:
    for student, said in (("dora", "tronqué"), ("carl", "mini.ipynb")):
        path = graded["course"].root / "feedback" / student / "mini" / "mini.html"
        page = path.read_text(encoding="utf-8")
        assert said in page and "non lue" in page
        assert "Note provisoire" not in page and "sans texte" not in page and "sans réponse" not in page


def test_what_is_not_graded_is_not_left_to_mark_by_hand(graded: dict[str, Any]) -> None:
    left = {one.student: one.recorded.pending for one in graded["report"].rows}
    assert left["dora"] == left["eve"] == left["carl"] == ()
    book = read_book(graded["course"])
    assert left == {student: book.entries[student, "mini"].pending for student in left}  # one count for all


def test_lateness_costs_what_the_course_says(graded: dict[str, Any]) -> None:
    recorded = row(graded["report"], "alice").recorded
    assert recorded.late_s == 5400
    assert recorded.penalty == pytest.approx(0.6)
    assert row(graded["report"], "Dupont, Jr").recorded.penalty == 0


def test_every_copy_has_its_feedback(graded: dict[str, Any]) -> None:
    for r in graded["report"].rows:
        page = graded["course"].root / "feedback" / r.student / "mini" / "mini.html"
        assert tiny_course.SECRET not in page.read_text(encoding="utf-8")
    dora = graded["course"].root / "feedback" / "dora" / "mini" / "mini.html"
    assert "tronqué" in dora.read_text(encoding="utf-8")


def test_progress_ends_at_its_total(graded: dict[str, Any]) -> None:
    assert graded["steps"][0] == (0, 7) and graded["steps"][-1] == (7, 7)
    assert [done for done, _ in graded["steps"]] == sorted(done for done, _ in graded["steps"])


def test_the_current_folder_and_release_are_left_alone(graded: dict[str, Any]) -> None:
    assert os.getcwd() == graded["here"]
    assert not (graded["course"].root / "release").exists()


def test_the_table_says_who_what_and_why(graded: dict[str, Any]) -> None:
    console = Console(width=200, record=True, file=open(os.devnull, "w"))  # noqa: SIM115
    console.print(class_view(graded["report"]))
    shown = console.export_text()
    assert "Dupont, Jr" in shown and "4 / 6" in shown and "non noté" in shown and "1,5 h de retard" in shown
    assert "tronqué" in shown and "mini (1).ipynb" in shown
    assert len(not_graded_lines(graded["report"])) == 3
    # Written: Dupont, alice, bob, fred. Nobody reads the others before their cause is mended.
    assert "4 réponses" in left_by_hand(graded["report"])[0]
    assert "Formgrader" in left_by_hand(graded["report"])[1]


def review(course: courses.Course, student: str, name: str, score: float, comment: str) -> None:
    """What formgrader does when a grader marks a cell."""
    with open_gradebook(course) as gradebook:
        grade = gradebook.find_grade(name, "mini", "mini", student)
        grade.manual_score, grade.needs_manual_grade = score, False
        found = gradebook.find_comment("mini-ecrit", "mini", "mini", student)
        found.manual_comment = comment
        gradebook.db.commit()


def test_regrading_keeps_what_a_human_did_as_long_as_the_copy_is_the_same(graded: dict[str, Any]) -> None:
    course = graded["course"]
    review(course, "bob", "mini-ecrit", 3, "Bien vu.")
    review(course, "bob", "mini-test-reponse", 4, "Bien vu.")
    report = grade_class(course, ["mini"], ["bob"], again=True)
    assert [r.student for r in report.rows] == ["bob"]
    for name, auto, manual in (("mini-ecrit", None, 3), ("mini-test-reponse", 2, 4)):
        grade = grade_of(course, "bob", name)
        assert (grade["auto_score"], grade["manual_score"], grade["needs_manual_grade"]) == (
            auto,
            manual,
            False,
        )
    with open_gradebook(course) as gradebook:
        assert gradebook.find_comment("mini-ecrit", "mini", "mini", "bob").comment == "Bien vu."
    assert row(report, "bob").recorded.score == 9

    changed = tiny_course.copy_notebook(answer="moyenne = 3.0\nunite = 0", written="J'ai réfléchi.")
    tiny_course.hand_in(course.root, "bob", changed)
    report = grade_class(course, ["mini"], ["bob"])
    for name in ("mini-ecrit", "mini-test-reponse"):
        grade = grade_of(course, "bob", name)
        assert grade["manual_score"] is not None and grade["needs_manual_grade"] is True


def test_an_unchanged_copy_is_not_run_again(graded: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*args: object, **kwargs: object) -> None:
        raise AssertionError("graded again")

    monkeypatch.setattr("autograder.batch.work.examine", never)
    report = grade_class(graded["course"], students=["alice"])
    assert row(report, "alice").result.score == 6


def test_an_error_of_ours_in_one_copy_is_not_graded(
    graded: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*args: object, **kwargs: object) -> None:
        raise RuntimeError("oh")

    monkeypatch.setattr("autograder.batch.work.examine", broken)
    report = grade_class(graded["course"], students=["fred", "personne"], again=True)
    result = row(report, "fred").result
    assert result.graded is False and "RuntimeError" in result.details[0]
    assert report.missing == (("personne", "mini"),)
    assert "personne" in not_graded_lines(report)[-1]


def test_a_test_that_was_mended_reaches_the_gradebook(tmp_path: Path) -> None:
    course = tiny_course.make_course(tmp_path)
    tiny_course.hand_in(tmp_path, "alice", tiny_course.copy_notebook(answer="moyenne = 4.0\nunite = 'ms'"))
    before = row(grade_class(course), "alice")
    path = tmp_path / "source" / "mini" / "mini.ipynb"
    path.write_text(path.read_text().replace("close(moyenne, 3.0)", "close(moyenne, 4.0)"))
    after = row(grade_class(course), "alice")
    assert (before.recorded.score, after.recorded.score) == (4, 6)
    autograded = (tmp_path / "autograded" / "alice" / "mini" / "mini.ipynb").read_text()
    assert "close(moyenne, 4.0)" in autograded


@pytest.mark.parametrize(("told", "line"), [
    ("Traceback (most recent call last):\n  File \"a.py\", line 1, in f\n    f()\nError: 1", "Error: 1"),
    (
        "Traceback (most recent call last):\n  File \"a.py\", line 1, in f\n    g()\n    ^^^\n"
        "css.SelectorError: Invalid character\n  line 1:\nimg\n^\n",
        "css.SelectorError: Invalid character",
    ),
    ("no traceback,\nbut two lines", "but two lines"),
    ("", "?"),
])
def test_a_refusal_is_told_by_its_error(told: str, line: str) -> None:
    assert refusal(told) == line


def test_a_result_that_cannot_be_written_stops_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    course = tiny_course.make_course(tmp_path)
    for student in ("alice", "bob"):
        tiny_course.hand_in(tmp_path, student, tiny_course.copy_notebook())

    def nested(*args: Any, student: str, **more: Any) -> Any:
        result = examine(*args, student=student, **more)
        outputs: Any = []
        for _ in range(20_000 if student == "alice" else 0):
            outputs = [outputs]
        return dataclasses.replace(result, cells={**result.cells, "x": outputs})

    monkeypatch.setattr("autograder.batch.work.examine", nested)
    report = grade_class(course)
    assert [one.result.graded for one in report.rows] == [False, True]
    assert "RecursionError" in row(report, "alice").result.details[0]
    assert (row(report, "alice").recorded.problem, row(report, "bob").recorded.score) == (None, 6)


def test_a_regrade_that_changes_the_mark_of_the_same_copy_says_so(tmp_path: Path) -> None:
    course, said = tiny_course.make_course(tmp_path), list[str]()
    tiny_course.hand_in(tmp_path, "alice", tiny_course.copy_notebook(answer="moyenne = 4.0\nunite = 'ms'"))
    tiny_course.hand_in(tmp_path, "bob", tiny_course.copy_notebook(answer="moyenne = 4.0\nunite = 'ms'"))
    assert grade_class(course).changed == ()
    assert grade_class(course, again=True).changed == ()
    path = tmp_path / "source" / "mini" / "mini.ipynb"
    path.write_text(path.read_text().replace("close(moyenne, 3.0)", "close(moyenne, 4.0)"))
    tiny_course.hand_in(tmp_path, "bob", tiny_course.copy_notebook())  # another copy: another mark is no news
    (changed,) = grade_class(course, tell=said.append).changed
    assert changed.startswith("alice mini: 4 of 6 → 6 of 6; what else differs: tests (")
    assert any("alice mini: the mark changed, the copy did not" in line for line in said)


def test_what_differs_beside_the_copy_is_named() -> None:
    before = CopyResult(
        "mini", "zoe", score=2.0, max_score=4.0, tests=(TestResult("a", "partial", 2.0, 4.0),),
        versions={"torch": "2.13", "tests": "abc"}, copy_sha256="x",
    )  # fmt: skip
    lost = copy.copy(before)
    object.__setattr__(lost, "graded", False)
    assert changed_mark(before, before) is None
    assert changed_mark(before, lost) == "2 of 4 → not graded; what else differs: nothing that we know of"
    assert changed_mark(lost, before) is None
    other = CopyResult(
        "mini", "zoe", score=4.0, max_score=4.0, tests=(TestResult("a", "passed", 4.0, 4.0),),
        versions={"torch": "2.14", "tests": "abc"}, copy_sha256="x", sandbox=True,
    )  # fmt: skip
    assert changed_mark(before, other) == (
        "2 of 4 → 4 of 4; what else differs: torch (2.13 → 2.14), the sandbox"
    )


def test_each_problem_copy_is_told_as_soon_as_it_is_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    course, said = tiny_course.make_course(tmp_path), list[str]()
    tiny_course.hand_in(tmp_path, "alice", tiny_course.copy_notebook())
    (tiny_course.hand_in(tmp_path, "dora") / "mini.ipynb").write_text('{"cells": [')
    real = Recorder.add

    def add(self: Recorder, student: str, assignment: str) -> str | None:
        said.append(f"recorded {student}")
        return real(self, student, assignment) or ("refused" if student == "alice" else None)

    monkeypatch.setattr(Recorder, "add", add)
    report = grade_class(course, tell=said.append)
    assert [line.split(": ")[0] for line in said if "dora" in line] == ["dora mini", "recorded dora"]
    assert "alice mini: not recorded: refused" in said
    assert len(report.rows) == 2


def test_an_unknown_assignment_is_refused(tmp_path: Path) -> None:
    with pytest.raises(courses.CourseError, match="mini"):
        grade_class(tiny_course.make_course(tmp_path), ["minis"])


def test_an_empty_class(tmp_path: Path) -> None:
    report = grade_class(tiny_course.make_course(tmp_path))
    assert report.rows == () and report.complete
