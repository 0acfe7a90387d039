"""Cells and tests forked from one warm server of the tests, for those that look at what is made of verdicts.

That a forked process ends as one of its own Python does is for test_warm.py and test_warm_same.py to say.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from autograder.batch import work
from autograder.launch.warm.client import NOTEBOOK, Servers
from autograder.notebook.result import CopyResult


def fork_cells(servers: Servers, patch: pytest.MonkeyPatch) -> None:
    """From there also in a class that is graded cold, and believed as if they were cold; launches are."""
    examine = work.examine

    def believed(*copy: Any, **how: Any) -> CopyResult:
        return replace(examine(*copy, **how), warm=False)

    if servers.notebook is not None:
        patch.setenv(NOTEBOOK, servers.notebook)
        patch.setattr(work, "COLD", servers)
        patch.setattr(work, "examine", believed)
