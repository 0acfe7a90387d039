"""Real launches: few, and each looks at several things. None depends on the machine's speed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest

import autograder.launch
from autograder.launch import Request, Run, command, engine, processes, run_request
from autograder.launch.run import Delay

launched = pytest.mark.launch
on_linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="processes are adopted on Linux")


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    folder = tmp_path / "élève n°1 (copie)"
    folder.mkdir()
    return folder


def write(folder: Path, source: str, name: str = "labo.py") -> Path:
    path = folder / name
    path.write_text(textwrap.dedent(source), encoding="utf-8")
    return path


def alive(name: str) -> list[psutil.Process]:
    """Processes whose command line holds `name`, but for ourselves."""
    found = []
    for process in psutil.process_iter():
        try:
            if name in " ".join(process.cmdline()) and process.pid != os.getpid():
                found.append(process)
        except psutil.Error:
            continue
    return [process for process in found if process.status() != psutil.STATUS_ZOMBIE]


def gone(name: str, seconds: float = 30) -> bool:
    deadline = time.monotonic() + seconds
    while alive(name) and time.monotonic() < deadline:
        time.sleep(0.1)
    return not alive(name)


# -- without launching ------------------------------------------------------------------------------

def test_a_missing_script_is_a_run_not_an_exception(copy: Path) -> None:
    run = run_request(Request(), copy)
    assert run.exit_code == 2 and run.infra is None and "can't open file 'labo.py'" in run.launcher_stderr


def infra_run(folder: Path) -> Run:
    return engine._empty(Request(), infra="port")


def test_a_fault_of_the_machine_is_tried_once_more(copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(copy, "")
    calls: list[int] = []

    def launch(request: Request, folder: Path) -> Run:
        calls.append(1)
        return engine._empty(request, infra="port" if len(calls) == 1 else None)

    monkeypatch.setattr(engine, "_launch", launch)
    monkeypatch.setattr(engine, "RETRY_S", 0)
    assert run_request(Request(), copy).infra is None
    assert len(calls) == 2
    monkeypatch.setattr(engine, "_launch", lambda request, folder: infra_run(folder))
    assert run_request(Request(), copy).infra == "port"


def test_a_full_disk_is_the_machines_fault(copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(copy, "")
    monkeypatch.setattr(engine, "RETRY_S", 0)

    def full(request: Request, folder: Path) -> Run:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(engine, "_launch", full)
    assert run_request(Request(), copy).infra == "disk"


# -- with ranks that learn and speak ------------------------------------------------------------------

FULL = """\
    import inspect, os, sys, time
    import torch
    import torch.distributed as dist
    from torch.distributed import all_reduce
    from torch.nn.parallel import DistributedDataParallel as DDP

    dist.init_process_group("gloo")
    rank = dist.get_rank()
    rows = torch.tensor([[1.0, 3.0], [5.0, 7.0]][rank])
    all_reduce(rows)
    torch.distributed.distributed_c10d.all_reduce(torch.ones(8), op=dist.ReduceOp.MAX)
    dist.all_reduce(torch.ones(3), async_op=True).wait()
    try:
        dist.all_reduce(3.0)
    except TypeError:
        pass
    model = DDP(torch.nn.Linear(2, 1, bias=False))
    model(torch.tensor([[[1.0, 0.0]], [[0.0, 3.0]]][rank])).sum().backward()
    print(f"é moyenne {rank} {(rows / 2).tolist()} gradient {model.module.weight.grad.tolist()}")
    print(all_reduce.__name__, inspect.signature(all_reduce), all_reduce is dist.all_reduce)
    print([name for name in os.environ if name.startswith("AUTOGRADER_")], os.environ.get("PYTHONPATH"),
          [entry for entry in sys.path if "recorder" in entry], sys.stdin.read())
    del model
    dist.destroy_process_group()
"""


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("classe") / "élève n°1 (copie)"
    folder.mkdir()
    write(folder, FULL)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LC_ALL", "C")
        patch.setenv("RANK", "7")
        patch.setenv("MASTER_PORT", "1")
        patch.delenv("PYTHONPATH", raising=False)
        return run_request(Request(delays=(Delay(1, 0.3, numel=8),)), folder)


@launched
def test_texts_and_exits_by_rank_in_a_folder_with_accents_under_the_c_locale(full: Run) -> None:
    assert full.exit_code == 0, full.stderr + full.launcher_stderr
    assert [(log.rank, log.local_rank, log.exit_code, log.reached_end) for log in full.ranks] == [
        (0, 0, 0, True), (1, 1, 0, True)]
    for log in full.ranks:
        assert f"é moyenne {log.rank} [3.0, 5.0] gradient [[0.5, 1.5]]" in log.stdout
        assert log.stderr == ""
    assert full.left_over == 0 and full.infra is None and not full.timed_out


@launched
def test_the_recorder_changes_nothing_that_a_script_can_see(full: Run) -> None:
    for log in full.ranks:
        signature = "(tensor, op=<RedOpType.SUM: 0>, group=None, async_op: bool = False)"
        assert f"all_reduce {signature} True" in log.stdout
        assert f"['{command.MARKER}'] None [] \n" in log.stdout


@launched
def test_every_way_of_calling_a_collective_leaves_its_mark(full: Run) -> None:
    for rank in (0, 1):
        marks = [item for item in full.collectives if item.source == "mark" and item.rank == rank]
        assert [(item.op, item.numel, item.line) for item in marks] == [
            ("all_reduce", 2, 10), ("all_reduce", 8, 11), ("all_reduce", 3, 12), ("all_reduce", 0, 14)]
        rows, probe, started, refused = marks
        assert rows.values_in == ((1.0, 3.0), (5.0, 7.0))[rank] and rows.values_out == (6.0, 10.0)
        assert (rows.reduce_op, probe.reduce_op, started.values_out) == ("sum", "max", None)
        assert refused.dtype == "float" and "TypeError" in str(refused.error)


@launched
def test_ddps_own_collectives_and_local_gradients_are_recorded(full: Run) -> None:
    for rank in (0, 1):
        seen = [item for item in full.collectives if item.source == "flight_recorder" and item.rank == rank]
        marked = [item for item in full.collectives if item.source == "mark" and item.rank == rank]
        assert sum(item.op == "all_reduce" for item in seen) == sum(not item.error for item in marked) + 1
    assert [item.values for item in full.gradients] == [(1.0, 0.0), (0.0, 3.0)]
    assert [item.detail["device_ids"] for item in full.events if item.name == "ddp"] == [False, False]


@launched
def test_a_delayed_rank_enters_late_and_the_other_waits_for_it(full: Run) -> None:
    probes = [item for item in full.collectives if item.source == "mark" and item.numel == 8]
    waited = [item.returned - item.entered for item in probes if item.returned is not None]
    assert waited[0] >= 0.27 and waited[1] < waited[0]
    assert [item.rank for item in full.events if item.name == "delay"] == [1]


# -- how a launch ends ---------------------------------------------------------------------------------

@launched
def test_without_launcher_the_exception_has_its_line(copy: Path) -> None:
    write(copy, 'import os\n\nprint(os.environ["RANK"])\n')
    run = run_request(Request(launcher=False), copy)
    assert (run.command, run.exit_code) == ("python3 labo.py", 1)
    assert run.ranks[0].error_line == 3 and "KeyError: 'RANK'" in run.stderr
    assert 'File "labo.py"' in run.stderr and "recorder" not in run.stderr


@launched
def test_two_nodes_of_one_rank(copy: Path) -> None:
    write(copy, 'import os\nprint(*(f"{k}={os.environ[k]}" for k in ("RANK", "LOCAL_RANK", "WORLD_SIZE")))\n')
    run = run_request(Request(nproc=1, nnodes=2), copy)
    assert run.exit_code == 0, run.launcher_stderr
    assert [log.stdout for log in run.ranks] == [
        "RANK=0 LOCAL_RANK=0 WORLD_SIZE=2\n", "RANK=1 LOCAL_RANK=0 WORLD_SIZE=2\n"]


@launched
@on_linux
def test_at_the_deadline_stacks_are_taken_and_no_process_is_left(copy: Path, tmp_path: Path) -> None:
    name = f"orphelin-{os.getpid()}.py"
    write(tmp_path, "import time\nwhile True:\n    time.sleep(1)\n", name)
    daemon = f"[sys.executable, {str(tmp_path / name)!r}]"
    write(copy, f"""\
        import os, signal, subprocess, sys, time
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:   # two forks, its own session, no file of ours, an empty environment
                os.chdir("/")
                os.closerange(0, 64)
                os.execve(sys.executable, {daemon}, {{}})
            os._exit(0)
        print("pret", flush=True)
        while True:
            time.sleep(1)
        """)
    run = run_request(Request(time_limit_s=12), copy)
    assert run.timed_out and run.left_over >= 2
    assert gone(name, 0)
    assert [log.exit_code for log in run.ranks] == [-9, -9]
    assert [stack.frames[-1].code for stack in run.stacks] == ["time.sleep(1)", "time.sleep(1)"]


@launched
def test_an_endless_printer_is_stopped_with_head_and_tail(copy: Path) -> None:
    write(copy, 'print("debut")\nwhile True:\n    print("x" * 100)\n')
    run = run_request(Request(output_limit_bytes=20_000, nproc=1), copy)
    (log,) = run.ranks
    assert run.output_limited and not run.timed_out and log.truncated
    assert log.stdout.startswith("debut") and "octets coupés" in log.stdout and len(log.stdout) < 21_000


@launched
def test_two_launches_at_once_never_meet_even_with_a_port_written_by_hand(tmp_path: Path) -> None:
    port = command.free_port()
    folders = [tmp_path / "a", tmp_path / "b"]
    for folder in folders:
        folder.mkdir()
        write(folder, f"""\
            import os
            import torch
            import torch.distributed as dist
            dist.init_process_group("gloo", init_method="tcp://127.0.0.1:{port}",
                                    rank=int(os.environ["RANK"]), world_size=2)
            total = torch.tensor([{10.0 if folder.name == "a" else 1.0}])
            dist.all_reduce(total)
            print(total.item())
            dist.destroy_process_group()
            """)
    with ThreadPoolExecutor(2) as pool:
        runs = list(pool.map(lambda folder: run_request(Request(), folder), folders))
    assert [run.stdout for run in runs] == ["20.0\n20.0\n", "2.0\n2.0\n"], runs[0].stderr + runs[1].stderr


@launched
@on_linux
def test_nothing_outlives_the_process_that_launched(copy: Path, tmp_path: Path) -> None:
    name = f"labo-{os.getpid()}.py"
    write(copy, 'import time\nopen("pret", "w").close()\nwhile True:\n    time.sleep(1)\n', name)
    code = ("import sys; from pathlib import Path; from autograder.launch import Request, run_request; "
            "run_request(Request(script=sys.argv[1], time_limit_s=120), Path(sys.argv[2]))")
    temporary = tmp_path / "temporaire"
    temporary.mkdir()
    env = {**os.environ, "TMPDIR": str(temporary)}
    parent = subprocess.Popen([sys.executable, "-c", code, name, str(copy)], env=env)
    deadline = time.monotonic() + 60
    while not (copy / "pret").exists() and time.monotonic() < deadline:
        time.sleep(0.1)
    assert alive(name)
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    assert gone(name) and gone(str(temporary))   # the second: what watched over them
    assert not list(temporary.iterdir())


@launched
def test_where_outputs_cannot_be_separated_they_are_merged(
    copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "per_rank_logs", lambda platform="": False)
    monkeypatch.setattr(processes, "start", lambda job: processes.Direct(job))
    write(copy, """\
        import os
        print("rang", os.environ["RANK"])
        """)
    run = run_request(Request(), copy)
    assert not run.per_rank and run.ranks == () and run.exit_code == 0
    assert "rang 0" in run.stdout and "rang 1" in run.stdout


@launched
def test_the_package_is_the_function_and_launches_once(copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(copy, 'open("compte", "a").write("1")\n')
    monkeypatch.chdir(copy)
    from autograder import launch

    assert launch("labo.py", launcher=False) is launch("labo.py", launcher=False)
    assert (copy / "compte").read_text() == "1"
    assert launch is autograder.launch


@launched
def test_a_killed_rank_leaves_what_it_had_streamed(copy: Path) -> None:
    write(copy, """\
        import os, signal, torch
        import torch.distributed as dist
        dist.init_process_group("gloo")
        rank = dist.get_rank()
        pair = dist.new_group([0, 1])
        alone = dist.new_group([0])
        t = torch.tensor([1.0 + rank])
        dist.all_reduce(t, group=pair)
        if rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        dist.all_reduce(t)
        """)
    run = run_request(Request(), copy)
    assert [log.exit_code for log in run.ranks if log.rank == 1] == [-9]
    (before,) = [item for item in run.collectives if item.rank == 1]   # the marks, and no Flight Recorder
    assert (before.source, before.line, before.values_in, before.values_out) == ("mark", 8, (2.0,), (3.0,))
    assert before.returned is not None
    told = [(event.name, event.line) for event in run.events if event.rank == 1]
    assert told == [("start", None), ("init-enter", 3), ("init", 3), ("new_group", 5), ("new_group", 6)]
    assert [event.detail["ranks"] for event in run.events if event.name == "new_group"][-2:] == [[0, 1], [0]]
    assert [event.name for event in run.events if event.name.startswith("destroy")] == []


@launched
def test_the_end_of_a_group_of_some_ranks_is_not_that_of_all(copy: Path) -> None:
    write(copy, """\
        import torch, torch.distributed as dist
        dist.init_process_group("gloo")
        pair = dist.new_group()
        dist.all_reduce(torch.ones(1), group=pair)
        dist.destroy_process_group(pair)
        dist.all_reduce(torch.ones(2))
        dist.destroy_process_group()
        """)
    run = run_request(Request(), copy)
    assert run.exit_code == 0, run.stderr
    for rank in (0, 1):
        names = [event.name for event in run.events if event.rank == rank]
        assert names == ["start", "init-enter", "init", "new_group", "destroy_group", "destroy"]
        seen = [item for item in run.collectives if item.rank == rank and item.source == "flight_recorder"]
        assert [item.numel for item in seen if item.op == "all_reduce"] == [1, 2]
