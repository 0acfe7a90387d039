"""What is kept of a test's launches (see verdict/shown.py), read back and made fit to be shown."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from autograder.messages import number, text
from autograder.report import timeline, timeline_svg, timeline_text
from autograder.report.run_view import clean
from autograder.verdict import noise
from autograder.verdict.shown import MIME
from autograder.verdict.timeline import Timeline

if TYPE_CHECKING:
    from autograder.notebook.result import CopyResult

MOST = 20   # launches read of one test
MOST_LINES = 80   # of one stream, once cleaned

# Beside what is noise everywhere (verdict/noise.py): the rank before each line, the marks under a line of
# code, torch's own C++ frames and source paths.
_PREFIX = re.compile(r"^\[rank\d+\]: ?", re.MULTILINE)
_NOISE = re.compile(
    r"^\s*[~^]+\s*$|^Extension modules:|^frame #\d+: |^Exception raised from |"
    r"destroy_process_group\(\) was not called"
)
_BUILD = re.compile(r"\[?/__w/\S*?:\d+\]? ?")


@dataclass(frozen=True)
class RankOutput:
    """One rank's output, cleaned; rank None: all of them together. `note`: how it ended, in French."""

    rank: int | None
    note: str
    out: str
    err: str
    cut: bool


@dataclass(frozen=True)
class Launch:
    """One launch. `whole` False: only its name, the rest stands with an earlier test. `hidden`: of a hidden
    test, so that no output is shown.
    """

    id: str
    whole: bool
    command: str = ""
    end: str = ""
    hidden: bool = False
    ranks: tuple[RankOutput, ...] = ()
    timeline: Timeline | None = None


def read(data: Any) -> list[Launch]:
    """The launches that `data` holds; what is not as it should be is left out."""
    told = data.get("launches") if isinstance(data, dict) else None
    found = (_launch(one) for one in (told if isinstance(told, list) else [])[:MOST] if isinstance(one, dict))
    return [launch for launch in found if launch is not None]


def telling(cells: Mapping[str, Sequence[Mapping[str, Any]]]) -> dict[str, Timeline]:
    """For each cell whose launch shows something (a rank that never came, a wait), its timeline."""
    found: dict[str, Timeline] = {}
    for ident, outputs in cells.items():
        for output in outputs:
            for launch in read(output.get("data", {}).get(MIME)):
                if launch.timeline is not None and launch.timeline.telling:
                    found.setdefault(ident, launch.timeline)
    return found


def pictures(cells: Mapping[str, Sequence[Mapping[str, Any]]]) -> dict[str, list[str]]:
    """The same as text, for a terminal."""
    return {ident: timeline_text.lines(line, 92) for ident, line in telling(cells).items()}


def bundles(result: CopyResult) -> list[dict[str, str]]:
    """The timelines of the tests that did not pass, as a notebook shows them, by kind of content."""
    failed = {test.id for test in result.tests if test.status in ("failed", "partial", "not_graded")}
    return [
        {
            "text/plain": "\n".join([ident, *timeline_text.lines(line, 92)]),
            "image/svg+xml": timeline_svg.svg(line, [ident, *timeline.sentences(line)]),
        }
        for ident, line in telling(result.cells).items() if ident in failed
    ]  # fmt: skip


def _launch(one: dict[str, Any]) -> Launch | None:
    try:
        ident = re.sub(r"\W", "", str(one["id"]))[:40]
        if "command" not in one:
            return Launch(ident, False)
        stopped = bool(one["timed_out"] or one["limited"])
        return Launch(
            ident, True, clean(str(one["command"])), _end(one), bool(one["hidden"]),
            tuple(_rank(rank, stopped) for rank in one["ranks"][:MOST]),
            Timeline.from_dict(one["timeline"]) if one["timeline"] else None,
        )  # fmt: skip
    except (KeyError, TypeError, ValueError, AttributeError):
        return None


def _end(one: dict[str, Any]) -> str:
    if one["infra"]:
        return text("feedback.infra")
    if one["timed_out"]:
        return text("run_view.timed-out", limit=number(one["limit_s"]))
    if one["limited"]:
        return text("run_view.too-much")
    return text("run_view.ended", code=one["exit_code"], duration=number(one["duration_s"], 1))


def _rank(rank: dict[str, Any], stopped: bool) -> RankOutput:
    code, note = rank["code"], ""
    if code == -15:
        note = text("run_view.rank-ended" if stopped else "run_view.rank-stopped")
    elif code:
        note = text("run_view.rank-end", code=int(code))
    out, err = tidy(str(rank["out"])), tidy(noise.without(str(rank["err"])))
    return RankOutput(None if rank["rank"] < 0 else int(rank["rank"]), note, out, err, bool(rank["cut"]))


def tidy(written: str) -> str:
    """What a rank wrote, as plain text without torch's noise, of a bounded number of lines."""
    lines = list(_telling(_PREFIX.sub("", clean(written))))
    if len(lines) > MOST_LINES:
        half = MOST_LINES // 2
        lines = [*lines[:half], f"[… {len(lines) - 2 * half} …]", *lines[-half:]]
    return "\n".join(lines).strip("\n")


def _telling(written: str) -> Iterator[str]:
    blank = False
    for line in written.split("\n"):
        line = _BUILD.sub("", line).rstrip()
        if _NOISE.search(line) or (blank and not line):
            continue
        blank = not line
        yield line
