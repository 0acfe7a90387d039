"""A very small course, for the tests of what is done with any course."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nbformat

from autograder.notebook.tidy import tidied

COURSE = """\
course: {id: petit, title: Un petit cours, language: fr, timezone: Europe/Paris, hours: 2}
session:
  title: Séance
  teacher: A. Personne
  start: 2031-03-27T13:00
  duration: PT4H
  organisation: URCA
  campus: Reims
  building: bâtiment 1
  room: salle 1
  modes: [présentiel]
launch: {nproc: 2, backend: gloo, time_limit_s: 60, copy_limit_s: 600, output_limit_kib: 256}
late: {policy: none}
assignments:
  - {id: ex1, title: Un, points: {auto: 3, manual: 2}, release: -P21D, due: -PT1H, files: [labo.py]}
  - {id: ex2, title: Deux, points: {auto: 1}, release: -P21D, due: P14D, files: [mot.md], data: [lignes.txt]}
"""

LABO = """\
%%writefile labo.py
import os
### BEGIN SOLUTION
rang_lu = int(os.environ["RANK"])  # the lesson
### END SOLUTION
print("rang", rang_lu)"""

TEST = """\
from autograder import launch, marks
run = launch("labo.py")
m = marks(3, run)
m.text("rang 0", rank=0, points=3)
### BEGIN HIDDEN TESTS
m.collective("reduce_scatter_tensor")
### END HIDDEN TESTS
m.total()"""

WRITTEN = """\
Pourquoi un processus par GPU ?

=== BEGIN MARK SCHEME ===
Deux points pour l'usage exclusif que demande NCCL.
=== END MARK SCHEME ==="""

SECOND_ANSWER = """\
# Définissez moyenne_attendue.
### BEGIN SOLUTION
moyenne_attendue = sum(LIGNES) / len(LIGNES)
### END SOLUTION"""

SECOND_TEST = """\
from autograder import marks
m = marks(1)
m.answer("moyenne_attendue", moyenne_attendue, ok=moyenne_attendue == 3, points=1)
m.total()"""


def cell(kind: str, ident: str, source: str, **role: Any) -> Any:
    """A notebook cell; `role` is its nbgrader metadata."""
    made = getattr(nbformat.v4, f"new_{kind}_cell")(source, id=ident)
    if role:
        base = {"grade_id": ident, "grade": False, "solution": False, "locked": False, "schema_version": 3}
        made.metadata["nbgrader"] = base | {"task": False} | role
    return made


def first_cells() -> list[Any]:
    """An exercise with all that an exercise has."""
    return [
        cell("markdown", "ex1-titre", "# Premier exercice"),
        cell("code", "ex1-labo", LABO, solution=True),
        cell("code", "ex1-test", TEST, grade=True, locked=True, points=3),
        cell("markdown", "ex1-question", "Pourquoi un processus par GPU ?", locked=True),
        cell("markdown", "ex1-reponse", WRITTEN, grade=True, solution=True, points=2),
    ]


def second_cells() -> list[Any]:
    """An exercise on one plain answer."""
    return [
        cell("code", "ex2-reponse", SECOND_ANSWER, solution=True),
        cell("code", "ex2-test", SECOND_TEST, grade=True, locked=True, points=1),
    ]


def write_notebook(path: Path, cells: list[Any]) -> None:
    """Store these cells as source/ stores a notebook."""
    path.parent.mkdir(parents=True, exist_ok=True)
    notebook = nbformat.v4.new_notebook(cells=cells)
    path.write_bytes(tidied(nbformat.writes(notebook).encode()))


def write_course(root: Path) -> Path:
    """The whole small course in folder `root`."""
    root.mkdir(parents=True, exist_ok=True)
    (root / "course.yaml").write_text(COURSE, encoding="utf-8")
    write_notebook(root / "source" / "ex1" / "ex1.ipynb", first_cells())
    write_notebook(root / "source" / "ex2" / "ex2.ipynb", second_cells())
    (root / "source" / "ex2" / "lignes.txt").write_text("1 3\n5 7\n")
    return root
