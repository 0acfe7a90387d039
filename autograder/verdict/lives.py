"""From a Run to its timeline: what each rank spent its time on, by the record of its collectives.

The ranks' collectives are put face to face in the order in which each rank called them: until the last rank
has entered, the others wait for it. A rank that never entered is missing there. Nothing here is a guess:
where the calls cannot be put face to face, a call is drawn as a wait for nobody in particular.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

from autograder.launch.run import Collective, Run, Stack
from autograder.verdict import evidence
from autograder.verdict.timeline import (
    ASLEEP,
    BUSY,
    INIT,
    MEET,
    MOST_LANES,
    WAIT,
    Lane,
    Missing,
    Span,
    Timeline,
    drawn_together,
)

SLEEPS = ("delay", "sleep")   # events that say how long the rank then sleeps
KILLED = range(-64, 0)
SIGTERM = -15
MOST_CALLS = 4_000            # of one rank; the record keeps fewer
MOST_RANKS = 64               # looked at: the picture's lanes are the first MOST_LANES of them


@dataclass
class _Life:
    """One rank's moments, in seconds after the launch started."""

    rank: int
    born: float
    init_enter: float | None
    init: float | None
    calls: list[Collective]
    last: float                 # the last thing that is known of it
    error: float | None
    sleeps: list[tuple[float, float]]
    stack: Stack | None
    end: str = "ended"
    ended_at: float = 0.0


def timeline(run: Run) -> Timeline | None:
    """The picture of this launch; None where no rank told of a group or of a collective."""
    world = min(run.request.world_size, MOST_RANKS)
    lives = [life for rank in range(world) if (life := _life(run, rank)) is not None]
    if not any(life.calls or life.init_enter is not None for life in lives):
        return None
    stop = _ends(run, lives)
    formed = [life.init for life in lives if life.init is not None]
    entering = [life.init_enter for life in lives if life.init_enter is not None]
    start = min(formed or entering or [life.born for life in lives])
    if stuck := [life.init_enter for life in lives if life.init is None and life.init_enter is not None]:
        start = min([start, *stuck])   # a rank that hangs there is what there is to see
    length = max(stop - start, 1e-3)
    matched = not any(event.name == "new_group" for event in run.events)
    meetings = _meetings(lives) if matched else {}
    shown = []
    for life in lives:
        missing = _missing(life, lives, meetings) if matched else None
        spans = [
            replace(span, start=max(span.start - start, 0.0), end=min(span.end - start, length))
            for span in _spans(life, lives, meetings, bool(formed))
            if span.end > start
        ]  # fmt: skip
        spans = [span for span in spans if span.end > span.start]
        waited = math.fsum(span.length for span in spans if span.kind == WAIT)
        if missing is not None:
            missing = replace(missing, at=min(max(missing.at - start, 0.0), length))
        shown.append(Lane(
            life.rank, drawn_together(spans, length), waited, life.end,
            min(max(life.ended_at - start, 0.0), length), missing,
        ))  # fmt: skip
    # Of many ranks, those that something happened to.
    chosen = sorted(shown, key=lambda lane: (lane.missing is None, -lane.waited))[: MOST_LANES]
    kept = shown[:MOST_LANES] if len(shown) <= MOST_LANES else sorted(chosen, key=lambda lane: lane.rank)
    return Timeline(
        start=start, length=length, lanes=tuple(kept), formed=bool(formed) and start == min(formed),
        more=run.request.world_size - len(kept), matched=matched, timed_out=run.timed_out,
        collectives=sum(len(life.calls) for life in lives),
    )


# -- one rank ----------------------------------------------------------------------------------------------


def _life(run: Run, rank: int) -> _Life | None:
    events = sorted((event for event in run.events if event.rank == rank and event.name != "tampered"),
                    key=lambda event: event.at)
    calls = _calls(run, rank)
    if not events and not calls:
        return None
    at = {event.name: event.at for event in reversed(events)}   # the first of each name
    moments = [event.at for event in events]
    moments += [moment for call in calls for moment in (call.entered, call.returned) if moment is not None]
    sleeps = []
    for event in events:
        seconds = event.detail.get("seconds")
        if event.name in SLEEPS and isinstance(seconds, int | float) and 0 < seconds < math.inf:
            sleeps.append((event.at, event.at + float(seconds)))
    return _Life(
        rank, min(moments), at.get("init-enter"), at.get("init"), calls, max(moments), at.get("exception"),
        sleeps, next((stack for stack in run.stacks if stack.rank == rank), None),
    )  # fmt: skip


def _calls(run: Run, rank: int) -> list[Collective]:
    """The rank's calls; what DDP does inside only where the Flight Recorder of every rank was kept."""
    calls = evidence.calls(run, rank)
    recorded = {call.rank for call in run.collectives if call.source == "flight_recorder"}
    marked = {call.rank for call in run.collectives if call.source == "mark"}
    if recorded >= marked and len(recorded) == run.request.world_size:
        calls = sorted([*calls, *evidence.internal(run, rank)], key=lambda call: call.entered)
    return [call for call in calls if math.isfinite(call.entered)][:MOST_CALLS]


def _ends(run: Run, lives: list[_Life]) -> float:
    """How and when each rank ended, put into `lives`; when the picture ends."""
    errors = [life.error for life in lives if life.error is not None]
    stop = max(life.last for life in lives)
    if run.timed_out:
        stop = max(stop, min(run.request.time_limit_s, run.duration_s))
    for life in lives:
        log = run.rank(life.rank)
        code = log.exit_code if log is not None else None
        if life.error is not None:
            life.end, life.ended_at = "failed", life.error
        elif log is not None and (log.reached_end or code == 0):
            life.end, life.ended_at = "ended", life.last
        elif code in KILLED and code != SIGTERM and not run.timed_out:
            # Nobody noted the moment; the others' connections broke then.
            after = [error for error in errors if error >= life.last]
            life.end, life.ended_at = "killed", min(after, default=life.last)
        elif run.timed_out or code == SIGTERM or run.output_limited:
            life.end, life.ended_at = "stopped", stop
        elif code:
            life.end, life.ended_at = "failed", life.last
        else:
            life.end, life.ended_at = "ended", life.last
    return max(stop, *(life.ended_at for life in lives))


# -- the ranks together ------------------------------------------------------------------------------------

Meetings = dict[int, dict[int, tuple[Collective, ...]]]   # rank, number of its call: the calls it meets there


def _meets(call: Collective) -> bool:
    """Whether this call is one that every rank makes."""
    if evidence.name(call.op) in evidence.POINT_TO_POINT:
        return False
    return call.error is None or evidence.WAITING.search(call.error) is not None


def _meetings(lives: list[_Life]) -> Meetings:
    """Which calls of the ranks stand face to face; none from the first place on where they differ in name."""
    sequences = {
        life.rank: [(number, call) for number, call in enumerate(life.calls) if _meets(call)]
        for life in lives
    }  # fmt: skip
    found: Meetings = {rank: {} for rank in sequences}
    for place in itertools.count():
        here = {rank: seq[place] for rank, seq in sequences.items() if len(seq) > place}
        if not here or len({evidence.name(call.op) for _, call in here.values()}) > 1:
            return found
        calls = tuple(call for _, call in here.values())
        for rank, (number, _) in here.items():
            found[rank][number] = calls
    return found


def _missing(life: _Life, lives: list[_Life], meetings: Meetings) -> Missing | None:
    """The collective in which others stood at their end, and which this rank never entered."""
    waiting: list[tuple[float, str, int]] = []
    for other in lives:
        if other is life or not other.calls:
            continue
        number = len(other.calls) - 1
        last = other.calls[number]
        faced = meetings.get(other.rank, {}).get(number)
        if faced is None or all(call.rank != other.rank for call in faced) or _came_back(last, other):
            continue
        if all(call.rank != life.rank for call in faced):
            waiting.append((last.entered, evidence.name(last.op), other.rank))
    if not waiting:
        return None
    first = min(waiting)
    return Missing(first[0], first[1], tuple(sorted(rank for _, op, rank in waiting if op == first[1])))


def _came_back(call: Collective, life: _Life) -> bool:
    if call.returned is not None:
        return True
    if call.error is not None or life.end == "stopped":
        return False
    return call.source == "flight_recorder" and life.end == "ended"


def _spans(life: _Life, lives: list[_Life], meetings: Meetings, formed: bool) -> Iterable[Span]:
    """The rank's whole life, from its birth to its end, without a hole. `formed`: some rank came out of the
    group's making: that others came out a little later is nobody's wait.
    """
    spans: list[Span] = []
    now = life.born
    if life.init_enter is not None:
        spans += _gap(life, now, life.init_enter)
        now = life.init if life.init is not None else life.ended_at
        made = formed and life.init is not None
        spans.append(Span(BUSY, life.init_enter, now) if made else Span(WAIT, life.init_enter, now, INIT))
    every = {one.rank for one in lives}
    for number, call in enumerate(life.calls):
        if call.entered < now:
            continue   # inside another one
        following = life.calls[number + 1].entered if number + 1 < len(life.calls) else life.ended_at
        spans += _gap(life, now, call.entered)
        now = _call(spans, call, following, every, meetings.get(life.rank, {}).get(number))
    spans += _gap(life, now, life.ended_at, last=True)
    return spans


def _call(
    spans: list[Span], call: Collective, following: float, every: set[int],
    faced: tuple[Collective, ...] | None,
) -> float:  # fmt: skip
    """Add one collective: the wait for the last rank, then the exchange. The moment it was over."""
    name = evidence.name(call.op)
    if faced is None:
        end = call.returned if call.returned is not None else following
        spans.append(Span(WAIT, call.entered, end, name, call.line))
        return end
    absent = tuple(sorted(every - {other.rank for other in faced}))
    arrival = max(other.entered for other in faced)
    if absent:
        end = call.returned if call.returned is not None else following
        spans.append(Span(WAIT, call.entered, end, name, call.line, absent))
        return end
    # The Flight Recorder notes no return: it was over once all were there, before the rank's next call.
    end = call.returned if call.returned is not None else min(arrival, following)
    if call.error is not None:
        end = following
    last = tuple(other.rank for other in faced if other.entered == arrival)
    everyone = min(max(arrival, call.entered), end)
    if everyone > call.entered:
        spans.append(Span(WAIT, call.entered, everyone, name, call.line, last))
    spans.append(Span(MEET, everyone, end, name, call.line, count=1))
    return end


def _gap(life: _Life, start: float, end: float, last: bool = False) -> list[Span]:
    """What a rank did outside collectives: busy, but where it is known to have slept."""
    if end <= start:
        return []
    line = None
    if last and life.stack is not None:
        where, line = standing(life.stack)
        if where is not BUSY:
            return [Span(where, start, end, "" if where is ASLEEP else "wait", line)]
    spans: list[Span] = []
    for begins, ends in life.sleeps:
        begins, ends = max(begins, start), min(ends, end)
        if ends > begins:
            spans += [Span(BUSY, start, begins)] if begins > start else []
            spans.append(Span(ASLEEP, begins, ends))
            start = ends
    return [*spans, Span(BUSY, start, end, line=line)] if end > start else spans


def standing(stack: Stack) -> tuple[str, int | None]:
    """What a rank was at where its stack was taken, and on which line of the script."""
    own = [frame for frame in stack.frames if frame.code]
    line = own[-1].line if own else None
    if not stack.frames:
        return BUSY, None
    inner = stack.frames[-1]
    if "sleep" in inner.function or (inner.code and "sleep(" in inner.code):
        return ASLEEP, line
    if inner.function == "wait" or ".wait(" in inner.code:
        return WAIT, line
    return BUSY, line
