"""What a timeline says in words: durations, the sentences under the picture, the marks of its axis.

The picture is drawn twice, as SVG (timeline_svg.py) and as text (timeline_text.py); both say the same.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence

from autograder.launch.run import Run
from autograder.messages import has, number, plural, text
from autograder.verdict import lives
from autograder.verdict.timeline import ASLEEP, INIT, WAIT, Lane, Span, Timeline

MOST_WAITS = 3   # told in a sentence; the picture has them all


def of(run: Run) -> Timeline | None:
    """The timeline of a launch; None where there is none to draw."""
    return lives.timeline(run) if run.infra is None else None


def duration(seconds: float) -> str:
    """« 300 ms », « 1,52 s », « 17 s »."""
    if seconds < 0.9995:
        digits = 1 if seconds < 0.00995 else 0
        return text("timeline.milliseconds", ms=number(seconds * 1000, digits))
    return text("timeline.seconds", s=number(seconds, 2 if seconds < 10 else 1 if seconds < 100 else 0))


def origin(line: Timeline) -> str:
    return text("timeline.origin-formed" if line.formed else "timeline.origin", start=duration(line.start))


def waited(line: Timeline, lane: Lane) -> str:
    """What stands at the end of a lane: how long this rank waited in all."""
    if lane.missing is not None and not line.waits(lane):
        return text("timeline.never")
    return text("timeline.waited", time=duration(lane.waited)) if line.waits(lane) else ""


def end_word(lane: Lane) -> str:
    return text(f"timeline.{lane.end}") if has(f"timeline.{lane.end}") else ""


def op(span_op: str) -> str:
    """A collective's name as it may be shown: it comes from the student's process."""
    return re.sub(r"[^\w.:-]", "", span_op)


def ticks(length: float, most: int = 6) -> list[float]:
    """Round moments along the axis, from 0 on."""
    raw = length / most
    power = 10 ** math.floor(math.log10(raw)) if raw > 0 else 1.0
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= raw)
    return [step * place for place in range(int(length / step + 1e-9) + 1)]


# -- sentences ---------------------------------------------------------------------------------------------


def sentences(line: Timeline) -> list[str]:
    """What the picture shows, for those who do not see it, and as its caption: the absent first."""
    said = [_missing(lane) for lane in line.lanes if lane.missing is not None]
    waiting = sorted((lane for lane in line.lanes if line.waits(lane)), key=lambda lane: -lane.waited)
    said += [_waits(line, lane) for lane in sorted(waiting[:MOST_WAITS], key=lambda lane: lane.rank)]
    if len(waiting) > MOST_WAITS:
        said.append(text("timeline.say-others", count=len(waiting) - MOST_WAITS))
    said += [
        text("timeline.say-asleep", rank=lane.rank, line=_line(span), time=duration(span.length))
        for lane in line.lanes
        if lane.missing is None and (span := lane.last) is not None
        and span.kind == ASLEEP and span.length > line.length / 2
    ]  # fmt: skip
    late = culprits(line)
    if late and not any(lane.missing for lane in line.lanes):
        said += [text("timeline.say-late", rank=late[0])]
    if not said:
        said = [text("timeline.say-calm")]
    if line.more > 0:
        said.append(text("timeline.more", count=line.more, s=plural(line.more)))
    if not line.matched:
        said.append(text("timeline.apart"))
    return said


def culprits(line: Timeline) -> list[int]:
    """The ranks that made others wait for most of the time that was lost."""
    lost: Counter[int] = Counter()
    for lane in line.lanes:
        for span in lane.spans if line.waits(lane) else ():
            if span.kind == WAIT and len(span.ranks) == 1:
                lost[span.ranks[0]] += round(span.length * 1e6)
    total = sum(lost.values())
    return [rank for rank, share in lost.most_common(1) if share > 0.8 * total]


def _missing(lane: Lane) -> str:
    assert lane.missing is not None
    after = [span for span in lane.spans if span.end > lane.missing.at]
    last = max(after, key=lambda span: span.length, default=None)
    if lane.end != "stopped" and lane.ended_at <= lane.missing.at + 0.05:
        fate = text(f"timeline.fate-{lane.end if lane.end in ('ended', 'failed', 'killed') else 'ended'}")
    else:
        kind = "busy" if last is None or last.kind not in (ASLEEP, WAIT) else last.kind
        fate = text(f"timeline.fate-{kind}", line=_line(last))
    several = len(lane.missing.ranks) > 1
    return text(
        "timeline.say-missing", rank=lane.rank, op=op(lane.missing.op), fate=fate,
        others=_ranks("timeline.the-rank", lane.missing.ranks), ent="ent" if several else "",
    )  # fmt: skip


def _waits(line: Timeline, lane: Lane) -> str:
    waits = [span for span in lane.spans if span.kind == WAIT]
    long = max(waits, key=lambda span: span.length, default=None)
    if long is None:   # only waits too short to be drawn
        return f"{text('timeline.rank', rank=lane.rank).capitalize()} : {waited(line, lane)}."
    longs = [span for span in waits if span.length >= long.length / 3]
    many = len(longs) > 1 or any(span.count > 1 for span in waits)
    blamed = Counter(span.ranks for span in longs for _ in range(max(1, round(span.length * 1000))))
    ranks = blamed.most_common(1)[0][0]
    whom = text("timeline.whom", others=_ranks("timeline.of-rank", ranks)) if ranks else ""
    if not ranks and line.matched and long.op != INIT and long.length > line.length / 2:
        whom = text("timeline.nobody")
    return text(
        "timeline.say-waits-many" if many else "timeline.say-waits", rank=lane.rank,
        time=duration(lane.waited), op=op(long.op or "collectif"), whom=whom,
        line=_line(long),
    )  # fmt: skip


def _ranks(key: str, ranks: Sequence[int]) -> str:
    ranks = sorted(ranks)
    listed = str(ranks[0]) if len(ranks) == 1 else f"{', '.join(map(str, ranks[:-1]))} et {ranks[-1]}"
    return text(key if len(ranks) == 1 else f"{key}s", ranks=listed)


def _line(span: Span | None) -> str:
    return " " + text("timeline.line", line=span.line) if span is not None and span.line else ""
