"""The agents of a box: start them, watch what they use, stop them in order, count what they leave."""

# ruff: noqa: SIM105  as in supervisor.py: few imports, so that a box is ready at once
from __future__ import annotations

import os
import resource
import select
import signal
import struct
import time

from _box_crowd import Crowd  # type: ignore[import-not-found]
from _box_files import open_regular  # type: ignore[import-not-found]
from _box_rights import set_limits  # type: ignore[import-not-found]
from _box_use import held, others, own_memory  # type: ignore[import-not-found]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

LOOK_S = 0.2       # between two looks at what the box uses
SETTLE_S = 0.3     # what a launcher's own helpers (multiprocessing's tracker) may take to end after it
PATIENCE_S = 10.0  # until a warm server's process comes; then a new one is started as ever
DUMP_S = 2.0       # what the ranks are given to say where they stand
MOST_KEPT = 8 * 1024 * 1024   # bytes of what an agent prints
MOST_ENTRIES = 50_000         # files and folders of one tmpfs: they weigh, even empty
TICKS = os.sysconf("SC_CLK_TCK")


class Agents:
    def __init__(self, job: dict[str, Any], commands: bytes) -> None:
        self.job, self.commands = job, commands
        self.limit: str | None = None        # what was exceeded
        self.asked = self.closed = False
        self.warm = False                    # an agent came from a warm server
        self.dump_until: float | None = None
        self.deadline: float | None = None   # of the ordered stop
        self.codes: dict[int, int] = {}
        self.kept: dict[int, bytearray] = {}
        self.counted: dict[int, int] = {}
        self.open: set[int] = set()
        self.seconds: dict[tuple[int, str], float] = {}   # CPU time of the processes seen at the last look
        self.crowd = Crowd(job["running"], max(1, (os.cpu_count() or 1) // 2))
        self.before = 0.0                                 # of those seen earlier, and gone since
        self.wake, waking = os.pipe()
        for end in (self.wake, waking):
            os.set_blocking(end, False)
        signal.set_wakeup_fd(waking, warn_on_full_buffer=False)   # the agents may send us what they like
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        self.agents = [self._start(command, merged) for command, merged in job["commands"]]

    def _start(self, command: list[str], merged: bool) -> tuple[int, list[int]]:
        """Start an agent: its process, and the pipes that it prints to."""
        pipes = [os.pipe() for _ in ("output", "errors")[:1 if merged else 2]]
        printed = [writing for _, writing in pipes]
        pid = self._forked(printed) or self._new(command, printed)
        for reading, writing in pipes:
            os.close(writing)
            os.set_blocking(reading, False)
            self.open.add(reading)
            self.kept[reading], self.counted[reading] = bytearray(), 0
        return pid, [reading for reading, _ in pipes]

    def _new(self, command: list[str], printed: list[int]) -> int:
        import subprocess  # slow to load, and not needed where a warm server is there

        return subprocess.Popen(
            command, cwd=self.job["cwd"], env=self.job["env"], stdin=subprocess.DEVNULL, stdout=printed[0],
            stderr=printed[-1], start_new_session=True, preexec_fn=lambda: set_limits(self.job["limits"])).pid

    def _forked(self, printed: list[int]) -> int | None:
        """The process that a warm server's enters the box with, for this agent; None: it does not come."""
        if self.job.get("warm") is None:
            return None
        import socket

        server = socket.socket(fileno=self.job["warm"])
        try:
            server.settimeout(PATIENCE_S)
            # The kernel adds who we are, as it is seen from the other side.
            told = struct.pack(f"{len(printed)}i", *printed)
            server.sendmsg([b"."], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, told)])
            pid = int(server.recv(16)) or None
            self.warm = self.warm or pid is not None
            return pid
        except (OSError, ValueError):
            self.job["warm"] = None
            server.close()   # it could still come
            return None
        finally:
            if server.fileno() >= 0:
                server.detach()

    def run(self) -> None:
        next_look = 0.0
        while True:
            self._reap()
            alive = [pid for pid, _ in self.agents if pid not in self.codes]
            if not alive:
                return
            now = time.monotonic()
            if now >= next_look:
                next_look = now + LOOK_S
                self.limit = self.limit or self._exceeded()
            if self.limit is not None and self.limit != "output":
                _kill_all()
            elif self.limit == "output":
                self.asked = True
            self._obey(now)
            if self.deadline is not None and now > self.deadline:
                for pid in alive:
                    _kill(pid, signal.SIGKILL)
            elif self.deadline is None and self.asked and self.dump_until is None:
                self.deadline = now + self.job["grace_s"]
                for pid in alive:
                    _kill(pid, signal.SIGTERM)
            self._listen(0.05 if self.dump_until else LOOK_S)

    def _obey(self, now: float) -> None:
        if b"d" in self.commands and self.job["record"]:
            self.commands = b""
            self.crowd.end()   # each is to say where it stands
            self.dump_until = now + DUMP_S
            try:   # the folder is the ranks' own: they may have removed it, or put a pipe there to wait on
                flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
                os.close(os.open(os.path.join(self.job["record"], "dump"), flags, 0o644))
            except OSError:
                pass
        if self.dump_until is not None and (now > self.dump_until or _answered(self.job["record"])):
            self.dump_until, self.asked = None, True
        self.asked = self.asked or self.closed

    def _listen(self, seconds: float) -> None:
        watched = [self.wake, *self.open, *([] if self.closed else [0])]
        for number in select.select(watched, [], [], seconds)[0]:
            if number == self.wake:
                _read(number)
            elif number == 0:
                data = _read(0)
                self.closed = data == b""
                self.commands += data or b""
            else:
                self._keep(number)

    def _keep(self, number: int) -> bool:
        """Take what an agent printed; False when there is nothing more for now."""
        data = _read(number)
        if data == b"":
            self.open.discard(number)
        if not data:
            return False
        self.counted[number] += len(data)
        if len(self.kept[number]) < MOST_KEPT:
            self.kept[number] += data
        return True

    def printed(self) -> list[tuple[str, bytes]]:
        """What each agent printed, with the name to hand it back under; once all have ended."""
        for number in list(self.open):
            while self._keep(number):
                pass
        return [
            (name, bytes(self.kept[pipe]))
            for (_, pipes), names in zip(self.agents, self.job["outputs"], strict=True)
            for pipe, name in zip(pipes, names, strict=False)   # merged: one pipe
        ]

    def _exceeded(self) -> str | None:
        """The limit of the box that is not kept, if any."""
        memory, threads = 0, 0
        waited = 0.0   # CPU time of the live ones' children that have ended
        seconds: dict[tuple[int, str], float] = {}
        states: dict[tuple[int, str], str] = {}
        for pid in others():
            try:
                with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
                    told = file.read().rpartition(")")[2].split()
                threads += int(told[17])
                states[pid, told[19]] = told[0]
                seconds[pid, told[19]] = (int(told[11]) + int(told[12])) / TICKS
                waited += (int(told[13]) + int(told[14])) / TICKS
                memory += own_memory(pid)
            except (OSError, ValueError, IndexError):
                continue
        if memory > self.job["memory"] and held() > self.job["memory"]:
            return "memory"
        if threads > self.job["threads"]:
            return "processes"
        if self._cpu(seconds, waited) > self.job["cpu"]:
            return "cpu"
        agents = [pid for pid, _ in self.agents]
        if not self.asked and self.dump_until is None and not self.crowd.look(states, seconds, agents):
            return "processes"
        for top in self.job["tmpfs"]:
            status = os.statvfs(top)
            if status.f_files - status.f_ffree > MOST_ENTRIES:
                return "files"
        most = self.job["output_bytes"]
        if most and (any(count > most for count in self.counted.values()) or self._logged(most)):
            return "output"
        return None

    def _cpu(self, seconds: dict[tuple[int, str], float], waited: float) -> float:
        """Seconds that the box has computed. Two sums, of which each misses something: what lived too shortly
        to be seen, and what a parent that ignores its children's end leaves uncounted.
        """
        self.before += sum(spent for one, spent in self.seconds.items() if one not in seconds)
        self.seconds = seconds
        ended = resource.getrusage(resource.RUSAGE_CHILDREN)
        alive = sum(seconds.values())
        return max(self.before + alive, ended.ru_utime + ended.ru_stime + waited + alive)

    def _logged(self, most: int) -> bool:
        for place, _, files in os.walk(self.job["logs"]):
            for name in files:
                try:
                    if os.lstat(os.path.join(place, name)).st_size > most:
                        return True
                except OSError:
                    continue
        return False

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            self.codes[pid] = os.waitstatus_to_exitcode(status)

    def exit_codes(self) -> list[int]:
        return [self.codes[pid] for pid, _ in self.agents]

    def end_all(self) -> int:
        """End whatever the agents left, and count it."""
        settled = time.monotonic() + SETTLE_S
        while others() and time.monotonic() < settled:
            time.sleep(0.02)
            self._reap()
        ended: set[int] = set()
        last = time.monotonic() + 10
        while (left := others()) and time.monotonic() < last:
            ended.update(left)
            _kill_all()
            time.sleep(0.01)
            self._reap()
        return len(ended)


def _kill_all() -> None:
    _kill(-1, signal.SIGKILL)   # from process 1: every other one of the box, at once


def _kill(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        pass


def _read(number: int) -> bytes | None:
    """What is there to read, b"" at the end, None when there is nothing for now."""
    try:
        return os.read(number, 65536)
    except BlockingIOError:
        return None
    except OSError:
        return b""


def _answered(record: str) -> bool:
    """Whether every rank that started and has not ended has said where it stands (see evidence.dumped)."""
    try:
        names = os.listdir(record)
    except OSError:
        return True   # a script removed it: nothing is to be waited for
    for name in names:
        if name.startswith("rank"):
            try:
                number, _ = open_regular(os.path.join(record, name))
            except OSError:
                continue
            with open(number, "rb") as file:
                text = file.read(MOST_KEPT)
            if text and b'{"k":"dumped"' not in text and b'{"k":"end"' not in text:
                return False
    return True
