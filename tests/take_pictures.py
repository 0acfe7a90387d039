"""Take the screenshots of docs/img again: `make pictures`, or `python tests/take_pictures.py [NAME …]`.

The stories are those of tests/test_browser.py. Pictures keep 64 colours, so that the repository stays small;
look at each of them before you commit it.
"""

from __future__ import annotations

import io
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import browser_stories as stories
import synthetic_class
from browser import ROOT, chromium, jupyterlab, open_file, why_not
from PIL import Image

from autograder.batch.book import read_book
from autograder.launch.run import Run
from autograder.report.class_page import class_page
from autograder.report.run_shown import bundle

IMAGES = ROOT / "docs" / "img"
MOST_KIB = 150
COLOURS = 64
# Drawn, not taken: name → a saved Run (tests/test_docs.py holds them up to date).
TIMELINES = {"timeline-hang": "no_timeout_hang", "timeline-slow": "slow_step"}


def keep(name: str, png: bytes) -> None:
    picture = Image.open(io.BytesIO(png)).convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
    path = IMAGES / f"{name}.png"
    picture.save(path, optimize=True)
    size = path.stat().st_size / 1024
    print(f"{path.relative_to(ROOT)}: {picture.width} × {picture.height}, {size:.0f} KiB")
    if size > MOST_KIB:
        raise SystemExit(f"{path} is larger than {MOST_KIB} KiB: show less in it")


def timeline(name: str) -> str:
    saved = ROOT / "tests" / "runs_broken" / f"{TIMELINES[name]}.json"
    return bundle(Run.from_json(saved.read_text(encoding="utf-8")))["image/svg+xml"]


def main(names: list[str]) -> int:
    if why := why_not():
        print(why, file=sys.stderr)
        return 1
    os.environ |= stories.SAVED
    IMAGES.mkdir(parents=True, exist_ok=True)
    for name in TIMELINES:
        if not names or name in names:
            (IMAGES / f"{name}.svg").write_text(timeline(name), encoding="utf-8")
    if not names or "class-page" in names:
        _class_page()
    if names and not {*names} - {*TIMELINES, "class-page"}:
        return 0
    with tempfile.TemporaryDirectory() as folder, chromium(1200, 860) as driver:
        root = Path(folder) / "course"
        stories.a_course(root)

        def look(name: str) -> None:
            if not names or name in names:
                keep(name, driver.get_screenshot_as_png())

        with jupyterlab(root, stories.SAVED) as lab:
            stories.student(driver, lab, look)
            print(stories.hand_in_and_grade(root))
            stories.grader(driver, lab, look)
        stories.typed(root, "grade", stories.ASSIGNMENT, "--sandbox=auto")
        _feedback(driver, root)
        look("student-feedback")
    return 0


def _class_page() -> None:
    """A class that was drawn: real ones have names."""
    with tempfile.TemporaryDirectory() as folder, chromium(1200, 860) as driver:
        course = synthetic_class.course_in(Path(folder), late="daily")
        synthetic_class.make(course, 24, assignments=4, seed=3)
        page = Path(folder) / "classe.html"
        page.write_text(class_page(read_book(course), course.session.end, "http://localhost:8888"), "utf-8")
        open_file(driver, page)
        keep("class-page", driver.get_screenshot_as_png())


def _feedback(driver: Any, root: Path) -> None:
    """Open the student's page as they do: the file, without any server."""
    page = root / "feedback" / stories.STUDENT / stories.ASSIGNMENT / f"{stories.ASSIGNMENT}.html"
    driver.get(page.as_uri())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
