"""Run a `labo.py` with its ranks, and bring back what happened.

    from autograder import launch
    run = launch("labo.py")

The package is itself the function (`launch(...)`); `run_request` launches a Request as it is, every time.
"""

from __future__ import annotations

import dataclasses
import os
import shutil
import sys
import types
from collections.abc import Iterable, Mapping
from pathlib import Path

from autograder.launch.engine import run_request
from autograder.launch.run import Delay, Request, Run
from autograder.leftovers import scratch

__all__ = ["Delay", "Request", "Run", "launch", "run_request"]


def launch(
    script: str | os.PathLike[str] = "labo.py",
    *,
    nproc: int | None = None,
    nnodes: int = 1,
    launcher: bool = True,
    env: Mapping[str, object] | None = None,
    time_limit_s: float | None = None,
    delays: Iterable[Delay] = (),
    detail: bool = False,
    alone: bool = False,
    gpus: int | None = None,
) -> Run:
    """Launch `script` with `nproc` ranks on each of `nnodes` agents of this machine, and return its Run.

    Ranks and time limit default to the course's (course.yaml, found upwards from here or named by
    AUTOGRADER_COURSE), else 2 ranks and 60 s. `launcher=False` is `python3 labo.py`. `alone`: in a folder
    that holds nothing but the script, for one of several that stand side by side. `{fresh}` in a value of
    `env` is replaced by an empty folder of this launch. `gpus`: the ranks believe to see that many GPUs,
    which are simulated (0: none, even where there are some). The same script with the same settings is
    launched once per process. Prints nothing; nothing that the script does raises here.
    """
    from autograder.launch import store

    path = Path(script).absolute()
    request = _defaults(Request(
        script=path.name, nnodes=nnodes, launcher=launcher, delays=tuple(delays), detail=detail, gpus=gpus,
        env={name: str(value) for name, value in (env or {}).items()},
    ))
    if nproc is not None:
        request = dataclasses.replace(request, nproc=nproc)
    if time_limit_s is not None:
        request = dataclasses.replace(request, time_limit_s=float(time_limit_s))
    if not alone:
        return store.get_or_run(request, path.parent, _run)
    with scratch() as folder:
        if path.is_file():
            shutil.copyfile(path, folder / path.name)
        return store.get_or_run(request, folder, _run)


def _run(request: Request, folder: Path) -> Run:
    """In a notebook, from a warm server of this user's: there from the second launch on."""
    from autograder.launch import command
    from autograder.launch.warm import own

    if not own.in_kernel():
        return run_request(request, folder)
    with own.using({"launch": command.base_environment()}):
        return run_request(request, folder)


def _defaults(request: Request) -> Request:
    """The course's launch settings, where there is a course."""
    from autograder import course

    named = os.environ.get("AUTOGRADER_COURSE")
    if not named and course.find_root() is None:
        return request   # a student's folder
    settings = course.load(named or None).launch
    return dataclasses.replace(
        request, nproc=settings.nproc, time_limit_s=float(settings.time_limit_s),
        output_limit_bytes=settings.output_limit_kib * 1024)


class _Callable(types.ModuleType):
    """Makes `from autograder import launch; launch("labo.py")` work, the package being the function."""

    __call__ = staticmethod(launch)


sys.modules[__name__].__class__ = _Callable
