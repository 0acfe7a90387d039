"""A class graded by a real Slurm of two nodes: the same marks as here, whatever becomes of its jobs.

Skipped where Slurm is not installed; `.ci/run` installs it. The tests at the end need no Slurm.
"""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import slurm_cluster
import tiny_course
from slurm_cluster import NODES, Cluster

from autograder import cli
from autograder import course as courses
from autograder.batch import slurm, slurm_task
from autograder.batch.executors import Raised, Task
from autograder.batch.grade import ClassReport, grade_class
from autograder.batch.slurm import Slurm
from autograder.batch.trouble import GradingStopped
from autograder.batch.work import Bench
from autograder.launch import box
from autograder.notebook.examine import not_graded
from autograder.notebook.result import CopyResult, kept, result_path

MISSING = slurm_cluster.missing()
needs_slurm = pytest.mark.skipif(
    bool(MISSING),
    reason=f"Slurm is not installed here, no {', '.join(MISSING)} "
    "(Debian, Ubuntu: apt-get install slurmctld slurmd slurm-client)",
)
pytestmark = [pytest.mark.timeout(600)]
OPTIONS: dict[str, str | bool] = {"time": "9", "cpus-per-task": "8"}  # a node of its own for each task


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster() as started:
        yield started
    assert started.left_behind() == []


@pytest.fixture
def on_slurm(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    """This process is a user of the cluster, and does not wait long for what a shared disk may show."""
    monkeypatch.setenv("SLURM_CONF", cluster.environment["SLURM_CONF"])
    monkeypatch.setenv("PATH", cluster.environment["PATH"])
    monkeypatch.setattr(slurm, "ASK_S", 0.5)
    monkeypatch.setattr(slurm, "SETTLE_S", 1.0)
    return cluster


def make_class(root: Path, students: str) -> courses.Course:
    course = tiny_course.make_course(root)
    for number, student in enumerate(students.split()):
        answer = "moyenne = 3.0\nunite = 'ms'" if number % 2 == 0 else "moyenne = 3.0\nunite = 0"
        tiny_course.hand_in(root, student, tiny_course.copy_notebook(answer=answer, written=f"De {student}."))
    return course


SLEEPER = """\
import os, time
moyenne, unite = 3.0, 'ms'
if not os.path.exists({flag!r}):
    time.sleep(100)
"""


def sleeping_class(root: Path, students: str) -> tuple[courses.Course, Path]:
    """Copies that sleep until a file stands there: their tasks run when something happens to them."""
    course, flag = make_class(root, ""), root / "réveil"
    for student in students.split():
        answer = SLEEPER.format(flag=str(flag))
        tiny_course.hand_in(root, student, tiny_course.copy_notebook(answer=answer, written=f"De {student}."))
    return course, flag


def grade(course: courses.Course, tell: Callable[[str], None] = print, **more: Any) -> ClassReport:
    options = OPTIONS | more.pop("options", {})
    engine = partial(Slurm, options=options, tell=tell, chunk=more.pop("chunk", None))
    return grade_class(course, executor=engine, tell=tell, **more)


def marks(report: ClassReport) -> dict[str, float | None]:
    return {row.student: row.recorded.score if row.result.graded else None for row in report.rows}


def jobs(cluster: Cluster, *more: str) -> list[str]:
    return cluster.call("squeue", "-h", "-r", "-o", "%i", *more).stdout.split()


@needs_slurm
def test_two_nodes_give_the_marks_of_one_machine(on_slurm: Cluster, tmp_path: Path) -> None:
    """In boxes where they can be made, from which nothing of the course can be seen, results least of all."""
    course = make_class(tmp_path / "loin", "alice bob carl dora eve")
    boxed = box.why_not() is None
    looks = f"import os\nmoyenne = 3.0\nunite = 'vu' if os.path.isdir({str(course.root)!r}) else 'ms'"
    for root in ("loin", "ici"):
        eve_s = tiny_course.copy_notebook(answer=looks, written="De eve.")
        tiny_course.hand_in(tmp_path / root, "eve", eve_s)
    calls: list[tuple[int, int]] = []
    report = grade(
        course, jobs=2, chunk=3, sandbox=boxed,
        progress=lambda done, total, what: calls.append((done, total)),
    )  # fmt: skip
    eve = 6 if boxed else 4
    assert report.complete and marks(report) == {"alice": 6, "bob": 4, "carl": 6, "dora": 4, "eve": eve}
    assert (calls[0], calls[-1]) == ((0, 5), (5, 5))
    here = grade_class(make_class(tmp_path / "ici", "alice bob carl dora"), sandbox=boxed)
    timeless = [replace(row.result, duration_s=0.0) for row in here.rows]
    assert [replace(row.result, duration_s=0.0) for row in report.rows] == timeless
    assert jobs(on_slurm) == [] and list((course.root / slurm.FOLDER).iterdir()) == []
    used = on_slurm.call("scontrol", "show", "job", "-o").stdout
    assert all(f"NodeList={node}" in used for node in NODES)


@needs_slurm
def test_cancelled_jobs_and_a_dead_node_are_made_good(on_slurm: Cluster, tmp_path: Path) -> None:
    course, flag = sleeping_class(tmp_path, "alice bob")
    said: list[str] = []

    def disturb() -> None:
        first = wait_for(lambda: jobs(on_slurm, "-t", "RUNNING", "-w", NODES[0]))
        on_slurm.call("scontrol", "update", f"nodename={NODES[0]}", "state=down", "reason=test")
        other = wait_for(lambda: [one for one in jobs(on_slurm, "-t", "RUNNING") if one not in first])[0]
        on_slurm.call("scancel", other)
        wait_for(lambda: [] if other in jobs(on_slurm, "-t", "RUNNING,COMPLETING") else [other])
        flag.touch()   # whoever comes next need not sleep

    disturber = threading.Thread(target=disturb)
    disturber.start()
    try:
        report = grade(course, said.append, chunk=1)
    finally:
        disturber.join()
        on_slurm.call("scontrol", "update", f"nodename={NODES[0]}", "state=resume")
    assert report.complete and marks(report) == {"alice": 6, "bob": 6}
    again = " ".join(line for line in said if "sent again" in line)
    assert "NODE_FAIL" in again and "CANCELLED" in again, said


def wait_for(look: Callable[[], list[str]]) -> list[str]:
    limit = time.monotonic() + 120
    while not (found := look()):
        assert time.monotonic() < limit
        time.sleep(0.05)
    return found


@needs_slurm
@pytest.mark.parametrize("how", ["time limit", "preempted", "requeued"])
def test_a_task_that_slurm_ends_is_sent_again(on_slurm: Cluster, tmp_path: Path, how: str) -> None:
    """At its time limit; for another job, of a partition that goes first; by an administrator's requeue."""
    course, flag = sleeping_class(tmp_path, "alice")
    said: list[str] = []
    partition = "faible" if how == "preempted" else "essai"
    other: list[slurm_cluster.Job] = []

    def disturb() -> None:
        job = wait_for(lambda: jobs(on_slurm, "-t", "RUNNING"))[0]
        wait_for(lambda: list((course.root / slurm.FOLDER).glob("*/log/*_log.out")))
        if how == "time limit":   # minutes, for whoever submits; an administrator may say seconds
            on_slurm.call("scontrol", "update", f"jobid={job}", "TimeLimit=0:01")
        elif how == "requeued":
            on_slurm.call("scontrol", "requeue", job)
            on_slurm.call("scancel", job)   # it refuses: none of ours is ever requeued
        else:
            (tmp_path / "autre").mkdir()
            whole = ("--partition=pressante", "-N2", "--exclusive", "--wrap", "sleep 3")
            other.append(on_slurm.submit(tmp_path / "autre", *whole))
        wait_for(lambda: [] if job in jobs(on_slurm, "-t", "RUNNING,COMPLETING") else [job])
        flag.touch()   # whoever comes next need not sleep

    disturber = threading.Thread(target=disturb)
    disturber.start()
    try:
        report = grade(course, said.append, options={"partition": partition})
    finally:
        disturber.join()
    assert report.complete and marks(report) == {"alice": 6}
    again = " ".join(line for line in said if "sent again" in line)
    state = {"time limit": "time limit", "preempted": "PREEMPTED", "requeued": "CANCELLED"}[how]
    assert state in again, said
    for job in other:
        assert on_slurm.wait(job) == 0


@needs_slurm
def test_a_copy_whose_tasks_all_end_at_their_limit_is_not_graded(
    on_slurm: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slurm, "TRIES", 2)   # Slurm takes up to a minute to see that a limit is over
    course, _ = sleeping_class(tmp_path, "alice")
    said: list[str] = []
    ended, seen = threading.Event(), set[str]()

    def disturb() -> None:
        while not ended.wait(0.1):
            for job in set(jobs(on_slurm, "-t", "RUNNING")) - seen:
                seen.add(job)
                on_slurm.call("scontrol", "update", f"jobid={job}", "TimeLimit=0:01")

    disturber = threading.Thread(target=disturb)
    disturber.start()
    try:
        report = grade(course, said.append)
    finally:
        ended.set()
        disturber.join()
    alice = report.rows[0].result
    assert marks(report) == {"alice": None} and len(seen) == 2
    assert "aucun point n'est perdu" in str(alice.cause)
    assert "time limit" in alice.details[0] and "tried 2 times" in alice.details[0]


@needs_slurm
def test_a_copy_that_kills_its_task_harms_no_other(on_slurm: Cluster, tmp_path: Path) -> None:
    """Without a box it can end the grader's own process: each time, alone in the end."""
    course = make_class(tmp_path, "alice bob")
    tiny_course.hand_in(
        tmp_path, "zoe", tiny_course.copy_notebook(answer="import os\nos.kill(os.getppid(), 9)")
    )
    said: list[str] = []
    report = grade(course, said.append, chunk=4)
    assert marks(report) == {"alice": 6, "bob": 4, "zoe": None}
    zoe = report.rows[-1].result
    assert "aucun point n'est perdu" in str(zoe.cause) and "tried 3 times" in zoe.details[0]
    assert any("zoe mini: not graded" in line for line in said)
    assert kept(result_path(tmp_path, "mini", "zoe")) is not None  # not graded: tried again the next time


@needs_slurm
def test_what_slurm_refuses_is_said_in_one_sentence(
    on_slurm: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    make_class(tmp_path, "alice")
    monkeypatch.chdir(tmp_path)
    command = ["grade", "--no-sandbox", "--executor", "slurm", "--slurm-option", "partition=nulle-part"]
    assert cli.main(command) == 3
    said = [line for line in capsys.readouterr().err.splitlines() if line.strip()]
    assert len(said) == 2 and "Slurm refused the jobs" in said[1] and "partition" in said[1], said


@needs_slurm
@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_interrupted_its_jobs_are_cancelled(on_slurm: Cluster, tmp_path: Path) -> None:
    course = make_class(tmp_path, "alice")
    tiny_course.hand_in(tmp_path, "zoe", tiny_course.copy_notebook(answer="import time\ntime.sleep(50)"))

    def interrupt() -> None:
        wait_for(lambda: jobs(on_slurm, "-t", "RUNNING"))
        wait_for(lambda: [path.stem for path in (tmp_path / ".autograder/results/mini").glob("alice.json")])
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    interrupter = threading.Thread(target=interrupt)
    interrupter.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            grade(course)
    finally:
        interrupter.join()
        signal.signal(signal.SIGINT, before)
    limit = time.monotonic() + 60
    while jobs(on_slurm):
        assert time.monotonic() < limit
        time.sleep(0.1)
    assert kept(result_path(tmp_path, "mini", "zoe")) is None
    tiny_course.hand_in(tmp_path, "zoe", tiny_course.copy_notebook())
    assert marks(grade(course)) == {"alice": 6, "zoe": 6}


# ------------------------------------------------------------------------------------ without Slurm


def a_result(course: courses.Course, student: str) -> CopyResult:
    bench = Bench(course)
    done = Future[CopyResult]()
    done.set_result(bench(Task(student, "mini")))
    return done.result()


def test_results_of_a_killed_grading_are_kept_if_they_are_still_good(tmp_path: Path) -> None:
    course = make_class(tmp_path, "alice bob")
    left = tmp_path / slurm.FOLDER / "autograder-123"
    good = a_result(course, "alice")
    told = {
        "0": {"result": json.loads(good.to_json())},
        "1": {"result": json.loads(replace(good, student="bob", copy_sha256="another").to_json())},
        "2": {"result": json.loads(replace(good, student="../../elsewhere").to_json())},
        "3": {"result": 3}, "4": {"raised": "Traceback"}, "5": [],
    }  # fmt: skip
    (left / "out").mkdir(parents=True)
    for name, content in told.items():
        (left / "out" / f"{name}.json").write_text(json.dumps(content), encoding="utf-8")
    with Slurm(Bench(course)):
        pass
    assert kept(result_path(tmp_path, "mini", "alice")) == good
    assert list((tmp_path / ".autograder" / "results").rglob("*.json")) == [
        result_path(tmp_path, "mini", "alice")
    ]
    assert not left.exists()


def test_what_comes_back_is_json_and_raised_is_told_from_lost(tmp_path: Path) -> None:
    course = make_class(tmp_path, "alice")
    given = not_graded(Bench(course).exam("mini"), "moitié \ud83d d'un caractère")
    errors = {"fine": None, "raised": ZeroDivisionError("oh"), "lost": GradingStopped("full")}
    for name, error in errors.items():
        future: Future[CopyResult] = Future()
        future.set_result(given) if error is None else future.set_exception(error)
        slurm_task._tell(tmp_path / f"{name}.json", future)
    assert slurm._read(tmp_path / "fine.json")["result"] == given
    assert "ZeroDivisionError: oh" in slurm._read(tmp_path / "raised.json")["raised"]
    assert slurm._read(tmp_path / "lost.json") == {"lost": "full"}
    with Slurm(Bench(course)) as engine:
        future = engine.submit(Task("alice", "mini"))
        os.replace(tmp_path / "raised.json", engine.out / "0.json")
        engine._harvest()
    assert isinstance(future.exception(0), Raised)


def test_a_result_that_is_no_plain_file_of_ours_is_lost_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    course, sent = make_class(tmp_path, "alice bob"), list[str]()
    monkeypatch.setattr(Slurm, "_send", lambda self, names: sent.extend(names))
    with Slurm(Bench(course)) as engine:
        futures = [engine.submit(Task(student, "mini")) for student in ("alice", "bob")]
        (engine.out / "0.json").symlink_to(tmp_path / "course.yaml")
        (engine.out / "1.json").write_text("{}")
        engine._harvest()
        assert sorted(sent) == ["0", "1"] and not any(future.done() for future in futures)


@pytest.mark.parametrize(
    ("given", "expected"),
    [(["partition=court", "--mem=8G", "cpus_per_task=4", "exclusive"],
      {"partition": "court", "mem": "8G", "cpus-per-task": "4", "exclusive": True}),
     ([], {}), (["array=0-3"], None), (["=x"], None), (["time="], None), (["a=b\n#SBATCH --x=y"], None)],
)  # fmt: skip
def test_options_of_sbatch(
    given: list[str], expected: dict[str, Any] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shutil.which", lambda name: f"/usr/bin/{name}")
    if expected is None:
        with pytest.raises(ValueError, match="--slurm-option"):
            slurm.options(given)
    else:
        assert slurm.options(given) == expected


def test_without_slurm_it_is_said_before_anything_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    make_class(tmp_path, "alice")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("shutil.which", lambda name: None)
    assert cli.main(["grade", "--no-sandbox", "--executor", "slurm"]) == 2
    assert "no sbatch on PATH" in capsys.readouterr().err
