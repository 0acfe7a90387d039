"""A student's notebook put back on the skeleton that was released."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import tiny_course
from nbformat.v4 import new_code_cell, new_markdown_cell

from autograder.notebook.repair import Repaired, repair, skeleton, untouched

FRAME = skeleton(tiny_course.source_notebook())
GRADED = ["mini-reponse", "mini-test-reponse", "mini-labo", "mini-test-labo", "mini-ecrit"]


def mend(notebook: Any) -> Repaired:
    return repair(notebook, FRAME)


def by_id(repaired: Repaired) -> dict[str, Any]:
    return {cell.id: cell for cell in repaired.notebook.cells}


def index(notebook: Any, name: str) -> int:
    return next(i for i, cell in enumerate(notebook.cells) if cell.id == name)


def graded_ids(repaired: Repaired) -> list[str]:
    return [
        cell.metadata.nbgrader.grade_id for cell in repaired.notebook.cells if "nbgrader" in cell.metadata
    ]


def test_an_honest_copy_is_unchanged() -> None:
    notebook = tiny_course.copy_notebook(written="Parce que.")
    repaired = mend(notebook)
    assert repaired.remarks == ()
    assert [cell.source for cell in repaired.notebook.cells] == [cell.source for cell in notebook.cells]
    assert repaired.roles["lancer"] == "show"


def test_the_student_s_own_notebook_is_not_modified() -> None:
    notebook = tiny_course.copy_notebook()
    before = copy.deepcopy(notebook)
    mend(notebook)
    assert notebook == before


def test_mending_twice_changes_nothing_more() -> None:
    notebook = tiny_course.copy_notebook()
    notebook.cells.insert(2, copy.deepcopy(notebook.cells[1]))
    once = mend(notebook)
    twice = mend(once.notebook)
    assert twice.notebook == once.notebook


def test_the_first_copy_of_a_cell_that_was_answered_is_kept() -> None:
    notebook = tiny_course.copy_notebook()
    blank = copy.deepcopy(untouched(FRAME).cells[1])
    later = copy.deepcopy(notebook.cells[1])
    later.source = "moyenne = 9"
    notebook.cells[1:1] = [blank]
    notebook.cells.append(later)
    repaired = mend(notebook)
    assert graded_ids(repaired) == GRADED
    assert by_id(repaired)["mini-reponse"].source.startswith("moyenne = 3.0")
    assert list(repaired.roles.values()).count("copy") == 2
    assert any("3 fois" in remark for remark in repaired.remarks)


def test_copied_and_unanswered_the_first_is_kept() -> None:
    notebook = untouched(FRAME)
    notebook.cells.insert(2, copy.deepcopy(notebook.cells[1]))
    repaired = mend(notebook)
    assert graded_ids(repaired) == GRADED
    assert repaired.roles["mini-reponse-2"] == "copy"


def test_a_copied_test_cell_does_not_stay_among_the_student_s_cells() -> None:
    notebook = tiny_course.copy_notebook()
    notebook.cells.append(new_code_cell(by_id(mend(notebook))["mini-test-labo"].source))
    repaired = mend(notebook)
    assert len(repaired.notebook.cells) == len(notebook.cells) - 1


@pytest.mark.parametrize("name", GRADED)
def test_a_deleted_cell_comes_back_in_its_place(name: str) -> None:
    notebook = tiny_course.copy_notebook()
    del notebook.cells[index(notebook, name)]
    repaired = mend(notebook)
    assert graded_ids(repaired) == GRADED
    assert by_id(repaired)[name].source == FRAME.released[name]
    assert any(name in remark for remark in repaired.remarks)


def test_flipped_flags_points_and_locks_are_put_back() -> None:
    notebook = tiny_course.copy_notebook()
    for cell in notebook.cells:
        if "nbgrader" in cell.metadata:
            cell.metadata.nbgrader.update(grade=False, solution=True, locked=False, points=100)
    repaired = mend(notebook)
    cells = by_id(repaired)
    test = cells["mini-test-reponse"].metadata
    assert (test.nbgrader.grade, test.nbgrader.solution, test.nbgrader.points) == (True, False, 4)
    assert test.editable is False
    assert cells["mini-reponse"].metadata.nbgrader.grade is False


def test_a_weakened_test_is_put_back() -> None:
    notebook = tiny_course.copy_notebook()
    notebook.cells[index(notebook, "mini-test-reponse")].source = "4"
    repaired = mend(notebook)
    assert by_id(repaired)["mini-test-reponse"].source == FRAME.released["mini-test-reponse"]
    assert any("verrouillée" in remark for remark in repaired.remarks)


def test_a_retyped_cell_gets_its_type_back_and_keeps_its_text() -> None:
    notebook = tiny_course.copy_notebook()
    place = index(notebook, "mini-reponse")
    old = notebook.cells[place]
    notebook.cells[place] = new_markdown_cell(old.source, metadata=old.metadata)
    cell = by_id(mend(notebook))["mini-reponse"]
    assert (cell.cell_type, cell.source) == ("code", old.source)
    assert cell.outputs == []


def test_cells_of_the_student_stay_in_place_without_a_role() -> None:
    notebook = tiny_course.copy_notebook()
    fake = tiny_course.meta("invented", grade=True, points=50, locked=True)
    notebook.cells.insert(1, new_code_cell("essai = 1", metadata=fake))
    repaired = mend(notebook)
    assert repaired.notebook.cells[1].source == "essai = 1"
    assert "nbgrader" not in repaired.notebook.cells[1].metadata


def test_lost_metadata_is_found_again_by_cell_id() -> None:
    notebook = tiny_course.copy_notebook()
    for cell in notebook.cells:
        cell.metadata.pop("nbgrader", None)
    repaired = mend(notebook)
    assert graded_ids(repaired) == GRADED
    assert by_id(repaired)["mini-reponse"].source.startswith("moyenne = 3.0")


def test_a_labo_cell_is_known_by_what_it_writes() -> None:
    notebook = tiny_course.copy_notebook()
    place = index(notebook, "mini-labo")
    notebook.cells[place] = new_code_cell(notebook.cells[place].source, id="new")
    assert "print(42)" in by_id(mend(notebook))["mini-labo"].source


def test_the_kernel_is_the_instructor_s() -> None:
    notebook = tiny_course.copy_notebook()
    notebook.metadata["kernelspec"] = {"name": "ir", "display_name": "R", "language": "R"}
    assert mend(notebook).notebook.metadata.kernelspec.name == "python3"


def test_duplicate_cell_ids_become_unique() -> None:
    notebook = tiny_course.copy_notebook()
    notebook.cells += [new_code_cell("a", id="lecon"), new_code_cell("b", id="mini-reponse-9", metadata={})]
    ids = [cell.id for cell in mend(notebook).notebook.cells]
    assert len(ids) == len(set(ids))


def test_an_answer_tagged_show_is_still_run() -> None:
    notebook = tiny_course.copy_notebook()
    notebook.cells[index(notebook, "mini-reponse")].metadata["tags"] = ["show"]
    assert mend(notebook).roles["mini-reponse"] == "answer"


def test_the_untouched_notebook_holds_no_solution() -> None:
    sources = "".join(cell.source for cell in untouched(FRAME).cells)
    assert tiny_course.SECRET not in sources
    assert "moyenne = 3.0" not in sources
    assert "barème" not in sources
