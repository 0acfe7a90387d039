"""collect, grade, release: what a grader or an instructor types."""

from __future__ import annotations

import difflib
import functools
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from autograder.commands import FAILED, NOT_GRADED, OK, usage
from autograder.course import CourseError, load
from autograder.messages import text

REPORT_COLUMNS = 140
NO_SANDBOX = "Nothing graded: {why}; or accept with --no-sandbox that students' code runs with your rights."
UNBOXED = "No sandbox: students' code runs with your rights, which stands in every result{why}."
BOXED = "Students' code runs in a sandbox (bubblewrap {version})."

CHANGED = "Marks that changed although the copy did not:"
DISAGREED = "Warm launches gave something else than torchrun's own, which count; please report it:"
STOPPED = "Interrupted. Results so far are kept: the same command goes on from there."


def collect(source: Path | None, exchange: bool = False) -> int:
    """0 when everything was placed, 1 when something was not, 2 when there is nothing to read."""
    from autograder.batch.collect import collect as place
    from autograder.batch.exchange import ExchangeError, inbound

    if (source is None) is not exchange:
        return usage("collect: give a folder or a zip, or --exchange for nbgrader's")
    if source is None:
        try:
            source = inbound(load())
        except (CourseError, ExchangeError) as error:
            return usage(str(error))
    if not source.exists():
        return usage(f"{source}: no such folder or zip")
    if source.is_file() and source.suffix.lower() != ".zip":
        return usage(f"{source}: neither a folder nor a zip")
    try:
        course = load()
    except CourseError as error:
        return usage(str(error))
    result = place(source, course.root, {one.id: one.files for one in course.assignments})
    for copy in result.placed:
        print(f"{copy.outcome:<12} {copy.student}  {copy.assignment}")
        for remark in copy.remarks:
            print(f"             {remark}")
    if result.refused:
        print("\nNot placed:")
        for name, why in result.refused:
            print(f"  {name!r}: {why}")
    count = len(result.placed)
    print(f"\n{count} {'copy' if count == 1 else 'copies'} placed, {len(result.refused)} not placed.")
    return FAILED if result.refused or not result.placed else OK


def grade(
    names: Sequence[str], students: Sequence[str], *, sandbox: str, jobs: int | None = None,
    force: bool = False, executor: str = "local", slurm: Sequence[str] = (), chunk: int | None = None,
    cold: bool = False,
) -> int:  # fmt: skip
    """0: every copy was graded and recorded; 1: nothing to grade; 2: usage; 3: some copy was not graded.

    `sandbox`: "yes", "auto" (where one can be made) or "no". `executor`: "local" or "slurm", a cluster, with
    `slurm` its options of sbatch ("key=value"), and `chunk` copies in a task. `cold`: each launch starts its
    own Python.
    """
    if executor != "slurm" and (slurm or chunk):
        return usage(f"{'--slurm-option' if slurm else '--chunk'}: only together with --executor slurm")
    from autograder.launch import box

    why_not = box.why_not() if sandbox != "no" else None
    if sandbox == "yes" and why_not is not None:
        return usage(NO_SANDBOX.format(why=why_not))
    boxed = sandbox != "no" and why_not is None

    from rich.console import Console
    from rich.text import Text

    from autograder.batch.executors import Local
    from autograder.batch.grade import grade_class
    from autograder.batch.trouble import GradingStopped
    from autograder.notebook.cells import CopyError
    from autograder.report.progress import class_bar
    from autograder.report.run_view import clean
    from autograder.report.table import class_view, left_by_hand
    from autograder.report.why import why

    # The bar goes to stderr, and so does what is said while it moves: what is redirected is the report alone.
    bar = class_bar(Console(stderr=True, soft_wrap=True))

    def tell(line: str) -> None:
        bar.console.print(Text(clean(line)))

    def tell_of_the_sandbox(count: int) -> None:
        if not boxed:
            tell(UNBOXED.format(why=f" ({why_not})" if why_not else ""))
        elif sandbox == "auto":
            tell(BOXED.format(version=".".join(map(str, box.bwrap_version() or ()))))

    engine: Any = Local
    if executor == "slurm":
        try:
            engine = _slurm(slurm, chunk, tell)
        except ValueError as error:
            return usage(str(error))
    try:
        course = load()
        for name in names:
            course.assignment(name)
        with bar:
            task = bar.add_task("", total=None)
            report = grade_class(
                course, names, students, jobs=jobs or _jobs(executor == "local" and not cold), again=force,
                sandbox=boxed, executor=engine, warm=not cold, tell=tell, starts=tell_of_the_sandbox,
                progress=lambda done, total, what: bar.update(
                    task, completed=done, total=total, description=what
                ),
            )  # fmt: skip
    except (CourseError, CopyError) as error:
        return usage(str(error))
    except GradingStopped as error:
        print(error, file=sys.stderr)
        return NOT_GRADED
    except KeyboardInterrupt:
        print(STOPPED, file=sys.stderr)
        raise
    for left in (*report.left_over, *report.unusable, *_mistyped(students, course.root / "submitted")):
        print(left, file=sys.stderr)
    if not report.rows:
        whose = f" by {', '.join(students)}" if students else ""
        where = course.root / "submitted"
        print(f"No copy of {', '.join(report.assignments)}{whose} in {where}.", file=sys.stderr)
        return FAILED
    # Redirected to a file there is no terminal to fit: room for every column.
    Console(width=None if sys.stdout.isatty() else REPORT_COLUMNS).print(class_view(report))
    reasons = list(why(report))
    if reasons:
        print("\n" + text("class_why.title"))
        for reason in reasons:
            print(f"  {reason}")
    for title, lines in ((CHANGED, report.changed), (DISAGREED, report.disagreed)):
        if lines:
            print("\n" + title)
            for line in lines:
                print(f"  {clean(line)}")
    print("\n" + "\n".join(left_by_hand(report)))  # last: what the grader does next
    return OK if report.complete and not report.missing else NOT_GRADED


def _mistyped(students: Sequence[str], submitted: Path) -> Iterator[str]:
    """A line for each student named who has handed in nothing at all, where another id is near."""
    known = sorted(path.name for path in submitted.iterdir() if path.is_dir()) if submitted.is_dir() else []
    for student in students:
        near = difflib.get_close_matches(student, known, n=1)
        if student not in known and near:
            yield f"Nobody called {student!r} has handed in anything; did you mean {near[0]}?"


def _slurm(given: Sequence[str], chunk: int | None, tell: Callable[[str], None]) -> Any:
    """What makes the executor; ValueError for options that cannot be, or without submitit."""
    from autograder.batch.slurm import Slurm, options

    return functools.partial(Slurm, options=options(given), chunk=chunk, tell=tell)


def _jobs(warm: bool) -> int:
    """Copies examined at once: two ranks each, and a busier machine turns right answers into time-outs. Warm
    ones wait more than they compute; what is examined again without is held back (see work.py).
    """
    from autograder.batch.work import cold_at_once
    from autograder.launch.warm.client import why_not

    return 2 * (os.cpu_count() or 2) if warm and why_not() is None else cold_at_once()


def release(
    names: Sequence[str], *, check_only: bool, as_of: str | None, bundle: Path | None, force: bool
) -> int:
    """0: proved (and written); 1: refused on a date, or something is to be mended; 2: usage."""
    from autograder.dates import DateError, parse_moment
    from autograder.notebook import bundle as bundler
    from autograder.notebook import release as releaser

    if bundle is not None and not bundle.absolute().parent.is_dir():
        return usage(f"--bundle {bundle}: there is no folder {bundle.parent}, make it first")
    try:
        course = load()
        for name in names:
            course.assignment(name)
        moment = parse_moment(_with_hour(as_of), course.zone, course.session.start) if as_of else None
    except CourseError as error:
        return usage(str(error))
    except DateError as error:
        return usage(f"--as-of {as_of} {error}\n    accepted: YYYY-MM-DD, {error.accepted}")
    if bundle is not None:  # before the proofs, which take minutes
        why = bundler.why_not(course.root)
        if why is None and not releaser.may_have(course, names, moment):
            why = bundler.NONE_OPEN
        if why is not None:
            return usage(f"--bundle {bundle}: {why}")
    report = releaser.release(
        course, names, check=check_only, as_of=moment, force=force,
        progress=lambda name: print(f"proving {name} …", file=sys.stderr),
    )  # fmt: skip
    for notice in report.notices:
        print(notice)
    if report.refused:
        print(report.refused, file=sys.stderr)
        return FAILED
    for finding in report.findings:
        print(f"to mend: {finding}")
    if not report.ok:
        print(f"\n{len(report.findings)} to mend: nothing was written.")
        return FAILED
    for name in (*report.assignments, *(["pages"] if report.pages else [])):
        written = "up to date" if check_only else "written" if name in report.written else "unchanged"
        print(f"proved, {written}: release/{name}/")
    if bundle is not None:
        kept_back = [name for name in report.assignments if name not in report.open]
        try:
            held = bundler.bundle(course, bundle, report.open)
        except bundler.BundleError as error:
            print(error, file=sys.stderr)
            return FAILED
        print(f"{bundle}: {len(held)} files for students, starting with {bundler.README_NAME}")
        if kept_back:
            print(f"kept back until their release date: {', '.join(kept_back)}")
    return OK


def _with_hour(date: str) -> str:
    """A day alone is its first minute: the release of a morning."""
    return f"{date}T00:00" if len(date) == len("YYYY-MM-DD") and date[:1].isdigit() else date
