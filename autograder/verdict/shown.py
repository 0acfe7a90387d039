"""What a student is shown of a test's launches: plain data of a bounded size, kept with the test's result.

Of a launch that expects hidden values, no output: a right script prints them. Its timeline is shown only
where its command is (what failed is about it), and never where the test holds a rank back for a time of its
own.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Sequence
from typing import Any

from autograder.launch.run import RankLog, Run
from autograder.verdict import report
from autograder.verdict.lives import timeline

MIME = "application/vnd.autograder.launches+json"   # under this name they stand among a test cell's outputs
MOST_LAUNCHES = 3            # of one test
MOST_RANKS = 8
MOST_OUTPUT, MOST_ERRORS = 4_000, 2_500   # characters of one rank's stream: head and tail
CUT = "\n[…]\n"


def of_lines(
    told: Sequence[report.Line], lines: Sequence[report.Line], main: Run | None, secret: bool, passed: bool
) -> list[dict[str, Any]]:
    """The launches of one test cell, those first that something failed about (`told`), then its own (`main`).

    `secret`: every value that it expects is hidden. `passed`: it gave all its points.
    """
    failed = [line.run for line in told if not line.ok and line.about_run]
    runs = {id(run): run for run in (*failed, main, *(line.run for line in lines)) if run is not None}
    hidden = {id(line.run) for line in lines if line.hidden}
    named = set() if passed else {id(run) for run in failed}
    shown = (_launch(run, secret or key in hidden, key in named) for key, run in runs.items())
    return [launch for launch in shown if launch is not None][:MOST_LAUNCHES]


def _launch(run: Run, hidden: bool, named: bool) -> dict[str, Any] | None:
    line = timeline(run) if run.infra is None else None
    if hidden and (not named or run.request.delays or line is None or not line.telling):
        return None
    asked = json.dumps([dataclasses.asdict(run.request), run.script_sha256], sort_keys=True)
    return {
        "id": hashlib.sha256(asked.encode()).hexdigest()[:12],
        "script": run.request.script,
        "command": report.launched(run),
        "hidden": hidden,
        "infra": run.infra is not None,
        "exit_code": run.exit_code,
        "timed_out": run.timed_out,
        "limited": run.output_limited,
        "limit_s": run.request.time_limit_s,
        "duration_s": run.duration_s,
        "ranks": [] if hidden else _ranks(run),
        "timeline": line.as_dict() if line is not None else None,
    }


def _ranks(run: Run) -> list[dict[str, Any]]:
    if run.per_rank and run.ranks:
        return [_rank(log) for log in run.ranks[:MOST_RANKS]]
    stderr = run.stderr or ("" if run.stdout else run.launcher_stderr)
    return [_rank(RankLog(-1, -1, run.exit_code, run.stdout, stderr, truncated=run.output_limited))]


def _rank(log: RankLog) -> dict[str, Any]:
    """One rank's output; rank -1 is all of them, where the system does not separate them."""
    out, err = _short(log.stdout, MOST_OUTPUT), _short(log.stderr, MOST_ERRORS)
    cut = log.truncated or out != log.stdout or err != log.stderr
    return {"rank": log.rank, "code": log.exit_code, "out": out, "err": err, "cut": cut}


def _short(said: str, most: int) -> str:
    return said if len(said) <= most else said[: most // 2] + CUT + said[-(most // 2) :]
