"""Each cause is concluded from what a launch leaves: texts, exit codes, the record, the stacks."""

from dataclasses import replace
from pathlib import Path

import pytest
from runs_made import GOOD, a_run, averaging, call, gradient, log, stack, traceback

from autograder.launch.run import Event, Request, Run
from autograder.verdict.cause import Context
from autograder.verdict.diagnosis import diagnose, infrastructure

# What two-process launches of tests/broken/*.py left behind, saved.
BROKEN = Path(__file__).parent / "runs_broken"
EXPECTED = {
    "skip_sleeps": ("missing-rank", 1),
    "skip_exits": ("missing-rank", 1),
    "no_timeout_hang": ("missing-rank", 1),
    "order": ("order", None),
    "shape": ("shape", None),
    "dtype": ("dtype", None),
    "no_init": ("no-init", 0),
    "init_twice": ("init-twice", None),
    "number": ("non-tensor", None),
    "rank_raises": ("exception", 1),
    "syntax": ("syntax", None),
    "killed": ("killed", 1),
    "unused": ("ddp-unused", None),
    "world_by_hand": ("world-size", None),
    "slow_step": ("slow-step", 1),
    "ignores_sigterm": ("silent-hang", None),
    "not_divided": ("not-divided", 0),
}
LINES = {"no_timeout_hang": 11, "rank_raises": 9, "syntax": 2, "no_init": 5, "init_twice": 8, "number": 8}

VICTIM = "RuntimeError: [../third_party/gloo/pair.cc:534] Connection closed by peer [127.0.0.1]:1234"
TIMED_OUT = "RuntimeError: [unbound_buffer.cc:81] Timed out waiting 5000ms for recv operation to complete"


def found(run, context=None):
    diagnosis = diagnose(run, context)
    return diagnosis and (diagnosis.id, diagnosis.rank, diagnosis.line)


@pytest.mark.parametrize("name", EXPECTED)
def test_saved_launches(name):
    path = BROKEN / f"{name}.json"
    diagnosis = diagnose(Run.from_json(path.read_text(encoding="utf-8")))
    id, rank = EXPECTED[name]
    assert diagnosis is not None and diagnosis.id == id
    assert rank is None or diagnosis.rank == rank
    assert name not in LINES or diagnosis.line == LINES[name]
    assert "Root Cause" not in diagnosis.message and "error_file" not in diagnosis.message


def test_texts_by_hand_are_told_only_to_a_test_that_wants_a_collective():
    run = Run.from_json((BROKEN / "prints_by_hand.json").read_text(encoding="utf-8"))
    assert diagnose(run) is None
    context = Context(present=("moyenne 0 [3.0, 5.0]",), collective_missing=True)
    assert diagnose(run, context).id == "hard-coded"


def test_nothing_is_wrong_with_a_right_launch():
    assert diagnose(averaging()) is None
    assert diagnose(averaging(), Context(present=("moyenne 0 [3.0, 5.0]",))) is None


ERRORS = [
    (
        "no-launcher",
        "ValueError: Error initializing torch.distributed using env:// rendezvous: "
        "environment variable RANK expected, but not set",
    ),
    ("wrong-world", "RuntimeError: Ce laboratoire attend WORLD_SIZE=2."),
    (
        "no-init",
        "ValueError: Default process group has not been initialized, please make sure to call it.",
    ),
    ("init-twice", "ValueError: trying to initialize the default process group twice!"),
    ("nccl-no-gpu", "SystemExit: MCI_BACKEND=nccl demande un GPU visible."),
    ("nccl-no-gpu", "RuntimeError: Distributed package doesn't have NCCL built in"),
    ("cuda-event-cpu", "RuntimeError: Tried to instantiate dummy base class Event"),
    (
        "ddp-device-ids",
        "ValueError: DistributedDataParallel device_ids and output_device arguments only work with "
        "single-device/multiple-device GPU modules or CPU modules, but got device_ids [0], output_device 0, "
        "and module parameters {device(type='cpu')}.",
    ),
    ("non-tensor", "TypeError: Invalid function argument. Expected parameter `tensor` of type torch.Tensor"),
    (
        "ddp-unused",
        "RuntimeError: Expected to have finished reduction in the prior iteration before starting a new one.",
    ),
    ("stdin", "EOFError: EOF when reading a line"),
    ("shadow", "ModuleNotFoundError: No module named 'torch.distributed'; 'torch' is not a package"),
    ("missing-module", "ModuleNotFoundError: No module named 'pandas'"),
    ("numpy", "RuntimeError: Numpy is not available"),
    (
        "world-size",
        "torch.distributed.DistStoreError: wait timeout after 5000ms, keys: /default_pg/0//cpu//0/2",
    ),
    ("exception", "ZeroDivisionError: division by zero"),
    ("exception", "RuntimeError: size mismatch"),
    ("unfilled", "NotImplementedError: à compléter"),
    ("exception", "NotImplementedError"),
]


@pytest.mark.parametrize(("id", "error"), ERRORS)
@pytest.mark.parametrize("prefix", ["", "[rank1]: "])
def test_the_message_of_one_rank_names_the_cause_whatever_the_other_says(id, error, prefix):
    run = a_run(log(0, "", traceback(6, VICTIM), 1), log(1, "", traceback(3, error, prefix=prefix), 1))
    assert found(run) == (id, 1, 3)
    assert "dist.init_process_group" in diagnose(run).message or id in ("world-size", "wrong-world")


@pytest.mark.parametrize(("id", "error"), ERRORS)
def test_ranks_that_were_not_separated(id, error):
    merged = traceback(6, VICTIM, prefix="[rank0]: ") + traceback(3, error, prefix="[rank1]: ")
    run = a_run(stderr=merged, per_rank=False, exit_code=1, stdout="")
    assert found(run) == (id, 1, 3)


def test_the_launchers_victim_is_never_blamed():
    ended = log(
        1,
        "",
        'Traceback (most recent call last):\n  File "labo.py", line 5, in <module>\nSignalException: 15',
        -15,
    )
    run = a_run(
        log(0, "", traceback(6, "ValueError: non"), 1),
        ended,
        launcher_stderr="Root Cause (first observed failure):\n[0]: rank: 1 exitcode: -15",
    )
    assert found(run) == ("exception", 0, 6)


def test_both_ranks_are_named():
    err = traceback(6, "ValueError: non")
    assert "Rangs 0 et 1" in diagnose(a_run(log(0, "", err, 1), log(1, "", err, 1))).message


def test_an_exception_in_a_called_function_shows_the_scripts_line():
    err = (
        'Traceback (most recent call last):\n  File "/x/labo.py", line 3, in <module>\n    main()\n'
        '  File "/x/labo.py", line 2, in main\n    torch.ones(2) @ torch.ones(3)\n'
        '  File "/lib/torch/_tensor.py", line 40, in wrapped\n    return f()\n           ^^^\n'
        "RuntimeError: inconsistent tensor size,\nexpected 2"
    )
    run = a_run(log(0, "", err, 1), log(1))
    assert found(run) == ("exception", 0, 2)
    assert "expected 2" in diagnose(run).message


def test_no_launcher_by_another_name():
    run = a_run(log(0, "", traceback(4, "KeyError: 'RANK'"), 1), request=Request(launcher=False))
    assert found(run) == ("no-launcher", 0, 4)
    assert found(a_run(log(0, "", traceback(4, "KeyError: 'RANK'"), 1), log(1)))[0] == "exception"


@pytest.mark.parametrize(
    "source", ["def f(:\n    pass\n", "if True:\nx = 1\n", "if True:\n\tx = 1\n        y = 2\n", "x = '\0'"]
)
def test_a_script_that_python_cannot_read(source):
    assert diagnose(a_run(log(0, code=1), log(1, code=1), source=source)).id == "syntax"


def test_a_missing_file():
    err = "python: can't open file '/x/labo.py': [Errno 2] No such file or directory\n"
    assert diagnose(a_run(log(0, "", err, 2), log(1, "", err, 2), source="")).id == "missing-file"


def test_infrastructure_comes_first():
    broken = a_run(log(0, "", traceback(3, "RuntimeError: Gloo connectFullMesh failed with …"), 1), log(1))
    assert (diagnose(broken).id, diagnose(broken).cls) == ("fullmesh", "I")
    for id in ("port", "hostname", "no-torch", "disk", "too-slow", "left-early"):
        assert (diagnose(averaging(infra=id)).id, diagnose(averaging(infra=id)).cls) == (id, "I")
    assert infrastructure(averaging(infra="whatever")).id == "infra"
    assert infrastructure(averaging()) is None


def test_a_rank_that_joined_and_failed_is_not_the_network():
    lost = traceback(3, "RuntimeError: Gloo connectFullMesh failed with […] Connection closed by peer")
    failed = traceback(5, "ValueError: exprès")
    run = a_run(log(0, "", lost, 1), log(1, "", failed, 1), events=(Event(1, "init", 0.5),))
    found = diagnose(run)
    assert (found.id, found.rank, found.line) == ("exception", 1, 5)


@pytest.mark.parametrize(
    "claim",
    ["No space left on device", "No module named 'torch'", "Gloo connectFullMesh failed", "gai error: -2"],
)
def test_a_script_cannot_call_itself_a_victim(claim):
    assert infrastructure(a_run(log(0, claim, claim + "\n", 1), log(1, code=-15))) is None


def test_an_interface_chosen_by_the_script_is_its_own_affair():
    err = traceback(3, "RuntimeError: Unable to find address for: eth9")
    run = a_run(log(0, "", err, 1), log(1, "", err, 1))
    assert diagnose(run).cls == "I"
    assert diagnose(replace(run, source='os.environ["GLOO_SOCKET_IFNAME"] = "eth9"')).cls == "P"


def test_a_busy_port_named_by_the_script():
    err = traceback(2, "torch.distributed.DistNetworkError: EADDRINUSE: address already in use")
    source = 'import torch\ndist.init_process_group("gloo", init_method="tcp://127.0.0.1:29531")\n'
    run = a_run(log(0, "", err, 1), log(1, code=-15), source=source)
    assert (found(run), diagnose(run).cls) == (("port", None, 2), "P")


def test_a_kill_and_our_own_deadline_are_two_things():
    run = a_run(log(0, "", traceback(6, VICTIM), 1), log(1, code=-9))
    assert found(run) == ("killed", 1, None)
    assert diagnose(replace(run, timed_out=True)).id != "killed"
    forced = "Unable to shutdown process 12 via SIGTERM, forcefully exiting via SIGKILL"
    assert diagnose(replace(run, launcher_stderr=forced)).id == "closed"


def test_a_victims_message_is_shown_when_nothing_better_is_known():
    run = a_run(log(0, "", traceback(6, TIMED_OUT), 1), log(1, code=-15))
    diagnosis = diagnose(run)
    assert (diagnosis.id, diagnosis.cls, diagnosis.line) == ("timed-out", "S", 6)
    assert "5000 ms" in diagnosis.message and "rang 1" in diagnosis.message


def test_a_missing_rank_and_how_it_ended():
    waiting = call(0, returned=None, error=VICTIM, line=6)
    run = a_run(
        log(0, "", traceback(6, VICTIM), 1), log(1, "fin 1\n", code=0), collectives=[waiting], exit_code=1
    )
    assert found(run) == ("missing-rank", 1, 6)
    assert "il s'est terminé" in diagnose(run).message
    hung = a_run(
        log(0, code=-15),
        log(1, code=-15),
        timed_out=True,
        collectives=[replace(waiting, error=None)],
        stacks=(stack(0, 6, "all_reduce"), stack(1, 4)),
    )
    assert found(hung) == ("missing-rank", 1, 4)


def test_a_crash():
    err = (
        "Fatal Python error: Segmentation fault\n\nCurrent thread 0x01 (most recent call first):\n"
        '  File "/x/labo.py", line 5 in <module>\n'
    )
    run = a_run(log(0, "", traceback(6, VICTIM), 1), log(1, "", err, -11))
    assert found(run) == ("crash", 1, 5)


def test_the_end_is_not_the_work():
    abort = "terminate called without an active exception\n"
    base = averaging()
    late = replace(
        base, exit_code=1, ranks=(base.ranks[0], replace(base.ranks[1], exit_code=-6, stderr=abort))
    )
    assert (diagnose(late).id, diagnose(late).cls) == ("exit-abort", "N")
    unsure = replace(late, ranks=(base.ranks[0], replace(late.ranks[1], reached_end=False)))
    assert diagnose(unsure).id == "crash"
    assert diagnose(unsure, Context(present=("moyenne",))).id == "exit-abort"
    assert diagnose(unsure, Context(present=("moyenne",), missing=("sort",))).id == "crash"
    hung = replace(
        base, exit_code=1, timed_out=True, ranks=(base.ranks[0], replace(base.ranks[1], exit_code=-15))
    )
    assert diagnose(hung).id == "exit-hang"


def test_hangs_without_a_collective():
    run = a_run(log(0, code=-15), log(1, code=-15), timed_out=True, stacks=(stack(0, 5), stack(1, 5)))
    assert found(run) == ("silent-hang", None, 5)
    assert found(replace(run, stacks=())) == ("silent-hang", None, None)
    joining = replace(run, events=(Event(0, "init-enter", 1.0), Event(1, "init-enter", 1.0)))
    assert diagnose(joining).id == "init-hang"
    assert diagnose(replace(joining, source="f(world_size=4)")).id == "world-size"


def test_a_rank_without_backward():
    run = a_run(
        log(0, code=-15),
        log(1, code=-15),
        timed_out=True,
        gradients=(gradient(0, (1.0, 0.0)),),
        events=tuple(Event(k, "ddp", 0.5) for k in (0, 1)),
    )
    assert found(run)[:2] == ("no-backward", 1)


def test_detail_names_the_culprit():
    err = (
        "RuntimeError: Detected mismatch between collectives on ranks. Rank 0 is running collective: "
        "CollectiveFingerPrint(SequenceNumber=1, OpType=ALLREDUCE, TensorShape=[4], TensorDtypes=Float, "
        "TensorDeviceTypes=TensorOptions()), but Rank 1 is running collective: CollectiveFingerPrint("
        "SequenceNumber=1, OpType={}, TensorShape=[{}], TensorDtypes={}, TensorDeviceTypes=TensorOptions())."
    )
    for side, id in (
        (("ALLREDUCE", 8, "Float"), "shape"),
        (("BROADCAST", 4, "Float"), "order"),
        (("ALLREDUCE", 4, "Int"), "dtype"),
    ):
        shown = log(0, "", err.format(*side), 1)
        assert diagnose(a_run(shown, log(1, code=-15))).id == id
    monitored = log(0, "", "RuntimeError: Rank 1 failed to pass monitoredBarrier in 5000 ms", 1)
    assert diagnose(a_run(monitored, log(1, code=-15))).rank == 1


def test_a_script_that_stops_by_itself():
    run = a_run(log(0, code=3, err="Il manque quelque chose\n"), log(1, code=-15))
    assert found(run) == ("early-exit", 0, None)
    assert "code de sortie 3" in diagnose(run).message and "Il manque quelque chose" in diagnose(run).message
    silent = a_run(log(0, "sort 0"), log(1))
    assert diagnose(silent) is None
    assert diagnose(silent, Context(missing=("sort 1",))).id == "early-exit"


def test_too_much_output():
    assert (
        diagnose(a_run(log(0, "x\n" * 1000, code=-15), log(1, code=-15), output_limited=True)).id
        == "too-much-output"
    )


def test_seconds_for_milliseconds():
    def probe(shown):
        calls = [call(rank, numel=8, returned=1.3) for rank in (0, 1)]
        return diagnose(a_run(log(0, f"all_reduce_ms {shown}"), log(1), collectives=calls))

    assert probe("0.301").id == "seconds-not-ms"
    assert probe("300.1") is None


def test_a_slow_rank_is_not_a_fault():
    calls = [
        call(rank, at=step + 0.4 * rank, returned=step + 0.41, line=6) for step in range(6) for rank in (0, 1)
    ]
    run = a_run(log(0), log(1), collectives=calls)
    assert found(run) == ("slow-step", 1, 6) and diagnose(run).cls == "-"


def test_hostile_texts_do_not_break_a_diagnosis():
    err = traceback(6, "ValueError: {rank} {} \x1b[31m%s `" + "é" * 100_000)
    message = diagnose(a_run(log(0, "", err, 1), log(1, code=-15), source=GOOD + "\n{x}\x00")).message
    assert message
    message = diagnose(a_run(log(0, "", err, 1), log(1, code=-15))).message
    assert "\x1b" not in message and len(message) < 800 and "{rank}" in message
