"""Fill `submitted/<student>/<assignment>/` from what came in: zips, folders, a platform's zip of zips.

Only base names that the course declares are ever written, under a folder whose two names were checked, so a
hostile archive (`..`, absolute names, links) cannot reach anything else; sizes are counted while reading.
"""

from __future__ import annotations

import datetime as dt
import itertools
import json
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from autograder.batch.handin import (
    MAX_COPY_BYTES,
    TIMESTAMP,
    bare_stem,
    nearest,
    read_timestamp,
    safe_student_id,
    timestamp_line,
    valid_student_id,
)
from autograder.batch.unpack import Member, Reader, is_zip

# Moodle's download: "Nom Prénom_1234567_assignsubmission_file_" (also "…_file" and "…_onlinetext").
_MOODLE = re.compile(r".*_(?P<id>\d+)_assignsubmission_\w+")


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


def collect(source: Path, root: Path, declared: Mapping[str, Sequence[str]]) -> Collection:
    """Place every copy found in `source` (a folder or a zip) under `root/submitted`.

    `declared` maps each assignment's id to the files accepted beside its notebook. An earlier copy that
    differs is never lost: the older of the two goes to `root/.autograder/earlier/…`, and the remark says so.
    """
    reader = Reader()
    placed = []
    named = _identified(reader, source, declared)
    # The reader gives a folder's files one after the other, so one copy at a time is in memory.
    for (student, assignment, where), group in itertools.groupby(named, key=lambda pair: pair[0]):
        members = [member for _, member in group]
        for chosen, files in _by_assignment(assignment, members, where, declared, reader):
            copy = _assemble(chosen, declared[chosen], where, files, reader)
            if copy is not None:
                placed.append(_place(root, student, chosen, copy))
    return Collection(tuple(placed), tuple(_once(reader.refused)))


_Owner = tuple[str, str, tuple[str, ...]]  # student, assignment ("": its notebook will say), folder


def _identified(reader: Reader, source: Path, declared: Iterable[str]) -> Iterator[tuple[_Owner, Member]]:
    for member in reader.walk(source):
        found = identify(member.parts, declared)
        if isinstance(found, str):
            reader.refuse(member.parts, found)
        else:
            yield found, member


def identify(parts: Sequence[str], declared: Iterable[str]) -> _Owner | str:
    """Whose file this is and of which assignment, from its path alone; or why it cannot be told.

    Read from the innermost folder out: `ex1-rang-dupont.zip`, `dupont/ex1-rang/`, a Moodle folder.
    """
    ids = sorted(declared, key=len, reverse=True)
    folders = [_folder_name(name) for name in parts[:-1]]
    refusal = ""
    for depth in range(len(folders) - 1, -1, -1):
        student, assignment = _named_copy(folders[depth], ids)
        above = folders[depth - 1] if depth else ""
        moodle = _MOODLE.fullmatch(folders[depth])
        # The source folder's own name is no student: only what is in it, or an archive's name, can be.
        known = depth > 1 or is_zip(parts[0])
        if moodle:
            student, assignment = moodle["id"], ""
        elif (
            folders[depth] in ids
            and above
            and known
            and depth == len(folders) - 1
            and not _MOODLE.fullmatch(above)
            and not _named_copy(above, ids)[0]
        ):
            student, assignment = above, folders[depth]
        if student and valid_student_id(student):
            return student, assignment, tuple(parts[: depth + 1])
        if student and not refusal:
            refusal = (
                f"{student!r} is no student id that nbgrader takes: rename it to {safe_student_id(student)!r}"
            )
    if refusal:
        return refusal
    near = next((close for name in reversed(folders) if (close := _near_name(name, ids))), None)
    expected = near or f"<assignment>-<student>.zip, where <assignment> is one of {', '.join(sorted(ids))}"
    return f"its name gives no student and assignment: rename it to {expected}"


def _folder_name(name: str) -> str:
    return bare_stem(name[:-4] if is_zip(name) else name)


def _named_copy(name: str, ids: Sequence[str]) -> tuple[str, str]:
    """`ex1-rang-dupont` → ("dupont", "ex1-rang"); ("", "") when it is not such a name."""
    for assignment in ids:
        if name.startswith(f"{assignment}-") and len(name) > len(assignment) + 1:
            return name[len(assignment) + 1 :], assignment
    return "", ""


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


def _near_name(stem: str, ids: Sequence[str]) -> str | None:
    """`ex1_rang-dupont` → `ex1-rang-dupont.zip`: the assignment is compared with each head of the name."""
    cuts = [match.start() for match in re.finditer(r"[-_ +]", stem)]
    for cut in reversed(cuts):
        close = nearest(stem[:cut], ids)
        if close:
            return f"{close}-{safe_student_id(stem[cut + 1 :])}.zip"
    return None


def _assemble(
    assignment: str, declared: Sequence[str], where: tuple[str, ...], members: list[Member], reader: Reader
) -> _Copy | None:
    wanted = f"{assignment}.ipynb"
    content: dict[str, bytes] = {}
    remarks: list[str] = []
    stamp: dt.datetime | None = None
    others: list[Member] = []
    for member in sorted(members, key=lambda member: len(member.parts)):  # the shallowest wins
        name = member.parts[-1]
        if name == TIMESTAMP:
            stamp = read_timestamp(member.data.decode("utf-8", "replace"))
            if stamp is None:
                remarks.append("its timestamp.txt is not a date: left out, the copy counts as on time")
        elif name in (wanted, *declared) and name not in content:
            content[name] = member.data
        else:
            others.append(member)
    for member in others:
        name = member.parts[-1]
        close = nearest(name, [n for n in (wanted, *declared) if Path(n).suffix == Path(name).suffix])
        same_kind = sum(Path(other.parts[-1]).suffix == Path(name).suffix for other in others) == 1
        if close and close not in content and same_kind:
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
    return _Copy(content, moment, remarks)


def _is_notebook(data: bytes) -> bool:
    try:
        return isinstance(json.loads(data)["cells"], list)
    except (ValueError, KeyError, TypeError, RecursionError):
        return False


def _place(root: Path, student: str, assignment: str, copy: _Copy) -> Placed:
    content, remarks = copy.content, copy.remarks
    target = root / "submitted" / student / assignment
    outcome, aside = "new", None
    if target.is_dir():
        there = {path.name: path.read_bytes() for path in target.iterdir() if path.is_file()}
        if _work(there) == _work(content):
            return Placed(student, assignment, "unchanged", target, tuple(remarks))
        aside = _free(root / ".autograder" / "earlier" / student / assignment)
        if copy.moment < _moment(target):
            _write(aside, content)
            remarks.append(f"older than the copy in place: kept in {aside.relative_to(root).as_posix()}")
            return Placed(student, assignment, "kept aside", aside, tuple(remarks))
        remarks.append(f"the earlier copy is kept in {aside.relative_to(root).as_posix()}")
        outcome = "replaced"
    _write(target, content, aside)
    return Placed(student, assignment, outcome, target, tuple(remarks))


def _work(content: dict[str, bytes]) -> dict[str, bytes]:
    return {name: data for name, data in content.items() if name != TIMESTAMP}


def _moment(folder: Path) -> dt.datetime:
    stamp = folder / TIMESTAMP
    read = read_timestamp(stamp.read_text("utf-8", "replace")) if stamp.is_file() else None
    newest = max((path.stat().st_mtime for path in folder.iterdir()), default=0.0)
    return read or dt.datetime.fromtimestamp(newest, dt.UTC)


def _free(parent: Path) -> Path:
    number = 1
    while (parent / str(number)).exists():
        number += 1
    return parent / str(number)


def _write(target: Path, content: dict[str, bytes], aside: Path | None = None) -> None:
    """Write a copy at `target`; what stands there goes to `aside`, once the new one is whole."""
    # Beside the target and then renamed, so that an interrupted collection leaves no half copy.
    part = target.with_name(f".{target.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    for name, data in content.items():
        (part / name).write_bytes(data)
    if aside is not None:
        aside.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(target, aside)
    part.replace(target)


def _once(refused: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """One line per archive and reason, however many files it holds."""
    seen: dict[tuple[str, str], list[str]] = {}
    for name, why in refused:
        archive, found, _ = name.partition(".zip/")
        seen.setdefault((archive + ".zip" if found else name, why), []).append(name)
    for (archive, why), names in seen.items():
        yield (names[0] if len(names) == 1 else f"{archive} ({len(names)} files)"), why
