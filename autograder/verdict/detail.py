"""When a failing launch is worth making once more with TORCH_DISTRIBUTED_DEBUG=DETAIL, and what that teaches.

Under DETAIL torch compares what the ranks bring before each collective, and names who did not come. Our own
marks know the same of the default group: what is left are groups of some ranks, and collectives that torch
makes by itself. Nothing but the cause is taken from the second launch: its traffic and times are not the
script's.
"""

from __future__ import annotations

from autograder.launch.run import Run
from autograder.verdict import life
from autograder.verdict.cause import Diagnosis

# What DETAIL can name, and the conclusions that it may replace: a victim's message, a size without its sides.
NAMED = frozenset({"order", "shape", "dtype", "missing-rank"})
VAGUE = frozenset({"size", "unknown"})


def worth_it(run: Run, found: Diagnosis | None) -> bool:
    """Whether a launch with DETAIL may tell more than `found`. Never after the deadline: gloo's own
    delay, for which DETAIL waits, is longer.
    """
    if run.request.detail or run.timed_out or run.infra is not None or found is None or not run.exit_code:
        return False
    if not any(event.name == "init" for event in run.events):
        return False   # torch never came to compare anything
    return found.cls == "S" or found.id in VAGUE


def better(run: Run, found: Diagnosis | None, detailed: Run, told: Diagnosis | None) -> Diagnosis | None:
    """`told`, of the launch with DETAIL, where it names what `found` could not; else `found`."""
    if told is None or detailed.infra is not None or told.id not in NAMED:
        return found
    # torch counts the ranks inside the group: they are named where these are their numbers in the launch.
    alike = all(members == tuple(range(len(members))) for members in life.subgroups(run))
    return told if alike else found
