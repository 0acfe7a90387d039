"""What each `autograder` command does. Each function prints, and returns the exit code.

A student's commands (`student`) speak French; the grader's and instructor's (`grader`) speak English.
"""

from __future__ import annotations

import sys

OK, FAILED, USAGE, NOT_GRADED = 0, 1, 2, 3


def usage(message: str) -> int:
    """Say on standard error what was wrong with the command, or with where it was given."""
    print(message, file=sys.stderr)
    return USAGE
