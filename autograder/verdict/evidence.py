"""What the record of a launch proves: which collectives ran, on which ranks, with which values.

Two records stand in a Run: our own marks around the Python calls (line, values, return) and PyTorch's Flight
Recorder (also sees what DDP does inside). A call's completion is our mark's return, or, in the Flight
Recorder, a later collective on that rank or the rank's normal end.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence

from autograder.launch.run import Collective, Run

POINT_TO_POINT = frozenset({"send", "recv", "isend", "irecv", "batch_isend_irecv"})
# Not proof of communication of data: they carry none.
NO_DATA = frozenset({"barrier", "monitored_barrier"})
REDUCTIONS = frozenset({"all_reduce", "reduce", "reduce_scatter", "reduce_scatter_tensor"})
# Same shape and dtype expected on every rank.
UNIFORM = frozenset({
    "all_reduce", "reduce", "broadcast", "all_gather", "all_gather_into_tensor", "reduce_scatter",
    "reduce_scatter_tensor",
})
_ALIASES = {
    "allreduce": "all_reduce", "allgather": "all_gather", "_all_gather_base": "all_gather_into_tensor",
    "_allgather_base": "all_gather_into_tensor", "all_gather_base": "all_gather_into_tensor",
    "_reduce_scatter_base": "reduce_scatter_tensor", "allreduce_coalesced": "all_reduce",
    "all_reduce_coalesced": "all_reduce", "alltoall": "all_to_all", "alltoall_base": "all_to_all_single",
}
# A rank that raised one of these was waiting for another one: it is the victim, never the cause.
WAITING = re.compile(
    r"Timed out waiting|Connection closed by peer|Connection reset by peer|Broken pipe|Read error|"
    r"monitoredBarrier|received errors while waiting|Application timeout caused pair closure|"
    r"Connection was likely closed|recvValue failed|sendBytes failed",
    re.IGNORECASE,
)


def name(op: str) -> str:
    """`gloo:all_reduce` and `allreduce` are `all_reduce`."""
    op = op.rsplit(":", 1)[-1].strip().lower()
    return _ALIASES.get(op, op)


def world(run: Run) -> range:
    return range(run.request.world_size)


def recorded(run: Run) -> bool:
    """True when a recorder was alive in some rank: only then is an absent collective proof of absence."""
    return bool(run.collectives) or any(event.name != "tampered" for event in run.events)


def calls(run: Run, rank: int, source: str = "mark") -> list[Collective]:
    """The rank's collectives of one record, in order."""
    found = [c for c in run.collectives if c.rank == rank and c.source == source]
    return sorted(found, key=lambda c: (c.entered, c.seq))


def ops(run: Run, rank: int | None = None) -> Counter[str]:
    """How often each collective was called (marks; the Flight Recorder only for what no mark shows)."""
    ranks = world(run) if rank is None else [rank]
    total: Counter[str] = Counter()
    for one in ranks:
        total.update(name(c.op) for c in calls(run, one))
        total.update(name(c.op) for c in internal(run, one))
    return total


def completed(run: Run, call: Collective) -> bool:
    if call.error is not None:
        return False
    if call.returned is not None:
        return True
    if call.source == "mark":
        return False
    log = run.rank(call.rank)
    if log is not None and (log.reached_end or log.exit_code == 0):
        return True
    return any(other.rank == call.rank and other.entered > call.entered for other in run.collectives)


def ran(
    run: Run, op: str | Sequence[str] | None = None, ranks: Iterable[int] | None = None,
    numel: int | None = None, at_least: int = 1,
) -> bool:
    """True when each of `ranks` (every rank by default) completed `at_least` such collectives.

    `op` None accepts any collective that carries data (a barrier does not).
    """
    wanted = world(run) if ranks is None else ranks
    return all(len(matching(run, op, rank, numel)) >= at_least for rank in wanted)


def did(
    run: Run, op: str | Sequence[str] | None, rank: int, numel: int | None,
    values: Sequence[Sequence[float]] | None,
) -> bool:
    """True when `rank` completed such a collective whose result, where `values` are given, is one."""
    found = matching(run, op, rank, numel)
    if values is None:
        return bool(found)
    return any(same(result, one) for call in found for result in given(run, call) for one in values)


def brought_own(run: Run, op: str, own: Sequence[Sequence[float]]) -> bool:
    """True when each rank completed such a collective, into which it put its own values (flat, one item of
    `own` per rank): a total made without the other rank may come out of a collective too, that of a decoy.

    Where no values were recorded, nothing is held against the rank.
    """
    return all(
        any(call.values_in is None or same(call.values_in, own[rank]) for call in matching(run, op, rank))
        for rank in world(run)
    )


def given(run: Run, call: Collective) -> list[Sequence[float]]:
    """What this call may have given: what was recorded, or, where it only started (`async_op`), what follows
    from what the ranks brought to it (a broadcast's source is not recorded: one result per rank).
    """
    if call.values_out is not None:
        return [call.values_out]
    if call.source != "mark":
        return []
    alike = {
        rank: [c for c in calls(run, rank) if (name(c.op), c.numel) == (name(call.op), call.numel)]
        for rank in world(run)
    }
    turn = alike[call.rank].index(call)
    met = [each[turn] for each in alike.values() if turn < len(each)]
    brought = [other.values_in for other in met if other.values_in is not None]
    if len(brought) < len(alike):
        return []
    if name(call.op) == "broadcast":
        return list(brought)
    if name(call.op) != "all_reduce" or call.reduce_op not in ("sum", "avg"):
        return []
    share = len(alike) if call.reduce_op == "avg" else 1
    return [[sum(column) / share for column in zip(*brought, strict=True)]]


def matching(
    run: Run, op: str | Sequence[str] | None = None, rank: int | None = None, numel: int | None = None,
) -> list[Collective]:
    """The completed collectives of `rank` (None: all) with that name and size; each call once."""
    wanted = {op} if isinstance(op, str) else set(op) if op is not None else None
    found = []
    for one in world(run) if rank is None else [rank]:
        for call in [*calls(run, one), *internal(run, one)]:
            named = name(call.op) in wanted if wanted is not None else name(call.op) not in NO_DATA
            if named and (numel is None or call.numel == numel) and completed(run, call):
                found.append(call)
    return found


def internal(run: Run, rank: int) -> list[Collective]:
    """What the Flight Recorder saw and no mark shows: collectives made inside torch, by DDP for instance."""
    marks = [c for c in calls(run, rank) if c.error is None or WAITING.search(c.error)]
    used: set[int] = set()
    left = []
    for record in calls(run, rank, "flight_recorder"):
        twin = next((
            index for index, mark in enumerate(marks)
            if index not in used and name(mark.op) == name(record.op)
            and mark.entered - 0.05 <= record.entered
            and (mark.returned is None or record.entered <= mark.returned + 0.05)
        ), None)
        if twin is None:
            left.append(record)
        else:
            used.add(twin)
    return left


def reductions(run: Run, rank: int | None = None) -> list[Collective]:
    """The completed reductions whose result was recorded (tensors of at most 64 elements)."""
    return [c for c in matching(run, tuple(REDUCTIONS), rank) if c.values_out is not None]


def ddp_ran(run: Run) -> bool:
    """True when every rank wrapped a model in DDP and DDP itself reduced gradients there."""
    return all(
        any(event.rank == rank and event.name == "ddp" for event in run.events)
        and any(name(c.op) == "all_reduce" and completed(run, c) for c in internal(run, rank))
        for rank in world(run)
    )


def is_mean_of_local_gradients(run: Run, values: object, tolerance: float = 1e-5) -> bool:
    """True when `values` (nested or flat) is the mean over ranks of one parameter's local gradients."""
    wanted = flatten(values)
    by_name: dict[str, dict[int, list[tuple[float, ...]]]] = {}
    for gradient in sorted(run.gradients, key=lambda g: g.at):
        by_name.setdefault(gradient.name, {}).setdefault(gradient.rank, []).append(gradient.values)
    for per_rank in by_name.values():
        if set(per_rank) != set(world(run)):
            continue
        for step in zip(*per_rank.values(), strict=False):
            mean = [sum(column) / len(step) for column in zip(*step, strict=False)]
            if same(wanted, mean, tolerance):
                return True
    return False


def inside(run: Run) -> dict[int, Collective]:
    """For each rank that entered a collective and never came back: that collective."""
    found = {}
    for rank in world(run):
        marks = calls(run, rank)
        if marks and marks[-1].returned is None and marks[-1].error is None:
            found[rank] = marks[-1]
    return found


def blocked(run: Run) -> dict[int, Collective]:
    """`inside`, and the ranks whose last collective raised because another rank was not there."""
    found = inside(run)
    for rank in world(run):
        marks = calls(run, rank)
        if marks and marks[-1].error is not None and WAITING.search(marks[-1].error):
            found[rank] = marks[-1]
    return found


def stranded(run: Run, rank: int) -> bool:
    """`rank` entered a collective that another rank never completed, and gave up waiting: also where the call
    was asynchronous, and only the wait raised.
    """
    log = run.rank(rank)
    said = f"{log.stderr}\n{log.stdout}" if log is not None else f"{run.stderr}\n{run.launcher_stderr}"
    left = any(call.rank == rank and not completed(run, call) for call in run.collectives)
    return left and WAITING.search(said) is not None


def flatten(values: object) -> list[float]:
    if isinstance(values, bool) or values is None:
        return []
    if isinstance(values, int | float):
        return [float(values)]
    if isinstance(values, list | tuple):
        return [number for value in values for number in flatten(value)]
    return []


def same(first: Sequence[float], second: Sequence[float], tolerance: float = 1e-5) -> bool:
    return len(first) == len(second) > 0 and all(
        abs(a - b) <= tolerance * max(1.0, abs(a), abs(b)) for a, b in zip(first, second, strict=True)
    )
