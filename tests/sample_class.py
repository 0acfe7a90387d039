"""The sample class, collected and graded once for all the tests that look at it."""

from __future__ import annotations

import datetime as dt
import importlib.util
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from autograder import course as courses
from autograder.batch.collect import collect
from autograder.batch.grade import ClassReport, grade_class

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Sample:
    root: Path
    course: courses.Course
    report: ClassReport


def course_in(root: Path) -> courses.Course:
    """This repository's own course, as a grader has it."""
    for name in ("course.yaml", "nbgrader_config.py"):
        shutil.copy(ROOT / name, root / name)
    for name in ("source", "release"):
        shutil.copytree(ROOT / name, root / name)
    return courses.load(root)


def make_class() -> Any:
    """examples/make_class.py, which is no package."""
    spec = importlib.util.spec_from_file_location("make_class", ROOT / "examples" / "make_class.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def graded(course: courses.Course) -> ClassReport:
    """Graded from saved Runs, with the key of the tests, as conftest does for each test."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AUTOGRADER_KEY_FILE", str(ROOT / "tests" / "data" / "test.key"))
        patch.setenv("AUTOGRADER_RUNS", str(ROOT / "tests" / "runs"))
        return grade_class(course)


def sample(root: Path) -> Sample:
    course = course_in(root)
    make_class().make_class(course, root / "inbox")
    declared = {one.id: one.files for one in course.assignments}
    after = max(one.due for one in course.assignments) + dt.timedelta(days=30)
    assert not collect(root / "inbox" / "submitted", root, declared, now=after).refused
    return Sample(root, course, graded(course))
