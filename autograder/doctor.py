"""`autograder doctor`: is this machine ready to launch two processes, and if not, what is there to do?

Each check is one small function that returns a `Finding`; torch is asked in a process of its own, so that a
broken installation is a finding and not a crash.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autograder.course import CourseError, find_root, load
from autograder.launch import box, command
from autograder.launch.warm import client as warm
from autograder.messages import number, plural, text

if TYPE_CHECKING:
    from autograder.verdict.slurm import SlurmFinding

SCHEMA = 1
MINIMUM_PYTHON = (3, 11)
MINIMUM_TORCH = (2, 13)  # the oldest release that the course's tests have run on
MINIMUM_DISK_GIB = 0.5
MINIMUM_MEMORY_GIB = 1.5  # two ranks hold about 0.3 GiB each, the launcher as much
TORCH_LIMIT_S = 120.0  # a first import from a cold network disk is slow
LAUNCH_LIMIT_S = 120.0

# Modules that a file of the same name in the current folder hides from every rank.
_SHADOWED = ("torch", "numpy", "random", "json", "socket", "signal", "time", "types", "logging", "queue")

_ASK_TORCH = """
import json, sys
try:
    import torch, torch.distributed as dist
except Exception as error:
    print(json.dumps({"error": f"{type(error).__name__}: {error}"}))
    sys.exit()
found = {"version": torch.__version__, "gloo": dist.is_available() and dist.is_gloo_available()}
found["gpus"] = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
print(json.dumps(found))
"""

# It exchanges one value and gives no exercise away.
_TRIAL = """import torch
import torch.distributed as dist

dist.init_process_group("gloo")
value = torch.full((4,), float(dist.get_rank() + 7))
dist.broadcast(value, src=0)
print(f"doctor {dist.get_rank()} {value.sum().item():.0f}", flush=True)
dist.destroy_process_group()
"""


@dataclass(frozen=True)
class Finding:
    """One check: `status` is "ok", "warn" (launching is still possible) or "fail"; the texts are French."""

    id: str
    status: str
    title: str
    found: str
    advice: str = ""


def examine(*, launch: bool = True, folder: Path | None = None) -> Iterator[Finding]:
    """Every finding, in the order in which the next ones depend on it; the trial launch comes last."""
    folder = folder or Path.cwd()
    yield check_python(sys.version_info[:2])
    torch = ask_torch()
    yield from check_torch(torch)
    yield check_numpy()
    yield check_torchrun()
    yield check_port(command.COURSE_PORT)
    yield check_hostname(socket.gethostname())
    yield check_gpu(torch)
    yield check_disk(folder)
    yield check_memory()
    yield check_files(folder)
    yield from check_course(folder)
    yield check_versions()
    yield from check_slurm(os.environ)
    yield from check_sandbox(folder)
    if launch and "error" not in torch:
        yield check_launch()


def check_python(version: Sequence[int]) -> Finding:
    found = text("doctor.python.found", version=platform.python_version(), executable=sys.executable)
    if tuple(version) >= MINIMUM_PYTHON:
        return _finding("python", "ok", found)
    return _finding("python", "fail", found, minimum=".".join(map(str, MINIMUM_PYTHON)))


def ask_torch(executable: str = sys.executable) -> dict[str, Any]:
    """What torch says of itself: version, gloo, gpus; or {"error": why it cannot be imported}."""
    # Not from the current folder, whose torch.py would answer; check_files speaks of that one.
    asked = [executable, "-P", "-c", _ASK_TORCH]
    try:
        answer = subprocess.run(
            asked, capture_output=True, text=True, timeout=TORCH_LIMIT_S, encoding="utf-8",
            errors="replace", stdin=subprocess.DEVNULL,
        )  # fmt: skip
        found = json.loads(answer.stdout.strip().splitlines()[-1])
    except subprocess.TimeoutExpired:
        return {"error": f"import torch: > {TORCH_LIMIT_S:.0f} s"}
    except (OSError, ValueError, IndexError) as error:
        return {"error": f"{type(error).__name__}: {error}"}
    return dict(found)


def check_torch(torch: dict[str, Any]) -> Iterator[Finding]:
    if "error" in torch:
        yield _finding("torch", "fail", text("doctor.torch.missing", error=torch["error"]))
        return
    version = str(torch["version"])
    found = text("doctor.torch.found", version=version)
    numbers = tuple(int(part) for part in version.split("+")[0].split(".")[:2] if part.isdigit())
    if numbers < MINIMUM_TORCH:
        minimum = ".".join(map(str, MINIMUM_TORCH))
        advice = text("doctor.torch.old", minimum=minimum)
        yield Finding("torch", "warn", text("doctor.torch.title"), found, advice)
    else:
        yield _finding("torch", "ok", found)
    gloo = text("doctor.gloo.found" if torch["gloo"] else "doctor.gloo.missing")
    yield _finding("gloo", "ok" if torch["gloo"] else "fail", gloo)


def check_numpy() -> Finding:
    if version := _version("numpy"):
        return _finding("numpy", "ok", text("doctor.numpy.found", version=version))
    return _finding("numpy", "warn", text("doctor.numpy.missing"))


def check_torchrun() -> Finding:
    path = shutil.which("torchrun")
    if path is None:
        return _finding("torchrun", "warn", text("doctor.torchrun.missing"))
    # A torchrun of another environment starts ranks without this one's torch.
    if Path(path).parent.resolve() != Path(sys.executable).parent.resolve():
        return _finding("torchrun", "warn", text("doctor.torchrun.other", path=path))
    return _finding("torchrun", "ok", text("doctor.torchrun.found", path=path))


def check_port(port: int) -> Finding:
    title = text("doctor.port.title", port=port)
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        if os.name == "posix":  # a port that a launch has just left is free for the next one
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return Finding("port", "warn", title, text("doctor.port.busy"), text("doctor.port.advice"))
    return Finding("port", "ok", title, text("doctor.port.found"))


def check_hostname(name: str) -> Finding:
    try:
        address = socket.getaddrinfo(name, None)[0][4][0]
    except OSError:
        return _finding("hostname", "warn", text("doctor.hostname.missing", name=name), name=name)
    return _finding("hostname", "ok", text("doctor.hostname.found", name=name, address=address))


def check_gpu(torch: dict[str, Any]) -> Finding:
    names = torch.get("gpus", [])
    if not names:  # a remark, not a fault: the course runs on CPU
        return _finding("gpu", "ok", text("doctor.gpu.missing"))
    found = text("doctor.gpu.found", count=len(names), s=plural(len(names)), names=", ".join(names))
    return _finding("gpu", "ok", found)


def check_disk(folder: Path) -> Finding:
    for place in (folder, Path(tempfile.gettempdir())):
        try:
            tempfile.NamedTemporaryFile(dir=place).close()
        except OSError as error:
            return _finding("disk", "fail", text("doctor.disk.readonly", folder=place, error=error.strerror))
        free = shutil.disk_usage(place).free / 2**30
        if free < MINIMUM_DISK_GIB:
            return _finding("disk", "fail", text("doctor.disk.missing", free=number(free, 1), folder=place))
    free = shutil.disk_usage(folder).free / 2**30
    return _finding("disk", "ok", text("doctor.disk.found", free=number(free, 1), folder=folder))


def check_memory() -> Finding:
    import psutil

    free = psutil.virtual_memory().available / 2**30
    if free < MINIMUM_MEMORY_GIB:
        return _finding("memory", "warn", text("doctor.memory.missing", free=number(free, 1)))
    return _finding("memory", "ok", text("doctor.memory.found", free=number(free, 1)))


def check_files(folder: Path) -> Finding:
    hiding = [f"{name}.py" for name in _SHADOWED if (folder / f"{name}.py").is_file()]
    if hiding:
        return _finding("files", "fail", text("doctor.files.missing", names=", ".join(hiding)))
    return _finding("files", "ok", text("doctor.files.found"))


def check_course(folder: Path) -> Iterator[Finding]:
    """Inside a course's folder: what every other command reads first. Nothing elsewhere."""
    if (root := find_root(folder)) is not None:
        try:
            load(root)
            yield _finding("course", "ok", text("doctor.course.found"))
        except CourseError as error:
            first = str(error).splitlines()[0]
            yield _finding("course", "fail", text("doctor.course.missing", error=first))


def check_versions() -> Finding:
    names = ["autograder", "ipython", "nbformat", "jupyterlab", "nbgrader"]
    there = {name: _version(name) for name in names}
    shown = ", ".join(f"{name} {version}" for name, version in there.items() if version)
    # nbgrader is the grader's: a student lacks nothing without it.
    absent = " ".join(name for name in names if there[name] is None and name != "nbgrader")
    if absent:
        missing = text("doctor.versions.missing", names=shown, absent=absent)
        return _finding("versions", "warn", missing, absent=absent)
    return _finding("versions", "ok", text("doctor.versions.found", names=shown))


def check_slurm(environ: Mapping[str, str]) -> Iterator[Finding]:
    """Inside a Slurm allocation: what its variables promise. Nothing elsewhere."""
    from autograder.verdict import slurm

    if slurm.in_allocation(environ):
        answered = command.answers(environ.get("MASTER_ADDR", ""), environ.get("MASTER_PORT", ""))
        yield from map(of_slurm, slurm.checks(environ, answered=answered))


def of_slurm(found: SlurmFinding) -> Finding:
    """A `verdict.slurm` finding as one of the doctor's."""
    title = text(f"slurm.{found.id}.title")
    return Finding(f"slurm-{found.id}", found.status, title, found.found, found.advice)


def check_sandbox(folder: Path) -> Iterator[Finding]:
    """On a grader's machine: can students' code be kept in a box, and launched fast? Nothing elsewhere."""
    root = find_root(folder)
    if root is not None and (root / "source").is_dir():
        why = box.why_not()
        found = text("doctor.sandbox.missing" if why else "doctor.sandbox.found")
        yield _finding("sandbox", "warn" if why else "ok", found, why=why)
        yield _finding("warm", "ok", text("doctor.warm.missing" if warm.why_not() else "doctor.warm.found"))


def check_launch() -> Finding:
    """A real launch of two ranks that exchange one value, by the very engine that grades."""
    from autograder.launch.engine import run_request
    from autograder.launch.run import Request
    from autograder.verdict.diagnosis import diagnose

    with tempfile.TemporaryDirectory(prefix="autograder-doctor-") as name:
        folder = Path(name)
        (folder / "labo.py").write_text(_TRIAL, encoding="utf-8")
        run = run_request(Request(time_limit_s=LAUNCH_LIMIT_S), folder)
    said = run.stdout + "".join(log.stdout for log in run.ranks)
    # The exit code is not asked: torch may abort while it leaves, after the exchange went well.
    if all(f"doctor {rank} 28" in said for rank in range(2)):
        duration = number(run.duration_s, 1)
        return _finding("launch", "ok", text("doctor.launch.found", duration=duration))
    diagnosis = diagnose(run)
    cause = run.infra or (diagnosis.message if diagnosis else "")
    cause = cause or text("doctor.launch.unknown", code=run.exit_code)
    return _finding("launch", "fail", text("doctor.launch.missing", cause=cause))


def lines(findings: Sequence[Finding]) -> str:
    """The findings as a student reads them, each with what to try."""
    marks = {"ok": "✔", "warn": "!", "fail": "✘"}
    shown = []
    for finding in findings:
        label = "" if finding.status == "ok" else f" [{text(f'doctor.{finding.status}')}]"
        shown.append(f"{marks[finding.status]} {finding.title}\u00a0: {finding.found}{label}")
        if finding.advice:
            shown.append(f"    → {finding.advice}")
    return "\n".join(shown)


def report(findings: Sequence[Finding]) -> str:
    """The findings, and one line that sums them up."""
    wrong = sum(finding.status == "fail" for finding in findings)
    remarks = sum(finding.status == "warn" for finding in findings)
    key = "not-fine" if wrong else "fine-with-remarks" if remarks else "all-fine"
    told = text(f"doctor.{key}", count=wrong or remarks, s=plural(wrong or remarks))
    return f"{lines(findings)}\n\n{told}"


def as_json(findings: Sequence[Finding]) -> dict[str, Any]:
    ready = all(finding.status != "fail" for finding in findings)
    checks = [asdict(finding) for finding in findings]
    return {"schema": SCHEMA, "ready": ready, "platform": platform.platform(), "checks": checks}


def _finding(id: str, status: str, found: str, **values: Any) -> Finding:
    advice = "" if status == "ok" else text(f"doctor.{id}.advice", **values)
    return Finding(id, status, text(f"doctor.{id}.title"), found, advice)


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None
