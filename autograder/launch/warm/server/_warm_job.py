"""One job of the server, in the process that it forked for it."""

from __future__ import annotations

import array
import json
import os
import select
import socket
import struct
import time

import _warm_namespaces as namespaces  # type: ignore[import-not-found]
from _warm_parts import rights, supervisor  # type: ignore[import-not-found]
from _warm_process import become, keep_only, redirect, signals  # type: ignore[import-not-found]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

    from _warm_process import Fresh


def receive(connection: socket.socket) -> tuple[dict[str, Any], list[int]]:
    """What the client asks for, and the descriptors that come with it."""
    head, ancillary, _, _ = connection.recvmsg(4, socket.CMSG_SPACE(16))
    size, told = int.from_bytes(head, "big"), b""
    while len(told) < size and (more := connection.recv(min(size - len(told), 1 << 16))):
        told += more
    numbers = array.array("i")
    for _, kind, data in ancillary:
        if kind == socket.SCM_RIGHTS:
            numbers.frombytes(data)
    return json.loads(told), list(numbers)


def work(fresh: Fresh, connection: socket.socket) -> NoReturn:
    try:
        os.setsid()
        keep_only(2, connection.fileno())
        signals()
        asked, numbers = receive(connection)
        if "enter" not in asked:
            connection.sendall(b"+")   # or it fails: who asked has gone elsewhere
        if "tell" in asked:
            told = {"server": os.getppid(), "threads": fresh.threads, "descriptors": fresh.descriptors}
            connection.sendall(json.dumps(told).encode() + b"\n")
            os._exit(0)
        if "enter" in asked:
            connection.close()
            enter(fresh, socket.socket(fileno=numbers[0]), asked["enter"])
        else:
            supervise(fresh, connection, asked)
    finally:
        os._exit(1)


def supervise(fresh: Fresh, connection: socket.socket, job: dict[str, Any]) -> None:
    """As supervisor.py does in a process of its own."""
    def start(command: list[str], stdout: str, stderr: str) -> int:
        pid = os.fork()
        if pid:
            return pid
        try:
            signals()
            os.setsid()
            out = os.open(stdout, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
            err = os.open(stderr, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
            redirect(None, out, err)
            os.umask(job["umask"])
            os.chdir(job["cwd"])
            become(fresh, command, job["env"])
        finally:
            os._exit(1)

    def said() -> bytes | None:
        return connection.recv(1, socket.MSG_PEEK) if select.select([connection], [], [], 0)[0] else None

    supervisor.supervise(
        job, start, gone=lambda: said() == b"", told=lambda: said() == b"s", listened=(connection.fileno(),))


def enter(fresh: Fresh, box: socket.socket, job: dict[str, Any]) -> None:
    """Become the agents of a box, whose process 1 is at the other end of `box`.

    Who enters a process namespace is in it with its children only, and these are adopted by process 1 when
    the one that forked them, in the namespace, ends: hence two forks.
    """
    box.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
    entered = False
    for command, _ in job["commands"]:
        _, ancillary, _, _ = box.recvmsg(1, socket.CMSG_SPACE(8) + socket.CMSG_SPACE(12))
        printed, first = array.array("i"), 0
        for _, kind, data in ancillary:
            if kind == socket.SCM_RIGHTS:
                printed.frombytes(data)
            elif kind == socket.SCM_CREDENTIALS:
                first = struct.unpack("3i", data)[0]
        if not printed or not first:
            return   # it has ended, or did not wait
        if not entered:
            namespaces.enter(first)
            entered = True
        between = os.fork()
        if between == 0:
            _agent_of_box(fresh, box, command, list(printed), job)
        for number in printed:
            os.close(number)
        os.waitpid(between, 0)
    os._exit(0)


def _agent_of_box(
    fresh: Fresh, box: socket.socket, command: list[str], printed: list[int], job: dict[str, Any]
) -> NoReturn:
    try:
        if os.fork():
            os._exit(0)
        while os.getppid() != 1:
            time.sleep(0.0005)
        os.setsid()
        rights.set_limits(job["limits"])
        os.chdir(job["cwd"])
        rights.give_up(job["user"], job["filter"])
        box.sendall(str(os.getpid()).encode())
        redirect(None, printed[0], printed[-1])
        become(fresh, command, job["env"])
    finally:
        os._exit(1)
