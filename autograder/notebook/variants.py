"""Which cells of a source notebook a release holds, by their tags.

`source-only` cells carry the solution of what students hand in as files; `per-student` and `same-numbers`
cells are kept as course.yaml's `numbers` says.
"""

from __future__ import annotations

import ast
import copy
import re
from collections.abc import Iterable, Mapping
from typing import Any

from nbformat import NotebookNode

from autograder.notebook.cells import SOURCE_ONLY, file_body, source_cells, written_file

_MARKER = re.compile(r"#+ ?(BEGIN|END) SOLUTION")
_ONLY_WITH = {"per-student": "per-student", "same-numbers": "same"}  # tag -> value of `numbers`


def released(tags: Iterable[str], numbers: str) -> bool:
    """Whether a cell with these tags stands in the release."""
    return SOURCE_ONLY not in tags and in_variant(tags, numbers)


def in_variant(tags: Iterable[str], numbers: str) -> bool:
    """Whether a cell with these tags belongs to the course as it is set."""
    return all(_ONLY_WITH.get(tag, numbers) == numbers for tag in tags)


def variant(notebook: NotebookNode, numbers: str, *, solution: bool = False) -> NotebookNode:
    """The notebook without the cells that no student gets; `solution` keeps the source-only ones."""
    kept = copy.copy(notebook)
    keep = in_variant if solution else released
    kept.cells = [cell for cell in notebook.cells if keep(cell.metadata.get("tags", ()), numbers)]
    return kept


def solution_files(notebook: NotebookNode) -> dict[str, str]:
    """The files that the cells of a source notebook write for the students' part, by name: its solution."""
    files = {}
    for cell in source_cells(notebook):
        name = written_file(cell.source)
        if cell.role in ("file", "source") and name is not None:
            files[name] = without_markers(file_body(cell.source)) + "\n"
    return files


def without_markers(source: str) -> str:
    """A solution cell's text as a student would have written it."""
    lines = (line for line in source.split("\n") if not _MARKER.fullmatch(line.strip()))
    return "\n".join(lines)


def with_values(source: str, values: Mapping[str, Any]) -> str:
    """An answer cell with other values for those of its variables that `values` names."""
    assigned = {
        target.id for node in ast.parse(source).body if isinstance(node, ast.Assign)
        for target in node.targets if isinstance(target, ast.Name)
    }  # fmt: skip
    return "\n".join([source, *(f"{name} = {values[name]!r}" for name in sorted(assigned & set(values)))])
