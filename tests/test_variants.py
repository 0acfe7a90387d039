"""Which cells of a source notebook students get, and the files that its solution hands in."""

from __future__ import annotations

import pytest
from nbformat.v4 import new_code_cell, new_notebook

from autograder.notebook.cells import released_source, source_cells
from autograder.notebook.leaks import whole_files
from autograder.notebook.variants import solution_files, variant


def tagged(source: str, *tags: str, solution: bool = False) -> object:
    metadata: dict[str, object] = {"tags": list(tags)} if tags else {}
    if solution:
        metadata["nbgrader"] = {"solution": True, "grade": False, "grade_id": "x-file"}
    return new_code_cell(source, metadata=metadata)


@pytest.mark.parametrize(
    ("numbers", "released", "solved"),
    [("same", ["a", "same"], ["a", "whole", "same"]), ("per-student", ["a", "own"], ["a", "whole", "own"])],
)
def test_tags_say_what_a_release_holds(numbers: str, released: list[str], solved: list[str]) -> None:
    cells = [
        tagged("a", "show"), tagged("whole", "source-only"), tagged("own", "per-student"),
        tagged("same", "same-numbers"),
    ]
    notebook = new_notebook(cells=cells)
    assert [cell.source for cell in variant(notebook, numbers).cells] == released
    assert [cell.source for cell in variant(notebook, numbers, solution=True).cells] == solved
    assert len(notebook.cells) == 4


def test_the_solution_s_files_come_from_its_cells() -> None:
    hole = "%%writefile a.py\nx = 1\n### BEGIN SOLUTION\ny = 2\n### END SOLUTION"
    cells = [tagged(hole, solution=True), tagged("%%writefile b.txt\nbonjour", "source-only"), tagged("c")]
    assert solution_files(new_notebook(cells=cells)) == {"a.py": "x = 1\ny = 2\n", "b.txt": "bonjour\n"}


def test_a_whole_script_is_secret_but_for_what_students_read_elsewhere() -> None:
    lines = ("import os", "appareil = choisir_appareil()", "# a long enough comment", "backend = demande")
    script = "\n".join(["%%writefile labo.py", *lines])
    cells = source_cells(new_notebook(cells=[tagged(script, "source-only")]))
    assert released_source(cells[0]) == ""
    found = whole_files("solo", cells, {"backend=demande"})
    assert [secret.line for secret in found] == ["appareil=choisir_appareil()"]
