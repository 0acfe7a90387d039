"""Grade a class: examine every copy, keep each result, and record those that are ready while others run. One
bad copy never stops the others.
"""

from __future__ import annotations

import functools
import os
import queue
import shutil
import traceback
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, replace
from pathlib import Path

from autograder import course as courses
from autograder import leftovers
from autograder.batch import trouble
from autograder.batch.changes import changed_mark
from autograder.batch.confirm import sample
from autograder.batch.copies import find_copies, unusable_names
from autograder.batch.executors import Executor, Local, Lost, Task
from autograder.batch.groups import Standing, of_copy, of_partner, standings
from autograder.batch.record import Recorded, Recorder
from autograder.batch.work import RUNS, WORTH, Bench, failed
from autograder.files import sweep_drafts
from autograder.messages import text
from autograder.notebook.exam import Exam, fingerprint, still_good
from autograder.notebook.examine import not_graded
from autograder.notebook.received import folder_problem
from autograder.notebook.recorded import RECORDED
from autograder.notebook.result import RESULTS, CopyResult, copy_sha256, keep, kept, result_path

POLL_S = 0.5  # a queue that is waited for without an end hears no Ctrl-C on Windows
Copy = tuple[str, str]  # student, assignment
Progress = Callable[[int, int, str], None]
MakeExecutor = Callable[[Bench, int], Executor]


@dataclass(frozen=True)
class Row:
    """One copy of the class: what grading it gave (without its outputs), and what the gradebook holds now."""

    student: str
    assignment: str
    result: CopyResult
    recorded: Recorded

    @property
    def of_partner(self) -> bool:
        """The copy is another member's of the group: whatever it needs is done on that one's row."""
        return bool(self.result.group) and self.result.group[0] != self.student


@dataclass(frozen=True)
class ClassReport:
    """`missing`: students who were named, and have no copy of an assignment that was asked for. `notes`: what
    the grader should know of the groups, in French. `left_over`: what a killed grading left and we could not
    remove. `unusable`: folders of submitted/ whose names nbgrader does not take. `changed`: marks that are no
    longer what they were, of copies that are. `disagreed`: what warm launches gave and cold ones did not.
    """

    assignments: tuple[str, ...]
    rows: tuple[Row, ...]
    missing: tuple[Copy, ...] = ()
    notes: tuple[str, ...] = ()
    left_over: tuple[str, ...] = ()
    unusable: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    disagreed: tuple[str, ...] = ()

    @property
    def complete(self) -> bool:
        """Every copy was graded and recorded."""
        graded = all(row.result.graded and row.recorded.problem is None for row in self.rows)
        return graded and not self.unusable


def grade_class(
    course: courses.Course, assignments: Iterable[str] | None = None, students: Iterable[str] | None = None,
    jobs: int = 1, progress: Progress = lambda done, total, what: None, again: bool = False,
    sandbox: bool = False, executor: MakeExecutor = Local, tell: Callable[[str], None] = lambda line: None,
    warm: bool = False, starts: Callable[[int], None] = lambda count: None,
) -> ClassReport:  # fmt: skip
    """Grade submitted/<student>/<assignment>/ and record it; a group's copy for each of its members.

    `jobs` copies are examined at once (each launches two ranks), where
    `executor` does it; one thread records what is ready. A copy whose kept result is still that of the same
    content, tests and versions is not run again, unless `again`. `sandbox`: students' code runs in boxes, of
    which the caller knows that they can be made, and a result without one is not kept. `warm`: what is
    launched is forked from a process that has torch loaded, where that can be and pays (see confirm.py).
    `progress(done, total, what)` counts the copies that are recorded; `tell` is given a line for each copy
    that a person should look at, as soon as it is known; `starts` how many copies are to be examined, before
    the first of them is, and is not called where there is none.
    CourseError for an unknown assignment; CopyError when an assignment has no notebook with tests;
    GradingStopped when the machine does not let it go on (a full disk, a damaged or locked gradebook).
    """
    with trouble.alone(course.root):
        left_over = _clear_up(course.root)
        try:
            with leftovers.own_temporary(), trouble.patient():
                trouble.ready(course)
                report = _grade_class(
                    course, assignments, set(students or ()), jobs, progress, again, sandbox, executor, tell,
                    warm, starts,
                )  # fmt: skip
        except trouble.GradingStopped:
            raise
        except Exception as error:  # of the disk or the gradebook: one sentence; of ours: a traceback
            raise trouble.of(error, course) or error from None
    return replace(report, left_over=left_over, unusable=tuple(unusable_names(course.root)))


def _clear_up(root: Path) -> tuple[str, ...]:
    """End and remove what a grading that was killed left here; what could not be, with the reason."""
    for place in (root, root / ".autograder", *(root / RESULTS).glob("*"), *(root / RECORDED).glob("*")):
        sweep_drafts(place)
    return tuple(leftovers.sweep())


def _grade_class(
    course: courses.Course, assignments: Iterable[str] | None, wanted: set[str], jobs: int,
    progress: Progress, again: bool, sandbox: bool, executor: MakeExecutor, tell: Callable[[str], None],
    warm: bool, starts: Callable[[int], None],
) -> ClassReport:  # fmt: skip
    chosen = [course.assignment(name).id for name in assignments or ()] or [
        one.id for one in course.assignments
    ]
    shutil.rmtree(course.root / RUNS, ignore_errors=True)
    (course.root / RUNS).mkdir(parents=True)
    bench = Bench(course, sandbox=sandbox, warm=warm)
    found = find_copies(course.root, chosen)
    groups = standings(course, found, bench.exam)
    found = sorted({*found, *groups}, key=lambda copy: (copy[0], chosen.index(copy[1])))
    # Of a group all or none: its members have one mark.
    copies = [
        copy for copy in found
        if not wanted or copy[0] in wanted or (copy in groups and wanted & groups[copy].circle)
    ]  # fmt: skip
    exams = {name: bench.exam(name) for name in dict.fromkeys(name for _, name in copies)}
    with bench, executor(bench, jobs) as engine, Recorder(course, exams, groups) as book:
        grading = _Grading(course, copies, exams, groups, again, book, progress, tell)
        grading.run(engine, bench, starts)
        unread = {copy for copy, result in grading.results.items() if not result.notebook}
        recorded, told = book.finish(unread)
    rows = [Row(*copy, grading.results[copy], recorded[copy]) for copy in copies]
    notes = [note for copy in copies if copy in groups and (note := groups[copy].note)]
    missing = [
        (student, name) for student in sorted(wanted) for name in chosen if (student, name) not in found
    ]
    return ClassReport(
        tuple(chosen), tuple(rows), tuple(missing), (*notes, *told), changed=tuple(grading.changed),
        disagreed=tuple(grading.disagreed),
    )  # fmt: skip


_Examined = tuple[Copy, CopyResult, str | None]  # and how an unchanged copy's mark changed


class _Grading:
    """One class, from its copies to their kept results and the gradebook."""

    def __init__(
        self, course: courses.Course, copies: list[Copy], exams: Mapping[str, Exam],
        groups: Mapping[Copy, Standing], again: bool, book: Recorder, progress: Progress,
        tell: Callable[[str], None],
    ) -> None:  # fmt: skip
        self.course, self.copies, self.exams, self.groups = course, copies, exams, groups
        self.again, self.book, self.progress, self.tell = again, book, progress, tell
        self.results: dict[Copy, CopyResult] = {}
        self.changed: list[str] = []
        self.disagreed: list[str] = []
        self._ready: queue.SimpleQueue[_Examined | BaseException] = queue.SimpleQueue()
        self._stopped: trouble.GradingStopped | None = None
        self._later: dict[Copy, None] = {}
        self._done = 0

    def run(self, engine: Executor, bench: Bench, starts: Callable[[int], None]) -> None:
        """Examine with `engine`, and record. What it started goes on until the engine is left."""
        own = [copy for copy in self.copies if copy not in self.groups or self.groups[copy].copy == copy[0]]
        sharing: defaultdict[Copy, list[Copy]] = defaultdict(list)
        for student, name in self.copies:
            owner = self.groups[student, name].copy if (student, name) in self.groups else student
            sharing[owner, name].append((student, name))
        self.progress(0, len(self.copies), "")
        try:
            tasks: list[Task] = []
            for copy in own:
                if (early := self._without_running(copy)) is not None:
                    self._settle(copy, early)
                else:
                    tasks.append(Task(*copy))
            if tasks:
                starts(len(tasks))
            bench.warm = bench.warm and len(tasks) >= WORTH
            tasks = sample(tasks, fingerprint(self.exams[own[0][1]])) if bench.warm else tasks
            for task in sorted(tasks, key=lambda task: not task.audit):   # the sample first: see Draw
                copy = task.student, task.assignment
                engine.submit(task).add_done_callback(functools.partial(self._examined, copy))
            engine.close()
            for _ in own:
                self._take(engine, sharing)
            for copy in self._later:  # what stood in the way may be gone: formgrader was closed meanwhile
                self._record(copy)
        except BaseException:
            self.progress(self._done, len(self.copies), "stopping what runs")
            raise
        self.progress(self._done, len(self.copies), "")

    # ------------------------------------------------------------------------------------------ examining

    def _without_running(self, copy: Copy) -> CopyResult | None:
        """The result of a copy for which nothing has to run: unreadable, or graded before as it is now."""
        student, name = copy
        exam, standing = self.exams[name], self.groups.get(copy)
        folder = self.course.root / "submitted" / student / name
        if standing is not None and standing.cause is not None:
            digest = copy_sha256(folder) if os.path.isdir(folder) else ""
            return replace(not_graded(exam, standing.cause), student=student, copy_sha256=digest)
        if (problem := folder_problem(folder, self.course.root / "submitted")) is not None:
            return replace(not_graded(exam, problem), student=student)
        before = None if self.again else kept(result_path(self.course.root, name, student))
        return before if before and still_good(before, exam, folder) and _own(before, student) else None

    def _examined(self, copy: Copy, future: Future[CopyResult]) -> None:
        """Called where the future is resolved, in whatever thread: an exception here would be lost."""
        error = None if future.cancelled() else future.exception()
        try:
            if error is None:
                self._settle(copy, future.result())
            elif isinstance(error, Exception) and not isinstance(error, trouble.GradingStopped):
                self._settle(copy, self._failed(copy, error))
            else:
                self._ready.put(error)
        except BaseException as another:  # a disk that is full, in `keep`
            self._ready.put(another)

    def _failed(self, copy: Copy, error: Exception) -> CopyResult:
        student, name = copy
        lost = isinstance(error, Lost)
        cause = text("grading.lost") if lost else text("grading.examine-failed")
        detail = str(error) if lost else "".join(traceback.format_exception(error))
        return failed(self.exams[name], student, cause, detail)

    def _settle(self, copy: Copy, result: CopyResult) -> None:
        """Keep the result for each student it counts for. Outputs stay on disk, where recording reads them: a
        class of them would fill the memory.
        """
        student, name = copy
        standing, path = self.groups.get(copy), result_path(self.course.root, name, student)
        before = kept(path)
        result = of_copy(result, standing)
        if result != before:
            try:
                keep(result, path)
            except (ValueError, TypeError, RecursionError) as error:  # of a shape that cannot be written
                result = of_copy(self._failed(copy, error), standing)  # never a zero
                keep(result, path)
        if standing is not None and standing.examined:
            for partner in standing.members[1:]:
                keep(of_partner(result, partner), result_path(self.course.root, name, partner))
        changed = changed_mark(before, result) if before and _own(before, student) else None
        self._ready.put((copy, replace(result, cells={}), changed))

    # ------------------------------------------------------------------------------------------ recording

    def _take(self, engine: Executor, sharing: Mapping[Copy, list[Copy]]) -> None:
        """The next copy that is examined, recorded for all those it counts for."""
        while True:
            try:
                item = self._ready.get(timeout=POLL_S)
                break
            except queue.Empty:
                engine.quiet()
        if isinstance(item, BaseException):
            raise item
        copy, result, changed = item
        self._tell_of(copy, result)
        if changed is not None:
            self.changed.append(f"{' '.join(copy)}: {changed}")
            self.tell(f"{' '.join(copy)}: the mark changed, the copy did not: {changed}")
        if result.disagreed:
            self.disagreed.append(f"{' '.join(copy)}: {result.disagreed}")
            self.tell(f"{' '.join(copy)}: warm and cold launches disagree: {result.disagreed}")
        for student, name in sharing[copy]:
            self.results[student, name] = replace(result, student=student)
            self._record((student, name))

    def _tell_of(self, copy: Copy, result: CopyResult) -> None:
        if not result.graded:
            last = "".join(result.details[:1]).strip().splitlines()[-1:]
            detail = f" ({last[0][:300]})" if last else ""
            self.tell(f"{' '.join(copy)}: not graded: {result.cause}{detail}")
        elif result.flags:
            self.tell(f"{' '.join(copy)}: to be read: {', '.join(result.flags)}")

    def _record(self, copy: Copy) -> None:
        """Record a copy. Where the gradebook does not let us, those that are left come at the very end."""
        if self._stopped is not None and copy not in self._later:
            self._later[copy] = None
            return
        try:
            problem = self.book.add(*copy)
        except Exception as error:
            stop = error if isinstance(error, trouble.GradingStopped) else trouble.of(error, self.course)
            if stop is None or copy in self._later:
                raise
            self._stopped, self._later[copy] = stop, None
            return
        if problem is not None:
            self.tell(f"{' '.join(copy)}: not recorded: {problem}")
        self._done += 1
        self.progress(self._done, len(self.copies), " ".join(copy))


def _own(result: CopyResult, student: str) -> bool:
    """Not the result of another member's copy, kept when this student had none."""
    return not result.group or result.group[0] == student
