"""Ask a warm server to start a job; processes.py gives that the face of the other ways."""

from __future__ import annotations

import array
import contextlib
import json
import os
import select
import socket
import struct
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from typing import Any, NamedTuple

from autograder.launch import view

# In a trusted process, the path of a server's socket: for its launches; for the cells that it has run apart.
VARIABLE, NOTEBOOK = "AUTOGRADER_WARM", "AUTOGRADER_WARM_NOTEBOOK"


class Servers(NamedTuple):
    """The sockets of the servers for the launches of a copy, and for its cells and tests."""

    launch: str | None = None
    notebook: str | None = None


COLD = Servers()


# Those of this user that own.py has found, for what runs meanwhile in this thread.
FOUND: ContextVar[Servers] = ContextVar("autograder_warm", default=COLD)


def told() -> Servers:
    """Those that this process was told of, else its user's own."""
    if VARIABLE not in os.environ and NOTEBOOK not in os.environ:
        return FOUND.get()
    return Servers(os.environ.get(VARIABLE) or None, os.environ.get(NOTEBOOK) or None)


def why_not() -> str | None:
    """Why no process can be forked for a launch on this machine; None where one can."""
    if not sys.platform.startswith("linux"):
        return "only Linux lets a process enter a sandbox that another one made"
    if view.gpus():
        return "CUDA can be used in no process that was forked"
    return None


class Used:
    """Whether anything that this process was told came from a warm server: a launch, or its kept Run."""

    ever = False


PATIENCE_S = 10.0   # until the server takes a request: it may be starting
TAKEN = b"+"
LOOK_S = 0.2


def connect(env: Mapping[str, str], path: str | None) -> socket.socket | None:
    """A connection to the server at `path`; None where none answers, or where a job with this environment is
    not to be forked: CUDA can be used in no process that was.
    """
    if not path or not sys.platform.startswith("linux"):
        return None
    if env.get("CUDA_VISIBLE_DEVICES") != "" and view.gpus():
        return None
    connection = socket.socket(socket.AF_UNIX)
    try:
        with near(path) as name:
            connection.connect(name)
        if not _ours(connection):
            raise PermissionError(path)
    except OSError:
        connection.close()
        return None
    return connection


def _ours(connection: socket.socket) -> bool:
    """Whether this user's process listens at the other end."""
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    return struct.unpack("3i", credentials)[1] == os.getuid()


@contextlib.contextmanager
def near(path: str) -> Iterator[str]:
    """A name for the socket at `path`, short enough for the system, which takes 107 bytes."""
    folder, name = os.path.split(path)
    number = os.open(folder, os.O_PATH | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{number}/{name}"
    finally:
        os.close(number)


def umask() -> int:
    """Ours, which cannot be asked without being set."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def send(connection: socket.socket, asked: Mapping[str, Any], *numbers: int) -> None:
    """A request, with descriptors. One that the server does not take is one that it never answers."""
    told = json.dumps(asked).encode()
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", numbers))] if numbers else []
    with contextlib.suppress(OSError):
        connection.sendmsg([len(told).to_bytes(4, "big")], rights)
        connection.sendall(told)


def take(connection: socket.socket, asked: Mapping[str, Any]) -> bool:
    """Whether the server takes the request; what it has not taken, it never will."""
    connection.settimeout(PATIENCE_S)
    send(connection, asked)
    try:
        if connection.recv(1) == TAKEN:
            connection.settimeout(None)
            return True
    except OSError:
        pass
    connection.close()
    return False


def ask(path: str, seconds: float, stop: Callable[[], bool] = bool) -> dict[str, int] | None:
    """What the server of this socket tells of itself; None if it does not within so many seconds, or `stop`
    is true before.
    """
    deadline = time.monotonic() + seconds
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(seconds)
        try:
            with near(path) as name:
                connection.connect(name)
            send(connection, {"tell": True})
            while not select.select([connection], [], [], LOOK_S)[0]:
                if stop() or time.monotonic() > deadline:
                    return None
            told = json.loads(connection.makefile("rb").readline()[len(TAKEN):])
        except (OSError, ValueError):
            return None
        return {str(name): int(value) for name, value in told.items()}


def invite(stack: contextlib.ExitStack, server: socket.socket, job: dict[str, Any]) -> int:
    """Have the server's processes come into the box that is told `job`, by a socket that is the box's with
    the descriptor returned, while `stack` lasts.
    """
    inner, outer = (stack.enter_context(one) for one in socket.socketpair())
    send(stack.enter_context(server), {"enter": job}, outer.fileno())
    job["warm"] = inner.fileno()
    return inner.fileno()


def ended(connection: socket.socket, seconds: float) -> bool:
    """Whether the job has ended within so many seconds: the server says nothing else."""
    try:
        if not select.select([connection], [], [], seconds)[0]:
            return False
        return connection.recv(4096) == b""
    except (OSError, ValueError):
        return True
