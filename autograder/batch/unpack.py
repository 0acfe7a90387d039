"""Read what a grader received, file by file: a folder, a zip, a zip of zips, none of them trusted.

Every name is checked and every byte counted while reading: the size that an archive announces is the
sender's word. What is refused is noted with its reason, and the rest is still read.
"""

from __future__ import annotations

import datetime as dt
import io
import os
import re
import unicodedata
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from autograder.batch.handin import MAX_FILE_BYTES

MAX_MEMBERS = 20_000  # of one archive: a class of 400 with ten files each, five times over
MAX_DEPTH = 3  # a platform's zip of students' zips, and one more
MAX_NESTED_BYTES = 256 * 1024**2  # a zip inside a zip: it is held in memory while it is read
MAX_TOTAL_BYTES = 4 * 1024**3  # everything read in one collection

_NOISE = {"__MACOSX", ".ipynb_checkpoints", "__pycache__", ".DS_Store", "Thumbs.db", "desktop.ini"}


@dataclass(frozen=True)
class Member:
    """One file: the folders and archives on the way to it with its name, its bytes, its last change."""

    parts: tuple[str, ...]
    data: bytes
    modified: dt.datetime


@dataclass
class Reader:
    """Walks folders and archives; counts what it reads and notes what it would not."""

    refused: list[tuple[str, str]] = field(default_factory=list)
    total: int = 0
    members: int = 0

    def refuse(self, parts: Sequence[str], why: str) -> None:
        self.refused.append(("/".join(parts), why))

    def walk(self, source: Path) -> Iterator[Member]:
        if source.is_file():
            yield from self._file(source, (source.name,))
            return
        for folder, folders, files in os.walk(source):
            folders[:] = sorted(name for name in folders if name not in _NOISE)
            here = Path(folder)
            inside = here.relative_to(source).parts
            for name in [name for name in folders if (here / name).is_symlink()]:
                self.refuse((*inside, name), "a link: links are not followed")
            for name in sorted(files, key=lambda name: (is_zip(name), name)):
                path = here / name
                if path.is_symlink() or not path.is_file():
                    self.refuse((*inside, name), "not a regular file (links are not followed)")
                elif name not in _NOISE:
                    # The source folder's own name counts: `collect ex1-rang-dupont/` is one copy.
                    yield from self._file(path, (source.resolve().name, *inside, name))

    def _file(self, path: Path, parts: tuple[str, ...]) -> Iterator[Member]:
        if path.suffix.lower() == ".zip":
            try:
                with path.open("rb") as stream:
                    yield from self._archive(stream, parts, 1)
            except OSError as error:
                self.refuse(parts, f"cannot be read: {error.strerror}")
            return
        try:
            modified = dt.datetime.fromtimestamp(path.stat().st_mtime, dt.UTC)
            with path.open("rb") as stream:
                data = self._bounded(stream, parts)
        except OSError as error:
            self.refuse(parts, f"cannot be read: {error.strerror}")
            return
        if data is not None:
            yield Member(parts, data, modified)

    def _archive(self, stream: IO[bytes], parts: tuple[str, ...], depth: int) -> Iterator[Member]:
        if depth > MAX_DEPTH:
            self.refuse(parts, f"archives nested more than {MAX_DEPTH} deep")
            return
        try:
            archive = zipfile.ZipFile(stream)
        except (zipfile.BadZipFile, OSError, ValueError) as error:
            self.refuse(parts, f"not a readable zip ({error}): ask for it again")
            return
        with archive:
            entries = archive.infolist()
            self.members += len(entries)
            if self.members > MAX_MEMBERS:
                self.refuse(parts, f"more than {MAX_MEMBERS} files: not a submission")
                return
            for entry in sorted(entries, key=_folder_order):
                yield from self._entry(archive, entry, parts, depth)

    def _entry(
        self, archive: zipfile.ZipFile, entry: zipfile.ZipInfo, parts: tuple[str, ...], depth: int
    ) -> Iterator[Member]:
        name = unicodedata.normalize("NFC", entry.filename.replace("\\", "/"))
        inside = tuple(part for part in name.split("/") if part not in ("", "."))
        if entry.is_dir() or _NOISE.intersection(inside) or not inside:
            return
        where = (*parts, *inside)
        if name.startswith("/") or ".." in inside or re.match(r"[A-Za-z]:", name):
            self.refuse(where, "a name that leaves its folder")
            return
        kind = (entry.external_attr >> 16) & 0o170000
        if kind not in (0, 0o100000):
            self.refuse(where, "not a regular file (links are not followed)")
            return
        try:
            with archive.open(entry) as stream:
                data = self._bounded(stream, where, MAX_NESTED_BYTES if is_zip(name) else MAX_FILE_BYTES)
        except (zipfile.BadZipFile, OSError, RuntimeError, NotImplementedError, EOFError) as error:
            self.refuse(where, f"cannot be unpacked ({error}): ask for it again")  # damaged or encrypted
            return
        if data is None:
            return
        if is_zip(name):
            yield from self._archive(io.BytesIO(data), where, depth + 1)
        else:
            try:
                modified = dt.datetime(*entry.date_time, tzinfo=dt.UTC)
            except ValueError:
                modified = dt.datetime(1980, 1, 1, tzinfo=dt.UTC)
            yield Member(where, data, modified)

    def _bounded(self, stream: IO[bytes], parts: Sequence[str], limit: int = MAX_FILE_BYTES) -> bytes | None:
        data = stream.read(limit + 1)
        self.total += len(data)
        if len(data) > limit:
            self.refuse(parts, f"larger than {limit // 2**20} MiB")
            return None
        if self.total > MAX_TOTAL_BYTES:
            self.refuse(parts, f"more than {MAX_TOTAL_BYTES // 2**30} GiB in one collection: split it")
            return None
        return data


def _folder_order(entry: zipfile.ZipInfo) -> tuple[list[str], bool, str]:
    """A folder's own files before what lies deeper: a copy's files then come one after the other."""
    *folders, name = entry.filename.replace("\\", "/").split("/")
    return folders, is_zip(name), name


def is_zip(name: str) -> bool:
    return name.lower().endswith(".zip")
