"""Write the sample class as real submissions: `python examples/make_class.py OUT [--course ROOT]`.

Each student of examples/class/ is a `copies.yaml` beside the scripts that it names. A copy is the released
notebook with the student's cells filled in, so that it stays a true submission when an exercise changes:

    ex2-moyenne:
      like: not_divided            # a copy of tests/wrong/<assignment>/: its files, its values
      files: {labo.py: ex2_hang.py}  # files beside copies.yaml; those not named are the solution's of source/
      without: [sortie.txt]        # files that were forgotten
      answers: right               # `right` takes the solution's cells; or {grade_id: "source of the cell"}
      values: {somme: [6, 10]}     # the variables in which those answers differ
      written: {ex2-question: "…"} # markdown answers, graded by hand
      hours_late: 5                # default: handed in one day before the due date
      only: [labo.py]              # hand in these files and no notebook
      rename: ex2_moyenne (1).ipynb

An assignment that is not named was not handed in. Needs release/ and source/ of the course.
"""

from __future__ import annotations

import argparse
import copy
import sys
from datetime import UTC, timedelta
from pathlib import Path
from typing import Any

import nbformat
import yaml

from autograder import course as course_module
from autograder.course import Assignment, Course
from autograder.notebook.cells import written_file
from autograder.notebook.variants import solution_files, with_values, without_markers

CLASS = Path(__file__).resolve().parent / "class"
WRONG = CLASS.parent.parent / "tests" / "wrong"


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Write the sample class as real submissions.")
    parser.add_argument("out", type=Path, help="folder that receives submitted/<student>/<assignment>/")
    parser.add_argument("--course", type=Path, default=CLASS.parent.parent, help="the course's root")
    args = parser.parse_args(argv)
    course = course_module.load(args.course)
    students = make_class(course, args.out)
    print(f"{len(students)} students in {args.out / 'submitted'}")
    return 0


def make_class(course: Course, out: Path) -> list[str]:
    """Write every copy of examples/class/ under out/submitted/ and return the students' ids."""
    students = sorted(path.parent.name for path in CLASS.glob("*/copies.yaml"))
    for student in students:
        copies = yaml.safe_load((CLASS / student / "copies.yaml").read_text(encoding="utf-8"))
        for assignment_id, what in copies.items():
            folder = out / "submitted" / student / assignment_id
            folder.mkdir(parents=True, exist_ok=True)
            _write_copy(course, course.assignment(assignment_id), CLASS / student, what or {}, folder)
    return students


def _write_copy(
    course: Course, assignment: Assignment, home: Path, what: dict[str, Any], folder: Path
) -> None:
    source, released = (
        nbformat.read(course.root / side / assignment.id / f"{assignment.id}.ipynb", as_version=4)
        for side in ("source", "release")
    )
    files = {name: text.encode() for name, text in solution_files(source).items()}
    if like := what.get("like"):
        known = yaml.safe_load((WRONG / assignment.id / "expected.yaml").read_text(encoding="utf-8"))
        what = known["copies"][like] | what
        files |= {path.name: path.read_bytes() for path in (WRONG / assignment.id / like).glob("*")}
    files |= {name: (home / path).read_bytes() for name, path in what.get("files", {}).items()}
    late = timedelta(hours=what["hours_late"]) if "hours_late" in what else timedelta(days=-1)
    handed_in = (assignment.due + late).astimezone(UTC)
    (folder / "timestamp.txt").write_text(f"{handed_in:%Y-%m-%d %H:%M:%S} UTC", encoding="utf-8")
    only = what.get("only")
    for name, content in files.items():
        if name not in what.get("without", ()) and (only is None or name in only):
            (folder / name).write_bytes(content)
    if only is None:
        notebook = _filled(released, source, files, what)
        name = what.get("rename", f"{assignment.id}.ipynb")
        (folder / name).write_text(nbformat.writes(notebook) + "\n", encoding="utf-8")


def _filled(released: Any, source: Any, files: dict[str, bytes], what: dict[str, Any]) -> Any:
    notebook = copy.deepcopy(released)
    solutions = {_grade_id(cell): cell.source for cell in source.cells if _grade_id(cell)}
    answers = what.get("answers", "right")
    written = what.get("written", {})
    for cell in notebook.cells:
        name, meta = _grade_id(cell), cell.metadata.get("nbgrader", {})
        if not meta.get("solution"):
            continue
        if file := written_file(cell.source):
            cell.source = f"%%writefile {file}\n" + files[file].decode().rstrip("\n")
        elif cell.cell_type == "markdown":
            cell.source = written.get(name, cell.source)
        elif answers == "right":
            cell.source = with_values(without_markers(solutions[name]), what.get("values", {}))
        elif name in answers:
            cell.source = answers[name]
    return notebook


def _grade_id(cell: Any) -> str:
    return str(cell.metadata.get("nbgrader", {}).get("grade_id", ""))


if __name__ == "__main__":
    sys.exit(main())
