"""A server that one user's checks share: it waits until nothing is checked before it loads anything, and ends
by itself, with its files.

Arguments: FOLDER LOCK NAME IDLE_S PACKAGE: the numbers of two descriptors (the folder; a file that stays
locked while we live), the name of the socket to make there, the seconds without a job after which we end, and
the package that we are part of, whose change ends us too.
"""

# ruff: noqa: SIM105
from __future__ import annotations

import fcntl  # it and time load nothing else: what we import here, a script must not find loaded
import os
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from typing import Any

QUIET_S, QUIET_MOST_S, POLL_S = 0.5, 30.0, 0.1
LOOK_S = 5.0   # between two looks at the package's files
LOCK = ".lock"


class Own:
    def __init__(self, folder: str, lock: str, name: str, idle: str, package: str, detached: bool) -> None:
        self.folder, self.lock, self.name = int(folder), int(lock), name
        self.idle, self.package = float(idle), package
        self.asked = False
        pid = os.fork() if detached else 0   # nobody has to wait for us then
        if pid or not detached:
            os.ftruncate(self.lock, 0)
            os.write(self.lock, str(pid or os.getpid()).encode())
        if pid:
            os._exit(0)
        self._quiet()
        self.path = list(sys.path)
        space: dict[str, Any] = {}
        with open(os.path.join(package, "launch", "warm", "state.py"), encoding="utf-8") as file:
            exec(file.read(), space)   # not by what a script would find loaded then
        self.state_of = space["of"]
        self.state = self.state_of(package, self.path)

    def _quiet(self) -> None:
        """Until no check has run for a moment: each holds the folder locked, and must not become slower."""
        start = last = time.monotonic()
        while time.monotonic() < min(last + QUIET_S, start + QUIET_MOST_S):
            mine = os.open(f"/proc/self/fd/{self.folder}", os.O_RDONLY | os.O_DIRECTORY)
            try:
                fcntl.flock(mine, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                last = time.monotonic()
            os.close(mine)
            time.sleep(POLL_S)

    def listen(self, serving: Any) -> socket.socket:
        """The socket, made by the modules of _warm_serve.py."""
        self.listening: socket.socket = serving.socket.socket(serving.socket.AF_UNIX)
        self.last = self.looked = time.monotonic()
        serving.signal.signal(serving.signal.SIGTERM, lambda *_: self._ask())
        mask = os.umask(0o177)   # nobody else connects
        self.listening.bind(f"/proc/self/fd/{self.folder}/{self.name}")
        os.umask(mask)
        self.listening.listen(64)
        return self.listening

    def _ask(self) -> None:
        self.asked = True

    def patience(self, busy: bool) -> float:
        """The seconds until `over` is to be asked again."""
        now = time.monotonic()
        left = self.looked + LOOK_S - now
        return max(0.0, left if busy else min(left, self.last + self.idle - now))

    def over(self, busy: bool) -> bool:
        """Whether this is the end; `busy`: a job runs, or is asked for."""
        now = time.monotonic()
        if busy:
            self.last = now
        if self.asked or now >= self.last + self.idle:
            return True
        if now < self.looked + LOOK_S:
            return False
        self.looked = now
        return not self._there() or self.state_of(self.package, self.path) != self.state

    def _there(self) -> bool:
        """Whether our socket can still be found."""
        try:
            os.stat(self.name, dir_fd=self.folder)
        except OSError:
            return False
        return True

    def leave(self) -> None:
        """Our files go before us; the folder too, unless another one's are in it."""
        for name in (self.name, self.name + LOCK):
            try:
                os.unlink(name, dir_fd=self.folder)
            except OSError:
                continue
        try:
            os.rmdir(os.readlink(f"/proc/self/fd/{self.folder}"))
        except OSError:
            pass
        self.listening.close()
        os._exit(0)
