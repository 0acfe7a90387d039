"""Stands between us and the launcher, so that nothing it starts can outlive it.

Run as a script with the standard library only: `python -I -S supervisor.py job.json`. On Linux it adopts
every process whose parent ends (a daemon that forked twice comes back here), ends the launcher in order when
asked (SIGTERM) or when we are gone ourselves, then ends and counts whatever is left. The job file:
{"commands": [[...]], "cwd": str, "outputs": [[stdout, stderr]], "status": path, "grace_s": float}; the status
file says {"exit_codes": [...], "left_over": n}.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn

PR_SET_CHILD_SUBREAPER = 36   # Linux; elsewhere orphans are found by their environment
SETTLE_S = 0.3   # what a launcher's own helpers (multiprocessing's tracker) may take to end after it


def main(path: str) -> None:
    with open(path, encoding="utf-8") as file:
        job = json.load(file)
    parent = os.getppid()
    supervise(job, lambda *told: _popen(job["cwd"], *told), lambda: os.getppid() != parent)


def _popen(cwd: str, command: list[str], out: str, err: str) -> int:
    with open(out, "wb") as stdout, open(err, "wb") as stderr:
        return subprocess.Popen(
            command, cwd=cwd, stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr,
            start_new_session=True).pid


def supervise(
    job: dict[str, Any], start: Callable[[list[str], str, str], int], gone: Callable[[], bool],
    told: Callable[[], bool] = bool, listened: tuple[int, ...] = (),
) -> NoReturn:
    """Start the agents by `start` (command, files for output and errors: its process) and see to their end.
    `gone`: whether nobody waits for them any more; `told`: whether they are to be stopped, as by SIGTERM.
    Both are asked from time to time, and when one of the descriptors `listened` has something to read.
    """
    _adopt_orphans()
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    signal.set_wakeup_fd(writing)
    asked: list[int] = []
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.signal(signal.SIGTERM, lambda *_: asked.append(1))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    agents = [start(command, out, err)
              for command, (out, err) in zip(job["commands"], job["outputs"], strict=True)]
    codes: dict[int, int] = {}
    deadline = None
    while True:
        _reap(codes)
        alive = [pid for pid in agents if pid not in codes]
        if not alive:
            break
        if deadline is None and (asked or told() or gone()):
            deadline = time.monotonic() + job["grace_s"]
            _signal(alive, signal.SIGTERM)
        elif deadline is not None and time.monotonic() > deadline:
            _signal(alive, signal.SIGKILL)
        if reading in select.select([reading, *listened] if deadline is None else [reading], [], [], 0.25)[0]:
            os.read(reading, 4096)
    left_over = _end_children(codes)
    status = {"exit_codes": [codes[pid] for pid in agents], "left_over": left_over}
    with open(job["status"] + ".part", "w", encoding="utf-8") as file:
        json.dump(status, file)
    os.replace(job["status"] + ".part", job["status"])
    if gone():   # nobody is left to read it
        shutil.rmtree(os.path.dirname(job["status"]), ignore_errors=True)
    os._exit(0)   # nothing to tidy: Popen objects would only complain that we reaped for them


def _adopt_orphans() -> None:
    try:
        import ctypes

        zero = ctypes.c_ulong(0)
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, ctypes.c_ulong(1), zero, zero, zero)
    except (ImportError, OSError, AttributeError):
        pass


def _reap(codes: dict[int, int]) -> None:
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        codes[pid] = os.waitstatus_to_exitcode(status)


def _signal(pids: list[int], number: int) -> None:
    for pid in pids:
        try:
            os.kill(pid, number)
        except (ProcessLookupError, PermissionError):
            continue


def children() -> list[int]:
    """Our live children (Linux; elsewhere none is known)."""
    found = []
    for entry in os.listdir("/proc") if os.path.isdir("/proc") else []:
        try:
            with open(f"/proc/{entry}/stat", encoding="utf-8", errors="replace") as file:
                state, parent = file.read().rpartition(")")[2].split()[:2]
        except (OSError, ValueError):
            continue
        if int(parent) == os.getpid() and state not in "ZX":
            found.append(int(entry))
    return found


def _end_children(codes: dict[int, int]) -> int:
    settled = time.monotonic() + SETTLE_S
    while children() and time.monotonic() < settled:
        time.sleep(0.02)
        _reap(codes)
    ended: set[int] = set()
    last = time.monotonic() + 10
    while time.monotonic() < last:
        left = children()   # the children of those that we end come to us in turn
        if not left:
            break
        ended.update(left)
        _signal(left, signal.SIGKILL)
        time.sleep(0.02)
        _reap(codes)
    return len(ended)


if __name__ == "__main__":
    main(sys.argv[1])
