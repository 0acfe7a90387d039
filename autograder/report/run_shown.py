"""A Run as a notebook shows it: the terminal's text, and the timeline as a picture with the cause below."""

from __future__ import annotations

from autograder.launch.run import Run
from autograder.report import timeline, timeline_svg
from autograder.report.run_view import conclusion, view
from autograder.verdict.diagnosis import diagnose

MOST = 40_000   # characters of the text
WHOLE = 10_000   # the picture wraps for itself


def bundle(run: Run) -> dict[str, str]:
    """The whole launch as text, which every notebook can show, and the picture where there is one to draw.

    A notebook shows the picture in the place of the text: what the launch shows stands in it too.
    """
    found = diagnose(run)
    told = view(run, found)
    if len(told) > MOST:
        told = f"{told[: MOST // 2]}\n[…]\n{told[-MOST // 2 :]}"
    shown = {"text/plain": told}
    line = timeline.of(run)
    if line is not None:
        notes = [*timeline.sentences(line), *conclusion(run, found, width=WHOLE)]
        shown["image/svg+xml"] = timeline_svg.svg(line, notes)
    return shown
