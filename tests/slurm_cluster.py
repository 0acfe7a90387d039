"""A Slurm cluster of two nodes on this machine for some tests: without root, munge, systemd or network.

Its daemons run in the foreground as our own children, on ports that were free a moment before, with all that
they write in a folder of their own. Whatever a job leaves is ended by its process id.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import psutil

SBIN = "/usr/sbin"  # where Debian puts the daemons; an ordinary user's PATH lacks it
NEEDED = ("slurmctld", "slurmd", "srun", "sbatch", "salloc", "squeue", "scancel", "scontrol", "sinfo")
NOT_INHERITED = (
    "SLURM", "SBATCH", "SALLOC", "MASTER_", "MCI_", "CUDA", "PYTHONUNBUFFERED", "RANK", "LOCAL_RANK",
    "WORLD_SIZE",
)  # fmt: skip
CPUS = 8
TRIES = 3  # a port may be taken between our look and slurmctld's
READY_S = 60.0
JOB_S = 280.0

# Node names that every resolver knows as addresses of this machine, without a line in /etc/hosts: 127.0.0.1
# and 127.0.0.2, written in one hexadecimal number. Two ranks on "two nodes" can then really meet by name.
NODES = ("0x7f000001", "0x7f000002")

# Two devices that exist everywhere stand for two GPUs: Slurm counts and binds them, nobody opens them.
CONFIGURATION = """\
ClusterName=essai
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort={ports[0]}
AuthType=auth/none
CredType=cred/none
SlurmUser={user}
SlurmdUser={user}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool/%n
SlurmctldPidFile={folder}/run/slurmctld.pid
SlurmdPidFile={folder}/run/slurmd.%n.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
SwitchType=switch/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerParameters=batch_sched_delay=0,sched_interval=2,bf_interval=2
SlurmdParameters=config_overrides
ReturnToService=2
KillWait=2
GresTypes=gpu
NodeName={nodes[0]} NodeHostname=localhost NodeAddr=127.0.0.1 Port={ports[1]} {node}
NodeName={nodes[1]} NodeHostname=localhost NodeAddr=127.0.0.1 Port={ports[2]} {node}
PreemptType=preempt/partition_prio
PreemptMode=CANCEL
PartitionName=essai Nodes=ALL Default=YES MaxTime=10 DefaultTime=5 State=UP PriorityTier=5 PreemptMode=OFF
PartitionName=faible Nodes=ALL MaxTime=10 DefaultTime=5 State=UP PriorityTier=1
PartitionName=pressante Nodes=ALL MaxTime=10 DefaultTime=5 State=UP PriorityTier=9
"""
NODE = f"CPUs={CPUS} RealMemory=64000 Gres=gpu:2"


def missing() -> list[str]:
    """The programs of Slurm that this machine lacks."""
    return [name for name in NEEDED if shutil.which(name, path=_path()) is None]


def _path() -> str:
    # python3 and torchrun of this environment first: what a student has after activating it.
    return os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", ""), SBIN])


def free_ports(count: int) -> list[int]:
    """As many ports that nobody listens on, now."""
    probes = [socket.socket() for _ in range(count)]
    try:
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [probe.getsockname()[1] for probe in probes]
    finally:
        for probe in probes:
            probe.close()


@dataclass(frozen=True)
class Job:
    """A batch job that was submitted, and the file that it writes."""

    id: int
    output: Path

    def said(self) -> str:
        return self.output.read_text(encoding="utf-8", errors="replace") if self.output.exists() else ""


class Cluster:
    """Started by `with`; jobs are submitted from any folder and inherit `environment`."""

    def __enter__(self) -> Cluster:
        for last in (False,) * (TRIES - 1) + (True,):
            self._start()
            if self._is_ready():
                return self
            logs = "\n".join(path.read_text(errors="replace")[-3000:] for path in self.folder.glob("log/*"))
            self.__exit__()
            if last:
                raise RuntimeError(f"Slurm is installed but did not start:\n{logs}")
        raise AssertionError

    def __exit__(self, *_: object) -> None:
        if all(daemon.poll() is None for daemon in self.daemons):
            for job in self.call("squeue", "-h", "-o", "%A").stdout.split():
                self.call("scancel", "-f", "-s", "KILL", job)
        _end(self.daemons)
        _end(self.left_behind())
        shutil.rmtree(self.folder, ignore_errors=True)

    def _start(self) -> None:
        # A short path: the names of Slurm's sockets, which lie in it, have at most 108 characters.
        self.folder = Path(tempfile.mkdtemp(prefix="slurm-"))
        for name in ("state", "log", "run", *(f"spool/{node}" for node in NODES)):
            (self.folder / name).mkdir(parents=True)
        user = subprocess.check_output(["id", "-un"], text=True).strip()  # not $USER, which sudo may keep
        conf = self.folder / "slurm.conf"
        conf.write_text(
            CONFIGURATION.format(
                ports=free_ports(3), user=user, folder=self.folder, nodes=NODES, node=NODE
            )
        )
        (self.folder / "gres.conf").write_text("Name=gpu File=/dev/zero,/dev/null\n")
        # What a login shell of this cluster would have; gloo would otherwise look for the machine's own name.
        inherited = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(NOT_INHERITED)
        }
        self.environment = inherited | {
            "SLURM_CONF": str(conf), "PATH": _path(), "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1",
        }  # fmt: skip
        commands = [["slurmctld", "-D"], *(["slurmd", "-D", "-N", node] for node in NODES)]
        self.daemons = [self._daemon(command) for command in commands]

    def _daemon(self, command: list[str]) -> psutil.Popen:
        program = shutil.which(command[0], path=_path())
        with (self.folder / "log" / "-".join(command)).open("wb") as log:
            return psutil.Popen(
                [program, *command[1:]], env=self.environment, cwd=self.folder,
                stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            )  # fmt: skip

    def _is_ready(self) -> bool:
        limit = time.monotonic() + READY_S
        while time.monotonic() < limit and all(daemon.poll() is None for daemon in self.daemons):
            if set(self.call("sinfo", "-h", "-o", "%T").stdout.split()) == {"idle"}:
                return True
            time.sleep(0.1)
        return False

    def call(
        self, *command: str, folder: Path | None = None, **variables: str
    ) -> subprocess.CompletedProcess[str]:
        """Run one command as a user of the cluster would, in `folder`, with these variables exported."""
        return subprocess.run(
            command, env=self.environment | variables, cwd=folder or self.folder, timeout=JOB_S,
            stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", check=False,
        )  # fmt: skip

    def submit(self, folder: Path, *arguments: str, **variables: str) -> Job:
        """`sbatch`, from `folder`; the output goes to job-<number>.out there."""
        output = folder / "job-%j.out"
        done = self.call("sbatch", "--parsable", f"--output={output}", *arguments, folder=folder, **variables)
        assert done.returncode == 0, done.stderr
        number = int(done.stdout.split(";")[0])
        return Job(number, folder / f"job-{number}.out")

    def wait(self, job: Job) -> int:
        """Wait until the job has ended; its exit code."""
        limit = time.monotonic() + JOB_S
        while time.monotonic() < limit:
            shown = self.call("scontrol", "show", "job", "-o", str(job.id)).stdout
            words = dict(word.split("=", 1) for word in shown.split() if "=" in word)
            if words.get("JobState") not in ("PENDING", "CONFIGURING", "RUNNING", "COMPLETING"):
                return int(words["ExitCode"].split(":")[0])
            time.sleep(0.1)
        raise AssertionError(f"job {job.id} has not ended:\n{job.said()}")

    def batch(self, folder: Path, *arguments: str, **variables: str) -> tuple[int, str]:
        """Submit, wait; the exit code, and what the job wrote."""
        job = self.submit(folder, *arguments, **variables)
        return self.wait(job), job.said()

    def left_behind(self) -> list[psutil.Process]:
        """Every process of this cluster that still runs, whoever its parent is."""
        found = []
        for process in psutil.process_iter():
            try:
                ours = process.environ().get("SLURM_CONF") == self.environment["SLURM_CONF"]
                if ours and process.status() != psutil.STATUS_ZOMBIE:
                    found.append(process)
            except psutil.Error:
                continue
        return found


def _end(processes: list) -> None:
    for kind in (signal.SIGTERM, signal.SIGKILL):
        for process in processes:
            try:
                process.send_signal(kind)
            except (psutil.Error, OSError):
                continue
        _, processes = psutil.wait_procs(processes, timeout=10)
        if not processes:
            return
