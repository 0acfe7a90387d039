"""What a warm launch says: believed where it gives all the points, confirmed where it would cost a mark."""

from __future__ import annotations

import contextlib
import json
import math
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest
import tiny_course

from autograder import cli
from autograder import course as courses
from autograder.batch import slurm_task, work
from autograder.batch.confirm import SAMPLE, confirmed, difference, plain, sample
from autograder.batch.executors import Task
from autograder.batch.grade import ClassReport, grade_class
from autograder.batch.work import Bench
from autograder.launch import box
from autograder.launch.warm import client, keeper
from autograder.launch.warm.client import COLD, Servers
from autograder.notebook.exam import Exam
from autograder.notebook.result import CopyResult, TestResult, result_path

LONG_S = 120.0
WARM = Servers("launch.sock", "notebook.sock")
RIGHT = CopyResult("mini", "zoe", score=2.0, max_score=2.0, tests=(TestResult("t", "passed", 2.0, 2.0),))
WRONG = replace(RIGHT, score=0.0, tests=(TestResult("t", "failed", 0.0, 2.0),))
NONE = replace(RIGHT, graded=False, cause="port", tests=(TestResult("t", "not_graded", 0.0, 2.0),))
linux = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="elsewhere every launch is a cold one"
)


# -- the rules -----------------------------------------------------------------------------------------------

@pytest.mark.parametrize("count", [0, 1, 3, 50, 51, 400])
def test_the_sample_is_a_share_of_the_copies_and_at_least_one(count: int) -> None:
    tasks = [Task(f"e{number}", "mini") for number in range(count)]
    drawn = sample(tasks, "seed")
    assert [replace(task, audit=False) for task in drawn] == tasks
    assert sum(task.audit for task in drawn) == math.ceil(SAMPLE * count)
    assert drawn == sample(tasks, "seed")
    assert count < 50 or drawn != sample(tasks, "another")


def test_a_plain_pass_has_all_its_points_and_nothing_against_it() -> None:
    assert plain(RIGHT) and plain(replace(RIGHT, remarks=("une remarque",)))
    skipped = TestResult("s", "skipped", 0.0, 1.0)
    assert plain(replace(RIGHT, tests=(*RIGHT.tests, skipped)))
    assert plain(replace(RIGHT, flags=("file-differs",)))
    assert not any(map(plain, (WRONG, NONE, replace(RIGHT, flags=("tampering",)),
                               replace(RIGHT, suspicions=("un doute",)))))  # fmt: skip


def test_in_what_two_results_differ_is_said() -> None:
    assert difference(RIGHT, RIGHT) == difference(RIGHT, replace(RIGHT, duration_s=9.0)) == ""
    assert difference(WRONG, RIGHT) == "t: failed 0 → passed 2"
    assert difference(RIGHT, NONE) == "t: passed 2 → not_graded 0"
    assert difference(RIGHT, replace(RIGHT, flags=("tampering",))) == "no flag → tampering"
    assert difference(RIGHT, replace(RIGHT, graded=False)) == "graded → not graded"
    assert difference(RIGHT, replace(RIGHT, tests=())) == "t: passed 2 → absent"


def test_the_cold_result_counts_and_the_other_one_is_told_to_the_grader() -> None:
    agreed = confirmed(replace(WRONG, warm=True), WRONG, "confirmed")
    assert agreed == replace(WRONG, cold="confirmed")
    other = confirmed(replace(WRONG, warm=True), RIGHT, "confirmed")
    assert (other.score, other.warm, other.disagreed) == (2.0, False, "t: failed 0 → passed 2")
    assert other.details == ("warm and cold launches disagree: t: failed 0 → passed 2",)
    assert CopyResult.from_json(other.to_json()) == other


# -- one copy ------------------------------------------------------------------------------------------------

Found = Callable[[str], CopyResult]


@pytest.fixture
def course(tmp_path: Path) -> courses.Course:
    return tiny_course.make_course(tmp_path)


@contextlib.contextmanager
def _these(*_: Any) -> Iterator[Servers]:
    yield WARM


def bench(
    course: courses.Course, monkeypatch: pytest.MonkeyPatch, warm: CopyResult, cold: CopyResult
) -> tuple[Bench, list[tuple[bool, Path | None]]]:
    """A bench whose copies get these results, and how each was asked for: warm? where are Runs kept?"""
    asked: list[tuple[bool, Path | None]] = []

    def examine(*_: Any, exam: Exam, **__: Any) -> CopyResult:
        asked.append((exam.trusted.warm == WARM, exam.trusted.runs))
        return replace(warm, warm=True) if exam.trusted.warm == WARM else cold

    monkeypatch.delenv("AUTOGRADER_RUNS", raising=False)
    monkeypatch.setattr(work, "examine", examine)
    monkeypatch.setattr(keeper, "both", _these)
    return Bench(course, warm=True), asked


def test_all_the_points_from_a_warm_launch_are_believed(
    course: courses.Course, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, asked = bench(course, monkeypatch, RIGHT, WRONG)
    assert one(Task("zoe", "mini")) == replace(RIGHT, warm=True)
    assert [warm for warm, _ in asked] == [True]


@pytest.mark.parametrize(("warm", "cold", "audit", "why"), [
    (WRONG, WRONG, False, "confirmed"), (WRONG, RIGHT, False, "confirmed"), (NONE, RIGHT, False, "confirmed"),
    (replace(RIGHT, flags=("tampering",)), RIGHT, False, "confirmed"), (RIGHT, RIGHT, True, "audited"),
    (RIGHT, WRONG, True, "audited"),
])  # fmt: skip
def test_what_would_cost_a_mark_and_the_sample_are_examined_cold(
    course: courses.Course, monkeypatch: pytest.MonkeyPatch, warm: CopyResult, cold: CopyResult, audit: bool,
    why: str,
) -> None:  # fmt: skip
    one, asked = bench(course, monkeypatch, warm, cold)
    result = one(Task("zoe", "mini", audit))
    assert (result.tests, result.warm, result.cold) == (cold.tests, False, why)
    assert bool(result.disagreed) == (difference(warm, cold) != "")
    (first, runs), (again, others) = asked
    assert (first, again) == (True, False)
    assert runs is not None and others == runs / "cold"   # what was launched warm is no proof


@pytest.mark.parametrize("spoilt", [WRONG, replace(RIGHT, clock=("t",)), None])
def test_a_drawn_copy_that_is_no_plain_pass_leaves_its_audit_to_the_next_one(
    course: courses.Course, monkeypatch: pytest.MonkeyPatch, spoilt: CopyResult | None
) -> None:
    """Even where the next one was examined before it: beside it, and quicker."""
    drawn, other = threading.Event(), threading.Event()

    def examine(folder: Path, *_: Any, exam: Exam, **__: Any) -> CopyResult:
        warm = exam.trusted.warm == WARM
        if folder.parent.name == "drawn" and warm:
            drawn.set()
            assert other.wait(LONG_S)
            if spoilt is None:
                raise ZeroDivisionError
            return replace(spoilt, warm=True)
        if warm:
            other.set()
        return replace(RIGHT, warm=warm)

    monkeypatch.setattr(work, "examine", examine)
    monkeypatch.setattr(keeper, "both", _these)
    one = Bench(course, warm=True)
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(one, Task("drawn", "mini", audit=True))
        assert drawn.wait(LONG_S)
        second = pool.submit(one, Task("zoe", "mini"))
        assert first.exception() if spoilt is None else first.result().cold != "audited"
        assert second.result().cold == "audited"
    assert one(Task("carl", "mini")).cold == ""   # no more than were drawn


def test_what_no_server_forked_is_not_called_warm_nor_examined_again(
    course: courses.Course, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that is there in name only."""
    hand_in(course.root)
    monkeypatch.setattr(keeper, "both", _these)
    seen: list[bool] = []
    real = work.examine

    def examine(*given: Any, **more: Any) -> CopyResult:
        seen.append(True)
        return real(*given, **more)

    monkeypatch.setattr(work, "examine", examine)
    for student, score in (("alice", 6), ("bob", 4)):
        result = Bench(course, warm=True)(Task(student, "mini"))
        assert (result.score, result.warm, result.cold) == (score, False, "")
    assert len(seen) == 2


def test_a_verdict_of_the_clock_is_left_to_the_executor_who_has_it_examined_alone(
    course: courses.Course, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, asked = bench(course, monkeypatch, replace(WRONG, clock=("t",)), RIGHT)
    assert one(Task("zoe", "mini")).clock == ("t",)
    assert one(Task("zoe", "mini"), alone=True) == RIGHT
    assert [warm for warm, _ in asked] == [True, False] and asked[1][1] is None


def test_without_servers_nothing_is_examined_twice(
    course: courses.Course, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, asked = bench(course, monkeypatch, RIGHT, WRONG)
    monkeypatch.setattr(keeper, "both", lambda *_: contextlib.nullcontext(COLD))
    assert one(Task("zoe", "mini", True)) == WRONG
    assert [warm for warm, _ in asked] == [False]


# -- a class -------------------------------------------------------------------------------------------------

def hand_in(root: Path) -> None:
    for student in ("alice", "bob", "carl"):
        answer = "moyenne = 3.0\nunite = " + ("'s'" if student == "bob" else "'ms'")
        tiny_course.hand_in(root, student, tiny_course.copy_notebook(answer=answer))


def marks(report: ClassReport) -> dict[str, float]:
    return {row.student: row.recorded.score for row in report.rows}


@linux
@pytest.mark.parametrize("boxed", [False, True])
def test_a_class_is_graded_warm_with_the_same_marks(tmp_path: Path, boxed: bool) -> None:
    if boxed and (why_not := box.why_not()) is not None:
        pytest.skip(why_not)
    course = tiny_course.make_course(tmp_path)
    hand_in(tmp_path)
    before = set(psutil.Process().children(recursive=True))
    warm = grade_class(course, warm=True, sandbox=boxed)
    assert set(psutil.Process().children(recursive=True)) == before
    how = {row.student: (row.result.warm, row.result.cold) for row in warm.rows}
    assert how["bob"] == (False, "confirmed") and sorted({*how.values()}) == [
        (False, "audited"), (False, "confirmed"), (True, "")]
    cold = grade_class(course, sandbox=boxed, again=True)
    assert marks(cold) == marks(warm) == {"alice": 6, "bob": 4, "carl": 6}
    assert not warm.disagreed and not cold.disagreed and not cold.changed
    for one, other in zip(warm.rows, cold.rows, strict=True):
        assert one.result.cells == other.result.cells
        assert replace(one.result, duration_s=0.0, warm=False, cold="") == replace(
            other.result, duration_s=0.0)


@pytest.mark.parametrize("cannot", ["platform", "start", "few"])
def test_where_a_server_cannot_work_the_class_is_graded_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cannot: str
) -> None:
    course = tiny_course.make_course(tmp_path)
    hand_in(tmp_path)
    if cannot == "platform":
        monkeypatch.setattr(keeper, "why_not", lambda: "no reason")
    elif cannot == "start":
        def refused(*_: Any) -> None:
            raise OSError("Too many open files")

        monkeypatch.setattr(keeper, "Server", refused)
    else:
        monkeypatch.setattr(work, "WORTH", 4)
        monkeypatch.setattr("autograder.batch.grade.WORTH", 4)
        monkeypatch.setattr(keeper, "both", None)   # nobody asks for it
    report = grade_class(course, warm=True)
    assert marks(report) == {"alice": 6, "bob": 4, "carl": 6}
    assert not any(row.result.warm or row.result.cold for row in report.rows)


@linux
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_a_warm_class_that_is_stopped_leaves_no_server(tmp_path: Path, number: int) -> None:
    """In a temporary folder whose path is far longer than a socket's may be."""
    course, temp = tiny_course.make_course(tmp_path / "cours"), tmp_path / ("t" * 120)
    hand_in(course.root)
    temp.mkdir()
    env = os.environ | {"TMPDIR": str(temp), "PYTHONPATH": str(tiny_course.ROOT)}
    command = [sys.executable, "-m", "autograder.cli", "grade", "--no-sandbox"]
    told: dict[str, Any] = {"cwd": course.root, "env": env, "stdout": subprocess.DEVNULL}
    def fresh() -> None:   # where pytest is a background job, SIGINT is ignored
        signal.signal(signal.SIGINT, signal.SIG_DFL)

    with subprocess.Popen(command, **told, stderr=subprocess.DEVNULL, preexec_fn=fresh) as grading:
        wait_for(lambda: len(servers_of(grading.pid)) == 2 and bool(list(temp.rglob("notebook"))))
        found = servers_of(grading.pid)
        grading.send_signal(number)
        assert grading.wait(LONG_S) == (130 if number == signal.SIGINT else -number)
    wait_for(lambda: not any(map(psutil.Process.is_running, found)))
    assert subprocess.run(command, **told, check=False, stderr=subprocess.PIPE).returncode == 0
    assert list(temp.glob("autograder-*")) == []   # torch leaves a folder of its own
    kept = (result_path(course.root, "mini", name).read_text("utf-8") for name in ("alice", "bob", "carl"))
    results = [CopyResult.from_json(one) for one in kept]
    assert [one.score for one in results] == [6, 4, 6] and any(one.warm for one in results)


def servers_of(pid: int) -> list[psutil.Process]:
    with contextlib.suppress(psutil.Error):
        return [one for one in psutil.Process(pid).children() if str(keeper.SERVER) in one.cmdline()]
    return []


def wait_for(true: Callable[[], bool]) -> None:
    limit = time.monotonic() + LONG_S
    while not true():
        assert time.monotonic() < limit
        time.sleep(0.05)


@linux
def test_a_server_that_never_answers_is_done_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = tmp_path / "broken.py"
    broken.write_text("raise SystemExit(1)", encoding="utf-8")
    monkeypatch.setattr(keeper, "SERVER", broken)
    with keeper.both(sandbox=False) as servers:
        assert servers == COLD


def test_a_disagreement_is_told_at_once_and_in_the_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    course = tiny_course.make_course(tmp_path)
    hand_in(tmp_path)
    real = work.examine

    def examine(*given: Any, exam: Exam, student: str, **more: Any) -> CopyResult:
        warm = exam.trusted.warm == WARM
        exam = replace(exam, trusted=replace(exam.trusted, warm=COLD))
        found = replace(real(*given, exam=exam, student=student, **more), warm=warm)
        if not (warm and student == "carl"):
            return found
        lost = tuple(replace(test, status="failed", points=0.0) for test in found.tests)
        return replace(found, tests=lost, score=0.0)

    monkeypatch.setattr(work, "examine", examine)
    monkeypatch.setattr(keeper, "both", _these)
    monkeypatch.chdir(tmp_path)
    assert cli.main(["grade", "--no-sandbox"]) == 0
    said = capsys.readouterr()
    told = "carl mini: mini-test-reponse: failed 0 → passed 4; mini-test-labo: failed 0 → passed 2"
    assert told in said.out and "Warm launches gave something else" in said.out
    assert "carl mini: warm and cold launches disagree" in said.err
    kept = CopyResult.from_json(result_path(course.root, "mini", "carl").read_text(encoding="utf-8"))
    assert (kept.score, kept.warm, kept.cold) == (6.0, False, "confirmed")
    assert kept.disagreed and kept.disagreed in kept.details[-1]
    assert cli.main(["grade", "--no-sandbox", "--cold", "--force"]) == 0
    assert "Warm launches" not in capsys.readouterr().out


def test_a_slurm_task_has_warm_servers_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    course, asked = tiny_course.make_course(tmp_path), list[bool]()
    hand_in(tmp_path)

    @contextlib.contextmanager
    def both(sandbox: bool, *_: Any) -> Iterator[Servers]:
        asked.append(sandbox)
        yield COLD

    monkeypatch.setattr(keeper, "both", both)
    monkeypatch.setattr(slurm_task.signal, "signal", lambda *_: None)
    out = tmp_path / "out"
    out.mkdir()
    items = {str(n): Task(student, "mini", n == 1) for n, student in enumerate(("alice", "bob", "carl"))}
    for bench, chunk in ((Bench(course, warm=True), items), (Bench(course), items),
                         (Bench(course, warm=True), {"0": items["0"]})):  # fmt: skip
        request = slurm_task.request(bench, chunk, 1, out)
        (tmp_path / "chunk.json").write_text(json.dumps(request), encoding="utf-8")
        slurm_task.run_chunk(str(tmp_path / "chunk.json"))
        assert sorted(path.stem for path in out.iterdir()) == sorted(chunk)
        for path in out.iterdir():
            path.unlink()
    assert asked == [False] and request["items"] == {"0": ["alice", "mini", False]}


def test_a_server_told_in_the_environment_is_for_those_who_read_it(
    course: courses.Course, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(client.VARIABLE, "l")
    monkeypatch.setenv(client.NOTEBOOK, "n")
    assert client.told() == Servers("l", "n")
    exam = Bench(course).exam("mini")
    assert exam.trusted.environment()[client.VARIABLE] == "l"
    assert client.VARIABLE not in replace(exam.trusted, warm=COLD).environment()
    assert client.VARIABLE in os.environ
