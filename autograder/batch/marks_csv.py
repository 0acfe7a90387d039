"""The marks as a CSV file: every field quoted, UTF-8, one line for each student and assignment.

A mark that is not whole is an empty field, never 0, and so is what is not known: the raw points of a copy
that was not graded, the delay of one that has no date. A text that a spreadsheet would compute is marked as
text with an apostrophe, as OWASP advises: students choose their ids, and causes quote what they wrote.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator

from autograder.batch.book import ABSENT, NOT_GRADED, WAITING, Book, Entry
from autograder.batch.told import without
from autograder.files import private_paths
from autograder.messages import text

COLUMNS = (
    "assignment", "student", "last_name", "first_name", "email", "status", "mark", "max", "raw", "penalty",
    "late_minutes", "handed_in", "to_mark", "flags", "group", "cause",
)  # fmt: skip
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "|", "%")


def marks_csv(book: Book, *, excel: bool = False) -> bytes:
    """The file. `excel`: what a French Excel opens by itself (byte-order mark, ";", decimal commas)."""
    stream = io.StringIO(newline="")
    writer = csv.writer(stream, delimiter=";" if excel else ",", quoting=csv.QUOTE_ALL)
    writer.writerow(COLUMNS)
    for row in _rows(book):
        writer.writerow([_number(one, excel) if isinstance(one, float) else as_text(one) for one in row])
    return stream.getvalue().encode("utf-8-sig" if excel else "utf-8", errors="replace")


def as_text(value: str) -> str:
    """`value` as a spreadsheet shows it, and does not compute it."""
    return f"'{value}" if value.startswith(_FORMULA) else value


def _number(value: float, comma: bool) -> str:
    written = f"{round(value, 5):.10g}"
    return written.replace(".", ",") if comma else written


def _rows(book: Book) -> Iterator[list[str | float]]:
    hidden = private_paths(book.course.root)
    for name in book.assignments:
        for person in book.people:
            one = book.entries[person.id, name]
            recorded = one.state not in (ABSENT, WAITING) and bool(one.points)
            counted = recorded and one.state != NOT_GRADED  # of a part of the points there is no sum
            dated = recorded and one.handed_in is not None
            mark = "" if one.mark is None else one.mark
            when = one.handed_in.astimezone(book.course.zone).isoformat() if one.handed_in else ""
            yield [
                name, person.id, person.last_name, person.first_name, person.email, one.state, mark,
                one.top if recorded else "", *([one.raw, one.penalty] if counted else ["", ""]),
                round(one.late_s / 60, 1) if dated else "",
                when, " ".join(one.pending), " ".join(one.flags),
                " ".join(one.result.group) if one.result is not None else "",
                without(why_no_mark(one), hidden),
            ]  # fmt: skip


def why_no_mark(one: Entry) -> str:
    """Why there is no mark yet, in French; "" where there is one."""
    if one.state == ABSENT:
        return text("export.no-copy")
    if one.state == WAITING:
        return text("export.waiting")
    if one.state == "to-mark":
        return text("export.to-mark", cells=", ".join(one.pending))
    return one.cause
