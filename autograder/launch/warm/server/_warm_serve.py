"""The server's loop: accept, fork, forget."""

from __future__ import annotations

import os
import select
import signal
import socket
import struct

from _warm_parts import rights, supervisor  # type: ignore[import-not-found]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from _warm_own import Own  # type: ignore[import-not-found]
    from _warm_process import Fresh  # type: ignore[import-not-found]

SET_CHILD_SUBREAPER = 36   # prctl


def serve(
    fresh: Fresh, listening: socket.socket, lifeline: int, own: Own | None = None
) -> socket.socket | None:  # fmt: skip
    """A connection, in a process of its own; None in the server, at its end: that of `lifeline` (-1: there is
    none), or when `own` says so.
    """
    wake, waking = os.pipe()
    for end in (wake, waking):
        os.set_blocking(end, False)
    signal.set_wakeup_fd(waking, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    rights.prctl(SET_CHILD_SUBREAPER, rights.ctypes.c_ulong(1))
    jobs: set[int] = set()
    while True:
        watched: list[Any] = [listening, wake, *([lifeline] if lifeline >= 0 else [])]
        ready = select.select(watched, [], [], own and own.patience(bool(jobs)))[0]
        if wake in ready:
            os.read(wake, 4096)
        reap(jobs)
        if lifeline in ready or (own is not None and own.over(bool(jobs) or listening in ready)):
            return None
        if listening not in ready:
            continue
        connection, _ = listening.accept()
        _, user, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        fresh.threads, fresh.descriptors = (len(os.listdir("/proc/self/" + what)) for what in ("task", "fd"))
        if user != os.getuid() or fresh.threads != 1:   # a fork would copy one of several
            connection.close()
            continue
        pid = os.fork()
        if pid == 0:
            return connection
        jobs.add(pid)
        connection.close()


def reap(jobs: set[int]) -> None:
    """Forget the jobs that have ended; end what one left that was itself ended by force."""
    forced = False
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            break
        forced = forced or pid not in jobs or status != 0
        jobs.discard(pid)
    while forced and (left := set(supervisor.children()) - jobs):   # they came to us for lack of a parent
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
            except (ProcessLookupError, PermissionError, ChildProcessError):
                continue
