"""Keep Runs by what was asked for, so that identical launches are made once.

In memory for the life of the process; also as JSON files in the folder that AUTOGRADER_RUNS names, if any.
A Run that the machine spoilt (`infra`) is never kept.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path

from autograder.files import write_whole
from autograder.launch.evidence import RECORDER_SCHEMA
from autograder.launch.run import SCHEMA, Request, Run
from autograder.launch.warm.client import Used, told

_runs: dict[str, Run] = {}


def key(request: Request, folder: Path) -> str:
    """40 hex digits: the request, the script, every Python file beside it, and the schemas."""
    files = {path.name: _digest(path) for path in sorted(folder.glob("*.py")) if path.is_file()}
    files[request.script] = _digest(folder / request.script)
    wanted = dataclasses.asdict(request)
    if request.gpus is None:
        del wanted["gpus"]   # as before there were any: what was launched then is still the same launch
    asked = {
        "request": wanted, "files": files, "recorder": RECORDER_SCHEMA, "schema": SCHEMA,
    }
    text = json.dumps(asked, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:40]


def _digest(path: Path) -> str | None:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return None


def get_or_run(request: Request, folder: Path, launch: Callable[[Request, Path], Run]) -> Run:
    """The kept Run of this request, or the one that `launch` makes now."""
    name = key(request, folder)
    run = _runs.get(name) or _read(name)
    Used.ever = Used.ever or (run is not None and told().launch is not None)
    if run is None:
        run = launch(request, folder)
        if run.infra is None:
            _write(name, run)
    if run.infra is None:
        _runs[name] = run
    return run


def forget() -> None:
    """Forget the Runs in memory."""
    _runs.clear()


def _folder() -> Path | None:
    name = os.environ.get("AUTOGRADER_RUNS")
    return Path(name) if name else None


def _read(name: str) -> Run | None:
    folder = _folder()
    if folder is None:
        return None
    try:
        return Run.from_json((folder / f"{name}.json").read_text(encoding="utf-8"))
    except (OSError, ValueError, KeyError, TypeError):
        return None   # absent, or written by another version: launch again


def _write(name: str, run: Run) -> None:
    folder = _folder()
    if folder is not None:
        write_whole(folder / f"{name}.json", (run.to_json() + "\n").encode())
