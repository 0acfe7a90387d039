"""Why a copy lost points: one entry per copy, the diagnosis first, else what the first failed test found."""

from __future__ import annotations

from autograder.batch.grade import ClassReport, Row
from autograder.batch.record import Recorded
from autograder.notebook.result import CopyResult, TestResult
from autograder.report.why import first_cause, why

PASSED = TestResult("a", "passed", 4.0, 4.0, "✔")
FAILED = TestResult("b", "failed", 0.0, 4.0, "\nLe texte manque.\nDeuxième ligne", "Relisez.")


def row(*tests: TestResult, graded: bool = True, diagnosis: dict[str, object] | None = None) -> Row:
    score = sum(test.points for test in tests)
    most = sum(test.max_points for test in tests)
    result = CopyResult("ex1-rang", "anna", graded, None, score, most, tests, diagnosis=diagnosis)
    return Row("anna", "ex1-rang", result, Recorded("anna", "ex1-rang"))


def test_only_graded_copies_that_lost_points_are_named() -> None:
    rows = (row(PASSED), row(PASSED, FAILED), row(FAILED, graded=False))
    (line,) = why(ClassReport(("ex1-rang",), rows))
    assert line == "anna, ex1-rang (4 / 8)\u00a0: Le texte manque."


def test_the_diagnosis_comes_first_with_the_place_it_does_not_say() -> None:
    found = {"id": "x", "rank": 1, "line": 6, "message": "Le rang 1 s'arrête.", "advice": ""}
    assert first_cause(row(FAILED, diagnosis=found).result) == "Le rang 1 s'arrête. (ligne 6)"
    found["message"] = "Le rang 1 s'arrête (ligne 6)."
    assert first_cause(row(FAILED, diagnosis=found).result) == "Le rang 1 s'arrête (ligne 6)."
