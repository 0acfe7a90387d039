"""The sandbox that a student's code runs in: bubblewrap (`bwrap`), showing what view.py lists and no more.

Inside: the system and Python read-only; folders of its own in memory, of a limited size, at the very paths
that they have outside; its own processes, network (loopback alone), host name and user id; no environment of
ours. What comes back is handed over by process 1 of the box (inside/, read by processes.py): nothing in it
writes on the grader's disk. `why_not` says whether a box can be made here, `argv` how.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import re
import secrets
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from autograder.launch import syscalls, view
from autograder.leftovers import scratch

VARIABLE = "AUTOGRADER_SANDBOX"   # "1" in a trusted process: what it launches goes into a box
INSIDE = Path(__file__).with_name("inside")
OLDEST = (0, 7)                   # of bubblewrap: the first that limits the size of a tmpfs
FIRST_USER, USERS = 1_900_000_000, 200_000_000   # ids that no system gives to anybody
MIB, GIB = 1024**2, 1024**3
ROOM = 256 * MIB                  # of each folder in memory
MOST_OF_ONE = 128 * MIB           # file
MOST_COPIED = 200 * MIB           # of a folder
MOST_THREADS = 256                # of a box, and 4 for each core
MOST_MEMORY = 8 * GIB             # of a box
CPU_SLACK_S = 30                  # of CPU time, beyond what the cores that it may use give within its limit
ADDRESSES, CUDA_BUILD, STACKS = 4 * GIB, 24 * GIB, 128 * MIB   # of a process; the last for each core
INSTALL = "install it (Debian, Ubuntu: `apt install bubblewrap`; Fedora: `dnf install bubblewrap`)"


@dataclass(frozen=True)
class Box:
    """What one boxed command may have. `rooms` are its folders in memory; those among `copies` start with
    what the folder of that path holds outside. `folders` are made in them; what lies at or below `back` is
    brought back to the same path outside. `record` and `logs`: a launch's, see inside/.
    """

    rooms: tuple[Path, ...] = ()
    copies: tuple[Path, ...] = ()
    folders: tuple[Path, ...] = ()
    back: tuple[Path, ...] = ()
    record: Path | None = None
    logs: Path | None = None
    output_bytes: int = 0   # of one stream; 0: not watched
    wall_s: float = 600.0
    gpus: bool = False      # those of this machine, if it has any


def wanted() -> bool:
    """Whether the code that this process launches belongs into a box."""
    return os.environ.get(VARIABLE) == "1"


# -- can it be made here? ------------------------------------------------------------------------------------

@functools.cache
def why_not() -> str | None:
    """None when a box works here, else one sentence: why not, and what to do. One trial per process."""
    if not sys.platform.startswith("linux"):
        return "the sandbox needs Linux: grade on such a machine, or in a virtual one"
    if shutil.which("bwrap") is None:
        return f"the sandbox needs bubblewrap, which is not installed: {INSTALL}, or ask the administrator to"
    version = bwrap_version()
    if version is None:
        return "`bwrap --version` says nothing sensible: is another program of that name on your PATH?"
    if version < OLDEST:
        shown, oldest = (".".join(map(str, one)) for one in (version, OLDEST))
        return f"bubblewrap {shown} is too old for the sandbox: install {oldest} or later"
    return _trial()


@functools.cache
def bwrap_version() -> tuple[int, ...] | None:
    try:
        said = subprocess.run(
            [shutil.which("bwrap") or "bwrap", "--version"], capture_output=True, text=True, timeout=20,
            stdin=subprocess.DEVNULL, env=outside()).stdout
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.fullmatch(r"bubblewrap (\d+(?:\.\d+)*)\s*", said)
    return tuple(int(part) for part in found[1].split(".")) if found else None


_TRIAL = """
import importlib.util, os, socket, subprocess, sys, tempfile
with socket.create_server(("127.0.0.1", 29531)) as server:
    socket.create_connection(server.getsockname()).close()
socket.getaddrinfo(socket.gethostname(), None)
subprocess.run([sys.executable, "-c", ""], check=True)
tempfile.TemporaryFile().close()
print(*(name for name in ("torch", "autograder") if importlib.util.find_spec(name) is None))
"""


def _trial() -> str | None:
    from autograder.launch import processes

    with scratch() as temp:
        out, err = temp / "out", temp / "err"
        room = temp / "room"
        room.mkdir()
        job = processes.Job(
            [[sys.executable, "-P", "-c", _TRIAL]], room, view.environment(), [(out, err)], temp, grace_s=1.0,
            box=Box(rooms=(room,)))
        box = processes.Boxed(job)
        box.wait(60.0)
        ended = box.ended()
        if ended.failure is not None:
            return f"bubblewrap cannot make a sandbox here ({_last(ended.failure)}): {_advice()}"
        if ended.exit_codes != [0]:
            said = _last(err.read_text(encoding="utf-8", errors="replace")) if err.exists() else ""
            return f"Python does not run in the sandbox ({said or ended.exit_codes[0]}): {_elsewhere()}"
        missing = [lost for lost in out.read_text().split() if importlib.util.find_spec(lost) is not None]
    if missing:
        return f"Python does not find {' and '.join(missing)} in the sandbox: {_elsewhere()}"
    return None


def _last(said: str) -> str:
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    return lines[-1][:200] if lines else "it says nothing"


def _elsewhere() -> str:
    return f"install all in one environment, as `python -m venv` makes it (now: {sys.prefix})"


def _advice() -> str:
    """What the administrator can do about a refusal; asked of the system, whose own words vary."""
    if os.geteuid() == 0:
        return "in a container, give it the right to make namespaces (`--privileged`), or grade outside of it"
    if _setting("kernel/apparmor_restrict_unprivileged_userns") == "1":
        return (
            "Ubuntu keeps user namespaces from ordinary users, so ask the administrator for an AppArmor "
            "profile that allows `userns` to /usr/bin/bwrap, or for "
            "`sysctl kernel.apparmor_restrict_unprivileged_userns=0`"
        )
    for name, value in (("kernel/unprivileged_userns_clone", "1"), ("user/max_user_namespaces", "15000")):
        if _setting(name) == "0":
            return f"ask the administrator for `sysctl {name.replace('/', '.')}={value}`"
    return "ask the administrator to allow user namespaces, or grade in a virtual machine"


def _setting(name: str) -> str:
    try:
        return Path("/proc/sys", name).read_text(encoding="ascii").strip()
    except OSError:
        return ""


# -- how it is made ------------------------------------------------------------------------------------------

def outside() -> dict[str, str]:
    """bubblewrap's own environment: what it is started with could be read in the box."""
    return {"PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8"}


def user() -> int | None:
    """The id that root gives to one box, no other having it; an ordinary user has no choice."""
    return FIRST_USER + secrets.randbelow(USERS) if os.geteuid() == 0 else None


def argv(box: Box, etc: Path, user: int | None) -> list[str]:
    """The command that makes the box and runs inside/ in it. `etc`: from view.write_etc. `user`: None for an
    ordinary user; root gives the box's process 1 its own rights, until it has taken that id.
    """
    command = [shutil.which("bwrap") or "bwrap", "--unshare-ipc", "--unshare-pid", "--unshare-net"]
    command += ["--unshare-uts", "--unshare-cgroup-try", "--die-with-parent", "--new-session", "--clearenv"]
    command += ["--as-pid-1", "--hostname", view.HOST]
    if user is None:
        command += ["--unshare-user", "--uid", str(FIRST_USER), "--gid", str(FIRST_USER)]
        command += ["--disable-userns"] if (bwrap_version() or OLDEST) >= (0, 8) else []
    places = _places(box, etc)
    made = set(places)
    for path in sorted(places, key=lambda one: (one.count("/"), one)):
        for parent in [str(one) for one in reversed(Path(path).parents)][1:]:
            if parent not in made and not _in_read_only(parent, places):
                made.add(parent)
                command += ["--perms", "0755", "--dir", parent]   # bubblewrap alone would close it to others
        command += places[path]
    # The folders that bubblewrap itself made are in memory, without a limit: nothing can be added to them.
    command += ["--remount-ro", "/dev", "--remount-ro", "/", "--chdir", "/"]
    return [*command, "--", sys.executable, "-I", "-S", str(INSIDE)]


def _places(box: Box, etc: Path) -> dict[str, list[str]]:
    """What stands at each path of the box."""
    places = {"/proc": ["--proc", "/proc"], "/dev": ["--dev", "/dev"]}
    for path in ("/dev/shm", "/tmp"):
        places[path] = ["--perms", "1777", "--size", str(ROOM), "--tmpfs", path]
    for path in view.OPTIONAL:
        places[path] = ["--ro-bind-try", path, path]
    for path in view.read_only():
        link = path in view.SYSTEM and os.path.islink(path)   # /bin -> usr/bin
        places[path] = ["--symlink", os.readlink(path), path] if link else ["--ro-bind", path, path]
    for name in os.listdir(etc):
        places[f"/etc/{name}"] = ["--ro-bind", str(etc / name), f"/etc/{name}"]
    devices = view.gpus() if box.gpus else []
    for path in devices:
        places[path] = ["--dev-bind", path, path]
    if devices:
        places["/sys"] = ["--ro-bind", "/sys", "/sys"]   # where CUDA and NCCL look for them
    for room in box.rooms:
        places[str(room)] = ["--perms", "0755", "--size", str(ROOM), "--tmpfs", str(room)]
    for number, copied in enumerate(box.copies):
        places[f"/in/{number}"] = ["--ro-bind", str(copied), f"/in/{number}"]
    return places


def _in_read_only(path: str, places: dict[str, list[str]]) -> bool:
    """Whether the nearest place above `path` is one that is seen as it is: what is in it is there."""
    above = next((str(one) for one in Path(path).parents if str(one) in places), "/")
    return places.get(above, [""])[0] in ("--ro-bind", "--symlink")


def job(
    box: Box, commands: list[tuple[list[str], bool]], cwd: Path, env: dict[str, str],
    outputs: list[tuple[Path, Path]], grace_s: float, user: int | None,
) -> dict[str, Any]:  # fmt: skip
    """What process 1 of the box is told (see inside/). A command comes with: are its errors output?"""
    devices = box.gpus and bool(view.gpus())
    cores = os.cpu_count() or 1
    limits = {
        "CORE": 0, "NOFILE": 1024, "FSIZE": MOST_OF_ONE,
        # Of one process, whatever its cores do: the wall's own limit comes first, but if nobody watches it.
        "CPU": _cpu_of_one(box.wall_s, cores),
    }  # fmt: skip
    threads = MOST_THREADS + 4 * cores
    if user is not None or _counts_apart():
        limits["NPROC"] = threads
    if not devices:   # CUDA reserves far more addresses than it uses
        limits["AS"] = (CUDA_BUILD if _cuda_build() else ADDRESSES) + cores * STACKS
    return {
        "commands": commands, "cwd": str(cwd), "env": env, "grace_s": grace_s, "user": user,
        "outputs": [[str(out), str(err)] for out, err in outputs],
        "copies": [[f"/in/{number}", str(path)] for number, path in enumerate(box.copies)],
        "most_copied": MOST_COPIED, "folders": [str(path) for path in box.folders],
        "own": [str(path) for path in box.rooms], "tmpfs": ["/tmp", "/dev/shm", *map(str, box.rooms)],
        "limits": limits, "threads": 2 * threads, "memory": _memory(),
        "cpu": _cpu_of_all(box.wall_s, commands, env), "running": 2 * _workers(commands, env) + 8,
        "filter": syscalls.program().hex(),
        "record": str(box.record) if box.record else "", "logs": str(box.logs) if box.logs else "",
        "output_bytes": box.output_bytes, "back": [str(path) for path in box.back], "most_back": ROOM,
        "most_of_one": MOST_OF_ONE,
    }  # fmt: skip


def _cpu_of_one(wall_s: float, cores: int) -> int:
    """Seconds of CPU time of one process."""
    return int(wall_s * cores) + CPU_SLACK_S


def _cpu_of_all(wall_s: float, commands: list[tuple[list[str], bool]], env: dict[str, str]) -> float:
    """Seconds of CPU time of a box as a whole."""
    return wall_s * _workers(commands, env) + CPU_SLACK_S


def _workers(commands: list[tuple[list[str], bool]], env: dict[str, str]) -> int:
    """How many cores a box has use for at once: each process that was asked for may fill those that its
    libraries take (OMP_NUM_THREADS; all of them without it), and the agents come on top.
    """
    ranks = 0
    for command, _ in commands:
        option = command.index("--nproc-per-node") + 1 if "--nproc-per-node" in command else 0
        ranks += 1 + (int(command[option]) if option else 0)
    asked = env.get("OMP_NUM_THREADS", "")
    threads = int(asked) if asked.isdigit() else os.cpu_count() or 1
    return ranks * threads


def _counts_apart() -> bool:
    """Whether the kernel counts the processes of a user namespace apart (Linux 5.14): where it does not, the
    user's browser would leave none for the box.
    """
    found = re.match(r"(\d+)\.(\d+)", os.uname().release)
    return found is not None and (int(found[1]), int(found[2])) >= (5, 14)


@functools.cache
def _cuda_build() -> bool:
    """Whether this torch was built for CUDA: its libraries alone take several GiB of addresses."""
    found = importlib.util.find_spec("torch")
    folder = os.path.dirname(found.origin) if found and found.origin else ""
    return os.path.exists(os.path.join(folder, "lib", "libtorch_cuda.so"))


def _memory() -> int:
    """What the processes of one box may hold together: a lab's ranks need less, and the machine must live."""
    return max(2 * GIB, min(MOST_MEMORY, psutil.virtual_memory().total // 2))
