"""What students get, in one zip: assignments, pages, course.yaml, the package as a wheel, a first page."""

from __future__ import annotations

import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from importlib import resources
from pathlib import Path
from string import Template

from autograder.course import Course
from autograder.course_model import FILE_NAME
from autograder.files import write_zip
from autograder.messages import french_moment, french_span
from autograder.notebook.generate import RELEASE
from autograder.notebook.leaks import scan
from autograder.notebook.pages import PAGES

README_NAME = "LISEZMOI.md"
ELSEWHERE = " *(distribué à part)*"  # already, or later
# What a wheel is built from. Neither source/, nor the course key, nor the tests.
BUILT_FROM = ("pyproject.toml", "README.md", "LICENSE")
PACKAGE = "autograder"
NONE_OPEN = "no assignment is open yet: name those to give, or use --as-of for another day"
OLDEST_SETUPTOOLS = 77  # as pyproject.toml asks


class BundleError(RuntimeError):
    """The bundle cannot be made: the message says what is missing, and what to do."""


def bundle(course: Course, out: Path, assignments: Iterable[str] | None = None) -> list[str]:
    """Write the zip `out` with everything a student needs; give the names in it.

    `assignments` are those that students may have (all when None): an exam stays out until its day. The same
    course, package and Python tools give the same bytes. BundleError when the release of an assignment is
    missing or would give an answer away.
    """
    release = course.root / RELEASE
    content: dict[str, bytes] = {FILE_NAME: course.path.read_bytes()}
    chosen = [one.id for one in course.assignments] if assignments is None else list(assignments)
    if not chosen:
        raise BundleError(NONE_OPEN)
    for one in map(course.assignment, chosen):
        folder = release / one.id
        if not (folder / one.notebook).is_file():
            raise BundleError(f"{folder / one.notebook} is missing: run `autograder release {one.id}` first")
        for path in sorted(path for path in folder.rglob("*") if path.is_file()):
            content[path.relative_to(release).as_posix()] = path.read_bytes()
    for name in course.pages:
        path = release / PAGES / name
        if not path.is_file():
            raise BundleError(f"{path} is missing: run `autograder release` first")
        content[f"{PAGES}/{name}"] = path.read_bytes()
    if leaks := scan(course, release):
        raise BundleError("release/ gives answers away:\n" + "\n".join(map(str, leaks)))
    with tempfile.TemporaryDirectory() as folder_name:
        wheel = build_wheel(course.root, Path(folder_name))
        content[wheel.name] = wheel.read_bytes()
    content[README_NAME] = readme(course, wheel.name, chosen).encode()
    write_zip(out, content)
    return sorted(content)


def why_not(root: Path) -> str | None:
    """Why no bundle can be made in the course's folder; None where it has what a wheel is built from."""
    missing = [name for name in (*BUILT_FROM, PACKAGE) if not (root / name).exists()]
    if not missing:
        return None
    return f"{root} lacks {', '.join(missing)}: the wheel is built from a full checkout of the course"


def build_wheel(root: Path, out: Path) -> Path:
    """Build the package's wheel from `root` into folder `out`, from a copy of what it needs and no more."""
    if (why := why_not(root)) is not None:
        raise BundleError(why)
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "tree"
        tree.mkdir()
        for name in BUILT_FROM:
            shutil.copyfile(root / name, tree / name)
        ignored = shutil.ignore_patterns("__pycache__", "*.pyc", ".*")
        shutil.copytree(root / PACKAGE, tree / PACKAGE, ignore=ignored, copy_function=shutil.copyfile)
        for path in tree.rglob("*"):
            path.chmod(0o755 if path.is_dir() else 0o644)  # a wheel keeps modes, and umasks differ
        command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps"]
        if _setuptools_is_here():
            command.append("--no-build-isolation")  # nothing to download
        done = subprocess.run(
            [*command, "--wheel-dir", str(out), str(tree)],
            env={**os.environ, "SOURCE_DATE_EPOCH": "315532800", "PYTHONHASHSEED": "0"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
        )
    wheels = list(out.glob("*.whl"))
    if done.returncode or len(wheels) != 1:
        tail = "\n".join((done.stderr or done.stdout).strip().splitlines()[-8:])
        raise BundleError(f"the wheel was not built:\n{tail}")
    return wheels[0]


def _setuptools_is_here() -> bool:
    try:
        return int(importlib.metadata.version("setuptools").split(".")[0]) >= OLDEST_SETUPTOOLS
    except (importlib.metadata.PackageNotFoundError, ValueError):
        return False


def readme(course: Course, wheel: str, given: Sequence[str]) -> str:
    """The students' first page, in French, from the template and course.yaml; `given`: what the zip holds."""
    template = resources.files("autograder.notebook") / "templates" / README_NAME
    session = course.session
    rows = [
        f"| `{one.id}` | {one.title}{'' if one.id in given else ELSEWHERE} | {french_moment(one.due)} "
        f"| {one.points.total} |"
        for one in course.assignments
    ]
    modes = " et en ".join(session.modes) + (", places limitées" if session.limited_places else "")
    return Template(template.read_text(encoding="utf-8")).substitute(
        course_title=course.course.title,
        session_title=session.title,
        session_date=french_span(session.start, session.end),
        session_place=f"{session.organisation}, campus {session.campus}, {session.building}, {session.room}",
        session_modes=f"En {modes}",
        teacher=session.teacher,
        prerequisites=" ; ".join(course.course.prerequisites) or "aucun prérequis",
        hours=course.course.hours,
        assignments="\n".join(rows),
        python=_python(),
        wheel=wheel,
        first=given[0],
        nproc=course.launch.nproc,
    )


def _python() -> str:
    """The oldest Python that the package installs on, as its own metadata says."""
    asked = str(importlib.metadata.metadata(PACKAGE)["Requires-Python"])
    found = re.search(r"\d+\.\d+", asked)
    return found.group(0) if found else f"{sys.version_info.major}.{sys.version_info.minor}"
