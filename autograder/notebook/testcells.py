"""Run the test cells of an assignment on what the student's side left, in a trusted process of its own.

Four endings, never fewer: points, zero with a cause, skipped (nothing was handed in for it), not graded
with a cause.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from autograder.launch.box import VARIABLE as BOXED
from autograder.launch.warm.client import COLD, Servers
from autograder.launch.warm.client import VARIABLE as WARM
from autograder.leftovers import scratch
from autograder.messages import text
from autograder.notebook.apart import clean_environment, run_module
from autograder.notebook.cells import Cell, given_names, names, needed_names
from autograder.notebook.plain import encode
from autograder.notebook.student import MAX_RESULT, full_is_nobody_s_fault, read_regular
from autograder.verdict.personal import STUDENT

Status = Literal["passed", "partial", "failed", "skipped", "not_graded"]


@dataclass(frozen=True)
class Outcome:
    """How one test cell ended. `message` and `advice` are for the student; `cause` is for the grader.

    `stdout` is what the cell printed, `report` the whole text to show in place of a traceback.
    """

    id: str
    status: Status
    points: float
    max_points: float
    message: str = ""
    advice: str = ""
    stdout: str = ""
    report: str = ""
    cause: str | None = None
    flags: tuple[str, ...] = ()
    diagnosis: dict[str, Any] | None = None
    suspicions: tuple[str, ...] = ()  # for the grader: see verdict/tampering.py
    timed: bool = False  # it might have ended otherwise on a machine that did nothing else
    warm: bool = False  # a warm server forked the tests or what they launched
    launches: tuple[dict[str, Any], ...] = ()  # what the student is shown of them: see verdict/shown.py


@dataclass(frozen=True)
class Answers:
    """What the student's side gave: plain values, why other names have none, and why it stopped before its
    end.
    """

    values: Mapping[str, Any] = field(default_factory=dict)
    absent: Mapping[str, str] = field(default_factory=dict)
    handed_in: bool = True  # False: only a labo.py was given, no answers at all
    stopped: str | None = None


@dataclass(frozen=True)
class Trusted:
    """What the test process may know: where the course is, its key, where launches are kept, and whose
    numbers the questions are asked with (None: everybody's).
    """

    course_root: Path | None = None
    key_file: Path | None = None
    runs: Path | None = None
    limit_s: float = 600.0
    student: str | None = None
    sandbox: bool = False  # what it launches goes into a box
    warm: Servers = COLD  # where it, and what it launches, is forked from

    def environment(self) -> dict[str, str]:
        named = {
            "AUTOGRADER_COURSE": self.course_root, "AUTOGRADER_KEY_FILE": self.key_file,
            "AUTOGRADER_RUNS": self.runs, STUDENT: self.student, BOXED: "1" if self.sandbox else None,
            WARM: self.warm.launch,
        }  # fmt: skip
        return clean_environment(**{name: str(value) for name, value in named.items() if value is not None})


def run_tests(
    cells: Iterable[Cell], answers: Answers, files: Mapping[str, bytes], data: Iterable[Path],
    trusted: Trusted, with_solution: bool = True, declared: Iterable[str] = (),
    unread: Mapping[str, str] | None = None,
) -> list[Outcome]:  # fmt: skip
    """The outcome of each test cell of `cells` (a source notebook's, hidden tests included), in order.

    `files` are what the student hands in, among the `declared` names; they take the place of a data file of
    the same name. `with_solution`: the answer cells among `cells` hold the solution, so that a name which
    none of them defines is the author's mistake. `unread`: files that were handed in and cannot be used, with
    why: a test that reads one cannot be judged.
    """
    every = list(cells)
    tests = [cell for cell in every if cell.role == "test"]
    needs = needed_names(every)
    defined_by_student = given_names(every) if with_solution else None
    outcomes: dict[str, Outcome] = {}
    away = set() if answers.handed_in else set(declared) - set(files)
    for cell in tests:
        early = _without_running(cell, needs[cell.id], answers, defined_by_student)
        if unread and (name := _file_read(cell, set(unread))):
            early = Outcome(cell.id, "not_graded", 0.0, cell.points, unread[name])
        if early is None and (name := _file_read(cell, away)):
            early = Outcome(cell.id, "skipped", 0.0, cell.points, text("grading.file-skipped", name=name))
        if early is not None:
            outcomes[cell.id] = early
    run = [cell for cell in tests if cell.id not in outcomes]
    if run:
        result, timed_out, log = _run(run, tests, answers, files, data, trusted)
        outcomes |= _judge(run, result, timed_out, log, outcomes, tests, trusted, whole=with_solution)
    return [outcomes[cell.id] for cell in tests]


def _without_running(
    cell: Cell, needs: tuple[str, ...], answers: Answers, defined_by_student: set[str] | None
) -> Outcome | None:
    if _all_hidden(cell.source):
        return Outcome(cell.id, "skipped", 0.0, cell.points, "")
    missing = [name for name in needs if name not in answers.values]
    if not missing:
        return None
    if defined_by_student is not None and (strange := [n for n in missing if n not in defined_by_student]):
        return fault(cell, f"the test reads {', '.join(strange)}, which no answer cell of the source defines")
    if not answers.handed_in:
        return Outcome(cell.id, "skipped", 0.0, cell.points, text("grading.answers-skipped"))
    if answers.stopped and all(answers.absent.get(name, "undefined") == "undefined" for name in missing):
        # The answer may stand in a cell that was never reached: somebody must look.
        return Outcome(cell.id, "not_graded", 0.0, cell.points, answers.stopped, cause=answers.stopped)
    said = []
    for name in missing:
        reason = answers.absent.get(name, "undefined")
        kind = reason if reason in ("undefined", "size") else "type"
        said.append(text(f"grading.answer-{kind}", name=name, type=reason))
    return Outcome(cell.id, "failed", 0.0, cell.points, "\n".join(said), text("grading.answer-advice"))


def _file_read(cell: Cell, names: set[str]) -> str | None:
    """The first of the files `names` that the test names, between quotes."""
    quoted = set(re.findall(r"""["']([\w.-]+)["']""", cell.source))
    return min(names & quoted, default=None)


def _all_hidden(source: str) -> bool:
    """Whether nothing of a test is left: a student's copy of a cell whose every line is hidden.

    Run, it would end well and count as passed.
    """
    return all(not line.strip() or line.lstrip().startswith("#") for line in source.splitlines())


def fault(cell: Cell, cause: str) -> Outcome:
    """The test itself is wrong: the student is told so and loses nothing."""
    return Outcome(
        cell.id, "not_graded", 0.0, cell.points, text("grading.test-fault"), cause=f"{cell.id}: {cause}"
    )


def _run(
    run: list[Cell],
    tests: list[Cell],
    answers: Answers,
    files: Mapping[str, bytes],
    data: Iterable[Path],
    trusted: Trusted,
) -> tuple[dict[str, Any], bool, str]:
    made_by_tests = _defined(tests)
    with scratch() as base:
        work, desk = base / "work", base / "desk"
        work.mkdir()
        desk.mkdir()
        for path in data:
            shutil.copyfile(path, work / path.name)
        for name, content in files.items():
            (work / name).write_bytes(content)
        request = {
            "cells": [
                {"id": cell.id, "source": cell.source, "reads": _reads_from_tests(cell, made_by_tests)}
                for cell in run
            ],
            "answers": {name: encode(value) for name, value in answers.values.items()},
        }
        (desk / "request.json").write_text(json.dumps(request), encoding="utf-8", errors="surrogatepass")
        arguments = [str(desk / "request.json"), str(desk / "result.json")]
        env = trusted.environment()
        done = run_module(
            "autograder.notebook.test_shell", arguments, work, env, trusted.limit_s, base / "log.txt",
            server=trusted.warm.notebook,
        )  # fmt: skip
        written = read_regular(desk / "result.json", MAX_RESULT)
        full_is_nobody_s_fault(base)
        told = (written or b"{}").decode("utf-8", errors="replace").replace(f"{work}{os.sep}", "")
        result = json.loads(told)
        # Where they did not come to their end, what they launched may have been.
        result["warm"] = done.warm or result.get("warm", trusted.warm.launch is not None)
        return result, done.timed_out, done.log


def _defined(tests: list[Cell]) -> set[str]:
    return set().union(*(names(cell.source)[1] for cell in tests))


def _reads_from_tests(cell: Cell, made_by_tests: set[str]) -> list[str]:
    read, bound = names(cell.source)
    return [name for name in read if name in made_by_tests and name not in bound]


def _judge(
    run: list[Cell], result: dict[str, Any], timed_out: bool, log: str, early: dict[str, Outcome],
    tests: list[Cell], trusted: Trusted, *, whole: bool,
) -> dict[str, Outcome]:  # fmt: skip
    """`whole`: the cells have their hidden lines, so that each must put all its points at stake."""
    ended = {item["id"]: item for item in result.get("done", [])}
    outcomes: dict[str, Outcome] = {}
    for cell in run:
        item = ended.get(cell.id)
        if item is not None and item["outcome"] == "blocked":
            outcomes[cell.id] = _blocked(cell, early | outcomes, tests, item["missing"])
        elif item is not None:
            outcomes[cell.id] = _one(cell, item, whole)
        elif timed_out:
            cause = text("grading.copy-too-long", s=round(trusted.limit_s))
            outcomes[cell.id] = Outcome(cell.id, "not_graded", 0.0, cell.points, cause, cause=cause)
        else:
            cause = f"the test process died: {log.strip()[-500:]}"
            outcomes[cell.id] = fault(cell, cause)
        outcomes[cell.id] = replace(_by_clock(outcomes[cell.id], item), warm=bool(result.get("warm")))
    return outcomes


def _by_clock(outcome: Outcome, item: dict[str, Any] | None) -> Outcome:
    """The outcome, marked where time may have decided it: the machine's fault, or points lost on a launch
    that ran late. A test that is wrong, or waits for another cell, is as wrong the next time.
    """
    said = item or {}
    late = bool((said.get("report") or {}).get("timed")) and outcome.status in ("failed", "partial")
    stopped = outcome.status == "not_graded" and said.get("outcome") not in ("fault", "blocked")
    return replace(outcome, timed=True) if late or stopped else outcome


def _blocked(cell: Cell, outcomes: dict[str, Outcome], tests: list[Cell], name: str) -> Outcome:
    """It reads a name that an earlier test cell did not come to define: it ends as that one did."""
    order = [test.id for test in tests]
    before = [outcomes[ident] for ident in order[: order.index(cell.id)] if ident in outcomes]
    stopped = [one for one in before if one.status in ("failed", "skipped", "not_graded")]
    if not stopped:
        return fault(cell, f"the test reads {name}, which nothing defined")
    last = stopped[-1]
    message = text("grading.test-depends", cell=last.id)
    return Outcome(cell.id, last.status, 0.0, cell.points, message, cause=last.cause)


def _one(cell: Cell, item: dict[str, Any], whole: bool) -> Outcome:
    said = item.get("report") or {}
    report = str(item.get("message") or "")
    message = str(said.get("message") or report)
    outcome, points = item["outcome"], 0.0
    if outcome == "fault":
        return fault(cell, str(item.get("detail") or report))
    at_stake = float(said.get("max_points", cell.points))
    if outcome in ("value", "failed") and at_stake < cell.points:
        if whole:
            return fault(cell, f"its lines give {at_stake:g} points, the cell is worth {cell.points:g}")
        # The student's own copy of the test, without its hidden lines: it counts for what is left of it.
        if outcome == "value" and not at_stake:
            said_here = str(item.get("stdout") or "")
            return Outcome(cell.id, "skipped", 0.0, cell.points, message, stdout=said_here)
        cell = replace(cell, points=at_stake)
    if outcome == "value":
        points = cell.points if item["value"] is None else float(item["value"])
        if points > cell.points:
            return fault(cell, f"the test gave {points:g} points of {cell.points:g}")
    statuses: dict[str, Status] = {"not_graded": "not_graded", "failed": "failed"}
    status = statuses.get(outcome) or (
        "passed" if points == cell.points else "partial" if points else "failed"
    )
    if status == "failed":
        message = message or text("grading.test-failed")
    return Outcome(
        cell.id, status, points, cell.points, message, str(said.get("advice") or ""),
        stdout=str(item.get("stdout") or ""), report=report,
        cause=message if status == "not_graded" else None,
        flags=tuple(str(flag) for flag in said.get("flags") or ()), diagnosis=said.get("diagnosis"),
        suspicions=tuple(str(line) for line in said.get("suspicions") or ()),
        launches=tuple(one for one in said.get("launches") or () if isinstance(one, dict)),
    )  # fmt: skip
