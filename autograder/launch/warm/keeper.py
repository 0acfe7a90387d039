"""Start a warm server, start it again if it dies, and end it with us."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from autograder.launch import command, view
from autograder.launch.warm.client import COLD, VARIABLE, Servers, ask, near, why_not
from autograder.leftovers import scratch

SERVER = Path(__file__).with_name("server") / "__main__.py"
QUICK_S, MOST_QUICK = 30.0, 3   # so many that die so soon in a row: it cannot work here
BACKLOG = 256


def environment(sandbox: bool, inherited: Mapping[str, str] | None = None) -> dict[str, str]:
    """What the server is started with: as its launches are, but for what is a launch's own. `inherited`: what
    those who launch have from us (default: all).
    """
    return command.base_environment(view.environment() if sandbox else inherited)


def notebook_environment() -> dict[str, str]:
    """The same for the cells of copies, boxed or not: nothing of ours."""
    return view.environment() | {"PYTHONUTF8": "1", "PYTHONDONTWRITEBYTECODE": "1", "MPLBACKEND": "Agg"}


class Server:
    """A warm server for the launches of trusted processes that have AUTOGRADER_WARM=`path`.

    It is ready some seconds after its start; until then requests wait, for no longer than a launch of its own
    would take. `sandbox`: for launches in boxes, which it enters; it is then started with nothing of this
    process's environment. `kind`: "launch", or "notebook" for what apart.py runs, boxed or not.
    """

    def __init__(
        self, folder: Path, sandbox: bool, kind: str = "launch", inherited: Mapping[str, str] | None = None
    ) -> None:  # fmt: skip
        self.path = folder / kind
        self.log = folder / f"{kind}.log"
        self.kind = kind
        self.env = environment(sandbox, inherited) if kind == "launch" else notebook_environment()
        self.listening = socket.socket(socket.AF_UNIX)
        with near(str(self.path)) as name:
            self.listening.bind(name)
        self.listening.listen(BACKLOG)
        self.lifeline, self._end = os.pipe()
        self.starts = 0
        self.closing = threading.Event()
        self.process = self._start()
        self.thread = threading.Thread(target=self._keep, name="warm-keeper", daemon=True)
        self.thread.start()

    def _start(self) -> subprocess.Popen[bytes]:
        self.starts += 1
        passed = (self.listening.fileno(), self.lifeline)
        with self.log.open("ab") as log:
            return subprocess.Popen(
                [sys.executable, str(SERVER), *map(str, passed), self.kind], env=self.env,
                cwd=self.log.parent, stdin=subprocess.DEVNULL, stdout=log, stderr=log, pass_fds=passed,
                start_new_session=True)   # a Ctrl-C at the terminal comes to us alone

    def _keep(self) -> None:
        quick, started = 0, time.monotonic()
        while True:
            self.process.wait()
            if self.closing.is_set():
                return
            quick = quick + 1 if time.monotonic() < started + QUICK_S else 0
            if quick >= MOST_QUICK:
                break
            started = time.monotonic()
            self.process = self._start()
        self.path.unlink(missing_ok=True)   # every launch starts its own Python from here on
        self.listening.close()

    def ready(self, seconds: float = 60.0, stop: Callable[[], bool] = bool) -> dict[str, int] | None:
        """What the server tells of itself once it answers; None if it does not within so many seconds, or
        `stop` is true before.
        """
        return ask(str(self.path), seconds, stop)

    def close(self) -> None:
        self.closing.set()
        os.close(self._end)
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
        self.thread.join(10)
        self.process.wait()
        os.close(self.lifeline)
        self.listening.close()


@contextlib.contextmanager
def serving(sandbox: bool) -> Iterator[Server | None]:
    """A server for what this process and those that it tells launch; None where there can be none."""
    if not sys.platform.startswith("linux"):
        yield None
        return
    with scratch() as folder:
        server = Server(folder, sandbox)
        before = os.environ.get(VARIABLE)
        os.environ[VARIABLE] = str(server.path)
        try:
            yield server
        finally:
            os.environ.pop(VARIABLE)
            if before is not None:
                os.environ[VARIABLE] = before
            server.close()


@contextlib.contextmanager
def both(
    sandbox: bool, inherited: Mapping[str, str] | None = None, stop: Callable[[], bool] = bool
) -> Iterator[Servers]:  # fmt: skip
    """Servers for the launches of copies and for their cells and tests, once they answer; none where they
    cannot work, or `stop` is true before: what would have asked them starts its own Python.
    """
    with contextlib.ExitStack() as stack:
        try:
            found = _both(stack, sandbox, inherited, stop) if why_not() is None else COLD
        except OSError:   # a limit on processes, a full disk…
            found = COLD
        yield found


def _both(
    stack: contextlib.ExitStack, sandbox: bool, inherited: Mapping[str, str] | None, stop: Callable[[], bool]
) -> Servers:  # fmt: skip
    folder = stack.enter_context(scratch())
    servers = []
    for kind in ("launch", "notebook"):   # they get ready at the same time
        servers.append(Server(folder, sandbox, kind, inherited))
        stack.callback(servers[-1].close)
    if any(server.ready(stop=stop) is None for server in servers):
        stack.close()
        return COLD
    return Servers(*(str(server.path) for server in servers))
