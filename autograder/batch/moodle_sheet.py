"""Moodle's grading worksheet: the CSV file that it offers for download, with marks and feedback filled in.

Its columns, their order, its rows and their identifiers stay as they are; only the grade and the feedback
comments change, and only for copies whose mark is whole. Column names are those of mod_assign's grading table
(lang/en and lang/fr, "Identifier" to "Feedback comments"). Moodle reads grades with its language's decimal
separator, and feedback as HTML.
"""

from __future__ import annotations

import csv
import html
import io
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from autograder.batch.book import Book, Entry
from autograder.batch.senders import Known
from autograder.batch.told import of_cells, summary
from autograder.messages import number, text
from autograder.verdict.members import folded

MOST_BYTES = 32 * 1024**2
_AGAIN = "download the grading worksheet again from Moodle (the assignment's submissions, Actions)"
COLUMNS = {  # what is looked for, in English and French, old Moodles' and new ones'
    "identifier": ("identifier", "identifiant"),
    "name": ("full name", "nom complet"),
    "email": ("email address", "email", "adresse de courriel", "adresse e-mail", "courriel"),
    "number": ("id number", "numéro d’identification", "numéro d'identification", "username",
               "nom d’utilisateur", "nom d'utilisateur"),
    "grade": ("grade", "note"),
    "most": ("maximum grade", "note maximale"),
    "scale": ("scale", "barème"),
    "open": ("grade can be changed", "la note peut être modifiée"),
    "modified": ("last modified (grade)", "dernière modification (note)"),
    "feedback": ("feedback comments", "feedback par commentaires", "commentaires de feedback",
                 "commentaires"),
}  # fmt: skip
_FRENCH = {"identifiant", "note"}
_NO = {"no", "non"}


class SheetError(ValueError):
    """The worksheet cannot be used: the message names file, line and column, and says what to do."""


@dataclass
class Sheet:
    """A worksheet as it was read. `at`: the column of each name of COLUMNS that it has."""

    path: Path
    header: list[str]
    rows: list[list[str]]
    lines: list[int]
    at: dict[str, int]
    delimiter: str
    newline: str
    bom: bool

    @property
    def comma(self) -> bool:
        """Moodle writes decimal commas there: seen in its own numbers, else by its language."""
        column = self.at.get("most")
        shown = [row[column] for row in self.rows] if column is not None else []
        if any(re.search(r"\d[.,]\d", one) for one in shown):
            return any(re.search(r"\d,\d", one) for one in shown)
        return self.header[self.at["grade"]].strip().casefold() in _FRENCH

    def numbers(self) -> list[str]:
        """The number of each row's participant: 123456 of "Participant 123456"."""
        column = self.at["identifier"]
        written = (row[column] if column < len(row) else "" for row in self.rows)
        return [re.sub(r"^\D*(\d+)\s*$", r"\1", one) for one in written]

    def content(self) -> bytes:
        """The file again."""
        stream = io.StringIO(newline="")
        writer = csv.writer(stream, delimiter=self.delimiter, lineterminator=self.newline)
        writer.writerows([self.header, *self.rows])
        return stream.getvalue().encode("utf-8-sig" if self.bom else "utf-8")


@dataclass(frozen=True)
class Filled:
    """What filling did: how many rows, and lines for the grader on those students that have none."""

    rows: int
    notes: tuple[str, ...]


def read_sheet(path: Path) -> Sheet:
    """The worksheet at `path`; SheetError where it is none."""
    try:
        if path.stat().st_size > MOST_BYTES:
            raise SheetError(f"{path}: larger than {MOST_BYTES // 2**20} MiB: no grading worksheet")
        data = path.read_bytes()
        written = data.decode("utf-8-sig")
    except OSError as error:
        raise SheetError(f"{path}: cannot be read ({error.strerror})") from None
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise SheetError(
            f"{path}, line {line}: not UTF-8; a spreadsheet has saved it in another encoding: {_AGAIN}, "
            "or save it as CSV UTF-8"
        ) from None
    first = written.partition("\n")[0]
    delimiter = max(",;\t", key=first.count)
    reader = csv.reader(io.StringIO(written, newline=""), delimiter=delimiter, strict=True)
    rows, lines = [], []
    try:
        for row in reader:
            if row:
                rows.append(row)
                lines.append(reader.line_num)
    except csv.Error as error:
        raise SheetError(f"{path}, line {reader.line_num}: not CSV ({error}): {_AGAIN}") from None
    if not rows:
        raise SheetError(f"{path}: empty: {_AGAIN}")
    newline = "\r\n" if "\r\n" in written else "\n"
    at = _columns(path, rows[0])
    bom = data.startswith(b"\xef\xbb\xbf")
    sheet = Sheet(path, rows[0], rows[1:], lines[1:], at, delimiter, newline, bom)
    _check(sheet)
    return sheet


def _columns(path: Path, header: list[str]) -> dict[str, int]:
    names = [one.strip().casefold() for one in header]
    at = {key: names.index(found) for key, accepted in COLUMNS.items()
          if (found := next((one for one in accepted if one in names), None)) is not None}  # fmt: skip
    for key in ("identifier", "grade", "modified"):
        if key not in at:
            wanted = " or ".join(repr(one.capitalize()) for one in COLUMNS[key][:2])
            raise SheetError(
                f"{path}, line 1: no column {wanted} (its columns: {', '.join(map(repr, header))[:300]}); "
                f"Moodle in English or French writes it: {_AGAIN}"
            )
    if "scale" in at and "most" not in at:
        raise SheetError(
            f"{path}, line 1, column {header[at['scale']]!r}: this Moodle assignment is graded on a scale; "
            "set its grade type to points, then download the worksheet again"
        )
    return at


def _check(sheet: Sheet) -> None:
    seen: dict[str, int] = {}
    for row, line, ident in zip(sheet.rows, sheet.lines, sheet.numbers(), strict=True):
        if len(row) != len(sheet.header):
            raise SheetError(
                f"{sheet.path}, line {line}: {len(row)} fields where the first line has "
                f"{len(sheet.header)}: {_AGAIN}"
            )
        column = sheet.header[sheet.at["identifier"]]
        if not ident.isdecimal():
            raise SheetError(
                f"{sheet.path}, line {line}, column {column!r}: {row[sheet.at['identifier']]!r} does not end "
                f"with a participant's number, as in 'Participant 123456': {_AGAIN}"
            )
        if ident in seen:
            raise SheetError(
                f"{sheet.path}, line {line}, column {column!r}: participant {ident} stands on line "
                f"{seen[ident]} too: remove one of the two lines"
            )
        seen[ident] = line


def fill(sheet: Sheet, book: Book, assignment: str, senders: Known, *, rescale: bool = False) -> Filled:
    """Put the marks and feedback of `assignment` into `sheet`; SheetError where Moodle's maximum differs."""
    factor = _factor(sheet, book, assignment, rescale)
    places, notes = match(sheet, book, assignment, senders)
    grade, feedback, openness = (sheet.at.get(key) for key in ("grade", "feedback", "open"))
    assert grade is not None
    done = 0
    for student, place in places.items():
        entry, row = book.entries[student, assignment], sheet.rows[place]
        if entry.mark is None:
            continue
        if openness is not None and row[openness].strip().casefold() in _NO:
            line = sheet.lines[place]
            notes.append(f"{student}: Moodle has locked this grade (line {line}): left as it is")
            continue
        mark, most = entry.mark * factor, entry.top * factor
        if mark > most:
            notes.append(f"{student}: {mark:g} is more than Moodle's maximum: written as {most:g}")
        row[grade] = f"{round(min(mark, most), 5):.10g}".replace(".", "," if sheet.comma else ".")
        if feedback is not None:
            row[feedback] = _feedback(row[feedback], book, entry)
        done += 1
    if feedback is None:
        notes.append("no column for feedback comments: switch them on in the Moodle assignment to have them")
    return Filled(done, tuple(notes))


def _factor(sheet: Sheet, book: Book, assignment: str, rescale: bool) -> float:
    top = sum(one.points for one in book.questions[assignment])
    column = sheet.at.get("most")
    if column is None or not top:
        return 1.0
    for row, line in zip(sheet.rows, sheet.lines, strict=True):
        written = row[column].strip()
        try:
            most = float(written.replace(",", "."))
        except ValueError:
            most = 0.0
        where = f"{sheet.path}, line {line}, column {sheet.header[column]!r}"
        if most <= 0:
            raise SheetError(f"{where}: {written!r} is no number of points: {_AGAIN}")
        if abs(most - top) > 1e-9 and not rescale:
            raise SheetError(
                f"{where}: {written}, where {assignment} is marked out of {top:g}: set the Moodle "
                f"assignment's maximum grade to {top:g}, or give --rescale to convert the marks"
            )
        return most / top
    return 1.0


def match(sheet: Sheet, book: Book, assignment: str, senders: Known) -> tuple[dict[str, int], list[str]]:
    """The row of each student who has a copy, and what to tell of those who have none or share one.

    In this order: the number under which Moodle gave this very copy, a name that Moodle gave before, the
    address or the university's number, the gradebook's name. Whatever fits two rows fits none.
    """
    alone = {one.id for one in book.course.assignments if one.group == 1}
    rows = dict(zip(sheet.numbers(), range(len(sheet.rows)), strict=True))
    names, mails, numbers = (_index(sheet, key) for key in ("name", "email", "number"))
    local = _unique((mail.partition("@")[0], place) for mail, place in mails.items() if place is not None)
    claims: dict[int, list[str]] = {}
    notes = []
    for person in book.people:
        entry = book.entries[person.id, assignment]
        if entry.state == "absent":
            continue
        sent = senders.get(assignment, {}).get(person.id) if assignment in alone else None
        told = {one[person.id][1] for name, one in senders.items() if name in alone and person.id in one}
        full = (f"{person.first_name} {person.last_name}", f"{person.last_name} {person.first_name}")
        tries = (
            rows.get(sent[0]) if sent else None, rows.get(person.id),
            *(names.get(folded(name)) for name in sorted(told)),
            mails.get(folded(person.email)) if person.email else None, mails.get(folded(person.id)),
            numbers.get(folded(person.id)), local.get(folded(person.id)),
            *(names.get(folded(name)) for name in full if name.strip()),
        )  # fmt: skip
        place = next((one for one in tries if one is not None), None)
        if place is not None:
            claims.setdefault(place, []).append(person.id)
        elif entry.mark is not None:
            notes.append(
                f"{person.id}: no line of the worksheet is known to be this student's (mark "
                f"{number(entry.mark)}): enter it by hand"
            )
    for place, students in claims.items():
        if len(students) > 1:
            who = " and ".join(students)
            notes.append(f"line {sheet.lines[place]} fits {who}: left as it is, enter it by hand")
    return {students[0]: place for place, students in claims.items() if len(students) == 1}, notes


def _index(sheet: Sheet, key: str) -> dict[str, int | None]:
    """The row of each value in that column; None for one that stands in several."""
    column = sheet.at.get(key)
    if column is None:
        return {}
    return _unique((row[column], place) for place, row in enumerate(sheet.rows) if row[column].strip())


def _unique(pairs: Iterable[tuple[str, int]]) -> dict[str, int | None]:
    found: dict[str, int | None] = {}
    for value, place in pairs:
        key = folded(value)
        found[key] = None if key in found else place
    return found


def _feedback(before: str, book: Book, entry: Entry) -> str:
    """What a person wrote there stays; below it, our own words, in place of those of an earlier export."""
    head = f"<strong>{html.escape(text('export.feedback-head'))}</strong>"
    kept = before.partition(f"<p>{head}")[0].rstrip()
    lines = [head, *(html.escape(line) for line in summary(book, entry))]
    for name, points, most, said in of_cells(book, entry):
        if points < most or said:
            first = said.strip().partition("\n")[0]
            lines.append(html.escape(text(
                "export.feedback-test", test=name, points=number(points), max=number(most), message=first
            ).strip()))  # fmt: skip
    ours = "<p>" + "<br>".join(lines) + "</p>"
    return f"{kept}\n{ours}" if kept else ours
