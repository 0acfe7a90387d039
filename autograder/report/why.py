"""Why a copy lost points, in a line or two: what a grader reads under the class's table."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from autograder.messages import number, text
from autograder.report.run_view import clean, unsaid_place

if TYPE_CHECKING:
    from autograder.batch.grade import ClassReport
    from autograder.notebook.result import CopyResult


def why(report: ClassReport) -> Iterator[str]:
    """One entry per graded copy without all its points: who, how much, and the first cause."""
    for row in report.rows:
        if row.result.graded and not row.result.passed and not row.of_partner:
            score, most = number(row.result.score), number(row.result.max_score)
            head = text(
                "class_why.head", student=row.student, assignment=row.assignment, score=score, max=most
            )
            yield f"{head} {first_cause(row.result)}"


def to_read(report: ClassReport) -> Iterator[str]:
    """One entry per copy that a person should read again, whatever its mark: who, and what was seen."""
    for row in report.rows:
        if row.result.suspicions and not row.of_partner:
            told = " ; ".join(map(clean, row.result.suspicions))
            yield text("tampering.note", student=row.student, assignment=row.assignment, told=told)


def first_cause(result: CopyResult) -> str:
    """The launch's diagnosis with its place, else what the first failed test found."""
    if result.diagnosis:
        where = unsaid_place(result.diagnosis)
        said = _first_line(str(result.diagnosis["message"]))
        return f"{said} ({where})" if where else said
    lost = (test for test in result.tests if test.status in ("failed", "partial"))
    test = next(lost, None)
    return _first_line(test.message) if test else ""


def _first_line(message: str) -> str:
    lines = [line.strip() for line in clean(message).splitlines() if line.strip()]
    return lines[0] if lines else ""
