"""Fill `submitted/<student>/<assignment>/` from what came in: zips, folders, a platform's zip of zips.

Only base names that the course declares are ever written, under a folder whose two names were checked, so a
hostile archive (`..`, absolute names, links) cannot reach anything else; sizes are counted while reading.
"""

from __future__ import annotations

import collections
import dataclasses
import datetime as dt
import itertools
import json
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from autograder.batch.exchange import impostors
from autograder.batch.handin import (
    MAX_COPY_BYTES,
    TIMESTAMP,
    nearest,
    read_timestamp,
    timestamp_line,
)
from autograder.batch.senders import remember
from autograder.batch.unpack import UNKNOWN, Member, Reader, moment_of
from autograder.batch.whose import Claims, Owner, Sender, identify, sender, share, source_of
from autograder.verdict.members import FILE as GROUP_FILE
from autograder.verdict.texts import one_line

_GRACE = dt.timedelta(days=1)  # clocks that are set wrong, and zips, which do not say their time zone


@dataclass(frozen=True)
class Placed:
    """One copy: where it went and how ("new", "unchanged", "replaced", "kept aside")."""

    student: str
    assignment: str
    outcome: str
    folder: Path
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True)
class Collection:
    """What a collection did. `refused` pairs a name inside the source with why it was not placed."""

    placed: tuple[Placed, ...] = ()
    refused: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class _Copy:
    """The files of one copy under their right names, when it was handed in, and what to say of it."""

    content: dict[str, bytes]
    moment: dt.datetime
    remarks: list[str]
    stamp: dt.datetime | None
    received: dt.datetime


def collect(
    source: Path, root: Path, declared: Mapping[str, Sequence[str]], *, now: dt.datetime | None = None
) -> Collection:
    """Place every copy found in `source` (a folder or a zip) under `root/submitted`.

    `declared` maps each assignment's id to the files accepted beside its notebook. An earlier copy that
    differs is never lost: the older of the two goes to `root/.autograder/earlier/…`, and the remark says so.
    A date that is after `now` counts as none.
    """
    latest = (now or dt.datetime.now(dt.UTC)) + _GRACE
    kinds = {Path(name).suffix for names in declared.values() for name in (TIMESTAMP, *names)} | {".ipynb"}
    account = partial(share, declared=declared)
    # Once for the names alone: that two persons sent one student's copy is to be known before any is placed.
    names = _identified(Reader(lambda name: False, account), source, declared)
    claims = Claims(names, [one for one, files in declared.items() if GROUP_FILE in files])
    reader = Reader(lambda name: Path(name).suffix in kinds, account)
    placed, seen = [], {}
    strangers = impostors(source)
    named = _identified(reader, source, declared)
    # The reader gives a folder's files one after the other, so one copy at a time is in memory.
    for (student, assignment, where), group in itertools.groupby(named, key=lambda pair: pair[0]):
        person = sender((*where, ""))
        objection = claims.objection(student, assignment, person) if person else strangers.get(where[-1])
        if objection:
            reader.refuse(where, objection)
            continue
        members = _worth_keeping((member for _, member in group), assignment, declared)
        for chosen, files in _by_assignment(assignment, members, where, declared, reader):
            copy = _assemble(chosen, declared[chosen], where, files, reader, latest)
            if copy is None:
                continue
            if person:
                copy.remarks.extend(_of_the_sender(claims, person, student, assignment, copy))
            done = _place(root, student, chosen, copy, latest, person)
            if person and done.outcome != "kept aside":
                seen[student, chosen] = person
            shown = tuple(one_line(remark, 400) for remark in done.remarks)
            placed.append(dataclasses.replace(done, remarks=shown))
    remember(root, seen)
    return Collection(tuple(placed), tuple(_once(reader.refused, declared)))


def _identified(reader: Reader, source: Path, declared: Iterable[str]) -> Iterator[tuple[Owner, Member]]:
    for member in reader.walk(source):
        found = identify(member.parts, declared)
        if isinstance(found, str):
            reader.refuse(member.parts, found)
        else:
            yield found, member


def _worth_keeping(
    members: Iterable[Member], assignment: str, declared: Mapping[str, Sequence[str]]
) -> list[Member]:
    """The members of one copy, without the bytes of those that it cannot use, whatever their number.

    Used are the shallowest file of each declared name, and a file of another name that is alone of its kind.
    """
    ids = [assignment] if assignment else list(declared)
    books = [f"{one}.ipynb" for one in ids]
    exact = {TIMESTAMP, *books, *(name for one in ids for name in declared[one])}
    kept: list[Member] = []
    best: dict[str, int] = {}
    alone: dict[tuple[str, str | None], int] = {}
    for member in members:
        name, place = member.parts[-1], len(kept)
        kept.append(member)
        if name in exact:
            other = best.setdefault(name, place)
            if len(member.parts) < len(kept[other].parts):
                best[name], place = place, other
            elif other == place:
                continue
        elif member.data is not None:
            close = nearest(name, books) if name.endswith(".ipynb") else None
            other = alone.setdefault((Path(name).suffix, close), place)
            if other == place:
                continue
            kept[other] = dataclasses.replace(kept[other], data=None)
        kept[place] = dataclasses.replace(kept[place], data=None)
    return kept


def _of_the_sender(
    claims: Claims, person: Sender, student: str, assignment: str, copy: _Copy
) -> Iterator[str]:
    also = claims.remark(student, assignment, person)
    if also:
        yield also
    if copy.stamp is not None and claims.came_later(person, copy.received, copy.stamp):
        yield (
            f"its timestamp.txt says {copy.stamp:%Y-%m-%d %H:%M} UTC, Moodle has it from "
            f"{copy.received:%Y-%m-%d %H:%M}: look up when it was handed in"
        )


def _by_assignment(
    assignment: str, members: list[Member], where: tuple[str, ...], ids: Iterable[str], reader: Reader
) -> Iterator[tuple[str, list[Member]]]:
    """A platform's folder names the student only: the notebooks in it say the assignment."""
    if assignment:
        yield assignment, members
        return
    notebooks: dict[str, list[Member]] = {}
    others = []
    for member in members:
        name = member.parts[-1]
        close = nearest(name, [f"{a}.ipynb" for a in ids]) if name.endswith(".ipynb") else None
        if close:
            notebooks.setdefault(Path(close).stem, []).append(member)
        else:
            others.append(member)
    if not notebooks:
        names = ", ".join(f"{a}.ipynb" for a in sorted(ids))
        reader.refuse(where, f"no notebook tells its assignment: expected one of {names}")
    elif len(notebooks) == 1:
        yield next(iter(notebooks)), members
    else:
        yield from notebooks.items()
        for member in others:
            reader.refuse(member.parts, "several assignments in one folder: which one is it of?")


def _assemble(
    assignment: str,
    declared: Sequence[str],
    where: tuple[str, ...],
    members: list[Member],
    reader: Reader,
    latest: dt.datetime,
) -> _Copy | None:
    wanted = f"{assignment}.ipynb"
    content: dict[str, bytes] = {}
    remarks: list[str] = []
    stamp: dt.datetime | None = None
    others: list[Member] = []
    for member in sorted(members, key=lambda member: len(member.parts)):  # the shallowest wins
        name = member.parts[-1]
        if name == TIMESTAMP:
            if member.data is None:
                continue  # there is a shallower one
            stamp = read_timestamp(member.data.decode("utf-8", "replace"))
            if stamp is None:
                remarks.append("its timestamp.txt is not a date: left out, the copy counts as on time")
        elif name in (wanted, *declared) and name not in content and member.data is not None:
            content[name] = member.data
        else:
            others.append(member)
    kinds = collections.Counter(Path(member.parts[-1]).suffix for member in others)
    for member in others:
        name = member.parts[-1]
        close = nearest(name, [n for n in (wanted, *declared) if Path(n).suffix == Path(name).suffix])
        alone = kinds[Path(name).suffix] == 1
        if close and close not in content and alone and member.data is not None:
            content[close] = member.data
            remarks.append(f"{name} taken as {close}")
        else:
            hint = f" (near {close}, which is there too)" if close in content else ""
            reader.refuse(member.parts, f"not a file of {assignment}{hint}")
    if not content:
        reader.refuse(where, f"nothing of {assignment} in it: expected {', '.join((wanted, *declared))}")
        return None
    if sum(map(len, content.values())) > MAX_COPY_BYTES:
        reader.refuse(where, f"the copy is larger than {MAX_COPY_BYTES // 2**20} MiB")
        return None
    if wanted not in content:
        remarks.append(f"no {wanted}: ask for it, written answers and cells cannot be graded")
    elif not _is_notebook(content[wanted]):
        remarks.append(f"{wanted} is not a readable notebook: ask for it again")
    moment = stamp or max(member.modified for member in members)
    if stamp is not None:
        content[TIMESTAMP] = f"{timestamp_line(stamp)}\n".encode()
    if moment > latest:
        date = "its timestamp.txt" if stamp is not None else "the date of its files"
        remarks.append(f"{date} is in the future ({moment:%Y-%m-%d}): any other copy goes before this one")
        moment = UNKNOWN
    return _Copy(content, moment, remarks, stamp, max(member.received for member in members))


def _is_notebook(data: bytes) -> bool:
    try:
        return isinstance(json.loads(data)["cells"], list)
    except (ValueError, KeyError, TypeError, RecursionError):
        return False


def _place(
    root: Path, student: str, assignment: str, copy: _Copy, latest: dt.datetime, person: Sender | None
) -> Placed:
    content, remarks = copy.content, copy.remarks
    target = root / "submitted" / student / assignment
    outcome, aside = "new", None
    if target.is_dir():
        there = {path.name: path.read_bytes() for path in target.iterdir() if path.is_file()}
        if _work(there) == _work(content):
            return Placed(student, assignment, "unchanged", target, tuple(remarks))
        aside = _free(root / ".autograder" / "earlier" / student / assignment)
        if copy.moment < _moment(target, latest):
            _write(aside, content, copy.moment)
            remarks.append(f"older than the copy in place: kept in {aside.relative_to(root).as_posix()}")
            return Placed(student, assignment, "kept aside", aside, tuple(remarks))
        by = f" ({person} handed in this one)" if person else ""
        remarks.append(f"the earlier copy is kept in {aside.relative_to(root).as_posix()}{by}")
        outcome = "replaced"
    _write(target, content, copy.moment, aside)
    return Placed(student, assignment, outcome, target, tuple(remarks))


def _work(content: dict[str, bytes]) -> dict[str, bytes]:
    return {name: data for name, data in content.items() if name != TIMESTAMP}


def _moment(folder: Path, latest: dt.datetime) -> dt.datetime:
    stamp = folder / TIMESTAMP
    read = read_timestamp(stamp.read_text("utf-8", "replace")) if stamp.is_file() else None
    moment = read or moment_of(max((path.stat().st_mtime for path in folder.iterdir()), default=0.0))
    return moment if moment <= latest else UNKNOWN


def _free(parent: Path) -> Path:
    number = 1
    while (parent / str(number)).exists():
        number += 1
    return parent / str(number)


def _write(
    target: Path, content: dict[str, bytes], moment: dt.datetime, aside: Path | None = None
) -> None:
    """Write a copy at `target`, dated `moment`; what stands there goes to `aside`, once the new one is whole.
    """
    # Beside the target and then renamed, so that an interrupted collection leaves no half copy.
    part = target.with_name(f".{target.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    for name, data in content.items():
        (part / name).write_bytes(data)
        os.utime(part / name, (moment.timestamp(),) * 2)
    if aside is not None:
        aside.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(target, aside)
    part.replace(target)


def _once(refused: Iterable[tuple[str, str]], declared: Iterable[str]) -> Iterator[tuple[str, str]]:
    """One line per source and reason, however many files it holds."""
    seen: dict[tuple[str, str], list[str]] = {}
    for name, why in refused:
        seen.setdefault(("/".join(source_of(name.split("/"), declared)), why), []).append(name)
    for (source, why), names in seen.items():
        name = names[0] if len(names) == 1 else f"{source} ({len(names)} files)"
        yield one_line(name, 400), one_line(why, 400)
