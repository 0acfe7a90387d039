"""What a student waits for: from saving a file to the verdict that `autograder check --watch` prints.

    python benchmarks/loop.py [--saves N] [--assignment NAME ...] [--short]

For each exercise, right, in a folder as a student has it (no hidden test): the first check, which has to do
without a warm server, then N saves of `labo.py` alone, and of the notebook. The clock runs from the moment
before the file is written to that when the verdict can be read. The last line is the median of all saves.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import copies
import machine

EXERCISES = ["ex1-rang", "ex2-moyenne", "ex3-ddp", "ex4-chronometre", "ex5-rang-lent"]
READY_S = 120.0
REST_S = 0.7   # between a verdict and the next save: a student's hand is slower


class Watched:
    """A running `autograder check --watch`."""

    def __init__(self, root: Path, assignment: str, path: Path) -> None:
        runtime = root / "run"
        runtime.mkdir(mode=0o700, exist_ok=True)
        env = {name: value for name, value in os.environ.items() if not name.startswith("AUTOGRADER_")}
        arguments = ["check", assignment, str(path), "--watch", "--json"]
        command = [sys.executable, "-m", "autograder.cli", *arguments]
        self.runtime, self.started = runtime, time.perf_counter()
        self.process = subprocess.Popen(
            command, cwd=root, env=env | {"XDG_RUNTIME_DIR": str(runtime), "PYTHONPATH": str(copies.ROOT)},
            stdout=subprocess.PIPE, text=True, start_new_session=True)

    def verdict(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        told: dict[str, Any] = json.loads(self.process.stdout.readline() or "{}")
        if not told or told["score"] != told["max_score"]:
            raise SystemExit(f"a right answer was not found right: {told}")
        return told

    def warm(self) -> bool:
        """Wait for its servers; False where there are none."""
        deadline = time.monotonic() + READY_S
        while time.monotonic() < deadline:
            if {path.suffix for path in self.runtime.glob("autograder/*")} >= {".launch", ".notebook"}:
                return True
            time.sleep(0.1)
        return False

    def end(self) -> None:
        self.process.send_signal(signal.SIGINT)
        self.process.wait()
        left = list(self.runtime.glob("autograder*"))
        if left:
            raise SystemExit(f"files are left: {left}")


def student_folder(root: Path, assignment: str) -> Path:
    """A right copy, as a student has it."""
    copies.make(root, 1, [assignment])
    shutil.move(str(root / "submitted" / copies.student(0) / assignment), root / assignment)
    for name in ("source", "submitted", "nbgrader_config.py"):
        path = root / name
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    return root / assignment


def measure(folder: Path, target: Path, saved: Path, saves: int) -> tuple[float, list[float]]:
    """Seconds of the first check, and of each check after a save."""
    watched = Watched(folder.parent, folder.name, target)
    walls: list[float] = []
    try:
        watched.verdict()
        first = time.perf_counter() - watched.started
        if not watched.warm():
            raise SystemExit("no warm server works here")
        for number in range(saves + 1):
            time.sleep(REST_S)
            before = saved.read_text(encoding="utf-8")
            start = time.perf_counter()
            if saved.suffix == ".py":
                saved.write_text(before.rstrip("\n") + f"\n# {number}\n", encoding="utf-8")
            else:
                copies.mark(saved, f"# {number}\n")
            watched.verdict()
            walls.append(time.perf_counter() - start)
    finally:
        watched.end()
    return first, walls[1:]   # the first one touches pages for all


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--saves", type=int, default=10, metavar="N")
    parser.add_argument("--assignment", action="append", metavar="NAME", help="may be repeated")
    parser.add_argument("--short", action="store_true", help="one exercise, its labo.py, one save")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))   # what it watches ends with it
    saves = 1 if options.short else options.saves
    names = options.assignment or (EXERCISES[2:3] if options.short else EXERCISES)
    print(machine.describe("torch", "ipython"), f"\n{saves} saves for each line\n")
    rows, every = [], []
    for name in names:
        with tempfile.TemporaryDirectory() as place:
            folder = student_folder(Path(place).resolve(), name)
            script, book = folder / "labo.py", folder / f"{name}.ipynb"
            cases = [("labo.py", script, script), ("notebook", folder, book)]
            for told, target, saved in cases[: 1 if options.short else 2]:
                if not saved.exists():
                    continue
                first, walls = measure(folder, target, saved, saves)
                every += walls
                times = first, statistics.median(walls), min(walls), max(walls), os.getloadavg()[0]
                rows.append((f"{name}, {told}", *(f"{one:.2f}" for one in times)))
    print(machine.table(("saved", "first s", "median s", "best s", "worst s", "load"), rows))
    print(f"\nmedian_s: {statistics.median(every):.3f}")


if __name__ == "__main__":
    main()
