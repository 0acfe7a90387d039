"""Hang or slow step: is each drawn launch told for what it is, on a busy machine?

    python benchmarks/hang_or_slow.py [--cases 50] [--seed 6] [--burners N] [--short]

Each case is a really launched script of two ranks that meet in an all-reduce at every step. One rank, drawn,
is either *slow* (it sleeps or computes for a drawn 20 ms to 2 s before each step) or *absent* (from a drawn
step on it sleeps for ever, spins, or ends, while both ranks had taken the drawn time for every step before).
A quarter of the slow ones is stopped at the launch's own deadline, before their last step; a third of the
absent ones has a short delay given to gloo, the others hang until the deadline. Meanwhile `--burners`
processes (as many as cores) keep the machine busy. Launches are warm where they can be.

A launch that a slow machine stopped before what was drawn could be seen is made again with a longer limit.

Right is: *absent*, the diagnosis is missing-rank and names that rank; *slow*, it is slow-step and names that
rank, and for a rank slow by less than 40 ms it may also say nothing ("unfinished" where it was stopped),
since a busy machine holds a rank back for as long: but never a hang, never the other rank. `balanced` cases,
in which no rank is slow, come on top, one for ten: nothing may be said of them. The last line counts the
drawn cases alone.
"""

from __future__ import annotations

import argparse
import contextlib
import math
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from machine import describe, table

from autograder.launch import Request, Run, box, run_request
from autograder.launch.warm.keeper import serving
from autograder.verdict.diagnosis import Diagnosis, diagnose

UNSURE_S = 0.04   # a rank that is slow by less may go unnamed

SCRIPT = """\
import datetime, os, sys, time
import torch
import torch.distributed as dist

kind, way, who, pause, steps, last, delay = "{settings}".split()
who, pause, steps, last = int(who), float(pause), int(steps), int(last)
options = {{"timeout": datetime.timedelta(seconds=float(delay))}} if float(delay) else {{}}
dist.init_process_group("gloo", **options)
rank = dist.get_rank()
t = torch.ones(8)


def work():
    if way == "computes":
        until = time.perf_counter() + pause
        while time.perf_counter() < until:
            pass
    else:
        time.sleep(pause)


for step in range(steps):
    if kind == "absent" and rank == who and step == last:
        if way == "ends":
            sys.exit(0)
        while True:
            time.sleep(0.0 if way == "spins" else 1.0)
    if kind == "absent" or (kind == "slow" and rank == who):
        work()
    dist.all_reduce(t)
    t /= 2
print("fin", rank, flush=True)
dist.destroy_process_group()
"""


@dataclass(frozen=True)
class Case:
    """`pause` seconds before each step; `steps` of them, from step `last` on the rank is absent; `delay` is
    gloo's, 0 for its own of half an hour; `limit` is the launch's.
    """

    kind: str
    way: str
    rank: int
    pause: float
    steps: int
    last: int = 0
    delay: float = 0.0
    limit: float = 120.0

    @property
    def stopped(self) -> bool:
        return self.kind == "slow" and self.limit < 100

    def script(self) -> str:
        given = (self.kind, self.way, self.rank, self.pause, self.steps, self.last, self.delay)
        return SCRIPT.format(settings=" ".join(map(str, given)))


def draw(seed: int, count: int) -> list[Case]:
    """The same cases for the same seed."""
    dice = random.Random(seed)
    return [_case(dice) for _ in range(count)]


def _case(dice: random.Random) -> Case:
    rank = dice.randrange(2)
    pause = round(math.exp(dice.uniform(math.log(0.02), math.log(2.0))), 4)
    if dice.random() < 0.5:
        way = dice.choice(("sleeps", "computes"))
        if dice.random() < 0.25:
            return Case("slow", way, rank, pause, 1_000_000, limit=5.0 + 8 * pause)
        return Case("slow", way, rank, pause, dice.randint(5, 9))
    way = dice.choice(("sleeps", "spins", "ends"))
    last = dice.randint(0, 4)
    delay = 3.0 + 2 * pause if dice.random() < 1 / 3 else 0.0
    return Case("absent", way, rank, pause, 8, last, delay, limit=10.0 + (last + 4) * pause)


def balanced(count: int) -> list[Case]:
    return [Case("balanced", "computes", 0, 0.0, 8) for _ in range(count)]


def right(case: Case, found: Diagnosis | None) -> bool:
    """As the top of this file says."""
    if case.kind == "balanced":
        return found is None
    if case.kind == "absent":
        return found is not None and (found.id, found.rank) == ("missing-rank", case.rank)
    if found is not None and found.id == "slow-step":
        return found.rank == case.rank
    silent = found is not None and found.id == "unfinished" if case.stopped else found is None
    return silent and case.pause < UNSURE_S


@contextlib.contextmanager
def busy(count: int) -> Iterator[None]:
    """So many processes that compute, while it lasts."""
    code = "import os\nparent = os.getppid()\nwhile os.getppid() == parent:\n    sum(range(100_000))"
    burners = [subprocess.Popen([sys.executable, "-S", "-c", code]) for _ in range(count)]
    try:
        yield
    finally:
        for burner in burners:
            burner.kill()
            burner.wait()


def judge(case: Case, folder: Path) -> tuple[Diagnosis | None, float]:
    """What is told of the case, and how long it took."""
    (folder / "labo.py").write_text(case.script(), encoding="utf-8")
    limit = case.limit
    while True:
        run = run_request(Request(time_limit_s=limit), folder)
        if run.infra is None and happened(case, run):
            return diagnose(run), run.duration_s
        if limit > 8 * case.limit:
            raise SystemExit(f"this machine is too slow for {case}: {run.infra}")
        limit *= 2


def happened(case: Case, run: Run) -> bool:
    """Whether the launch lasted until what was drawn for it could be seen, on whatever machine: three steps
    of a slow one; an absent rank's last step, and three more that it could have made.
    """
    marks = [one for one in run.collectives if one.source == "mark"]
    made = {rank: [one for one in marks if one.rank == rank] for rank in (0, 1)}
    if not run.timed_out:
        return True
    if case.kind != "absent":
        return min(map(len, made.values())) >= 3
    waiting = made[1 - case.rank]
    since = run.request.time_limit_s - waiting[-1].entered if waiting else 0.0
    return len(waiting) > case.last and since >= 3 * case.pause + 2


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--cases", type=int, default=50)
    parser.add_argument("--seed", type=int, default=6)
    parser.add_argument("--burners", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--short", action="store_true", help="four cases")
    asked = parser.parse_args()
    cases = draw(asked.seed, 4 if asked.short else asked.cases)
    controls = balanced(max(1, len(cases) // 10))
    print(describe("torch"), flush=True)
    os.environ[box.VARIABLE] = "0"
    rows, wrong = [], {"drawn": 0, "balanced": 0}
    with tempfile.TemporaryDirectory() as name, serving(False) as server:
        if server is not None:
            server.ready()
        with busy(asked.burners):
            for number, case in enumerate([*cases, *controls], 1):
                found, seconds = judge(case, Path(name))
                fine = right(case, found)
                wrong["balanced" if case.kind == "balanced" else "drawn"] += not fine
                named = "" if found is None or found.rank is None else f" {found.rank}"
                told = "nothing" if found is None else found.id + named
                what = f"{case.way}{', stopped' if case.stopped else ''}{', own delay' if case.delay else ''}"
                rows.append((str(number), case.kind, what, str(case.rank), f"{case.pause * 1000:.0f}",
                             f"{seconds:.1f}", told, "yes" if fine else "NO"))
                if not fine:
                    print(f"wrong: {case}: {found and found.message}", file=sys.stderr, flush=True)
    print(table(("case", "rank is", "how", "which", "pause ms", "took s", "told", "right"), rows))
    print(f"balanced: {len(controls) - wrong['balanced']} of {len(controls)} left alone")
    print(f"right: {len(cases) - wrong['drawn']} of {len(cases)}")
    return 1 if any(wrong.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
