"""Pages of the course: what students read beside the exercises, from pages/ to release/pages/.

A page belongs to no assignment: it has no points, no hidden part and no answer. Notebooks link it as
`../pages/<name>`, which holds in release/ and in the students' bundle alike.
"""

from __future__ import annotations

import dataclasses
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path

from autograder.course import Course
from autograder.files import write_whole
from autograder.notebook.cells import CopyError
from autograder.notebook.generate import RELEASE, content, differences
from autograder.notebook.leaks import scan, secrets
from autograder.notebook.tidy import tidied

PAGES = "pages"


class PagesError(RuntimeError):
    """A page that course.yaml lists is missing or cannot be read: the message names it."""


def released(course: Course) -> dict[str, bytes]:
    """Each page by its name, as students get it: notebooks in their one form, without outputs."""
    found: dict[str, bytes] = {}
    for name in course.pages:
        path = course.root / PAGES / name
        try:
            data = path.read_bytes()
        except OSError:
            raise PagesError(f"{PAGES}/{name} is missing, and course.yaml lists it under `pages`") from None
        try:
            found[name] = tidied(data) if path.suffix == ".ipynb" else _unix(data)
        except Exception as error:  # nbformat raises whatever its parsers raise
            raise PagesError(f"{PAGES}/{name} is no notebook ({error})") from None
    return found


def _unix(data: bytes) -> bytes:
    """Slurm refuses a batch script with DOS line breaks; a picture stays as it is."""
    return data if b"\0" in data else data.replace(b"\r\n", b"\n")


def write(course: Course, out: Path) -> None:
    """Write the released pages into folder `out`/pages; nothing where the course has none."""
    for name, data in released(course).items():
        write_whole(out / PAGES / name, data)


def problems(course: Course) -> list[str]:
    """What must be mended before pages are released: files missing or unlisted, roles, answers given away."""
    return list(_problems(course))


def _problems(course: Course) -> Iterator[str]:
    if any(one.id == PAGES for one in course.assignments):
        yield f"course.yaml: an assignment cannot be called {PAGES!r}, the folder of the course's pages"
    folder = course.root / PAGES
    there = [path.name for path in folder.iterdir()] if folder.is_dir() else []
    for name in sorted(there):
        if name not in course.pages and not name.startswith((".", "__")):
            yield f"{PAGES}/{name} is not listed under `pages` in course.yaml: list it there, or remove it"
    try:
        made = released(course)
    except PagesError as error:
        yield str(error)
        return
    if not made:
        return
    for name, data in made.items():
        if name.endswith(".ipynb"):
            roles = (cell["id"] for cell in json.loads(data)["cells"] if "nbgrader" in cell["metadata"])
            yield from (f"{PAGES}/{name}, cell {cell}: nothing is graded in a page" for cell in roles)
    # A page is nobody's own assignment: hidden tests and mark schemes of all of them are looked for in it.
    try:
        known = [dataclasses.replace(secret, kind="solution") for secret in secrets(course)]
    except CopyError as error:
        yield str(error)
        return
    with tempfile.TemporaryDirectory() as out:
        write(course, Path(out))
        yield from map(str, scan(course, Path(out), known))


def stale(course: Course) -> list[str]:
    """How release/pages differs from what pages/ gives; an empty list when it does not."""
    try:
        made = released(course)
    except PagesError:
        return []  # problems() says why
    committed = content(course.root / RELEASE / PAGES)
    return differences(committed, made, f"{RELEASE}/{PAGES}", f"{PAGES}/", "autograder release")
