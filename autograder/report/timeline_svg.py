"""A timeline as SVG: one lane per rank, told apart by texture and lightness, with or without colour.

Made here from numbers and names alone, all escaped: no script, no link, no font or picture from elsewhere. It
stands by itself (a notebook shows it as a picture) or inside a page.
"""

from __future__ import annotations

import hashlib
import json
import textwrap
from collections.abc import Iterator, Sequence
from html import escape

from autograder.messages import text
from autograder.report import timeline as words
from autograder.verdict.timeline import ASLEEP, BUSY, MEET, WAIT, Lane, Span, Timeline

WIDTH, LEFT, RIGHT = 960, 78, 150
TOP, LANE, GAP = 58, 36, 18
MOST_LABELS = 40        # waits with their length on them, in one lane
NOTE, MOST_NOTES = 118, 14   # characters of a line below the picture; lines
INK, PAPER = "#1a1a1a", "#ffffff"
# Dark, middle and light on paper, each with a texture of its own: the same in grey.
BUSY_FILL, MEET_FILL = "#4f7cac", "#14263d"
WAIT_INK, WAIT_PAPER = "#a04000", "#ffeeda"
SLEEP_INK, SLEEP_PAPER = "#5b5b5b", "#ececec"
_FONT = "font-family=\"system-ui, 'Segoe UI', 'Noto Sans', 'DejaVu Sans', sans-serif\""
_LETTER = 7.0           # a letter's width at the size of the labels, on the wide side


def svg(line: Timeline, notes: Sequence[str] = ()) -> str:
    """The picture, with its title and what it shows in words (`role="img"`); `notes` are written below it,
    where it has to stand alone.
    """
    return _Picture(line, notes).drawn()


class _Picture:
    def __init__(self, line: Timeline, notes: Sequence[str] = ()) -> None:
        self.line = line
        self.notes = [part for note in notes for part in textwrap.wrap(note, NOTE)][:MOST_NOTES]
        content = json.dumps(line.as_dict(), sort_keys=True).encode()
        self.ident = "tl" + hashlib.sha256(content).hexdigest()[:10]   # unique in a page of several
        self.scale = (WIDTH - LEFT - RIGHT) / line.length
        self.bottom = TOP + len(line.lanes) * (LANE + GAP)
        self.said = words.sentences(line)
        self.height = self.bottom + 40 + (len(self.notes) * 19 + 8 if self.notes else 0)

    def x(self, moment: float) -> float:
        return round(LEFT + min(max(moment, 0.0), self.line.length) * self.scale, 2)

    def drawn(self) -> str:
        ident = self.ident
        title, shown = words.text("timeline.title"), " ".join(self.said)
        parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" role="img" viewBox="0 0 {WIDTH} {self.height}" '
            f'width="{WIDTH}" height="{self.height}" style="max-width:100%;height:auto" '
            f'aria-labelledby="{ident}-t {ident}-d" {_FONT} font-size="13" fill="{INK}">',
            f'<title id="{ident}-t">{escape(title)}</title>',
            f'<desc id="{ident}-d">{escape(words.origin(self.line))} {escape(shown)}</desc>',
            self._patterns(),
            f'<rect width="{WIDTH}" height="{self.height}" fill="{PAPER}"/>',
            f'<text x="{LEFT}" y="20" font-size="13">{escape(words.origin(self.line))}</text>',
            *self._axis(),
        ]
        for place, lane in enumerate(self.line.lanes):
            parts += self._lane(lane, TOP + place * (LANE + GAP))
        parts += [*self._absences(), *self._legend(), *self._below(), "</svg>"]
        return "".join(parts)

    def _patterns(self) -> str:
        ident = self.ident
        return (
            "<defs>"
            f'<pattern id="{ident}-w" width="9" height="9" patternUnits="userSpaceOnUse" '
            f'patternTransform="rotate(45)"><rect width="9" height="9" fill="{WAIT_PAPER}"/>'
            f'<rect width="3" height="9" fill="{WAIT_INK}"/></pattern>'
            f'<pattern id="{ident}-z" width="8" height="8" patternUnits="userSpaceOnUse">'
            f'<rect width="8" height="8" fill="{SLEEP_PAPER}"/><circle cx="4" cy="4" r="1.7" '
            f'fill="{SLEEP_INK}"/></pattern></defs>'
        )

    def _axis(self) -> Iterator[str]:
        for moment in words.ticks(self.line.length):
            x = self.x(moment)
            yield (
                f'<path d="M{x} {TOP - 12}V{self.bottom - GAP + 6}" stroke="#c4c4c4" stroke-width="1"/>'
                f'<text x="{x}" y="{TOP - 18}" font-size="12" text-anchor="middle" fill="#3d3d3d">'
                f"{escape(words.duration(moment) if moment else '0')}</text>"
            )

    # -- lanes ---------------------------------------------------------------------------------------------

    def _lane(self, lane: Lane, y: int) -> Iterator[str]:
        middle = y + LANE / 2 + 5
        name = escape(text("timeline.rank", rank=lane.rank))
        yield f'<text x="{LEFT - 12}" y="{middle}" text-anchor="end" font-weight="bold">{name}</text>'
        yield f'<path d="M{LEFT} {y + LANE / 2}H{WIDTH - RIGHT}" stroke="#8a8a8a" stroke-dasharray="1 5"/>'
        for span in lane.spans:
            yield self._span(span, y)
        waits = [span for span in lane.spans if span.kind == WAIT and self._label(span)]
        for span in sorted(waits, key=lambda span: -span.length)[:MOST_LABELS]:
            yield self._written(span, y)
        yield self._end(lane, y)
        told = [words.waited(self.line, lane), words.end_word(lane) if lane.end != "ended" else ""]
        told = [one for one in told if one]
        for number, one in enumerate(told):
            bold = ' font-weight="bold"' if not number else ""
            down = middle + (2 * number - len(told) + 1) * 8.5
            yield f'<text x="{WIDTH - RIGHT + 26}" y="{down}"{bold}>{escape(one)}</text>'

    def _span(self, span: Span, y: int) -> str:
        x = self.x(span.start)
        width = round(max(self.x(span.end) - x, 0.75), 2)
        shape = f'x="{x}" y="{y}" width="{width}" height="{LANE}"'
        if span.kind == WAIT:
            return (
                f'<rect {shape} fill="url(#{self.ident}-w)" stroke="{WAIT_INK}" stroke-width="1.5"/>'
            )
        if span.kind == ASLEEP:
            return f'<rect {shape} fill="url(#{self.ident}-z)" stroke="{SLEEP_INK}" stroke-width="1.5"/>'
        if span.kind == MEET:
            return f'<rect {shape} fill="{MEET_FILL}"/>'
        inside = f'x="{x}" y="{y + 7}" width="{width}" height="{LANE - 14}"'   # thinner: not a collective
        return f'<rect {inside} fill="{BUSY_FILL}"/>'

    def _label(self, span: Span) -> str:
        """The wait's length, with what it is waited in where there is room for it."""
        room = (span.end - span.start) * self.scale - 10
        time = words.duration(span.length)
        whole = f"{words.op(span.op)} : {time}" if span.op else time
        return next((said for said in (whole, time) if len(said) * _LETTER <= room), "")

    def _written(self, span: Span, y: int) -> str:
        said = self._label(span)
        middle = round((self.x(span.start) + self.x(span.end)) / 2, 2)
        width = round(len(said) * _LETTER + 8, 2)
        return (
            f'<rect x="{middle - width / 2}" y="{y + 8}" width="{width}" height="{LANE - 16}" rx="3" '
            f'fill="{PAPER}" stroke="{WAIT_INK}"/>'
            f'<text x="{middle}" y="{y + LANE / 2 + 4.5}" font-size="12.5" text-anchor="middle">'
            f"{escape(said)}</text>"
        )

    def _end(self, lane: Lane, y: int) -> str:
        """How the rank ended: a bar where it ended by itself, a cross where it was ended, a word."""
        x, half = self.x(lane.ended_at), LANE / 2
        if lane.end == "ended":
            mark = f'<path d="M{x} {y - 3}V{y + LANE + 3}" stroke="{INK}" stroke-width="3"/>'
        else:
            mark = (
                f'<path d="M{x - 7} {y + half - 7}l14 14m0 -14l-14 14" stroke="{PAPER}" stroke-width="7"/>'
                f'<path d="M{x - 7} {y + half - 7}l14 14m0 -14l-14 14" stroke="{INK}" stroke-width="3"/>'
            )
        word = words.end_word(lane)
        if lane.end != "ended" or not word or x > WIDTH - RIGHT - len(word) * _LETTER - 14:
            return mark
        return f'{mark}<text x="{x + 12}" y="{y + half + 4.5}" font-size="12.5">{escape(word)}</text>'

    # -- what is not there ---------------------------------------------------------------------------------

    def _absences(self) -> Iterator[str]:
        """Where a rank was expected and never came: a dashed frame from there on, on top of its lane."""
        for place, lane in enumerate(self.line.lanes):
            if lane.missing is None:
                continue
            y = TOP + place * (LANE + GAP)
            x = self.x(lane.missing.at)
            width = max(WIDTH - RIGHT - x, 24.0)
            yield (
                f'<rect x="{x}" y="{y - 5}" width="{width}" height="{LANE + 10}" fill="none" '
                f'stroke="{PAPER}" stroke-width="5"/>'
                f'<rect x="{x}" y="{y - 5}" width="{width}" height="{LANE + 10}" fill="none" '
                f'stroke="{INK}" stroke-width="2.5" stroke-dasharray="9 6"/>'
            )
            said = f"{words.op(lane.missing.op)} : {text('timeline.never')}"
            box = len(said) * _LETTER + 10
            if box <= width:
                middle = x + width / 2
                yield (
                    f'<rect x="{middle - box / 2}" y="{y + 8}" width="{box}" height="{LANE - 16}" rx="3" '
                    f'fill="{PAPER}" stroke="{INK}" stroke-width="1.5" stroke-dasharray="4 3"/>'
                    f'<text x="{middle}" y="{y + LANE / 2 + 4.5}" font-size="12.5" text-anchor="middle">'
                    f"{escape(said)}</text>"
                )

    def _below(self) -> Iterator[str]:
        for number, note in enumerate(self.notes):
            y = self.bottom + 54 + number * 19
            yield f'<text x="{LEFT}" y="{y}">{escape(note)}</text>'

    def _legend(self) -> Iterator[str]:
        """Only what the picture holds."""
        kinds = {span.kind for lane in self.line.lanes for span in lane.spans}
        shown = [kind for kind in (BUSY, WAIT, MEET, ASLEEP) if kind in kinds]
        if any(lane.missing for lane in self.line.lanes):
            shown.append("missing")
        x, y = float(LEFT), self.bottom + 6
        fills = {
            BUSY: f'fill="{BUSY_FILL}"', MEET: f'fill="{MEET_FILL}"',
            WAIT: f'fill="url(#{self.ident}-w)" stroke="{WAIT_INK}"',
            ASLEEP: f'fill="url(#{self.ident}-z)" stroke="{SLEEP_INK}"',
            "missing": f'fill="none" stroke="{INK}" stroke-width="2" stroke-dasharray="6 4"',
        }  # fmt: skip
        for kind in shown:
            thin = 5 if kind == BUSY else 0
            yield (
                f'<rect x="{x}" y="{y + thin}" width="30" height="{20 - 2 * thin}" {fills[kind]}/>'
                f'<text x="{x + 37}" y="{y + 15}">{escape(text(f"timeline.{kind}"))}</text>'
            )
            x += 37 + len(text(f"timeline.{kind}")) * _LETTER + 22
