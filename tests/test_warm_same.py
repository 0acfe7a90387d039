"""Every script that the tests know of ends the same way when a warm server forks it.

The cold side is not made again: tests/runs holds what came of launches that started their own Python, of the
exercises' solutions and wrong answers and of examples/class. Each distinct script of them is launched warm
here; test_warm.py does so with the broken scripts. Hostile copies are graded both ways by their own tests,
and hostile_checks.py looks at what grading says of the two.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from test_warm import settled

from autograder.launch import Run, box, run_request, store
from autograder.launch.warm import client
from autograder.launch.warm.keeper import Server
from autograder.verdict.diagnosis import diagnose
from autograder.verdict.tampering import suspicions

pytestmark = [
    pytest.mark.launch,
    pytest.mark.timeout(900),
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="elsewhere every launch is a cold one"),
]
HERE = Path(__file__).resolve().parent
TRIES, MOST_STRANGE = 3, 8
CERTAIN = ("ended", "diagnosis", "suspicions")   # how far a rank came that another one's failure ended is not
BY_THE_CLOCK = {"slow-step"}   # other work on this machine hides it
# What makes a script wait: with it, another saved Run of the same script is preferred.
WAITS = ("MCI_SKIP_RANK", "RALENTI", "PAS", "MCI_RETARD")


def saved() -> list[tuple[str, Run]]:
    """One saved Run of each script, and of each on simulated GPUs: those that can be launched again."""
    found: dict[Any, tuple[bool, str, Run]] = {}
    for path in sorted((HERE / "runs").glob("*.json")):
        run = Run.from_json(path.read_text(encoding="utf-8"))
        asked = run.request
        # What starts ranks itself has them cold in any case; what prints its environment has another one.
        if asked.script == "essai_de_lance.py" or "'PATH': " in run.stdout:
            continue
        waits = bool(asked.delays) or not {*WAITS}.isdisjoint(asked.env)
        one = (waits, path.stem, run)
        about = (run.script_sha256, asked.gpus or 0, asked.launcher)
        found[about] = min(found.get(about, one), one, key=lambda each: each[:2])
    return [(name, run) for _, name, run in found.values()]


def verdict(run: Run) -> dict[str, Any]:
    """What a mark can depend on, without times and what follows from them."""
    found = diagnose(run)
    failed = bool(run.exit_code)

    def said(text: str) -> str:
        if "RALENTI" in run.request.env:   # it prints what it timed, in whatever way
            return re.sub(r"\d+(?:\.\d+)?", "N", text)
        text = re.sub(r"(?<=ms)\W+\d[\d., e+-]*|\d+\.\d{9,}|(?<=\[W)\d+ [\d:.]+", "T", settled(text))
        return re.sub(r"^\[\w+\] ", "[HOST] ", text)

    return {
        "ended": (run.exit_code, run.timed_out, run.output_limited, run.infra, run.left_over),
        "diagnosis": (found.id, found.line) if found is not None and found.id not in BY_THE_CLOCK else None,
        "suspicions": sorted(one.id for one in suspicions(run)),
        "ranks": [
            (one.rank, one.local_rank, "ended" if failed and one.exit_code in (1, -15) else one.exit_code,
             one.reached_end, said(one.stdout), "" if failed else said(one.stderr)) for one in run.ranks
        ],
        "marks": sorted((one.rank, one.op, one.shape, one.dtype, one.line or 0, str(one.reduce_op),
                         one.returned is not None) for one in run.collectives if one.source == "mark"),
        "flight": sorted((one.rank, one.op, one.shape, one.dtype) for one in run.collectives
                         if one.source != "mark"),
        "gradients": [(one.rank, one.name, one.shape) for one in run.gradients],
        # The oldest saved Runs hold no "start".
        "events": sorted((one.rank, one.name, one.line or 0) for one in run.events if one.name != "start"),
    }  # fmt: skip


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    one = Server(tmp_path_factory.mktemp("same"), sandbox=box.why_not() is None)
    yield one
    one.close()


def test_each_saved_run_comes_out_warm(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = server.ready()
    assert told is not None, server.log.read_text()
    monkeypatch.setenv(box.VARIABLE, "0" if box.why_not() else "1")
    monkeypatch.setenv(client.VARIABLE, str(server.path))
    runs = saved()
    assert len(runs) > 250

    def launched(one: tuple[str, Run]) -> list[dict[str, Any]]:
        """How it ended warm; more than once where that is not what was saved: of two ranks that fail, either
        may be the first.
        """
        name, cold = one
        folder = tmp_path / name
        folder.mkdir()
        (folder / cold.request.script).write_bytes(cold.source.encode())
        if store.key(cold.request, folder) != name:
            return []   # other files stood beside it
        ends: list[dict[str, Any]] = []
        while len(ends) < TRIES and (not ends or ends[-1] != verdict(cold)):
            ends.append(verdict(run_request(cold.request, folder)))
        return ends

    with ThreadPoolExecutor((os.cpu_count() or 1) + 1) as pool:
        found = list(zip(runs, pool.map(launched, runs), strict=True))
    assert sum(not ends for _, ends in found) < len(runs) / 10
    strange = [(name, cold, ends) for (name, cold), ends in found if ends and ends[-1] != verdict(cold)]
    assert len(strange) <= MOST_STRANGE, "\n".join(_differ(name, verdict(cold), ends[-1])
                                                   for name, cold, ends in strange)  # fmt: skip
    # Saved before the recorder was changed, or a matter of moments: such a launch is made cold once more.
    monkeypatch.delenv(client.VARIABLE)
    wrong = []
    for name, cold, ends in strange:
        now = verdict(run_request(cold.request, tmp_path / name))
        race = bool(cold.exit_code) and any(all(now[what] == end[what] for what in CERTAIN) for end in ends)
        if now not in ends and not race:
            wrong.append(_differ(name, now, ends[-1]))
    assert not wrong, "\n".join(wrong)
    again = server.ready()
    assert again is not None and again["server"] == told["server"]


def _differ(name: str, cold: dict[str, Any], warm: dict[str, Any]) -> str:
    return f"{name}: " + str({what: (cold[what], warm[what]) for what in cold if cold[what] != warm[what]})
