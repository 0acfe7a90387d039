"""A class of right copies, graded by `autograder grade` and by stock `nbgrader autograde`.

    python benchmarks/grading.py [--copies K] [--stock-copies S] [--jobs N] [--cold] [--short]

K students hand in all five exercises, each copy another file. Both ways start cold: new processes, a new
gradebook, no kept result. Stock nbgrader is its own converter with its own preprocessors, which runs each
notebook in a kernel, one after the other; only its time limit for a cell is raised. It is measured on the
first S students, since it takes minutes for each; what its five commands cost to start is then shared by
fewer copies, which is said too. The marks of those students must be the same.

The last line is our copies a minute over those of stock nbgrader.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import copies
import machine

EXERCISES = ["ex1-rang", "ex2-moyenne", "ex3-ddp", "ex4-chronometre", "ex5-rang-lent"]
SMALL = ["mini"]
CELL_LIMIT_S = 1800
STOCK = f"""

for one, names in (("Autograde", ("sanitize_preprocessors", "autograde_preprocessors")),
                   ("AssignLatePenalties", ("plugin_class",)), ("OverwriteCells", ("add_missing_cells",))):
    for name in names:
        get_config()[one].pop(name)
get_config().ExecutePreprocessor.timeout = {CELL_LIMIT_S}
"""  # what is left of our settings: where the course is, its name, its gradebook


@dataclass
class Cost:
    copies: int
    wall_s: float = 0.0
    cpu_s: float = 0.0
    start_s: float = 0.0  # of the wall, what the commands cost without a copy

    @property
    def rate(self) -> float:
        """Copies a minute."""
        return 60 * self.copies / self.wall_s

    def row(self, name: str) -> tuple[str, ...]:
        each = (self.wall_s / self.copies, self.cpu_s / self.copies)
        return (name, f"{self.copies}", f"{self.wall_s:.1f}", f"{self.cpu_s:.1f}", f"{each[0]:.2f}",
                f"{each[1]:.2f}", f"{self.rate:.2f}")  # fmt: skip


def timed(cost: Cost, root: Path, *command: str) -> str:
    """Run a command of this Python in the course's folder, and add what it cost."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("AUTOGRADER_")}
    path = os.pathsep.join([os.path.dirname(sys.executable), env.get("PATH", os.defpath)])
    before, started = os.times(), time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", *command], cwd=root, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, errors="replace",
        env={**env, "PATH": path, "PYTHONPATH": str(copies.ROOT), "PYTHONUTF8": "1"},
    )  # fmt: skip
    after = os.times()
    cost.wall_s += time.perf_counter() - started
    cost.cpu_s += sum(after[2:4]) - sum(before[2:4])
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)}: exit code {done.returncode}\n{done.stdout[-6000:]}")
    return done.stdout


def ours(root: Path, count: int, names: list[str], options: list[str]) -> tuple[Cost, Any]:
    course = made(root, count, names)
    cost = Cost(count * len(names))
    timed(cost, root, "autograder.cli", "grade", *names, *options)
    return cost, marks(course, names)


def made(root: Path, count: int, names: list[str]) -> Any:
    return copies.small(root, count) if names == SMALL else copies.make(root, count, names)


def stock(root: Path, count: int, names: list[str]) -> tuple[Cost, Any]:
    course = made(root, count, names)
    settings = root / "nbgrader_config.py"
    ours = settings.read_text(encoding="utf-8")
    for name in names:  # it makes the gradebook say what source/ says, which `autograder grade` does itself
        timed(Cost(0), root, "nbgrader", "generate_assignment", name, "--force")
    settings.write_text(ours + STOCK, encoding="utf-8")
    cost, start = Cost(count * len(names)), Cost(0)
    for name in names:
        timed(cost, root, "nbgrader", "autograde", name)
    timed(start, root, "nbgrader", "autograde", names[0])  # nothing is left to do
    cost.start_s = start.wall_s * len(names)
    return cost, marks(course, names)


def marks(course: Any, names: list[str]) -> dict[tuple[str, str], dict[str, float | None]]:
    """What each test cell of each copy was given."""
    from nbgrader.api import Gradebook

    from autograder.notebook.nbconfig import gradebook_url

    with Gradebook(gradebook_url(course), course.course.id) as gradebook:
        return {
            (submission.student.id, name): {
                grade.name: grade.auto_score for notebook in submission.notebooks for grade in notebook.grades
                if grade.cell.cell_type != "markdown"
            }
            for name in names for submission in gradebook.assignment_submissions(name)
        }  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--copies", type=int, default=20, metavar="K", help="students, of five copies each")
    parser.add_argument("--stock-copies", type=int, default=1, metavar="S", help="those of them for stock")
    parser.add_argument("--jobs", type=int, metavar="N", help="of `autograder grade`")
    parser.add_argument("--cold", action="store_true", help="`autograder grade --cold`")
    parser.add_argument("--short", action="store_true", help="three copies of a small exercise: that it runs")
    asked = parser.parse_args()
    names, count, few = (SMALL, 3, 1) if asked.short else (
        EXERCISES, asked.copies, min(asked.stock_copies, asked.copies))
    from autograder.launch import box

    options = [*(["--cold"] if asked.cold else []), *([f"--jobs={asked.jobs}"] if asked.jobs else [])]
    options += [] if box.why_not() is None else ["--no-sandbox"]
    print(machine.describe("torch", "nbgrader", "nbconvert", "SQLAlchemy"))
    told = " ".join(["autograder grade", *options])
    print(f"{count} students, {len(names)} exercises each: {told}\n", flush=True)
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
        cost, given = ours(Path(one), count, names, options)
        print(f"  autograder grade: {cost.wall_s:.0f} s", file=sys.stderr, flush=True)
        base, expected = stock(Path(other), few, names)
    head = ("way", "copies", "wall s", "CPU s", "wall s/copy", "CPU s/copy", "copies/min")
    print(machine.table(head, [cost.row("autograder grade"), base.row("nbgrader autograde")]))
    if few < count:
        print(f"\nstock nbgrader: {few} of the {count} students; {base.start_s:.1f} s of it are its start")
    wrong = [copy for copy, points in expected.items() if given.get(copy) != points]
    wrong += [copy for copy in given if copy[0] != copies.student(0)
              and given[copy] != given[copies.student(0), copy[1]]]
    for copy in wrong[:10]:
        print(f"marks differ: {' '.join(copy)}: stock {expected.get(copy)}, ours {given.get(copy)}")
    same = len(given) == cost.copies and len(expected) == base.copies and not wrong
    print(f"marks: {'equal' if same else 'NOT EQUAL'}, {len(expected)} copies compared")
    print(f"ratio: {cost.rate / base.rate:.1f}")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
