"""What must hold of an assignment's source before it is released, and what running it must show."""

from __future__ import annotations

import ast
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbformat

from autograder.course import Assignment, Course
from autograder.notebook.cells import Cell, CopyError, source_cells, written_file
from autograder.notebook.generate import declared_files, generate, source_folder, write_solution
from autograder.notebook.sources import SourceError, read_source
from autograder.notebook.tidy import tidied

ACCOUNTS = ("marks", "gpu_marks")  # what opens the account of a test cell
# Left behind by editors and file managers; nbgrader does not copy them either.
HARMLESS = (".DS_Store", "Thumbs.db", "desktop.ini")

# Whose copy the solution is proved as: where numbers are drawn, more than one draw.
PROVED_AS: dict[str, tuple[str | None, ...]] = {
    "same": (None,),
    "per-student": ("etudiant-1", "etudiant-2", "etudiant-3"),
}


@dataclass(frozen=True)
class Finding:
    """One reason not to release an assignment: where, what is wrong, and (in the same words) what to mend."""

    assignment: str
    what: str

    def __str__(self) -> str:
        return f"{self.assignment}: {self.what}"


def prove_source(course: Course, name: str) -> list[Finding]:
    """All that can be seen without running anything."""
    one = course.assignment(name)
    folder = source_folder(course, name)
    if not (folder / one.notebook).is_file():
        return [Finding(name, f"there is no {folder / one.notebook}")]
    said = [*_folder(one, folder), *_form(folder / one.notebook)]
    try:
        cells = source_cells(read_source(folder / one.notebook))
    except CopyError as error:
        return [Finding(name, what) for what in said or [str(error)]]
    said += [*_points(one, cells), *_markers(cells)]
    for cell in cells:
        if cell.role == "test":
            said += [f"cell {cell.id} {what}" for what in _test_cell(cell)]
    return [Finding(name, what) for what in said]


def prove_readable(course: Course) -> list[Finding]:
    """Each notebook of source/ can be read: without one of them, no leak can be looked for in any release."""
    findings = []
    for one in course.assignments:
        path = source_folder(course, one.id) / one.notebook
        if path.exists():
            try:
                read_source(path)
            except SourceError as error:
                findings.append(Finding(one.id, str(error)))
    return findings


def prove_ids(course: Course) -> list[Finding]:
    """Grade ids are unique over the whole course: feedback and results name a cell by its id alone."""
    owner: dict[str, str] = {}
    findings = []
    for one in course.assignments:
        for cell in _cells(source_folder(course, one.id) / one.notebook):
            if not cell.graded:
                continue
            if cell.id in owner:
                also = "" if owner[cell.id] == one.id else f", here and in {owner[cell.id]}"
                what = f"grade id {cell.id} stands twice{also}"
                findings.append(Finding(one.id, what))
            owner.setdefault(cell.id, one.id)
    return findings


def prove_by_running(course: Course, name: str) -> list[Finding]:
    """The solution gets full marks on autograded cells; the untouched release gets 0, said clearly, no crash.

    Both are graded as a student's copy is, in folders of their own: nothing is ever run inside source/.
    """
    from autograder.notebook.exam import prepare
    from autograder.notebook.examine import examine

    one = course.assignment(name)
    with tempfile.TemporaryDirectory() as folder:
        solved = write_solution(course, name, Path(folder) / "solution").parent
        untouched = generate(course, name, Path(folder) / "release")[0].parent
        students, exam = PROVED_AS[one.numbers], prepare(name, course)
        findings = [
            f"the solution {'' if student is None else f'of {student} '}{what}"
            for student in students
            for what in _full_marks(examine(solved, name, course, student=student, exam=exam))
        ]
        bare = examine(untouched, name, course, student=students[0], exam=exam)
        findings += [f"the untouched release {what}" for what in _nothing(bare)]
    return [Finding(name, what) for what in findings]


def _cells(path: Path) -> list[Cell]:
    """The notebook's cells; none where it cannot be read, which prove_source tells."""
    try:
        return source_cells(read_source(path))
    except CopyError:
        return []


def _folder(one: Assignment, folder: Path) -> Iterator[str]:
    for path in sorted(folder.rglob("*")):
        inside = path.relative_to(folder)
        if inside.as_posix() in declared_files(one) or path.name in HARMLESS:
            continue
        if path.is_file() or not any(path.iterdir()):
            yield (
                f"{path} is not declared in course.yaml (key data) and may hold a solution: remove it; "
                f"a notebook is never run inside source/"
            )
    for file in one.data:
        if not (folder / file).is_file():
            yield f"{folder / file} is declared in course.yaml (key data) and is not there"


def _form(path: Path) -> Iterator[str]:
    """The file is stored so that a change reads as a change, and carries nothing of its author's machine."""
    data = path.read_bytes()
    try:
        notebook: Any = nbformat.reads(data.decode(), as_version=nbformat.NO_CONVERT)
        nbformat.validate(notebook)
    except (ValueError, nbformat.ValidationError) as error:
        yield f"{path.name} is not a valid notebook: {next(iter(str(error).splitlines()), '')}"
        return
    if data != tidied(data):
        yield (
            f"{path.name} is not stored in the common form (4.5, no outputs, nothing of an editor): "
            f"run `python -m autograder.notebook.tidy {path}`"
        )
    ids = [str(cell.get("id")) for cell in notebook.cells]
    if twice := sorted({one for one in ids if ids.count(one) > 1}):
        yield f"{path.name} has cell ids that stand twice: {', '.join(twice)}"


def _points(one: Assignment, cells: list[Cell]) -> Iterator[str]:
    for what, role, wanted in (("auto", "test", one.points.auto), ("manual", "written", one.points.manual)):
        total = sum(cell.points for cell in cells if cell.role == role)
        if total != wanted:
            yield f"its {role} cells add up to {total:g} points, course.yaml says points.{what}: {wanted}"


def _markers(cells: list[Cell]) -> Iterator[str]:
    for cell in cells:
        for name in ("SOLUTION", "HIDDEN TESTS", "MARK SCHEME"):
            if cell.source.count(f"BEGIN {name}") != cell.source.count(f"END {name}"):
                yield f"cell {cell.id} has a BEGIN {name} without its END, or the reverse"
        if "BEGIN HIDDEN TESTS" in cell.source and cell.role != "test":
            yield f"cell {cell.id} has hidden tests and is not a test cell"
        if cell.role == "source" and not written_file(cell.source):
            yield f"cell {cell.id} is source-only: it must start with %%writefile and a declared file's name"
        if "BEGIN SOLUTION" in cell.source and cell.role not in ("answer", "file", "written"):
            yield f"cell {cell.id} has a solution and is not marked as a solution cell"


def _test_cell(cell: Cell) -> Iterator[str]:
    """A test cell makes its mark with marks(N), N its points, and ends by m.total()."""
    try:
        tree = ast.parse(cell.source)
    except SyntaxError as error:
        yield f"is not plain Python (line {error.lineno}: {error.msg}); a test cell uses no magic"
        return
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    made = [node for node in calls if isinstance(node.func, ast.Name) and node.func.id in ACCOUNTS]
    if not made:
        yield "never calls marks(…)"
    for node in made:  # a second call, in the hidden part, takes the place of the visible one
        given = node.args[0] if node.args else None
        value = given.value if isinstance(given, ast.Constant) else None
        if value != cell.points:
            yield f"calls marks({value!r}) and is worth {cell.points:g} points"
    last = tree.body[-1] if tree.body else None
    if not (
        isinstance(last, ast.Expr)
        and isinstance(last.value, ast.Call)
        and isinstance(last.value.func, ast.Attribute)
        and last.value.func.attr == "total"
    ):
        yield "does not end with m.total(), without which nbgrader gives full marks"


def _full_marks(result: Any) -> Iterator[str]:
    if not result.graded:
        yield f"could not be graded: {result.cause}"
        return
    if result.score != result.max_score:
        yield f"gets {result.score:g} of {result.max_score:g} on autograded cells"
    for test in result.tests:
        if test.status != "passed":
            yield f"{test.status}, cell {test.id}: {test.message}"
    if result.flags:
        yield f"is flagged {', '.join(result.flags)}"


def _nothing(result: Any) -> Iterator[str]:
    if not result.graded:
        yield f"could not be graded: {result.cause}"
        return
    if result.score != 0:
        yield f"gets {result.score:g} of {result.max_score:g}, without a line written"
    for test in result.tests:
        if test.status != "failed":
            yield f"is {test.status} in cell {test.id}"
        elif not test.message:
            yield f"fails cell {test.id} without a word"
