"""What starting costs: Python, the package, and commands as they are typed.

    python benchmarks/startup.py [--times N] [--short]

Each line is a new process; the best of N is what the machine can do, the median what it did. The last line is
the best time of `autograder --help`, which has to stay within 0.3 s.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

import machine

ROOT = Path(__file__).resolve().parent.parent
CLI = ["-m", "autograder.cli"]
HELP = "autograder --help"
CASES: dict[str, list[str]] = {
    "python -c pass": ["-c", "pass"],
    "import autograder": ["-c", "import autograder"],
    HELP: [*CLI, "--help"],
    "autograder grade --help": [*CLI, "grade", "--help"],
    "autograder course": [*CLI, "course"],
    "from autograder import launch, marks": ["-c", "from autograder import launch, marks"],
    "import autograder.batch.grade": ["-c", "import autograder.batch.grade"],
    "import torch (for reference)": ["-c", "import torch"],
}


def measure(arguments: list[str]) -> tuple[float, float]:
    """Wall and CPU seconds of one process."""
    before, started = os.times(), time.perf_counter()
    subprocess.run([sys.executable, *arguments], cwd=ROOT, stdout=subprocess.DEVNULL, check=True)
    wall, after = time.perf_counter() - started, os.times()
    return wall, sum(after[2:4]) - sum(before[2:4])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--times", type=int, default=11, metavar="N")
    parser.add_argument("--short", action="store_true", help="one process for each line: that it runs")
    options = parser.parse_args()
    times = 1 if options.short else options.times
    print(machine.describe("torch"), f"\n{times} processes for each line\n")
    rows, best = [], 0.0
    for name, arguments in CASES.items():
        if not options.short:
            measure(arguments)  # its files are in memory then, and compiled
        walls, cpus = zip(*(measure(arguments) for _ in range(times)), strict=True)
        rows.append((name, *(f"{one:.3f}" for one in (min(walls), statistics.median(walls), min(cpus)))))
        best = min(walls) if name == HELP else best
    print(machine.table(("", "best wall s", "median wall s", "best CPU s"), rows))
    print(f"\nhelp_s: {best:.3f}")


if __name__ == "__main__":
    main()
