"""Start the processes of a launch, stop them in order, and leave none behind.

Four ways with one face: `Boxed` (in a sandbox, see box.py), `Supervised` (Linux, macOS: a small process of
ours adopts and ends whatever the launcher leaves, even if we are killed meanwhile), `Forked` (the same, in a
process of a warm server, see warm/) and `Direct` (Windows).
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Any

import psutil

from autograder.launch import box as boxes
from autograder.launch import view
from autograder.launch.command import MARKER, SHUTDOWN_S
from autograder.launch.warm import client as warm

# torchrun needs SHUTDOWN_S for ranks that ignore SIGTERM, then a moment for itself.
GRACE_S = SHUTDOWN_S + 4.0
SUPERVISOR = Path(__file__).with_name("supervisor.py")


@dataclass(frozen=True)
class Job:
    """What to start: one command per agent, each with its files for standard output and error (one file for
    both: merged). `temp`: a folder of this job alone.
    """

    commands: list[list[str]]
    cwd: Path
    env: dict[str, str]
    outputs: list[tuple[Path, Path]]
    temp: Path
    grace_s: float = GRACE_S
    box: boxes.Box | None = None


@dataclass
class Ended:
    """How the agents ended; None where it could not be learnt. `failure`: what was said by a box that could
    not be made. `limit`: the limit of the box that was exceeded ("memory", "processes", "cpu", "files",
    "output"). `warm`: a warm server forked them.
    """

    exit_codes: list[int | None]
    left_over: int = 0
    failure: str | None = None
    limit: str | None = None
    warm: bool = False


class Boxed:
    """In a box, whose process 1 starts the agents, stops them in order, and hands back what they left.

    `server`: a connection to a warm server, whose processes enter the box and are its agents; process 1
    starts them as ever if none comes.
    """

    def __init__(self, job: Job, server: socket.socket | None = None) -> None:
        assert job.box is not None
        self.job, self.box, self.invited = job, job.box, server is not None
        self.back, self.said = job.temp / "box.out", job.temp / "box.err"
        user = boxes.user()
        etc = job.temp / "box.etc"
        view.write_etc(etc, boxes.FIRST_USER if user is None else user)
        merged = [out == err for out, err in job.outputs]
        commands = list(zip(job.commands, merged, strict=True))
        told = boxes.job(self.box, commands, job.cwd, job.env, job.outputs, job.grace_s, user)
        with contextlib.ExitStack() as stack:
            back, said = (stack.enter_context(path.open("wb")) for path in (self.back, self.said))
            passed = [] if server is None else [warm.invite(stack, server, told)]
            # Its own session: a Ctrl-C at the grader's terminal comes to us alone, and we stop it in order.
            self.process = subprocess.Popen(
                boxes.argv(self.box, etc, user), env=boxes.outside(), stdin=subprocess.PIPE, stdout=back,
                stderr=said, start_new_session=True, bufsize=0, pass_fds=passed)
        self._tell(json.dumps(told).encode() + b"\n")

    def _tell(self, data: bytes) -> None:
        with contextlib.suppress(BrokenPipeError):   # it has ended
            while data and self.process.stdin is not None and not self.process.stdin.closed:
                data = data[self.process.stdin.write(data) or 0:]

    def running(self) -> bool:
        return self.process.poll() is None

    def ask_where_they_stand(self) -> None:
        """Have the ranks write it down, and the launch stopped then."""
        self._tell(b"d")

    def wait(self, seconds: float) -> bool:
        """Whether all has ended within so many seconds."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(seconds)
        return not self.running()

    def stop(self) -> None:
        """Ask the launcher to end its ranks and itself; what does not obey is ended with the box."""
        if self.process.stdin is not None:
            self.process.stdin.close()
        if not self.wait(self.job.grace_s + 15):
            self.process.kill()
            self.process.wait()

    def ended(self) -> Ended:
        """How it ended; what is to come back is put in its place, whatever stood there before."""
        self.stop()
        for path in self.box.back:
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
        unknown: list[int | None] = [None] * len(self.job.commands)
        with self.back.open("rb") as stream:
            if _line(stream) is None:
                said = self.said.read_text(encoding="utf-8", errors="replace")
                return Ended(unknown, failure=said or f"bwrap: exit code {self.process.returncode}")
            status = _line(stream)
            if status is None:   # it was ended with the box
                return Ended(unknown, warm=self.invited)
            while (entry := _line(stream)) is not None:
                self._put(Path(entry["path"]), int(entry["size"]), stream)
        codes, left_over = list(status["exit_codes"]), int(status["left_over"])
        return Ended(codes, left_over, None, status["limit"], status["warm"])

    def _put(self, path: Path, size: int, stream: IO[bytes]) -> None:
        """A file at its place outside: in a folder of ours, which nothing of the box can change."""
        places = [*self.box.back, *(one for pair in self.job.outputs for one in pair)]
        if ".." in path.parts or not any(path.is_relative_to(place) for place in places):
            raise ValueError(f"the box hands back {str(path)!r}, which was not asked for")
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as file:
            while size > 0 and (data := stream.read(min(size, 1 << 20))):
                size -= len(data)
                file.write(data)


def _line(stream: IO[bytes]) -> dict[str, Any] | None:
    """The next line of JSON; None at the end (a cut one is its end)."""
    try:
        line = json.loads(stream.readline(1 << 20))
    except ValueError:
        return None
    return line if isinstance(line, dict) else None


def _told(job: Job) -> dict[str, Any]:
    """What a supervisor is told."""
    return {
        "commands": job.commands, "cwd": str(job.cwd), "status": str(job.temp / "status.json"),
        "grace_s": job.grace_s, "outputs": [[str(out), str(err)] for out, err in job.outputs],
    }


class Supervised:
    def __init__(self, job: Job) -> None:
        self.job = job
        self.status = job.temp / "status.json"
        path = job.temp / "job.json"
        path.write_text(json.dumps(_told(job)), encoding="utf-8")
        self.process = subprocess.Popen(
            [sys.executable, "-I", "-S", str(SUPERVISOR), str(path)], env=job.env, stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)

    def running(self) -> bool:
        return self.process.poll() is None

    def stop(self) -> None:
        """Ask the launcher to end its ranks and itself; what does not obey is ended."""
        if self.running():
            self.process.terminate()
            try:
                self.process.wait(self.job.grace_s + 15)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()

    def ended(self) -> Ended:
        try:
            status = json.loads(self.status.read_text(encoding="utf-8"))
            return Ended(list(status["exit_codes"]), int(status["left_over"]))
        except (OSError, ValueError, KeyError):   # the script ended our supervisor: nothing is known
            return Ended([None] * len(self.job.commands))


class Forked(Supervised):
    """Supervised in a process that a warm server forks."""

    def __init__(self, job: Job, server: socket.socket) -> None:
        self.job, self.server = job, server
        self.status = job.temp / "status.json"

    def running(self) -> bool:
        return not warm.ended(self.server, 0)

    def wait(self, seconds: float) -> bool:
        return warm.ended(self.server, seconds)

    def stop(self) -> None:
        with contextlib.suppress(OSError):
            self.server.sendall(b"s")
        warm.ended(self.server, self.job.grace_s + 15)

    def ended(self) -> Ended:
        self.server.close()
        return replace(super().ended(), warm=True)


@dataclass
class Direct:
    job: Job
    agents: list[subprocess.Popen[bytes]] = field(default_factory=list)
    family: set[psutil.Process] = field(default_factory=set)
    looked: float = 0.0

    def __post_init__(self) -> None:
        for command, (out, err) in zip(self.job.commands, self.job.outputs, strict=True):
            with out.open("wb") as stdout, err.open("wb") as stderr:
                self.agents.append(subprocess.Popen(
                    command, cwd=self.job.cwd, env=self.job.env, stdin=subprocess.DEVNULL, stdout=stdout,
                    stderr=stderr, start_new_session=os.name == "posix"))

    def running(self) -> bool:
        if time.monotonic() > self.looked + 0.5:
            self._remember()
        return any(agent.poll() is None for agent in self.agents)

    def _remember(self) -> None:
        self.looked = time.monotonic()
        for agent in self.agents:
            try:
                self.family.update(psutil.Process(agent.pid).children(recursive=True))
            except psutil.Error:
                continue

    def stop(self) -> None:
        self._remember()
        for agent in self.agents:
            agent.terminate()
        deadline = time.monotonic() + self.job.grace_s
        for agent in self.agents:
            try:
                agent.wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                self._remember()
                agent.kill()
                agent.wait()

    def ended(self) -> Ended:
        return Ended([agent.poll() for agent in self.agents], end(self.family))


def start(job: Job, platform: str = sys.platform) -> Boxed | Forked | Supervised | Direct:
    """Start it, from the warm server that this process was told of if there is one (see warm/)."""
    return by_another(job, warm.told().launch) or (Direct(job) if platform == "win32" else Supervised(job))


def by_another(job: Job, server: str | None) -> Boxed | Forked | None:
    """Have it started by a box's process 1, or by the warm server at `server`; None where there is neither.
    """
    connection = warm.connect(job.env, server)
    if job.box is not None:
        return Boxed(job, connection)
    told = {**_told(job), "env": job.env, "umask": warm.umask()}
    if connection is not None and warm.take(connection, told):
        return Forked(job, connection)
    return None


def end(processes: Iterable[psutil.Process]) -> int:
    """End these processes and count those that were still running."""
    count = 0
    for process in processes:
        try:
            if process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
                process.kill()
                count += 1
        except psutil.Error:
            continue
    return count


def sweep(marker: str, folder: Path, since: float) -> int:
    """End every process of the launch that is still there, whoever its parent: count them.

    They are known by the launch's marker in their environment, or by an open file in its own folder; only
    processes born after `since` (epoch seconds) are looked at.
    """
    count = 0
    for _ in range(50):   # a process may fork while we look
        ended = end(process for process in psutil.process_iter() if _belongs(process, marker, folder, since))
        if not ended:
            break
        count += ended
        time.sleep(0.02)
    return count


def _belongs(process: psutil.Process, marker: str, folder: Path, since: float) -> bool:
    try:
        if process.pid == os.getpid() or process.create_time() < since - 2:
            return False
        if process.status() == psutil.STATUS_ZOMBIE:
            return False
        if process.environ().get(MARKER) == marker:
            return True
        return any(Path(file.path).is_relative_to(folder) for file in process.open_files())
    except (psutil.Error, OSError):
        return False
