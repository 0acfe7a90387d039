"""What one launch costs: warm against torchrun, in a box and without; wall and CPU.

    python benchmarks/launch.py [--launches N] [--short]

The script is the course's whole exercise for two ranks: process group, all-reduce, DDP with a backward. CPU
is that of every process of the launch, the one that supervises it included; figures are medians. The last
line gives torchrun's CPU over the warm launch's, both without a box.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import os
import platform
import statistics
import sys
import tempfile
import textwrap
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from autograder.launch import Request, box, run_request
from autograder.launch.warm.keeper import Server, serving

SCRIPT = """\
import os
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
x = torch.tensor([[1.0, 3.0], [5.0, 7.0]][rank])
dist.all_reduce(x)
print(f"moyenne {rank} {(x / world).tolist()}", flush=True)
model = DDP(torch.nn.Linear(2, 1, bias=False))
loss = model(torch.tensor([[[1.0, 0.0]], [[0.0, 3.0]]][rank])).sum()
loss.backward()
print(f"gradient {rank} {model.module.weight.grad.tolist()}", flush=True)
del model, loss
dist.destroy_process_group()
"""
EXPECTED = [
    "moyenne 0 [3.0, 5.0]", "moyenne 1 [3.0, 5.0]", "gradient 0 [[0.5, 1.5]]", "gradient 1 [[0.5, 1.5]]",
]  # fmt: skip


def cpu(server: Server | None) -> float:
    """CPU seconds of what we waited for, and of the server with what it waited for."""
    own = os.times()
    seconds = own.children_user + own.children_system
    if server is not None:
        times = psutil.Process(server.process.pid).cpu_times()
        seconds += times.user + times.system + times.children_user + times.children_system
    return seconds


def measure(folder: Path, server: Server | None, launches: int) -> tuple[list[float], list[float], int]:
    """Wall and CPU seconds of each launch, and how many were wrong."""
    walls, cpus, wrong = [], [], 0
    for _ in range(launches):
        before, start = cpu(server), time.perf_counter()
        run = run_request(Request(), folder)
        walls.append(time.perf_counter() - start)
        time.sleep(0.05)   # for the server to have waited for the last process
        cpus.append(cpu(server) - before)
        wrong += run.exit_code != 0 or any(text not in run.stdout for text in EXPECTED)
    return walls, cpus, wrong


@contextmanager
def warm(boxed: bool) -> Iterator[Server]:
    with serving(boxed) as server:
        if server is None or server.ready() is None:
            raise SystemExit("a warm server does not work here")
        yield server


def row(name: str, boxed: bool, folder: Path, launches: int, with_server: bool) -> tuple[str, float, int]:
    os.environ[box.VARIABLE] = "1" if boxed else "0"
    if with_server:
        with warm(boxed) as server:
            run_request(Request(), folder)   # the first one touches pages for all
            walls, cpus, wrong = measure(folder, server, launches)
    else:
        walls, cpus, wrong = measure(folder, None, launches)
    told = "yes" if boxed else "no"
    middle = statistics.median(cpus)
    return (
        f"{name:<10} {told:<5} {launches:>8} {statistics.median(walls):>9.3f} {max(walls):>9.3f} "
        f"{middle:>9.3f} {wrong:>9}"
    ), middle, wrong  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--launches", type=int, default=40, help="warm ones; torchrun's are an eighth")
    parser.add_argument("--short", action="store_true", help="only that it runs")
    asked = parser.parse_args()
    many, few = (2, 1) if asked.short else (asked.launches, max(3, asked.launches // 8))
    reason = box.why_not()
    versions = f"Python {platform.python_version()}, torch {importlib.metadata.version('torch')}"
    print(f"{versions}, {os.cpu_count()} cores, {platform.platform()}")
    heads = ("launches", "wall s", "worst s", "CPU s", "wrong")
    print(f"{'launcher':<10} {'box':<5} {heads[0]:>8} " + " ".join(f"{head:>9}" for head in heads[1:]))
    costs, mistakes = {}, 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "copy"
        folder.mkdir()
        Path(name).chmod(0o755)
        (folder / "labo.py").write_text(textwrap.dedent(SCRIPT), encoding="utf-8")
        for boxed in (False, True):
            if boxed and reason is not None:
                print(f"(no box here: {reason})")
                continue
            for launcher, launches in (("torchrun", few), ("warm", many)):
                if asked.short and boxed and launcher == "torchrun":
                    continue
                line, cost, wrong = row(launcher, boxed, folder, launches, launcher == "warm")
                costs[launcher, boxed] = cost
                mistakes += wrong
                print(line, flush=True)
    print(f"ratio: {costs['torchrun', False] / costs['warm', False]:.1f}")
    return 1 if mistakes else 0


if __name__ == "__main__":
    sys.exit(main())
