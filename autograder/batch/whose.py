"""Whose copy a file is: what the names on the way to it say, and what a platform says of who sent it.

A zip's name is whatever its sender typed; Moodle's folder names the person who uploaded what is in it. So a
student is only ever taken at the word of one person: two Moodle folders with copies of one student, or one
with copies of several, are for the grader to settle.
"""

from __future__ import annotations

import datetime as dt
import itertools
import re
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from autograder.batch.handin import bare_stem, nearest, safe_student_id, valid_student_id
from autograder.batch.unpack import Member, is_zip

# Moodle's download: "Nom Prénom_1234567_assignsubmission_file" (once "…_file_"; also "…_onlinetext").
_MOODLE = re.compile(r"(?P<name>.*)_(?P<id>\d+)_assignsubmission_\w+")
# nbgrader's exchange: "dupont+ex1-rang+2031-02-01 10:00:00.000000 UTC+a1b2c3".
EXCHANGED = re.compile(r"(?P<student>.+)\+(?P<assignment>[^+]+)\+\d{4}-\d\d-\d\d [\d:.]+ \w+(?:\+[^+]*)?")
_ANONYMOUS = {"participant", "participante"}  # what Moodle calls everybody while marking is blind
_DAY = dt.timedelta(days=1)

Owner = tuple[str, str, tuple[str, ...]]  # student, assignment ("": its notebook will say), folder


def identify(parts: Sequence[str], declared: Iterable[str]) -> Owner | str:
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
        if moodle and "_assignsubmission_onlinetext" in folders[depth]:
            return "a text typed in Moodle, not a file: read it there"
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
    near = next((close for name in folders[:-4:-1] if (close := _near_name(name, ids))), None)
    expected = near or f"<assignment>-<student>.zip, where <assignment> is one of {', '.join(sorted(ids))}"
    return f"its name gives no student and assignment: rename it to {expected}"


def share(parts: Sequence[str], declared: Iterable[str]) -> tuple[str, ...]:
    """The part of a path in an archive that is one student's: what one student may fill."""
    ids = sorted(declared, key=len, reverse=True)
    folders = [_folder_name(name) for name in (parts if is_zip(parts[-1]) else parts[:-1])]
    top = next(depth for depth, name in enumerate(parts) if is_zip(name))
    for depth, name in enumerate(folders):
        if _MOODLE.fullmatch(name):
            return tuple(parts[: depth + 1])
    for depth, name in enumerate(folders):
        # The archive's own name comes last: that of a whole class's may look like a copy's.
        if depth > top and (name in ids or _named_copy(name, ids)[0]):
            return tuple(parts[: depth + 1])
    return tuple(parts[: top + 1])


def source_of(parts: Sequence[str], declared: Iterable[str]) -> tuple[str, ...]:
    """What names a refusal inside an archive: the sender's Moodle folder or zip, else the archive."""
    if not any(map(is_zip, parts)):
        return tuple(parts)
    owner = share(parts, declared)
    if is_zip(owner[-1]) or _MOODLE.fullmatch(_folder_name(owner[-1])):
        return owner
    return tuple(parts[: next(depth for depth, name in enumerate(parts) if is_zip(name)) + 1])


def _folder_name(name: str) -> str:
    return bare_stem(name[:-4] if is_zip(name) else name)


def _named_copy(name: str, ids: Sequence[str]) -> tuple[str, str]:
    """`ex1-rang-dupont` → ("dupont", "ex1-rang"); ("", "") when it is not such a name."""
    exchanged = EXCHANGED.fullmatch(name)
    if exchanged and exchanged["assignment"] in ids:
        return exchanged["student"], exchanged["assignment"]
    for assignment in ids:
        if name.startswith(f"{assignment}-") and len(name) > len(assignment) + 1:
            return name[len(assignment) + 1 :], assignment
    return "", ""


def _near_name(stem: str, ids: Sequence[str]) -> str | None:
    """`ex1_rang-dupont` → `ex1-rang-dupont.zip`: the assignment is compared with each head of the name."""
    cuts = [match.start() for match in re.finditer(r"[-_ +]", stem)]
    for cut in reversed(cuts[:8]):
        close = nearest(stem[:cut], ids)
        if close:
            return f"{close}-{safe_student_id(stem[cut + 1 :])}.zip"
    return None


# ------------------------------------------------------------------------------------------- who sent it


@dataclass(frozen=True)
class Sender:
    """The person whose Moodle folder it is, and the download (`place`) in which that folder stands."""

    place: tuple[str, ...]
    name: str
    number: str

    def __str__(self) -> str:
        return f"{self.name}_{self.number}"

    def is_same(self, other: Sender) -> bool:
        """Moodle numbers a person anew for each activity, so across downloads the name has to do; where it
        hides the names, nobody is known to be anybody.
        """
        if self.name.casefold() in _ANONYMOUS:
            return self.number == other.number and self.place == other.place
        return self.name == other.name and (self.number == other.number or self.place != other.place)


def sender(parts: Sequence[str]) -> Sender | None:
    """Who uploaded this, if Moodle says: its outermost folder, since those below are the person's own."""
    for depth, name in enumerate(parts[:-1]):
        match = _MOODLE.fullmatch(_folder_name(name))
        if match:
            person = unicodedata.normalize("NFC", match["name"])
            return Sender(tuple(parts[:depth]), person, match["id"])
    return None


@dataclass
class _Claim:
    student: str
    assignment: str
    sender: Sender
    archives: set[str]  # what it came in, "" for files that no archive of the sender's own holds


class Claims:
    """Which persons sent a copy of which students, in everything that is being collected.

    `together`: the assignments made in groups. There one member may send what another packed, so what a
    person sends for such an assignment says nothing of the others.
    """

    def __init__(self, found: Iterable[tuple[Owner, Member]], together: Collection[str] = ()) -> None:
        self._together = frozenset(together)
        self._by_student: dict[str, list[_Claim]] = {}
        self._by_person: dict[str, list[_Claim]] = {}
        self._numbers: dict[str, Sender] = {}
        self._dates: dict[tuple[str, ...], tuple[dt.datetime, dt.datetime]] = {}
        copies = itertools.groupby(found, key=lambda pair: (pair[0], sender(pair[1].parts)))
        for ((student, assignment, _), person), members in copies:
            if person is None:
                continue
            archives = set()
            for _, member in members:
                inside = member.parts[len(person.place) + 1 : -1]
                archives.add(member.archive if any(map(is_zip, inside)) else "")
                first, last = self._dates.get(person.place, (member.received, member.received))
                self._dates[person.place] = min(first, member.received), max(last, member.received)
            claim = _Claim(student.casefold(), assignment, person, archives)
            self._by_student.setdefault(claim.student, []).append(claim)
            self._by_person.setdefault(person.name, []).append(claim)
            self._numbers[person.number] = person

    def objection(self, student: str, assignment: str, person: Sender) -> str | None:
        """Why what `person` sent is not to be placed as this student's, None when nothing speaks against."""
        if student == person.number:
            return None
        if student in self._numbers:
            return f"{student!r} is the Moodle number of {self._numbers[student]}: {person} is another person"
        same = [one for one in self._by_student.get(student.casefold(), ()) if self._near(one, assignment)]
        if any(not person.is_same(one.sender) for one in same) and not _all_equal(same):
            people = ", ".join(_first({str(one.sender): None for one in same}))
            return f"copies of {student!r} stand in several persons' Moodle folders ({people}): {_SETTLE}"
        others = {one.student: None for one in self._of(person, assignment) if one.student != person.number}
        if len(others) > 1:
            return f"{person} handed in as several students ({', '.join(_first(others))}): {_SETTLE}"
        return None

    def remark(self, student: str, assignment: str, person: Sender) -> str | None:
        """For a copy under the person's Moodle number: that the same person sent one under a name too."""
        if student != person.number:
            return None
        others = {one.student: None for one in self._of(person, assignment)} | {student.casefold(): None}
        others.pop(student.casefold())
        return f"{person} handed in as {', '.join(_first(others))} too: keep one" if others else None

    def came_later(self, person: Sender, received: dt.datetime, stamp: dt.datetime) -> bool:
        """Whether Moodle has this file from more than a day after the time that the copy itself gives.

        Some Moodles date the files of a download with its own time: one date for all, which says nothing.
        """
        first, last = self._dates.get(person.place, (received, received))
        return last - first > _DAY and received - stamp > _DAY

    def _of(self, person: Sender, assignment: str) -> Iterator[_Claim]:
        for one in self._by_person.get(person.name, ()):
            if person.is_same(one.sender) and self._near(one, assignment):
                yield one

    def _near(self, claim: _Claim, assignment: str) -> bool:
        return claim.assignment == assignment or not {claim.assignment, assignment} & self._together


_SETTLE = "nothing of it was placed; find out whose it is, then collect that file alone, out of its folder"


def _all_equal(claims: Sequence[_Claim]) -> bool:
    """The very same archive each time, as when both members of a group upload it: nothing to settle."""
    return "" not in claims[0].archives and all(one.archives == claims[0].archives for one in claims)


def _first(names: Collection[str], most: int = 5) -> list[str]:
    return [*itertools.islice(names, most), *(["…"] if len(names) > most else [])]
