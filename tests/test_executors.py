"""Local workers: futures as everybody knows them, and a verdict of the clock that is reached again, alone."""

from __future__ import annotations

import threading
import time
from dataclasses import replace

import pytest

from autograder.batch.executors import Local, Lost, Result, Task
from autograder.notebook.apart import STOP, Stopped
from autograder.notebook.result import CopyResult, TestResult

LONG_S = 60.0


def result(task: Task, *clock: str) -> CopyResult:
    return CopyResult(task.assignment, task.student, clock=clock)


def tasks(count: int) -> list[Task]:
    return [Task(f"s{n}", "mini") for n in range(count)]


def wait(engine: Local, futures: list[Result]) -> list[CopyResult]:
    limit = time.monotonic() + LONG_S
    while not all(future.done() for future in futures):
        assert time.monotonic() < limit
        engine.quiet()
        time.sleep(0.01)
    return [future.result() for future in futures]


def test_each_copy_once_and_no_more_than_jobs_at_a_time() -> None:
    lock, running, most = threading.Lock(), [0], [0]

    def work(task: Task, alone: bool) -> CopyResult:
        with lock:
            running[0] += 1
            most[0] = max(most[0], running[0])
        time.sleep(0.02)
        with lock:
            running[0] -= 1
        return result(task)

    with Local(work, jobs=3) as engine:
        futures = [engine.submit(task) for task in tasks(9)]
        engine.close()
        assert [one.student for one in wait(engine, futures)] == [task.student for task in tasks(9)]
    assert most[0] == 3


def test_what_the_function_raises_is_the_future_s_exception() -> None:
    def work(task: Task, alone: bool) -> CopyResult:
        raise ZeroDivisionError(task.student)

    with Local(work) as engine:
        future = engine.submit(Task("zoe", "mini"))
        error = future.exception(LONG_S)
    assert isinstance(error, ZeroDivisionError) and not isinstance(error, Lost)


def test_a_verdict_of_the_clock_got_beside_others_is_reached_again_alone() -> None:
    """Two copies time out while they share the machine: one is really slow, the other only was."""
    both, seen, running = threading.Barrier(2), list[tuple[str, bool]](), set[str]()

    def work(task: Task, alone: bool) -> CopyResult:
        running.add(task.student)
        seen.append((task.student, alone))
        if alone:
            assert running == {task.student}
        else:
            both.wait(LONG_S)
        late = not alone or task.student == "s0"
        running.discard(task.student)
        return result(task, *(["test"] if late else []))

    with Local(work, jobs=2) as engine:
        futures = [engine.submit(task) for task in tasks(2)]
        engine.close()
        time.sleep(0.1)
        assert not any(future.done() for future in futures)  # nobody said that the machine is quiet
        slow, victim = wait(engine, futures)
    assert sorted(seen) == [("s0", False), ("s0", True), ("s1", False), ("s1", True)]
    assert (slow.clock, slow.alone, victim.clock, victim.alone) == (("test",), True, (), True)


def test_a_verdict_of_the_clock_got_alone_counts_at_once() -> None:
    seen: list[bool] = []

    def work(task: Task, alone: bool) -> CopyResult:
        seen.append(alone)
        return result(task, "notebook")

    with Local(work, jobs=1) as engine:
        futures = [engine.submit(task) for task in tasks(3)]
        engine.close()
        assert not any(one.alone for one in wait(engine, futures))
    assert seen == [False] * 3


def test_a_verdict_of_the_clock_from_a_warm_server_is_reached_again_cold() -> None:
    """Alone as it was: then what the two say can be compared."""
    seen: list[bool] = []

    def work(task: Task, alone: bool) -> CopyResult:
        seen.append(alone)
        ends = TestResult("t", "passed" if alone else "failed", 2.0 if alone else 0.0, 2.0)
        return replace(result(task, *([] if alone else ["t"])), warm=not alone, tests=(ends,))

    with Local(work, jobs=1) as engine:
        future = engine.submit(Task("zoe", "mini"))
        engine.close()
        (one,) = wait(engine, [future])
    assert seen == [False, True]
    assert (one.warm, one.alone, one.cold, one.clock) == (False, True, "confirmed", ())
    assert one.disagreed == "t: failed 0 → passed 2" and one.disagreed in one.details[-1]


def test_leaving_ends_what_runs_and_drops_what_waits() -> None:
    started, seen = threading.Event(), list[str]()

    def work(task: Task, alone: bool) -> CopyResult:
        seen.append(task.student)
        started.set()
        assert STOP.wait(LONG_S)
        raise Stopped

    with pytest.raises(KeyboardInterrupt), Local(work) as engine:
        first, second = (engine.submit(task) for task in tasks(2))
        started.wait(LONG_S)
        raise KeyboardInterrupt
    assert seen == ["s0"] and isinstance(first.exception(LONG_S), Stopped) and not second.done()
    assert not STOP.is_set()
