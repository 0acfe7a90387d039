"""Every script that the tests know of ends the same way when a warm server forks it.

The cold side is not made again: tests/runs holds what came of launches that started their own Python, of the
exercises' solutions and wrong answers and of examples/class. Each distinct script of them is launched warm
here; test_warm.py does so with the broken scripts. Hostile copies are graded both ways by their own tests,
and hostile_checks.py looks at what grading says of the two.
"""

from __future__ import annotations

import os
import re
import shutil
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
TRIES = 3
# What makes a script wait: with it, another saved Run of the same script is preferred.
WAITS = ("MCI_SKIP_RANK", "RALENTI", "PAS", "MCI_RETARD")


def saved() -> list[tuple[str, Run]]:
    """One saved Run of each script, and of each on simulated GPUs: those that can be launched again."""
    found: dict[Any, tuple[bool, str, Run]] = {}
    for path in sorted((HERE / "runs").glob("*.json")):
        run = Run.from_json(path.read_text(encoding="utf-8"))
        asked = run.request
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
        # A duration printed; which of two ranks that share an output came first.
        return re.sub(r"\d+\.\d+(?:e[+-]?\d+)?|(?<=ms)\W+\d+", "T", settled(text))

    return {
        "ended": (run.exit_code, run.timed_out, run.output_limited, run.infra, run.left_over),
        "diagnosis": found and (found.id, found.line),
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

    def compare(one: tuple[str, Run]) -> str:
        name, cold = one
        folder = tmp_path / name
        folder.mkdir()
        (folder / cold.request.script).write_bytes(cold.source.encode())
        if store.key(cold.request, folder) != name:
            return "other files"   # stood beside it
        wanted = verdict(cold)
        for _ in range(TRIES):   # of two ranks that fail, either may be the first
            warm = verdict(run_request(cold.request, folder))
            if warm == wanted:
                shutil.rmtree(folder)
                return ""
        told = {what: (wanted[what], warm[what]) for what in wanted if wanted[what] != warm[what]}
        return f"{name}: {told}"

    with ThreadPoolExecutor((os.cpu_count() or 1) + 1) as pool:
        ends = list(pool.map(compare, runs))
    wrong = [end for end in ends if end not in ("", "other files")]
    assert not wrong, "\n".join(wrong)
    assert ends.count("other files") < len(ends) / 10
    again = server.ready()
    assert again is not None and again["server"] == told["server"]
