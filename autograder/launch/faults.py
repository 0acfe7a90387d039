"""What the launcher's own words say: each rank's exit code, and whether the machine was at fault."""

from __future__ import annotations

import importlib.metadata
import re
import shutil
import socket
import tempfile
from pathlib import Path

from autograder.launch.evidence import RankRecord
from autograder.launch.run import Request, Run

_FAILURE = re.compile(r"rank\s*: (\d+) \(local_rank: \d+\)\s*\n\s*exitcode\s*: (-?\d+) \(pid: \d+\)")
_CLOSED = re.compile(r"Sending process (\d+) closing signal")
_FORCED = re.compile(r"Unable to shutdown process (\d+) via")
# A rank that gave up in init_process_group: the other one did not come within the group's delay.
_GAVE_UP = re.compile(r"DistStoreError: wait timeout after|Timed out after \d+ seconds waiting for clients")
# A rank that was still joining the others when one of them had left.
_LEFT = re.compile(r"connectFullMesh failed .*(?:closed|reset) by peer", re.DOTALL)
NEARLY_FULL = 16 * 1024 * 1024

# A rank that ended this long before the launch's first failure was seen to end well by the launcher.
SEEN_S = 1.0


def rank_exit_codes(
    text: str, ranks: dict[int, RankRecord], exit_code: int | None, request: Request
) -> dict[int, int | None]:
    """Each rank's exit code as far as torchrun's text and the ranks' own records tell; None is unknown.

    -15: the launcher ended this rank because of another one (or at our demand); -9: it would not end.
    """
    world = range(request.world_size)
    if not request.launcher:
        return {0: exit_code}
    if exit_code == 0:
        return dict.fromkeys(world, 0)
    codes: dict[int, int | None] = {int(rank): int(code) for rank, code in _FAILURE.findall(text)}
    by_pid = {record.pid: rank for rank, record in ranks.items()}
    for pattern, code in ((_CLOSED, -15), (_FORCED, -9)):
        for pid in pattern.findall(text):
            if int(pid) in by_pid:
                codes.setdefault(by_pid[int(pid)], code)
                if code == -9 and codes[by_pid[int(pid)]] == -15:
                    codes[by_pid[int(pid)]] = -9
    failed = [rank for rank in codes if codes[rank] not in (0, -15, -9)]
    ends = [ranks[rank].ended for rank in failed if rank in ranks]
    first = min((end for end in ends if end is not None), default=None)
    for rank, record in ranks.items():
        if rank in codes:
            continue
        if record.raised:
            codes[rank] = 1
        elif record.ended is not None and (first is None or record.ended < first - SEEN_S):
            codes[rank] = 0
    return codes


def find(run: Run, *, fixed_port: bool, folder: Path, boxed: bool = False) -> str | None:
    """The id of the infrastructure fault of a failed run, else None. `boxed`: it had a host name of its own.

    A copy must not be able to call itself a victim: wherever the machine can be asked, it is.
    """
    if run.exit_code == 0 and not run.timed_out:
        return None
    launcher, everything = run.launcher_stderr, run.launcher_stderr + run.stderr
    if re.search(r"EADDRINUSE|address already in use", launcher, re.IGNORECASE) and not fixed_port:
        return "port"
    unresolved = r"cannot be retrieved \(gai error|Name or service not known|nodename nor servname"
    if not boxed and re.search(unresolved, everything) and not _resolvable(socket.gethostname()):
        return "hostname"
    if "No module named 'torch'" in everything and not _torch_installed():
        return "no-torch"
    if ("No space left on device" in everything or not everything) and _nearly_full(folder):
        return "disk"
    waiting = run.timed_out or bool(_GAVE_UP.search(run.stderr))
    if waiting and any(_still_starting(run, rank) for rank in range(run.request.world_size)):
        return "too-slow"
    return "left-early" if _left_early(run) else None


def _left_early(run: Run) -> bool:
    """Whether a rank formed the group, ended well and was gone before another one had finished joining: torch
    does not wait for that, and a busy machine lets it happen to a script that does little with its group.
    """
    formed = {event.rank for event in run.events if event.name == "init"}
    errors = [event for event in run.events if event.name == "exception" and event.rank not in formed]
    alone = any(_LEFT.search(str(error.detail.get("message"))) for error in errors)
    return alone and any(log.rank in formed and log.reached_end for log in run.ranks)


def _still_starting(run: Run, rank: int) -> bool:
    """When the launch was stopped, `rank` had not begun the script's own work: Python was not there yet, or
    was still loading torch.
    """
    log = run.rank(rank)
    if log is not None and (log.stdout or log.reached_end or log.exit_code not in (None, -15, -9)):
        return False
    if any(call.rank == rank for call in run.collectives):
        return False
    stacks = [stack for stack in run.stacks if stack.rank == rank]
    if stacks:
        loading = any(frame.file.startswith("<frozen importlib") for frame in stacks[-1].frames)
        return loading and any("torch" in frame.code for frame in stacks[-1].frames)
    # No word since its start: too slow even to say where it stands.
    return all(event.name == "start" for event in run.events if event.rank == rank)


def _resolvable(name: str) -> bool:
    try:
        socket.getaddrinfo(name, None)
        return True
    except OSError:
        return False


def _torch_installed() -> bool:
    try:
        importlib.metadata.version("torch")
        return True
    except importlib.metadata.PackageNotFoundError:
        return False


def _nearly_full(folder: Path) -> bool:
    return any(shutil.disk_usage(place).free < NEARLY_FULL for place in (folder, tempfile.gettempdir()))
