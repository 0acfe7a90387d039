"""The launches of soak.py: reference solutions, and scripts that hang, crash or leave something behind, each
with the verdict that it must have.
"""

from __future__ import annotations

import contextlib
import io
import random
import textwrap
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from autograder.launch import Request, Run
from autograder.verdict.diagnosis import diagnose
from autograder.verdict.marks import Marks, NotGraded, TestFailed, marks

ROOT = Path(__file__).resolve().parent.parent
# First of all each process says whether it was forked by a server, whose command line it then has.
PROBE = (
    "import os; os.write(2, b'forked\\n' if b'warm/server' in open('/proc/self/cmdline', 'rb').read() "
    "else b'started\\n'); "
)

GROUP = """\
import os, signal, time
import torch, torch.distributed as dist
dist.init_process_group("gloo")
rank = dist.get_rank()
dist.barrier()   # both are there: what comes now is what the record must tell
x = torch.tensor([[1.0, 3.0], [5.0, 7.0]][rank])
"""
MEAN = """\
dist.all_reduce(x)
print(f"moyenne {rank} {(x / 2).tolist()}", flush=True)
dist.destroy_process_group()
"""
SLEEPER = """\
if not os.fork():
    os.setsid()
    if os.fork():
        os._exit(0)
    time.sleep(3600)
    os._exit(0)
"""
LITTER = """\
import tempfile
kept = [tempfile.NamedTemporaryFile(dir=".", delete=False) for _ in range(20)]
kept[0].write(bytes(1 << 20))
more = [os.open(place, os.O_RDONLY) for place in ("/tmp", "/dev/null") for _ in range(20)]
"""


@dataclass(frozen=True)
class Case:
    """`share`: percent of all launches; None: one of those that share the rest. `diagnosis`: its id; None:
    nothing went wrong. `left`: processes that the launch has to end. `more`: what the record must show.
    """

    name: str
    source: str
    share: float | None = None
    diagnosis: str | None = None
    well: bool | None = None   # whether it ends with code 0; where not told: if nothing went wrong
    codes: dict[int, int] = field(default_factory=dict)   # of ranks, where it is always the same one
    texts: tuple[str, ...] = ()
    timed_out: bool = False
    left: int = 0
    settings: dict[str, object] = field(default_factory=dict)
    more: Callable[[Marks], object] = lambda account: None

    def request(self) -> Request:
        return Request(**self.settings)   # type: ignore[arg-type]

    def write(self, folder: Path) -> None:
        folder.mkdir()
        (folder / "labo.py").write_text(PROBE + self.source, encoding="utf-8")

    def mistakes(self, run: Run) -> list[str]:
        """In what its verdict is not the one it must be."""
        found = diagnose(run)
        well = self.diagnosis is None if self.well is None else self.well
        pairs = {
            "diagnosis": (found and found.id, self.diagnosis),
            "timed out": (run.timed_out, self.timed_out),
            "ended well": (run.exit_code == 0, well),
            "processes left": (run.left_over, self.left),
            "points": (self._points(run), 1.0),
        }
        logs = {log.rank: log.exit_code for log in run.ranks}
        pairs |= {f"exit code of rank {rank}": (logs.get(rank), code) for rank, code in self.codes.items()}
        return [f"{name} {is_} for {must}" for name, (is_, must) in pairs.items() if is_ != must]

    def _points(self, run: Run) -> float | str:
        try:
            account = marks(1, run)
            for number, text in enumerate(self.texts):
                account.text(text, rank=number % 2, points=1 / len(self.texts))
            if not self.texts:
                account.check(True, "", points=1)
            self.more(account)
            with contextlib.redirect_stdout(io.StringIO()):   # what a test cell would show
                return round(account.total() or 0.0, 6)
        except (NotGraded, TestFailed) as error:
            return str(error)


def forked(run: Run) -> bool:
    """Whether its processes came from a server: those that came to say it."""
    said = [line for log in run.ranks for line in log.stderr.splitlines() if line in ("forked", "started")]
    return bool(said) and "started" not in said


def references(hang_s: float) -> list[Case]:
    """The solutions of the first three exercises, as a student would hand them in."""
    import nbformat

    from autograder.notebook.variants import solution_files

    def solution(name: str) -> str:
        path = ROOT / "source" / name / f"{name}.ipynb"
        return solution_files(nbformat.read(path, as_version=4))["labo.py"]

    return [
        Case("ex1-rang", solution("ex1-rang"), texts=tuple(
            f"RANK={k} LOCAL_RANK={k} WORLD_SIZE=2 backend=gloo" for k in (0, 1))),
        Case("ex2-moyenne", solution("ex2-moyenne"),
             texts=tuple(f"{text} {k}" for text in ("entre", "sort") for k in (0, 1))
             + tuple(f"moyenne {k} [3.0, 5.0]" for k in (0, 1)),
             more=lambda account: account.collective("all_reduce", values=[[6, 10]])),
        Case("ex3-ddp", solution("ex3-ddp"), texts=tuple(f"gradient {k} [[0.5, 1.5]]" for k in (0, 1)),
             more=lambda account: account.ddp(gate=True)),
        # The second exercise's own hang: its collective loses patience.
        Case("ex2, a rank skips", solution("ex2-moyenne"), 2.5, "missing-rank", texts=("entre 0", "saute 1"),
             settings={"env": {"MCI_SKIP_RANK": "1", "MCI_TIMEOUT_S": f"{hang_s:.0f}"},
                       "time_limit_s": 10 * hang_s}),
    ]  # fmt: skip


def disturbed(hang_s: float) -> list[Case]:
    """Scripts that hang, crash, or leave something."""
    def on(rank: int, code: str) -> str:
        return f"if rank == {rank}:\n{textwrap.indent(code, '    ')}\n"

    means = ("moyenne 0 [3.0, 5.0]", "moyenne 1 [3.0, 5.0]")
    return [
        Case("sleeps for ever", GROUP + on(1, "time.sleep(3600)") + MEAN, 2.5, "missing-rank",
             timed_out=True, settings={"time_limit_s": hang_s}),
        Case("raises", GROUP + on(1, "raise ValueError('exprès')") + MEAN, 3, "exception", codes={1: 1}),
        Case("os._exit", GROUP + on(1, "os._exit(7)") + MEAN, 3, "missing-rank", codes={1: 7}),
        Case("kills itself", GROUP + on(1, "os.kill(os.getpid(), signal.SIGKILL)") + MEAN, 3, "killed",
             codes={1: -9}),
        Case("segfault", GROUP + on(0, "import ctypes; ctypes.string_at(0)") + MEAN, 2, "crash",
             codes={0: -11}),
        Case("kills the launcher", GROUP + on(1, "os.kill(os.getppid(), signal.SIGKILL)")
             + "time.sleep(3600)\n", 2, "unknown", well=False, left=2),
        Case("prints for ever", GROUP + "while True:\n    print('encore ' * 100)\n", 1, "too-much-output"),
        Case("leaves a process", GROUP + on(1, SLEEPER) + MEAN, 4, texts=means, left=1),
        Case("leaves files open", GROUP + LITTER + MEAN, 2, texts=means),
    ]  # fmt: skip


def schedule(cases: list[Case], launches: int, seed: int) -> list[Case]:
    """So many launches in an order drawn from `seed`: each disturbance as often as its share says."""
    rare = [case for case in cases if case.share is not None for _ in range(
        max(1, round(launches * case.share / 100)))][:launches]
    common = [case for case in cases if case.share is None]
    order = rare + [common[n % len(common)] for n in range(launches - len(rare))]
    random.Random(seed).shuffle(order)
    return order
