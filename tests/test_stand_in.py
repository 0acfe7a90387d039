"""The simulated GPUs: right scripts, however written, get full marks; wrong ones lose what they miss.

The scripts stand in tests/stand_in/. Most launches are saved Runs; those marked `launch` are made for real,
and where this machine has GPUs the same checks run on them.
"""

from __future__ import annotations

import dataclasses
import importlib.util
import shutil
from pathlib import Path

import pytest

from autograder import gpu_marks, launch
from autograder.launch import command, store
from autograder.launch.run import Delay, Event, Request, Run
from autograder.verdict import diagnosis, evidence, gpu, marks, record_look
from autograder.verdict.outcome import NotGraded, TestFailed

SCRIPTS = Path(__file__).parent / "stand_in"
RIGHT = ("as_the_page", "with_a_class", "with_strings")
NCCL = {"MCI_BACKEND": "nccl"}
PAIR = {"nproc": 2, "gpus": 2, "env": NCCL}
SECOND_NODE = {"nproc": 1, "nnodes": 2, "gpus": 2, "env": NCCL}   # rank 1 has LOCAL_RANK 0
CALM = {"nproc": 2, "gpus": 2}
KEY_BEFORE = "57973f5f08c0d2915d8e9e190eb66551445534b0"   # of tests/data/run_before_gpus.json
LIMIT_S = 180.0   # of a launch on a busy machine

SET_DEVICE = "    torch.cuda.set_device(local)\n    return torch.device(\"cuda\", local), \"nccl\""
GUARD = "os.environ.get(\"MCI_BACKEND\", \"gloo\") != \"nccl\""
WRAP = 'DDP(model, device_ids=[local]) if device.type == "cuda" else DDP(model)'
RANK_AS_INDEX = [('int(os.environ["LOCAL_RANK"])', 'int(os.environ["RANK"])'),
                 ("device_ids=[local]", "device_ids=[rank]")]
EVENTS = """    begin.record()
    dist.all_reduce(tensor)
    end.record()
    end.synchronize()
    return begin.elapsed_time(end)"""


def run_of(folder: Path, text: str, **settings: object) -> Run:
    (folder / "labo.py").write_text(text, encoding="utf-8")
    return launch(folder / "labo.py", time_limit_s=LIMIT_S, **settings)


def right(name: str) -> str:
    return (SCRIPTS / f"{name}.py").read_text(encoding="utf-8")


def wrong(*changes: tuple[str, str], name: str = "as_the_page") -> str:
    text = right(name)
    for old, new in changes:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text


def judged(run: Run) -> dict[str, bool]:
    """Each expectation of the nccl branch, by name."""
    m = gpu_marks(10, run)
    return {"backend": m.backend("nccl"), "device": m.device(), "device_ids": m.device_ids(),
            "clock": m.cuda_clock()}


# -- right scripts -------------------------------------------------------------------------------------------

@pytest.mark.parametrize("settings", [PAIR, SECOND_NODE], ids=["pair", "second-node"])
@pytest.mark.parametrize("name", RIGHT)
def test_a_right_script_has_full_marks_however_it_is_written(
    name: str, settings: dict, tmp_path: Path, capsys: pytest.CaptureFixture[str],
) -> None:
    run = run_of(tmp_path, right(name), **settings)
    assert run.exit_code == 0, run.stderr
    assert not gpu.unknown(run)
    m = gpu_marks(10, run)
    m.backend("nccl", points=1)
    m.device(points=2)
    m.device_ids(points=2)
    m.cuda_clock(points=1)
    for rank in (0, 1):
        local = gpu.local_rank(run, rank)
        m.text(f"RANK={rank} LOCAL_RANK={local} WORLD_SIZE=2 backend=nccl", rank, points=0.5)
        m.text(f"moyenne {rank} [3.0, 5.0]", rank, points=0.5)
        m.text(f"gradient {rank} [[0.5, 1.5]]", rank, points=0.5)
    m.text("all_reduce_ms", 0, points=1)
    m.ddp(gate=True)
    m.collective("all_reduce")
    assert m.total() == 10
    assert "tout est juste" in capsys.readouterr().out


@pytest.mark.parametrize("name", RIGHT)
def test_a_right_script_leaves_visible_gpus_alone_without_mci_backend(name: str, tmp_path: Path) -> None:
    run = run_of(tmp_path, right(name), **CALM)
    m = gpu_marks(1, run)
    assert m.on_cpu(points=1)
    assert m.total() == 1
    assert not m.device() and not m.device_ids() and not m.cuda_clock()   # nothing is earned by doing nothing


def test_no_gpu_is_visible_even_where_there_are_some(tmp_path: Path) -> None:
    run = run_of(tmp_path, right("as_the_page"), nproc=2, gpus=0, env=NCCL)
    assert marks.marks(1, run).text("MCI_BACKEND=nccl demande un GPU visible.")
    found = diagnosis.diagnose(run)
    assert found is not None and found.id == "nccl-no-gpu"


def test_the_record_holds_what_ran(tmp_path: Path) -> None:
    run = run_of(tmp_path, right("as_the_page"), **SECOND_NODE)
    for rank in (0, 1):
        assert gpu.backend(run, rank) == "nccl"
        assert gpu.devices(run, rank) == {0}
        assert gpu.device_ids(run, rank) == [0]
        assert gpu.clock(run, rank) == gpu.EVENTS
    assert evidence.is_mean_of_local_gradients(run, [[0.5, 1.5]])
    assert evidence.did(run, "all_reduce", 0, 2, [[6.0, 10.0]])


def test_one_process_sees_what_cuda_would_show(tmp_path: Path) -> None:
    run = run_of(tmp_path, right("semantics"), launcher=False, gpus=2)
    assert "fini" in run.stdout, run.stderr
    assert gpu.unknown(run) == ("torch.cuda.CUDAGraph",)


# -- wrong scripts -------------------------------------------------------------------------------------------

NO_DEVICE_IDS = [(WRAP, "DDP(model)")]
HOST_CLOCK = [(EVENTS, """    mark = time.perf_counter()
    dist.all_reduce(tensor)
    return 1e3 * (time.perf_counter() - mark)""")]


@pytest.mark.parametrize(("changes", "settings", "lost"), [
    pytest.param(RANK_AS_INDEX, SECOND_NODE, {"device"}, id="rank-as-index"),
    pytest.param(NO_DEVICE_IDS, PAIR, {"device_ids"}, id="no-device-ids"),
    pytest.param(HOST_CLOCK, PAIR, {"clock"}, id="perf-counter"),
])
def test_a_wrong_script_loses_what_it_misses(
    changes: list, settings: dict, lost: set, tmp_path: Path,
) -> None:
    run = run_of(tmp_path, wrong(*changes), **settings)
    assert {name for name, ok in judged(run).items() if not ok} == lost
    assert not gpu.unknown(run)


def test_rank_as_index_is_told_in_french(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    m = gpu_marks(2, run_of(tmp_path, wrong(*RANK_AS_INDEX), **SECOND_NODE))
    m.device(points=1)
    m.backend("nccl", points=1)
    assert m.total() == 1
    said = capsys.readouterr().out
    assert "Rang 1 (LOCAL_RANK=0)" in said and "cuda:1" in said
    assert "GPU simulés" in said and "gpus" not in said


def test_without_set_device_two_ranks_share_a_gpu(tmp_path: Path) -> None:
    run = run_of(tmp_path, wrong((SET_DEVICE, '    return torch.device("cuda"), "nccl"'),
                                 ("device_ids=[local]", "device_ids=[0]")), **PAIR)
    assert run.exit_code != 0
    found = diagnosis.diagnose(run)
    assert found is not None and found.id == "duplicate-gpu"
    assert not judged(run)["device"]
    m = gpu_marks(1, run)
    m.device(points=1)
    with pytest.raises(TestFailed, match="même GPU"):
        m.total()


@pytest.mark.parametrize(("new", "clock", "earned"), [
    (EVENTS.replace("    end.synchronize()\n", ""), gpu.EVENTS_NOT_WAITED, 1),
    ("""    mark = time.perf_counter()
    dist.all_reduce(tensor)
    torch.cuda.synchronize()
    return 1e3 * (time.perf_counter() - mark)""", gpu.HOST_WAITED, 1),
    ("    dist.all_reduce(tensor)\n    return 0.1", None, 0),
], ids=["event-never-waited", "host-clock-waited", "not-timed"])
def test_half_a_clock_is_half_the_points(new: str, clock: str, earned: float, tmp_path: Path) -> None:
    run = run_of(tmp_path, wrong((EVENTS, new)), **PAIR)
    assert gpu.clock(run, 0) == clock
    m = gpu_marks(2, run)
    m.cuda_clock(points=2)
    if earned:
        assert m.total() == earned
    else:
        with pytest.raises(TestFailed):
            m.total()


@pytest.mark.parametrize("guard", ["not torch.cuda.is_available()", "False"], ids=["when-visible", "always"])
def test_nccl_that_nobody_asked_for_is_wrong(guard: str, tmp_path: Path) -> None:
    run = run_of(tmp_path, wrong((GUARD, guard)), **CALM)
    m = gpu_marks(1, run)
    assert not m.on_cpu(points=1)
    with pytest.raises(TestFailed, match="personne n'a demandé nccl"):
        m.total()


def test_a_tensor_of_the_host_is_refused_by_nccl(tmp_path: Path) -> None:
    run = run_of(tmp_path, wrong(("dtype=torch.float32, device=device)\n    print(f\"entre",
                                  "dtype=torch.float32)\n    print(f\"entre")), **PAIR)
    assert "No backend type associated with device type cpu" in run.stderr
    assert not gpu.unknown(run)


# -- what cannot be followed, and what tampers ---------------------------------------------------------------

@pytest.mark.parametrize("line", [
    "torch.cuda.memory_snapshot()", "torch.zeros(2).cuda().__dlpack__()", "torch.cuda.FloatTensor([1.0])",
])
def test_what_is_not_followed_goes_to_a_person(line: str, tmp_path: Path) -> None:
    text = wrong(("    rank, local, world =", f"    {line}\n    rank, local, world ="))
    run = run_of(tmp_path, text, **PAIR)
    assert run.exit_code != 0 and gpu.unknown(run)
    m = gpu_marks(1, run)
    m.backend("gloo", points=1)
    with pytest.raises(NotGraded, match="une personne lira"):
        m.total()
    assert marks.LAST is not None and marks.LAST.status == "not_graded"


def test_what_is_not_followed_costs_nothing_when_all_is_right(tmp_path: Path) -> None:
    text = wrong(("    model = torch.nn", "    torch.compile(abs)\n    model = torch.nn"))
    run = run_of(tmp_path, text, **PAIR)
    assert gpu.unknown(run) == ("torch.compile",)
    m = gpu_marks(1, run)
    m.device(points=1)
    assert m.total() == 1


TAMPER = """
import sys
torch.overrides._pop_mode()
for name in [name for name in sys.modules if name.startswith("_autograder")]:
    module = sys.modules.pop(name)
    vars(module).clear()
"""


def test_a_script_that_tampers_does_not_stop_the_grading(tmp_path: Path) -> None:
    run = run_of(tmp_path, wrong(("\ndef pick():", f"{TAMPER}\n\ndef pick():")), **PAIR)
    assert run.infra is None
    m = gpu_marks(1, run)
    m.device(points=0.5)
    m.cuda_clock(points=0.5)
    with pytest.raises((TestFailed, NotGraded)):
        m.total()


def test_a_forged_record_raises_nothing() -> None:
    events = tuple(
        Event(rank, name, at, None, detail)
        for rank in (0, 1) for at, name in enumerate((
            "cuda_backend", "init", "cuda_collective", "cuda_ddp", "cuda_record", "cuda_elapsed",
            "cuda_unknown"))
        for detail in ({}, {"devices": "x", "device": [], "cuda": {}, "op": 3, "start": [], "end": None})
    )
    run = Run(request=Request(gpus=2), command="", script_sha256="", exit_code=0, timed_out=False,
              duration_s=0.0, events=events)
    assert set(judged(run).values()) == {False}
    assert gpu.unknown(run)


# -- what it leaves alone ------------------------------------------------------------------------------------

def test_nothing_is_loaded_without_gpus(tmp_path: Path) -> None:
    text = ("import sys, torch\nprint(sorted(n for n in sys.modules if n.startswith('_autograder')))\n"
            "print(torch.overrides._get_current_function_mode_stack(), type(torch.device))\n")
    run = run_of(tmp_path, text, launcher=False)
    assert run.stdout == "['_autograder_marks']\n[] <class 'type'>\n"


def test_the_saved_runs_keep_their_keys(root: Path, tmp_path: Path) -> None:
    """A request without simulated GPUs is the launch that it was before there were any."""
    assert "gpus" not in (root / "tests" / "data" / "run_before_gpus.json").read_text(encoding="utf-8")
    old = Run.from_json((root / "tests" / "data" / "run_before_gpus.json").read_text(encoding="utf-8"))
    assert old.request.gpus is None
    (tmp_path / old.request.script).write_text(old.source, encoding="utf-8")
    assert store.key(old.request, tmp_path) == KEY_BEFORE
    assert store.key(dataclasses.replace(old.request, gpus=2), tmp_path) != KEY_BEFORE
    assert store.key(dataclasses.replace(old.request, gpus=0), tmp_path) != KEY_BEFORE


def test_simulated_gpus_are_not_typed_by_students() -> None:
    request = Request(gpus=2, env=NCCL)
    assert command.as_typed(request) == command.as_typed(dataclasses.replace(request, gpus=None))
    env = {"CUDA_VISIBLE_DEVICES": "3"}
    settings = {"marker": "m", "record": Path("r"), "epoch": 0.0, "inherited": env}
    assert "AUTOGRADER_GPUS" not in command.environment(Request(), **settings)
    assert command.environment(Request(), **settings)["CUDA_VISIBLE_DEVICES"] == "3"
    assert command.environment(Request(gpus=2), **settings)["AUTOGRADER_GPUS"] == "2"
    assert "CUDA_VISIBLE_DEVICES" not in command.environment(Request(gpus=2), **settings)
    assert command.environment(Request(gpus=0), **settings)["CUDA_VISIBLE_DEVICES"] == ""


def test_the_witness_tells_the_clock_of_real_events_too() -> None:
    """The classes of a real GPU are dressed by the same code; here a class that behaves like theirs."""
    spec = importlib.util.spec_from_file_location("witness", command.RECORDER / "_autograder_witness.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)

    class Recorder:
        events: tuple[Event, ...] = ()

        def event(self, name: str, **detail: object) -> None:
            self.events += (Event(0, name, float(len(self.events)), None, detail),)

    class Real:
        def record(self, stream: object = None) -> None: ...
        def synchronize(self) -> None: ...
        def query(self) -> bool:
            return True

        def elapsed_time(self, end: Real) -> float:
            return 2.5

    recorder = Recorder()
    module.Witness(recorder).events(Real)
    start, end = Real(), Real()
    start.record()
    recorder.event("cuda_collective", op="all_reduce", device=0)
    end.record()
    end.synchronize()
    assert end.query() and start.elapsed_time(end) == 2.5
    run = Run(request=Request(), command="", script_sha256="", exit_code=0, timed_out=False, duration_s=0.0,
              events=recorder.events)
    assert [event.name for event in run.events] == [
        "cuda_record", "cuda_collective", "cuda_record", "cuda_sync", "cuda_sync", "cuda_elapsed"]
    assert gpu.clock(run, 0) == gpu.EVENTS and gpu.devices(run, 0) == {0} and not gpu.unknown(run)


# -- real launches -------------------------------------------------------------------------------------------

@pytest.mark.launch
def test_events_time_the_work_and_not_the_launch(tmp_path: Path) -> None:
    late = (Delay(rank=1, seconds=0.3, numel=8),)
    run = run_of(tmp_path, right("as_the_page"), delays=late, **PAIR)
    printed = next(line for line in run.stdout.splitlines() if line.startswith("all_reduce_ms"))
    assert float(printed.split()[1]) >= 270
    assert all(judged(run).values())
    assert record_look.look(run) == []   # torch comes back to its collectives through the simulation


@pytest.mark.launch
def test_two_ranks_on_one_simulated_gpu(tmp_path: Path) -> None:
    run = run_of(tmp_path, wrong(("torch.cuda.set_device(local)", "local = 0")), **PAIR)
    found = diagnosis.diagnose(run)
    assert found is not None and found.id == "duplicate-gpu"
    assert record_look.look(run) == []


def real_gpus() -> int:
    if shutil.which("nvidia-smi") is None:
        return 0   # torch need not be loaded to know it
    import torch

    return torch.cuda.device_count()


@pytest.mark.launch
@pytest.mark.skipif(real_gpus() < 2, reason="needs two real GPUs: one process per GPU")
@pytest.mark.parametrize("name", RIGHT)
def test_a_right_script_on_real_gpus(name: str, tmp_path: Path) -> None:
    run = run_of(tmp_path, right(name), nproc=2, env=NCCL)
    assert run.exit_code == 0, run.stderr
    assert all(judged(run).values())


@pytest.mark.launch
@pytest.mark.skipif(real_gpus() < 2, reason="needs two real GPUs: one process per GPU")
@pytest.mark.parametrize(("changes", "lost"), [
    pytest.param(NO_DEVICE_IDS, {"device_ids"}, id="no-device-ids"),
    pytest.param(HOST_CLOCK, {"clock"}, id="perf-counter"),
])
def test_a_wrong_script_loses_the_same_on_real_gpus(changes: list, lost: set, tmp_path: Path) -> None:
    run = run_of(tmp_path, wrong(*changes), nproc=2, env=NCCL)
    assert {name for name, ok in judged(run).items() if not ok} == lost


@pytest.mark.launch
@pytest.mark.skipif(real_gpus() < 1, reason="needs a real GPU that two ranks can share by mistake")
def test_two_ranks_on_one_real_gpu(tmp_path: Path) -> None:
    run = run_of(tmp_path, wrong(("torch.cuda.set_device(local)", "local = 0")), nproc=2, env=NCCL)
    found = diagnosis.diagnose(run)
    assert found is not None and found.id == "duplicate-gpu"
    assert gpu.devices(run, 0) == {0}


@pytest.mark.launch
@pytest.mark.skipif(real_gpus() < 1, reason="needs a real GPU, to be left alone")
def test_a_real_gpu_is_left_alone_without_mci_backend(tmp_path: Path) -> None:
    assert gpu_marks(1, run_of(tmp_path, right("as_the_page"), nproc=2)).on_cpu()
