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
from browser import ROOT, chromium, jupyterlab, why_not
from PIL import Image

IMAGES = ROOT / "docs" / "img"
MOST_KIB = 150
COLOURS = 64


def keep(name: str, png: bytes) -> None:
    picture = Image.open(io.BytesIO(png)).convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
    path = IMAGES / f"{name}.png"
    picture.save(path, optimize=True)
    size = path.stat().st_size / 1024
    print(f"{path.relative_to(ROOT)}: {picture.width} × {picture.height}, {size:.0f} KiB")
    if size > MOST_KIB:
        raise SystemExit(f"{path} is larger than {MOST_KIB} KiB: show less in it")


def main(names: list[str]) -> int:
    if why := why_not():
        print(why, file=sys.stderr)
        return 1
    os.environ |= stories.SAVED
    IMAGES.mkdir(parents=True, exist_ok=True)
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


def _feedback(driver: Any, root: Path) -> None:
    """Open the student's page as they do: the file, without any server."""
    page = root / "feedback" / stories.STUDENT / stories.ASSIGNMENT / f"{stories.ASSIGNMENT}.html"
    driver.get(page.as_uri())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
