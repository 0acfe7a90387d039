"""Write files whole or not at all, and zips that are the same bytes each time."""

from __future__ import annotations

import os
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path

_EPOCH = (1980, 1, 1, 0, 0, 0)  # the earliest date that a zip can hold: the same bytes whenever it is made
_UNIX = 3  # the same header on every system
_REGULAR_FILE = 0o100644 << 16


def write_whole(path: Path, content: bytes) -> None:
    """Give `path` this content, its folder made where needed. Of several at once, the last one wins."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, draft = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        os.replace(draft, path)
    finally:
        Path(draft).unlink(missing_ok=True)  # there only where something went wrong


def write_zip(path: Path, content: Mapping[str, bytes]) -> None:
    """Write the zip of these names, sorted; half a zip is never left behind."""
    draft = path.with_name(f".{path.name}.part")
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
