"""What is executed for a launch: the course's own rendezvous, in a clean environment."""

from __future__ import annotations

from pathlib import Path

import pytest

from autograder.launch import command
from autograder.launch.run import Delay, Request

INHERITED = {
    "PATH": "/bin", "HOME": "/home/e", "LC_ALL": "C", "CUDA_VISIBLE_DEVICES": "1",
    "RANK": "3", "LOCAL_RANK": "1", "WORLD_SIZE": "8", "MASTER_ADDR": "ailleurs", "MASTER_PORT": "1",
    "MCI_SKIP_RANK": "0", "RALENTI": "1", "RANG_LENT": "1", "PAS": "2", "STRATEGIE": "fsdp",
    "TORCH_DISTRIBUTED_DEBUG": "INFO", "TORCHELASTIC_RUN_ID": "x", "PET_NNODES": "4", "SLURM_PROCID": "5",
    "GLOO_SOCKET_IFNAME": "eth0", "AUTOGRADER_KEY_FILE": "/secret", "PYTHONIOENCODING": "latin-1",
    "MPLBACKEND": "inline",
}


REQUEST = Request()


def environment(request: Request = REQUEST, platform: str = "linux") -> dict[str, str]:
    return command.environment(
        request, marker="m", record=Path("/r"), epoch=1.5, inherited=INHERITED, platform=platform)


def test_nothing_of_another_launch_or_of_the_grader_is_inherited() -> None:
    env = environment()
    assert {name for name in INHERITED if name in env} == {
        "PATH", "HOME", "LC_ALL", "CUDA_VISIBLE_DEVICES", "GLOO_SOCKET_IFNAME"}
    assert "/secret" not in env.values()


def test_the_measured_settings_are_there() -> None:
    env = environment()
    assert env["OMP_NUM_THREADS"] == env["PYTHONUTF8"] == env["PYTHONFAULTHANDLER"] == "1"
    assert env["PYTHONDONTWRITEBYTECODE"] == "1"
    assert env["PYTHONPATH"] == str(command.RECORDER)
    assert env["TORCH_FR_BUFFER_SIZE"] == "1000"


@pytest.mark.parametrize(("platform", "interface"), [("linux", "lo"), ("darwin", None), ("win32", None)])
def test_the_loopback_interface_is_named_on_linux_only(platform: str, interface: str | None) -> None:
    assert environment(platform=platform).get("GLOO_SOCKET_IFNAME") == interface


def test_what_the_request_asks_for_wins() -> None:
    env = environment(
        Request(env={"MCI_SKIP_RANK": "1", "OMP_NUM_THREADS": "2"}, detail=True, launcher=False))
    assert env["MCI_SKIP_RANK"] == "1" and env["OMP_NUM_THREADS"] == "2"
    assert env["TORCH_DISTRIBUTED_DEBUG"] == "DETAIL"
    assert env["AUTOGRADER_PLAIN"] == "1"


def test_delays_are_told_to_the_recorder() -> None:
    delays = (Delay(1, 0.25, numel=8), Delay(0, 1.0, op="barrier", nth=0))
    assert environment(Request(delays=delays))["AUTOGRADER_DELAYS"] == "1:0.25:all_reduce:8:;0:1.0:barrier::0"


def commands(request: Request, platform: str = "linux") -> list[list[str]]:
    return command.commands(
        request, port=4321, run_id="id", logs=Path("/logs"), python="python", platform=platform)


def test_the_command_is_the_measured_one() -> None:
    (line,) = commands(Request())
    assert " ".join(line) == (
        "python -P -m torch.distributed.run --nnodes 1 --node-rank 0 --nproc-per-node 2 "
        "--master-addr 127.0.0.1 --master-port 4321 --rdzv-id id --max-restarts 0 --shutdown-timeout 3 "
        f"--redirects 3 --log-dir {Path('/logs/agent0')} labo.py")


def test_two_nodes_are_two_agents() -> None:
    first, second = commands(Request(nproc=1, nnodes=2))
    assert first[first.index("--node-rank") + 1] == "0"
    assert second[second.index("--node-rank") + 1] == "1"
    assert first[first.index("--log-dir") + 1] != second[second.index("--log-dir") + 1]


def test_without_launcher_it_is_python_alone() -> None:
    assert commands(Request(launcher=False)) == [["python", "labo.py"]]


@pytest.mark.parametrize("platform", ["win32", "darwin"])
def test_outputs_are_merged_where_torchrun_cannot_separate_them(platform: str) -> None:
    assert "--redirects" not in commands(Request(), platform)[0]
    assert not command.per_rank_logs(platform)


@pytest.mark.parametrize(("request_", "typed"), [
    (Request(), "torchrun --nproc_per_node=2 --master_port=29531 labo.py"),
    (Request(launcher=False), "python3 labo.py"),
    (Request(env={"MCI_LIGNES": "[[1, 3]]", "A": "b"}, launcher=False),
     "MCI_LIGNES='[[1, 3]]' A=b python3 labo.py"),
    (Request(nproc=1, nnodes=2),
     "torchrun --nnodes=2 --node_rank=0 --nproc_per_node=1 --master_addr=127.0.0.1 --master_port=29531 "
     "labo.py & "
     "torchrun --nnodes=2 --node_rank=1 --nproc_per_node=1 --master_addr=127.0.0.1 --master_port=29531 "
     "labo.py"),
])
def test_the_command_shown_is_what_a_student_types(request_: Request, typed: str) -> None:
    assert command.as_typed(request_) == typed


@pytest.mark.parametrize(("source", "port"), [
    ('dist.init_process_group("gloo", init_method="tcp://127.0.0.1:29531", rank=0, world_size=2)', 29531),
    ('os.environ["MASTER_PORT"] = "29777"', 29777),
    ('PORT = 29555\ninit_process_group(init_method=f"tcp://localhost:{PORT}")', 29555),
    ('"""torchrun --master_port=29531 labo.py"""\n# tcp://127.0.0.1:29531\nx = 29531', None),
    ('os.environ.setdefault("MASTER_PORT", "29500")', None),
    ('init_process_group("gloo")', None),
    ("def f(:", None),
])
def test_a_port_written_in_the_script_is_found(source: str, port: int | None) -> None:
    assert command.fixed_port(source) == port


def test_a_free_port_is_free_and_not_zero() -> None:
    assert 1024 < command.free_port() < 65536
