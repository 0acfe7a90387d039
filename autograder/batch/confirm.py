"""What a launch that was forked says counts only so far: what costs a mark is looked at again, cold.

A warm server's processes are to end as those of `torchrun` do. Where a copy gets all its points from them and
nothing is said against it, that is believed, but for a sample. Everything else is examined once more with
processes that start their own Python, and what these say counts. Where the two do not agree the grader is
told: one of the ways is at fault, or the copy does not do the same thing twice.
"""

from __future__ import annotations

import hashlib
import math
import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from autograder.notebook.result import CopyResult

if TYPE_CHECKING:
    from autograder.batch.executors import Task

FROM_FILES = {"file-differs"}  # flags that no launch has to do with
SAMPLE = 0.01  # of the copies that are examined, at least one: audited where it is a plain pass


def sample(tasks: Sequence[Task], seed: str) -> list[Task]:
    """The tasks, those of the sample marked. The same seed draws the same ones."""
    def drawn(task: Task) -> str:
        return hashlib.sha256(f"{seed}\0{task.student}\0{task.assignment}".encode()).hexdigest()

    chosen = {*sorted(tasks, key=drawn)[: math.ceil(SAMPLE * len(tasks))]}
    return [replace(task, audit=task in chosen) for task in tasks]


class Draw:
    """Whose plain pass is audited: those of the sample. One of them that is none leaves its place to the next
    plain pass, so that one is audited wherever there is one, if the sample comes first.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._running = self._left = 0   # of the sample: those that are examined, the places that they left

    def begins(self, drawn: bool) -> None:
        with self._changed:
            self._running += drawn

    def audited(self, drawn: bool, passed: bool) -> bool:
        """Whether this copy is, now that it was examined. It waits for those of the sample that still are."""
        with self._changed:
            if drawn:
                self._running -= 1
                self._left += not passed
                self._changed.notify_all()
                return passed
            if passed:
                self._changed.wait_for(lambda: not self._running)
            taken = passed and self._left > 0
            self._left -= taken
            return taken


def plain(result: CopyResult) -> bool:
    """All the points of what was run, and nothing for a person to look at."""
    return result.passed and FROM_FILES.issuperset(result.flags) and not result.suspicions


def confirmed(warm: CopyResult, cold: CopyResult, why: str) -> CopyResult:
    """The cold result, which counts, and what the warm one had found instead."""
    differ = difference(warm, cold)
    details = (*cold.details, f"warm and cold launches disagree: {differ}") if differ else cold.details
    return replace(
        cold, cold=why, disagreed=differ, details=details,
        duration_s=round(warm.duration_s + cold.duration_s, 3),
    )  # fmt: skip


def difference(warm: CopyResult, cold: CopyResult) -> str:
    """In what the marks or flags of two results of one copy differ, in words; "" where they do not."""
    told = []
    ends = {test.id: test for test in cold.tests}
    for test in warm.tests:
        other = ends.get(test.id)
        now = f"{other.status} {other.points:g}" if other is not None else "absent"
        if (before := f"{test.status} {test.points:g}") != now:
            told.append(f"{test.id}: {before} → {now}")
    if warm.graded != cold.graded and not told:
        told.append(" → ".join("graded" if one.graded else "not graded" for one in (warm, cold)))
    if set(warm.flags) != set(cold.flags):
        told.append(" → ".join(", ".join(one.flags) or "no flag" for one in (warm, cold)))
    return "; ".join(told)
