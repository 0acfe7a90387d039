"""course.yaml, the course's one source of truth: read, checked, and explained where it is wrong.

An error names the file, the line, the key, the value and what is accepted, so that it can be mended without
reading this module. Neither torch nor nbgrader is imported here.
"""

from __future__ import annotations

import difflib
import hashlib
import os
import secrets
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from autograder.course_model import FILE_NAME, Assignment, Calendar, Course, CourseError, Points, Problem
from autograder.dates import DateError, parse_moment, parse_zone
from autograder.files import errors_of
from autograder.yamlfile import Located, YamlProblem, read_yaml

__all__ = [
    "Assignment",
    "Course",
    "CourseError",
    "Points",
    "Problem",
    "course_key",
    "find_root",
    "key_fingerprint",
    "load",
]

KEY_FILE = Path(".autograder") / "course.key"
KEY_BYTES = 32


def find_root(start: Path | str | None = None) -> Path | None:
    """The nearest folder at or above `start` (default: the current one) that holds course.yaml."""
    here = Path.cwd() if start is None else Path(start).resolve()
    return next((folder for folder in (here, *here.parents) if (folder / FILE_NAME).is_file()), None)


def load(path_or_dir: Path | str | None = None) -> Course:
    """Read and check course.yaml: that file, that folder's, or the nearest at or above the current one."""
    if path_or_dir is None:
        root = find_root()
        if root is None:
            what = "no such file, neither here nor in the folders above"
            accepted = "a current folder inside the course's"
            raise CourseError(Path.cwd() / FILE_NAME, [Problem("", None, None, what, accepted)])
        path = root / FILE_NAME
    else:
        path = Path(path_or_dir).resolve()
        path = path / FILE_NAME if path.is_dir() else path
    try:
        located = read_yaml(path)
    except YamlProblem as error:
        problem = Problem(error.key, None, error.line, error.what, error.accepted)
        raise CourseError(path, [problem]) from None
    return _build(path, located)


def _build(path: Path, located: Located) -> Course:
    data = located.data
    if not isinstance(data, dict):
        keys = ", ".join(Course.model_fields)
        raise CourseError(path, [Problem("", None, 1, "is not a table of keys", keys)])
    try:
        course = Course.model_validate(data, context=_calendar(data))
    except ValidationError as error:
        details = [detail for detail in error.errors() if detail["type"] != "told_elsewhere"]
        raise CourseError(path, [_explain(detail, located) for detail in details]) from None
    problems = list(_disagreements(course, located))
    if problems:
        raise CourseError(path, problems)
    course._path = path
    return course


def _calendar(data: dict[str, Any]) -> Calendar:
    """The zone and the start, looked up first since every other date may depend on them."""
    zone, start = None, None
    try:
        zone = parse_zone(data["course"]["timezone"])
        start = parse_moment(data["session"]["start"], zone)
    except (DateError, KeyError, TypeError):
        pass  # whatever is wrong is told where it stands, once
    return Calendar(zone, start)


def _explain(detail: Any, located: Located) -> Problem:
    loc = tuple(detail["loc"])
    key, line, value = located.name(loc), located.line(loc), detail["input"]
    field, siblings = _field(loc)
    if detail["type"] == "extra_forbidden":
        near = difflib.get_close_matches(str(loc[-1]), siblings, n=1)
        what = "is an unknown key" + (f"; did you mean {near[0]}?" if near else "")
        return Problem(key, value, line, what, ", ".join(siblings))
    if detail["type"] == "missing":
        return Problem(key, None, line, "is missing", field)
    if detail["type"] == "date":
        return Problem(key, value, line, detail["msg"], detail["ctx"]["accepted"])
    return Problem(key, value, line, "is refused: " + detail["msg"], field)


def _field(loc: tuple[str | int, ...]) -> tuple[str, list[str]]:
    """What the field at `loc` accepts, in words, and the names of the fields beside it."""
    model: type[BaseModel] | None = Course
    described, siblings = "", list(Course.model_fields)
    for step in loc:
        if isinstance(step, int):
            continue
        siblings = list(model.model_fields) if model else []
        info = model.model_fields.get(step) if model else None
        model = _inner(info.annotation) if info else None
        described = (info.description or "") if info else ""
        described = described or (f"a table of {', '.join(model.model_fields)}" if model else "")
    return described, siblings


def _inner(annotation: Any) -> type[BaseModel] | None:
    candidates = [annotation, *getattr(annotation, "__args__", ())]
    return next((c for c in candidates if isinstance(c, type) and issubclass(c, BaseModel)), None)


def _disagreements(course: Course, located: Located) -> Iterator[Problem]:
    """What no single value shows: two that contradict each other."""

    def at(*loc: str | int, what: str, accepted: str) -> Problem:
        return Problem(located.name(loc), located.value(loc), located.line(loc), what, accepted)

    limit = course.launch.time_limit_s
    if course.launch.copy_limit_s < limit:
        what, accepted = "is less than one launch may take", f"at least launch.time_limit_s ({limit:g})"
        yield at("launch", "copy_limit_s", what=what, accepted=accepted)
    seen: set[str] = set()
    for i, one in enumerate(course.assignments):
        if one.id in seen:
            what, accepted = "is the id of an earlier assignment", "an id of its own for each assignment"
            yield at("assignments", i, "id", what=what, accepted=accepted)
        seen.add(one.id)
        if one.due <= one.release:
            what = f"({one.due.isoformat()}) is not after release ({one.release.isoformat()})"
            yield at("assignments", i, "due", what=what, accepted="a date after the assignment's release")
        for table, names in (("files", one.files), ("data", one.data)):
            for n, name in enumerate(names):
                if name in names[:n] or name.endswith(".ipynb"):
                    what = "stands there already" if name in names[:n] else "is a notebook"
                    accepted = "each file once in a list, and never the notebook"
                    yield at("assignments", i, table, n, what=what, accepted=accepted)


def course_key(root: Path | str) -> bytes:
    """The secret that hidden tests draw from: `root`/.autograder/course.key, made on first use.

    Only its owner may read it; it is never committed and is in neither the wheel nor the release.
    """
    path = Path(root) / KEY_FILE
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        # Readable by its owner only.
        with errors_of(path):
            handle, draft = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent)
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(secrets.token_bytes(KEY_BYTES))
                _publish(Path(draft), path)
            finally:
                Path(draft).unlink(missing_ok=True)
    key = path.read_bytes()
    if len(key) != KEY_BYTES:
        accepted = f"{KEY_BYTES} bytes: put your copy of the key back, since a new key draws other tests"
        raise CourseError(path, [Problem("", None, None, f"holds {len(key)} bytes", accepted)])
    return key


def _publish(draft: Path, path: Path) -> None:
    """Give `draft` its name unless another process was first: both then read the same key."""
    try:
        os.link(draft, path)
    except FileExistsError:
        return
    except OSError:  # a file system without hard links
        if not path.exists():
            draft.replace(path)


def key_fingerprint(key: bytes) -> str:
    """The first 12 hex digits of the key's SHA-256: it tells keys apart and gives nothing away."""
    return hashlib.sha256(key).hexdigest()[:12]
