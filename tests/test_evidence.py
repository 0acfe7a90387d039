"""Reading what the ranks, the launcher and the machine left: whatever it is, it never raises."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from autograder.launch import evidence, faults, tidy
from autograder.launch.evidence import RankRecord
from autograder.launch.run import Event, Frame, RankLog, Request, Run, Stack

BROKEN = Path(__file__).parent / "runs_broken"

HANG_0 = """\
{"k":"start","at":0.5,"pid":10,"rank":0,"local_rank":0}
{"k":"event","at":0.9,"name":"init","line":5,"detail":{"backend":"gloo"}}
{"k":"enter","at":1.0,"op":"all_reduce","n":0,"numel":2,"line":2,"dtype":"float32","shape":[2],"reduce":"sum","in":[1.0,3.0]}
{"k":"leave","at":1.1,"n":0,"out":[6.0,10.0]}
{"k":"gradient","at":1.2,"name":"weight","shape":[1,2],"values":[0.5,1.5]}
{"k":"enter","at":1.5,"op":"barrier","n":1,"numel":0,"line":3,"dtype":"","shape":[],"in":null}
{"k":"stack","at":9.0,"frames":[["/x/labo.py",3,"<module>"],["/r/recorder/sitecustomize.py",9,"call"],["/t/c10d.py",7,"barrier"]]}
{"k":"dumped","at":9.1}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "rank0.jsonl").write_text(HANG_0)
    (tmp_path / "rank1.jsonl").write_text(
        '{"k":"start","at":0.5,"pid":11,"rank":1,"local_rank":1}\n'
        '{"k":"event","at":2.0,"name":"exception","line":4,"detail":{"type":"ValueError","message":"é"}}\n'
        '{"k":"end","at":2.5}\n')
    (tmp_path / "labo.py").write_text("t = un_tenseur()\ndist.all_reduce(t)\ndist.barrier()\n")
    return tmp_path


def read(folder: Path) -> evidence.Evidence:
    return evidence.read(folder, world_size=2, epoch=100.0, script=folder / "labo.py")


def test_a_collective_has_its_line_its_values_and_its_return(folder: Path) -> None:
    first, second = read(folder).collectives
    assert (first.op, first.line, first.shape, first.reduce_op) == ("all_reduce", 2, (2,), "sum")
    assert (first.values_in, first.values_out) == ((1.0, 3.0), (6.0, 10.0))
    assert (first.entered, first.returned) == (1.0, 1.1)
    assert (second.op, second.returned) == ("barrier", None)


def test_the_stack_of_a_hung_rank_quotes_the_script_and_hides_the_recorder(folder: Path) -> None:
    (stack,) = read(folder).stacks
    assert [(frame.file, frame.line, frame.code) for frame in stack.frames] == [
        ("labo.py", 3, "dist.barrier()"), ("c10d.py", 7, "")]


def test_the_life_of_each_rank(folder: Path) -> None:
    found = read(folder)
    assert found.ranks[0] == RankRecord(0, 0, 10, 0.5)
    assert found.ranks[1] == RankRecord(1, 1, 11, 0.5, ended=2.5, error_line=4, raised=True)
    assert found.gradients[0].values == (0.5, 1.5)
    assert [event.name for event in found.events if event.rank == 0] == ["start", "init"]


def test_a_rank_that_ended_is_not_waited_for(folder: Path) -> None:
    assert evidence.dumped(folder, 2)
    (folder / "rank1.jsonl").write_text('{"k":"start","at":0.5}\n')
    assert not evidence.dumped(folder, 2)


@pytest.mark.parametrize("line", [
    "", "{", "[]", "null", '{"k":"enter"}', '{"k":"leave","at":1,"n":99}', '{"k":"start","at":"x"}',
    '{"k":7,"at":1}',
    '{"k":"stack","at":1,"frames":[[1]]}', '{"k":"record","at":1}', '{"k":"event","at":1}', "[" * 100_000,
    '{"k":"enter","at":1,"n":0,"op":"all_reduce","numel":"?","shape":3,"dtype":null}', "\x00\xff",
])
def test_whatever_a_script_forges_is_ignored(tmp_path: Path, line: str) -> None:
    (tmp_path / "rank0.jsonl").write_text(line + "\n", encoding="utf-8")
    (tmp_path / "flight0.json").write_text(line, encoding="utf-8")
    found = read(tmp_path)
    assert found.collectives == () and found.ranks == {}


def test_the_flight_recorder_is_read_in_the_time_of_the_launch() -> None:
    text = json.dumps({"entries": [
        {"profiling_name": "gloo:all_reduce", "collective_seq_id": 3, "input_sizes": [[2, 4]],
         "input_dtypes": ["Float"], "time_created_ns": 101_500_000_000},
        {"profiling_name": "gloo:broken"},
    ]})
    (found,) = evidence.flight_recorder(text, 1, 100.0)
    assert (found.rank, found.seq, found.op, found.numel, found.shape) == (1, 3, "all_reduce", 8, (2, 4))
    assert (found.dtype, found.entered, found.source) == ("float32", 1.5, "flight_recorder")


# -- what the launcher says ------------------------------------------------------------------------

SUMMARY = """\
W torch/distributed/elastic/multiprocessing/api.py:1028] Sending process 10 closing signal SIGTERM
Root Cause (first observed failure):
[0]:
  rank      : 1 (local_rank: 1)
  exitcode  : -9 (pid: 11)  (SIGKILL)
  error_file: <N/A>
"""
RANKS = {0: RankRecord(0, 0, 10, 0.1), 1: RankRecord(1, 1, 11, 0.1)}


def test_exit_codes_come_from_the_launchers_summary_and_its_signals() -> None:
    assert faults.rank_exit_codes(SUMMARY, RANKS, 1, Request()) == {0: -15, 1: -9}
    forced = SUMMARY + "Unable to shutdown process 10 via 15, forcefully exiting via 9\n"
    assert faults.rank_exit_codes(forced, RANKS, 1, Request())[0] == -9


def test_an_exit_code_that_nobody_saw_is_not_invented() -> None:
    early = {0: RankRecord(0, 0, 10, 0.1, ended=1.0), 1: RankRecord(1, 1, 11, 0.1, ended=9.0, raised=True)}
    assert faults.rank_exit_codes("", early, 1, Request()) == {0: 0, 1: 1}
    assert faults.rank_exit_codes("", RANKS, None, Request()) == {}
    assert faults.rank_exit_codes("", {}, 0, Request()) == {0: 0, 1: 0}
    assert faults.rank_exit_codes("", {}, 3, Request(launcher=False)) == {0: 3}


def run(**changes: object) -> Run:
    values: dict[str, object] = {
        "request": Request(), "command": "", "script_sha256": "", "exit_code": 1, "timed_out": False,
        "duration_s": 1.0, **changes}
    return Run(**values)  # type: ignore[arg-type]


def test_a_busy_port_is_the_machines_fault_unless_the_script_imposes_it(tmp_path: Path) -> None:
    busy = run(launcher_stderr="RuntimeError: … (errno: 98 - Address already in use) EADDRINUSE")
    assert faults.find(busy, fixed_port=False, folder=tmp_path) == "port"
    assert faults.find(busy, fixed_port=True, folder=tmp_path) is None


@pytest.mark.parametrize("text", [
    "OSError: [Errno 28] No space left on device", "ModuleNotFoundError: No module named 'torch'",
    "socket.gaierror: [Errno -2] Name or service not known", "EADDRINUSE",
])
def test_a_copy_cannot_call_itself_a_victim(tmp_path: Path, text: str) -> None:
    assert faults.find(run(stderr=text), fixed_port=False, folder=tmp_path) is None


def test_the_machine_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(faults, "_resolvable", lambda name: False)
    monkeypatch.setattr(faults, "_torch_installed", lambda: False)
    monkeypatch.setattr(faults, "_nearly_full", lambda folder: True)
    for text, fault in (
        ("The IPv6 network addresses of (x, 1) cannot be retrieved (gai error: -2 - …", "hostname"),
        ("ModuleNotFoundError: No module named 'torch'", "no-torch"), ("No space left on device", "disk"),
    ):
        assert faults.find(run(stderr=text), fixed_port=False, folder=tmp_path) == fault
    ended_well = run(exit_code=0, stderr="No space left on device")
    assert faults.find(ended_well, fixed_port=False, folder=tmp_path) is None


LOADING = (
    Frame("labo.py", 1, "<module>", "import torch"),
    Frame("<frozen importlib._bootstrap>", 1176, "_find_and_load"),
)


@pytest.mark.parametrize(("changes", "fault"), [
    ({"timed_out": True}, "too-slow"),                                            # no rank ever spoke
    ({"timed_out": True, "stacks": (Stack(0, LOADING), Stack(1, LOADING))}, "too-slow"),
    ({"timed_out": True, "stacks": (Stack(0, LOADING[:1]), Stack(1, LOADING))}, "too-slow"),
    ({"timed_out": True, "stacks": (Stack(0, LOADING[:1]), Stack(1, LOADING[:1]))}, None),   # a real hang
    ({"timed_out": True, "ranks": (RankLog(0, 0, -15, "go", ""), RankLog(1, 1, -15, "go", ""))}, None),
    ({"stderr": "DistStoreError: wait timeout after 20000ms",
      "events": (Event(0, "init-enter", 5.0),)}, "too-slow"),
    ({"stderr": "DistStoreError: wait timeout after 20000ms",
      "events": (Event(0, "init-enter", 5.0), Event(1, "init-enter", 5.0))}, None),
    ({"stderr": "DistStoreError"}, None),
])
def test_ranks_that_could_not_start_in_time_are_the_machines_fault(
    tmp_path: Path, changes: dict[str, Any], fault: str | None,
) -> None:
    assert faults.find(run(**{"exit_code": 1, **changes}), fixed_port=False, folder=tmp_path) == fault


MESH = "Gloo connectFullMesh failed with [/x/pair.cc:553] Connection closed by peer [127.0.0.1]:45286."


@pytest.mark.parametrize(("message", "formed", "ended", "fault"), [
    (MESH, (1,), True, "left-early"),
    (MESH, (1,), False, None),         # the other one crashed: that is the cause
    (MESH, (), True, None),            # nobody formed it: see the verdict
    (MESH, (0, 1), True, None),
    ("Connection closed by peer", (1,), True, None),
])
def test_a_rank_that_leaves_before_the_other_one_is_there(
    tmp_path: Path, message: str, formed: tuple[int, ...], ended: bool, fault: str | None,
) -> None:
    events = [Event(0, "exception", 0.6, 28, {"type": "RuntimeError", "message": message})]
    events += [Event(rank, "init", 0.5) for rank in formed]
    ranks = RankLog(0, 0, 1, "", message), RankLog(1, 1, None, "", "", reached_end=ended)
    found = faults.find(run(ranks=ranks, events=tuple(events)), fixed_port=False, folder=tmp_path)
    assert found == fault


# -- texts -----------------------------------------------------------------------------------------

TRACE = """\
[rank1]: Traceback (most recent call last):
[rank1]:   File "{folder}/labo.py", line 8, in <module>
[rank1]:     dist.all_reduce(t)
[rank1]:   File "/opt/autograder/launch/recorder/sitecustomize.py", line 60, in call
[rank1]:     result = original(*args, **kwargs)
[rank1]:              ^^^^^^^^^^^^^^^^^^^^^^^^^
[rank1]:   File "{site}/torch/distributed/distributed_c10d.py", line 1, in all_reduce
[rank1]:     work.wait()
[rank1]: RuntimeError: Connection closed
"""


def test_a_traceback_shows_neither_the_recorder_nor_the_machine(tmp_path: Path) -> None:
    site = next(entry for entry in sys.path if entry.endswith("site-packages"))
    clean = tidy.Tidier(tmp_path / "élève n°1 (copie)", tmp_path / "t")
    text = TRACE.format(folder=tmp_path / "élève n°1 (copie)", site=site)
    for prefix in ("", "[rank1]: "):
        assert clean.stderr(text.replace("[rank1]: ", prefix)) == (
            '[rank1]: Traceback (most recent call last):\n'
            '[rank1]:   File "labo.py", line 8, in <module>\n'
            "[rank1]:     dist.all_reduce(t)\n"
            '[rank1]:   File "torch/distributed/distributed_c10d.py", line 1, in all_reduce\n'
            "[rank1]:     work.wait()\n"
            "[rank1]: RuntimeError: Connection closed\n").replace("[rank1]: ", prefix)


def test_the_launchers_text_loses_its_dates_and_host(tmp_path: Path) -> None:
    text = ("W0203 14:00:00.123000 77 torch/distributed/run.py:852] attention\n"
            "[W203 14:00:00.123456 socket.cpp:767] [c10d] adresse\n"
            "[0]:\n  time      : 2031-02-03_14:00:00\n  host      : mon-pc\n"
            "  rank      : 1 (local_rank: 1)\n")
    assert tidy.Tidier(tmp_path, tmp_path).launcher(text) == (
        "W torch/distributed/run.py:852] attention\n[W socket.cpp:767] [c10d] adresse\n"
        "[0]:\n  rank      : 1 (local_rank: 1)\n")


def test_a_long_output_keeps_its_head_and_tail(tmp_path: Path) -> None:
    path = tmp_path / "out"
    path.write_bytes(b"debut" + b"x" * 1000 + b"fin")
    text, cut = tidy.read_limited(path, 20)
    assert cut and text.startswith("debut") and text.endswith("fin") and "988 octets" in text
    assert tidy.read_limited(path, 2000) == ("debut" + "x" * 1000 + "fin", False)
    assert tidy.read_limited(tmp_path / "absent", 10) == ("", False)


# -- the saved Runs of tests/broken ----------------------------------------------------------------

@pytest.mark.parametrize("path", sorted(BROKEN.glob("*.json")), ids=lambda path: path.stem)
def test_saved_runs_are_read_and_tell_nothing_of_the_machine(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    saved = Run.from_json(text)
    assert Run.from_json(saved.to_json()) == saved
    for place in ("site-packages", "recorder/", "/home/", "/root", "/tmp"):
        assert place not in text


def test_the_silent_hang_is_in_its_evidence() -> None:
    saved = Run.from_json((BROKEN / "no_timeout_hang.json").read_text(encoding="utf-8"))
    assert saved.timed_out and saved.stdout == "" and saved.left_over == 0
    (inside,) = [item for item in saved.collectives if item.source == "mark"]
    assert (inside.rank, inside.op, inside.line, inside.returned) == (0, "all_reduce", 8, None)
    assert [stack.frames[0].line for stack in saved.stacks] == [8, 11]
