"""Launches in a row, boxed and warm: reference solutions, mixed with hangs, crashes and what leaves things.

    python benchmarks/soak.py [--launches N] [--jobs J] [--seed S] [--short]

Each launch has a verdict that is known in advance. Every so many, when none runs: processes that are there
and should not be (whatever a launch starts and loses comes to this process or to the server, which adopt
it), descriptors of the server and of this process, temporary files, mounts, memory. Some launches come first
and are not measured: they touch what is touched once. The growth of the server's memory is the slope of a
line through its anonymous pages; it counts as a leak where it is beyond GROWTH_KIB for each launch.

The exit status is 0 where the last line counts nothing, no launch was started cold, and the server never.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import machine
import psutil
import soak_cases
from soak_cases import Case

from autograder.launch import Run, box, run_request
from autograder.launch.warm.client import why_not
from autograder.launch.warm.keeper import Server, serving

SET_CHILD_SUBREAPER = 36     # prctl
SETTLE_S = 10.0              # what ended processes may take to be gone on a busy machine
GROWTH_KIB = 2.0             # of the server, for each launch
LEAST_FOR_GROWTH = 200       # launches: fewer say nothing of it
Process = tuple[int, float]  # its number, its start
SHARED = ("/tmp", "/var/tmp", "/dev/shm")


@dataclass(frozen=True)
class State:
    """What there is when no launch runs."""

    launches: int
    wall_s: float
    rss_kib: int
    pss_kib: int
    anonymous_kib: int         # of the server: what it alone has, whoever shares it
    own_kib: int               # of this process
    descriptors: int           # of the server
    own_descriptors: int
    files: frozenset[str]
    mounts: frozenset[str]
    orphans: frozenset[Process]

    def row(self) -> tuple[str, ...]:
        numbers = (self.rss_kib, self.pss_kib, self.anonymous_kib, self.descriptors, self.own_kib,
                   self.own_descriptors, len(self.files), len(self.mounts), len(self.orphans))
        return (f"{self.launches}", f"{self.wall_s:.0f}", *map(str, numbers))


HEAD = ("launches", "wall s", "RSS KiB", "PSS KiB", "anonymous", "descriptors", "own RSS", "own descr.",
        "temp", "mounts", "orphans")  # fmt: skip


class Soak:
    def __init__(self, server: Server, root: Path, jobs: int) -> None:
        self.server, self.root, self.jobs = server, root, jobs
        self.done, self.number = 0, 0
        self.count: Counter[str] = Counter()
        self.seconds: dict[str, list[float]] = {}
        self.wrong: list[str] = []
        self.cold: list[str] = []
        self.started = time.monotonic()

    # -- launches ----------------------------------------------------------------------------------------

    def block(self, cases: list[Case], counted: bool = True) -> None:
        with ThreadPoolExecutor(self.jobs) as pool:   # no launch runs once it is left
            for case, (run, seconds) in zip(cases, pool.map(self._launch, cases), strict=True):
                if not counted:
                    continue
                self.done += 1
                self.count[case.name] += 1
                self.seconds.setdefault(case.name, []).append(seconds)
                if mistakes := case.mistakes(run):
                    self.wrong.append(case.name)
                    told = "; ".join(mistakes)
                    print(f"launch {self.done}, {case.name}: {told}\n{run.to_json()[:6000]}", file=sys.stderr)
                if not soak_cases.forked(run):
                    self.cold.append(case.name)

    def _launch(self, case: Case) -> tuple[Run, float]:
        started = time.perf_counter()
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name) / "copie"
            case.write(folder)
            return run_request(case.request(), folder), time.perf_counter() - started

    # -- what there is -----------------------------------------------------------------------------------

    def state(self, known: frozenset[Process]) -> State:
        pid = self.server.process.pid
        deadline = time.monotonic() + SETTLE_S
        while (orphans := family() - known) and time.monotonic() < deadline:
            time.sleep(0.1)
        memory, own = (rollup(one) for one in (pid, os.getpid()))
        return State(
            self.done, time.monotonic() - self.started, memory["Rss"], memory["Pss"], memory["Anonymous"],
            own["Rss"], descriptors(pid), descriptors(os.getpid()), files(self.root),
            mounts(pid) | mounts(os.getpid()), orphans)


def family() -> frozenset[Process]:
    """Every process that this one and its children have, or were left with."""
    found = set()
    for process in psutil.Process().children(recursive=True):
        try:
            found.add((process.pid, process.create_time()))
        except psutil.NoSuchProcess:
            continue
    return frozenset(found)


def rollup(pid: int) -> dict[str, int]:
    """KiB of memory, by kind."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii", errors="replace").splitlines()[1:]
    return {name: int(told.split()[0]) for name, _, told in (line.partition(":") for line in lines)}


def descriptors(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


def mounts(pid: int) -> frozenset[str]:
    """Where something is mounted."""
    lines = Path(f"/proc/{pid}/mountinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    return frozenset(line.split()[4] for line in lines)


def files(root: Path) -> frozenset[str]:
    """What stands in our own temporary folder; in those of all, what belongs to a box's user."""
    found = {str(path) for path in root.rglob("*")}
    for place in SHARED:
        for name in os.listdir(place):
            path = os.path.join(place, name)
            try:
                if os.lstat(path).st_uid >= box.FIRST_USER:
                    found.add(path)
            except OSError:
                continue
    return frozenset(found)


def slope(states: list[State]) -> float:
    """KiB for each launch, of the server's memory."""
    if len(states) < 3:
        return 0.0
    return statistics.linear_regression(
        [state.launches for state in states], [state.anonymous_kib for state in states]).slope


def leaks(before: State, after: State) -> dict[str, int]:
    """How many more there are of each."""
    return {
        "descriptors of the server": max(0, after.descriptors - before.descriptors),
        "descriptors of this process": max(0, after.own_descriptors - before.own_descriptors),
        "temporary files": len(after.files - before.files),
        "mounts": len(after.mounts - before.mounts),
    }


@contextmanager
def adopting() -> Iterator[Path]:
    """A temporary folder for all of this process; what its children lose becomes its own child."""
    before = tempfile.tempdir
    ctypes.CDLL(None).prctl(SET_CHILD_SUBREAPER, *map(ctypes.c_ulong, (1, 0, 0, 0)))
    with tempfile.TemporaryDirectory(prefix="soak-") as name:
        Path(name).chmod(0o755)
        tempfile.tempdir = name
        try:
            yield Path(name)
        finally:
            tempfile.tempdir = before


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--launches", type=int, default=1000, metavar="N")
    parser.add_argument("--jobs", type=int, default=1, choices=(1, 2), help="launches at once")
    parser.add_argument("--seed", type=int, default=5, help="of their order")
    parser.add_argument("--hang", type=float, default=2.0, metavar="S", help="time limit of what hangs")
    parser.add_argument("--short", action="store_true", help="each case once: that it runs, on any machine")
    asked = parser.parse_args()
    if why_not() is not None:
        raise SystemExit(f"no warm launch here: {why_not()}")
    boxed = box.why_not() is None
    hang_s = 10.0 if asked.short else asked.hang
    cases = [*soak_cases.references(hang_s), *soak_cases.disturbed(hang_s)]
    order = soak_cases.schedule(cases, len(cases) if asked.short else asked.launches, asked.seed)
    each = max(5, len(order) // 20)
    print(machine.describe("torch"))
    print(f"{len(order)} launches, {asked.jobs} at once, seed {asked.seed}, "
          + ("boxed" if boxed else f"without a box ({box.why_not()})"), flush=True)  # fmt: skip
    os.environ[box.VARIABLE] = "1" if boxed else "0"
    with adopting() as root:
        with serving(boxed) as server:
            if server is None or server.ready() is None:
                raise SystemExit("a warm server does not work here")
            first = server.process.pid
            known = frozenset(one for one in family() if one[0] == first)
            soak = Soak(server, root, asked.jobs)
            soak.block(cases[:3] if asked.short else [*cases, *cases[:3] * 10], counted=False)
            soak.started = time.monotonic()
            states = [soak.state(known)]
            for start in range(0, len(order), each):
                soak.block(order[start:start + each])
                states.append(soak.state(known))
                print(f"  {soak.done} launches, {len(soak.wrong)} wrong", file=sys.stderr, flush=True)
            restarts = server.starts - 1
        last = family()
        forgotten = files(root)
    return report(soak, states, restarts, last, forgotten)


def report(
    soak: Soak, states: list[State], restarts: int, last: frozenset[Process], forgotten: frozenset[str]
) -> int:  # fmt: skip
    print("\n" + machine.table(HEAD, [state.row() for state in states]))
    rows: list[tuple[str, ...]] = [
        (name, f"{count}", f"{statistics.median(soak.seconds[name]):.2f}", f"{max(soak.seconds[name]):.2f}",
         f"{soak.wrong.count(name)}", f"{soak.cold.count(name)}")
        for name, count in soak.count.most_common()
    ]
    print("\n" + machine.table(("case", "launches", "median s", "worst s", "wrong", "cold"), rows))
    found = leaks(states[0], states[-1])
    if left := forgotten - states[0].files - states[-1].files:
        found["temporary files after the server's end"] = len(left)
    each = slope(states)
    first, last_kib = states[0].anonymous_kib, states[-1].anonymous_kib
    flat = each <= GROWTH_KIB or soak.done < LEAST_FOR_GROWTH
    print(f"\nmemory of the server: {first} KiB, then {last_kib}: {last_kib - first:+} KiB; "
          f"slope {each:+.3f} KiB per launch: {'flat' if flat else 'NOT FLAT'}")  # fmt: skip
    found["memory of the server"] = 0 if flat else 1
    orphans = frozenset().union(*(state.orphans for state in states), last)
    print(", ".join(f"{name}: {count}" for name, count in found.items()))
    print(f"cold launches: {len(soak.cold)}, restarts of the server: {restarts}")
    print(f"wrong: {len(soak.wrong)} orphans: {len(orphans)} leaked: {sum(found.values())}")
    return 1 if soak.wrong or orphans or sum(found.values()) or soak.cold or restarts else 0


if __name__ == "__main__":
    sys.exit(main())
