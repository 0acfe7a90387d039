"""`autograder check` and, in a notebook, `from autograder import check`: an assignment's tests on what is
here.
"""

from __future__ import annotations

import builtins
import contextlib
import os
import sys
from pathlib import Path

from autograder import course as courses
from autograder.launch import command
from autograder.launch.warm import own
from autograder.launch.warm.client import Servers
from autograder.leftovers import TOKEN
from autograder.messages import text
from autograder.notebook.apart import clean_environment
from autograder.notebook.cells import CopyError
from autograder.notebook.examine import (
    examine,
    examine_files,
    examine_notebook,
    examine_script,
)
from autograder.notebook.given import LABO, absent
from autograder.notebook.received import nearest_notebook
from autograder.notebook.result import CopyResult


def check(assignment: str, path: str | Path = ".") -> CopyResult:
    """Run the tests of `assignment` on `path`: a labo.py, a notebook, or a folder that holds one or both, or
    the assignment's own folder.

    Hidden tests run too where source/ is at hand. In a notebook the report is displayed; elsewhere nothing is
    printed. Raises CopyError (nothing usable at `path`) or CourseError (no such assignment).
    """
    if os.environ.get(TOKEN):
        # A cell of the notebook that is being checked calls the check: it would check itself for ever.
        cause = text("grading.check-inside")
        print(cause)
        return CopyResult(assignment, graded=False, cause=cause)
    with own_servers() if own.in_kernel() else contextlib.nullcontext():
        result = _result(assignment, Path(path))
    if hasattr(builtins, "get_ipython") or _in_notebook():
        from autograder.report.table import print_copy

        print_copy(result)
        _draw(result)
    return result


def own_servers(kept: own.Kept | None = None) -> contextlib.AbstractContextManager[Servers]:
    """The user's own warm servers, for a check: see launch/warm/own.py."""
    env = clean_environment()
    return own.using({"launch": command.base_environment(env), "notebook": env}, kept)


def _draw(result: CopyResult) -> None:
    """The timelines of the tests that did not pass, as pictures, where IPython can show them."""
    from autograder.report.launches import bundles

    if _in_notebook() and (found := bundles(result)):
        from IPython.display import display

        for bundle in found:
            display(bundle, raw=True)


def _result(assignment: str, path: Path) -> CopyResult:
    root = courses.find_root(path.resolve()) or courses.find_root()
    course = courses.load(root) if root is not None else None
    if course is not None:
        course.assignment(assignment)
    if path.suffix == ".py":
        return examine_script(path, assignment, course)
    if path.is_file():
        if path.suffix != ".ipynb":
            raise CopyError(text("given.no-copy", given=path))
        return examine_notebook(path, assignment, course)
    if not path.is_dir():
        raise CopyError(absent(path))
    name, here = f"{assignment}.ipynb", path.resolve()
    for notebook in (path / name, path / assignment / name):  # its own folder, or the course's
        if notebook.is_file():
            return examine_notebook(notebook, assignment, course)
    nothing = text(
        "given.no-notebook" if course is not None else "grading.no-tests-no-course",
        wanted=name, folder=here, assignment=assignment,
    )  # fmt: skip
    if (here / f"{here.name}.ipynb").is_file():  # another exercise's own folder, and its labo.py
        raise CopyError(nothing)
    if course is None and (path / LABO).is_file():
        return examine_script(path / LABO, assignment, course)
    if course is not None and (result := examine_files(path, assignment, course)) is not None:
        return result
    if (near := nearest_notebook(path, assignment)) is not None:
        raise CopyError(text("handin.notebook-misnamed", found=near, wanted=name, folder=here))
    declared = course.assignment(assignment).files if course is not None else [LABO]
    if not any(os.path.lexists(path / one) for one in declared):
        raise CopyError(nothing)
    return examine(path, assignment, course)  # what is there cannot be read: it says why


def _in_notebook() -> bool:
    """Whether IPython runs us, without importing it where it does not."""
    ipython = sys.modules.get("IPython")
    return ipython is not None and ipython.get_ipython() is not None
