"""Prove an assignment, then write its release: all of it or nothing."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from autograder.course import Course
from autograder.notebook import pages
from autograder.notebook.cells import CopyError
from autograder.notebook.generate import RELEASE, GenerateError, content, differences, generate
from autograder.notebook.leaks import Leak, scan
from autograder.notebook.proofs import Finding, prove_by_running, prove_ids, prove_readable, prove_source

__all__ = ["Finding", "GenerateError", "Leak", "Report", "generate", "prove", "release", "scan", "stale"]


@dataclass(frozen=True)
class Report:
    """What `release` found and did. `ok` is whether students may have what stands in release/."""

    assignments: tuple[str, ...]
    days_left: int  # before the session, in calendar days; negative after it
    notices: tuple[str, ...] = ()  # the days that remain, warnings
    refused: str | None = None  # why nothing was done, in one sentence
    findings: tuple[Finding, ...] = ()  # what must be mended first
    pages: bool = False  # the course has pages, which go with every assignment
    open: tuple[str, ...] = ()  # assignments that students may have: named, or released by that moment
    written: tuple[str, ...] = ()  # assignments whose release changed on disk, and "pages"

    @property
    def ok(self) -> bool:
        """Nothing was refused and nothing is to be mended."""
        return self.refused is None and not self.findings


def prove(course: Course, name: str, *, run: bool = True) -> list[Finding]:
    """Everything that must hold before assignment `name` is released; an empty list when all does.

    `run=False` leaves out the two gradings (the solution's and the untouched release's), which launch.
    """
    findings = [finding for finding in prove_ids(course) if finding.assignment == name]
    findings += prove_source(course, name)
    if findings:
        return findings  # what is malformed is mended before it is run
    try:
        with tempfile.TemporaryDirectory() as folder:
            generate(course, name, Path(folder))
            findings += [Finding(name, str(leak)) for leak in scan(course, Path(folder))]
        if run:
            findings += prove_by_running(course, name)
    except (GenerateError, CopyError) as error:  # the second: another assignment's notebook cannot be read
        findings.append(Finding(name, str(error)))
    return findings


def release(
    course: Course,
    assignments: Iterable[str] = (),
    *,
    check: bool = False,
    as_of: datetime | None = None,
    force: bool = False,
    run: bool = True,
    progress: Callable[[str], None] = lambda name: None,
) -> Report:
    """Prove these assignments (all of the course when none is named), then write their release/ folders.

    The course's pages go with them, whichever are named: every notebook links one.
    `check` writes nothing, never refuses on a date, and also finds a release/ that is not what source/ gives.
    `as_of` is the moment to count from, now by default; `force` releases even after the due date.
    `progress` is called with each assignment's id before its proof, which launches for a minute or so.
    """
    chosen = tuple(course.assignment(name).id for name in assignments)
    names = chosen or tuple(one.id for one in course.assignments)
    now = _moment(course, as_of)
    days_left = (course.session.start.date() - now.date()).days
    notices = tuple(_notices(course, names, now, days_left))
    refused = None if check or force else _too_late(course, names, now)
    if refused:
        return Report(names, days_left, notices, refused)
    if unread := prove_readable(course):
        return Report(names, days_left, notices, findings=tuple(unread))
    findings = [Finding(pages.PAGES, what) for what in pages.problems(course)]
    for name in names:
        progress(name)
        findings += prove(course, name, run=run)
    if check:
        findings += [Finding(name, what) for name in names for what in stale(course, name)]
        findings += [Finding(pages.PAGES, what) for what in pages.stale(course)]
    opened = may_have(course, chosen, now)
    written = () if findings or check else _write(course, names)
    return Report(
        names, days_left, notices, findings=tuple(findings), pages=bool(course.pages), open=opened,
        written=written,
    )  # fmt: skip


def may_have(course: Course, named: Iterable[str], as_of: datetime | None) -> tuple[str, ...]:
    """What students may have at that moment, now by default: what is named, else what is open by then."""
    now = _moment(course, as_of)
    return tuple(named) or tuple(one.id for one in course.assignments if one.release <= now)


def stale(course: Course, name: str) -> list[str]:
    """How release/<name> differs from what source/<name> gives; an empty list when it does not."""
    committed = content(course.root / RELEASE / name)
    with tempfile.TemporaryDirectory() as folder:
        try:
            generate(course, name, Path(folder))
        except GenerateError:
            return []  # prove() says why
        made = content(Path(folder) / name)
    return differences(committed, made, f"{RELEASE}/{name}", "source/", f"autograder release {name}")


def _moment(course: Course, as_of: datetime | None) -> datetime:
    now = datetime.now(course.zone) if as_of is None else as_of
    return now.astimezone(course.zone) if now.tzinfo else now.replace(tzinfo=course.zone)


def _notices(course: Course, names: Iterable[str], now: datetime, days_left: int) -> Iterable[str]:
    start = f"{course.session.start:%Y-%m-%d %H:%M}"
    if now > course.session.end:
        yield f"Warning: the session of {start} is over (another year? change session.start in course.yaml)."
    elif days_left > 0:
        yield f"{days_left} day{'s' if days_left > 1 else ''} before the session of {start}."
    else:
        yield f"The session is today, {start}."
    for one in map(course.assignment, names):
        if now < one.release:
            yield f"{one.id} is planned for {one.release:%Y-%m-%d %H:%M}."


def _too_late(course: Course, names: Iterable[str], now: datetime) -> str | None:
    late = [course.assignment(name) for name in names if now > course.assignment(name).due]
    if not late:
        return None
    said = ", ".join(f"{one.id} was due {one.due:%Y-%m-%d %H:%M}" for one in late)
    return f"Nothing was released, since {said}; change course.yaml, or use --force to release all the same."


def _write(course: Course, names: Iterable[str]) -> tuple[str, ...]:
    """Put the new folders in place, all of them or none; a release that did not change is left alone."""
    target = course.root / RELEASE
    target.mkdir(exist_ok=True)
    aside = course.root / ".autograder"
    aside.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=aside) as folder:  # on the same disk, so that a rename is enough
        new, old = Path(folder) / "new", Path(folder) / "old"
        old.mkdir()
        for name in names:
            generate(course, name, new)
        pages.write(course, new)
        all_names = (*names, pages.PAGES) if course.pages else tuple(names)
        changed = [name for name in all_names if content(new / name) != content(target / name)]
        done: list[str] = []
        try:
            for name in changed:
                done.append(name)
                if (target / name).exists():
                    (target / name).rename(old / name)
                (new / name).rename(target / name)
        except OSError:
            for name in done:
                _put_back(target / name, old / name)
            raise
    return tuple(changed)


def _put_back(place: Path, before: Path) -> None:
    if before.exists():
        shutil.rmtree(place, ignore_errors=True)
        before.rename(place)
