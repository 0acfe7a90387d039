"""Warm servers of one user, for the checks and launches that they make themselves, one after the other.

They start by themselves, in the background, after a first check that had to do without, and end when no check
has asked for them for a while. A server is shared by what would start its Python in the very same state: its
name is a digest of that.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import Path

import autograder
from autograder.launch import box
from autograder.launch.warm import client, state
from autograder.launch.warm.client import COLD, FOUND, NOTEBOOK, VARIABLE, Servers
from autograder.leftovers import TOKEN

IDLE_VARIABLE, IDLE_S = "AUTOGRADER_WARM_IDLE_S", 900.0
SERVER = Path(__file__).with_name("server") / "__main__.py"
LOCK = ".lock"
AGAIN_S = 30.0   # one that died is not started again sooner: it may never work here
END_S = 5.0

Environments = Mapping[str, Mapping[str, str]]   # kind of server -> what its jobs are started with


def wanted() -> bool:
    """Whether this process may have servers of its user's own: not where it was told of others, or to do
    without (AUTOGRADER_WARM=0), nor where it grades, or belongs to a copy that is graded.
    """
    apart = {VARIABLE, NOTEBOOK, TOKEN} & set(os.environ)
    grades = box.wanted() or os.environ.get("NBGRADER_EXECUTION") == "autograde"
    return not apart and not grades and client.why_not() is None


def in_kernel() -> bool:
    """Whether a notebook's kernel runs us, without importing IPython where it does not."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return getattr(shell, "kernel", None) is not None


class Kept:
    """The servers that this process started and that end with it, however it ends."""

    def __init__(self) -> None:
        self.processes: list[subprocess.Popen[bytes]] = []
        self.lifeline, self._end = os.pipe()

    def close(self) -> None:
        os.close(self._end)
        os.close(self.lifeline)
        for process in self.processes:
            process.terminate()
        for process in self.processes:
            try:
                process.wait(END_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        with contextlib.suppress(OSError), _place() as place:
            _clear(place)   # one that was still loading has left its lock


def using(
    environments: Environments, kept: Kept | None = None
) -> contextlib.AbstractContextManager[Servers]:  # fmt: skip
    """This user's servers, for what is launched meanwhile in this thread; those that are not there are
    started at the end, so that nothing becomes slower. Whatever hinders it, the cold path serves.
    """
    if not wanted() or FOUND.get() != COLD:
        return contextlib.nullcontext(FOUND.get())
    return _using(environments, kept)


@contextlib.contextmanager
def _using(environments: Environments, kept: Kept | None) -> Iterator[Servers]:
    import fcntl  # not on every system

    names: dict[str, str] = {}
    found, place = COLD, None
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError):
            place = stack.enter_context(_place())
            fcntl.flock(place.number, fcntl.LOCK_SH)   # no server loads meanwhile (see server/_warm_own.py)
            names = {kind: f"{_key(kind, env)}.{kind}" for kind, env in environments.items()}
            there = {kind: str(place.path / name) for kind, name in names.items() if place.has(name)}
            found = Servers(**there)
        token = FOUND.set(found)
        try:
            yield found
        finally:
            FOUND.reset(token)
            if place is not None:
                fcntl.flock(place.number, fcntl.LOCK_UN)
                for kind, name in names.items():
                    with contextlib.suppress(OSError):
                        _start(place, kind, name, environments[kind], kept)


class Place:
    """The folder of the sockets, opened: it is this user's, and nobody else enters it."""

    def __init__(self, path: Path, number: int) -> None:
        self.path, self.number = path, number

    def has(self, name: str) -> bool:
        with contextlib.suppress(OSError):
            return stat.S_ISSOCK(os.stat(name, dir_fd=self.number, follow_symlinks=False).st_mode)
        return False


@contextlib.contextmanager
def _place() -> Iterator[Place]:
    """OSError where there can be none. It is removed by who leaves it empty."""
    path = _base()
    with contextlib.suppress(FileExistsError):
        path.mkdir(0o700)
    number = _open(path)
    try:
        yield Place(path, number)
    finally:
        os.close(number)
        with contextlib.suppress(OSError):
            path.rmdir()


def _base() -> Path:
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    if runtime:
        with contextlib.suppress(OSError):
            os.close(_open(Path(runtime)))
            return Path(runtime).resolve() / "autograder"
    return Path(tempfile.gettempdir()).resolve() / f"autograder-user-{os.getuid()}"


def _open(path: Path) -> int:
    """The folder; PermissionError where it is not this user's alone."""
    number = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    status = os.fstat(number)
    if status.st_uid != os.getuid() or stat.S_IMODE(status.st_mode) & 0o077:
        os.close(number)
        raise PermissionError(f"{path} is open to others")
    return number


def start_environment(kind: str, env: Mapping[str, str]) -> dict[str, str]:
    """What of `env` has a part in how Python starts, and torch is loaded: what the server is started with.

    The cells of a notebook run with a home of their own.
    """
    kept = {name: value for name, value in env.items()
            if name == "HOME" or any(fnmatchcase(name, pattern) for pattern in state.AT_START)}
    return kept | ({"HOME": os.devnull} if kind == "notebook" else {}) | {"PATH": os.defpath}


def _key(kind: str, env: Mapping[str, str]) -> str:
    """A digest of all that a process started here would have in common with one that the server forks: the
    text of this package, the packages installed, Python, limits, rights, namespaces, what is read at start.
    """
    import resource

    package = str(Path(autograder.__file__).parent)
    limits = [resource.getrlimit(getattr(resource, name)) for name in sorted(dir(resource))
              if name.startswith("RLIMIT_")]
    spaces = [os.readlink(f"/proc/self/ns/{name}") for name in ("mnt", "pid", "net", "ipc", "uts", "user")]
    facts = [
        kind, package, state.of(package, sys.path), sys.executable, sys.prefix, sys.version, limits, spaces,
        os.getuid(), os.getgid(), sorted(os.getgroups()), os.getpriority(os.PRIO_PROCESS, 0),
        sorted(os.sched_getaffinity(0)), os.environ.get("SLURM_JOB_ID"), start_environment(kind, env),
    ]  # fmt: skip
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:24]


def _start(place: Place, kind: str, name: str, env: Mapping[str, str], kept: Kept | None) -> None:
    """Start this server in the background, unless it is there, or another process starts it."""
    lock = _only(place, name + LOCK)
    if lock is None:
        return
    try:
        _clear(place, but=name + LOCK)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name, dir_fd=place.number)   # of one that was killed
        idle = os.environ.get(IDLE_VARIABLE, "")
        with contextlib.suppress(ValueError):
            idle = str(float(idle))
        lifeline = -1 if kept is None else kept.lifeline
        passed = (place.number, lock, *([] if kept is None else [lifeline]))
        arguments = ["-1", str(lifeline), kind, str(place.number), str(lock), name, idle or str(IDLE_S),
                     str(Path(autograder.__file__).parent)]
        process = subprocess.Popen(
            [sys.executable, str(SERVER), *arguments], env=start_environment(kind, env), cwd=place.path,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, pass_fds=passed,
            start_new_session=True)
        if kept is None:
            process.wait()   # it goes on in another one: see server/_warm_own.py
        else:
            kept.processes.append(process)
    finally:
        os.close(lock)


def _only(place: Place, name: str) -> int | None:
    """The file of this name, locked; None if a living server has it, or one died a moment ago."""
    import fcntl

    number = os.open(name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600, dir_fd=place.number)
    try:
        fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
        status = os.fstat(number)
        same = os.stat(name, dir_fd=place.number).st_ino == status.st_ino   # not one that was just removed
        if same and (status.st_size == 0 or time.time() > status.st_mtime + AGAIN_S):
            return number
    except OSError:
        pass
    os.close(number)
    return None


def _clear(place: Place, but: str = "") -> None:
    """Remove what servers that were killed have left."""
    import fcntl

    for name in os.listdir(place.number):
        if not name.endswith(LOCK) or name == but:
            continue
        with contextlib.suppress(OSError):
            number = os.open(name, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=place.number)
            try:
                fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
                for left in (name.removesuffix(LOCK), name):
                    with contextlib.suppress(FileNotFoundError):
                        os.unlink(left, dir_fd=place.number)
            finally:
                os.close(number)
