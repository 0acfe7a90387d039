"""What the record tells of a script's GPU branch: backend, devices, device_ids, clock.

Pure functions of a Run. The GPUs are simulated (`Run.request.gpus`) or real; the record is the same. What the
simulation does not follow is told by `unknown`: then nothing that is missing proves a mistake.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from autograder.launch.run import Event, Run
from autograder.verdict import evidence

# How a collective on a GPU was timed, from the best.
EVENTS = "events"                            # CUDA events around it, waited for
EVENTS_NOT_WAITED = "events-not-waited"      # read before the GPU was done: an error
HOST_WAITED = "host-waited"                  # a host clock, with a synchronisation before it was read again
HOST = "host"                                # a host clock alone: the launch was timed, not the work

_CRASHES = (-4, -6, -7, -8, -11)


def simulated(run: Run) -> bool:
    return bool(run.request.gpus)


def local_rank(run: Run, rank: int) -> int:
    return rank % run.request.nproc


def backend(run: Run, rank: int) -> str | None:
    """What does the rank's collectives on GPU tensors, else on any: "nccl", "gloo"… None without a group."""
    asked = _last(run, rank, "cuda_backend")
    if asked is not None and _last(run, rank, "init") is not None:
        return str(asked.detail.get("cuda") or asked.detail.get("cpu"))
    group = _last(run, rank, "init")
    return None if group is None else str(group.detail.get("backend"))


def devices(run: Run, rank: int) -> frozenset[int]:
    """The machine's indices of the GPUs whose tensors the rank gave to collectives and to DDP."""
    found: set[int] = set()
    for event in _events(run, rank, "cuda_collective"):
        found |= set(_ints([event.detail.get("device")]))
    for event in _events(run, rank, "cuda_ddp"):
        found |= set(_ints(event.detail.get("devices")))
    return frozenset(found)


def device_ids(run: Run, rank: int) -> list[int] | None:
    """DDP's device_ids for the last model on a GPU, [] when none were given; None without such a model."""
    wrapped = _last(run, rank, "cuda_ddp")
    return None if wrapped is None else _ints(wrapped.detail.get("device_ids"))


def device_ids_fit(run: Run, rank: int) -> bool:
    """The device_ids name the GPU on which the model is."""
    wrapped = _last(run, rank, "cuda_ddp")
    given = device_ids(run, rank)
    return wrapped is not None and bool(given) and given == _ints(wrapped.detail.get("index"))


def uses_gpu(run: Run, rank: int) -> bool:
    """The rank gave a GPU's tensor to a collective or to DDP, or built a CUDA event."""
    return any(_events(run, rank, name) for name in ("cuda_collective", "cuda_ddp", "cuda_event"))


def clock(run: Run, rank: int, op: str = "all_reduce") -> str | None:
    """How the rank timed an `op` on a GPU tensor: EVENTS, EVENTS_NOT_WAITED, HOST_WAITED, HOST, None."""
    calls = [
        event.at for event in _events(run, rank, "cuda_collective")
        if evidence.name(str(event.detail.get("op"))) == op
    ]
    found = _by_events(run, rank, calls)
    if found is None and calls:
        found = _by_host(run, rank, calls)
    return found


def _by_events(run: Run, rank: int, calls: list[float]) -> str | None:
    best = None
    for read in _events(run, rank, "cuda_elapsed"):
        start, end = (_recorded(run, rank, read.detail.get(name), read.at) for name in ("start", "end"))
        if start is not None and end is not None and any(start <= at <= end for at in calls):
            if read.detail.get("ready"):
                return EVENTS
            best = EVENTS_NOT_WAITED
    return best


def _recorded(run: Run, rank: int, event: Any, before: float) -> float | None:
    times = [
        one.at for one in _events(run, rank, "cuda_record")
        if one.detail.get("event") == event and one.at <= before
    ]
    return times[-1] if times else None


def _by_host(run: Run, rank: int, calls: list[float]) -> str | None:
    """A clock read before and after one of the calls, with no other call between."""
    reads = [event.at for event in _events(run, rank, "host_clock")]
    waits = [event.at for event in _events(run, rank, "cuda_sync")]
    found = None
    for index, at in enumerate(calls):
        previous = calls[index - 1] if index else 0.0
        following = calls[index + 1] if index + 1 < len(calls) else float("inf")
        before = [read for read in reads if previous < read <= at]
        after = [read for read in reads if at < read < following]
        if before and after:
            if any(at < wait <= after[0] for wait in waits):
                return HOST_WAITED
            found = HOST
    return found


def unknown(run: Run) -> tuple[str, ...]:
    """What the script did that the simulated GPUs do not follow; empty for a launch without them."""
    if not simulated(run):
        return ()
    found = [str(event.detail.get("what")) for event in run.events if event.name == "cuda_unknown"]
    found += [
        f"signal {-log.exit_code}" for log in run.ranks
        if log.exit_code in _CRASHES and not log.reached_end and log.exit_code is not None
    ]
    return tuple(dict.fromkeys(found))


def _events(run: Run, rank: int, name: str) -> list[Event]:
    found = (one for one in run.events if one.rank == rank and one.name == name)
    return sorted(found, key=lambda one: one.at)


def _last(run: Run, rank: int, name: str) -> Event | None:
    found = _events(run, rank, name)
    return found[-1] if found else None


def _ints(values: Any) -> list[int]:
    """What stands in the record comes from the student's process: anything may be there."""
    items: Iterable[Any] = values if isinstance(values, list | tuple) else []
    return [item for item in items if isinstance(item, int) and not isinstance(item, bool)]
