"""Run one script with its ranks and bring back a `Run`: start, watch, stop in order, harvest.

Where to look: command.py (what is executed), processes.py (how it ends), recorder/ and evidence.py (what the
ranks tell), tidy.py (texts), faults.py (is the machine at fault?).
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import hashlib
import importlib.metadata
import os
import platform as platforms
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import autograder
from autograder.launch import box, command, evidence, faults, processes, tidy, view
from autograder.launch.run import RankLog, Request, Run
from autograder.launch.warm.client import Used
from autograder.leftovers import scratch

POLL_S = 0.05
DUMP_S = 2.0        # what the ranks are given to say where they stand, at the deadline
RETRY_S = 1.0       # after a fault of the machine


def run_request(request: Request, folder: Path) -> Run:
    """Launch `request` in `folder` and say what happened. Never raises for what the script does.

    A fault of the machine (see faults.py) is tried once more; if it is still there, `Run.infra` names it and
    nothing else of the Run should be judged.
    """
    folder = Path(folder).absolute()
    if not (folder / request.script).is_file():
        return _missing(request)
    run = _attempt(request, folder)
    if run.infra is not None:
        time.sleep(RETRY_S)
        run = _attempt(request, folder)
    return run


def _attempt(request: Request, folder: Path) -> Run:
    try:
        return _launch(request, folder)
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        return _empty(request, infra="disk")


def _launch(request: Request, folder: Path) -> Run:
    script = folder / request.script
    source_bytes = script.read_bytes()
    source = source_bytes.decode("utf-8", "replace")
    boxed = box.wanted()
    with (
        scratch() as temp,
        _port(request, source, boxed) as (port, fixed),
    ):
        if fixed and not boxed and command.busy(port):   # somebody else's: the script is not to blame
            return _empty(request, infra="port")
        launch = _Launch(request, folder, temp, port, boxed)
        launch.watch()
        if launch.ended.failure is not None:
            return _empty(request, infra="sandbox", launcher_stderr=launch.ended.failure)
        run = launch.harvest(source_bytes, source)
    fault = faults.find(run, fixed_port=fixed, folder=folder, boxed=boxed)
    if fault is None:
        return run
    return dataclasses.replace(run, infra=fault)


@contextlib.contextmanager
def _port(request: Request, source: str, boxed: bool) -> Iterator[tuple[int, bool]]:
    """The port of the launch, and whether the script imposes it: then one such launch at a time runs, but for
    boxes, of which each has its own network.

    One lock file for all ports: it stays in the temporary folder, and one empty file is enough there.
    """
    wanted = command.fixed_port(source) if request.launcher else None
    if boxed:
        yield wanted or command.COURSE_PORT, True
        return
    if wanted is None:
        yield command.free_port(), False
        return
    import filelock  # torch depends on it; slow to load, seldom needed

    user = getattr(os, "getuid", lambda: 0)()   # another user could not open our lock file
    with filelock.FileLock(Path(tempfile.gettempdir()) / f"autograder-port-{user}.lock"):
        yield wanted, True


class _Launch:
    """One attempt, from its start to its Run."""

    def __init__(self, request: Request, folder: Path, temp: Path, port: int, boxed: bool) -> None:
        self.request, self.folder, self.temp = request, folder, temp
        self.record, self.logs = temp / "record", temp / "logs"
        self.record.mkdir()
        command.fresh(self.record).mkdir()
        self.marker = uuid.uuid4().hex
        self.epoch, self.started = time.time(), time.monotonic()
        self.per_rank = command.per_rank_logs() or not request.launcher
        commands = command.commands(request, port=port, run_id=self.marker, logs=self.logs)
        for index in range(len(commands)):
            (self.logs / f"agent{index}").mkdir(parents=True)
        self.outputs = [(temp / f"agent{n}.out", temp / f"agent{n}.err") for n in range(len(commands))]
        env = command.environment(
            request, marker=self.marker, record=self.record, epoch=self.epoch,
            inherited=view.environment() if boxed else None)
        env |= {"AUTOGRADER_BOXED": "1"} if boxed else {}
        self.processes = processes.start(processes.Job(
            commands, folder, env, self.outputs, temp, box=self._box(len(commands)) if boxed else None))
        self.timed_out = self.output_limited = False
        self.duration = 0.0
        self.ended = processes.Ended([None] * len(commands))

    def _box(self, agents: int) -> box.Box:
        return box.Box(
            rooms=(self.folder, self.temp), copies=(self.folder,), back=(self.record, self.logs),
            folders=(self.record, command.fresh(self.record),
                     *(self.logs / f"agent{n}" for n in range(agents))),
            record=self.record, logs=self.logs, output_bytes=self.request.output_limit_bytes,
            wall_s=self.request.time_limit_s, gpus=self.request.gpus is None)

    # -- while it runs -------------------------------------------------------------------------------------

    def watch(self) -> None:
        try:
            while self.processes.running():
                if self._printed_too_much():
                    self.output_limited = True
                    break
                if time.monotonic() - self.started > self.request.time_limit_s:
                    self.timed_out = True
                    self._ask_where_they_stand()
                    break
                if isinstance(self.processes, processes.Forked):   # which says at once that it has ended
                    self.processes.wait(POLL_S)
                else:
                    time.sleep(POLL_S)
        finally:   # also when we are interrupted (Ctrl-C in a notebook)
            self.processes.stop()
            self.duration = time.monotonic() - self.started
            self.ended = self.processes.ended()
            Used.ever = Used.ever or self.ended.warm
            if isinstance(self.processes, processes.Boxed):   # nothing outlives a box
                self.output_limited = self.output_limited or self.ended.limit == "output"
            else:
                self.ended.left_over += processes.sweep(self.marker, self.temp, self.epoch)

    def _printed_too_much(self) -> bool:
        limit = self.request.output_limit_bytes * (1 if self.per_rank else self.request.world_size)
        pairs = [*self.outputs, *self._rank_files().values()]
        return any(_size(path) > limit for pair in pairs for path in pair)

    def _ask_where_they_stand(self) -> None:
        if isinstance(self.processes, processes.Boxed):
            self.processes.ask_where_they_stand()
            return
        (self.record / "dump").touch()
        deadline = time.monotonic() + DUMP_S
        while time.monotonic() < deadline and self.processes.running():
            if evidence.dumped(self.record, self.request.world_size):
                return
            time.sleep(POLL_S)

    def _rank_files(self) -> dict[int, tuple[Path, Path]]:
        """Each rank's own output and error files, by rank (empty where the system merges them)."""
        if not self.request.launcher:
            return {0: self.outputs[0]}
        found = {}
        for node in range(self.request.nnodes):
            for path in (self.logs / f"agent{node}").glob("*/attempt_0/*/stdout.log"):
                if path.parent.name.isdigit():
                    rank = node * self.request.nproc + int(path.parent.name)
                    found[rank] = (path, path.with_name("stderr.log"))
        return dict(sorted(found.items()))

    # -- afterwards ----------------------------------------------------------------------------------------

    def harvest(self, source_bytes: bytes, source: str) -> Run:
        request = self.request
        found = evidence.read(
            self.record, world_size=request.world_size, epoch=self.epoch, script=self.folder / request.script)
        clean = tidy.Tidier(self.folder, self.temp)
        limit = request.output_limit_bytes
        if request.launcher:
            launcher_out = "".join(tidy.read_limited(out, limit)[0] for out, _ in self.outputs)
            launcher_err = "".join(tidy.read_limited(err, limit)[0] for _, err in self.outputs)
        else:
            launcher_out = launcher_err = ""
        exit_code = next((code for code in self.ended.exit_codes if code), self.ended.exit_codes[0])
        codes = faults.rank_exit_codes(launcher_err, found.ranks, exit_code, request)
        if self.ended.limit not in (None, "output"):   # it was ended as a whole
            codes = {rank: codes.get(rank) or -9 for rank in range(request.world_size)}
        logs = []
        for rank, (out, err) in self._rank_files().items() if self.per_rank else ():
            stdout, cut_out = tidy.read_limited(out, limit)
            stderr, cut_err = tidy.read_limited(err, limit)
            life = found.ranks.get(rank)
            logs.append(RankLog(
                rank=rank, local_rank=rank % request.nproc, exit_code=codes.get(rank),
                stdout=clean.paths(stdout), stderr=clean.stderr(stderr),
                reached_end=life is not None and life.ended is not None and not life.raised,
                truncated=cut_out or cut_err, error_line=life.error_line if life else None))
        return Run(
            request=request,
            command=command.as_typed(request),
            script_sha256=hashlib.sha256(source_bytes).hexdigest(),
            exit_code=exit_code,
            timed_out=self.timed_out,
            duration_s=round(self.duration, 3),
            ranks=tuple(logs),
            stdout="".join(log.stdout for log in logs) if self.per_rank else clean.paths(launcher_out),
            stderr="".join(log.stderr for log in logs) if self.per_rank else clean.stderr(launcher_err),
            launcher_stderr=clean.launcher(launcher_err),
            per_rank=self.per_rank,
            output_limited=self.output_limited,
            collectives=found.collectives,
            gradients=found.gradients,
            events=found.events,
            stacks=found.stacks,
            left_over=self.ended.left_over,
            source=source,
            versions=versions(),
        )


def versions() -> dict[str, str]:
    try:
        torch = importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError:
        torch = "absent"
    return {
        "python": platforms.python_version(), "torch": torch, "autograder": autograder.__version__,
        "recorder": str(evidence.RECORDER_SCHEMA), "platform": sys.platform,
    }


def _missing(request: Request) -> Run:
    message = f"python3: can't open file '{request.script}': [Errno 2] No such file or directory\n"
    return _empty(request, exit_code=2, launcher_stderr=message)


def _empty(
    request: Request, exit_code: int | None = None, launcher_stderr: str = "", infra: str | None = None
) -> Run:
    """The Run of a launch that never started."""
    return Run(
        request=request, command=command.as_typed(request), script_sha256="", exit_code=exit_code,
        timed_out=False, duration_s=0.0, launcher_stderr=launcher_stderr, infra=infra, versions=versions())


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
