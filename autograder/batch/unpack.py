"""Read what a grader received, file by file: a folder, a zip, a zip of zips, none of them trusted.

Every name is checked and every byte counted while reading: the size that an archive announces is the
sender's word. Each student's part of an archive has limits of its own, so that a bomb costs its sender's copy
and no other. What is refused is noted with its reason, and the rest is still read.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import io
import os
import re
import unicodedata
import zipfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO

from autograder.batch.handin import MAX_FILE_BYTES

MAX_MEMBERS = 20_000  # of one student: a whole environment that was zipped with the copy
MAX_BYTES = 1024**3  # unpacked, of one student
MAX_DEPTH = 3  # a platform's zip of students' zips, and one more
MAX_NESTED_BYTES = 256 * 1024**2  # a zip inside a zip: it is held in memory while it is read
MAX_LIST_BYTES = 8 * 1024**2  # an archive's list of files, which is read whole
MAX_NAME, MAX_PATH = 255, 1000  # characters: no file system that students have takes more
# A file of Moodle's download without folders: "Nom Prénom_1234567_assignsubmission_file_labo.zip".
_PREFIXED = re.compile(r"(?P<folder>.*_\d+_assignsubmission_(?:file|onlinetext)_)(?P<name>.+)", re.DOTALL)
MAX_TOTAL_BYTES = 16 * 1024**3  # unpacked, of one archive on the grader's disk
_PIECE = 64 * 1024
_DEPTH_OF_A_COPY = 4  # folders above which a copy may stand: deeper ones are not looked at for being empty

UNKNOWN = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)  # a moment that nothing tells: before any other
_NOISE = {"__MACOSX", ".ipynb_checkpoints", "__pycache__", ".DS_Store", "Thumbs.db", "desktop.ini"}


@dataclass(frozen=True)
class Member:
    """One file: the folders and archives on the way to it with its name, its bytes, its last change.

    `data`: None when the file was not worth reading. `received`: the date that stands outside of what its
    sender made. `archive`: a digest of the innermost archive that holds it, "" where there is none.
    """

    parts: tuple[str, ...]
    data: bytes | None
    modified: dt.datetime
    received: dt.datetime
    archive: str = ""


@dataclass
class _Budget:
    members: int = 0
    size: int = 0
    spent: bool = False


@dataclass(frozen=True)
class _Level:
    """Where in the archives the reading is, and on whose account. `share`, `received`: None at the top."""

    depth: int
    whole: _Budget
    share: _Budget | None = None
    received: dt.datetime | None = None
    archive: str = ""


@dataclass
class Reader:
    """Walks folders and archives; counts what it reads and notes what it would not.

    `useful`: whether a file of that name is worth reading. `share`: the part of a path that is one student's.
    """

    useful: Callable[[str], bool]
    share: Callable[[Sequence[str]], tuple[str, ...]]
    refused: list[tuple[str, str]] = field(default_factory=list)
    _budgets: dict[tuple[str, ...], _Budget] = field(default_factory=dict)

    def refuse(self, parts: Sequence[str], why: str) -> None:
        self.refused.append(("/".join(parts), why))

    def walk(self, source: Path) -> Iterator[Member]:
        if source.is_file():
            yield from self._file(source, (source.name,))
            return
        root, below, held = source.resolve().name, [], []
        for folder, folders, files in os.walk(source, onerror=lambda error: self._closed(source, error)):
            folders[:] = sorted(name for name in folders if name not in _NOISE)
            here = Path(folder)
            inside = here.relative_to(source).parts
            below.append(inside)
            held += [(*inside, name) for name in files if name not in _NOISE]
            for name in [name for name in folders if (here / name).is_symlink()]:
                self.refuse((*inside, name), "a link: links are not followed")
                held.append((*inside, name))
            for name in sorted(files, key=lambda name: (unfolded(name)[:-1], is_zip(name), name)):
                path = here / name
                if path.is_symlink() or not path.is_file():
                    self.refuse((*inside, name), "not a regular file (links are not followed)")
                elif name not in _NOISE:
                    # The source folder's own name counts: `collect ex1-rang-dupont/` is one copy.
                    yield from self._file(path, (root, *inside, *unfolded(name)))
        for inside in _empty(below, held):
            self.refuse(inside or (root,), "an empty folder")

    def _closed(self, source: Path, error: OSError) -> None:
        inside = Path(error.filename).relative_to(source).parts
        self.refuse(inside or (source.name,), f"cannot be read: {error.strerror}")

    def _file(self, path: Path, parts: tuple[str, ...]) -> Iterator[Member]:
        data = None
        try:
            modified = moment_of(path.stat().st_mtime)
            if is_zip(path.name):
                with path.open("rb") as stream:
                    digest = hashlib.file_digest(stream, "sha256").hexdigest()
                    yield from self._archive(stream, parts, _Level(1, _Budget(), archive=digest))
                return
            if self.useful(path.name):
                with path.open("rb") as stream:
                    data = self._bounded(stream, parts, MAX_FILE_BYTES)
                if data is None:
                    return
        except OSError as error:
            self.refuse(parts, f"cannot be read: {error.strerror}")
            return
        yield Member(parts, data, modified, modified)

    def _archive(self, stream: IO[bytes], parts: tuple[str, ...], level: _Level) -> Iterator[Member]:
        if level.depth > MAX_DEPTH:
            self.refuse(parts, f"archives nested more than {MAX_DEPTH} deep")
            return
        try:
            listing = _Listing(stream)
            archive = zipfile.ZipFile(listing)
            listing.open = False
        except Exception as error:  # zipfile and its decoders raise a dozen kinds on what is no zip
            self.refuse(parts, f"not a readable zip ({error}): ask for it again")
            return
        with archive:
            files: list[tuple[str, ...]] = []
            folders: list[tuple[str, ...]] = [()]
            for entry in archive.infolist():
                if _counts(inside := _inside(entry)):
                    (folders if entry.is_dir() else files).append(inside)
            for inside in _empty(folders, files):
                why = "an empty folder" if inside else "nothing in it: ask for it again"
                self.refuse((*parts, *inside), why)
            entries = []
            for entry in archive.infolist():
                if len(entry.filename) > MAX_PATH or max(map(len, _inside(entry)), default=0) > MAX_NAME:
                    self.refuse(parts, "a file in it has a name that is too long")
                else:
                    entries.append((entry, *self._account(entry, parts, level)))
            for _, budget, owner in entries:
                budget.members += 1
                if budget.members > MAX_MEMBERS and not budget.spent:
                    budget.spent = True
                    self.refuse(owner, f"more than {MAX_MEMBERS} files: not a submission")
            for entry, budget, _ in sorted(entries, key=lambda one: _folder_order(one[0])):
                if not budget.spent and not level.whole.spent:
                    yield from self._entry(archive, entry, parts, replace(level, share=budget))

    def _account(
        self, entry: zipfile.ZipInfo, parts: tuple[str, ...], level: _Level
    ) -> tuple[_Budget, tuple[str, ...]]:
        """Whose limits an entry counts in, and their name."""
        if level.share is not None:
            return level.share, parts
        owner = self.share((*parts, *_inside(entry)))
        return self._budgets.setdefault(owner, _Budget()), owner

    def _entry(
        self, archive: zipfile.ZipFile, entry: zipfile.ZipInfo, parts: tuple[str, ...], level: _Level
    ) -> Iterator[Member]:
        inside = _inside(entry)
        if entry.is_dir() or not _counts(inside):
            return
        where = (*parts, *inside)
        name = entry.filename.replace("\\", "/")
        if name.startswith("/") or ".." in inside or re.match(r"[A-Za-z]:", name):
            self.refuse(where, "a name that leaves its folder")
            return
        kind = (entry.external_attr >> 16) & 0o170000
        if kind not in (0, 0o100000):
            self.refuse(where, "not a regular file (links are not followed)")
            return
        try:
            modified = dt.datetime(*entry.date_time, tzinfo=dt.UTC)
        except ValueError:
            modified = UNKNOWN
        received = level.received or modified
        data = None
        if is_zip(name) or self.useful(inside[-1]):
            data = self._unpacked(archive, entry, where, level)
            if data is None:
                return
        if data is None or not is_zip(name):
            yield Member(where, data, modified, received, level.archive)
            return
        digest = hashlib.sha256(data).hexdigest()
        below = replace(level, depth=level.depth + 1, received=received, archive=digest)
        yield from self._archive(io.BytesIO(data), where, below)

    def _unpacked(
        self, archive: zipfile.ZipFile, entry: zipfile.ZipInfo, where: tuple[str, ...], level: _Level
    ) -> bytes | None:
        # The other methods unpack as much as they like at one call, whatever number of bytes is asked for.
        if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            self.refuse(where, "compressed by an unusual method: ask for an ordinary zip")
            return None
        limit = MAX_NESTED_BYTES if is_zip(where[-1]) else MAX_FILE_BYTES
        try:
            with archive.open(entry) as stream:
                return self._bounded(stream, where, limit, level)
        except Exception as error:  # damaged, encrypted, cut: zlib.error, BadZipFile, RuntimeError, EOFError…
            self.refuse(where, f"cannot be unpacked ({error}): ask for it again")
            return None

    def _bounded(
        self, stream: IO[bytes], parts: Sequence[str], limit: int, level: _Level | None = None
    ) -> bytes | None:
        data = bytearray()
        while piece := stream.read(_PIECE):
            data += piece
            if len(data) > limit:
                self.refuse(parts, f"larger than {limit // 2**20} MiB")
                return None
            for budget, most in ((level.share, MAX_BYTES), (level.whole, MAX_TOTAL_BYTES)) if level else ():
                if budget is None:
                    continue
                budget.size += len(piece)
                if budget.size > most:
                    budget.spent = True
                    self.refuse(parts, f"more than {most / 2**30:g} GiB unpacked: the rest is not read")
                    return None
        return bytes(data)


class _Listing:
    """A file that gives no more than MAX_LIST_BYTES at one read while `open` is true: zipfile reads an
    archive's list of files at once, whatever its length, and makes an object of each entry.
    """

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self.open = True
        self.seek, self.tell, self.seekable = stream.seek, stream.tell, stream.seekable

    def read(self, size: int = -1) -> bytes:
        if self.open and size > MAX_LIST_BYTES:
            raise ValueError("its list of files is too long")
        return self._stream.read(size)


def _inside(entry: zipfile.ZipInfo) -> tuple[str, ...]:
    name = unicodedata.normalize("NFC", entry.filename.replace("\\", "/"))
    parts = [part for part in name.split("/") if part not in ("", ".")]
    return tuple(parts) if entry.is_dir() or not parts else (*parts[:-1], *unfolded(parts[-1]))


def _counts(inside: tuple[str, ...]) -> bool:
    """Somebody put it there: no noise of a system or an editor."""
    return bool(inside) and not _NOISE.intersection(inside)


def _empty(folders: Iterable[tuple[str, ...]], files: Iterable[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """Those folders that hold no file at any depth, the highest of each; not those beside a copy's files."""
    files = list(files)
    full = {parts[:n] for parts in files for n in range(min(len(parts), _DEPTH_OF_A_COPY + 1))}
    settled = {parts[:-1] for parts in files if not is_zip(parts[-1])}  # a copy: what is below is its own
    found = []
    for folder in sorted(set(folders)):
        if len(folder) > _DEPTH_OF_A_COPY or folder in full:
            continue
        if not any(folder[:n] in settled for n in range(len(folder) + 1)):
            found.append(folder)
            settled.add(folder)
    return found


def unfolded(name: str) -> tuple[str, ...]:
    """Moodle's folder and the file in it, where the download has both in one name; else `name` alone."""
    found = _PREFIXED.fullmatch(unicodedata.normalize("NFC", name))
    return (found["folder"], found["name"]) if found else (name,)


def _folder_order(entry: zipfile.ZipInfo) -> tuple[list[str], bool, str]:
    """A folder's own files before what lies deeper: a copy's files then come one after the other."""
    *folders, name = _inside(entry) or ("",)
    return folders, is_zip(name), name


def moment_of(mtime: float) -> dt.datetime:
    """A file's date, UNKNOWN when it is beyond the calendar."""
    try:
        return dt.datetime.fromtimestamp(mtime, dt.UTC)
    except (ValueError, OverflowError, OSError):
        return UNKNOWN


def is_zip(name: str) -> bool:
    return name.lower().endswith(".zip")
