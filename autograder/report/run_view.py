"""A Run and a check as a student reads them in a terminal: French, one block per rank, then cause and advice.

Text in, text out: nothing is printed here, and whatever a rank wrote is shown without the control characters
that could repaint the terminal.
"""

from __future__ import annotations

import re
import shutil
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from autograder.launch.run import RankLog, Run
from autograder.messages import has, number, plural, template, text
from autograder.report import timeline, timeline_text
from autograder.verdict.texts import ANSI

FILE_DIFFERS = "file-differs"  # a copy's flag: its script is not what the notebook's cell writes
MAX_LINES = 60  # of one rank's stream: the first and last half are shown

# Every control character but tab and newline, and the Unicode marks that reorder text on screen.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_RANKS = re.compile(r"\brangs?\s+(\d+(?:(?:, | et )\d+)*)")  # « rang 1 », « rangs 0, 1 et 2 »
_MARKS = {"passed": "✔", "partial": "◐", "failed": "✘", "skipped": "–", "not_graded": "?"}


def clean(raw: str) -> str:
    """`raw` as plain text: progress bars keep their last state, colours and cursor moves go."""
    raw = ANSI.sub("", raw).replace("\r\n", "\n")
    lines = [
        line.rsplit("\r", 1)[-1] if line.rstrip("\r") else ""
        for line in (line.rstrip("\r") for line in raw.split("\n"))
    ]
    return _CONTROL.sub("�", "\n".join(lines))


def view(run: Run, diagnosis: Any | None) -> str:
    """The whole launch: command, each rank's output as one block, then what is wrong and what to try."""
    lines = [text("run_view.command", command=run.command), ""]
    if run.per_rank and run.ranks:
        for log in run.ranks:
            lines += [*_block(_rank_title(run, log), log.stdout, log.stderr, log.truncated), ""]
    else:
        lines += [*_block(text("run_view.merged"), run.stdout, run.stderr, run.output_limited), ""]
    if not run.ranks and run.launcher_stderr and not (run.stdout or run.stderr):
        lines += [*_block(text("run_view.launcher"), "", run.launcher_stderr, False), ""]
    lines += [*_picture(run), _end(run), "", *conclusion(run, diagnosis)]
    return "\n".join(lines)


def _picture(run: Run) -> list[str]:
    """The ranks' timeline, where it shows something: a rank that never came, or a wait that counts."""
    line = timeline.of(run)
    return [*timeline_text.lines(line), ""] if line is not None and line.telling else []


def conclusion(run: Run, diagnosis: Any | None, width: int | None = None) -> list[str]:
    """What the launch shows: the machine's fault, a diagnosis with its place and advice, or nothing wrong.

    `width` of its lines: the terminal's if it is not given.
    """
    if run.infra:
        return [*_wrapped("", text("run_view.infra", infra=run.infra), width=width)]
    if diagnosis is None:
        return [text("run_view.nothing-wrong")]
    return diagnosis_lines(
        {
            "rank": diagnosis.rank,
            "line": diagnosis.line,
            "message": diagnosis.message,
            "advice": diagnosis.advice,
        },
        run.source,
        width,
    )


def diagnosis_lines(
    diagnosis: Mapping[str, Any], source: str = "", width: int | None = None
) -> list[str]:  # fmt: skip
    """Cause, then advice; where it stands and the line of `source` are added when the cause omits them."""
    message = clean(str(diagnosis["message"]))
    line = diagnosis.get("line")
    script = source.splitlines()
    quoted = clean(script[line - 1]).strip() if line and 0 < line <= len(script) else ""
    where = unsaid_place(diagnosis)
    label = f"{text('run_view.cause')} ({where})" if where else text("run_view.cause")
    lines = list(_wrapped(f"{label}\u00a0: ", message, width=width))
    if quoted and quoted not in message:
        lines.append(f"    {line} | {quoted}")
    if diagnosis.get("advice"):
        lines += _wrapped(f"{text('run_view.advice')}\u00a0: ", clean(str(diagnosis["advice"])), width=width)
    return lines


def check_view(
    result: Mapping[str, Any], remarks: Sequence[str] = (),
    pictures: Mapping[str, Sequence[str]] | None = None, *, source: bool = False,
) -> str:
    """A check's JSON as text: the cause of what failed, each test with what was found and what to try, then
    the score.

    `pictures`: the timelines to show, by test, where it did not pass (see launches.py). `source`: it was the
    instructor's own notebook, which nobody hands in.
    """
    diagnosis = result.get("diagnosis")
    cause = diagnosis if diagnosis and not _told(diagnosis, result["tests"]) else None
    first = cause is not None and any(test["status"] not in ("passed", "skipped") for test in result["tests"])
    lines: list[str] = [*diagnosis_lines(cause), ""] if cause and first else []
    for test in result["tests"]:
        status = str(test["status"])
        # Skipped without a word: all its tests are hidden ones, which a student's machine does not have.
        hidden = status == "skipped" and not test.get("message")
        label = text("check_view.hidden" if hidden else f"check_view.{status}")
        points = (
            ""
            if status in ("skipped", "not_graded")
            else (f" ({number(test['points'])}/{number(test['max_points'])})")
        )
        lines.append(f"{_MARKS.get(status, '·')} {test['id']}\u00a0: {label}{points}")
        # A passed test's message would only repeat that it passed.
        if status != "passed":
            for part in (test.get("message"), test.get("advice")):
                for line in clean(str(part or "")).strip().splitlines():
                    if not (cause and first and line == clean(str(cause["advice"]))):  # told once, on top
                        lines += _wrapped("    ", line, "    ")
            lines += [f"    {line}" for line in (pictures or {}).get(test["id"], ())]
    lines.append("")
    lines += [text("check_view.remark", remark=remark) for remark in (*remarks, *_flags(result))]
    if cause and not first:
        lines += [*diagnosis_lines(cause), ""]
    lines += _score(result, source)
    return "\n".join(lines)


def _told(diagnosis: Mapping[str, Any], tests: Sequence[Mapping[str, Any]]) -> bool:
    """Whether a test that is shown says this cause itself."""
    shown = [str(test.get("message")) for test in tests if test["status"] != "passed"]
    return any(str(diagnosis["message"]).strip() in message for message in shown)


def _flags(result: Mapping[str, Any]) -> Iterator[str]:
    """What the flags say in words: the diagnosis of that name, or what it is called for short.

    The others have a remark of their own, or are an exercise's own, for whoever grades.
    """
    for flag in result.get("flags", ()):
        whole, short = f"diagnosis.{flag}.finding", f"misconception.{flag}"
        if has(short):
            yield clean(template(whole) if "{" not in template(whole) else template(short))


def _score(result: Mapping[str, Any], source: bool) -> Iterator[str]:
    name = result["assignment"]
    if not result["graded"]:
        yield from _wrapped("", text("check_view.not-graded", assignment=name, cause=result["cause"]))
        return
    score, most = number(result["score"]), number(result["max_score"])
    hidden = [test for test in result["tests"] if test["status"] == "skipped" and not test.get("message")]
    points = number(sum(test["max_points"] for test in hidden))
    if hidden and len(hidden) == len(result["tests"]):  # an exam: there is no score to speak of
        yield from _wrapped("", text(
            "exam.all-hidden", assignment=name, count=len(hidden), s=plural(len(hidden)), points=points,
        ))
        return
    yield text("check_view.score", assignment=name, score=score, max_score=most)
    if hidden:
        yield text("check_view.hidden-count", count=len(hidden), s=plural(len(hidden)), points=points)
    others = [test for test in result["tests"] if test not in hidden]
    if others and all(test["status"] == "passed" for test in others):
        if FILE_DIFFERS in result.get("flags", ()):  # what may have been edited last is not what passed
            yield from _wrapped("", text("check_view.cell-passed", assignment=name))
        else:
            yield text("check_view.all-passed-source" if source else "check_view.all-passed", assignment=name)


def _rank_title(run: Run, log: RankLog) -> str:
    title = text("run_view.rank", rank=log.rank)
    if log.exit_code == -15:  # not this rank's own end: the launcher's SIGTERM, or ours at the limit
        if log.reached_end:  # stopped while Python was closing: its work was over
            return f"{title} ({text('run_view.rank-closing')})"
        ended_by_us = run.timed_out or run.output_limited
        return f"{title} ({text('run_view.rank-ended' if ended_by_us else 'run_view.rank-stopped')})"
    return f"{title} ({text('run_view.rank-end', code=log.exit_code)})" if log.exit_code else title


def _block(title: str, stdout: str, stderr: str, cut: bool) -> Iterator[str]:
    yield f"┌── {title}"
    shown = _shorten(clean(stdout))
    errors = _shorten(clean(stderr))
    if not shown and not errors:
        yield f"│ {text('run_view.silent')}"
    yield from (f"│ {line}" for line in shown)
    if errors:
        yield f"│ {text('run_view.stderr')}"
        yield from (f"│   {line}" for line in errors)
    if cut:
        yield f"│ {text('run_view.cut')}"
    yield "└──"


def _shorten(shown: str) -> list[str]:
    lines = shown.rstrip().splitlines()
    if len(lines) <= MAX_LINES:
        return lines
    half = MAX_LINES // 2
    return [*lines[:half], f"[… {len(lines) - 2 * half} …]", *lines[-half:]]


def _end(run: Run) -> str:
    if run.timed_out:
        return text("run_view.timed-out", limit=number(run.request.time_limit_s))
    if run.output_limited:
        return text("run_view.too-much")
    return text("run_view.ended", code=run.exit_code, duration=number(run.duration_s, 1))


def unsaid_place(diagnosis: Mapping[str, Any]) -> str:
    """The rank and line of a diagnosis, less what its message says already."""
    said = str(diagnosis["message"]).casefold()
    rank, line = diagnosis.get("rank"), diagnosis.get("line")
    ranks = {named for listed in _RANKS.findall(said) for named in re.findall(r"\d+", listed)}
    here = text("run_view.where-line", line=line)
    return place(
        None if str(rank) in ranks else rank,
        None if re.search(rf"{re.escape(here)}(?!\d)", said) else line,
    )


def place(rank: int | None, line: int | None) -> str:
    """The rank and line of a diagnosis in words; "" when neither is known."""
    if rank is not None and line is not None:
        return text("run_view.where-rank-line", rank=rank, line=line)
    if rank is not None:
        return text("run_view.where-rank", rank=rank)
    return text("run_view.where-line", line=line) if line is not None else ""


def _wrapped(head: str, body: str, indent: str = "    ", width: int | None = None) -> list[str]:
    width = width or max(40, min(shutil.get_terminal_size((100, 24)).columns, 110))
    lines: list[str] = []
    for paragraph in body.splitlines() or [""]:
        # Commands must survive copy and paste: never broken at a hyphen or inside a word.
        lines += textwrap.wrap(
            paragraph,
            width,
            initial_indent=head if not lines else indent,
            subsequent_indent=indent,
            break_long_words=False,
            break_on_hyphens=False,
        ) or [""]
    return lines
