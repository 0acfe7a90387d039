"""What one launch left behind: plain, frozen data, written and read as JSON.

Times are seconds since the launch started, on this machine's clock. A `Run` never holds a mark.
"""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass, field
from typing import Any

import autograder

SCHEMA = 1


@dataclass(frozen=True)
class Request:
    """What was asked for: everything that decides what the launch does.

    `launcher` False means `python labo.py`, without torchrun. `nnodes` agents of `nproc` ranks each are
    started on this machine. `delays` make ranks enter chosen collectives late (see `Delay`).
    """

    script: str = "labo.py"
    nproc: int = 2
    nnodes: int = 1
    launcher: bool = True
    env: dict[str, str] = field(default_factory=dict)
    time_limit_s: float = 60.0
    output_limit_bytes: int = 256 * 1024
    delays: tuple[Delay, ...] = ()
    detail: bool = False   # TORCH_DISTRIBUTED_DEBUG=DETAIL: to explain a failure, never to time
    gpus: int | None = None   # GPUs that the ranks believe to see; None: the machine as it is

    @property
    def world_size(self) -> int:
        return self.nproc * self.nnodes if self.launcher else 1


@dataclass(frozen=True)
class Delay:
    """Hold `rank` back for `seconds` before it enters a matching collective.

    A collective matches when its name is `op` and, where given, its first tensor has `numel` elements;
    `nth` counts the matches from 0, None means every one.
    """

    rank: int
    seconds: float
    op: str = "all_reduce"
    numel: int | None = None
    nth: int | None = None


@dataclass(frozen=True)
class RankLog:
    """One rank's end. `exit_code` is None when it could not be learnt; -15 is the launcher's own SIGTERM.

    `reached_end` is True when the interpreter came to its normal end (no uncaught exception, no kill).
    `error_line` is the labo.py line of the exception that ended the rank, 1-based.
    """

    rank: int
    local_rank: int
    exit_code: int | None
    stdout: str
    stderr: str
    reached_end: bool = False
    truncated: bool = False
    error_line: int | None = None


@dataclass(frozen=True)
class Collective:
    """One collective on one rank, as recorded inside that rank.

    `source` is "mark" (our wrapper around the Python call: has line, values, returned) or "flight_recorder"
    (PyTorch's own record: also sees what DDP does inside). `returned` None: the rank was still inside, or the
    record cannot tell (flight_recorder). `values_in`/`values_out` are flat, for CPU tensors
    of at most 64 elements; `values_out` is None when the call only started the operation (`async_op`).
    `reduce_op` is "sum", "avg"… for reductions. `line` is the line of labo.py that made the call.
    """

    rank: int
    seq: int
    op: str
    numel: int
    shape: tuple[int, ...]
    dtype: str
    entered: float
    returned: float | None = None
    source: str = "mark"
    line: int | None = None
    reduce_op: str | None = None
    values_in: tuple[float, ...] | None = None
    values_out: tuple[float, ...] | None = None
    error: str | None = None   # the exception that the call raised


@dataclass(frozen=True)
class Gradient:
    """The local gradient of one DDP parameter on one rank, before averaging; values flat, shape given."""

    rank: int
    name: str
    shape: tuple[int, ...]
    values: tuple[float, ...]
    at: float


@dataclass(frozen=True)
class Frame:
    file: str        # base name
    line: int
    function: str
    code: str = ""


@dataclass(frozen=True)
class Stack:
    """Where a rank stood at the deadline: its main thread, outermost call first."""

    rank: int
    frames: tuple[Frame, ...]


@dataclass(frozen=True)
class Event:
    """A mark in a rank's life: init, destroy, ddp (a model was wrapped), cuda_event (one was built)…"""

    rank: int
    name: str
    at: float
    line: int | None = None
    detail: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Run:
    """What one launch left behind.

    `stdout` merges the ranks' outputs in rank order; `per_rank` False means that the system could not
    separate them (then `ranks` is empty and only the merged text speaks). `launcher_stderr` is torchrun's
    own text.
    `infra` is None, or the id of the infrastructure fault because of which nothing can be concluded.
    `left_over` counts processes that had to be ended after the launcher was gone.
    """

    request: Request
    command: str                       # as a student would type it
    script_sha256: str
    exit_code: int | None
    timed_out: bool
    duration_s: float
    ranks: tuple[RankLog, ...] = ()
    stdout: str = ""
    stderr: str = ""
    launcher_stderr: str = ""
    per_rank: bool = True
    output_limited: bool = False       # stopped because it printed too much
    collectives: tuple[Collective, ...] = ()
    gradients: tuple[Gradient, ...] = ()
    events: tuple[Event, ...] = ()
    stacks: tuple[Stack, ...] = ()
    infra: str | None = None
    left_over: int = 0
    source: str = ""                   # the script's text, so that a diagnosis can quote a line
    versions: dict[str, str] = field(default_factory=dict)
    schema: int = SCHEMA

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        """What a notebook shows of a Run. Drawing is for another floor, which the package names for us."""
        return autograder.shown(self)

    def rank(self, rank: int) -> RankLog | None:
        return next((log for log in self.ranks if log.rank == rank), None)

    def to_json(self) -> str:
        return json.dumps(dataclasses.asdict(self), ensure_ascii=False, indent=1, sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> Run:
        data = json.loads(text)
        request = data.pop("request")
        request["delays"] = tuple(Delay(**delay) for delay in request["delays"])
        lists = {
            "ranks": RankLog, "collectives": Collective, "gradients": Gradient, "events": Event,
        }
        for key, kind in lists.items():
            data[key] = tuple(kind(**_tuples(item)) for item in data[key])
        data["stacks"] = tuple(
            Stack(stack["rank"], tuple(Frame(**frame) for frame in stack["frames"]))
            for stack in data["stacks"]
        )
        return cls(request=Request(**request), **data)


def _tuples(item: dict[str, Any]) -> dict[str, Any]:
    return {key: tuple(value) if isinstance(value, list) else value for key, value in item.items()}
