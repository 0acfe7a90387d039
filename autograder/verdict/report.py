"""The French report of one test cell: findings, what was launched, the cause, what to try."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from autograder import messages
from autograder.launch.command import FRESH
from autograder.launch.run import Run
from autograder.verdict import clock, evidence, texts
from autograder.verdict.cause import Diagnosis, ranks_named


@dataclass(frozen=True)
class Line:
    """One expectation of a test cell and how it ended."""

    ok: bool
    finding: str
    advice: str
    points: float
    gate: bool
    run: Run | None
    text: str = ""             # the expected text, for the diagnosis only
    collective: bool = False   # the expectation was that a collective ran
    about_run: bool = True     # False: about an answer, so the launch explains nothing
    hidden: bool = False       # what is expected may not be shown


@dataclass(frozen=True)
class TestReport:
    """What a test cell said, as data. `status` is passed, partial, failed or not_graded."""

    __test__ = False

    points: float
    max_points: float
    status: str
    message: str
    advice: str
    flags: list[str]
    diagnosis: dict[str, Any] | None
    suspicions: list[str] = field(default_factory=list)   # for the grader, never shown to the student
    timed: bool = False   # points were lost on a launch that a quicker machine could have ended otherwise
    launches: list[dict[str, Any]] = field(default_factory=list)   # what the student is shown: see shown.py


@dataclass(frozen=True)
class Report:
    text: str
    summary: TestReport


def build(
    lines: Sequence[Line], earned: float, maximum: float, *,
    causes: Sequence[tuple[Run, Diagnosis | None]], flags: tuple[str, ...], remarks: tuple[str, ...],
    inputs: tuple[str, tuple[str, ...], Any, Run | None] | None, suspicions: Sequence[str] = (),
    launches: Sequence[dict[str, Any]] = (),
) -> Report:
    """The report of a cell that earned `earned` of `maximum` points."""
    failed = [line for line in lines if not line.ok]
    status = "passed" if earned == maximum else "partial" if earned > 0 else "failed"
    if not maximum and failed:   # a student's copy of a test whose points are all hidden
        status = "failed"
    parts = [_header(status, earned, maximum)]
    findings: list[str] = []
    advices: list[str] = []
    if inputs is not None:
        findings.append(messages.text("check.inputs-ignored", variable=inputs[0]))
        advices.append(messages.text("check.inputs-ignored-advice", variable=inputs[0]))
        failed = [line for line in failed if not line.text]
    for line in failed:
        if line.finding and line.finding not in findings:
            findings.append(line.finding)
        if line.advice and line.advice not in advices:
            advices.append(line.advice)
    parts += [messages.text("check.finding", finding=finding) for finding in findings]
    if status != "passed":
        parts += [messages.text("check.launched", command=launched(run)) for run, _ in causes]
    found_causes = [found for _, found in causes if found is not None and found.cls != "-"]
    # Rows written in the script are told as such; only another primary cause is worth adding to that.
    shown = list(dict.fromkeys(one for one in found_causes if inputs is None or one.cls == "P"))
    for found in shown:
        key = "check.cause" if status != "passed" else "check.remark"
        parts.append(messages.text(key, cause=found.message, remark=found.message))
        # The diagnosis knows more than the line's own advice.
        advices = [*([found.advice] if found.advice else []), *advices]
    if advices:
        parts += [messages.text("check.advice", advice=advice) for advice in dict.fromkeys(advices)]
    parts += [messages.text("check.remark", remark=remark) for remark in remarks]
    summary = TestReport(
        points=float(earned), max_points=float(maximum), status=status,
        message="\n".join(findings), advice="\n".join(dict.fromkeys(advices)), flags=list(flags),
        diagnosis=shown[0].as_dict() if shown else None, suspicions=list(suspicions),
        timed=any(line.run is not None and clock.matters(line.run) for line in lines if not line.ok),
        launches=list(launches),
    )
    return Report(text="\n".join(parts), summary=summary)


def _header(status: str, earned: float, maximum: float) -> str:
    if status == "passed" and not maximum:
        return messages.text("check.later")
    return messages.text(f"check.{status}", points=messages.number(earned), max=messages.number(maximum))


def where(rank: int | None) -> str:
    return messages.text("check.anywhere") if rank is None else messages.text("check.on-rank", rank=rank)


def missing_text(run: Run, expected: str, rank: int | None, secret: bool) -> str:
    """An expected text is not there: which, on which rank, what comes nearest, or that it printed nothing."""
    if secret:
        word = re.match(r"[^\W\d]+", expected)   # its first word tells which text, never its value
        key = "check.missing-secret-word" if word else "check.missing-secret"
        finding = messages.text(key, where=where(rank), word=word.group() if word else "")
    else:
        finding = messages.text("check.missing-text", where=where(rank), text=texts.one_line(expected))
    found = texts.nearest(run, expected, rank)
    if found is not None:
        return finding + " " + messages.text("check.nearest", text=texts.one_line(found))
    others = [
        other for other in evidence.world(run)
        if rank is not None and run.per_rank and other != rank and texts.present(run, expected, other)
    ]
    if others:
        return finding + " " + messages.text("check.on-other-rank", rank=others[0])
    log = run.rank(rank) if rank is not None else None
    silent = not (log.stdout if log is not None else run.stdout).strip()
    return finding + (" " + messages.text("check.printed-nothing") if silent else "")


def missing_collective(run: Run, op: Any, without: Sequence[int], by_values: bool) -> str:
    """No such collective was completed on those ranks: what was recorded there instead."""
    names = [op] if isinstance(op, str) else list(op or ())
    named = " ou ".join(f"`{name}`" for name in names) or messages.text("check.any-collective")
    seen = ", ".join(f"{name} × {count}" for name, count in sorted(evidence.ops(run, without[0]).items()))
    other = by_values and evidence.matching(run, op, without[0])
    key = "check.wrong-values" if other else "check.no-collective"
    finding = messages.text(key, where=ranks_named(without), op=named)
    return finding + " " + messages.text("check.recorded" if seen else "check.recorded-nothing", seen=seen)


def wrong_exit(run: Run, zero: bool) -> str:
    if run.timed_out:
        return messages.text("check.exit-timed-out", limit=messages.number(run.request.time_limit_s))
    return messages.text("check.exit-not-zero" if zero else "check.exit-zero", code=run.exit_code)


def wrong_answer(name: str, value: object) -> str:
    if value is None or value is Ellipsis:
        return messages.text("check.no-answer", name=name)
    try:
        shown = repr(value)
    except Exception:   # a hostile object must not end the test cell
        shown = type(value).__name__
    return messages.text("check.wrong-answer", name=name, value=texts.one_line(shown, 120))


def launched(run: Run) -> str:
    """The command with its environment, as a student would type it."""
    # The command already holds what stands for a fresh folder.
    env = {key: value for key, value in run.request.env.items() if FRESH not in value}
    given = [f"{key}={shlex.quote(value)}" for key, value in sorted(env.items())]
    prefix = " ".join(one for one in given if one not in run.command)
    command = f"{prefix} {run.command}".strip()
    if run.request.delays:
        held = sorted({delay.rank for delay in run.request.delays})
        command += " " + messages.text("check.delayed", ranks=ranks_named(held, lower=True))
    if run.request.gpus is not None:
        key = "gpu.simulated" if run.request.gpus else "gpu.none"
        command += " " + messages.text(key, count=run.request.gpus)
    return texts.one_line(command, 400)


def say(text: str) -> None:
    """Print on stdout; a console that lacks a character gets "?" and never an error."""
    try:
        print(text)
    except UnicodeEncodeError:
        encoding = sys.stdout.encoding or "ascii"
        print(text.encode(encoding, "replace").decode(encoding))
