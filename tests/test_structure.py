"""The package keeps its shape: imports run downwards only, and a module stays short enough to be read."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import autograder

PACKAGE = Path(autograder.__file__).parent
MODULES = sorted(PACKAGE.rglob("*.py"))
MOST_LINES = 320

# cli → batch, report, notebook → verdict → launch → course, messages.
FLOORS = (
    {"cli"},
    {"commands", "doctor"},
    {"batch", "report", "notebook"},
    {"verdict"},
    {"launch"},
    {"course", "course_model", "dates", "files", "leftovers", "messages", "yamlfile"},
)
# Beside each other on one floor: a batch grades notebooks, a notebook shows what its check found.
SIDEWAYS = {("commands", "doctor"), ("batch", "notebook"), ("notebook", "report")}


def place(path: Path) -> str:
    """The part of the package that a module belongs to: "launch", "course"; "" for the package itself."""
    first = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
    return "" if first == "__init__" else first


def floor(part: str) -> int:
    return next(len(FLOORS) - n for n, parts in enumerate(FLOORS) if part in parts)


def may_import(part: str, other: str) -> bool:
    if part == other or (part, other) in SIDEWAYS:
        return True
    return floor(other) < floor(part) or floor(other) == 1  # the ground floor holds small modules


def imported(tree: ast.AST) -> Iterator[str]:
    """The parts of the package that this code imports, wherever it does; not what it names for types only."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            continue
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [one.name for one in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [f"{node.module}.{one.name}" for one in node.names]
            assert not node.level, "a relative import"
        parts = [name.split(".")[1] for name in names if name.startswith("autograder.")]
        yield from (part for part in parts if not part.startswith("__"))
        yield from imported(node)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.relative_to(PACKAGE).as_posix())
def test_imports_run_downwards_only(path: Path) -> None:
    part = place(path)
    if not part:
        return  # it names every floor, and loads none
    others = set(imported(ast.parse(path.read_text(encoding="utf-8"))))
    wrong = [other for other in sorted(others) if not may_import(part, other)]
    assert not wrong, f"{part} imports {', '.join(wrong)}"


def test_a_forbidden_import_is_seen() -> None:
    code = "if TYPE_CHECKING:\n    import autograder.cli\ndef f():\n    from autograder import batch"
    assert list(imported(ast.parse(code))) == ["batch"]
    for part, other in (("cli", "batch"), ("course", "dates"), ("batch", "notebook"), ("doctor", "launch")):
        assert may_import(part, other)
    for part, other in (("launch", "verdict"), ("course", "launch"), ("notebook", "batch"), ("batch", "cli")):
        assert not may_import(part, other)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.relative_to(PACKAGE).as_posix())
def test_a_module_stays_short(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= MOST_LINES
