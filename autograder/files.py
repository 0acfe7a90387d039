"""Files written whole or not at all, zips of the same bytes each time, paths that students must not see."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path

_DRAFT = ".part"
_EPOCH = (1980, 1, 1, 0, 0, 0)  # the earliest date that a zip can hold: the same bytes whenever it is made
_UNIX = 3  # the same header on every system
_REGULAR_FILE = 0o100644 << 16


def write_whole(path: Path, content: bytes) -> None:
    """Give `path` this content, its folder made where needed. Of several at once, the last one wins."""
    with draft_of(path) as draft:
        draft.write_bytes(content)


@contextlib.contextmanager
def errors_of(path: Path) -> Iterator[None]:
    """An error of the disk names `path`, which was asked for, not the draft beside it."""
    try:
        yield
    except OSError as error:
        given = error.filename if isinstance(error.filename, str | bytes | os.PathLike) else ""
        name = os.path.basename(os.fsdecode(given))
        if name.startswith(f".{path.name}.") and name.endswith(_DRAFT):
            error.filename, error.filename2 = str(path), None
        raise


@contextlib.contextmanager
def draft_of(path: Path) -> Iterator[Path]:
    """A file beside `path` to be filled: it takes its place at the end, and is gone where something fails."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with errors_of(path):
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=_DRAFT, dir=path.parent)
        os.close(handle)
        try:
            yield Path(name)
            with open(name, "rb+") as file:
                os.fsync(file.fileno())  # whole on the disk before it takes the place of what is whole there
            os.replace(name, path)
        finally:
            Path(name).unlink(missing_ok=True)  # there only where something went wrong


def sweep_drafts(folder: Path) -> None:
    """Remove what a process that was killed while writing left in `folder`, an unfinished database's too."""
    for path in folder.glob(f".*{_DRAFT}*") if folder.is_dir() else ():
        if path.name.removesuffix("-journal").endswith(_DRAFT):
            with contextlib.suppress(OSError):
                path.unlink()


def write_zip(path: Path, content: Mapping[str, bytes]) -> None:
    """Write the zip of these names, sorted; half a zip is never left behind."""
    draft = path.with_name(f".{path.name}{_DRAFT}")
    with errors_of(path):
        try:
            with zipfile.ZipFile(draft, "w", zipfile.ZIP_DEFLATED) as archive:
                for name in sorted(content):
                    entry = zipfile.ZipInfo(name, _EPOCH)
                    entry.compress_type = zipfile.ZIP_DEFLATED
                    entry.create_system = _UNIX
                    entry.external_attr = _REGULAR_FILE
                    archive.writestr(entry, content[name])
            os.replace(draft, path)
        finally:
            draft.unlink(missing_ok=True)


def private_paths(root: Path) -> list[str]:
    """The folders of this machine that no student is to read, beside the course's: the longest first, so that
    no tail of one is left.
    """
    package = Path(__file__).resolve().parent
    paths = {str(root), str(root.resolve()), sys.prefix, sys.base_prefix, str(package), str(package.parent)}
    paths.add(os.path.expanduser("~"))
    return sorted((path for path in paths if len(path) > 4), key=len, reverse=True)
