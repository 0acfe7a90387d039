"""Where the ranks should have met: who called something else, who never came, who came late."""

from __future__ import annotations

import itertools
import statistics
from collections import Counter
from dataclasses import dataclass

from autograder.launch.run import Collective, Run
from autograder.verdict import evidence, life


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
    if life.subgroups(run):
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
    if life.subgroups(run):
        return None
    for rank, waiting in sorted(evidence.blocked(run).items()):
        if evidence.name(waiting.op) in evidence.POINT_TO_POINT:
            continue
        position = len(_group_calls(run, rank)) - 1
        if position >= STREAMED:
            continue   # the others' marks stopped there too
        missing = [q for q in evidence.world(run) if q != rank and len(_group_calls(run, q)) <= position]
        if missing:
            return Absent(missing[0], waiting)
    if any(len(_group_calls(run, rank)) <= STREAMED for rank in evidence.blocked(run)):
        return None
    # What a rank did is known from the Flight Recorder only if it could write it down.
    records = {rank: calls for rank, calls in _torchs(run).items() if _dumped(run, rank)}
    most = max(records, key=lambda rank: len(records[rank]), default=None)
    if most is None or not records[most]:
        return None
    missing = [rank for rank in records if len(records[rank]) < len(records[most])]
    return Absent(missing[0], records[most][-1]) if missing else None


def _torchs(run: Run) -> dict[int, list[Collective]]:
    """Each rank's record by PyTorch, DDP's own collectives in it. It keeps the last thousand: they begin with
    the first that no rank has lost.
    """
    found = {
        rank: [
            call for call in evidence.calls(run, rank, "flight_recorder")
            if evidence.name(call.op) not in evidence.POINT_TO_POINT
        ]
        for rank in evidence.world(run)
    }
    if all(len(calls) < KEPT for calls in found.values()):
        return found
    first = max((calls[0].seq for calls in found.values() if calls), default=0)
    return {rank: [call for call in calls if call.seq >= first] for rank, calls in found.items()}


KEPT = 1000        # by the Flight Recorder, of each rank (TORCH_FR_BUFFER_SIZE)
STREAMED = 2000    # marks of each rank, and the one in which it stands at the deadline


def _dumped(run: Run, rank: int) -> bool:
    log = run.rank(rank)
    stood = any(stack.rank == rank for stack in run.stacks)
    return stood or (log is not None and (log.reached_end or log.exit_code in (0, 1)))


def late(run: Run) -> Late | None:
    """The rank that comes last into nearly all collectives, all of them complete, when that is no chance.

    Whatever the clock says, a rank that sleeps or computes longer is late *each time*, by at least that much;
    a busy machine holds back now one rank, now the other, by any amount. So a wait of `PLAIN_S` or more is
    enough where one rank causes nearly all of them; a shorter one (down to `LEAST_S`) must have come back in
    at least `FEW` collectives, in three of four of them with at least `STEADY` of its usual length, and weigh
    something beside the step. Left out are the first collective, since ranks do not start at the same
    instant, and those that follow at once on another one. Where there are but one or two, what each rank did
    since it joined the group must differ by `ALONE_S`.
    """
    marks = {rank: _group_calls(run, rank) for rank in evidence.world(run)}
    return _late(marks, run) or _late(_torchs(run), run)


PLAIN_S, LEAST_S, ALONE_S = 0.15, 0.015, 0.3
FEW, STEADY, WEIGHT, SHARE = 4, 0.5, 0.05, 0.25


def _late(sequences: dict[int, list[Collective]], run: Run) -> Late | None:
    steps = completed_steps(run, sequences)
    if len(sequences) < 2 or not steps or len(steps) < min(map(len, sequences.values())):
        return None
    return _last_to_come(steps, run)


def _at_once(steps: list[list[Collective]], run: Run) -> Late | None:
    """Of one or two collectives: who took longer before each of them, by `ALONE_S` or more."""
    joined = {one.rank: one.joined for rank in evidence.world(run) for one in life.groups(run, rank)}
    gaps: dict[int, float] = {}   # the rank that took longest, and by how much more than any other
    for index, step in enumerate(steps):
        times = {}   # since it joined the group or left the collective before
        for place, call in enumerate(step):
            since = steps[index - 1][place].returned if index else joined.get(call.rank)
            if since is None:
                return None
            times[call.rank] = call.entered - since
        rank = max(times, key=times.__getitem__)
        others = [time for other, time in times.items() if other != rank]
        gaps[rank] = min(gaps.get(rank, float("inf")), times[rank] - max(others, default=times[rank]))
    if len(gaps) != 1:
        return None
    (rank, least), = gaps.items()
    line = next((call.line for call in steps[0] if call.rank == rank), None)
    return Late(rank, least, len(steps), line) if least >= ALONE_S else None


def completed_steps(run: Run, sequences: dict[int, list[Collective]]) -> list[list[Collective]]:
    """The collectives that every rank entered and completed, from the first on: one call of each rank."""
    steps: list[list[Collective]] = []
    for step in zip(*sequences.values(), strict=False):
        if not all(evidence.completed(run, call) for call in step):
            break
        steps.append(list(step))
    return steps


def _last_to_come(steps: list[list[Collective]], run: Run) -> Late | None:
    if len(steps) < 3:
        return _at_once(steps, run)
    counted = [
        step for before, step in itertools.pairwise(steps)
        if max(call.entered for call in step) - max(call.entered for call in before) >= LEAST_S / 2
    ]
    last = [max(step, key=lambda call: call.entered) for step in counted]
    # Between the few that DDP makes as it wraps a model, ranks load what they need, in their own time.
    least = 2 if steps[0][0].source == "mark" else 3
    if len(last) < max(least, SHARE * (len(steps) - 1)):
        return None   # they follow on one another: nothing was done between them that could be slow
    rank, times = Counter(call.rank for call in last).most_common(1)[0]
    gaps = []   # how long the others waited for this rank alone; below zero where it was not the last
    for step in counted:
        own = next(call.entered for call in step if call.rank == rank)
        gaps.append(own - max(call.entered for call in step if call.rank != rank))
    waits = [gap for gap in gaps if gap > 0]
    if times < 0.8 * len(last) or not waits:
        return None
    usual = statistics.median(waits)
    period = (last[-1].entered - last[0].entered) / (len(last) - 1)
    steady = sorted(gaps)[len(gaps) // 4] >= STEADY * usual and usual >= WEIGHT * period
    if usual < PLAIN_S and not (usual >= LEAST_S and len(gaps) >= FEW and steady):
        return None
    line = next((call.line for call in last if call.rank == rank), None)
    own = next(call.entered for call in steps[0] if call.rank == rank)
    at_first = own - max(call.entered for call in steps[0] if call.rank != rank) >= STEADY * usual
    return Late(rank, usual, times + at_first, line)   # the first proves nothing, and is waited in as well


@dataclass(frozen=True)
class Moving:
    """When the launch was stopped, its collectives still went on: `count` of them were complete, the last one
    `ago` seconds before. `late` is the rank that the others waited for each time, if there is one.
    """

    count: int
    ago: float
    late: Late | None


def moving(run: Run) -> Moving | None:
    """Whether a launch that had to be stopped still went on, slowly: the time since its last collective is
    none that it had not taken between two of them before, or before the first. None for a hang.
    """
    if life.subgroups(run):
        return None
    found: list[Moving] = []
    for source in ("mark", "flight_recorder"):
        marks = {rank: _group_calls(run, rank) for rank in evidence.world(run)}
        steps = completed_steps(run, marks if source == "mark" else _torchs(run))
        joined = [one.joined for rank in evidence.world(run) for one in life.groups(run, rank)[-1:]]
        if not steps or (len(steps) < 4 and (not joined or None in joined)):
            continue
        entries = [max(call.entered for call in step) for step in steps]
        if len(steps) < 4:   # too few to leave out the first
            entries.insert(0, max(one for one in joined if one is not None))
        usual = max(after - before for before, after in itertools.pairwise(entries[-MOST_STEPS:]))
        ago = run.request.time_limit_s - max(call.returned or call.entered for call in steps[-1])
        if ago <= PATIENCE * usual:
            found.append(Moving(len(steps), max(ago, 0.0), _last_to_come(steps, run)))
    return max(found, key=lambda one: (one.late is not None, one.count), default=None)


PATIENCE = 1.5     # of the longest time between two of the last collectives
MOST_STEPS = 50


def _group_calls(run: Run, rank: int) -> list[Collective]:
    """The calls that every rank must make alike; one refused at once (bad argument) never met the others."""
    return [
        call for call in evidence.calls(run, rank)
        if evidence.name(call.op) not in evidence.POINT_TO_POINT
        and (call.error is None or evidence.WAITING.search(call.error)
             or "preamble" in call.error or "mismatch" in call.error)
    ]
