"""Examine one copy of a course: what every worker does, on this machine or on a cluster's node."""

from __future__ import annotations

import functools
import os
import threading
import traceback
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Self

from autograder import course as courses
from autograder.batch import trouble
from autograder.batch.confirm import Draw, confirmed, plain
from autograder.batch.executors import Task
from autograder.launch.warm import keeper
from autograder.launch.warm.client import COLD, Servers
from autograder.messages import text
from autograder.notebook.apart import STOP, clean_environment
from autograder.notebook.exam import Exam, launched, prepare
from autograder.notebook.examine import examine, not_graded
from autograder.notebook.result import CopyResult
from autograder.notebook.student import nearly_full

RUNS = Path(".autograder") / "runs" / "grading"
WORTH = 3  # copies for which warm servers are started: they cost as much as two or three launches


def cold_at_once() -> int:
    """Copies that may be examined at once where each rank starts its own Python: two ranks each."""
    return max(1, (os.cpu_count() or 2) // 2)


class Bench:
    """What examining the copies of a course needs, read once. Called with a task, it gives its result.

    `warm`: from the first copy on, what is launched is forked from servers that have torch loaded, where that
    can be; they last until the end of the `with` that the bench is used in.
    """

    def __init__(self, course: courses.Course, *, sandbox: bool = False, warm: bool = False) -> None:
        self.course, self.sandbox, self.warm = course, sandbox, warm
        self.exam = functools.cache(self._prepare)
        self._lock, self._cold = threading.Lock(), threading.Semaphore(cold_at_once())
        self._ending = ExitStack()
        self._servers: Servers | None = None
        self._draw = Draw()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ending.close()
        self._servers = None

    def _prepare(self, assignment: str) -> Exam:
        runs = self.course.root / RUNS
        return prepare(assignment, course=self.course, runs=runs, sandbox=self.sandbox)

    def servers(self) -> Servers:
        """The warm servers, started when they are first asked for; none where they cannot be had."""
        with self._lock:
            if self._servers is None and self.warm:
                both = keeper.both(self.sandbox, clean_environment(), STOP.is_set)
                self._servers = self._ending.enter_context(both)
            return self._servers or COLD

    def __call__(self, task: Task, alone: bool = False) -> CopyResult:
        """Its result; GradingStopped where the disk that copies run on is full. `alone`: every launch is
        made, in a Python of its own, whatever an identical one gave while the machine was busy.
        """
        exam = self.exam(task.assignment)
        runs = exam.trusted.runs
        if alone:
            return self._examine(task, launched(exam, COLD, None))
        passed = False
        self._draw.begins(task.audit)
        try:
            result = self._examine(task, launched(exam, self.servers(), runs))
            passed = result.warm and plain(result) and not result.clock
        finally:
            audit = self._draw.audited(task.audit, passed)
        # What the clock may have decided is left to the executor: it is examined once more, alone.
        if not result.warm or result.clock or (passed and not audit):
            return result
        with self._cold:
            cold = self._examine(task, launched(exam, COLD, runs / "cold" if runs is not None else None))
        return confirmed(result, cold, "audited" if passed else "confirmed")

    def _examine(self, task: Task, exam: Exam) -> CopyResult:
        folder = self.course.root / "submitted" / task.student / task.assignment
        try:
            return examine(folder, task.assignment, self.course, student=task.student, exam=exam)
        except Exception as error:
            if not trouble.disk_full(error):
                raise
            if nearly_full():
                raise trouble.full(self.course.root) from None
            return failed(exam, task.student, text("grading.disk-full"), traceback.format_exc())


def failed(exam: Exam, student: str, cause: str, detail: str) -> CopyResult:
    """The copy is not graded: the grader's machine is at fault, or this program."""
    return replace(not_graded(exam, cause), student=student, details=(detail,))
