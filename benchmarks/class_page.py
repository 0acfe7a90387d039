"""What the class page costs, against the class's size: reading the gradebook, writing the page, using it.

    python benchmarks/class_page.py [--sizes 50 500] [--assignments 8] [--no-browser] [--short]

The class is made up: nothing is run for it. Opening, sorting and searching are measured in headless
Chromium, with the layout that follows; without Chromium these columns stay empty. The last line is what
`autograder report` takes for the largest class, beside starting Python.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime as dt
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import machine
import psutil

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

TURNS = 20
# Each with the layout that it asks for.
SORT = """
const heads = document.querySelectorAll("#class thead button");
for (let n = 0; n < arguments[0]; n++) { heads[n % heads.length].click(); document.body.offsetHeight; }
"""
SEARCH = """
const field = document.getElementById("q"), texts = ["prenom0", "nom1", "x", ""];
for (let n = 0; n < arguments[0]; n++) {
  field.value = texts[n % texts.length];
  field.dispatchEvent(new Event("input"));
  document.body.offsetHeight;
}
"""


def used_by(driver: Any) -> float:
    """CPU seconds of the browser: on a busy machine the clock says nothing of the page."""
    total = 0.0
    for process in psutil.Process(driver.service.process.pid).children(recursive=True):
        with contextlib.suppress(psutil.Error):
            times = process.cpu_times()
            total += times.user + times.system
    return total


def in_browser(driver: Any, path: Path) -> tuple[str, ...]:
    """Opening it, one sort, one search."""
    driver.set_script_timeout(300)
    found, before = [], used_by(driver)
    driver.get(path.as_uri())
    found.append(f"{1000 * (used_by(driver) - before):.0f}")
    for script in (SORT, SEARCH):
        before = used_by(driver)
        driver.execute_script(script, TURNS)
        found.append(f"{1000 * (used_by(driver) - before) / TURNS:.0f}")
    return tuple(found)


def one(count: int, assignments: int, browser: bool) -> tuple[str, ...]:
    """A row of the table for a class of `count`."""
    import pytest
    import synthetic_class
    from browser import chromium

    from autograder.batch.book import read_book
    from autograder.report.class_page import class_page

    with tempfile.TemporaryDirectory() as name:
        course = synthetic_class.course_in(Path(name), late="daily")
        synthetic_class.make(course, count, assignments=assignments)
        started = time.process_time()
        book = read_book(course)
        read = time.process_time()
        page = class_page(book, dt.datetime(2031, 1, 1, tzinfo=dt.UTC))
        made = time.process_time()
        path = Path(name) / "classe.html"
        path.write_text(page, encoding="utf-8")
        used: tuple[str, ...] = ("", "", "")
        try:
            with chromium() if browser else contextlib.nullcontext() as driver:
                if driver is not None:
                    used = in_browser(driver, path)
        except pytest.skip.Exception as why:  # how the tests say that there is no Chromium
            print(why, file=sys.stderr)
        size = f"{len(page.encode()) / 1024:.0f}"
        return str(count), f"{read - started:.2f}", f"{made - read:.2f}", size, *used


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=[50, 500], metavar="K")
    parser.add_argument("--assignments", type=int, default=8, metavar="N")
    parser.add_argument("--no-browser", action="store_true", help="only how the page is made")
    parser.add_argument("--short", action="store_true", help="3 and 6 students, no browser: that it runs")
    options = parser.parse_args()
    sizes = [3, 6] if options.short else sorted(options.sizes)
    options.assignments = 2 if options.short else options.assignments
    print(machine.describe("nbgrader", "SQLAlchemy", "jinja2"), f"\n{options.assignments} assignments\n")
    rows = [one(size, options.assignments, not (options.no_browser or options.short)) for size in sizes]
    head = ("students", "read, CPU s", "write, CPU s", "KiB", "open, CPU ms", "sort", "search")
    print(machine.table(head, rows))
    print(f"\npage_s: {float(rows[-1][1]) + float(rows[-1][2]):.2f}")


if __name__ == "__main__":
    main()
