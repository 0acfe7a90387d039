"""Notebooks as they really come, and what their cells are for."""

from __future__ import annotations

import json
from pathlib import Path

import nbformat
import pytest
import tiny_course
from nbformat.v4 import new_code_cell

from autograder.notebook.cells import (
    Cell,
    CopyError,
    file_body,
    needed_names,
    parse_notebook,
    read_notebook,
    released_source,
    same_code,
    source_cells,
    written_file,
)

CONTENT = nbformat.writes(tiny_course.source_notebook())


def test_a_byte_order_mark_and_windows_line_ends_are_read() -> None:
    data = b"\xef\xbb\xbf" + CONTENT.replace("\n", "\r\n").encode()
    assert parse_notebook(data, "x.ipynb").cells[1].source == tiny_course.ANSWER


def test_line_ends_inside_a_cell_become_plain() -> None:
    notebook = json.loads(CONTENT)
    notebook["cells"][1]["source"] = ["a = 1\r\n", "b = 2"]
    assert parse_notebook(json.dumps(notebook).encode(), "x").cells[1].source == "a = 1\nb = 2"


def test_latin_1_is_read() -> None:
    assert "Définissez" in parse_notebook(CONTENT.encode("latin-1"), "x.ipynb").cells[1].source


def test_utf_16_is_read() -> None:
    assert "Définissez" in parse_notebook(CONTENT.encode("utf-16"), "x.ipynb").cells[1].source


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (CONTENT.encode()[:400], "tronqué"),
        (b"", "vide"),
        (b"<!DOCTYPE html><html></html>", "page web"),
        (b'{"a": 1}', "pas un notebook"),
        (b"[1, 2]", "pas un notebook"),
        (b'{"cells": [}', "JSON incorrect"),
        (b'{"cells": 3, "nbformat": 4}', "JSON incorrect"),
        (b"[" * 100_000, "tronqué"),
    ],
)
def test_what_is_not_a_notebook_is_said_in_french(data: bytes, words: str) -> None:
    with pytest.raises(CopyError, match=words):
        parse_notebook(data, "ex.ipynb")


def test_an_absent_notebook_is_a_copy_error(tmp_path: Path) -> None:
    with pytest.raises(CopyError, match=r"absent\.ipynb"):
        read_notebook(tmp_path / "absent.ipynb")


def test_strange_cells_do_not_stop_the_reading() -> None:
    data = json.dumps(
        {
            "nbformat": 4,
            "metadata": None,
            "cells": [
                7,
                {"cell_type": "heading", "source": ["a", "b"]},
                {"cell_type": "code", "id": "é", "metadata": {"nbgrader": 3}, "source": "x"},
                {"cell_type": "code", "id": "same", "source": "y"},
                {"cell_type": "code", "id": "same", "source": "z"},
            ],
        }
    ).encode()
    cells = parse_notebook(data, "x").cells
    assert [cell.cell_type for cell in cells] == ["raw", "code", "code", "code"]
    assert len({cell.id for cell in cells}) == 4


def test_an_old_notebook_is_converted() -> None:
    old = {"nbformat": 3, "nbformat_minor": 0, "metadata": {"name": ""}}
    old["worksheets"] = [
        {"cells": [{"cell_type": "code", "language": "python", "input": "x = 1", "outputs": []}]}
    ]
    assert parse_notebook(json.dumps(old).encode(), "x").cells[0].source == "x = 1"


def test_outputs_of_a_copy_are_dropped_at_reading() -> None:
    notebook = json.loads(CONTENT)
    notebook["cells"][1]["outputs"] = [{"output_type": "stream", "name": "stdout", "text": "x" * 30_000_000}]
    assert parse_notebook(json.dumps(notebook).encode(), "x").cells[1].outputs == []


def test_roles_and_points() -> None:
    cells = {cell.id: cell for cell in source_cells(tiny_course.source_notebook())}
    assert {name: cell.role for name, cell in cells.items()} == {
        "lecon": "plain",
        "mini-reponse": "answer",
        "mini-test-reponse": "test",
        "mini-labo": "file",
        "lancer": "show",
        "mini-test-labo": "test",
        "mini-ecrit": "written",
    }
    assert cells["mini-test-reponse"].points == 4


def test_names_that_a_test_reads_from_the_student() -> None:
    cells = source_cells(tiny_course.source_notebook())
    assert needed_names(cells) == {"mini-test-reponse": ("moyenne", "unite"), "mini-test-labo": ()}


def test_names_in_functions_comprehensions_and_earlier_tests() -> None:
    def cell(number: int, source: str) -> Cell:
        return Cell(number, f"t{number}", "test", "code", source, 1)

    first = (
        "import json as j\nrun = 1\ndef f(a):\n    return a + loin\n[x for x in liste if str(x) > run]\nf(j)"
    )
    assert needed_names([cell(0, first), cell(1, "run + reponse"), cell(2, "syntax error here")]) == {
        "t0": ("loin", "liste"),
        "t1": ("reponse",),
        "t2": (),
    }


def test_the_released_form_is_nbgrader_s_own(tmp_path: Path) -> None:
    from autograder.notebook.generate import generate

    course = tiny_course.make_course(tmp_path)
    made = generate(course, "mini", tmp_path / "out")[0]
    theirs = {cell.id: cell.source for cell in source_cells(read_notebook(made))}
    ours = {cell.id: released_source(cell) for cell in source_cells(tiny_course.source_notebook())}
    assert ours == theirs
    assert tiny_course.SECRET not in "".join(theirs.values())


@pytest.mark.parametrize("magic", ["%%writefile labo.py", "%%file ./labo.py", '%%writefile "labo.py"  '])
def test_a_cell_that_writes_labo(magic: str) -> None:
    assert written_file(f"{magic}\nprint(1)") == "labo.py"
    assert file_body(f"{magic}\nprint(1)") == "print(1)"


def test_a_cell_that_appends_or_writes_another_file_is_not_the_labo_cell() -> None:
    assert written_file("%%writefile -a labo.py\nx") is None
    assert written_file("%%writefile labo.pyx\nx") == "labo.pyx"
    assert written_file("%%writefile ../labo.py\nx") is None
    assert written_file("print('%%writefile labo.py')") is None


def test_same_code_ignores_what_editors_change() -> None:
    assert same_code("a = 1  \r\nb = 2\n\n", "a = 1\nb = 2")
    assert not same_code("a = 1", "a = 2")


def test_a_show_cell_keeps_its_role_by_tag_only() -> None:
    notebook = tiny_course.source_notebook()
    notebook.cells.append(new_code_cell("!torchrun labo.py"))
    assert source_cells(notebook)[-1].role == "plain"
