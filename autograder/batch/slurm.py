"""Examine copies on a Slurm cluster: chunks of them, as the tasks of job arrays, sent through submitit.

submitit writes and sends the jobs; that is all we ask of it. Without accounting its `result()` of a job that
crashed never returns, it takes a job that Slurm requeues for dead, and it would unpickle what comes back.
Here results are JSON files that are looked for (see slurm_task.py), and squeue is asked which jobs are left.
A copy whose job is gone without its result is sent again, in smaller and smaller chunks, then told as lost.

The course's folder must be one that the nodes see too, at the same place.
"""

from __future__ import annotations

import contextlib
import io
import json
import math
import os
import re
import secrets
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from autograder.batch.executors import Executor, Lost, Raised, Result, Task
from autograder.batch.slurm_task import request, run_chunk
from autograder.batch.trouble import GradingStopped
from autograder.batch.work import Bench
from autograder.files import write_whole
from autograder.notebook.exam import still_good
from autograder.notebook.result import CopyResult, keep, result_path
from autograder.notebook.student import MAX_RESULT, read_regular

FOLDER = Path(".autograder") / "slurm"
TASKS = 50  # of one submission, at most: sites cap the jobs of a user, often at 100
TRIES = 3
POLL_S, ASK_S = 0.5, 5.0  # results are looked for, squeue is asked
SETTLE_S = 30.0  # a shared file system may show a result that much after its job is gone
SILENT_S = 900.0  # squeue may fail that long
COMMAND_S = 60.0
OURS = {"array", "job-name", "output", "error", "signal", "requeue", "no-requeue", "wrap"}
NEVER = re.compile("Partition(?:Time|Node)Limit|BadConstraints|Held|held|NotAvail|Invalid(?:Account|QOS)")


def options(given: Iterable[str]) -> dict[str, str | bool]:
    """Options of sbatch from "key=value" or "key"; ValueError where one cannot be, or nothing can be sent."""
    try:
        import submitit  # noqa: F401
    except ImportError:
        raise ValueError("--executor slurm needs submitit: pip install 'autograder[slurm]'") from None
    if shutil.which("sbatch") is None:
        raise ValueError("--executor slurm: there is no sbatch on PATH; is this a node of a Slurm cluster?")
    found: dict[str, str | bool] = {}
    for one in given:
        key, equals, value = one.lstrip("-").partition("=")
        key = key.replace("_", "-")
        if not re.fullmatch("[a-z][a-z-]*", key) or (equals and not value) or "\n" in value:
            raise ValueError(f"--slurm-option {one!r}: key=value, or the name of a flag, is expected")
        if key in OURS:
            raise ValueError(f"--slurm-option {one!r}: {key} is for us to set")
        found[key] = value if equals else True
    return found


@dataclass
class _Item:
    """A copy that was asked for, until its future is resolved."""

    task: Task
    future: Result
    tries: int = 0


@dataclass
class _Job:
    """A task of a job array: the copies in it, and since when squeue has not named it."""

    names: list[str]
    log: Path
    gone: float | None = None
    told: set[str] = field(default_factory=set)


class Slurm(Executor):
    def __init__(
        self, bench: Bench, jobs: int = 1, *, options: Mapping[str, str | bool] | None = None,
        chunk: int | None = None, tell: Callable[[str], None] = lambda line: None,
    ) -> None:  # fmt: skip
        self.bench, self.jobs, self.chunk, self.tell = bench, jobs, chunk, tell
        self.options = dict(options or {})
        place = bench.course.root / FOLDER
        for left in sorted(place.glob("autograder-*")):
            _adopt(left, bench)
        self.name = f"autograder-{secrets.token_hex(6)}"  # of each of our jobs: how squeue is asked for them
        self.folder, self.out = place / self.name, place / self.name / "out"
        self.out.mkdir(parents=True, mode=0o700)
        self._items: dict[str, _Item] = {}
        self._jobs: dict[str, _Job] = {}
        self._sent, self._heard, self._asked = 0, time.monotonic(), 0.0
        self._end = threading.Event()
        self._watcher: threading.Thread | None = None

    def submit(self, task: Task) -> Result:
        future: Result = Future()
        self._items[str(len(self._items))] = _Item(task, future)
        return future

    def close(self) -> None:
        """Send the jobs. GradingStopped where Slurm refuses them."""
        if not self._items:
            return
        self._send(list(self._items))
        self._watcher = threading.Thread(target=self._watch, name="slurm", daemon=True)
        self._watcher.start()

    def quiet(self) -> None:
        """Each task sees to that on its own node."""

    def stop(self) -> None:
        self._end.set()
        if self._watcher is not None:
            self._watcher.join()
        if self._items and self._sent:
            _run("scancel", f"--name={self.name}")
        shutil.rmtree(self.folder, ignore_errors=True)

    # ------------------------------------------------------------------------------------------ sending

    def _send(self, names: list[str]) -> None:
        """One job array for these copies. A copy that was lost goes with fewer others the next time."""
        import submitit
        from submitit.core.utils import FailedJobError, FailedSubmissionError

        tries = max(self._items[name].tries for name in names)
        size = self.chunk or math.ceil(len(names) / TASKS)
        size = max(math.ceil(size / 4**tries) if tries + 1 < TRIES else 1, math.ceil(len(names) / TASKS))
        count = math.ceil(len(names) / size)
        chunks = [names[start::count] for start in range(count)]  # the sample, which comes first, in many
        paths = []
        for chunk in chunks:
            self._sent += 1
            paths.append(str(self.folder / f"chunk-{self._sent}.json"))
            asked = request(self.bench, {name: self._items[name].task for name in chunk}, self.jobs, self.out)
            content = json.dumps(asked, ensure_ascii=False).encode("utf-8", errors="surrogatepass")
            write_whole(Path(paths[-1]), content)
        cpus = str(self.options.get("cpus-per-task", 2 * self.jobs))
        minutes = math.ceil(math.ceil(size / self.jobs) * self.bench.course.launch.copy_limit_s / 60) + 2
        executor = submitit.SlurmExecutor(folder=self.folder / "log")
        executor.update_parameters(
            job_name=self.name, time=minutes, signal_delay_s=1, array_parallelism=TASKS,
            srun_args=[f"--cpus-per-task={cpus}"],  # since Slurm 22.05 srun does not take it from the job
            additional_parameters={"cpus-per-task": cpus, **self.options, "no-requeue": True},
        )  # fmt: skip
        try:
            with contextlib.redirect_stderr(io.StringIO()):  # submitit says an error, then raises it
                jobs = executor.map_array(run_chunk, paths)
        except (FailedJobError, FailedSubmissionError, OSError, subprocess.SubprocessError) as error:
            lines = [line for line in str(error).splitlines() if "error" in line.lower()] or [str(error)]
            raise GradingStopped(f"Slurm refused the jobs: {lines[0].strip()[:300]}") from None
        for job, chunk in zip(jobs, chunks, strict=True):
            self._jobs[job.job_id] = _Job(chunk, job.paths.stderr)
        self._asked = time.monotonic()

    # ------------------------------------------------------------------------------------------ watching

    def _watch(self) -> None:
        try:
            while self._items and not self._end.wait(POLL_S):
                self._harvest()
                if self._items and time.monotonic() > self._asked + ASK_S:
                    self._ask()
        except BaseException as error:  # ours: nobody may wait for ever
            for item in self._items.values():
                item.future.set_exception(error)
            self._items.clear()

    def _harvest(self) -> None:
        """Resolve the futures whose results have come."""
        lost: dict[str, str] = {}
        for path in self.out.glob("*.json"):
            if path.stem in self._items:
                try:
                    told = _read(path)
                    if "result" in told:
                        self._items.pop(path.stem).future.set_result(told["result"])
                    elif "raised" in told:
                        self._items.pop(path.stem).future.set_exception(Raised(str(told["raised"])))
                    else:
                        lost[path.stem] = str(told["lost"])
                except (ValueError, TypeError, KeyError, AttributeError) as error:
                    lost[path.stem] = f"its result cannot be read ({type(error).__name__})"
            path.unlink(missing_ok=True)  # also what a second job made again
        self._lose(lost)

    def _ask(self) -> None:
        """Which jobs are left; what those that are not have lost is sent again."""
        self._asked = time.monotonic()
        listed = _run("squeue", "-h", "-r", f"--name={self.name}", "-o", "%i|%T|%r")
        if listed is None:
            if time.monotonic() > self._heard + SILENT_S:
                raise GradingStopped(f"squeue has not answered for {SILENT_S:g} s: is slurmctld there?")
            return
        self._heard = time.monotonic()
        lines = (line.split("|", 2) for line in listed.splitlines() if line.count("|") > 1)
        states = {ident: (state, why) for ident, state, why in lines}
        lost: dict[str, str] = {}
        for ident, job in list(self._jobs.items()):
            left = [name for name in job.names if name in self._items]
            if ident in states:
                job.gone = None
                self._say_why_not(ident, *states[ident])
            elif not left:
                del self._jobs[ident]
            elif job.gone is None:
                job.gone = time.monotonic()
            elif time.monotonic() > job.gone + SETTLE_S:
                del self._jobs[ident]
                lost |= dict.fromkeys(left, _how_it_ended(ident, job.log))
        self._lose(lost)

    def _say_why_not(self, ident: str, state: str, why: str) -> None:
        if state == "PENDING" and NEVER.search(why) and why not in self._jobs[ident].told:
            self._jobs[ident].told.add(why)
            self.tell(f"Slurm may never start job {ident}: {why}. Ctrl-C ends this; results so far are kept.")

    def _lose(self, lost: Mapping[str, str]) -> None:
        again: list[str] = []
        for name, how in lost.items():
            item = self._items[name]
            item.tries += 1
            if item.tries < TRIES:
                again.append(name)
            else:
                self._items.pop(name).future.set_exception(Lost(f"{how}; tried {TRIES} times"))
        if not again:
            return
        hows = list(dict.fromkeys(lost[name] for name in again))
        self.tell(f"{len(again)} copies sent again: {'; '.join(hows[:3])}" + ("; …" if len(hows) > 3 else ""))
        try:
            self._send(again)
        except GradingStopped as error:
            for name in again:
                self._items.pop(name).future.set_exception(Lost(f"{lost[name]}; then: {error}"))


def _read(path: Path) -> dict[str, Any]:
    """What a task wrote: JSON, of which nothing is believed but a result's plain values."""
    data = read_regular(path, MAX_RESULT)
    if data is None:
        raise ValueError("not a file of a sane size")
    told = json.loads(data.decode("utf-8", errors="surrogatepass"))
    if "result" in told:
        told["result"] = CopyResult.from_json(json.dumps(told["result"]))
    return dict(told)


def _run(*command: str) -> str | None:
    """What a command of Slurm prints; None where it fails."""
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
            timeout=COMMAND_S, check=True,
        )  # fmt: skip
        return done.stdout
    return None


def _how_it_ended(ident: str, log: Path) -> str:
    """In words, as far as Slurm remembers it, and the last line that the job wrote."""
    shown = _run("scontrol", "show", "job", "-o", ident) or ""
    words = dict(word.split("=", 1) for word in shown.split() if "=" in word)
    state = words.get("JobState", "gone from the queue")
    code = words.get("ExitCode", "0:0")
    said = f"Slurm job {ident}: {state}" + (f", exit code {code}" if code != "0:0" else "")
    with contextlib.suppress(OSError):
        lines = log.read_bytes()[-4000:].decode("utf-8", errors="replace").split("\n")
        if last := [line.strip() for line in lines if line.strip()][-1:]:
            said += f" ({last[0][:200]})"
    return said


def _adopt(left: Path, bench: Bench) -> None:
    """End the jobs of a grading that was killed, and keep the results that they had come to."""
    _run("scancel", f"--name={left.name}")
    for path in (left / "out").glob("*.json"):
        with contextlib.suppress(ValueError, TypeError, KeyError, AttributeError, OSError):
            result = _read(path)["result"]
            folder = bench.course.root / "submitted" / str(result.student) / result.assignment
            sane = os.sep not in str(result.student) and result.assignment in _ids(bench)
            if sane and folder.is_dir() and still_good(result, bench.exam(result.assignment), folder):
                keep(result, result_path(bench.course.root, result.assignment, str(result.student)))
    shutil.rmtree(left, ignore_errors=True)


def _ids(bench: Bench) -> set[str]:
    return {one.id for one in bench.course.assignments}
