"""Read notebooks as they really come, and tell what each cell is for.

Roles come from the source notebook (the instructor's), never from a student's copy.
"""

from __future__ import annotations

import builtins
import json
import re
import stat
import symtable
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import nbformat
from nbformat import NotebookNode

from autograder.launch.untrusted import readable
from autograder.messages import text
from autograder.notebook.stubs import CODE_STUB, TEXT_STUB

Role = Literal["test", "answer", "file", "written", "locked", "show", "source", "plain"]

MAX_CELLS = 20_000
MAX_BYTES = 200_000_000  # above this a notebook is not read: an endless printer's outputs are 30 MB
SHOWN = frozenset({"show", "heavy"})  # the tags of cells that are not run again when grading
SOURCE_ONLY = "source-only"  # the tag of a cell that stands in source/ and in no release
_WRITEFILE = re.compile(r"\s*%%(?:writefile|file)\s+[\"']?(?:\./)?(\w[\w.-]*)[\"']?\s*(?:\n|$)")
_GLOBALS = {"__name__", "__file__", "get_ipython", "display", "In", "Out"}


class CopyError(Exception):
    """A copy that cannot be read. The message is the cause, in French, fit for the student and the grader."""


@dataclass(frozen=True)
class Cell:
    """One cell of the source notebook. `source` is complete: solution, hidden tests and mark scheme
    included.
    """

    index: int
    id: str  # the grade_id where there is one, else the cell's own id
    role: Role
    kind: str  # code, markdown or raw
    source: str
    points: float = 0.0
    graded: bool = False


# ------------------------------------------------------------------------------------------------ reading


def read_notebook(path: Path) -> NotebookNode:
    """The notebook at `path` in format 4.5, whatever its encoding and line ends; else CopyError."""
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):  # a pipe would be waited for
            raise CopyError(text("grading.not-regular", name=path.name))
        if status.st_size > MAX_BYTES:
            mo, limit = round(status.st_size / 1e6), round(MAX_BYTES / 1e6)
            raise CopyError(text("grading.too-big", name=path.name, mo=mo, limite=limit))
        data = path.read_bytes()
    except PermissionError:
        raise CopyError(text("grading.no-right", name=path.name)) from None
    except OSError as error:
        detail = error.strerror or str(error)
        raise CopyError(text("grading.unreadable", name=path.name, detail=detail)) from None
    return parse_notebook(data, path.name)


def parse_notebook(data: bytes, name: str) -> NotebookNode:
    """As `read_notebook`, from the file's bytes."""
    content = _decode(data)
    if not content.strip():
        raise CopyError(text("grading.empty", name=name))
    if content.lstrip()[:1] == "<":
        raise CopyError(text("grading.web-page", name=name))
    try:
        raw = json.loads(content, strict=False)
    except (ValueError, RecursionError) as error:
        line = getattr(error, "lineno", None)
        whole = content.rstrip().endswith("}")
        raise CopyError(
            text("grading.damaged" if whole else "grading.truncated", name=name, line=line or "?")
        ) from None
    if not isinstance(raw, dict) or not ("cells" in raw or "worksheets" in raw):
        raise CopyError(text("grading.not-a-notebook", name=name))
    try:
        if raw.get("nbformat") != 4:
            raw = json.loads(nbformat.writes(nbformat.convert(nbformat.from_dict(raw), 4)))
        if len(raw["cells"]) > MAX_CELLS:
            raise CopyError(text("grading.too-many-cells", name=name, n=len(raw["cells"]), most=MAX_CELLS))
        return _normalise(raw)
    except Exception as error:  # any shape of JSON can stand in a student's file
        told = CopyError(text("grading.damaged", name=name, line="?"))
        raise (error if isinstance(error, CopyError) else told) from error


def _decode(data: bytes) -> str:
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return data.decode("utf-16", errors="replace")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return data.decode("latin-1")


def _normalise(raw: dict[str, Any]) -> NotebookNode:
    cells = [_cell(item) for item in raw["cells"] if isinstance(item, dict)]
    seen: set[str] = set()
    for number, cell in enumerate(cells):
        cell["id"] = unique_id(cell.get("id"), seen, f"cell-{number}")
        seen.add(cell["id"])
    metadata = _shallow(raw.get("metadata"))
    notebook = {"nbformat": 4, "nbformat_minor": 5, "cells": cells}
    notebook["metadata"] = metadata if isinstance(metadata, dict) else {}
    return nbformat.from_dict(notebook)


def _cell(item: dict[str, Any]) -> dict[str, Any]:
    kind = item.get("cell_type")
    kind = kind if kind in ("code", "markdown", "raw") else "raw"
    metadata = _shallow(item.get("metadata"))
    cell: dict[str, Any] = {
        "cell_type": kind,
        "id": item.get("id"),
        "metadata": dict(metadata) if isinstance(metadata, dict) else {},
        "source": join_lines(item.get("source", "")),
    }
    if not isinstance(cell["metadata"].get("nbgrader", {}), dict):
        del cell["metadata"]["nbgrader"]
    if kind == "code":
        # Outputs of a copy are never used: the cells are run again.
        cell |= {"outputs": [], "execution_count": None}
    elif isinstance(item.get("attachments"), dict):
        cell["attachments"] = _pictures(item["attachments"])
    return cell


def _pictures(attachments: dict[str, Any]) -> dict[str, dict[str, str]]:
    """The attachments of a cell that are what they should be: a name, a kind, and the picture as text."""
    return {
        name: {kind: data for kind, data in one.items() if isinstance(data, str)}
        for name, one in attachments.items() if isinstance(one, dict)
    }  # fmt: skip


def _shallow(value: Any, left: int = 12) -> Any:
    """Plain JSON without what lies deeper than any editor writes: a copy would end in a RecursionError."""
    if isinstance(value, dict | list) and not left:
        return None
    if isinstance(value, dict):
        return {key: _shallow(item, left - 1) for key, item in value.items()}
    return [_shallow(item, left - 1) for item in value] if isinstance(value, list) else value


def unique_id(wanted: object, taken: set[str], default: str) -> str:
    """`wanted` if it is a valid cell id that is free, else a free one made from it or from `default`."""
    base = wanted if isinstance(wanted, str) and re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", wanted) else default
    candidate, number = base, 2 if len(taken) < 500 else len(taken)   # ten thousand can have one name
    while candidate in taken:
        candidate, number = f"{base[:55]}-{number}", number + 1
    return candidate


def join_lines(source: object) -> str:
    """A cell's text, from a string or a list of lines, with plain line ends."""
    if isinstance(source, list):
        source = "".join(str(line) for line in source)
    return readable(source).replace("\r\n", "\n").replace("\r", "\n")


# ------------------------------------------------------------------------------------------------ roles


def source_cells(notebook: NotebookNode) -> list[Cell]:
    """The cells of an instructor's (or released) notebook, with their roles and points."""
    return [_describe(index, cell) for index, cell in enumerate(notebook.cells)]


def _describe(index: int, cell: NotebookNode) -> Cell:
    meta = cell.metadata.get("nbgrader", {})
    grade, solution, task = (bool(meta.get(key)) for key in ("grade", "solution", "task"))
    role: Role = "plain"
    if grade and not solution and cell.cell_type == "code":
        role = "test"
    elif task or (grade and solution):
        role = "written"
    elif solution:
        role = "file" if written_file(cell.source) else "answer"
    elif meta.get("locked"):
        role = "locked"
    elif SOURCE_ONLY in cell.metadata.get("tags", ()):
        role = "source"
    elif for_show(cell):
        role = "show"
    points = float(meta.get("points") or 0) if grade or task else 0.0
    ident = str(meta.get("grade_id") or cell.get("id") or f"cell-{index}")
    graded = role in ("test", "answer", "file", "written", "locked")
    return Cell(index, ident, role, cell.cell_type, cell.source, points, graded)


def for_show(cell: NotebookNode) -> bool:
    """Whether the cell's tags say that grading needs no run of it."""
    tags = cell.metadata.get("tags", ())
    return isinstance(tags, list) and not SHOWN.isdisjoint(map(str, tags))


def written_file(source: str) -> str | None:
    """The name of the file that a `%%writefile` cell writes beside the notebook; None for any other cell."""
    found = _WRITEFILE.match(source)
    return found.group(1) if found else None


def file_body(source: str) -> str:
    """What a `%%writefile` cell would write."""
    return source.lstrip().partition("\n")[2] if written_file(source) else source


def same_code(one: str, other: str) -> bool:
    """Equal but for line ends, spaces at the ends of lines and blank lines at both ends."""
    return _bare(one) == _bare(other)


def _bare(source: str) -> list[str]:
    return [line.rstrip() for line in source.replace("\r\n", "\n").strip().split("\n")]


# ------------------------------------------------------------------------------------------------ test cells


def needed_names(cells: list[Cell]) -> dict[str, tuple[str, ...]]:
    """Per test cell, the names that it reads and neither it, an import, a builtin nor an earlier test
    defines.

    A cell that does not parse needs nothing: running it tells what is wrong with it.
    """
    defined: set[str] = set(dir(builtins)) | _GLOBALS
    needs: dict[str, tuple[str, ...]] = {}
    for cell in cells:
        if cell.role != "test":
            continue
        read, assigned = names(cell.source)
        needs[cell.id] = tuple(name for name in read if name not in defined and name not in assigned)
        defined |= assigned
    return needs


def given_names(cells: list[Cell]) -> set[str]:
    """What the answer cells of a source notebook define: an answer that a test reads must stand here."""
    return set().union(*(names(cell.source)[1] for cell in cells if cell.role == "answer"))


def names(source: str) -> tuple[list[str], set[str]]:
    """The module-level names that this code reads, in order of first use, and those that it binds."""
    try:
        table = symtable.symtable(source, "cell", "exec")
    except (SyntaxError, ValueError):
        return [], set()
    bound = {
        symbol.get_name() for symbol in table.get_symbols() if symbol.is_assigned() or symbol.is_imported()
    }
    read = {symbol.get_name() for symbol in table.get_symbols() if symbol.is_referenced()}
    for inner in _inner_tables(table):
        read |= {
            symbol.get_name()
            for symbol in inner.get_symbols()
            if symbol.is_global() and symbol.is_referenced()
        }
    order = re.findall(r"[^\W\d]\w*", source)
    return sorted(read, key=lambda name: order.index(name) if name in order else len(order)), bound


def _inner_tables(table: symtable.SymbolTable) -> Iterator[symtable.SymbolTable]:
    for child in table.get_children():
        yield child
        yield from _inner_tables(child)


# ------------------------------------------------------------------------------------------ released form


def released_source(cell: Cell) -> str:
    """What the student was given in this cell: nbgrader's own clearing of solutions, hidden tests, mark
    scheme.
    """
    source = cell.source
    if cell.role == "source":
        return ""
    if cell.role in ("answer", "file", "written"):
        stub = CODE_STUB if cell.kind == "code" else TEXT_STUB
        cleared = cut(source, "SOLUTION", stub)
        source = stub if cleared == source else cleared
    return cut(cut(source, "HIDDEN TESTS"), "MARK SCHEME")


def cut(source: str, what: str, stub: str | None = None) -> str:
    """Remove each region between lines with BEGIN `what` and END `what`; put `stub` there, as far in as it
    was.
    """
    lines: list[str] = []
    inside = False
    for line in source.split("\n"):
        if f"BEGIN {what}" in line:
            inside = True
            if stub is not None:
                indent = line[: len(line) - len(line.lstrip())]
                lines += [indent + part for part in stub.split("\n")]
        elif f"END {what}" in line:
            inside = False
        elif not inside:
            lines.append(line)
    return "\n".join(lines)
