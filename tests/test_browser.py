"""In the real browser: a student's and a grader's way through JupyterLab, with nbgrader's own buttons.

One course folder and one server for both. The launches of the test cells are read from tests/runs; those of
the notebook's own `!torchrun` cells, which Validate runs, are made.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import browser_stories as stories
import nbformat
import pytest
from browser import chromium, jupyterlab

pytestmark = [pytest.mark.launch, pytest.mark.timeout(900)]


@dataclass(frozen=True)
class Day:
    root: Path
    said: dict[str, str]
    table: str


@pytest.fixture(scope="module")
def day(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Day]:
    """The student hands in, the class is graded, a person marks the written answer; marks are exported."""
    root = tmp_path_factory.mktemp("browser") / "course"
    with chromium() as driver:
        stories.a_course(root)
        with jupyterlab(root, stories.SAVED) as lab:
            try:
                said = stories.student(driver, lab)
                table = stories.hand_in_and_grade(root)
                stories.grader(driver, lab)
            except BaseException:
                driver.save_screenshot(str(root.parent / "failed.png"))
                raise
    stories.typed(root, "export", "--to", "grades.csv", module="nbgrader")
    yield Day(root, said, table)


def test_without_a_browser_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("browser.shutil.which", lambda name: None)
    with pytest.raises(pytest.skip.Exception, match="apt-get install chromium chromium-driver"), chromium():
        pass


def test_a_failing_check_names_the_rank_and_the_line(day: Day) -> None:
    said = day.said["failing"]
    assert "Rang 0" in said and "Cause :" in said and "KeyError" in said and "À essayer" in said
    assert "Traceback" not in said


def test_the_mended_script_passes_the_check_and_validate(day: Day) -> None:
    assert "tout est juste" in day.said["passing"]
    assert "Success! Your notebook passes all the tests." in day.said["validate"]


def test_what_was_typed_in_the_browser_is_what_was_handed_in(day: Day) -> None:
    copy = day.root / "submitted" / stories.STUDENT / stories.ASSIGNMENT
    notebook = nbformat.read(copy / f"{stories.ASSIGNMENT}.ipynb", as_version=4)
    texts = stories.answers().texts
    assert {cell.id: cell.source for cell in notebook.cells if cell.id in texts} == texts


def test_grading_leaves_the_written_answer_to_a_person(day: Day) -> None:
    assert stories.STUDENT in day.table and "+ 1 à noter" in day.table


def test_a_mark_given_in_formgrader_is_in_the_export(day: Day) -> None:
    with (day.root / "grades.csv").open(encoding="utf-8", newline="") as file:
        (row,) = csv.DictReader(file)
    points = stories.courses.load(day.root).assignment(stories.ASSIGNMENT).points
    assert row["student_id"] == stories.STUDENT
    assert float(row["score"]) == points.auto + float(stories.POINTS)
    stories.typed(day.root, "export", stories.ASSIGNMENT)
    with (day.root / "export" / "marks.csv").open(encoding="utf-8", newline="") as file:
        (own,) = csv.DictReader(file)
    assert own["student"] == stories.STUDENT
    assert float(own["mark"]) == points.auto + float(stories.POINTS)


def test_the_comment_is_in_the_feedback_after_the_next_grading(day: Day) -> None:
    stories.typed(day.root, "grade", stories.ASSIGNMENT, "--sandbox=auto")
    folder = day.root / "feedback" / stories.STUDENT / stories.ASSIGNMENT
    page = (folder / f"{stories.ASSIGNMENT}.html").read_text(encoding="utf-8")
    assert stories.COMMENT in page
