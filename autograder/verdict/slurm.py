"""What goes wrong with two ranks under Slurm, read from a job's variables or from what its ranks wrote.

Pure functions: `checks` looks at an allocation before anything is launched, `read_output` at what a job
wrote. A rank under `srun` finds the others at MASTER_ADDR:MASTER_PORT, which are set by hand: most of what
goes wrong goes wrong there.
"""

from __future__ import annotations

import ipaddress
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

from autograder.messages import has, text

# Written in the course and in PyTorch's own pages: whoever copies them shares them.
COPIED_PORTS = frozenset({29500, 29531})

# No cluster has more: a damaged text that names a billion of them must not be spelt out.
MOST_HOSTS = 10_000
MOST_RANKS = 100_000
MOST_SHOWN = 16  # ranks named in one sentence

_PART = re.compile(r"[^,\[]*(?:\[[^\]]*\][^,\[]*)*")
_LABEL = re.compile(r"^ *\d+: ", re.MULTILINE)
_HEAD = re.compile(r"^job=(?P<job>\d+) noeuds=(?P<nodes>\S+) taches=(?P<tasks>\S+) ", re.MULTILINE)
_UNREACHED = re.compile(r"while trying to connect to \(([^,\s]+), (\d+)\)")
_BUSY = re.compile(r"failed to listen on any local network address\. port: (\d+),.*EADDRINUSE")
_PLACE = re.compile(r"(?<![A-Z_])RANK=(\d{1,6}) LOCAL_RANK=(\d{1,6}) WORLD_SIZE=(\d{1,6})(?!\d)")


@dataclass(frozen=True)
class SlurmFinding:
    """`status` is "ok", "warn" or "fail"; the texts are French, the cause first."""

    id: str
    status: str
    found: str
    advice: str = ""


def in_allocation(environ: Mapping[str, str]) -> bool:
    """Whether these are the variables of a Slurm job, or of a shell that `salloc` opened."""
    return "SLURM_JOB_ID" in environ


def hostnames(nodelist: str) -> list[str]:
    """The hosts that a compact list names, in its order, as `scontrol show hostnames` prints them; the first
    MOST_HOSTS.

    `gpu[01-03,7]-a,login` gives gpu01-a, gpu02-a, gpu03-a, gpu7-a, login.
    """
    names: list[str] = []
    for part in filter(None, (found.group() for found in _PART.finditer(nodelist))):
        expanded = [""]
        for piece in filter(None, re.split(r"(\[[^\]]*\])", part)):
            choices = list(islice(_range(piece[1:-1]), MOST_HOSTS)) if piece.startswith("[") else [piece]
            product = (before + choice for before in expanded for choice in choices)
            expanded = list(islice(product, MOST_HOSTS))
        names += expanded
        if len(names) >= MOST_HOSTS:
            break
    return names[:MOST_HOSTS]


def _range(inside: str) -> Iterator[str]:
    for item in inside.split(","):
        bounds = re.fullmatch(r"(\d{1,9})-(\d{1,9})", item)
        if bounds is None:
            yield item
            continue
        first, last = bounds.groups()
        for number in range(int(first), int(last) + 1):
            yield f"{number:0{len(first)}d}"


def tasks_per_node(compact: str) -> list[int]:
    """How many tasks each node runs, from SLURM_TASKS_PER_NODE: `2(x2),1` gives 2, 2, 1."""
    counts: list[int] = []
    for count, times in re.findall(r"(\d{1,6})(?:\(x(\d{1,6})\))?", compact):
        counts += [int(count)] * min(int(times or 1), MOST_HOSTS - len(counts))
    return counts


# ------------------------------------------------------------------------------------ before a launch


def checks(environ: Mapping[str, str], *, answered: bool = False) -> Iterator[SlurmFinding]:
    """What an allocation's variables promise to two ranks or more.

    `answered`: some program already listens at MASTER_ADDR:MASTER_PORT (the caller has tried).
    """
    hosts = hostnames(environ.get("SLURM_JOB_NODELIST", ""))
    if hosts:
        yield _address(environ, hosts)
    yield _port(environ, answered)
    if "SLURM_TASKS_PER_NODE" in environ:
        yield _tasks(environ)
    yield from _gpus(environ)


def _address(environ: Mapping[str, str], hosts: list[str]) -> SlurmFinding:
    address, first = environ.get("MASTER_ADDR", ""), hosts[0]
    if not address:
        return _finding("address", "ok", "unset", first=first)
    if _is_loopback(address):
        if len(hosts) == 1:
            return _finding("address", "ok", "found", address=address)
        return _finding("address", "fail", "loopback", address=address, first=first)
    if _is_ip(address) or _same_host(address, first):
        return _finding("address", "ok", "found", address=address)
    if any(_same_host(address, host) for host in hosts):
        return _finding("address", "fail", "not-first", address=address, first=first)
    if _same_host(address, environ.get("SLURM_SUBMIT_HOST", "")):
        return _finding("address", "fail", "login", address=address, first=first)
    # It may still be another name of the right machine.
    return _finding("address", "warn", "elsewhere", address=address, first=first)


def _is_ip(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _is_loopback(name: str) -> bool:
    return name == "localhost" or (_is_ip(name) and ipaddress.ip_address(name).is_loopback)


def _same_host(name: str, host: str) -> bool:
    """Also with a domain, or with the suffix of a faster network's interface (`gpu01-ib0`)."""
    name, host = name.split(".")[0], host.split(".")[0]
    return bool(host) and (name == host or name.startswith(f"{host}-"))


def _port(environ: Mapping[str, str], answered: bool) -> SlurmFinding:
    port = environ.get("MASTER_PORT", "")
    if not port:
        return _finding("port", "ok", "unset")
    if not port.isdecimal() or not 1024 <= int(port) <= 65535:
        return _finding("port", "fail", "no-port", port=port)
    if answered:
        return _finding("port", "fail", "answered", port=port)
    if int(port) in COPIED_PORTS:
        return _finding("port", "warn", "copied", port=port)
    return _finding("port", "ok", "found", port=port)


def _tasks(environ: Mapping[str, str]) -> SlurmFinding:
    counts = tasks_per_node(environ["SLURM_TASKS_PER_NODE"])
    total, shown = sum(counts), " + ".join(map(str, counts))
    if len(set(counts)) > 1:
        return _finding("tasks", "fail", "uneven", shown=shown, each=-(-total // len(counts)))
    if total == 1:
        return _finding("tasks", "warn", "alone")
    return _finding("tasks", "ok", "found", total=total, shown=shown)


def _gpus(environ: Mapping[str, str]) -> Iterator[SlurmFinding]:
    if "SLURM_GPUS_PER_TASK" in environ and "SLURM_GPU_BIND" not in environ:
        yield _finding("gpus", "warn", "one-each")
    elif environ.get("MCI_BACKEND") == "nccl" and not any(
        environ.get(name) for name in ("SLURM_JOB_GPUS", "SLURM_GPUS_ON_NODE", "CUDA_VISIBLE_DEVICES")
    ):
        yield _finding("gpus", "warn", "none")


# ------------------------------------------------------------------------------------ after a launch


def read_output(written: str) -> SlurmFinding | None:
    """The cause of a job's failure, from the file that it wrote; None when nothing known is in it."""
    said = _LABEL.sub("", written)
    head = _HEAD.search(said)
    return next(filter(None, (rule(said, head) for rule in _RULES)), None)


def _shared_port(said: str, head: re.Match[str] | None) -> SlurmFinding | None:
    busy = _BUSY.search(said)
    if not busy:
        return None
    # Rank 0 could not open the meeting point, and yet these exchanged values: with another job's ranks.
    strays = {int(rank) for rank in re.findall(r"(?:sort|moyenne|gradient) (\d{1,6})", said)}
    if strays:
        return _finding("port", "fail", "strayed", port=busy.group(1), ranks=_ranks(strays))
    return _finding("port", "fail", "busy", port=busy.group(1))


def _unreached(said: str, head: re.Match[str] | None) -> SlurmFinding | None:
    found = _UNREACHED.search(said)
    if not found:
        return None
    address, port = found.groups()
    hosts = hostnames(head["nodes"]) if head else []
    if not hosts:
        return _finding("address", "fail", "unreached", address=address, port=port)
    if _same_host(address, hosts[0]) or _is_ip(address):
        return _finding("address", "fail", "no-rank-0", address=address, port=port)
    return _finding("address", "fail", "not-of-job", address=address, first=hosts[0])


def _not_copied(said: str, head: re.Match[str] | None) -> SlurmFinding | None:
    name = re.search(r"environment variable (\w+) expected, but not set", said)
    return _finding("variables", "fail", "missing", name=name.group(1)) if name else None


def _no_gpu(said: str, head: re.Match[str] | None) -> SlurmFinding | None:
    if "invalid device ordinal" in said:
        return _finding("gpus", "fail", "ordinal")
    if "MCI_BACKEND=nccl demande un GPU visible." in said:
        return _finding("gpus", "fail", "invisible")
    return None


def _uneven(said: str, head: re.Match[str] | None) -> SlurmFinding | None:
    counts = tasks_per_node(head["tasks"]) if head else _counted(said)
    if len(set(counts)) < 2:
        return None
    each = -(-sum(counts) // len(counts))
    return _finding("tasks", "fail", "uneven", shown=" + ".join(map(str, counts)), each=each)


def _counted(said: str) -> list[int]:
    """Tasks on each node, largest first, from the ranks' own lines; nothing when some line is missing."""
    places = {int(rank): int(local) for rank, local, _ in _PLACE.findall(said)}
    worlds = {int(world) for _, _, world in _PLACE.findall(said)}
    if worlds != {len(places)}:
        return []
    holders = Counter(places.values())  # local rank k stands on as many nodes as have more than k tasks
    return [sum(count > node for count in holders.values()) for node in range(holders[0])]


def _wrong_world(said: str, head: re.Match[str] | None) -> SlurmFinding | None:
    if "Ce laboratoire attend WORLD_SIZE=2." not in said:
        return None
    worlds = sorted({world for _, _, world in _PLACE.findall(said)})
    return _finding("tasks", "fail", "not-two", total=worlds[0] if worlds else "?")


def _absent(said: str, head: re.Match[str] | None) -> SlurmFinding | None:
    """Some rank is inside a collective that another never entered."""
    entered, left, skipped = (
        {int(rank) for rank in re.findall(rf"\b{word} (\d{{1,6}})", said)}
        for word in ("entre", "sort", "saute")
    )
    worlds = [int(world) for _, _, world in _PLACE.findall(said)]
    size = sum(tasks_per_node(head["tasks"])) if head else max(worlds, default=0)
    absent = (set(range(min(size, MOST_RANKS))) | skipped) - entered
    if not (entered - left and absent):
        return None
    return _finding("hang", "fail", "absent", waiting=_ranks(entered - left), missing=_ranks(absent))


def _stopped(said: str, head: re.Match[str] | None) -> SlurmFinding | None:
    if "DUE TO TIME LIMIT" in said:
        return _finding("limit", "fail", "time")
    if re.search(r"oom[-_]kill|Out Of Memory", said):
        return _finding("limit", "fail", "memory")
    return None


# What explains the others comes first.
_RULES = (
    _shared_port,
    _unreached,
    _not_copied,
    _no_gpu,
    _uneven,
    _wrong_world,
    _absent,
    _stopped,
)


def _ranks(ranks: set[int]) -> str:
    """rang 0; rangs 0, 2"""
    shown = ", ".join(map(str, sorted(ranks)[:MOST_SHOWN])) + (", …" if len(ranks) > MOST_SHOWN else "")
    return text("slurm.ranks.one", ranks=shown) if len(ranks) == 1 else text("slurm.ranks.many", ranks=shown)


def _finding(id: str, status: str, what: str, **values: Any) -> SlurmFinding:
    """The texts of `slurm.<id>`: a case has an advice of its own, or takes the id's."""
    found = text(f"slurm.{id}.{what}", **values)
    if status == "ok":
        return SlurmFinding(id, status, found)
    own = f"slurm.{id}.{what}-advice"
    return SlurmFinding(id, status, found, text(own if has(own) else f"slurm.{id}.advice", **values))
