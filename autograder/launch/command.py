"""What is executed for one launch, and in which environment.

The rendezvous is the course's own (static, MASTER_ADDR:MASTER_PORT), so that a script which works at the
student's desk works here. Pure functions, but for `free_port` and `seal`.
"""

from __future__ import annotations

import ast
import fnmatch
import os
import re
import secrets
import shlex
import socket
import struct
import sys
from collections.abc import Mapping
from pathlib import Path

from autograder.launch.run import Request

COURSE_PORT = 29531
CONNECT_LIMIT_S = 2.0  # between two machines of one cluster
ADDRESS = "127.0.0.1"
RECORDER = Path(__file__).parent / "recorder"
# How the paths of what is ours in a rank end, in a traceback: the recorder, and what a warm server runs.
RECORDER_FILE = (
    r"(?:recorder[/\\](?:sitecustomize|_autograder_\w+)|warm[/\\]server[/\\]\w+|launch[/\\]supervisor)\.py")
FRESH = "{fresh}"   # in a variable's value: a folder of this launch alone
MARKER = "AUTOGRADER_LAUNCH"   # in the environment of every process of a launch: how to find them all

# Seconds that torchrun leaves a rank between SIGTERM and SIGKILL (its default is 30).
SHUTDOWN_S = 3

# What a launch must not inherit: another launch's settings, a notebook's or a grader's, and our own secrets.
INHERITED = (
    "RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK", "GROUP_WORLD_SIZE", "ROLE_*",
    "MASTER_*", "MCI_*", "RALENTI", "RANG_LENT", "PAS", "STRATEGIE", "DIST_INIT", "TORCH*", "PET_*",
    "SLURM_*", "GLOO_*", "AUTOGRADER_*", "OMP_NUM_THREADS", "PYTHONSTARTUP", "PYTHONWARNINGS",
    "PYTHONOPTIMIZE", "PYTHONINSPECT", "PYTHONUNBUFFERED", "PYTHONIOENCODING", "PYTHONSAFEPATH",
    "PYTHONDEVMODE", "PYTHONNOUSERSITE", "PYTHONBREAKPOINT", "MPLBACKEND", "JPY_*", "COLUMNS", "LINES",
    "FORCE_COLOR",
)


def environment(
    request: Request,
    *,
    marker: str,
    record: Path,
    epoch: float,
    inherited: Mapping[str, str] | None = None,
    platform: str = sys.platform,
) -> dict[str, str]:
    """The environment of the launch: the inherited one cleaned, ours, then what the request asks for."""
    env = base_environment(inherited, platform) | {
        MARKER: marker,
        "AUTOGRADER_RECORD": str(record),
        "AUTOGRADER_EPOCH": repr(epoch),
        "AUTOGRADER_SEAL": str(seal(record)),
    }
    if request.detail:
        env["TORCH_DISTRIBUTED_DEBUG"] = "DETAIL"
    if request.delays:
        env["AUTOGRADER_DELAYS"] = ";".join(
            f"{delay.rank}:{delay.seconds!r}:{delay.op}:{_or_empty(delay.numel)}:{_or_empty(delay.nth)}"
            for delay in request.delays
        )
    if not request.launcher:
        env["AUTOGRADER_PLAIN"] = "1"
    if request.gpus is not None:   # simulated, whatever this machine has
        env.pop("CUDA_VISIBLE_DEVICES", None)
        env |= {"AUTOGRADER_GPUS": str(request.gpus)} if request.gpus else {"CUDA_VISIBLE_DEVICES": ""}
    # Always `file://{fresh}/name`: a POSIX path from its root, on Windows too (`/C:/…`).
    own = "/" + fresh(record).as_posix().lstrip("/")
    return env | {name: value.replace(FRESH, own) for name, value in request.env.items()}


def base_environment(
    inherited: Mapping[str, str] | None = None, platform: str = sys.platform
) -> dict[str, str]:  # fmt: skip
    """What all launches have in common: the inherited environment cleaned, and ours."""
    source = os.environ if inherited is None else inherited
    env = {name: value for name, value in source.items() if not left_by_others(name)}
    env |= {
        "OMP_NUM_THREADS": "1",
        "PYTHONUTF8": "1",
        "PYTHONFAULTHANDLER": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONPATH": os.pathsep.join([str(RECORDER), *filter(None, [source.get("PYTHONPATH")])]),
        "TORCH_FR_BUFFER_SIZE": "1000",
    }
    return env | ({"GLOO_SOCKET_IFNAME": "lo"} if platform.startswith("linux") else {})


_SEALS: dict[Path, int] = {}   # of the last launches of this process, by their record's folder
_MOST_SEALS = 64
_SEAL_BITS = 8 * struct.calcsize("l") - 1   # what _imp.source_hash takes: a C long


def seal(record: Path) -> int:
    """The secret that seals the marks of this launch: drawn here, known to this process and, through the
    environment, to the launch's own.
    """
    while len(_SEALS) >= _MOST_SEALS:
        del _SEALS[next(iter(_SEALS))]
    _SEALS[record] = secrets.randbits(_SEAL_BITS)
    return _SEALS[record]


def seal_of(record: Path) -> int | None:
    """The secret of a launch that this process made; None for a record that comes from elsewhere."""
    return _SEALS.get(record)


def fresh(record: Path) -> Path:
    """The folder that stands for `{fresh}`, beside what the recorder writes."""
    return record.with_name("fresh")


def left_by_others(name: str) -> bool:
    """Whether another launch, a notebook or a grader put this variable here: a launch must not see it."""
    return any(fnmatch.fnmatchcase(name.upper(), pattern) for pattern in INHERITED)


def _or_empty(value: int | None) -> str:
    return "" if value is None else str(value)


def per_rank_logs(platform: str = sys.platform) -> bool:
    """Whether torchrun gives each rank its own files here (it does not on Windows and macOS)."""
    return platform not in ("win32", "darwin")


def commands(
    request: Request,
    *,
    port: int,
    run_id: str,
    logs: Path,
    python: str = sys.executable,
    platform: str = sys.platform,
) -> list[list[str]]:
    """One command per agent; without launcher, the script alone.

    Agent k writes under logs/agent<k>. `-P` keeps the student's folder off the agent's own path, as the
    torchrun program does: a stray random.py must not break the launcher.
    """
    if not request.launcher:
        return [[python, request.script]]
    out = []
    for node in range(request.nnodes):
        command = [
            python, "-P", "-m", "torch.distributed.run",
            "--nnodes", str(request.nnodes), "--node-rank", str(node), "--nproc-per-node", str(request.nproc),
            "--master-addr", ADDRESS, "--master-port", str(port), "--rdzv-id", run_id,
            "--max-restarts", "0", "--shutdown-timeout", str(SHUTDOWN_S),
        ]
        if per_rank_logs(platform):
            command += ["--redirects", "3", "--log-dir", str(logs / f"agent{node}")]
        out.append([*command, request.script])
    return out


def as_typed(request: Request) -> str:
    """The same launch as a student would type it."""
    shown = {name: value.replace(FRESH, "/dossier-vide") for name, value in request.env.items()}
    env = "".join(f"{name}={shlex.quote(value)} " for name, value in shown.items())
    script = shlex.quote(request.script)
    if not request.launcher:
        return f"{env}python3 {script}"
    ranks, end = f"--nproc_per_node={request.nproc}", f"--master_port={COURSE_PORT} {script}"
    if request.nnodes == 1:
        return f"{env}torchrun {ranks} {end}"
    return " & ".join(
        f"{env}torchrun --nnodes={request.nnodes} --node_rank={node} {ranks} --master_addr={ADDRESS} {end}"
        for node in range(request.nnodes)
    )


def free_port() -> int:
    """A TCP port that nobody listens on at this moment."""
    with socket.socket() as probe:
        probe.bind((ADDRESS, 0))
        return int(probe.getsockname()[1])


def busy(port: int) -> bool:
    """Whether somebody listens on this port of this machine."""
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex((ADDRESS, port)) == 0


def answers(address: str, port: str) -> bool:
    """Whether some program listens there, on this machine or on another one of its cluster."""
    if not address or not port.isdecimal():
        return False
    try:
        socket.create_connection((address, int(port)), timeout=CONNECT_LIMIT_S).close()
    except (OSError, OverflowError):
        return False
    return True


def fixed_port(source: str) -> int | None:
    """The rendezvous port that a script writes by hand (`tcp://…:29531`, `os.environ["MASTER_PORT"] = …`).

    Such a script works only when the launcher uses that very port. Comments, docstrings and defaults
    (`os.environ.get("MASTER_PORT", "29500")`) do not count: the launcher's variables win over these.
    """
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    wanted = False
    ports: list[int] = []   # constants that look like ports, for `f"tcp://127.0.0.1:{PORT}"`
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and any(map(_is_master_port, node.targets)):
            found = re.search(r"\d{3,5}", ast.unparse(node.value))
            if found:
                return int(found[0])
            wanted = wanted or isinstance(node.value, ast.Name | ast.Call | ast.JoinedStr)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and "\n" not in node.value:
            found = re.search(r"tcp://[^\s/]*?:(\d{3,5})\b", node.value)
            if found:
                return int(found[1])
            wanted = wanted or node.value.startswith("tcp://")
        if isinstance(node, ast.Constant) and re.fullmatch(r"\d{4,5}", str(node.value)):
            ports.append(int(str(node.value)))
    likely = [port for port in ports if 1024 <= port <= 65535]
    return likely[0] if wanted and likely else None


def _is_master_port(target: ast.expr) -> bool:
    return (
        isinstance(target, ast.Subscript)
        and isinstance(target.slice, ast.Constant)
        and target.slice.value == "MASTER_PORT"
    )
