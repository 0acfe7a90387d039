"""A timeline as text, for a terminal: one line per rank, then what it shows in words."""

from __future__ import annotations

import shutil
import textwrap

from autograder.messages import text
from autograder.report import timeline as words
from autograder.verdict.timeline import ASLEEP, BUSY, MEET, WAIT, Lane, Span, Timeline

SIGNS = {BUSY: "█", WAIT: "░", MEET: "┃", ASLEEP: "z", "missing": "?"}
LEAST, MOST = 40, 100   # columns


def lines(line: Timeline, width: int | None = None) -> list[str]:
    """The picture in at most `width` columns (the terminal's), its legend, and its sentences."""
    columns = max(LEAST, min(width or shutil.get_terminal_size((100, 24)).columns, MOST))
    names = [text("timeline.rank", rank=lane.rank) for lane in line.lanes]
    tails = [words.waited(line, lane) for lane in line.lanes]
    head = max((len(name) for name in names), default=0) + 1
    room = max(16, columns - head - 2 - max((len(tail) + 1 for tail in tails), default=0))
    shown = [*_wrapped(f"{text('timeline.title')}. {words.origin(line)}", columns), _axis(line, head, room)]
    for name, lane, tail in zip(names, line.lanes, tails, strict=True):
        shown.append(f"{name:<{head}}│{_bar(line, lane, room)}│ {tail}".rstrip())
    for said in (_legend(line), *words.sentences(line)):
        shown += _wrapped(said, columns)
    return shown


def _wrapped(said: str, columns: int) -> list[str]:
    return textwrap.wrap(said, columns, subsequent_indent="  ", break_long_words=False)


def _axis(line: Timeline, head: int, room: int) -> str:
    row = [" "] * (head + room + 2)
    free = 0
    for moment in words.ticks(line.length, max(2, room // 14)):
        said = words.duration(moment) if moment else "0"
        place = head + 1 + int(moment / line.length * (room - 1))
        start = max(place - len(said) // 2, head)
        if start >= free and start + len(said) <= len(row):
            row[start : start + len(said)] = said
            free = start + len(said) + 1
    return "".join(row).rstrip()


def _bar(line: Timeline, lane: Lane, room: int) -> str:
    """Each column is what most of its time went to; a wait's length is written on it where there is room."""
    cells = [" "] * room
    best = [0.0] * room
    step = line.length / room
    for span in lane.spans:
        first, last = int(span.start / step), min(int(span.end / step), room - 1)
        for place in range(min(first, room - 1), last + 1):
            part = min(span.end, (place + 1) * step) - max(span.start, place * step)
            if part > best[place]:
                best[place], cells[place] = part, SIGNS[span.kind]
    meets = [span for span in lane.spans if span.kind == MEET]
    for span in meets if len(meets) <= room // 4 else ():   # they part one wait from the next
        cells[min(int(span.start / step), room - 1)] = SIGNS[MEET]
    for span in sorted(lane.spans, key=lambda one: -one.length)[:40]:
        if span.kind == WAIT:
            _write(cells, span, step, room)
    if lane.missing is not None:
        cells[min(int(lane.missing.at / step), room - 1)] = SIGNS["missing"]
        said = f" {words.op(lane.missing.op)} : {text('timeline.never')} "
        start = min(int(lane.missing.at / step), room - 1) + 3
        if start + len(said) + 2 <= room:
            cells[start : start + len(said)] = said
    ended = min(int(lane.ended_at / step), room - 1)
    if lane.end != "stopped" and ended < room - 2:
        said = f"· {words.end_word(lane)}"
        if lane.missing is None and ended + 1 + len(said) <= room and not "".join(cells[ended + 1 :]).strip():
            cells[ended + 1 : ended + 1 + len(said)] = said
    return "".join(cells)


def _write(cells: list[str], span: Span, step: float, room: int) -> None:
    first, last = int(span.start / step), min(int(span.end / step), room)
    time = words.duration(span.length)
    for said in ((f" {words.op(span.op)} : {time} " if span.op else f" {time} "), f" {time} ", time):
        if len(said) + 2 <= last - first:
            start = first + (last - first - len(said)) // 2
            cells[start : start + len(said)] = said
            return


def _legend(line: Timeline) -> str:
    kinds = [kind for kind in (BUSY, WAIT, MEET, ASLEEP) if any(
        span.kind == kind for lane in line.lanes for span in lane.spans)]
    if any(lane.missing for lane in line.lanes):
        kinds.append("missing")
    return "   ".join(f"{SIGNS[kind]} {text(f'timeline.{kind}')}" for kind in kinds)
