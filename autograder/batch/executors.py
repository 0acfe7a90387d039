"""Where copies are examined: here, or on a cluster (slurm.py). One face for both, with standard futures.

The same function examines a copy wherever it runs, and its result is plain data. What the *function* raised
comes back as it was raised (as `Raised`, with its traceback, from another machine); what the *engine* lost, a
task that was cancelled or whose machine died, is `Lost`, and says nothing of the copy.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Protocol, Self

from autograder.batch.confirm import confirmed
from autograder.notebook.apart import STOP
from autograder.notebook.result import CopyResult


@dataclass(frozen=True)
class Task:
    """A copy to be examined."""

    student: str
    assignment: str
    audit: bool = False  # examine it cold too, whatever the warm servers find


Work = Callable[[Task, bool], CopyResult]  # True: alone, nothing of an earlier try is used again
Result = Future[CopyResult]


class Lost(RuntimeError):
    """The engine lost the task, each time it was tried: the message says how."""


class Raised(RuntimeError):
    """The function raised on another machine: the message is its traceback."""


class Executor(Protocol):
    """Futures may be resolved in any thread. `close`: no more is submitted. `quiet`, called again and again
    while one waits: the caller does nothing else meanwhile, so that what must run alone may. `stop`: whatever
    runs is ended.
    """

    def submit(self, task: Task) -> Result: ...

    def close(self) -> None: ...

    def quiet(self) -> None: ...

    def stop(self) -> None: ...

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()   # in order where all went well, at once where something did not


class Local(Executor):
    """`jobs` copies at once on this machine: threads, each of which waits for the processes that it starts.

    A result that another speed of the machine could have changed, got while other copies ran or from a warm
    server, does not count: once all the others are done and recorded, that copy is examined again, alone.
    """

    def __init__(self, work: Work, jobs: int = 1) -> None:
        self._work = work
        self._pool = ThreadPoolExecutor(max(1, jobs), thread_name_prefix="copy")
        self._lock = threading.Lock()
        self._running: dict[Result, bool] = {}  # True: another one ran at the same time
        self._left, self._closed, self._one_by_one = 0, False, False
        self._again: list[tuple[Task, Result, CopyResult | None]] = []

    def submit(self, task: Task) -> Result:
        future: Result = Future()
        with self._lock:
            self._left += 1
        self._pool.submit(self._first, task, future)
        return future

    def close(self) -> None:
        with self._lock:
            self._closed = True

    def quiet(self) -> None:
        with self._lock:
            due = self._closed and not self._left and bool(self._again) and not self._one_by_one
            self._one_by_one = self._one_by_one or due
        if due:
            self._pool.submit(self._alone)

    def stop(self) -> None:
        with self._lock:
            busy = self._left or self._again
        if busy:
            STOP.set()
        try:
            self._pool.shutdown(wait=True, cancel_futures=True)
        finally:
            STOP.clear()

    def _first(self, task: Task, future: Result) -> None:
        if future.set_running_or_notify_cancel():
            with self._lock:
                self._running = dict.fromkeys(self._running, True) | {future: bool(self._running)}
            result = self._call(task, future, alone=False)
            with self._lock:
                shared = self._running.pop(future)
                if result is not None and result.clock and (shared or result.warm):
                    # Beside others a launch may have been slow: no word on how it was made.
                    self._again.append((task, future, None if shared else result))
                    result = None
            if result is not None:
                future.set_result(result)
        with self._lock:
            self._left -= 1

    def _alone(self) -> None:
        while self._again:
            task, future, before = self._again[0]
            result = self._call(task, future, alone=True)
            with self._lock:
                del self._again[0]
            if result is not None:
                result = confirmed(before, result, "confirmed") if before and before.warm else result
                future.set_result(replace(result, alone=True))

    def _call(self, task: Task, future: Result, *, alone: bool) -> CopyResult | None:
        """The result; None where the function raised, which the future then holds."""
        try:
            return self._work(task, alone)
        except BaseException as error:  # Stopped too: whoever waits must know
            future.set_exception(error)
            return None
