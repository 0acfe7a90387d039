"""Be, in a process forked from the server, what executing a command would have given.

`become` never returns. Whatever it cannot do as exec would (a file that shadows a module, a variable that
torch read as it was loaded, a script that does not compile), exec does: same process, same result, but later.
"""

# ruff: noqa: SIM105
from __future__ import annotations

import fnmatch
import os
import signal
import sys

from _warm_parts import state  # type: ignore[import-not-found]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn

    from _warm_modules import Modules  # type: ignore[import-not-found]

# A command that has another value of one of these than the server had is executed.
AT_START = state.AT_START
AGENTS = ("TORCHELASTIC_*", "TORCH_NCCL_*")   # which torchrun gives to each rank, and only that rank reads
NO_GPU = ("CUDA_VISIBLE_DEVICES",)   # of no matter where there is no GPU
# Of no matter to modules of ours, whose text is UTF-8 and whose path is the server's.
PLACE = ("LANG", "LC_*", "PYTHONPATH")
TORCHRUN = ["-P", "-m", "torch.distributed.run"]


class Fresh:
    """What the server had before it loaded anything, for those that it forks."""

    def __init__(
        self, modules: Modules, path: list[str], recorder: dict[str, tuple[Any, Any]],
        environment: dict[str, str],
    ) -> None:
        self.modules, self.path = modules, path
        self.recorder = recorder   # name -> module, its code
        self.environment = environment
        self.entries = {name.partition(".")[0] for name in modules.kept} | set(sys.stdlib_module_names)
        # What runs each kind of command, set once it is loaded.
        self.agent: Callable[..., NoReturn]
        self.script: Callable[..., NoReturn]
        self.module: Callable[..., NoReturn]
        self.threads = self.descriptors = 0   # of the server, when it forked
        self.but = () if any(name.startswith("nvidia") for name in os.listdir("/dev")) else NO_GPU


def execute(command: list[str], env: dict[str, str]) -> NoReturn:
    """As ever."""
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)   # as Popen does
    try:
        os.execve(command[0], command, env)
    except OSError as error:
        os.write(2, f"{command[0]}: {error.strerror}\n".encode())
    os._exit(127)


def become(fresh: Fresh, command: list[str], env: dict[str, str]) -> NoReturn:
    """The command, in this folder, with these standard streams."""
    module = command[1:3] == ["-P", "-m"] and command[1:4] != TORCHRUN
    if command[0] != sys.executable or _started_otherwise(fresh, env, PLACE if module else ()):
        execute(command, env)
    if module:
        if _shadows(fresh) or command[3] not in fresh.modules.kept:
            execute(command, env)
        fresh.module(fresh, command, env)
    if command[1:4] == TORCHRUN:
        fresh.agent(fresh, command, env)
    script = command[2:] if command[1] == "-u" else command[1:]
    if len(script) != 1 or script[0].startswith("-") or _shadows(fresh):
        execute(command, env)
    fresh.script(fresh, command, env, script[0])


def _started_otherwise(fresh: Fresh, env: dict[str, str], but: tuple[str, ...]) -> bool:
    server = fresh.environment
    names = {name for name in (*server, *env) if server.get(name) != env.get(name)}
    return any(_one_of(name, AT_START) and not _one_of(name, (*AGENTS, *fresh.but, *but)) for name in names)


def _one_of(name: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


def _shadows(fresh: Fresh) -> bool:
    """Whether a file here would be imported in place of a module that the server has loaded."""
    try:
        names = os.listdir()
    except OSError:
        return True
    return any(name.partition(".")[0] in fresh.entries for name in names)


def set_environment(env: dict[str, str]) -> None:
    if dict(os.environ) != env:
        os.environ.clear()
        os.environ.update(env)


def redirect(stdin: int | None, stdout: int, stderr: int) -> None:
    """Our standard streams; every other descriptor is closed."""
    if stdin is None:
        stdin = os.open(os.devnull, os.O_RDONLY)
    moved = [os.dup(one) for one in (stdin, stdout, stderr)]   # one may be among 0, 1, 2 itself
    for number, one in enumerate(moved):
        os.dup2(one, number)
    keep_only(2)


def keep_only(last: int, *others: int) -> None:
    start = last + 1
    for other in sorted(others):
        os.closerange(start, other)
        start = other + 1
    os.closerange(start, os.sysconf("SC_OPEN_MAX"))


def signals() -> None:
    """As a fresh Python has them."""
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGTERM, signal.SIGCHLD, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])


def finish(code: int) -> NoReturn:
    """As Python ends, but that nothing is taken apart: the system does that."""
    threading, atexit = sys.modules.get("threading"), sys.modules.get("atexit")
    try:
        if threading is not None:
            threading._shutdown()
    except BaseException as error:
        sys.unraisablehook(_Unraisable(error))   # type: ignore[arg-type]
    if atexit is not None:
        try:
            atexit._run_exitfuncs()
        except BaseException:
            pass
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except Exception:
            code = code or 120 if stream is sys.stdout else code
    os._exit(code & 0xFF)


class _Unraisable:
    def __init__(self, error: BaseException) -> None:
        self.exc_type, self.exc_value, self.exc_traceback = type(error), error, error.__traceback__
        self.err_msg, self.object = None, None


def ended_by(error: BaseException, own: int) -> int:
    """The exit code that Python gives to what came up to the top, once it is told; `own` frames are ours."""
    trace = error.__traceback__
    for _ in range(own):
        trace = trace.tb_next if trace is not None else None
    if isinstance(error, SystemExit):
        if error.code is None:
            return 0
        if isinstance(error.code, int):
            return error.code
        try:
            print(error.code, file=sys.stderr)
        except Exception:
            pass
        return 1
    try:
        sys.excepthook(type(error), error.with_traceback(trace), trace)
    except BaseException as other:
        sys.__excepthook__(type(other), other, other.__traceback__)
    if isinstance(error, KeyboardInterrupt):
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    return 1
