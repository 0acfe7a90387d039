"""Every command of the README is typed here as it stands there, in a copy of the course, and ends as it says.

Fast settings: two assignments, a session far away, and saved Runs. What is not executed as it stands is in
`NOT_AS_IT_STANDS`, with the reason and with what is checked instead.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from autograder.launch import box

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
PYTHON = sys.executable

NOT_AS_IT_STANDS = {
    "make": "each target would set up a virtual environment or run this very suite: `make -n` proves that "
    "the target exists and that its recipe can be laid out",
    "jupyter": "a server that never ends: its version is asked",
    "torchrun": "as `python -m torch.distributed.run`, on a port that is free here: 29531 may be taken",
    "source": "a shell's own command: the environment's place is compared with the Makefile's",
}


def blocks(text: str) -> list[tuple[str, list[str]]]:
    """(heading, commands) of each section: the lines after "$ " in its console blocks."""
    found = []
    for section in re.split(r"^## ", text, flags=re.MULTILINE):
        consoles = re.findall(r"^```console\n(.*?)^```", section, flags=re.MULTILINE | re.DOTALL)
        commands = [line[2:] for block in consoles for line in block.splitlines() if line.startswith("$ ")]
        found.append((section.splitlines()[0].strip(), commands))
    return found


SECTIONS = dict(blocks(README))


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def typed(command: str, cwd: Path, codes: tuple[int, ...] = (0,)) -> str:
    """Run one command of the README in `cwd`; its output, once its exit code is one of `codes`."""
    program, *rest = shlex.split(command)
    if rest[:1] == ["grade"] and box.why_not() is not None:
        rest.append("--no-sandbox")   # as the page says, where no sandbox can be made
    prefix: dict[str, Callable[[], list[str]]] = {
        "autograder": lambda: [PYTHON, "-m", "autograder.cli", *rest],
        "nbgrader": lambda: [PYTHON, "-m", "nbgrader", *rest],
        "jupyter": lambda: [PYTHON, "-m", "jupyter", *rest, "--version"],
        "torchrun": lambda: [
            PYTHON, "-m", "torch.distributed.run",
            *(f"--master_port={free_port()}" if word.startswith("--master_port") else word for word in rest),
        ],
        "make": lambda: ["make", "-n", *rest],
    }  # fmt: skip
    env = {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "200", "OMP_NUM_THREADS": "1"}
    # nbgrader's database migrations look for `alembic` on PATH.
    env["PATH"] = os.pathsep.join([str(Path(PYTHON).parent), env.get("PATH", "")])
    answer = subprocess.run(
        prefix[program](), cwd=cwd, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True,
        encoding="utf-8", timeout=280,
    )  # fmt: skip
    said = answer.stdout + answer.stderr
    assert answer.returncode in codes, f"{command}\n{said}"
    assert "Traceback (most recent call last)" not in said, f"{command}\n{said}"
    return said


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The course with two of its assignments and a session to come."""
    root = tmp_path_factory.mktemp("course") / "repository"
    root.mkdir()
    for name in ("nbgrader_config.py", "pyproject.toml", "README.md", "LICENSE", "Makefile"):
        shutil.copy(ROOT / name, root / name)
    for name in ("autograder", "examples"):
        shutil.copytree(ROOT / name, root / name, ignore=shutil.ignore_patterns("__pycache__"))
    for side in ("source", "release"):
        for assignment in ("ex1-rang", "ex2-moyenne"):
            shutil.copytree(ROOT / side / assignment, root / side / assignment)
    text = (ROOT / "course.yaml").read_text(encoding="utf-8")
    text = re.sub(r"(?m)^  start: \S+", "  start: 2099-01-08T13:00", text)
    text = text[: text.index("  - id: ex3-ddp")]
    (root / "course.yaml").write_text(text, encoding="utf-8")
    return root


@pytest.fixture(scope="module")
def right_copy(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A right submission of ex1-rang: the released notebook with the solution's answers."""
    monkeypatch = pytest.MonkeyPatch()
    monkeypatch.syspath_prepend(str(ROOT / "examples"))
    import make_class

    from autograder.course import load

    course = load(repository)
    folder = tmp_path_factory.mktemp("right") / "ex1-rang"
    folder.mkdir()
    make_class._write_copy(course, course.assignment("ex1-rang"), ROOT, {}, folder)
    monkeypatch.undo()
    return folder


def test_every_command_is_known_to_this_file() -> None:
    executed = {"autograder", "nbgrader"}
    for _, commands in SECTIONS.items():
        for command in commands:
            assert command.split()[0] in executed | set(NOT_AS_IT_STANDS), command
    assert sum(map(len, SECTIONS.values())) > 20


def test_the_first_screen_and_how_to_change_it() -> None:
    heads = [head for head in SECTIONS if head.startswith("# ")] + ["How to change it"]
    for command in [command for head in heads for command in SECTIONS[head]]:
        if shutil.which("make") is None:
            pytest.skip("no make on this system")
        typed(command, ROOT)


@pytest.mark.timeout(600)
def test_a_student_s_day(repository: Path, right_copy: Path, tmp_path: Path) -> None:
    # What the bundle unzips to: course.yaml, and the assignments beside it.
    desk = tmp_path / "cours"
    shutil.copytree(repository / "release", desk)
    shutil.copy(repository / "course.yaml", desk)
    shutil.copytree(right_copy, desk / "ex1-rang", dirs_exist_ok=True)
    said = {}
    for command in SECTIONS["Étudiant·e"]:
        where = desk / "ex1-rang" if command.startswith("torchrun") else desk
        if "VOTRE_IDENTIFIANT" in command:   # refused as it stands: it is to be replaced
            assert "à remplacer" in typed(command, where, codes=(2,))
            command = command.replace("VOTRE_IDENTIFIANT", "marie.curie")
        said[command] = typed(command, where)
    # Some tests are hidden ones only; what is left is all right.
    assert "Tout est réussi" in said["autograder check ex1-rang"]
    assert "Réponse non évaluée" in said["autograder check ex1-rang ex1-rang/labo.py"]
    assert "WORLD_SIZE=2" in said["autograder run ex1-rang/labo.py"]
    assert (desk / "ex1-rang-marie.curie.zip").is_file()


@pytest.mark.timeout(600)
def test_a_grader_s_day(repository: Path, right_copy: Path, tmp_path: Path) -> None:
    course = tmp_path / "course"
    shutil.copytree(repository, course, ignore=shutil.ignore_patterns("examples", "autograder"))
    with zipfile.ZipFile(course / "inbox.zip", "w") as inbox:
        for path in sorted(right_copy.iterdir()):
            inbox.write(path, f"marie.curie/ex1-rang/{path.name}")
    said = {}
    for command in SECTIONS["Grader"]:
        if command.startswith("source "):
            makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
            assert "VENV := .venv" in makefile and command.endswith(".venv/bin/activate")
            continue
        # The second grading names a student for every assignment: one of them was never handed in.
        said[command] = typed(command, course, (0, 3) if "--student" in command else (0,))
    assert "16 / 16" in said["autograder grade ex1-rang"]
    assert (course / "submitted" / "marie.curie" / "ex1-rang" / "labo.py").is_file()
    assert list((course / "feedback" / "marie.curie" / "ex1-rang").glob("*.html"))
    assert "marie.curie" in (course / "report" / "classe.html").read_text(encoding="utf-8")
    assert "marie.curie" in (course / "export" / "marks.csv").read_text(encoding="utf-8")
    assert (course / ".autograder" / "results" / "ex1-rang" / "marie.curie.json").is_file()


@pytest.mark.timeout(600)
def test_an_instructor_s_day(repository: Path, tmp_path: Path) -> None:
    course = tmp_path / "course"
    # One assignment: each of these commands proves all that there are.
    shutil.copytree(repository, course, ignore=shutil.ignore_patterns("examples", "ex1-rang"))
    text = (course / "course.yaml").read_text(encoding="utf-8")
    first, second = text.index("  - id: ex1-rang"), text.index("  - id: ex2-moyenne")
    (course / "course.yaml").write_text(text[:first] + text[second:], encoding="utf-8")
    before = sorted(path.name for path in (course / "source").rglob("*"))
    for command in SECTIONS["Instructor"]:
        typed(command, course)
    assert sorted(path.name for path in (course / "source").rglob("*")) == before
    with zipfile.ZipFile(course / "cours.zip") as bundle:
        names = bundle.namelist()
    assert "LISEZMOI.md" in names and any(name.endswith(".whl") for name in names)
    assert not any("source" in name for name in names)


def test_no_date_stands_in_it_and_no_link_is_broken() -> None:
    assert not re.search(r"\b(19|20|21)\d\d\b", README)
    for target in re.findall(r"\]\((?!https?:)([^)#]+)\)", README):
        assert (ROOT / target).exists(), target
    for name in re.findall(r"`((?:autograder|tests|examples|source|release)/[\w./-]*)`", README):
        assert (ROOT / name).exists(), name


def test_it_says_that_the_repository_stays_private() -> None:
    first = README.split("\n## ")[0]
    assert "stays private" in first and "release/" in first and "--bundle" in first
