"""The launches of a copy's tests among its outputs: written once each, drawn for whoever reads the notebook.

A result keeps them as plain data. In the graded notebook a picture and a text stand beside the data, so that
nbgrader's own pages show them too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from autograder.messages import text
from autograder.notebook.testcells import Outcome
from autograder.report import launches as shown
from autograder.report import timeline, timeline_svg, timeline_text
from autograder.verdict.shown import MIME

Outputs = list[dict[str, Any]]


def with_launches(cells: Mapping[str, Outputs], outcomes: Iterable[Outcome]) -> dict[str, Outputs]:
    """The outputs of the test cells, with the launches of each before its last output, which is its mark.

    One that stands with an earlier test already, as open as here, is only named.
    """
    seen: set[tuple[str, bool]] = set()
    made: dict[str, Outputs] = dict(cells)
    for outcome in outcomes:
        if not outcome.launches:
            continue
        told = []
        for one in outcome.launches:
            ident, hidden = str(one.get("id")), bool(one.get("hidden"))
            known = (ident, False) in seen or (ident, hidden) in seen
            told.append({"id": ident} if known else one)
            seen.add((ident, hidden))
        data = {"output_type": "display_data", "data": {MIME: {"launches": told}}, "metadata": {}}
        before = made[outcome.id]
        made[outcome.id] = [*before[:-1], data, *before[-1:]]
    return made


def drawn(outputs: Outputs) -> Outputs:
    """The same outputs, the launches among them with a text and, where it shows something, a picture."""
    return [_drawn(output) if MIME in output.get("data", {}) else output for output in outputs]


def _drawn(output: dict[str, Any]) -> dict[str, Any]:
    data: dict[str, Any] = {MIME: output["data"][MIME]}
    launches = [one for one in shown.read(data[MIME]) if one.whole]
    said = [text("run_view.command", command=one.command) for one in launches]
    for one in launches:
        if one.timeline is not None and one.timeline.telling:
            said += timeline_text.lines(one.timeline, 100)
            data.setdefault(
                "image/svg+xml", timeline_svg.svg(one.timeline, timeline.sentences(one.timeline))
            )
    data["text/plain"] = "\n".join(said) or text("feedback.launch-above")
    return output | {"data": data}
