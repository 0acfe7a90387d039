"""How a test cell ends when it does not end with a number: TestFailed (0 points) or NotGraded (no mark).

Both show their own text only: neither the cell's code nor the hidden tests in it reach the notebook.
"""

from __future__ import annotations


class _Shown(Exception):
    def _render_traceback_(self) -> list[str]:
        """What IPython shows instead of a traceback."""
        return str(self).splitlines()


class TestFailed(_Shown):
    """The test is worth 0 points; the text says what was found and what to try."""

    __test__ = False   # not a class of tests, whatever pytest thinks of its name


class NotGraded(_Shown):
    """Nothing can be concluded: the machine failed, not the student. No mark is lost."""


for _kind in (TestFailed, NotGraded):
    _kind.__module__ = "autograder"   # plain Python shows "autograder.TestFailed: …"
