"""Where the ranks should have met: who called something else, who never came, who came late."""

from __future__ import annotations

import statistics
from collections import Counter
from dataclasses import dataclass

from autograder.launch.run import Collective, Run
from autograder.verdict import evidence


@dataclass(frozen=True)
class Mismatch:
    """Two ranks that met with different arguments; `kind` is "order", "shape" or "dtype"."""

    kind: str
    first: Collective
    second: Collective


@dataclass(frozen=True)
class Absent:
    """`rank` never entered the collective in which `waiting` stands (a mark, or DDP's own all-reduce)."""

    rank: int
    waiting: Collective


@dataclass(frozen=True)
class Late:
    """`rank` came last into `count` collectives, by `seconds` (median): the others waited for it."""

    rank: int
    seconds: float
    count: int
    line: int | None


def mismatch(run: Run) -> Mismatch | None:
    """The first collective in which two ranks met with another name, shape or dtype; None when they agree."""
    if any(event.name == "new_group" for event in run.events):
        return None   # ranks of different groups need not call the same things
    sequences = {rank: _group_calls(run, rank) for rank in evidence.world(run)}
    reference = sequences.get(0, [])
    for rank in list(evidence.world(run))[1:]:
        for first, second in zip(reference, sequences[rank], strict=False):
            if evidence.name(first.op) != evidence.name(second.op):
                return Mismatch("order", first, second)
            if evidence.name(first.op) in evidence.UNIFORM:
                if first.numel != second.numel:
                    return Mismatch("shape", first, second)
                if first.dtype != second.dtype:
                    return Mismatch("dtype", first, second)
    return None


def absent(run: Run) -> Absent | None:
    """The rank that others wait for in a collective which it never entered; None when nobody is absent.

    Marks first; then the Flight Recorder, which also shows a rank waiting in DDP's backward or in `wait()`.
    """
    if any(event.name == "new_group" for event in run.events):
        return None
    for rank, waiting in sorted(evidence.blocked(run).items()):
        if evidence.name(waiting.op) in evidence.POINT_TO_POINT:
            continue
        position = len(_group_calls(run, rank)) - 1
        missing = [q for q in evidence.world(run) if q != rank and len(_group_calls(run, q)) <= position]
        if missing:
            return Absent(missing[0], waiting)
    if evidence.blocked(run):
        return None
    # What a rank did is known from the Flight Recorder only if it could write it down.
    known = [rank for rank in evidence.world(run) if _dumped(run, rank)]
    records = {rank: evidence.calls(run, rank, "flight_recorder") for rank in known}
    most = max(records, key=lambda rank: len(records[rank]), default=None)
    if most is None or not records[most]:
        return None
    missing = [rank for rank in records if len(records[rank]) < len(records[most])]
    return Absent(missing[0], records[most][-1]) if missing else None


def _dumped(run: Run, rank: int) -> bool:
    log = run.rank(rank)
    stood = any(stack.rank == rank for stack in run.stacks)
    return stood or (log is not None and (log.reached_end or log.exit_code in (0, 1)))


def late(run: Run, threshold_s: float = 0.15) -> Late | None:
    """The rank that comes last, by `threshold_s` or more, into nearly all collectives; all of them complete.

    The first collective is left out: ranks do not start at the same instant.
    """
    sequences = {rank: _group_calls(run, rank) for rank in evidence.world(run)}
    length = min((len(sequence) for sequence in sequences.values()), default=0)
    if len(sequences) < 2 or length < 3:
        return None
    last, gaps = [], []
    for index in range(1, length):
        step = [sequences[rank][index] for rank in sequences]
        if not all(evidence.completed(run, call) for call in step):
            return None
        entries = sorted(call.entered for call in step)
        slowest = max(step, key=lambda call: call.entered)
        last.append(slowest)
        gaps.append(entries[-1] - entries[0])
    rank, times = Counter(call.rank for call in last).most_common(1)[0]
    theirs = [gap for call, gap in zip(last, gaps, strict=True) if call.rank == rank]
    if times < 0.8 * len(last) or statistics.median(theirs) < threshold_s:
        return None
    line = next((call.line for call in last if call.rank == rank), None)
    return Late(rank, statistics.median(theirs), times, line)


def _group_calls(run: Run, rank: int) -> list[Collective]:
    """The calls that every rank must make alike; one refused at once (bad argument) never met the others."""
    return [
        call for call in evidence.calls(run, rank)
        if evidence.name(call.op) not in evidence.POINT_TO_POINT
        and (call.error is None or evidence.WAITING.search(call.error)
             or "preamble" in call.error or "mismatch" in call.error)
    ]
