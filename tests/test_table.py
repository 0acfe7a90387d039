"""What grading gave, shown: no processes, results made by hand."""

from __future__ import annotations

import functools
import io

from rich.console import Console

from autograder.batch.by_hand import waiting
from autograder.batch.grade import ClassReport, Row
from autograder.batch.record import Recorded
from autograder.notebook.result import CopyResult, TestResult
from autograder.report.table import cell, class_view, left_by_hand, print_copy


def result(points: float, status: str = "passed", graded: bool = True, **more: object) -> CopyResult:
    test = TestResult("t", status, points, 4, "constat", "conseil")
    cause = None if graded else "machine occupée"
    values = {"score": points, "max_score": 4, "tests": (test,), "graded": graded, "cause": cause} | more
    return CopyResult("ex1", "alice", **values)  # type: ignore[arg-type]


def row(student: str, res: CopyResult, **recorded: object) -> Row:
    return Row(student, "ex1", res, Recorded(student, "ex1", **recorded))  # type: ignore[arg-type]


def shown(report: ClassReport) -> str:
    console = Console(width=120, file=io.StringIO(), record=True)
    console.print(class_view(report))
    return console.export_text()


def test_points_pending_flags_and_lateness_stand_in_one_cell() -> None:
    marked = cell(
        row("a", result(2.5, "partial", flags=("hard-coded",)), pending=("q", "r"), late_s=5400, score=2.5)
    )
    assert "2,5 / 4" in marked and "+ 2 à noter" in marked and "hard-coded" in marked and "1,5 h" in marked


def test_not_graded_is_never_shown_as_a_mark() -> None:
    lost = row("a", result(0, "not_graded", graded=False), lacking=("t",), max_score=4)
    assert "0 / 4" not in cell(lost) and "non noté" in cell(lost)
    assert "non noté" in cell(row("a", result(4), problem="database is locked"))
    page = shown(ClassReport(("ex1",), (lost,)))
    assert "0 / 4" not in page and "—" in page  # nor as a total
    beside = Row("a", "ex2", result(3, "partial"), Recorded("a", "ex2", None, 3, 4))
    assert "3 / 4" in shown(ClassReport(("ex1", "ex2"), (lost, beside)))


def test_a_person_s_marks_in_place_of_every_test_s_are_shown_and_count() -> None:
    marked = row("a", result(0, "not_graded", graded=False), score=3, max_score=8)
    assert "3 / 8" in cell(marked) and "non noté" not in cell(marked)
    assert shown(ClassReport(("ex1",), (marked,))).count("3 / 8") == 2


def test_only_what_a_person_can_mark_is_left_by_hand() -> None:
    points = {"t": None, "u": 2.0, "q": None, "r": 0.0}
    waits = functools.partial(waiting, written={"q", "r"})
    assert waits(points, {"t", "q"}, read=True) == (("t",), ("q",))
    assert waits(points, {"t", "q"}, read=False) == (("t",), ())  # unreadable: its cause comes first
    # Marked by hand, then handed in again: to be looked at once more. Nothing is lacking: nothing is dropped.
    assert waits(points | {"t": 3.0}, {"t"}, read=False) == ((), ("q", "t"))


def test_a_copy_graded_in_part_says_so() -> None:
    tests = (TestResult("t", "passed", 4, 4), TestResult("u", "not_graded", 0, 2))
    partly = result(4, graded=False, tests=tests)
    assert "4 / 6" in cell(row("a", partly)) and "en partie non noté" in cell(row("a", partly))


def test_the_class_shows_who_lacks_what() -> None:
    rows = (
        row("alice", result(4), score=4, max_score=4),
        Row("alice", "ex2", result(2, "partial"), Recorded("alice", "ex2", None, 2, 4)),
        row("[bob]", result(0, "not_graded", graded=False), pending=("q",), lacking=("t",)),
    )
    report = ClassReport(("ex1", "ex2", "ex3"), rows, (("carl", "ex1"),))
    page = shown(report)
    assert "[bob]" in page and "6 / 8" in page and "—" in page
    assert "ex3" not in page
    assert "machine occupée" in page and "carl" in page
    assert "Une réponse reste" in left_by_hand(report)[0]


def test_a_test_that_is_wrong_is_named_to_the_grader() -> None:
    broken = result(0, "not_graded", graded=False, details=("t: Traceback\nNameError: chek",))
    assert "NameError: chek" in shown(ClassReport(("ex1",), (row("a", broken),)))


def test_a_file_that_stood_in_the_way_is_told_in_french() -> None:
    problem = "PermissionError: [Errno 1] Operation not permitted: '/c/autograded/a/ex1/labo.py'"
    page = " ".join(shown(ClassReport(("ex1",), (row("a", result(4), problem=problem),))).split())
    assert "`/c/autograded/a/ex1/labo.py` ne peut être ni lu ni écrit (Operation not permitted)" in page
    assert "Errno" not in page and "relancez `autograder grade`" in page
    page = shown(ClassReport(("ex1",), (row("a", result(4), problem="KeyError: 'x'"),)))
    assert "KeyError: 'x'" in page


def test_nothing_left_by_hand() -> None:
    assert left_by_hand(ClassReport(("ex1",), (row("a", result(4)),))) == ["Rien ne reste à noter à la main."]


def test_one_copy() -> None:
    console = Console(width=120, file=io.StringIO(), record=True)
    print_copy(result(2, "partial", remarks=("remarque",)), console)
    page = console.export_text()
    assert "ex1 : 2 / 4 points" in page.replace("\u00a0", " ") and "constat" in page and "conseil" in page
    assert "remarque" in page


def test_the_head_of_a_copy() -> None:
    assert "machine occupée" in result(0, "not_graded", graded=False).head()
    assert result(4)._repr_markdown_().startswith("**ex1")
