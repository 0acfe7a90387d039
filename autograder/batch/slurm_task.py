"""What one task of a Slurm job does: examine its copies as any machine would, and write each result as JSON.

submitit calls `run_chunk` with the name of a request; the only thing that is ever unpickled is that call,
here, as the grader's own submission wrote it. Results lie where no box of a student's code can see them.
"""

from __future__ import annotations

import functools
import json
import os
import signal
import threading
import traceback
from collections.abc import Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from autograder import course as courses
from autograder.batch.executors import Local, Task
from autograder.batch.trouble import GradingStopped
from autograder.batch.work import WORTH, Bench
from autograder.files import write_whole
from autograder.launch import box
from autograder.leftovers import own_temporary
from autograder.notebook.apart import STOP, NoBox
from autograder.notebook.result import CopyResult

POLL_S = 0.5
INHERITED = ("AUTOGRADER_KEY_FILE", "AUTOGRADER_RUNS")  # a site may give jobs none of our environment


def request(bench: Bench, items: Mapping[str, Task], jobs: int, out: Path) -> dict[str, Any]:
    """What a task is asked: the copies by the names of their results, and where those go."""
    return {
        "root": str(bench.course.root), "sandbox": bench.sandbox, "warm": bench.warm, "jobs": jobs,
        "out": str(out),
        "items": {name: [task.student, task.assignment, task.audit] for name, task in items.items()},
        "env": {name: os.environ[name] for name in INHERITED if name in os.environ},
    }  # fmt: skip


def run_chunk(path: str) -> None:
    """Examine the copies that the request at `path` names. A result that is there is not made again."""
    asked = json.loads(Path(path).read_text(encoding="utf-8"))
    os.environ.update(asked["env"])
    ended = threading.Event()

    def end(*_: object) -> None:
        # The last line of the log is told to the grader; the job itself ends as if all were well.
        os.write(2, b"ended by Slurm: its time limit, cancelled, or another job's turn\n")
        ended.set()
        STOP.set()

    # Slurm ends a job with SIGTERM, and its time limit with the signal that submitit asks for: submitit's own
    # handlers would ignore the one and requeue at the other, while the grader sends the copies again.
    for name in ("SIGTERM", "SIGUSR1", "SIGUSR2"):
        signal.signal(getattr(signal, name), end)
    signal.signal(signal.SIGCONT, signal.SIG_DFL)  # which comes with them: submitit would say so after us
    out = Path(asked["out"])
    items = {name: Task(*copy) for name, copy in asked["items"].items()}
    if asked["sandbox"] and (why_not := box.why_not()) is not None:
        for name in items:
            _write(out / f"{name}.json", {"lost": why_not})
        return
    with own_temporary():
        warm = asked["warm"] and len(items) >= WORTH
        bench = Bench(courses.load(asked["root"]), sandbox=asked["sandbox"], warm=warm)
        with bench, Local(bench, asked["jobs"]) as local:
            futures: list[Future[CopyResult]] = []
            for name, task in items.items():
                if not (out / f"{name}.json").exists():
                    futures.append(local.submit(task))
                    futures[-1].add_done_callback(functools.partial(_tell, out / f"{name}.json"))
            local.close()
            while not ended.wait(POLL_S) and not all(future.done() for future in futures):
                local.quiet()


def _tell(path: Path, future: Future[CopyResult]) -> None:
    error = None if future.cancelled() else future.exception()
    if error is None:
        _write(path, {"result": json.loads(future.result().to_json())})
    elif isinstance(error, GradingStopped | NoBox):  # this machine's fault: another one may do better
        _write(path, {"lost": str(error)})
    elif isinstance(error, Exception):
        _write(path, {"raised": "".join(traceback.format_exception(error))})


def _write(path: Path, told: Mapping[str, Any]) -> None:
    write_whole(path, json.dumps(told, ensure_ascii=False).encode("utf-8", errors="surrogatepass"))
