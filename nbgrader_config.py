"""nbgrader's settings. None is set here: autograder/notebook/nbconfig.py derives them from course.yaml."""

from pathlib import Path

from autograder.course import load
from autograder.notebook.nbconfig import configure

configure(get_config(), load(Path(__file__).resolve().parent))  # type: ignore[name-defined]  # noqa: F821
