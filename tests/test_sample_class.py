"""The sample class, from the zip that comes in to the marks that stand in examples/class/expected.yaml."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from sample_class import Sample

from autograder.batch.grade import ClassReport

ROOT = Path(__file__).resolve().parent.parent
EXPECTED: dict[str, dict[str, dict[str, Any]]] = yaml.safe_load(
    (ROOT / "examples" / "class" / "expected.yaml").read_text(encoding="utf-8")
)


@pytest.fixture
def report(sample_class: Sample) -> ClassReport:
    return sample_class.report


@pytest.mark.parametrize("student", sorted(EXPECTED))
def test_each_student_gets_the_stated_marks(report: ClassReport, student: str) -> None:
    found = {row.assignment: row for row in report.rows if row.student == student}
    assert sorted(found) == sorted(EXPECTED[student])
    for assignment, expected in EXPECTED[student].items():
        row = found[assignment]
        assert row.recorded.problem is None
        seen = {
            "auto": row.result.score,
            "graded": row.result.graded,
            "by_hand": len(row.recorded.pending),
            "flags": sorted(row.result.flags),
            "diagnosis": row.result.diagnosis["id"] if row.result.diagnosis else None,
            "late": row.recorded.late_s > 0,
        }
        wanted = {
            "graded": True, "flags": [], "diagnosis": None, "by_hand": 0, "late": False,
        } | expected  # fmt: skip
        assert seen == wanted, assignment


def test_every_student_of_the_class_is_expected(report: ClassReport) -> None:
    assert {row.student for row in report.rows} == set(EXPECTED)


def test_what_could_not_be_graded_has_its_cause(report: ClassReport) -> None:
    lost = [row.result for row in report.rows if not row.result.graded]
    assert lost and all(result.cause for result in lost)
