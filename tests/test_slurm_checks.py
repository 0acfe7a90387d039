"""Slurm's traps told from a job's variables and from saved output: no Slurm, no launch."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from autograder import doctor, messages
from autograder.cli import main
from autograder.verdict.slurm import SlurmFinding, checks, hostnames, read_output, tasks_per_node

JOB = {
    "SLURM_JOB_ID": "4217",
    "SLURM_JOB_NODELIST": "gpu[07-08]",
    "SLURM_SUBMIT_HOST": "login1.site.fr",
    "SLURM_TASKS_PER_NODE": "2(x2)",
}
RIGHT = {"MASTER_ADDR": "gpu07", "MASTER_PORT": "24217"}
HEAD = "job=4217 noeuds=gpu07 taches=2 MASTER_ADDR=gpu07 MASTER_PORT=24217 MCI_BACKEND=gloo\n"
RANKS = """\
1: RANK=1 LOCAL_RANK=1 WORLD_SIZE=2 backend=gloo
0: RANK=0 LOCAL_RANK=0 WORLD_SIZE=2 backend=gloo
"""
BUSY = """\
0: torch.distributed.DistNetworkError: The server socket has failed to listen on any local network address. \
port: 29531, useIpv6: false, code: -98, name: EADDRINUSE, message: address already in use
srun: error: gpu07: task 0: Exited with exit code 1
"""
LOST = """\
0: [W socket.cpp:764] [c10d] The IPv6 network addresses of ({0}, 24217) cannot be retrieved (gai error: -2).
0: torch.distributed.DistNetworkError: The client socket has timed out after 20000ms while trying to connect \
to ({0}, 24217).
srun: error: gpu07: task 0: Exited with exit code 1
"""


def told(**variables: str) -> dict[str, SlurmFinding]:
    return {finding.id: finding for finding in checks(JOB | RIGHT | variables)}


def cause(written: str) -> SlurmFinding:
    finding = read_output(written)
    assert finding is not None and finding.status == "fail" and finding.advice
    return finding


# ------------------------------------------------------------------------------------ Slurm's notations


@pytest.mark.parametrize(
    ("compact", "names"),
    [
        ("gpu07", ["gpu07"]),
        ("gpu[07-09]", ["gpu07", "gpu08", "gpu09"]),
        ("gpu[1-2,10],login", ["gpu1", "gpu2", "gpu10", "login"]),
        ("a,b[3]-ib,c", ["a", "b3-ib", "c"]),
        ("r[1-2]n[1-2]", ["r1n1", "r1n2", "r2n1", "r2n2"]),
        ("0x7f[000001-000002]", ["0x7f000001", "0x7f000002"]),
        ("", []),
    ],
)
def test_a_compact_list_of_hosts(compact: str, names: list[str]) -> None:
    assert hostnames(compact) == names


def test_a_compact_list_of_tasks() -> None:
    assert tasks_per_node("2(x3),1") == [2, 2, 2, 1]
    assert tasks_per_node("5,1") == [5, 1]


# ------------------------------------------------------------------------------------ before a launch


def test_a_job_that_is_ready() -> None:
    assert [finding.status for finding in told().values()] == ["ok", "ok", "ok"]
    assert "gpu07" in told(MASTER_ADDR="", MASTER_PORT="")["address"].found


@pytest.mark.parametrize(
    ("address", "status", "words"),
    [
        ("gpu07.site.fr", "ok", "gpu07.site.fr"),
        ("gpu07-ib0", "ok", "gpu07-ib0"),
        ("10.0.3.7", "ok", "10.0.3.7"),
        ("login1", "fail", "la machine d'où le job est parti"),
        ("gpu08", "fail", "le rang 0 est sur le premier, gpu07"),
        ("127.0.0.1", "fail", "chaque nœud pour lui-même"),
        ("localhost", "fail", "chaque nœud pour lui-même"),
        ("gpu0", "warn", "n'est pas un nœud du job"),
    ],
)
def test_where_ranks_look_for_rank_0(address: str, status: str, words: str) -> None:
    finding = told(MASTER_ADDR=address)["address"]
    assert finding.status == status and words in finding.found
    assert ("scontrol show hostnames" in finding.advice) == (status != "ok")


def test_one_node_may_call_itself_localhost() -> None:
    assert told(SLURM_JOB_NODELIST="gpu07", MASTER_ADDR="127.0.0.1")["address"].status == "ok"


@pytest.mark.parametrize(
    ("port", "status"), [("24217", "ok"), ("29531", "warn"), ("29500", "warn"), ("x", "fail")]
)
def test_the_port(port: str, status: str) -> None:
    finding = told(MASTER_PORT=port)["port"]
    assert finding.status == status
    assert ("SLURM_JOB_ID" in finding.advice) == (status != "ok")


def test_a_port_where_somebody_answers_already() -> None:
    found = {finding.id: finding for finding in checks(JOB | RIGHT, answered=True)}
    assert found["port"].status == "fail" and "rejoindraient les siens" in found["port"].found


@pytest.mark.parametrize(
    ("tasks", "status", "advice"),
    [
        ("2(x2)", "ok", ""),
        ("2", "ok", ""),
        ("1", "warn", "--ntasks-per-node=2"),
        ("5,1", "fail", "--ntasks-per-node=3"),
    ],
)
def test_tasks_on_each_node(tasks: str, status: str, advice: str) -> None:
    finding = told(SLURM_TASKS_PER_NODE=tasks)["tasks"]
    assert finding.status == status and advice in finding.advice


def test_gpus() -> None:
    assert "gpus" not in told(MCI_BACKEND="gloo")
    assert "gpus" not in told(MCI_BACKEND="nccl", SLURM_JOB_GPUS="0,1")
    assert "--gpus-per-node=2" in told(MCI_BACKEND="nccl")["gpus"].advice
    assert "--gpus-per-node=2" in told(SLURM_GPUS_PER_TASK="1", SLURM_JOB_GPUS="0,1")["gpus"].advice


def test_outside_a_job_the_doctor_says_nothing_of_slurm() -> None:
    assert list(doctor.check_slurm({"PATH": "/bin", "MASTER_ADDR": "login1"})) == []
    titles = [finding.title for finding in doctor.check_slurm(JOB)]
    assert titles == ["rendez-vous (MASTER_ADDR)", "rendez-vous (MASTER_PORT)", "tâches par nœud"]


# ------------------------------------------------------------------------------------ after a launch


def test_a_job_that_went_well_has_no_cause() -> None:
    done = "".join(f"{rank}: entre {rank}\n{rank}: sort {rank}\n" for rank in (0, 1))
    assert read_output(HEAD + RANKS + done) is None
    assert read_output("") is None


def test_a_port_that_another_job_holds() -> None:
    finding = cause(HEAD + BUSY)
    assert finding.id == "port" and "29531" in finding.found and "SLURM_JOB_ID" in finding.advice
    strayed = cause(HEAD + "1: moyenne 1 [50.5]\n" + BUSY)
    assert "l'autre job (rang 1)" in strayed.found and "faux" in strayed.found


def test_an_address_where_nobody_answers() -> None:
    assert "qui n'est pas le premier nœud du job (gpu07)" in cause(HEAD + LOST.format("login1")).found
    assert "$(hostname)" in cause(HEAD + LOST.format("login1")).advice
    silent = cause(HEAD + LOST.format("gpu07"))
    assert "le rang 0 s'est arrêté avant" in silent.found and "0:" in silent.advice
    assert "n'est sans doute pas le nœud du rang 0" in cause(LOST.format("login1")).found  # another script's


def test_variables_that_nobody_copied() -> None:
    said = "ValueError: Error initializing torch.distributed using env:// rendezvous: environment variable "
    finding = cause(f"{HEAD}0: {said}RANK expected, but not set\n")
    assert "personne n'a écrit RANK" in finding.found and "SLURM_PROCID" in finding.advice


def test_gpus_that_a_rank_does_not_see() -> None:
    assert "--gpus-per-node=2" in cause(HEAD + "1: RuntimeError: CUDA error: invalid device ordinal\n").advice
    assert "aucun GPU" in cause(HEAD + "0: MCI_BACKEND=nccl demande un GPU visible.\n").found


def test_nodes_filled_unevenly() -> None:
    assert "(5 + 1)" in cause(HEAD.replace("taches=2", "taches=5,1")).found
    places = [(0, 0), (1, 1), (2, 2), (3, 0), (4, 0)]
    lines = "".join(f"{r}: RANK={r} LOCAL_RANK={local} WORLD_SIZE=5\n" for r, local in places)
    assert "(3 + 1 + 1)" in cause(lines).found
    without_the_last = "".join(lines.splitlines(keepends=True)[:-1])
    assert read_output(without_the_last) is None


def test_a_number_of_ranks_that_labo_refuses() -> None:
    lines = "".join(f"{r}: RANK={r} LOCAL_RANK={r} WORLD_SIZE=4 backend=gloo\n" for r in range(4))
    assert "en a 4" in cause(f"{lines}0: Ce laboratoire attend WORLD_SIZE=2.\n").found


def test_a_rank_that_never_entered() -> None:
    finding = cause(HEAD + RANKS + "0: entre 0\n1: saute 1\n")
    assert finding.id == "hang" and finding.found.endswith("rang 0. Jamais venu\u00a0: rang 1")
    assert cause(HEAD + "0: entre 0\n").id == "hang"
    assert cause("0: entre 0\n1: saute 1\n").id == "hang"
    assert read_output("0: entre 0\n") is None  # how many ranks there are is not known


def test_slurm_s_own_limits() -> None:
    late = "slurmstepd: error: *** JOB 4217 ON gpu07 CANCELLED AT … DUE TO TIME LIMIT ***\n"
    assert "--time" in cause(HEAD + late).advice
    assert cause(f"{HEAD}0: entre 0\n{late}").id == "hang"  # what made it last explains more
    killed = "slurmstepd: error: Detected 1 oom-kill event(s) in StepId=4217.0\n"
    assert "--mem" in cause(HEAD + killed).advice


def test_the_command_reads_the_file_of_a_job(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "labo-4217.out"
    path.write_text(HEAD + BUSY, encoding="utf-8")
    assert main(["doctor", "--job", str(path)]) == 1
    shown = capsys.readouterr().out
    assert shown.startswith("✘ rendez-vous (MASTER_PORT)") and "    → Tirez le port" in shown
    assert main(["doctor", "--job", str(path), "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["checks"][0]["id"] == "slurm-port"
    path.write_text(HEAD + RANKS, encoding="utf-8")
    assert main(["doctor", "--job", str(path)]) == 0
    assert "Rien de connu" in capsys.readouterr().out
    assert main(["doctor", "--job", str(tmp_path / "absent.out")]) == 2
    assert "introuvable" in capsys.readouterr().err


def test_every_text_of_the_catalogue_is_one_that_these_findings_take() -> None:
    source = Path(doctor.__file__).parent
    code = (source / "verdict" / "slurm.py").read_text(encoding="utf-8")
    for id, texts in messages.catalogue()["slurm"].items():
        if id in ("output", "ranks"):
            continue
        cases = {name.removesuffix("-advice") for name in texts} - {"title", "advice"}
        for case in cases:
            assert f'"{id}", "' in code and f'"{case}"' in code, f"{id}.{case}"
            assert case in texts, f"{id}.{case}: an advice without its finding"


@pytest.mark.parametrize(
    "damaged",
    [
        HEAD.replace("gpu07", "gpu[0-999999999]") + LOST.format("gpu07"),
        HEAD.replace("taches=2", "taches=999999(x999999)") + "0: entre 0\n",
        "RANK=0 LOCAL_RANK=0 WORLD_SIZE=999999\nentre 0\n",
        f"RANK={'9' * 9000} LOCAL_RANK=0 WORLD_SIZE=2\nentre {'9' * 9000}\n",
    ],
)
def test_a_damaged_output_is_read_in_a_moment_and_told_shortly(damaged: str) -> None:
    found = read_output(damaged)
    assert found is None or len(found.found) < 500


def test_no_list_is_spelt_out_beyond_any_cluster() -> None:
    assert len(hostnames("gpu[0-999999999]")) == len(hostnames("r[1-9999]n[1-9999],x")) == 10_000
    assert len(tasks_per_node("2(x999999)")) == 10_000
    assert hostnames("gpu[²-3]") == ["gpu²-3"]
