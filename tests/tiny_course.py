"""A course of one small assignment, `mini`, whose tests need no launch: they look at answers and at
labo.py's text.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import nbformat
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from autograder import course as courses

ROOT = Path(__file__).resolve().parent.parent
ASSIGNMENT = "mini"
SECRET = "valeur_que_seul_le_test_connait"

COURSE = """\
course:
  id: petit-cours
  title: Un petit cours
  language: fr
  timezone: Europe/Paris
  hours: 1
session:
  title: Une séance
  teacher: A. Nonyme
  start: 2031-02-03T13:00
  duration: PT1H
  organisation: URCA
  campus: ici
  building: un
  room: deux
  modes: [présentiel]
launch: {nproc: 2, backend: gloo, time_limit_s: 20, copy_limit_s: 60, output_limit_kib: 64}
late: {policy: LATE, per_day_percent: 10, grace: PT15M}
assignments:
  - {id: mini, title: Petit, points: {auto: 6, manual: 4}, release: -P2D, due: PT1H, files: [labo.py],
     data: [DATA]}
"""

ANSWER = "# Définissez moyenne et unite.\n### BEGIN SOLUTION\nmoyenne = 3.0\nunite = 'ms'\n### END SOLUTION"
LABO = "%%writefile labo.py\nimport sys\n### BEGIN SOLUTION\nprint(42)\n### END SOLUTION"
TEST_ANSWER = f"""\
from autograder import close, marks
m = marks(4)
m.answer("moyenne", moyenne, ok=close(moyenne, 3.0), points=2)
### BEGIN HIDDEN TESTS
{SECRET} = "ms"
m.answer("unite", unite, ok=unite == {SECRET}, points=2)
### END HIDDEN TESTS
m.total()"""
TEST_LABO = """\
from pathlib import Path
from autograder import marks
script = Path("labo.py").read_text() if Path("labo.py").exists() else ""
m = marks(2)
m.check("print(42)" in script, "labo.py n'affiche pas 42.", points=2)
m.total()"""
SCHEME = "=== BEGIN MARK SCHEME ===\nbarème caché\n=== END MARK SCHEME ==="
WRITTEN = f"### BEGIN SOLUTION\nune réponse\n### END SOLUTION\n{SCHEME}"


def meta(grade_id: str, **more: Any) -> dict[str, Any]:
    flags = {"grade": False, "solution": False, "locked": False, "task": False, "schema_version": 3}
    return {"nbgrader": flags | {"grade_id": grade_id} | more}


def source_notebook() -> nbformat.NotebookNode:
    test = {"grade": True, "locked": True}
    cells = [
        new_markdown_cell("# La leçon", id="lecon"),
        new_code_cell(ANSWER, id="mini-reponse", metadata=meta("mini-reponse", solution=True)),
        new_code_cell(
            TEST_ANSWER, id="mini-test-reponse", metadata=meta("mini-test-reponse", points=4, **test)
        ),
        new_code_cell(LABO, id="mini-labo", metadata=meta("mini-labo", solution=True)),
        new_code_cell("!torchrun --nproc_per_node=2 labo.py", id="lancer", metadata={"tags": ["show"]}),
        new_code_cell(TEST_LABO, id="mini-test-labo", metadata=meta("mini-test-labo", points=2, **test)),
        new_markdown_cell(
            WRITTEN, id="mini-ecrit", metadata=meta("mini-ecrit", grade=True, solution=True, points=4)
        ),
    ]
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return new_notebook(cells=cells, metadata={"kernelspec": kernel})


def make_course(root: Path, late: str = "none") -> courses.Course:
    """Write the course in `root` and load it."""
    root.mkdir(parents=True, exist_ok=True)
    yaml = COURSE.replace("LATE", late).replace("[DATA]", "[table.csv]")
    (root / "course.yaml").write_text(yaml, encoding="utf-8")
    shutil.copyfile(ROOT / "nbgrader_config.py", root / "nbgrader_config.py")
    folder = root / "source" / ASSIGNMENT
    folder.mkdir(parents=True, exist_ok=True)
    nbformat.write(source_notebook(), folder / "mini.ipynb")
    (folder / "table.csv").write_text("a,b\n1,2\n", encoding="utf-8")
    return courses.load(root)


def copy_notebook(
    answer: str = "moyenne = 3.0\nunite = 'ms'", labo: str = "print(42)", written: str = ""
) -> Any:
    """What a student hands in: the released notebook with these answers."""
    from autograder.notebook.repair import skeleton, untouched

    notebook = untouched(skeleton(source_notebook()))
    cells = {cell.id: cell for cell in notebook.cells}
    cells["mini-reponse"].source = answer
    cells["mini-labo"].source = f"%%writefile labo.py\nimport sys\n{labo}"
    if written:
        cells["mini-ecrit"].source = written
    return notebook


def hand_in(root: Path, student: str, notebook: Any = None, **files: str | bytes) -> Path:
    """Fill submitted/<student>/mini/; `files` are named with _ for the dot of the extension."""
    folder = root / "submitted" / student / ASSIGNMENT
    folder.mkdir(parents=True, exist_ok=True)
    if notebook is not None:
        (folder / "mini.ipynb").write_text(json.dumps(notebook), encoding="utf-8")
    for name, content in files.items():
        data = content.encode() if isinstance(content, str) else content
        (folder / name.replace("_", ".")).write_bytes(data)
    return folder
