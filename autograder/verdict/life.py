"""The life cycle of the process groups, as each rank's record tells it."""

from __future__ import annotations

from dataclasses import dataclass

from autograder.launch.run import Event, Run
from autograder.verdict import evidence


@dataclass(frozen=True)
class Group:
    """One default process group on one rank, from `init_process_group` to `destroy_process_group`.

    Times are the Run's. `joined` None: the rank never came back from init; `left` None: it never destroyed
    the group. `lines` are those of the two calls.
    """

    rank: int
    asked: float
    joined: float | None = None
    left: float | None = None
    backend: str = ""
    world_size: int = 0
    lines: tuple[int | None, int | None] = (None, None)


def groups(run: Run, rank: int) -> list[Group]:
    """The rank's default process groups, in order (one, in most scripts)."""
    found: list[Group] = []
    for event in _events(run, rank):
        if event.name == "init-enter":
            found.append(Group(rank, event.at, lines=(event.line, None)))
        elif event.name == "init" and found:
            backend, size = event.detail.get("backend"), event.detail.get("world_size")
            found[-1] = Group(
                rank, found[-1].asked, event.at, None, backend if isinstance(backend, str) else "",
                size if isinstance(size, int) else 0, found[-1].lines)
        elif event.name == "destroy" and found and found[-1].joined is not None:
            last = found[-1]
            found[-1] = Group(
                rank, last.asked, last.joined, event.at, last.backend, last.world_size,
                (last.lines[0], event.line))
    return found


def subgroups(run: Run) -> set[tuple[int, ...]]:
    """The ranks of each group that some rank made with `new_group` and that leaves out a rank; () where the
    record does not say which.

    A group of all ranks asks of them what the default one does: the same calls in the same order.
    """
    found: set[tuple[int, ...]] = set()
    for event in run.events:
        if event.name == "new_group":
            ranks = event.detail.get("ranks", ())
            if ranks is None:   # as torch reads it: all of them
                continue
            members = tuple(sorted(rank for rank in ranks if isinstance(rank, int)))
            if members != tuple(evidence.world(run)):
                found.add(members)
    return found


def alive(run: Run, rank: int, at: float) -> bool | None:
    """Whether `rank` had a default group at that time; None where its record knows of none at all."""
    told = groups(run, rank)
    if not told:
        return None
    return any(
        one.joined is not None and one.joined <= at and (one.left is None or at < one.left) for one in told)


def last_event(run: Run, rank: int) -> str:
    """The name of the last event of `rank`, "" where there is none."""
    return next((event.name for event in reversed(_events(run, rank))), "")


def _events(run: Run, rank: int) -> list[Event]:
    return sorted((event for event in run.events if event.rank == rank), key=lambda event: event.at)
