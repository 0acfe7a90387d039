"""The fragments that name a cause, in the order in which they are tried. Texts stand in messages_fr.toml.

Classes: P primary (the cause), S secondary (a victim's message: only when no P stands on any rank),
I infrastructure (no mark is lost), N noise (nothing is wrong with the script), - not a fault.
"""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Rule:
    id: str
    cls: str
    pattern: re.Pattern[str]
    printed: bool = False   # looked for in stdout too: the course's scripts may print it


def _rule(id: str, cls: str, pattern: str, printed: bool = False) -> Rule:
    return Rule(id, cls, re.compile(pattern), printed)


# Only what the launcher cannot ask the machine by itself: for the rest (`LAUNCHER_SAYS`) its word counts, not
# the script's, which could print anything to be called a victim.
INFRASTRUCTURE = (
    _rule("ifname", "I", r"Unable to find address for:|Unable to find interface for:"),
    _rule("fullmesh", "I", r"Gloo connectFullMesh failed"),
    _rule("libuv", "I", r"use_libuv was requested but PyTorch was build without libuv support"),
)
LAUNCHER_SAYS = ("port", "hostname", "no-torch", "disk", "too-slow", "left-early")
IFNAME_IN_SOURCE = re.compile(r"GLOO_SOCKET_IFNAME")

PORT = re.compile(r"EADDRINUSE|[Aa]ddress already in use")
PORT_IN_SOURCE = re.compile(r"tcp://[^\s\"']*:\d+|MASTER_PORT[\"']\]?\s*[,=:)]|MASTER_PORT[\"'],|TCPStore\(")

PRIMARY = (
    _rule("wrong-world", "P", r"Ce laboratoire attend WORLD_SIZE=2\.", printed=True),
    _rule("nccl-no-gpu", "P", (
        r"MCI_BACKEND=nccl demande un GPU visible\.|Distributed package doesn't have NCCL built in|"
        r"no GPUs found!|ProcessGroupNCCL is only supported with GPUs"
    ), printed=True),
    _rule("no-launcher", "P", (
        r"environment variable (?:RANK|WORLD_SIZE|MASTER_ADDR|MASTER_PORT) expected, but not set"
    )),
    _rule("world-size", "P", (
        r"DistStoreError: (?:wait timeout after|Timed out after \d+ seconds waiting for clients)"
    )),
    _rule("init-twice", "P", r"trying to initialize the default process group twice!"),
    _rule("no-init", "P", r"Default process group has not been initialized"),
    _rule("duplicate-gpu", "P", r"Duplicate GPU detected"),
    _rule("cuda-event-cpu", "P", r"Tried to instantiate dummy base class Event"),
    _rule("ddp-device-ids", "P", r"device_ids.{0,200}(?:CPU|cpu|single-device|GPU)"),
    _rule("non-tensor", "P", r"Expected parameter `\w+` of type (?:torch\.Tensor|List\[torch\.Tensor\])"),
    _rule("ddp-unused", "P", r"Expected to have finished reduction in the prior iteration"),
    _rule("numpy", "P", r"Numpy is not available"),
    _rule("stdin", "P", r"EOFError: EOF when reading a line"),
    _rule("stdout-enc", "P", r"UnicodeEncodeError: '(?:ascii|charmap|latin-1)' codec"),
    _rule("shadow", "P", (
        r"'torch' is not a package|"
        r"partially initialized module '(?:torch|numpy|random|json|time|datetime|logging|copy|types|typing|"
        r"socket|signal|queue|string|statistics)'|"
        r"consider renaming '[^'\n]+' since it has the same name as the"
    )),
    _rule("missing-module", "P", r"ModuleNotFoundError: No module named '(?P<module>[^'\n]+)'"),
)

# What torch says under TORCH_DISTRIBUTED_DEBUG=DETAIL, which names the culprit.
DETAIL_MISMATCH = re.compile(r"Detected mismatch between collectives")
DETAIL_ABSENT = re.compile(r"Rank (?P<rank>\d+) failed to pass monitoredBarrier")

# The plain message of gloo when the ranks' tensors do not have the same size.
PREAMBLE = re.compile(r"op\.preamble\.length <= op\.nbytes")

SECONDARY = (
    _rule("timed-out", "S", r"Timed out waiting (?P<ms>\d+)ms"),
    # gloo says "Read error […]: Connection reset by peer": before the read errors of what was closed.
    _rule("reset", "S", r"Connection reset by peer"),
    _rule("closed", "S", (
        r"Connection closed by peer|Application timeout caused pair closure|Read error|Broken pipe|"
        r"Connection was likely closed|recvValue failed|sendBytes failed"
    )),
)

AT_EXIT = re.compile(r"terminate called without an active exception")

# Concluded from the record, the exit codes or the test's expectations: no fragment of their own.
CONCLUDED = (
    "missing-file", "syntax", "seconds-not-ms", "exception", "unfilled", "shape", "size", "dtype",
    "order", "missing-rank", "killed", "crash", "silent-hang", "init-hang", "exit-abort", "exit-hang",
    "early-exit", "no-backward", "hard-coded", "not-divided", "divided-twice", "inputs-ignored", "slow-step",
    "too-much-output", "async", "unfinished", "unknown", "infra", *LAUNCHER_SAYS,
)


def ids() -> list[str]:
    """Every id that a diagnosis can have."""
    rules = [*INFRASTRUCTURE, *PRIMARY, *SECONDARY]
    return sorted({*(rule.id for rule in rules), *CONCLUDED})
