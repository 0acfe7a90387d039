"""docs/new-exercise.md, followed to the letter in a copy of the course: its cells, its entry, its commands.

What it promises is looked at too: the solution's marks, the decoy's, the release, and what grading says.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbformat
import pytest
import yaml

from autograder import course as courses
from autograder.launch import box
from autograder.notebook.variants import solution_files

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "docs" / "new-exercise.md").read_text(encoding="utf-8")
NAME = "ex6-diffusion"
DECOY = Path("tests") / "wrong" / NAME / "printed_by_hand.py"

# The roles of JupyterLab's panel Create Assignment, as nbgrader stores them.
ROLES: dict[str, dict[str, bool]] = {
    "Autograded answer": {"grade": False, "solution": True, "locked": False},
    "Autograder tests": {"grade": True, "solution": False, "locked": True},
    "Manually graded answer": {"grade": True, "solution": True, "locked": False},
    "Read-only": {"grade": False, "solution": False, "locked": True},
}
CELL = re.compile(
    r"^\*\*`(?P<id>[\w-]+)`\*\* · (?P<kind>code|text) cell · (?P<role>[^\n]*)\n\n"
    r"```(?:python|markdown)\n(?P<source>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)

SAVED = {
    "AUTOGRADER_KEY_FILE": str(ROOT / "tests" / "data" / "test.key"),
    "AUTOGRADER_RUNS": str(ROOT / "tests" / "runs"),
}

pytestmark = pytest.mark.timeout(900)   # the first time the page's scripts are launched


def cells() -> list[Any]:
    """The notebook's cells, from the page's blocks."""
    made = []
    for found in CELL.finditer(PAGE):
        new = nbformat.v4.new_code_cell if found["kind"] == "code" else nbformat.v4.new_markdown_cell
        cell = new(found["source"].rstrip("\n"), id=found["id"])
        if tag := re.search(r"its tag `(\w+)`", found["role"]):
            cell.metadata["tags"] = [tag[1]]
        role = re.match(r"\*(.+?)\*", found["role"])
        if role is not None:
            points = re.search(r"(\d+) points", found["role"])
            cell.metadata["nbgrader"] = {
                "schema_version": 3, "task": False, "grade_id": found["id"], **ROLES[role[1]],
                **({"points": int(points[1])} if points else {}),
            }  # fmt: skip
        made.append(cell)
    return made


def section(number: int) -> str:
    found = re.search(rf"^## {number}\. .*?(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
    assert found is not None, number
    return found.group()


def block(text: str, language: str) -> str:
    found = re.search(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert found is not None, language
    return found[1]


def commands(number: int) -> list[str]:
    text = section(number)
    return [line[2:] for line in text.splitlines() if line.startswith("$ ")]


@dataclass(frozen=True)
class Done:
    root: Path

    def typed(self, command: str, codes: tuple[int, ...] = (0,)) -> str:
        program, *rest = command.split()
        if rest[0] == "grade" and box.why_not() is not None:
            rest.append("--no-sandbox")
        run = [sys.executable, *(["-m", "autograder.cli"] if program == "autograder" else []), *rest]
        answer = subprocess.run(
            run, cwd=self.root, stdin=subprocess.DEVNULL, capture_output=True, text=True, encoding="utf-8",
            env={**os.environ, **SAVED, "PYTHONPATH": str(ROOT), "PYTHONUTF8": "1", "COLUMNS": "140"},
            timeout=800,
        )  # fmt: skip
        said = answer.stdout + answer.stderr
        assert answer.returncode in codes and "Traceback" not in said, f"{command}\n{said}"
        return said

    def hand_in(self, student: str, labo: str) -> None:
        """The released notebook with this labo.py and a written answer."""
        released = self.root / "release" / NAME / f"{NAME}.ipynb"
        notebook = nbformat.read(released, as_version=4)
        for cell in notebook.cells:
            if cell.id == "ex6-labo":
                cell.source = f"%%writefile labo.py\n{labo.rstrip()}"
            if cell.id == "ex6-reponse":
                cell.source = "C'est un appel que tous les rangs font ensemble."
        folder = self.root / "submitted" / student / NAME
        folder.mkdir(parents=True)
        nbformat.write(notebook, folder / f"{NAME}.ipynb")
        (folder / "labo.py").write_text(labo, encoding="utf-8")


@pytest.fixture(scope="module")
def followed(tmp_path_factory: pytest.TempPathFactory) -> Done:
    """A copy of the course, once steps 2 and 3 are done."""
    root = tmp_path_factory.mktemp("docs") / "course"
    root.mkdir()
    shutil.copy(ROOT / "nbgrader_config.py", root)
    for side in ("source", "release"):
        shutil.copytree(ROOT / side / "ex1-rang", root / side / "ex1-rang")
    text = (ROOT / "course.yaml").read_text(encoding="utf-8")
    text = re.sub(r"(?m)^  start: \S+", "  start: 2099-01-08T13:00", text)
    text = text[: text.index("  - id: ex2-moyenne")] + block(section(2), "yaml")
    (root / "course.yaml").write_text(text, encoding="utf-8")
    notebook = root / "source" / NAME / f"{NAME}.ipynb"
    notebook.parent.mkdir()
    nbformat.write(nbformat.v4.new_notebook(cells=cells()), notebook)
    done = Done(root)
    for command in commands(3):
        done.typed(command)
    decoy = root / DECOY
    decoy.parent.mkdir(parents=True)
    decoy.write_text(block(section(5), "python"), encoding="utf-8")
    return done


def test_every_block_of_the_page_is_followed() -> None:
    """No cell, entry or command of it that this file would not look at."""
    assert len(cells()) == len(re.findall(r"^\*\*`ex6-", PAGE, re.MULTILINE)) == 7
    told = [line[2:] for line in PAGE.splitlines() if line.startswith("$ ")]
    assert told == [command for number in range(3, 8) for command in commands(number)]
    assert str(DECOY.as_posix()) in PAGE


def test_the_entry_s_points_are_the_cells(followed: Done) -> None:
    points = courses.load(followed.root).assignment(NAME).points
    graded = [cell.metadata["nbgrader"] for cell in cells() if "points" in cell.metadata.get("nbgrader", {})]
    for locked, total in ((True, points.auto), (False, points.manual)):
        assert sum(one["points"] for one in graded if one["locked"] is locked) == total


def test_the_solution_gets_full_marks(followed: Done) -> None:
    (command,) = commands(4)
    assert "6 / 6" in followed.typed(command)
    assert not (followed.root / "source" / NAME / "labo.py").exists()


def test_the_decoy_gets_what_the_page_says(followed: Done) -> None:
    (command,) = commands(5)
    wanted = yaml.safe_load(block(section(5), "yaml"))["scripts"][DECOY.name]
    assert wanted["points"] == 0
    said = followed.typed(command, codes=(1,))
    assert "0 / 6" in said
    told = json.loads(followed.typed(f"{command} --json", codes=(1,)))
    assert told["score"] == wanted["points"] and told["flags"] == wanted["flags"]
    assert told["diagnosis"]["id"] == wanted["diagnosis"]


def test_it_is_released_and_graded_as_the_page_says(followed: Done) -> None:
    for command in commands(6):
        said = followed.typed(command)
        assert f"release/{NAME}/" in said
    notebook = followed.root / "source" / NAME / f"{NAME}.ipynb"
    right = solution_files(nbformat.read(notebook, as_version=4))["labo.py"]
    released = (followed.root / "release" / NAME / f"{NAME}.ipynb").read_text(encoding="utf-8")
    assert "dist.broadcast(reglages" not in released and "BEGIN" not in released
    followed.hand_in("marie.curie", right)
    followed.hand_in("jean.petit", (followed.root / DECOY).read_text(encoding="utf-8"))
    (command,) = commands(7)
    said = followed.typed(command)
    (marie,) = [line for line in said.splitlines() if line.startswith("│ marie.curie")]
    (jean,) = [line for line in said.splitlines() if line.startswith("│ jean.petit")]
    assert "6 / 6" in marie and "0 / 6" in jean
    assert "hard-coded" in said and f"{NAME} (2)" in said
