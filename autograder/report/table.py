"""What grading gave, as a table: a class for the grader, one copy for a student's check."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from rich.console import Console, Group, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from autograder.messages import number, plural, text
from autograder.report.why import to_read

if TYPE_CHECKING:
    from autograder.batch.grade import ClassReport, Row
    from autograder.notebook.result import CopyResult

FORMGRADER = "jupyter lab"
# What nbgrader logs of a file that it may not read or write.
_DISK = re.compile(r"\w+: \[(?:Errno|WinError) \d+\] (?P<why>[^:]+): '(?P<path>[^']+)'")


def class_view(report: ClassReport) -> RenderableType:
    """The class: the table, what was not graded and why, what a person should read again."""
    parts: list[RenderableType] = [class_table(report)]
    if refused := not_graded_lines(report):
        parts.append(Text("\n" + text("grading.not-graded-title"), style="bold"))
        parts += [Text(f"  {line}") for line in refused]
    if suspect := list(to_read(report)):
        parts.append(Text("\n" + text("tampering.title"), style="bold"))
        parts += [Text(f"  {line}") for line in suspect]
    if report.notes:
        parts.append(Text("\n" + text("groupe.notes-title"), style="bold"))
        parts += [Text(f"  {line}") for line in report.notes]
    return Group(*parts)


def class_table(report: ClassReport) -> Table:
    """Students × assignments: points, what is pending, flags, lateness; the total of what is marked."""
    students = list(dict.fromkeys(row.student for row in report.rows))
    handed_in = sum(not row.of_partner for row in report.rows)
    table = Table(title=text("grading.table-title", n=handed_in, s=plural(handed_in)), title_justify="left")
    table.add_column(text("grading.student"), no_wrap=True)
    names = [name for name in report.assignments if any(row.assignment == name for row in report.rows)]
    for name in names:
        table.add_column(name, justify="right")
    table.add_column(text("grading.total"), justify="right")
    rows = {(row.student, row.assignment): row for row in report.rows}
    for student in students:
        mine = [rows.get((student, name)) for name in names]
        marked = [row for row in mine if row is not None and not _without_mark(row)]
        score, top = (sum(getattr(row.recorded, key) for row in marked) for key in ("score", "max_score"))
        total = f"{number(score)} / {number(top)}"
        cells = [cell(row) if row is not None else text("grading.no-mark") for row in mine]
        table.add_row(escape(student), *cells, total if marked else text("grading.no-mark"))
    return table


def _no_test_concluded(row: Row) -> bool:
    concluded = any(test.status in ("passed", "partial", "failed") for test in row.result.tests)
    return not row.result.graded and not concluded


def _without_mark(row: Row) -> bool:
    """Nothing of the copy counts: neither a test's points, nor a person's in place of each of them."""
    lacking = _no_test_concluded(row) and bool(row.recorded.lacking)
    return row.recorded.problem is not None or lacking


def cell(row: Row) -> str:
    """One copy in the table, as rich markup."""
    result, recorded = row.result, row.recorded
    if _without_mark(row):
        lines = [f"[red]{text('grading.not-graded')}[/]"]
    elif _no_test_concluded(row):  # a person has given each mark
        lines = [f"[yellow]{number(recorded.score)} / {number(recorded.max_score)}[/]"]
    else:
        colour = "green" if result.passed else "yellow"
        top = sum(test.max_points for test in result.tests)
        lines = [f"[{colour}]{number(result.score)} / {number(top)}[/]"]
        if not result.graded:
            lines.append(f"[red]{text('grading.partly')}[/]")
    if row.of_partner:
        lines.append(escape(text("groupe.partner", owner=result.group[0])))
    elif result.group:
        lines.append(escape(text("groupe.owner", names=", ".join(result.group))))
    if recorded.pending and not row.of_partner:
        lines.append(text("grading.pending", n=len(recorded.pending)))
    if result.flags:
        lines.append(f"[magenta]{escape(text('grading.flagged', flags=', '.join(result.flags)))}[/]")
    if recorded.late_s > 0:
        lines.append(text("grading.late", h=number(recorded.late_s / 3600, 1)))
    return "\n".join(lines)


def not_graded_lines(report: ClassReport) -> list[str]:
    """Each copy without its marks, with the cause."""
    lines = []
    for row in report.rows:
        cause = row.result.cause if not row.result.graded else None
        if row.recorded.problem is not None:
            cause = _not_recorded(row.recorded.problem)
        if cause is not None:
            lines.append(
                text("grading.not-graded-line", student=row.student, assignment=row.assignment, cause=cause)
            )
        # Where a test itself is wrong, only its author can mend it: say which line of which cell.
        for detail in row.result.details if not row.result.graded else ():
            if (last := detail.strip().splitlines()[-1:]) and last[0] != cause:
                lines.append("    " + text("grading.detail", detail=last[0][:300]))
    lines += [
        text("grading.not-graded-line", student=student, assignment=name, cause=text("grading.no-copy"))
        for student, name in report.missing
    ]
    return lines


def _not_recorded(problem: str) -> str:
    disk = _DISK.match(problem)
    if disk is not None:
        return text("grading.not-recorded-disk", **disk.groupdict())
    return text("grading.not-recorded", detail=problem)


def left_by_hand(report: ClassReport) -> list[str]:
    """How many cells wait for a human, per assignment, and the command that opens formgrader."""
    counts = dict.fromkeys(report.assignments, 0)
    for row in report.rows:
        counts[row.assignment] += 0 if row.of_partner else len(row.recorded.pending)
    total = sum(counts.values())
    if not total:
        return [text("grading.by-hand-none")]
    listed = ", ".join(f"{name} ({n})" for name, n in counts.items() if n)
    key = "grading.by-hand-one" if total == 1 else "grading.by-hand"
    return [text(key, n=total, list=listed), text("grading.formgrader", command=FORMGRADER)]


# ------------------------------------------------------------------------------------------------ one copy


def copy_table(result: CopyResult) -> Table:
    """The tests of one copy."""
    table = Table(title=Text(result.head()), title_justify="left", show_lines=True)
    table.add_column(text("grading.check-test"), no_wrap=True)
    table.add_column(text("grading.check-points"), justify="right", no_wrap=True)
    table.add_column(text("grading.check-found"))
    for test in result.tests:
        found = Text("\n".join(part for part in (test.message, test.advice) if part))
        table.add_row(escape(test.id), f"{number(test.points)} / {number(test.max_points)}", found)
    return table


def print_copy(result: CopyResult, console: Console | None = None) -> None:
    """Show a student's check."""
    console = console or Console()
    console.print(Text(result.head()) if result.all_hidden else copy_table(result))
    for remark in result.remarks:
        console.print(Text(remark))
