"""The life of each rank as a picture needs it: spans of time, what they were spent on, and who never came.

Plain data of a bounded size, whatever the launch: it is kept with a test's result, and drawn by report/.
Times are seconds from `Timeline.start`, all on the clock of the one machine that ran the ranks.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

MOST_LANES = 8
MOST_SPANS = 160     # of one lane; shorter ones are drawn together
FINEST = 400         # parts of the picture's length: what is shorter is drawn together with its neighbours

BUSY, WAIT, MEET, ASLEEP = "busy", "wait", "meet", "asleep"
KINDS = (BUSY, WAIT, MEET, ASLEEP)
INIT = "init_process_group"


@dataclass(frozen=True)
class Span:
    """`wait`: inside `op`, for `ranks` (empty: not known); `meet`: the exchange itself, once all are there;
    `asleep`: in a sleep; `busy`: anything else. `line` of the script. `count`: collectives drawn as one.
    """

    kind: str
    start: float
    end: float
    op: str = ""
    line: int | None = None
    ranks: tuple[int, ...] = ()
    count: int = 0

    @property
    def length(self) -> float:
        return self.end - self.start


@dataclass(frozen=True)
class Missing:
    """At `at` the others stood in `op`, which this lane's rank never entered; `ranks` waited for it there."""

    at: float
    op: str
    ranks: tuple[int, ...] = ()


@dataclass(frozen=True)
class Lane:
    """One rank. `end` is how it ended, at `ended_at`: "ended", "failed" (an exception), "killed" (a signal),
    "stopped" (by the launcher or at the time limit, still running). `waited`: seconds in all, also of the
    waits that are too short to be drawn.
    """

    rank: int
    spans: tuple[Span, ...] = ()
    waited: float = 0.0
    end: str = "ended"
    ended_at: float = 0.0
    missing: Missing | None = None

    @property
    def last(self) -> Span | None:
        return self.spans[-1] if self.spans else None


@dataclass(frozen=True)
class Timeline:
    """`start`: when the picture begins, in seconds after the launch did. `formed`: that is when the process
    group was formed. `more`: ranks that are not drawn. `matched`: the ranks' collectives could be put face to
    face, so that a wait has a culprit.
    """

    start: float
    length: float
    lanes: tuple[Lane, ...] = ()
    formed: bool = True
    more: int = 0
    matched: bool = True
    timed_out: bool = False
    collectives: int = 0

    @property
    def telling(self) -> bool:
        """Whether there is something to see: a rank that never came, or a wait that counts."""
        return any(lane.missing or self.waits(lane) for lane in self.lanes)

    def waits(self, lane: Lane) -> bool:
        """Whether this lane's rank lost a time worth telling: 50 ms, and a twentieth of the picture."""
        return lane.waited >= max(0.05, self.length / 20)

    # -- as plain data -------------------------------------------------------------------------------------

    def as_dict(self) -> dict[str, Any]:
        return {
            "start": round(self.start, 3), "length": round(self.length, 4), "formed": self.formed,
            "more": self.more, "matched": self.matched, "timed_out": self.timed_out,
            "collectives": self.collectives, "lanes": [_lane_out(lane) for lane in self.lanes],
        }

    @classmethod
    def from_dict(cls, data: Any) -> Timeline | None:
        """None for anything that `as_dict` did not write."""
        try:
            lanes = tuple(_lane_in(lane) for lane in data["lanes"][:MOST_LANES])
            return cls(
                start=_time(data["start"]), length=max(_time(data["length"]), 1e-3), lanes=lanes,
                formed=bool(data["formed"]), more=int(data["more"]), matched=bool(data["matched"]),
                timed_out=bool(data["timed_out"]), collectives=int(data["collectives"]),
            )
        except (KeyError, TypeError, ValueError, IndexError, OverflowError):
            return None


def _lane_out(lane: Lane) -> dict[str, Any]:
    told: dict[str, Any] = {
        "rank": lane.rank, "waited": round(lane.waited, 4), "end": lane.end,
        "ended_at": round(lane.ended_at, 4),
        "spans": [
            [s.kind, round(s.start, 4), round(s.end, 4), s.op, s.line, list(s.ranks), s.count]
            for s in lane.spans
        ],
    }  # fmt: skip
    if lane.missing is not None:
        told["missing"] = [round(lane.missing.at, 4), lane.missing.op, list(lane.missing.ranks)]
    return told


def _lane_in(data: dict[str, Any]) -> Lane:
    spans = tuple(
        Span(
            kind if kind in KINDS else BUSY, _time(start), _time(end), _word(op),
            None if line is None else int(line), tuple(int(rank) for rank in ranks[:MOST_LANES]), int(count),
        )
        for kind, start, end, op, line, ranks, count in data["spans"][:MOST_SPANS]
    )  # fmt: skip
    missing = None
    if data.get("missing"):
        at, op, ranks = data["missing"]
        missing = Missing(_time(at), _word(op), tuple(int(rank) for rank in ranks[:MOST_LANES]))
    return Lane(
        int(data["rank"]), spans, _time(data["waited"]), _word(data["end"]), _time(data["ended_at"]), missing)


def _time(value: Any) -> float:
    number = float(value)
    if not math.isfinite(number):
        raise ValueError(value)
    return number


def _word(value: Any) -> str:
    return str(value)[:40]


# -- few enough to draw ------------------------------------------------------------------------------------


def drawn_together(spans: list[Span], length: float) -> tuple[Span, ...]:
    """`spans`, in order, with those too short to be seen put together: at most MOST_SPANS."""
    finest = length / FINEST
    while True:
        merged = _merged(spans, finest)
        if len(merged) <= MOST_SPANS:
            return tuple(merged)
        finest *= 2


def _merged(spans: list[Span], finest: float) -> list[Span]:
    made: list[Span] = []
    small: list[Span] = []

    def flush() -> None:
        if small:
            made.append(_together(small))
            small.clear()

    for span in spans:
        if span.length >= finest:
            flush()
            made.append(span)
        else:
            small.append(span)
            if span.end - small[0].start >= finest:
                flush()
    flush()
    return made


def _together(small: list[Span]) -> Span:
    """One span for several: what most of the time went to."""
    if len(small) == 1:
        return small[0]
    spent = {kind: sum(span.length for span in small if span.kind == kind) for kind in KINDS}
    kind = max(KINDS, key=lambda one: spent[one])
    ops = [span.op for span in small if span.op]
    count = sum(max(span.count, span.kind in (WAIT, MEET)) for span in small)
    same = [span for span in small if span.kind == kind]
    ranks = same[0].ranks if same and all(span.ranks == same[0].ranks for span in same) else ()
    op = ops[0] if kind in (WAIT, MEET) and len(set(ops)) == 1 else ""
    return Span(kind, small[0].start, small[-1].end, op, None, ranks, count)
