"""What a class costs, against its size: every copy different, graded by `grade_class` as the command does it.

    python benchmarks/scaling.py [--sizes 10 100 1000] [--jobs N] [--assignment ex1-rang] [--writer] [--short]

Without --assignment the copies are those of a small assignment whose tests launch nothing: what is measured
is what grading itself costs, to which launches add theirs. --writer leaves out the examination too: the first
copy stands for all, and what is left is the one process that records. Each size is graded in a process
of its own, twice: the second time nothing has changed, and only recording is left.

The last line is the CPU time of one more copy in the largest class over that in the smallest: 1 is linear.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import Any

import copies
import machine


class Copied:
    """An executor for which nothing runs: every copy gets what the first one got."""

    def __init__(self, bench: Any, jobs: int) -> None:
        self.bench, self.first = bench, None

    def submit(self, task: Any) -> Future[Any]:
        from autograder.notebook.result import copy_sha256

        self.first = self.first or self.bench(task)
        folder = self.bench.course.root / "submitted" / task.student / task.assignment
        future: Future[Any] = Future()
        future.set_result(replace(self.first, student=task.student, copy_sha256=copy_sha256(folder)))
        return future

    def close(self) -> None: ...

    def quiet(self) -> None: ...

    def stop(self) -> None: ...

    def __enter__(self) -> Copied:
        return self

    def __exit__(self, *_: object) -> None: ...


def one(count: int, jobs: int, assignment: str | None, writer: bool) -> dict[str, float]:
    """Grade such a class twice, here."""
    from autograder.batch.executors import Local
    from autograder.batch.grade import grade_class
    from autograder.batch.record import Recorder
    from autograder.launch import box

    recording = [0.0]
    real = Recorder.add

    def add(self: Recorder, *copy: str) -> str | None:
        started = time.thread_time()
        try:
            return real(self, *copy)
        finally:
            recording[0] += time.thread_time() - started

    Recorder.add = add  # type: ignore[method-assign]
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        course = copies.make(root, count, [assignment]) if assignment else copies.small(root, count)
        found: dict[str, float] = {"copies": count}
        for turn in ("first", "again"):
            recording[0] = 0.0
            before, started = os.times(), time.perf_counter()
            engine: Any = Copied if writer else Local
            report = grade_class(course, jobs=jobs, sandbox=box.why_not() is None, executor=engine)
            after = os.times()
            wrong = [row for row in report.rows if not row.result.passed or row.recorded.problem]
            assert not wrong and len(report.rows) == count, wrong[:1]
            found[f"{turn}_wall"] = time.perf_counter() - started
            found[f"{turn}_cpu"] = sum(after[:4]) - sum(before[:4])
            found[f"{turn}_recording"] = recording[0]
        found["peak_mib"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        for name in ("gradebook.db", ".autograder", "autograded", "feedback"):
            found[name] = size(root / name) / 1024
        return found


def size(path: Path) -> int:
    files = [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]
    return sum(file.stat().st_size for file in files)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=[10, 100, 1000], metavar="K")
    parser.add_argument("--jobs", type=int, default=max(1, (os.cpu_count() or 2) // 2), metavar="N")
    parser.add_argument("--assignment", metavar="ID", help="one of the course's, with its launches")
    parser.add_argument("--writer", action="store_true", help="only what the recording process does")
    parser.add_argument("--short", action="store_true", help="2 and 3 copies: that it runs, not how fast")
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(one(options.one, options.jobs, options.assignment, options.writer)))
        return
    sizes = [2, 3] if options.short else sorted(options.sizes)
    more = [f"--jobs={options.jobs}", *(["--writer"] if options.writer else [])]
    more += [f"--assignment={options.assignment}"] if options.assignment else []
    what = options.assignment or "a small assignment without launches"
    print(machine.describe("torch", "nbgrader", "SQLAlchemy"))
    print(f"{what}, {options.jobs} at once{', only recorded' if options.writer else ''}\n")
    found = []
    for count in [1, *sizes]:  # one copy: what a class costs before its size
        command = [sys.executable, __file__, f"--one={count}", *more]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        found.append(json.loads(done.stdout.splitlines()[-1]))
        print(f"  {count} done in {found[-1]['first_wall'] + found[-1]['again_wall']:.0f} s", file=sys.stderr)
    base = found[0]
    head = ("copies", "wall s", "CPU s", "CPU s/copy", "recording", "again, CPU s/copy", "peak MiB",
            "gradebook KiB/copy", "results", "autograded + feedback")  # fmt: skip
    rows, each = [], []
    for this in found[1:]:
        n = this["copies"] - 1

        def more_of(key: str, this: dict[str, float] = this, n: float = n) -> float:
            return (this[key] - base[key]) / n

        each.append(more_of("first_cpu"))
        rows.append((
            f"{this['copies']}", f"{this['first_wall']:.1f}", f"{this['first_cpu']:.1f}", f"{each[-1]:.2f}",
            f"{more_of('first_recording'):.3f}", f"{more_of('again_cpu'):.3f}", f"{this['peak_mib']:.0f}",
            f"{more_of('gradebook.db'):.1f}", f"{more_of('.autograder'):.1f}",
            f"{more_of('autograded') + more_of('feedback'):.1f}",
        ))  # fmt: skip
    print(machine.table(head, rows))
    print(f"\nper copy: what one more costs, beside the {base['first_cpu']:.1f} CPU s of a class of one")
    print(f"ratio: {each[-1] / each[0]:.2f}")


if __name__ == "__main__":
    main()
