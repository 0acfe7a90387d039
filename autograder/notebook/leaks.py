"""Does anything that students get give an answer away? Every released file, against every secret.

A secret is a line of a solution, of a hidden test or of a mark scheme that is long enough to be told from any
other, and that students do not read elsewhere in the same assignment (a lesson may show one line of a
solution; two in a row are a copy of it). Solutions are looked for in the release of every assignment: no
release may hold a hole of any other, filled. Hidden tests and mark schemes use the same few words in each
assignment, and are looked for in their own.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from autograder.course import Course
from autograder.notebook.cells import (
    Cell,
    cut,
    file_body,
    released_source,
    source_cells,
    written_file,
)
from autograder.notebook.generate import source_folder
from autograder.notebook.sources import read_source

Kind = Literal["solution", "hidden test", "mark scheme"]

MARKERS = ("BEGIN SOLUTION", "END SOLUTION", "HIDDEN TEST", "MARK SCHEME", "AUTOTEST")
SHORTEST_CODE = 14  # without its spaces: `x = x / 2` is nobody's secret
SHORTEST_PROSE = 30
_REGIONS: dict[str, Kind] = {
    "SOLUTION": "solution",
    "HIDDEN TESTS": "hidden test",
    "MARK SCHEME": "mark scheme",
}
_MACHINE = re.compile(r"(?<![\w.])(/home/\w|/root/|/Users/\w|/tmp/\w|[A-Z]:\\\\?Users)")


@dataclass(frozen=True)
class Secret:
    """One line that students must not receive."""

    assignment: str
    cell: str
    kind: Kind
    line: str


@dataclass(frozen=True)
class Leak:
    """Something in a released file that must not be there."""

    file: str
    what: str

    def __str__(self) -> str:
        return f"{self.file}: {self.what}"


def secrets(course: Course) -> list[Secret]:
    """The distinctive lines of all assignments that are in source/."""
    found: list[Secret] = []
    cells = {
        one.id: source_cells(read_source(path))
        for one in course.assignments
        if (path := source_folder(course, one.id) / one.notebook).is_file()
    }
    given = {name: _given(course, name) for name in cells}
    everywhere = {line for name, each in cells.items() for line in (*_public(each), *given[name])}
    for name, each in cells.items():
        found += [*notebook_secrets(name, each, given[name]), *whole_files(name, each, everywhere)]
    return found


def _public(cells: list[Cell]) -> list[str]:
    """What students read in a notebook, line by line."""
    return [_plain(line) for cell in cells for line in released_source(cell).split("\n")]


def _given(course: Course, name: str) -> set[str]:
    """The lines of the files that students get beside the notebook, such as a script to mend."""
    files = (source_folder(course, name) / file for file in course.assignment(name).data)
    return {_plain(line) for path in files if path.is_file() for line in _readable(path).split("\n")}


def whole_files(assignment: str, cells: list[Cell], public: Collection[str]) -> list[Secret]:
    """The lines of the scripts that source-only cells write, but those that some release gives on purpose:
    a whole script is also made of what earlier exercises hand out.
    """
    found: dict[str, Secret] = {}
    for cell in cells:
        if cell.role != "source" or not (written_file(cell.source) or "").endswith(".py"):
            continue
        for plain in map(_plain, file_body(cell.source).split("\n")):
            read = any(plain in one for one in public)
            if len(plain) >= SHORTEST_CODE and plain[0] != "#" and not read:
                found.setdefault(plain, Secret(assignment, cell.id, "solution", plain))
    return list(found.values())


def notebook_secrets(assignment: str, cells: list[Cell], given: Iterable[str] = ()) -> list[Secret]:
    """The distinctive lines of one source notebook. `given`: lines that students read beside it."""
    public = [*_public(cells), *given]
    found: dict[str, Secret] = {}
    for cell in cells:
        pasted = _pasted(cell, public)
        for kind, line in _hidden_lines(cell):
            plain = _plain(line)
            if len(plain) < (SHORTEST_CODE if cell.kind == "code" else SHORTEST_PROSE) or plain[0] == "#":
                continue
            if plain in pasted or not any(plain in one for one in public):
                found.setdefault(plain, Secret(assignment, cell.id, kind, plain))
    return list(found.values())


def _pasted(cell: Cell, public: list[str]) -> set[str]:
    """The solution's lines of which two in a row stand in a row in what students read: no lesson, a copy."""
    solution = [plain for kind, line in _hidden_lines(cell) if kind == "solution" and (plain := _plain(line))]
    read = {*itertools.pairwise(plain for plain in public if plain)}
    return {line for pair in itertools.pairwise(solution) if pair in read for line in pair}


def _hidden_lines(cell: Cell) -> Iterator[tuple[Kind, str]]:
    inside: Kind | None = None
    for line in cell.source.split("\n"):
        opened = next((kind for name, kind in _REGIONS.items() if f"BEGIN {name}" in line), None)
        if opened or any(f"END {name}" in line for name in _REGIONS):
            inside = opened
        elif inside:
            yield inside, line
    # A solution cell without a region is a solution from its first line to its last.
    if cell.role in ("answer", "file", "written") and "BEGIN SOLUTION" not in cell.source:
        for line in cut(cell.source, "MARK SCHEME").split("\n"):
            yield "solution", line


def _plain(line: str) -> str:
    """A line without what does not change its meaning: spaces, quotes' kind, a comment after code."""
    code = re.sub(r"\s+#.*$", "", line.strip())
    return re.sub(r"\s+", "", code).replace('"', "'")


def scan(course: Course, folder: Path, known: Iterable[Secret] | None = None) -> list[Leak]:
    """Everything wrong in a folder of releases (`folder`/<assignment>/…), file by file."""
    looked_for = secrets(course) if known is None else list(known)
    leaks: list[Leak] = []
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        name = path.relative_to(folder)
        text = _readable(path)
        found = list(_leaks_in(text, name.parts[0], looked_for, str(course.root)))
        if path.suffix == ".ipynb":
            found += _outputs(path)
        leaks += [Leak(name.as_posix(), what) for what in found]
    return leaks


def _leaks_in(text: str, owner: str, looked_for: Iterable[Secret], root: str) -> Iterator[str]:
    for marker in MARKERS:
        if marker in text.upper():
            yield f"the marker {marker!r} is still there"
    if len(root) > 3 and root in text:
        yield f"a path of this machine is there ({root})"
    if found := _MACHINE.search(text):
        yield f"a path of some machine is there ({found.group(0)}…)"
    lines = [_plain(line) for line in text.split("\n")]
    for secret in looked_for:
        if secret.kind != "solution" and secret.assignment != owner:
            continue
        if any(secret.line in line for line in lines):
            yield f"gives away a {secret.kind} line of {secret.assignment}, cell {secret.cell}: {secret.line}"


def _readable(path: Path) -> str:
    data = path.read_text(encoding="utf-8", errors="replace")
    if path.suffix != ".ipynb":
        return data
    return "\n".join(_strings(json.loads(data)))


def _strings(value: Any) -> Iterator[str]:
    """All text of a notebook, its cells' lines joined, wherever it stands: metadata too."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list) and value and all(isinstance(item, str) for item in value):
        yield "".join(value)
    elif isinstance(value, list):
        for item in value:
            yield from _strings(item)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _strings(key)
            yield from _strings(item)


def _outputs(path: Path) -> Iterator[str]:
    for cell in json.loads(path.read_bytes())["cells"]:
        if cell.get("outputs") or cell.get("execution_count") is not None:
            yield f"cell {cell.get('id')} carries outputs"
