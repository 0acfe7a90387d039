"""Every row of the catalogue of diagnoses: told from what a real launch left, or from the words of torch's
source where this kind of machine cannot bring it about.
"""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from reproduced_cases import CASES, HERE, Case
from runs_made import a_run, log, traceback

from autograder.launch import box, command, run_request
from autograder.launch.run import Run
from autograder.verdict import noise, texts
from autograder.verdict.diagnosis import diagnose

KEPT = HERE / "reproduced"
FREE = "\u00a0"   # what the texts put before : ; ? !

# Rows without a diagnosis of their own, or told in another file's tests, and those that no launch here shows.
ELSEWHERE = {
    "world-size": "tests/broken", "non-tensor": "tests/broken",
    "exception": "tests/broken", "killed": "tests/broken", "ddp-unused": "tests/broken",
    "silent-hang": "tests/broken", "hard-coded": "tests/broken", "not-divided": "tests/broken",
    "glued": "test_texts.py", "inputs-ignored": "test_marks.py, test_sample_class.py",
    "ipv6": "noise, below", "sigterm": "noise, below", "root-cause": "noise, below",
    "no-traceback": "noise, below", "omp": "noise, below", "fullmesh": "below",
}
NOT_HERE = {
    "duplicate-gpu": "needs NCCL and a GPU that two ranks share",
    "exit-abort": "one launch in seventeen at most, and none of those tried; test_diagnosis.py has its words",
    "libuv": "Windows wheels alone are built without it",
}
ROWS = set("""
    no-launcher world-size wrong-world no-init init-twice nccl-no-gpu duplicate-gpu cuda-event-cpu
    ddp-device-ids non-tensor shape dtype order missing-rank timed-out closed reset exception syntax
    missing-file shadow port hostname ifname fullmesh ipv6 libuv no-torch numpy ddp-unused no-backward async
    killed sigterm root-cause no-traceback omp exit-abort exit-hang stdout-enc stdin early-exit silent-hang
    slow-step glued hard-coded divided-twice not-divided inputs-ignored seconds-not-ms
""".split())  # noqa: SIM905  a list of fifty would be a column


def reproduced(name: str, folder: Path) -> Run:
    """The kept Run of a case; it is launched now where there is none."""
    path = KEPT / f"{name}.json"
    if path.exists():
        return Run.from_json(path.read_text(encoding="utf-8"))
    case = CASES[name]
    if case.by_hand:
        pytest.fail(f"{path.name} is missing, and was made by hand: {case.by_hand}")
    if case.asked().script == "labo.py":
        source = case.source.replace("{port}", str(command.free_port()))
        (folder / "labo.py").write_text(source, encoding="utf-8")
    for file, text in case.files.items():
        (folder / file).write_text(text, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(box.VARIABLE, "0")
        run = run_request(case.asked(), folder)
    path.write_text(run.to_json() + "\n", encoding="utf-8")
    return run


@pytest.mark.parametrize("name", CASES)
def test_a_launch_that_was_really_made(name: str, tmp_path: Path) -> None:
    if not (KEPT / f"{name}.json").exists() and not sys.platform.startswith("linux"):
        pytest.skip("a new case is launched on Linux, where ranks have files of their own")
    case: Case = CASES[name]
    found = diagnose(reproduced(name, tmp_path), case.context)
    assert found is not None
    assert (found.id, found.cls) == (case.id, case.cls)
    assert case.rank is None or found.rank == case.rank
    assert case.line is None or found.line == case.line
    shown = found.message.replace(FREE, " ")
    assert case.says in shown and found.advice
    for noisy in ("Root Cause", "error_file", "SIGTERM", "OMP_NUM_THREADS", "site-packages", "Traceback"):
        assert noisy not in shown


@pytest.mark.parametrize("path", sorted(KEPT.glob("*.json")), ids=lambda path: path.stem)
def test_kept_launches_tell_nothing_of_the_machine(path: Path) -> None:
    assert path.stem in CASES
    text = path.read_text(encoding="utf-8")
    assert Run.from_json(text).to_json() == text.rstrip("\n")
    for place in ("site-packages", "recorder/", "/home/", "/root", "/tmp"):
        assert place not in text


def test_every_row_is_held() -> None:
    told = {case.id for case in CASES.values()} | set(ELSEWHERE) | set(NOT_HERE)
    assert told >= ROWS
    for id in (*ELSEWHERE, *NOT_HERE):
        assert id not in {case.id for case in CASES.values()} - {"killed"}, f"{id} is reproduced now"


def test_ranks_that_cannot_reach_one_another_are_the_machines_fault_unless_they_had() -> None:
    """The message of a launch that joined twice; without the first group it is that of a wrong interface."""
    run = Run.from_json((KEPT / "joins_again.json").read_text(encoding="utf-8"))
    found = diagnose(run)
    assert found is not None and found.id == "init-twice"
    once = replace(run, events=tuple(event for event in run.events if event.name == "start"), collectives=())
    found = diagnose(once)
    assert found is not None and (found.id, found.cls) == ("fullmesh", "I")


# -- as others met it: neither GPUs nor Windows here ---------------------------------------------------------

@pytest.mark.parametrize(("id", "cls", "error"), [
    # https://github.com/verl-project/verl/issues/161
    ("duplicate-gpu", "P", "torch.distributed.DistBackendError: NCCL error in: "
     "../torch/csrc/distributed/c10d/NCCLUtils.hpp:275, invalid usage (run with NCCL_DEBUG=WARN for "
     "details), NCCL version 2.20.5\nncclInvalidUsage: This usually reflects invalid usage of NCCL library.\n"
     "Last error:\n"
     "Duplicate GPU detected : rank 1 and rank 0 both on CUDA device 10"),
    # https://github.com/pytorch/pytorch/issues/148283
    ("libuv", "I", "RuntimeError: use_libuv was requested but PyTorch was build without libuv support"),
])
def test_what_this_machine_cannot_show(id: str, cls: str, error: str) -> None:
    found = diagnose(a_run(log(0, "", traceback(3, error), 1), log(1, "", "", -15)))
    assert found is not None and (found.id, found.cls) == (id, cls)


# -- noise -------------------------------------------------------------------------------------------------

NOISE = "\n".join([
    "*****************************************",
    "Setting OMP_NUM_THREADS environment variable for each process to be 1 in default, to avoid your system "
    "being overloaded, please further tune the variable for optimal performance",
    "*****************************************",
    "[W203 14:00:00.1 socket.cpp:767] [c10d] The client socket cannot be initialized to connect to "
    "[localhost]:29531 (errno: 97 - Address family not supported by protocol).",
    "W0203 14:00:00.123000 77 torch/distributed/elastic/multiprocessing/api.py:1028] Sending process 10 "
    "closing signal SIGTERM",
    "/x/torch/_subclasses/functional_tensor.py:283: UserWarning: Failed to initialize NumPy: No module named "
    "'numpy' (Triggered internally at /pytorch/torch/csrc/utils/tensor_numpy.cpp:84.)",
    '  cpu = _conversion_method_template(device=torch.device("cpu"))',
    "",
])


def test_noise_is_left_out_and_nothing_else() -> None:
    assert noise.without(NOISE).strip() == ""
    kept = "moyenne 0 [3.0, 5.0]\n  rank 0 : prêt\nhost : inconnu\n"
    assert noise.without(NOISE + kept).strip() == kept.strip()


@pytest.mark.parametrize("path", sorted((HERE / "runs_broken").glob("*.json")), ids=lambda path: path.stem)
def test_the_launchers_summary_is_noise(path: Path) -> None:
    run = Run.from_json(path.read_text(encoding="utf-8"))
    for line in noise.launchers(run.launcher_stderr).splitlines():
        for noisy in ("Root Cause", "error_file", "closing signal", "exitcode", "OMP_NUM_THREADS"):
            assert noisy not in line
    for log_ in run.ranks:
        assert all(len(line) <= 300 for line in noise.last_lines(log_.stderr))


def test_an_unknown_fault_says_so() -> None:
    ended = log(1, "", "note : 1\nTraceback (most recent call last):\nSignalException: 15\n", -15)
    run = a_run(log(0, "", "", -15), ended, exit_code=1)
    found = diagnose(run)
    assert found is not None and (found.id, found.rank) == ("unknown", 1)
    assert "n'est pas reconnue" in found.message and "« note : 1 »" in found.message.replace(FREE, " ")
    mute = diagnose(a_run(log(0, "", "", -15), log(1, "", "", -15), exit_code=1))
    assert mute is not None and mute.id == "unknown" and "Dernières" not in mute.message
    launcher = "RuntimeError: quelque chose\nRoot Cause (first observed failure):\n[0]:\n  rank : 1\n"
    told = diagnose(a_run(exit_code=1, launcher_stderr=launcher, source="x = 1"))
    assert told is not None and "quelque chose" in told.message and "Root" not in told.message
    assert texts.one_line(told.message, 1000) == told.message.replace(FREE, " ")


def test_no_launch_is_left_to_be_made() -> None:
    """The kept Runs are part of the repository: a checkout tests without launching."""
    missing = [name for name in CASES if not (KEPT / f"{name}.json").exists()]
    assert not missing or os.environ.get("AUTOGRADER_NEW_CASES"), missing
