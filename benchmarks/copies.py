"""Courses, and right copies to be graded: each is another file, so that no launch serves for several."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
for place in ("tests", "examples"):
    sys.path.insert(0, str(ROOT / place))


def make(root: Path, count: int, assignments: list[str]) -> Any:
    """A course in `root` with these assignments of this repository, and `count` students' right copies."""
    import make_class

    from autograder import course as courses

    for name in ("course.yaml", "nbgrader_config.py"):
        shutil.copy(ROOT / name, root / name)
    for side in ("source", "release"):
        for assignment in assignments:
            shutil.copytree(ROOT / side / assignment, root / side / assignment)
    course = courses.load(root)
    for number in range(count):
        for assignment in assignments:
            folder = root / "submitted" / student(number) / assignment
            folder.mkdir(parents=True)
            make_class._write_copy(course, course.assignment(assignment), ROOT, {}, folder)
            for path in folder.iterdir():
                mark(path, f"# copie {number}\n")
    return course


def small(root: Path, count: int) -> Any:
    """The same with a small assignment whose tests launch nothing, for what is not to cost a launch."""
    import tiny_course

    course = tiny_course.make_course(root)
    for number in range(count):
        labo, written = f"print(42)  # copie {number}", f"Non, {number}."
        tiny_course.hand_in(root, student(number), tiny_course.copy_notebook(labo=labo, written=written))
    return course


def student(number: int) -> str:
    return f"e{number:06}"


def mark(path: Path, line: str) -> None:
    """Add the line where a script stands: in its file, and in the cell that writes it."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        path.write_text(text.rstrip("\n") + f"\n{line}", encoding="utf-8")
    elif path.suffix == ".ipynb":
        book = json.loads(text)
        for cell in book["cells"]:
            if "".join(cell["source"]).startswith("%%writefile"):
                cell["source"] = "".join(cell["source"]) + f"\n{line}"
        path.write_text(json.dumps(book), encoding="utf-8")
