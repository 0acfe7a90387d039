"""report, export: what a grader types once the class is graded."""

from __future__ import annotations

import datetime as dt
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from autograder.commands import FAILED, NOT_GRADED, OK, usage
from autograder.course import CourseError, load
from autograder.report.run_view import clean

if TYPE_CHECKING:
    from autograder.batch.book import Book
    from autograder.course import Course

PAGE, EXPORT = Path("report") / "classe.html", Path("export")
MOST_NAMED = 30  # copies without a mark, on the terminal


def report(names: Sequence[str], *, out: Path | None, formgrader: str | None) -> int:
    """Write the class page. 0: written; 1: nothing to show; 2: usage; 3: the gradebook cannot be read."""
    from autograder.files import write_whole
    from autograder.report.class_page import FORMGRADER, class_page

    base = formgrader or FORMGRADER
    if not re.fullmatch(r"https?://[^\s<>\"'`\\]+", base):
        return usage(f"--formgrader {base}: not an address such as {FORMGRADER}")
    if out is not None and out.is_dir():
        return usage(f"--out {out}: a folder; give the page's own name, such as {out / PAGE.name}")
    read = _read(names)
    if isinstance(read, int):
        return read
    course, book = read
    if not book.entries:
        print(f"Nobody has handed in anything yet in {course.root / 'submitted'}.", file=sys.stderr)
        return FAILED
    path = out if out is not None else course.root / PAGE
    write_whole(path, class_page(book, dt.datetime.now(dt.UTC), base).encode("utf-8", "replace"))
    count = sum(entry.state != "absent" for entry in book.entries.values())
    print(f"{path}: {len(book.people)} students, {count} copies. Open it in a browser; it needs no server.")
    return OK


def export(
    names: Sequence[str], *, out: Path | None, excel: bool, moodle: Path | None, rescale: bool,
    gradescope: bool,
) -> int:  # fmt: skip
    """Write the marks. 0: written; 1: nothing to write; 2: usage; 3: the gradebook cannot be read."""
    if moodle is not None and len(names) != 1:
        return usage("--moodle: name the one assignment that this worksheet is of")
    if sum((excel, moodle is not None, gradescope)) > 1:
        return usage("--excel, --moodle and --gradescope: give one of them at a time")
    if rescale and moodle is None:
        return usage("--rescale: only together with --moodle")
    read = _read(names)
    if isinstance(read, int):
        return read
    course, book = read
    if all(entry.state == "absent" for entry in book.entries.values()):
        print(f"No copy of {', '.join(names) or 'any assignment'} was handed in.", file=sys.stderr)
        return FAILED
    folder = course.root / EXPORT
    if moodle is not None:
        return _to_moodle(book, names[0], moodle, out or folder / f"moodle-{names[0]}.csv", rescale)
    if gradescope:
        return _to_gradescope(book, out or folder / "gradescope")
    return _to_csv(book, out or folder / "marks.csv", excel)


def _read(names: Sequence[str]) -> tuple[Course, Book] | int:
    """The course and its book; the exit code where they cannot be read, once that is said."""
    from autograder.batch.book import read_book
    from autograder.batch.trouble import GradingStopped

    try:
        course = load()
        return course, read_book(course, names)
    except CourseError as error:
        return usage(str(error))
    except GradingStopped as error:
        print(error, file=sys.stderr)
        return NOT_GRADED


def _to_csv(book: Book, path: Path, excel: bool) -> int:
    from autograder.batch.marks_csv import marks_csv
    from autograder.files import write_whole

    if path.is_dir():
        return usage(f"--out {path}: a folder; give a file's name")
    write_whole(path, marks_csv(book, excel=excel))
    marks = sum(entry.mark is not None for entry in book.entries.values())
    print(f"{path}: {marks} {'mark' if marks == 1 else 'marks'}")
    _without_mark(book)
    return OK


def _to_gradescope(book: Book, folder: Path) -> int:
    from autograder.batch.gradescope import NAME, write_results

    if folder.exists() and not folder.is_dir():
        return usage(f"--out {folder}: a file; --gradescope writes a folder")
    written, refused = write_results(book, folder)
    print(f"{folder}: {written} {NAME}")
    for student in refused:
        print(f"  {student!r}: no folder can have this name: nothing was written for this student")
    _without_mark(book)
    return OK if written else FAILED


def _to_moodle(book: Book, assignment: str, sheet_path: Path, path: Path, rescale: bool) -> int:
    from autograder.batch.moodle_sheet import SheetError, fill, read_sheet
    from autograder.batch.senders import known
    from autograder.files import write_whole

    if path.is_dir() or (path.exists() and sheet_path.exists() and path.samefile(sheet_path)):
        return usage(f"--out {path}: the worksheet itself, or a folder; give another file's name")
    try:
        sheet = read_sheet(sheet_path)
        filled = fill(sheet, book, assignment, known(book.course.root), rescale=rescale)
    except SheetError as error:
        return usage(str(error))
    if filled.rows:
        write_whole(path, sheet.content())
        print(f"{path}: {filled.rows} of {len(sheet.rows)} lines filled; upload it in Moodle")
    else:
        print(f"No line of {sheet_path} could be filled: nothing was written.", file=sys.stderr)
    for note in filled.notes:
        print(f"  {clean(note)}")
    _without_mark(book)
    return OK if filled.rows else FAILED


def _without_mark(book: Book) -> None:
    """Name the copies that have no mark yet: their field is empty, never 0."""
    from autograder.batch.marks_csv import why_no_mark

    left = [one for one in book.entries.values() if one.mark is None and one.state != "absent"]
    if left:
        print(f"\nWithout a mark yet, left empty ({len(left)}):")
    for one in left[:MOST_NAMED]:
        print(f"  {clean(one.student)}, {one.assignment}: {clean(why_no_mark(one))}")
    if len(left) > MOST_NAMED:
        print(f"  … and {len(left) - MOST_NAMED} more; `autograder report` shows them all")
