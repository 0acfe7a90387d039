"""The class on one page: one HTML file that sorts and searches without a server, and reads without scripts.

Everything that a student can have written (ids, causes, reasons) is escaped by the template, and the page's
policy lets no script run but its own, whose digest it names, and loads nothing from anywhere.
"""

from __future__ import annotations

import base64
import datetime as dt
import hashlib
from collections import defaultdict
from collections.abc import Iterable, Iterator
from importlib import resources
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from autograder.messages import french_delay, french_moment, has, number, plural, template, text
from autograder.report.run_view import clean

if TYPE_CHECKING:
    from autograder.batch.book import Book, Entry, Question

FORMGRADER = "http://localhost:8888"  # JupyterLab's own address, where nothing else was chosen
_MOST_NAMES, _MOST_SAID = 12, 600
_BARS_TOP, _BARS_HEIGHT, _BAR_STEP = 13, 26, 52


def class_page(book: Book, now: dt.datetime, base: str = FORMGRADER) -> str:
    """The page of `book`, made at `now`; `base` is the address of the Jupyter server that has formgrader."""
    folder = resources.files("autograder.report").joinpath("templates")
    css, js, page = (
        folder.joinpath(f"classe.{end}").read_text(encoding="utf-8") for end in ("css", "js", "html.j2")
    )
    policy = (
        f"default-src 'none'; style-src '{_digest(css)}'; script-src '{_digest(js)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=False)
    return environment.from_string(page).render(
        t=text, css=Markup(css), js=Markup(js), policy=policy, page=_Page(book, now, base.rstrip("/"))
    )


def _digest(content: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()


class _Page:
    """What the template asks for, in the order in which it does."""

    def __init__(self, book: Book, now: dt.datetime, base: str) -> None:
        self.book, self.base = book, base
        self.title = book.course.course.title
        self.when = french_moment(now.astimezone(book.course.zone))
        late = book.course.late
        percent, most = number(late.per_day_percent), number(late.max_percent)
        self.late_rule = text(f"class_page.late-{late.policy}", percent=percent, most=most)
        self.count, self.sort = template("class_page.count"), template("class_page.sort")
        self.named = any(one.first_name or one.last_name for one in book.people)
        every = [entry for entry in book.entries.values() if entry.state != "absent"]
        order = {person.id: n for n, person in enumerate(book.people)}
        every.sort(key=lambda entry: (book.assignments.index(entry.assignment), order[entry.student]))
        self.columns = [{"id": name, "top": number(_top(book, name))} for name in book.assignments]
        self.rows = [self._row(person) for person in book.people]
        self.none = [
            {"student": one.student, "assignment": one.assignment, "cause": said(one.cause)}
            for one in every if one.state == "not-graded"
        ]  # fmt: skip
        todo = [one for one in every if one.pending and not one.of_partner]
        self.todo = [
            {"student": one.student, "assignment": one.assignment, "cells": ", ".join(one.pending),
             "url": self._formgrader("submissions", one.submission)}
            for one in todo
        ]  # fmt: skip
        self.todo_all = [
            {"assignment": name, "url": self._formgrader("gradebook", name, name)}
            for name in dict.fromkeys(one.assignment for one in todo)
        ]
        self.flagged = [
            {"student": one.student, "assignment": one.assignment, "flags": ", ".join(one.flags),
             "reasons": said(" ; ".join(one.result.suspicions)) if one.result else ""}
            for one in every if one.flags and not one.of_partner
        ]  # fmt: skip
        self.questions = [
            _spread(question, [one for one in book.of(question.assignment) if one.state != "absent"])
            for name in book.assignments for question in book.questions[name]
        ]  # fmt: skip
        self.wrong = list(_wrong(every))
        late_ones = [one for one in every if one.late_s > 0]
        self.late = [self._late(one) for one in late_ones]
        states = [one.state for one in every]
        self.facts = [
            (text("class_page.students"), len(book.people)),
            (text("class_page.copies"), len(every)),
            (text("class_page.graded"), states.count("graded")),
            (text("class_page.to-mark"), len(todo)),
            (text("class_page.not-graded"), states.count("not-graded")),
            (text("class_page.waiting"), states.count("waiting")),
            (text("class_page.flagged"), len(self.flagged)),
            (text("class_page.late"), len(late_ones)),
        ]

    def _row(self, person: Any) -> dict[str, Any]:
        mine = [self.book.entries[person.id, name] for name in self.book.assignments]
        whole = [one for one in mine if one.mark is not None]
        total = sum(one.mark or 0.0 for one in whole)
        kinds = {
            "todo": any(one.pending and not one.of_partner for one in mine),
            "none": any(one.state == "not-graded" for one in mine),
            "flag": any(one.flags for one in mine), "late": any(one.late_s > 0 for one in mine),
        }  # fmt: skip
        shown = f"{number(total, 2)} / {number(sum(one.top for one in whole))}"
        return {
            "student": person.id, "name": f"{person.first_name} {person.last_name}".strip(),
            "cells": [_cell(one) for one in mine],
            "kinds": " ".join(kind for kind, on in kinds.items() if on),
            "total": shown if whole else "—", "total_value": f"{total:g}" if whole else "",
        }  # fmt: skip

    def _formgrader(self, *parts: str) -> str:
        return "/".join((self.base, "formgrader", *(quote(part, safe="") for part in parts)))

    def _late(self, one: Entry) -> dict[str, Any]:
        when = one.handed_in
        return {
            "student": one.student, "assignment": one.assignment,
            "when": french_moment(when.astimezone(self.book.course.zone)) if when else "",
            "stamp": when.isoformat() if when else "",
            "late": french_delay(one.late_s), "late_s": f"{one.late_s:g}",
            "raw": number(one.raw), "raw_value": f"{one.raw:g}",
            "penalty": number(one.penalty), "penalty_value": f"{one.penalty:g}",
            "mark": "—" if one.mark is None else number(one.mark),
            "mark_value": "" if one.mark is None else f"{one.mark:g}",
        }  # fmt: skip


def said(content: str) -> str:
    """What a program or a student told, bounded, without what a screen would obey."""
    line = " ".join(clean(content).split())
    return line if len(line) <= _MOST_SAID else line[:_MOST_SAID] + " […]"


def misconception(ident: str) -> str:
    """What a diagnosis is called in a few words."""
    key = f"misconception.{ident}"
    return text(key) if has(key) else ident


def _top(book: Book, name: str) -> float:
    return sum(one.points for one in book.questions[name]) or book.course.assignment(name).points.total


def _cell(one: Entry) -> dict[str, Any]:
    kind, mark, value = "", "—", ""
    if one.state == "graded":
        mark, value = number(one.mark or 0.0, 2), f"{one.mark:g}"
    elif one.state == "to-mark":
        kind, value = "todo", f"{one.raw:g}"
        mark = number(one.raw, 2)
    elif one.state == "not-graded":
        kind, mark = "none", text("class_page.cell-none")
    elif one.state == "waiting":
        mark = text("class_page.cell-waiting")
    told = []
    if one.state == "to-mark":
        told.append("+ " + text("class_page.cell-todo", n=len(one.pending)))
    elif one.pending:
        told.append(text("class_page.cell-todo", n=len(one.pending)))
    if one.flags:
        told.append(text("class_page.cell-flag"))
    if one.late_s > 0:
        key = "class_page.cell-late" if one.penalty else "class_page.cell-late-free"
        told.append(text(key, late=french_delay(one.late_s), penalty=number(one.penalty, 2)))
    if one.of_partner:
        told.append(text("class_page.cell-partner", owner=one.owner))
    return {"kind": kind, "mark": mark, "value": value, "said": told}


def _spread(question: Question, entries: Iterable[Entry]) -> dict[str, Any]:
    """How a question's marks are spread over the copies: none, under half, half or more, all, no mark."""
    bins, given = [0] * 5, []
    for one in entries:
        points = one.points.get(question.name)
        if one.of_partner:
            continue
        if points is None:
            bins[4] += 1
            continue
        given.append(points)
        full = points >= question.points - 1e-9
        bins[3 if full else 0 if points <= 0 else 1 if points < question.points / 2 else 2] += 1
    most, mean = max(bins) or 1, sum(given) / len(given) if given else None
    heights = [max(_BARS_HEIGHT * count / most, 1.0) if count else 0.0 for count in bins]
    return {
        "assignment": question.assignment, "name": question.name, "points": number(question.points),
        "points_value": f"{question.points:g}", "marked": len(given),
        "kind": text("class_page.kind-written" if question.written else "class_page.kind-test"),
        "mean": "—" if mean is None else number(mean, 2), "mean_value": "" if mean is None else f"{mean:.6g}",
        "said": text(
            "class_page.spread-said", question=question.name, s=plural(bins[0]),
            **dict(zip(("zero", "low", "high", "full", "none"), bins, strict=True)),
        ),
        "bars": [
            {"x": 6 + _BAR_STEP * n, "middle": 26 + _BAR_STEP * n, "height": f"{height:.3g}", "count": count,
             "y": round(_BARS_TOP + _BARS_HEIGHT - height, 1), "label": text(f"class_page.bin-{n}")}
            for n, (count, height) in enumerate(zip(bins, heights, strict=True))
        ],
    }  # fmt: skip


def _wrong(entries: Iterable[Entry]) -> Iterator[dict[str, Any]]:
    """Which cause each exercise met, how often and with whom; the most frequent first."""
    met: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    copies: dict[str, int] = defaultdict(int)
    for one in entries:
        if one.result is None or one.of_partner:
            continue
        copies[one.assignment] += 1
        for ident in one.diagnoses:
            met[one.assignment][ident].append(one.student)
    for assignment, causes in met.items():
        for ident, students in sorted(causes.items(), key=lambda pair: (-len(pair[1]), pair[0])):
            share = 100 * len(students) / copies[assignment]
            who, more = ", ".join(students[:_MOST_NAMES]), len(students) - _MOST_NAMES
            yield {
                "assignment": assignment, "name": misconception(ident), "count": len(students),
                "percent": round(share), "width": f"{0.6 * share:.3g}",
                "who": who if more <= 0 else f"{who} {text('class_page.and-more', n=more, s=plural(more))}",
            }  # fmt: skip
