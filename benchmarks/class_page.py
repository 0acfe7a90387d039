"""What the class page costs, against the class's size: reading the gradebook, writing the page, using it.

    python benchmarks/class_page.py [--sizes 50 500] [--assignments 8] [--no-browser] [--short]

The class is made up: nothing is run for it. Sorting and searching are timed inside headless Chromium, with
the layout that follows; without Chromium these columns stay empty. The last line is what `autograder report`
takes for the largest class, beside starting Python.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime as dt
import statistics
import sys
import tempfile
import time
from pathlib import Path

import machine

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

# The mean of several turns: what the script does, and the layout that it asks for.
TIMED = """
const head = document.querySelectorAll("#class thead button"), field = document.getElementById("q");
const turn = (act) => {
  const before = performance.now();
  act();
  document.body.offsetHeight;
  return performance.now() - before;
};
const type = (text) => { field.value = text; field.dispatchEvent(new Event("input")); };
const sorts = [], searches = [];
for (let n = 0; n < 6; n++) sorts.push(turn(() => head[n % head.length].click()));
for (const text of ["e", "el", "elo", "prenom0", "nom1", ""]) searches.push(turn(() => type(text)));
return [sorts, searches];
"""


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
        started = time.perf_counter()
        book = read_book(course)
        read = time.perf_counter()
        page = class_page(book, dt.datetime(2031, 1, 1, tzinfo=dt.UTC))
        made = time.perf_counter()
        path = Path(name) / "classe.html"
        path.write_text(page, encoding="utf-8")
        used = ("", "", "")
        try:
            with chromium() if browser else contextlib.nullcontext() as driver:
                if driver is not None:
                    opened = time.perf_counter()
                    driver.get(path.as_uri())
                    loaded = time.perf_counter() - opened
                    times = [f"{statistics.median(each):.0f} / {max(each):.0f}"
                             for each in driver.execute_script(TIMED)]  # fmt: skip
                    used = f"{loaded:.2f}", times[0], times[1]
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
    print(machine.describe("nbgrader", "SQLAlchemy", "jinja2"), f"\n{options.assignments} assignments\n")
    rows = [one(size, options.assignments, not (options.no_browser or options.short)) for size in sizes]
    head = ("students", "read s", "write s", "KiB", "open s", "sort ms, median / worst", "search ms")
    print(machine.table(head, rows))
    print(f"\npage_s: {float(rows[-1][1]) + float(rows[-1][2]):.2f}")


if __name__ == "__main__":
    main()
