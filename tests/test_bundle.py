"""The zip that students get: complete, the same bytes each time, and nothing in it that is not theirs."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import zipfile
from io import BytesIO
from pathlib import Path

import pytest
import release_course as tiny

from autograder.course import Course, course_key, load
from autograder.messages import french_hour, french_moment, french_span
from autograder.notebook.bundle import (
    BUILT_FROM,
    PACKAGE,
    BundleError,
    build_wheel,
    bundle,
    readme,
)
from autograder.notebook.release import generate

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def course(tmp_path_factory: pytest.TempPathFactory) -> Course:
    """The small course, released, with this very package beside it."""
    root = tiny.write_course(tmp_path_factory.mktemp("cours") / "élève n°1 (copie)")
    for name in BUILT_FROM:
        given = ROOT / name
        (root / name).write_bytes(given.read_bytes() if given.exists() else b"")
    shutil.copytree(ROOT / PACKAGE, root / PACKAGE, ignore=shutil.ignore_patterns("__pycache__"))
    (root / "tests").mkdir()
    (root / "tests" / "test_secret.py").write_text("# not for students\n")
    course = load(root)
    course_key(root)
    for name in ("ex1", "ex2"):
        generate(course, name, root / "release")
    return course


@pytest.fixture(scope="module")
def made(course: Course, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("out") / "petit.zip"
    bundle(course, out)
    return out


def inner_wheel(path: Path) -> zipfile.ZipFile:
    with zipfile.ZipFile(path) as archive:
        name = next(name for name in archive.namelist() if name.endswith(".whl"))
        return zipfile.ZipFile(BytesIO(archive.read(name)))


def test_the_bundle_holds_what_a_student_needs(course: Course, made: Path) -> None:
    with zipfile.ZipFile(made) as archive:
        names = archive.namelist()
        assert archive.read("course.yaml") == course.path.read_bytes()
        released = course.root / "release" / "ex1" / "ex1.ipynb"
        assert archive.read("ex1/ex1.ipynb") == released.read_bytes()
    wheel = next(name for name in names if name.endswith(".whl"))
    expected = ["LISEZMOI.md", "course.yaml", "ex1/ex1.ipynb", "ex2/ex2.ipynb", "ex2/lignes.txt", wheel]
    assert sorted(names) == sorted(expected)
    assert re.fullmatch(r"autograder-[\d.]+-py3-none-any\.whl", wheel)


def test_the_wheel_holds_the_package_and_nothing_else(course: Course, made: Path) -> None:
    wheel = inner_wheel(made)
    names = wheel.namelist()
    assert all(re.match(r"autograder(-[\d.]+\.dist-info)?/", name) for name in names)
    wanted = {
        path.relative_to(course.root).as_posix()
        for path in (course.root / PACKAGE).rglob("*")
        if path.suffix in (".py", ".toml", ".md")
    }
    assert wanted <= set(names)
    key = course_key(course.root)
    everything = b"".join(wheel.read(name) for name in names)
    assert key not in everything and key.hex().encode() not in everything
    assert b"not for students" not in everything


def test_the_same_course_gives_the_same_bytes(course: Course, made: Path, tmp_path: Path) -> None:
    for path in (course.root / PACKAGE).rglob("*.py"):
        os.utime(path)  # another date of modification
    bundle(course, tmp_path / "encore.zip")
    assert (tmp_path / "encore.zip").read_bytes() == made.read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["encore.zip"]


def test_the_wheel_installs_and_runs_apart_from_the_checkout(made: Path, tmp_path: Path) -> None:
    inner_wheel(made).extractall(tmp_path / "site")
    code = (
        "import autograder, sys; from autograder.course import load; "
        "from autograder.messages import text; "
        "print(autograder.__file__); print(load(sys.argv[1]).course.id)"
    )
    with zipfile.ZipFile(made) as archive:
        archive.extract("course.yaml", tmp_path / "dossier")
    env = {**os.environ, "PYTHONPATH": str(tmp_path / "site")}
    command = [sys.executable, "-c", code, str(tmp_path / "dossier")]
    shown = subprocess.check_output(command, env=env, cwd=tmp_path, text=True, timeout=60)
    where, ident = shown.split("\n")[:2]
    assert where.startswith(str(tmp_path)) and ident == "petit"


def test_an_assignment_that_is_not_open_yet_stays_out(course: Course, tmp_path: Path) -> None:
    held = bundle(course, tmp_path / "x.zip", ["ex2"])
    assert "ex2/ex2.ipynb" in held and not any(name.startswith("ex1/") for name in held)
    with pytest.raises(BundleError, match="no assignment is open yet"):
        bundle(course, tmp_path / "y.zip", [])


def test_no_bundle_without_its_releases(course: Course, tmp_path: Path) -> None:
    root = shutil.copytree(course.root, tmp_path / "cours")
    shutil.rmtree(root / "release" / "ex2")
    with pytest.raises(BundleError, match="run `autograder release ex2` first"):
        bundle(load(root), tmp_path / "x.zip")
    assert not (tmp_path / "x.zip").exists()


def test_no_bundle_that_gives_an_answer_away(course: Course, tmp_path: Path) -> None:
    root = shutil.copytree(course.root, tmp_path / "cours")
    (root / "release" / "ex2" / "labo.py").write_text("rang_lu = int(os.environ['RANK'])\n")
    with pytest.raises(BundleError, match=r"ex2/labo\.py: gives away a solution line of ex1"):
        bundle(load(root), tmp_path / "x.zip")


def test_a_wheel_is_built_from_a_whole_checkout(tmp_path: Path) -> None:
    with pytest.raises(BundleError, match=r"lacks pyproject\.toml"):
        build_wheel(tiny.write_course(tmp_path / "cours"), tmp_path)


def test_the_page_is_filled_from_the_course_file(root: Path) -> None:
    course = load(root)
    given = [one.id for one in course.assignments if one.id != "examen"]
    page = readme(course, "autograder-9.9-py3-none-any.whl", given)
    later = [line for line in page.splitlines() if "distribué à part" in line]
    assert len(later) == 1 and "`examen`" in later[0]
    for fact in (course.session.title, course.session.teacher, course.session.room, course.course.title):
        assert fact in page
    for one in map(course.assignment, given):
        assert f"| `{one.id}` | {one.title} | {french_moment(one.due)} | {one.points.total} |" in page
    for command in (
        "python3 -m venv .venv", "source .venv/bin/activate", r".venv\Scripts\Activate.ps1",
        'pip install "./autograder-9.9-py3-none-any.whl[student]"', "jupyter lab",
        f"autograder check {course.assignments[0].id}", f"autograder pack {course.assignments[0].id} --id",
        "https://pytorch.org/get-started/locally/",
    ):  # fmt: skip
        assert command in page
    assert "$" not in page
    assert "index-url" not in page
    assert len(page.split()) < 850  # one page, and the table of ten assignments


def test_french_dates(tmp_path: Path) -> None:
    session = load(tiny.write_course(tmp_path)).session
    assert french_span(session.start, session.end) == "le jeudi 27 mars 2031, de 13 h à 17 h"
    first = session.start.replace(day=1, month=8, hour=9, minute=5)
    assert french_moment(first) == "vendredi 1er août 2031 à 9 h 05"
    assert french_hour(first) == "9 h 05"
    assert french_span(session.start, first).startswith("du jeudi 27 mars 2031 à 13 h au vendredi")
