"""The warm server: launches that it forks end as those that start their own Python, and leave nothing in it.

One server for the boxed launches and one for the others, each started once.
"""

from __future__ import annotations

import dataclasses
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from nbformat.v4 import new_code_cell, new_notebook

from autograder.launch import Request, Run, box, run_request
from autograder.launch.warm import client, keeper
from autograder.launch.warm.keeper import Server
from autograder.notebook.apart import run_module
from autograder.notebook.plain import encode
from autograder.notebook.student import run_student
from autograder.notebook.testcells import Trusted
from autograder.verdict.diagnosis import diagnose

pytestmark = [
    pytest.mark.launch,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="elsewhere every launch is a cold one"),
]
ROOT = Path(__file__).resolve().parent.parent
HERE = ROOT / "tests"
WAYS = ("unboxed", "boxed")


class Way:
    """How this test's launches are made, and the server that makes them."""

    def __init__(self, boxed: bool, server: Server) -> None:
        self.boxed, self.server = boxed, server

    def run(self, folder: Path, source: str | None = None, warm: bool = True, **settings: Any) -> Run:
        if source is not None:
            (folder / "labo.py").write_text(textwrap.dedent(source), encoding="utf-8")
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv(box.VARIABLE, "1" if self.boxed else "0")
            if warm:
                patch.setenv(client.VARIABLE, str(self.server.path))
            else:
                patch.delenv(client.VARIABLE, raising=False)
            return run_request(Request(**settings), folder)

    def both(self, folder: Path, source: str, **settings: Any) -> tuple[Run, Run]:
        """The launch with its own Python, made once without a box for both ways, and the warm one."""
        name = (source, *sorted(settings.items()))
        if name not in COLD:
            COLD[name] = Way(False, self.server).run(folder, source, warm=False, **settings)
        return COLD[name], self.run(folder, source, **settings)

    def told(self) -> dict[str, int]:
        told = self.server.ready()
        assert told is not None, self.server.log.read_text()
        return told


COLD: dict[tuple[Any, ...], Run] = {}


def started(way: str, folder: Path) -> Iterator[Way]:
    boxed = way == "boxed"
    if boxed and box.why_not() is not None:
        pytest.skip(str(box.why_not()))
    server = Server(folder, sandbox=boxed)
    try:
        yield Way(boxed, server)
    finally:
        server.close()
        assert server.process.poll() is not None


@pytest.fixture(scope="module", params=WAYS)
def way(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Way]:
    yield from started(request.param, tmp_path_factory.mktemp(request.param))


@pytest.fixture
def own(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Way]:
    """A server for this test alone, which it may end."""
    yield from started("unboxed", tmp_path)


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "élève n°1 (copie)"
    folder.mkdir()
    return folder


# -- the same Run --------------------------------------------------------------------------------------------

RIGHT = """\
    import os, torch, torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel as DDP
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    print(f"RANK={rank} LOCAL_RANK={os.environ['LOCAL_RANK']} WORLD_SIZE={world} {dist.get_backend()}")
    x = torch.tensor([[1.0, 3.0], [5.0, 7.0]][rank])
    dist.all_reduce(x)
    print(f"moyenne {rank} {(x / world).tolist()}")
    model = DDP(torch.nn.Linear(2, 1, bias=False))
    loss = model(torch.tensor([[[1.0, 0.0]], [[0.0, 3.0]]][rank])).sum()
    loss.backward()
    print(f"gradient {rank} {model.module.weight.grad.tolist()}")
    del model, loss
    dist.destroy_process_group()
    """

# What differs from one launch to the next, however they are made.
_VARIES = (
    (r"((?:pid:? ?|[Pp]rocess |PID ))\d+", r"\1N"), (r"0x[0-9a-f]+", "0xN"), (r":\d{4,5}\b", ":PORT"),
    (r"\b\d+ ms\b|\b\d+ms\b|\d+\.\d+ ?s\b", "T"), (r"autograder-[\w.]+-\w+", "TMP"), (r"[0-9a-f]{32}", "ID"),
    (r"[=-]{20,}", "----"), (r"\n*Extension modules: [^\n]*\n", "\n"),
    (r'"event": \d+|"(?:end|start)": \d+', "EVENT"),
)  # fmt: skip


def settled(text: str) -> str:
    for pattern, by in _VARIES:
        text = re.sub(pattern, by, text)
    return text


def view(run: Run) -> dict[str, Any]:
    """A Run without its times and numbers. How a rank ended that another one's failure ended is left out: by
    itself (1) or by the launcher (-15), whichever came first.
    """
    found = diagnose(run)
    failed = bool(run.exit_code)

    def calls(source: str) -> list[Any]:
        return sorted(
            (one.rank, one.seq, one.op, one.shape, one.dtype, one.line, one.reduce_op, one.values_in,
             one.values_out, one.returned is not None, settled(one.error or "")[:80])
            for one in run.collectives if one.source == source
        )  # fmt: skip

    return {
        "exit_code": run.exit_code, "timed_out": run.timed_out, "output_limited": run.output_limited,
        "infra": run.infra, "left_over": run.left_over,
        "diagnosis": found and (found.id, found.line, settled(found.message) if found.rank is None else ""),
        "ranks": [
            (one.rank, one.local_rank, "ended" if failed and one.exit_code in (1, -15) else one.exit_code,
             one.reached_end, settled(one.stdout), settled(one.stderr))
            for one in run.ranks
        ],
        "marks": calls("mark"), "flight_recorder": calls("flight_recorder"),
        "gradients": [(one.rank, one.name, one.shape, one.values) for one in run.gradients],
        "events": sorted((one.rank, one.name, one.line or 0, settled(json.dumps(one.detail, sort_keys=True)))
                         for one in run.events),
        "stacks": run.stacks,
    }  # fmt: skip


def launcher(run: Run) -> set[str]:
    """What torchrun said, but for which of two ranks that failed together it saw first."""
    said = settled(run.launcher_stderr)
    said = re.sub(r"[^\n]*(?:closing signal|failed \(exitcode|rank  |exitcode|traceback :)[^\n]*\n", "", said)
    return set(said.splitlines())


def same(cold: Run, warm: Run) -> None:
    assert view(warm) == view(cold)
    assert launcher(warm) == launcher(cold)


def test_a_right_script(way: Way, work: Path) -> None:
    cold, warm = way.both(work, RIGHT)
    same(cold, warm)
    assert warm.exit_code == 0 and "gradient 1 [[0.5, 1.5]]" in warm.stdout
    assert warm.launcher_stderr == cold.launcher_stderr == ""


# Each is launched as the saved Run of tests/runs_broken was, which torchrun made.
BROKEN = sorted(path.stem for path in (HERE / "broken").glob("*.py"))
SLOW = {"no_timeout_hang", "ignores_sigterm"}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_script(way: Way, work: Path, name: str) -> None:
    cold = Run.from_json((HERE / "runs_broken" / f"{name}.json").read_text(encoding="utf-8"))
    shutil.copyfile(HERE / "broken" / f"{name}.py", work / f"{name}.py")
    settings = dataclasses.asdict(cold.request) | {"delays": cold.request.delays}
    if name in SLOW:
        settings["time_limit_s"] = 5.0
    warm = way.run(work, **settings)
    assert (warm.exit_code, warm.timed_out, warm.infra) == (cold.exit_code, cold.timed_out, None)
    one, other = diagnose(cold), diagnose(warm)
    assert (one and (one.id, one.line)) == (other and (other.id, other.line))
    for rank in range(warm.request.world_size):
        before, now = cold.rank(rank), warm.rank(rank)
        assert before is not None and now is not None and now.stdout == before.stdout
    assert not warm.left_over


@pytest.mark.parametrize("attack", ["exit_after_printing", "env_pythonpath", "labo_patched_builtins",
                                    "ptrace", "setsid_escape", "trusted_internals"])
def test_a_hostile_script(way: Way, work: Path, attack: str) -> None:
    if not way.boxed:
        pytest.skip("only tried in a box")
    source = (HERE / "hostile" / "attacks" / f"{attack}.py").read_text(encoding="utf-8")
    settings = {"source": source, "launcher": False, "time_limit_s": 20.0}
    cold = way.run(work, warm=False, **settings)
    warm = way.run(work, **settings)
    same(cold, warm)


def test_simulated_gpus(way: Way, work: Path) -> None:
    source = """\
        import torch, torch.distributed as dist
        torch.cuda.set_device(0 if not dist.is_available() else int(__import__("os").environ["LOCAL_RANK"]))
        dist.init_process_group("nccl")
        x = torch.ones(2, device="cuda")
        dist.all_reduce(x)
        print(torch.cuda.device_count(), x.device, x.tolist(), dist.all_reduce.__name__)
        dist.destroy_process_group()
        """
    cold, warm = way.both(work, source, gpus=2)
    same(cold, warm)
    assert warm.rank(1) is not None and "cuda:1 [2.0, 2.0]" in warm.stdout


@pytest.mark.parametrize("source", [
    "import torch; print(torch.distributed.fsdp)",             # nobody imported it
    "import torch.distributed.fsdp; print(torch.distributed.fsdp.__name__, torch.nn.Linear(1, 1))",
    "import json; print(json.dumps(1)); import helper",        # json.py, helper.py beside it
    "é = 1; print('\\xe9', é)\nraise SystemExit('fin')",
    "def f(:",
    "b'\\xff' + 1",
    "import sys; print(sys.argv, sys.path[0] == sys.path[-1], __file__ in sys.argv, __name__, __spec__)",
    "import threading, time, atexit; atexit.register(print, 'fin')\n"
    "threading.Thread(target=lambda: (time.sleep(0.2), print('fil'))).start()",
])
def test_what_a_script_finds_and_how_it_ends(way: Way, work: Path, source: str) -> None:
    (work / "helper.py").write_text("print('helper')", encoding="utf-8")
    if "helper" in source:
        (work / "json.py").write_text("def dumps(x): return 'mine'", encoding="utf-8")
    cold, warm = (way.run(work, source, warm=one, launcher=False) for one in (False, True))
    same(cold, warm)


# -- nothing of one launch is in another one -----------------------------------------------------------------

SPOIL = """\
    import os, random, resource, signal, sys, torch
    os.environ["LEFT"] = "x"; random.seed(1); torch.manual_seed(1); os.umask(0)
    os.chdir("/"); sys.path.insert(0, "/left")
    sys.modules["left"] = sys; open("left.txt", "w") if os.access(".", os.W_OK) else None
    kept = [os.dup(1) for _ in range(20)]; signal.signal(signal.SIGTERM, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
    torch.set_num_threads(2); torch.set_default_dtype(torch.float64)
    torch.distributed.all_reduce = None
    print("spoilt")
    """
STATE = """\
    import json, os, resource, signal, sys, threading
    assert "torch" not in sys.modules
    import torch, torch.distributed as dist, random, multiprocessing, tempfile, warnings
    state = {
        "environ": sorted(os.environ), "cwd": os.getcwd(), "umask": os.umask(0o22), "path": sys.path,
        "signals": [str(signal.getsignal(number)) for number in range(1, 32)],
        "argv": [sys.argv, sys.orig_argv[1:]],
        "mask": [int(one) for one in signal.pthread_sigmask(signal.SIG_BLOCK, [])], "limits": [
            resource.getrlimit(getattr(resource, f"RLIMIT_{one}")) for one in ("NOFILE", "CORE", "FSIZE")],
        "descriptors": sorted(os.readlink(f"/proc/self/fd/{one}").rpartition("/")[2].split(":")[0]
                              for one in (0, 1, 2)), "open": len(os.listdir("/proc/self/fd")),
        "threads": [one.name for one in threading.enumerate()], "torch": [
            torch.get_num_threads(), str(torch.get_default_dtype())],
        "streams": [[one.encoding, one.errors, one.line_buffering, one.write_through, str(type(one.buffer))]
                    for one in (sys.stdout, sys.stderr)], "umbrella": sorted(vars(dist))[:400],
        "filters": [str(one) for one in warnings.filters], "main": sorted(vars(sys.modules["__main__"])),
        "session": [os.getsid(0) == os.getpid(), os.getpgid(0) == os.getpid()], "ids": len(os.getgroups()),
        "status": [line for line in open("/proc/self/status").read().splitlines()
                   if line.startswith(("Cap", "NoNew", "Seccomp:", "SigBlk", "SigIgn", "Groups"))],
        "modules": sorted(set(sys.modules) - {"__mp_main__"}),
    }
    print(json.dumps(state))
    import numpy
    print("DRAWN", random.random(), torch.initial_seed(), torch.rand(1).item(), numpy.random.random(),
          bytes(multiprocessing.current_process().authkey).hex(), tempfile.mktemp())
    """


def test_a_launch_starts_as_if_it_were_the_first(way: Way, work: Path) -> None:
    runs = []
    for warm in (False, True, True):
        if warm:
            assert "spoilt" in way.run(work, SPOIL, nproc=1).stdout
            (work / "left.txt").unlink(missing_ok=True)
        run = way.run(work, STATE, warm=warm, nproc=1)
        assert run.exit_code == 0, run.stderr
        runs.append(run.stdout.splitlines())
    states = [json.loads(lines[0]) for lines in runs]
    for name, before in states[0].items():
        assert states[1][name] == before, (name, set(map(str, before)) ^ set(map(str, states[1][name])))
        assert states[2][name] == before, name
    drawn = [word for lines in runs for word in lines[1].split()[1:]]
    assert len(set(drawn)) == len(drawn)   # nothing is drawn twice


def test_the_server_stays_as_it_was(way: Way, work: Path) -> None:
    way.run(work, RIGHT)
    before, memory = way.told(), psutil.Process(way.server.process.pid).memory_info().rss
    for _ in range(3):
        way.run(work, RIGHT)
        way.run(work, "import os; os.kill(os.getppid(), 9)", launcher=False)
    after = way.told()
    assert before["threads"] == after["threads"] == 1
    assert (after["server"], after["descriptors"]) == (before["server"], before["descriptors"])
    assert psutil.Process(after["server"]).memory_info().rss < memory + 8 * 2**20
    assert _alone(way)


def _alone(way: Way) -> bool:
    """Whether the server has no process left."""
    deadline = time.monotonic() + 20
    server = psutil.Process(way.told()["server"])
    while (left := server.children(recursive=True)) and time.monotonic() < deadline:
        time.sleep(0.05)
    return not left


# -- a notebook's two sides ----------------------------------------------------------------------------------

CELLS = (
    "import sys\na = sys.path[0] == ''\nprint(len(sys.argv), 'torch' in sys.modules, __name__)\na",
    "import os, torch\nb = torch.ones(2).tolist(); print(sorted(os.environ), torch.rand(1).shape)",
    "c = getattr(torch.distributed, 'fsdp', None)\n1 / 0",
    "!echo fait; echo $HOME | wc -l",
    "d = [1, 2.5, 'é']\nimport IPython; IPython.get_ipython().user_ns['b'] == b",
)


@pytest.fixture(scope="module")
def cells_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    server = Server(tmp_path_factory.mktemp("cells"), sandbox=True, kind="notebook")
    yield server
    server.close()


@pytest.mark.parametrize("sandbox", [False, True])
def test_a_notebook_s_cells(cells_server: Server, sandbox: bool) -> None:
    if sandbox and box.why_not() is not None:
        pytest.skip(str(box.why_not()))
    cells = [new_code_cell(source, id=f"c{number}") for number, source in enumerate(CELLS)]
    given = new_notebook(cells=cells), {cell.id: "answer" for cell in cells}, ["a", "b", "c", "d"], None
    cold = run_student(*given, sandbox=sandbox)
    told = cells_server.ready()
    assert told is not None and told["threads"] == 1, cells_server.log.read_text()
    server = str(cells_server.path)
    warm = run_student(*given, sandbox=sandbox, server=server)
    assert (warm.cells, warm.values, warm.absent, warm.stopped) == (
        cold.cells, cold.values, cold.absent, cold.stopped)
    assert warm.values["b"] == [1.0, 1.0] and cold.absent.get("c") is None
    stopped = run_student(
        new_notebook(cells=[new_code_cell("while True: pass", id="x")]), {"x": "answer"}, [], None,
        limit_s=3.0, sandbox=sandbox, server=server)
    assert stopped.stopped is not None
    died = run_student(
        new_notebook(cells=[new_code_cell("import os; os._exit(7)", id="x")]), {"x": "answer"}, [], None,
        sandbox=sandbox, server=server)
    assert died.stopped is not None and "7" in died.stopped
    again = cells_server.ready()
    assert again is not None and again["server"] == told["server"]


def test_a_test_cell_s_side(cells_server: Server, tmp_path: Path) -> None:
    tests = [{"id": "a", "source": "import os\nprint(os.getcwd() != '/', v)\n1.5", "reads": []},
             {"id": "b", "source": "assert v == 3, 'non'", "reads": []}]
    results = []
    for name, server in (("cold", None), ("warm", str(cells_server.path))):
        place = tmp_path / name
        (place / "work").mkdir(parents=True)
        asked, told = place / "request.json", place / "result.json"
        asked.write_text(json.dumps({"cells": tests, "answers": {"v": encode(2)}}), encoding="utf-8")
        done = run_module(
            "autograder.notebook.test_shell", [str(asked), str(told)], place / "work",
            Trusted().environment(), 60.0, place / "log.txt", server=server)
        assert (done.exit_code, done.timed_out, done.log) == (0, False, "")
        results.append(json.loads(told.read_text(encoding="utf-8")))
    assert results[0] == results[1]
    assert [one["outcome"] for one in results[1]["done"]] == ["value", "failed"]


# -- it survives ---------------------------------------------------------------------------------------------

@pytest.mark.parametrize("source", [
    "import os; os._exit(3)",
    "import os, signal; os.kill(os.getppid(), signal.SIGKILL)",
    "import os, signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); os.kill(0, signal.SIGTERM)",
    "import os, time\nif not os.fork():\n os.setsid()\n if not os.fork(): time.sleep(600)\n os._exit(0)",
    "import os\nos.closerange(0, 100)",
    "import ctypes; ctypes.string_at(0)",
])
@pytest.mark.parametrize("launcher", [True, False])
def test_whatever_a_script_does(way: Way, work: Path, source: str, launcher: bool) -> None:
    server = way.told()["server"]
    way.run(work, source, launcher=launcher, time_limit_s=30.0)
    assert way.told()["server"] == server
    assert _alone(way)
    assert way.run(work, "print('encore')", launcher=False).stdout == "encore\n"


def test_it_is_started_again(own: Way, work: Path) -> None:
    for count in (1, 2):
        assert own.told()["threads"] == 1
        assert own.server.starts == count
        os.kill(own.server.process.pid, signal.SIGKILL)
        run = own.run(work, "print('encore')", launcher=False)
        assert (run.exit_code, run.stdout) == (0, "encore\n")


def test_its_launches_outlive_it(own: Way, work: Path) -> None:
    server = own.told()["server"]
    source = f"import os, time; os.kill({server}, 9); time.sleep(0.5); print('quand même')"
    assert own.run(work, source, launcher=False).stdout == "quand même\n"


def test_a_server_that_cannot_work_is_done_without(
    tmp_path: Path, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = tmp_path / "broken.py"
    broken.write_text("raise SystemExit(1)", encoding="utf-8")
    monkeypatch.setattr(keeper, "SERVER", broken)
    server = Server(tmp_path, sandbox=False)
    server.thread.join(30)
    assert server.starts == keeper.MOST_QUICK and not server.path.exists()
    assert Way(False, server).run(work, "print('sans')", launcher=False).stdout == "sans\n"
    server.close()


def test_a_launch_ends_with_whoever_asked_for_it(way: Way, work: Path) -> None:
    word = "tenace" + os.urandom(4).hex()
    (work / "labo.py").write_text(f"import time; open('{word}', 'w'); time.sleep(600)", encoding="utf-8")
    code = f"""
from pathlib import Path
from autograder.launch import Request, run_request
run_request(Request(time_limit_s=600.0), Path({str(work)!r}))
"""
    # Killed, it cannot remove its temporary folder.
    env = os.environ | {
        client.VARIABLE: str(way.server.path), box.VARIABLE: str(int(way.boxed)), "TMPDIR": str(work.parent),
    }  # fmt: skip
    asks = subprocess.Popen([sys.executable, "-c", code], env=env)
    server = psutil.Process(way.told()["server"])
    before = set(psutil.pids())
    deadline = time.monotonic() + 60
    while not _ranks(server, asks, before) and time.monotonic() < deadline:
        time.sleep(0.05)
    asks.kill()
    asks.wait()
    assert _alone(way)


def _ranks(server: psutil.Process, asks: subprocess.Popen[bytes], before: set[int]) -> bool:
    """Whether processes of the launch run: the server's, or those of the box that the one who asked made."""
    found = server.children(recursive=True)
    try:
        found += psutil.Process(asks.pid).children(recursive=True)
    except psutil.Error:
        return False
    return len(found) >= 3


# -- where it does not serve ---------------------------------------------------------------------------------

def test_nobody_asks_a_server_where_forking_is_not_safe(way: Way, monkeypatch: pytest.MonkeyPatch) -> None:
    path = str(way.server.path)
    monkeypatch.setattr(client.view, "gpus", lambda: ["/dev/nvidia0"])
    assert client.connect({}, path) is None                       # a rank may use CUDA
    assert client.why_not() is not None
    for platform in ("win32", "darwin"):
        monkeypatch.setattr(client.sys, "platform", platform)
        assert client.connect({"CUDA_VISIBLE_DEVICES": ""}, path) is None
    monkeypatch.undo()
    assert client.connect({}, path + "-gone") is None
    assert client.connect({}, None) is None


def test_another_start_is_another_python(way: Way, work: Path) -> None:
    """What Python or torch read as they start cannot be changed in a process that was forked."""
    source = "import sys, torch; print(sys.flags.optimize, torch.get_num_threads())"
    env = {"PYTHONOPTIMIZE": "1", "OMP_NUM_THREADS": "2"}
    assert way.run(work, source, launcher=False, env=env).stdout == "1 2\n"


def test_the_agent_that_runs_is_torchruns(way: Way, work: Path) -> None:
    source = "import os; print(*sorted(name for name in os.environ if name.startswith('TORCHELASTIC')))"
    run = way.run(work, source, nproc=1)
    cold = way.run(work, warm=False, nproc=1)
    assert run.stdout == cold.stdout != ""
