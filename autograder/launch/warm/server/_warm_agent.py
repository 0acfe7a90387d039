"""Run torchrun's own agent in a process that the server forked, its ranks being forked too.

The ranks are forked first, while this process has one thread and none of the agent's descriptors, and wait
until the agent starts them. So all that the agent says and does is torchrun's own: it only gets processes
that need no Python to start.
"""

from __future__ import annotations

import array
import json
import os
import select
import socket
import subprocess
import sys
import threading
import time

from _warm_parts import dumpable  # type: ignore[import-not-found]
from _warm_process import (  # type: ignore[import-not-found]
    become,
    ended_by,
    finish,
    keep_only,
    redirect,
    set_environment,
    signals,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, ClassVar

    from _warm_process import Fresh

RUN = "torch.distributed.run"


def agent(fresh: Fresh, command: list[str], env: dict[str, str]) -> None:
    nproc = int(command[command.index("--nproc-per-node") + 1])
    waiting = [_rank(fresh, env) for _ in range(nproc)]
    set_environment(env)
    sys.path[:] = fresh.path
    sys.argv[:] = ["-m", *command[4:]]
    sys.orig_argv[:] = command
    if env.get("AUTOGRADER_BOXED") == "1":   # as the recorder does in a launcher
        dumpable(False)
    import runpy

    from torch.distributed.elastic.multiprocessing.subprocess_handler import subprocess_handler

    def popen(self: Any, args: tuple[str, ...], env: dict[str, str]) -> subprocess.Popen[bytes]:
        return Rank(*waiting.pop(0), args, env, self._stdout, self._stderr)

    _watch_closely()
    original = subprocess_handler.SubprocessHandler._popen
    subprocess_handler.SubprocessHandler._popen = (
        lambda *given: popen(*given) if waiting else original(*given))
    sys.modules["__main__"] = type(sys)("__main__")
    sys.modules.pop(RUN, None)
    fresh.modules.kept.pop(RUN, None)   # it is run, not imported
    code = 0
    try:
        runpy._run_module_as_main(RUN)   # type: ignore[attr-defined]
    except BaseException as error:
        code = ended_by(error, own=1)
    finish(code)


def _watch_closely() -> None:
    """The agent looks at its ranks every tenth of a second. Have it look at once when all have ended; where
    one fails, the others keep what is left of that time to say what they have to say.
    """
    from torch.distributed.elastic.agent.server import api

    class Time:
        def __getattr__(self, name: str) -> Any:
            return getattr(time, name)

        def sleep(self, seconds: float) -> None:
            until = time.monotonic() + seconds
            running = {os.pidfd_open(rank.pid): rank for rank in Rank.started if rank.returncode is None}
            ended: list[Rank] = []
            while len(ended) < len(running) or not running:
                left = until - time.monotonic()
                if left <= 0:
                    break
                waited = [number for number, rank in running.items() if rank not in ended]
                ended += [running[number] for number in select.select(waited, [], [], left)[0]]
            for number in running:
                os.close(number)
            failed = [rank for rank in ended if rank.has_failed()]
            for rank in failed[1:]:
                rank.unseen = True   # at the first look, which finds who failed first

    api.time = Time()


class Rank(subprocess.Popen[bytes]):
    """A process that was forked before and is now told what to be."""

    started: ClassVar[list[Rank]] = []

    def __init__(
        self, pid: int, orders: socket.socket, args: tuple[str, ...], env: dict[str, str], stdout: Any,
        stderr: Any,
    ) -> None:
        self.args, self.pid, self.returncode = args, pid, None
        self.stdin = self.stdout = self.stderr = None
        # What Popen's own methods look at.
        vars(self).update(
            text_mode=None, pipesize=-1, universal_newlines=None, _input=None, _communication_started=False,
            _closed_child_pipe_fds=True, _child_created=True, _waitpid_lock=threading.Lock(),
            _sigint_wait_secs=0.25)
        for stream in (stdout, stderr):
            if stream is not None:
                stream.flush()
        numbers = [1 if stdout is None else stdout.fileno(), 2 if stderr is None else stderr.fileno()]
        told = json.dumps({"command": list(args), "env": env}).encode()
        self.unseen = False
        self.started.append(self)
        with orders:
            _send(orders, told, numbers)
            orders.recv(1)   # it has its session: it can be stopped

    def has_failed(self) -> bool:
        """Whether it ended otherwise than well; it is still to be waited for."""
        told = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        return told is not None and told.si_status != 0

    def poll(self) -> int | None:
        if self.unseen:
            self.unseen = False
            return None
        return super().poll()


def _send(orders: socket.socket, told: bytes, numbers: list[int]) -> None:
    head = len(told).to_bytes(4, "big")
    orders.sendmsg([head], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", numbers))])
    orders.sendall(told)


def _rank(fresh: Fresh, env: dict[str, str]) -> tuple[int, socket.socket]:
    ours, its = socket.socketpair()
    pid = os.fork()
    if pid:
        its.close()
        return pid, ours
    try:
        ours.close()
        its = _only(its)
        signals()
        env.clear()   # the agent's, with the seal: a rank gets its own, which the recorder takes from it
        order, numbers = _ordered(its)
        os.setsid()
        its.sendall(b".")
        its.close()
        redirect(0, *numbers)
        become(fresh, order["command"], order["env"])
    finally:
        os._exit(1)


def _ordered(its: socket.socket) -> tuple[dict[str, Any], array.array[int]]:
    """What to be, and where to print; as text it is left in no frame that a script can look at."""
    head, ancillary, _, _ = its.recvmsg(4, socket.CMSG_SPACE(8))
    if len(head) < 4:
        os._exit(0)   # the agent ended without it
    told = b""
    size = int.from_bytes(head, "big")
    while len(told) < size and (more := its.recv(size - len(told))):
        told += more
    return json.loads(told), array.array("i", ancillary[0][2])


def _only(kept: socket.socket) -> socket.socket:
    """Close every descriptor but the standard ones and this one."""
    keep_only(2, kept.fileno())
    return kept
