"""Runs written by hand, for the tests that judge without launching."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from autograder.launch.run import Collective, Event, Frame, Gradient, RankLog, Request, Run, Stack

GOOD = """import torch
import torch.distributed as dist
dist.init_process_group("gloo")
rank = dist.get_rank()
t = torch.tensor([[1.0, 3.0], [5.0, 7.0]][rank])
dist.all_reduce(t)
t /= dist.get_world_size()
print(f"moyenne {rank} {t.tolist()}", flush=True)
"""


def log(rank: int, out: str = "", err: str = "", code: int | None = 0, **more: Any) -> RankLog:
    return RankLog(rank, rank, code, out, err, **{"reached_end": code in (0, 1), **more})


def call(rank: int, op: str = "all_reduce", at: float = 1.0, **more: Any) -> Collective:
    values = {
        "numel": 2,
        "shape": (2,),
        "dtype": "float32",
        "seq": int(at * 10),
        "returned": at + 0.01,
        **more,
    }
    if op in ("all_reduce", "reduce") and values.get("source", "mark") == "mark":
        values = {"reduce_op": "sum", **values}
    return Collective(rank=rank, op=op, entered=at, **values)


def a_run(*logs: RankLog, collectives: Sequence[Collective] = (), source: str = GOOD, **more: Any) -> Run:
    request = more.pop("request", Request())
    codes = [one.exit_code for one in logs]
    starts = tuple(Event(one.rank, "start", 0.0) for one in logs)
    values: dict[str, Any] = {
        "command": "torchrun --nproc_per_node=2 --master_port=29531 labo.py",
        "script_sha256": "0" * 64,
        "exit_code": 0 if all(code == 0 for code in codes) else 1,
        "timed_out": False,
        "duration_s": 2.0,
        "stdout": "".join(one.stdout for one in logs),
        "stderr": "".join(one.stderr for one in logs),
        "launcher_stderr": "",
        **more,
    }
    values["events"] = (*starts, *values.get("events", ()))
    return Run(request=request, ranks=logs, collectives=tuple(collectives), source=source, **values)


def averaging(out0: str = "moyenne 0 [3.0, 5.0]\n", out1: str = "moyenne 1 [3.0, 5.0]\n", **more: Any) -> Run:
    """Two ranks that reduce [1, 3] and [5, 7] and print what is given."""
    return a_run(
        log(0, "entre 0\nsort 0\n" + out0),
        log(1, "entre 1\nsort 1\n" + out1),
        collectives=[
            call(0, values_in=(1.0, 3.0), values_out=(6.0, 10.0), line=6),
            call(1, values_in=(5.0, 7.0), values_out=(6.0, 10.0), line=6),
        ],
        **more,
    )


def traceback(line: int, error: str, file: str = "/tmp/x/labo.py", prefix: str = "") -> str:
    frame = f'  File "{file}", line {line}, in <module>\n    code()\n'
    text = f"Traceback (most recent call last):\n{frame}{error}\n"
    return "".join(prefix + one + "\n" for one in text.splitlines())


def stack(rank: int, line: int, function: str = "<module>") -> Stack:
    return Stack(rank, (Frame("labo.py", line, "<module>"), Frame("distributed_c10d.py", 3000, function)))


def gradient(rank: int, values: tuple[float, ...], name: str = "weight", at: float = 1.0) -> Gradient:
    return Gradient(rank, name, (1, len(values)), values, at)
