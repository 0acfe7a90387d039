"""What the evidence costs: the same warm launch with the recorder and without, one after the other.

    python benchmarks/evidence.py [--launches N] [--short]

The script is a course exercise for two ranks: process group, all-reduce, DDP with two backwards, a probe.
All come from one warm server, as `autograder grade` makes them (in a box where there can be one): five with,
five without, in turn first and second. Without: the rank is not told where to write (this process alone
leaves that out of the environment that it gives; no option, variable or `course.yaml` does), so no recorder
is started in it, PyTorch's Flight Recorder, which is on by itself, is not read, nor has the launching process
anything to read afterwards.

CPU is that of every process of the launch, of the server, and of the launching process, which reads the
record: it decides, since other work on the machine moves the wall time more than the recorder does. Figures
are medians; `share` is the median of the pairs' differences, which the last line repeats for CPU, in percent.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import launch
from machine import describe, table

from autograder.launch import Request, box, command, run_request
from autograder.launch.warm.keeper import Server

SCRIPT = """\
import time
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
x = torch.tensor([[1.0, 3.0], [5.0, 7.0]][rank])
dist.all_reduce(x)
print(f"moyenne {rank} {(x / world).tolist()}", flush=True)
model = DDP(torch.nn.Linear(2, 1, bias=False))
for _ in range(2):
    model.zero_grad()
    loss = model(torch.tensor([[[1.0, 0.0]], [[0.0, 3.0]]][rank])).sum()
    loss.backward()
print(f"gradient {rank} {model.module.weight.grad.tolist()}", flush=True)
probe = torch.ones(8)
debut = time.perf_counter()
dist.all_reduce(probe)
print(f"all_reduce_ms {1000 * (time.perf_counter() - debut):.3f}", flush=True)
del model, loss
dist.destroy_process_group()
"""
ROW = 5   # launches of one kind in a row
ASKED_BY = ("AUTOGRADER_RECORD", "AUTOGRADER_SEAL", "AUTOGRADER_EPOCH")


@contextmanager
def without_recorder() -> Iterator[None]:
    """The launches of this process tell their ranks of no place to record: for a measure, and only here."""
    original = command.environment

    def environment(request: Request, **given: object) -> Mapping[str, str]:
        env = original(request, **given)  # type: ignore[arg-type]
        return {name: value for name, value in env.items() if name not in ASKED_BY}

    command.environment = environment  # type: ignore[assignment]
    try:
        yield
    finally:
        command.environment = original


def cpu(server: Server) -> float:
    """CPU seconds of this process, of the server, and of all that either waited for."""
    own = os.times()
    return own.user + own.system + launch.cpu(server)


def measure(folder: Path, server: Server, recorded: bool, launches: int) -> tuple[float, float]:
    """Wall and CPU seconds of one launch, the mean of so many in a row: the system counts in hundredths."""
    before, start = cpu(server), time.perf_counter()
    for _ in range(launches):
        run = run_request(Request(), folder)
        if run.exit_code != 0 or any(text not in run.stdout for text in launch.EXPECTED):
            raise SystemExit(f"a launch went wrong: {run.stderr}{run.launcher_stderr}")
        if bool(run.collectives) is not recorded:
            raise SystemExit("the record is not where it should be")
    wall = time.perf_counter() - start
    time.sleep(0.05)   # for the server to have waited for the last process
    return wall / launches, (cpu(server) - before) / launches


def share(with_it: list[float], without: list[float]) -> float:
    """How much more the first of each pair costs than the second, in percent: the median of the pairs."""
    more = [a - b for a, b in zip(with_it, without, strict=True)]
    return 100 * statistics.median(more) / statistics.median(without)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--launches", type=int, default=200, help="of each kind")
    parser.add_argument("--short", action="store_true", help="four of each: only that it runs")
    asked = parser.parse_args()
    row = 2 if asked.short else ROW
    count = 2 if asked.short else max(2, asked.launches // row)
    print(describe("torch"), flush=True)
    boxed = box.why_not() is None
    os.environ[box.VARIABLE] = "1" if boxed else "0"   # as `autograder grade` launches
    print("in boxes" if boxed else f"without a box: {box.why_not()}")
    found: dict[bool, list[tuple[float, float]]] = {True: [], False: []}
    with tempfile.TemporaryDirectory() as name, launch.warm(boxed) as server:
        Path(name).chmod(0o755)
        folder = Path(name) / "copy"
        folder.mkdir()
        (folder / "labo.py").write_text(SCRIPT, encoding="utf-8")
        run_request(Request(), folder)   # the first one touches pages for all
        for pair in range(count):
            for recorded in (True, False) if pair % 2 else (False, True):
                if recorded:
                    found[True].append(measure(folder, server, True, row))
                else:
                    with without_recorder():
                        found[False].append(measure(folder, server, False, row))
    rows, shares = [], []
    for index, what in enumerate(("wall s", "CPU s")):
        with_it, without = ([one[index] for one in found[kind]] for kind in (True, False))
        shares.append(share(with_it, without))
        rows.append((what, str(count * row), f"{statistics.median(with_it):.3f}",
                     f"{statistics.median(without):.3f}", f"{shares[-1]:+.1f} %"))
    print(table(("", "launches", "with", "without", "share"), rows))
    print(f"overhead: {shares[1]:.1f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
