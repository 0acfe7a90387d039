"""Which launches another speed of the machine could have ended otherwise.

A mark that such a launch costs counts only once it was lost on a machine that did nothing else.
"""

from __future__ import annotations

import re

from autograder.launch.run import Run

# What the tests set durations with, and what gloo and the store say when their own delay is over.
_DURATIONS = frozenset({"MCI_TIMEOUT_S", "RALENTI"})
_LATE = re.compile(r"Timed out waiting|wait timeout after|Timed out after \d+ seconds|Application timeout")


def matters(run: Run) -> bool:
    """Whether how fast the machine was can have decided what `run` shows."""
    asked = run.request
    return bool(
        run.timed_out or run.infra or asked.delays or _DURATIONS & asked.env.keys()
        or _LATE.search(run.stderr) or _LATE.search(run.launcher_stderr)
    )
