"""The srun branch of the course on a real Slurm: the released script as it stands, then its traps.

Skipped where Slurm is not installed; `.ci/run` installs it. One throw-away cluster serves all of these.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest
import slurm_cluster
from slurm_cluster import NODES, Cluster

from autograder import doctor
from autograder.launch import command
from autograder.notebook.cells import file_body, written_file
from autograder.verdict import slurm

ROOT = Path(__file__).resolve().parent.parent
BATCH = ROOT / "release" / "pages" / "labo.sbatch"
MISSING = slurm_cluster.missing()

pytestmark = [
    pytest.mark.launch,
    pytest.mark.timeout(600),
    pytest.mark.skipif(
        bool(MISSING),
        reason=f"Slurm is not installed here, no {', '.join(MISSING)} "
        "(Debian, Ubuntu: apt-get install slurmctld slurmd slurm-client)",
    ),
]

PLACE = "import os; print(*(f'{n}={os.environ[n]}' for n in ('RANK', 'LOCAL_RANK', 'WORLD_SIZE')))\n"

FOUR = """\
import os, torch, torch.distributed as dist
dist.init_process_group("gloo")
count = torch.ones(1)
dist.all_reduce(count)
place = "RANK={RANK} LOCAL_RANK={LOCAL_RANK} WORLD_SIZE={WORLD_SIZE}".format(**os.environ)
print(place, f"ensemble {count.item():g}")
dist.destroy_process_group()
"""

# Rank 1 of the first job never comes. Its rank 0 keeps the meeting point open after its exchange, until
# scancel: otherwise the second job's rank 0, when slow to start, finds the port free again and takes it.
STRAY = """\
import os, sys, time, torch, torch.distributed as dist
from datetime import timedelta
rank, mine = int(os.environ["RANK"]), float(sys.argv[1])
if mine == 1 and rank == 1:
    time.sleep(280)
dist.init_process_group("gloo", timeout=timedelta(seconds=120))
value = torch.tensor([mine])
dist.all_reduce(value)
print(f"moyenne {rank} {(value / 2).tolist()}", flush=True)
if mine == 1:
    time.sleep(280)
dist.destroy_process_group()
"""

# As the course's page first writes it: a port of its own choice, and no --kill-on-bad-exit.
FIXED_PORT = """\
#!/bin/bash
#SBATCH --nodes=1 --ntasks-per-node=2
export MASTER_ADDR="$(hostname)" MASTER_PORT="$1"
srun --label bash -c 'export RANK="$SLURM_PROCID" LOCAL_RANK="$SLURM_LOCALID" WORLD_SIZE="$SLURM_NTASKS"
exec python3 -u stray.py "$@"' rang "$2"
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster() as started:
        yield started
    assert started.left_behind() == []
    assert not started.folder.exists()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """What a student has on the cluster: the released script, in a folder of a name that shells dislike."""
    place = tmp_path / "élève n°1 (copie)"
    place.mkdir()
    shutil.copy(BATCH, place / "labo.sbatch")
    return place


@pytest.fixture
def labo(folder: Path) -> Path:
    """The labo.py that students bring: projet-solo's own solution."""
    notebook = nbformat.read(ROOT / "source" / "projet-solo" / "projet-solo.ipynb", as_version=4)
    whole = next(cell.source for cell in notebook.cells if written_file(cell.source) == "labo.py")
    (folder / "labo.py").write_text(file_body(whole), encoding="utf-8")
    return folder


def places(said: str) -> list[tuple[int, ...]]:
    """(label, rank, local rank, world size) of each rank, in the order of the ranks."""
    found = re.findall(r"^(\d+): RANK=(\d+) LOCAL_RANK=(\d+) WORLD_SIZE=(\d+)", said, re.MULTILINE)
    return sorted(tuple(map(int, place)) for place in found)


# ------------------------------------------------------------------------------------ the branch


def test_two_tasks_give_the_contract_s_texts(cluster: Cluster, labo: Path) -> None:
    code, said = cluster.batch(labo, "labo.sbatch", MCI_TIMEOUT_S="120")  # a busy machine starts ranks apart
    assert code == 0, said
    for rank in (0, 1):
        assert f"{rank}: RANK={rank} LOCAL_RANK={rank} WORLD_SIZE=2 backend=gloo" in said
        for words in ("entre {}", "sort {}", "moyenne {} [3.0, 5.0]", "gradient {} [[0.5, 1.5]]"):
            assert words.format(rank) in said
    assert re.search(r"0: all_reduce_ms \d", said)
    assert slurm.read_output(said) is None
    head = said.splitlines()[0]
    assert f"noeuds={NODES[0]} taches=2 MASTER_ADDR={NODES[0]} MASTER_PORT=2" in head


def test_two_nodes_of_two_tasks_meet_and_number_their_ranks(cluster: Cluster, folder: Path) -> None:
    (folder / "quatre.py").write_text(FOUR)
    code, said = cluster.batch(folder, "--nodes=2", "labo.sbatch", "quatre.py")
    assert code == 0, said
    assert places(said) == [(0, 0, 0, 4), (1, 1, 1, 4), (2, 2, 0, 4), (3, 3, 1, 4)]
    assert said.count("ensemble 4") == 4
    assert f"taches=2(x2) MASTER_ADDR={NODES[0]} " in said


def test_the_interactive_command_of_the_page_starts_the_same_ranks(cluster: Cluster, folder: Path) -> None:
    page = json.loads((ROOT / "release" / "pages" / "cluster.ipynb").read_bytes())
    text = "".join(next(cell for cell in page["cells"] if cell["id"] == "cluster-interactif")["source"])
    reserve, typed = re.findall(r"```bash\n(.*?)```", text, re.DOTALL)
    (folder / "labo.py").write_text(PLACE)
    for script in (typed, "bash labo.sbatch"):
        done = cluster.call(*reserve.split(), "bash", "-c", script, folder=folder)
        assert done.returncode == 0, done.stderr
        assert places(done.stdout) == [(0, 0, 0, 2), (1, 1, 1, 2)]


def test_a_rank_that_dies_ends_the_job(cluster: Cluster, folder: Path) -> None:
    script = "import os, time\nif os.environ['RANK'] == '1': raise SystemExit(7)\ntime.sleep(280)\n"
    (folder / "labo.py").write_text(f"{script}print('fini')\n")
    code, said = cluster.batch(folder, "labo.sbatch")
    assert code != 0 and "fini" not in said


def test_gpus_open_the_nccl_branch_unless_told_otherwise(cluster: Cluster, folder: Path) -> None:
    (folder / "labo.py").write_text("import os; print('voit', os.environ.get('CUDA_VISIBLE_DEVICES'))\n")
    _, said = cluster.batch(folder, "--gpus-per-node=2", "labo.sbatch")
    assert "MCI_BACKEND=nccl" in said
    assert "0: voit 0,1" in said and "1: voit 0,1" in said  # LOCAL_RANK has both to choose from
    _, said = cluster.batch(folder, "--gpus-per-node=2", "labo.sbatch", MCI_BACKEND="gloo")
    assert "MCI_BACKEND=gloo" in said


# ------------------------------------------------------------------------------------ its traps


def allocated(cluster: Cluster, *options: str, before: str = "true") -> dict[str, str]:
    """The variables of a shell that `salloc` opens with these options, after `before` was typed in it."""
    done = cluster.call("salloc", *options, "bash", "-c", f"{before}; env -0; scontrol show hostnames >&2")
    variables = dict(item.split("=", 1) for item in done.stdout.split("\0") if "=" in item)
    assert slurm.hostnames(variables["SLURM_JOB_NODELIST"]) == [
        line for line in done.stderr.splitlines() if not line.startswith("salloc:")
    ]
    return variables


def told(variables: dict[str, str]) -> dict[str, str]:
    """What the doctor says of these variables: the status of each check."""
    return {finding.id: finding.status for finding in doctor.check_slurm(variables)}


def test_hostname_of_a_login_node_is_seen_before_the_launch(cluster: Cluster) -> None:
    options = ("--nodes=2", "--ntasks-per-node=1")
    wrong = allocated(cluster, *options, before='export MASTER_ADDR="$(hostname)" MASTER_PORT=29531')
    assert wrong["MASTER_ADDR"] == wrong["SLURM_SUBMIT_HOST"]
    assert told(wrong) == {"slurm-address": "fail", "slurm-port": "warn", "slurm-tasks": "ok"}
    first = 'export MASTER_ADDR="$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n1)"'
    right = allocated(cluster, *options, before=f"{first} MASTER_PORT=$((20000 + SLURM_JOB_ID % 10000))")
    assert set(told(right).values()) == {"ok"}


def test_without_tasks_per_node_the_first_node_is_filled(cluster: Cluster, folder: Path) -> None:
    (folder / "place.py").write_text(PLACE)
    copied = "RANK=$SLURM_PROCID LOCAL_RANK=$SLURM_LOCALID WORLD_SIZE=$SLURM_NTASKS"
    (folder / "naive.sbatch").write_text(f"#!/bin/bash\nsrun --label bash -c '{copied} python3 place.py'\n")
    code, said = cluster.batch(folder, "--nodes=2", "--ntasks=6", "naive.sbatch")
    assert code == 0 and [local for _, _, local, _ in places(said)] == [0, 1, 2, 3, 4, 0]
    finding = slurm.read_output(said)
    assert finding is not None and finding.id == "tasks"
    assert "(5 + 1)" in finding.found and "--ntasks-per-node=3" in finding.advice
    assert told(allocated(cluster, "--nodes=2", "--ntasks=6"))["slurm-tasks"] == "fail"


def test_two_jobs_on_one_port_join_each_other(cluster: Cluster, folder: Path) -> None:
    (folder / "stray.py").write_text(STRAY)
    (folder / "port.sbatch").write_text(FIXED_PORT)
    (port,) = slurm_cluster.free_ports(1)
    first = cluster.submit(folder, "port.sbatch", str(port), "1")
    limit = time.monotonic() + slurm_cluster.JOB_S
    while not command.answers("127.0.0.1", str(port)):
        assert time.monotonic() < limit, first.said()
        time.sleep(0.1)
    seen = [finding.status for finding in doctor.check_slurm(
        {"SLURM_JOB_ID": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    )]  # fmt: skip
    assert seen == ["fail"]
    second = cluster.submit(folder, "port.sbatch", str(port), "100")
    cluster.wait(second)
    assert "1: moyenne 1 [50.5]" in second.said()
    finding = slurm.read_output(second.said())
    assert finding is not None and finding.id == "port"
    assert "(rang 1)" in finding.found and "SLURM_JOB_ID" in finding.advice
    while "moyenne 0" not in first.said():
        assert time.monotonic() < limit, first.said()
        time.sleep(0.1)
    assert "0: moyenne 0 [50.5]" in first.said()  # the first job is wrong too, and saw nothing
    cluster.call("scancel", str(first.id))
    cluster.wait(first)


def test_gpus_per_task_hides_the_other_gpu(cluster: Cluster, folder: Path) -> None:
    (folder / "labo.py").write_text("import os; print('voit', os.environ.get('CUDA_VISIBLE_DEVICES'))\n")
    _, said = cluster.batch(folder, "--gpus-per-task=1", "labo.sbatch")
    assert "0: voit 0" in said and "1: voit 1" in said  # torch calls each of them 0: no index 1
    options = ("--nodes=1", "--ntasks-per-node=2")
    assert told(allocated(cluster, *options, "--ntasks=2", "--gpus-per-task=1"))["slurm-gpus"] == "warn"
    assert "slurm-gpus" not in told(allocated(cluster, *options, "--gpus-per-node=2"))


@pytest.mark.skipif(os.name != "posix", reason="modes are POSIX's")
def test_the_batch_script_is_one_that_slurm_accepts() -> None:
    first, *rest = BATCH.read_bytes().split(b"\n")
    assert first == b"#!/bin/bash" and b"\r" not in BATCH.read_bytes()
    directives = [index for index, line in enumerate(rest) if line.startswith(b"#SBATCH")]
    commands = [index for index, line in enumerate(rest) if line.strip() and not line.startswith(b"#")]
    assert directives and max(directives) < min(commands)  # Slurm reads no directive after the first command
