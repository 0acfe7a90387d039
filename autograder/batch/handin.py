"""What a student hands in: its name, what must be in it, and the zip that `autograder pack` writes.

Needs neither nbgrader nor torch, so it runs on a student's machine. `collect` is the other end.
"""

from __future__ import annotations

import datetime as dt
import difflib
import getpass
import json
import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autograder.files import write_zip
from autograder.messages import plural, text
from autograder.notebook.stubs import CODE_STUB, TEXT_STUB

MAX_FILE_BYTES = 10 * 1024 * 1024  # a notebook with its outputs weighs a few hundred KiB
MAX_COPY_BYTES = 20 * 1024 * 1024
TIMESTAMP = "timestamp.txt"  # nbgrader's own name for the time of submission

# nbgrader's exchange joins fields with "+", its globs read *?[], its path templates read {}, and Windows
# refuses the rest, so an id is letters, digits and . _ - @ only.
_STUDENT_ID = re.compile(r"\w(?:[\w.@-]{0,62}[\w-])?")
_RESERVED = re.compile(r"(?i)(con|prn|aux|nul|com\d|lpt\d)(\..*)?")
_COPY_SUFFIX = re.compile(r"(?:(?<!\s)\s*\(\d+\)|[-_ ]copy\d*|[-_ ]copie\d*)+$", re.IGNORECASE)


class HandinError(ValueError):
    """A copy cannot be packed: the message, in French, says what is missing and what to do."""


@dataclass(frozen=True)
class Packed:
    """The zip that was written, the names in it, and what the student should look at before uploading it."""

    path: Path
    names: tuple[str, ...]
    warnings: tuple[str, ...]


def valid_student_id(student: str) -> bool:
    """Whether nbgrader, its exchange and every file system take `student` as a folder name."""
    return bool(_STUDENT_ID.fullmatch(student)) and not _RESERVED.fullmatch(student)


def safe_student_id(student: str) -> str:
    """The nearest valid id: accents kept, anything else that is refused becomes a hyphen."""
    joined = re.sub(r"[^\w.@-]+", "-", unicodedata.normalize("NFC", student.strip()))
    joined = joined.strip("-.@")[:64].rstrip(".@-")
    return joined if valid_student_id(joined) else f"id-{joined}"[:64].rstrip(".@-")


def bare_stem(stem: str) -> str:
    """`ex1-rang (1)`, `ex1-rang-Copy1` → `ex1-rang`: what browsers and JupyterLab add to a second copy."""
    return _COPY_SUFFIX.sub("", stem).strip()


def nearest(name: str, candidates: Iterable[str]) -> str | None:
    """The candidate that `name` was most likely meant to be, or None when none is close."""
    names = list(candidates)
    exact = {bare_stem(Path(candidate).stem).casefold(): candidate for candidate in names}
    stem = bare_stem(Path(name).stem).casefold()
    if stem in exact:
        return exact[stem]
    close = difflib.get_close_matches(name.casefold(), [c.casefold() for c in names], n=1, cutoff=0.6)
    return next((c for c in names if close and c.casefold() == close[0]), None)


def default_student_id() -> str:
    """The login name made safe; "" where the system has none (the caller then asks for --id)."""
    try:
        return safe_student_id(getpass.getuser())
    except (ImportError, KeyError, OSError):  # Windows without USERNAME, a container without passwd
        return ""


def timestamp_line(moment: dt.datetime) -> str:
    """The time of submission as nbgrader writes it itself; `parse_utc` misreads numeric offsets, so UTC."""
    return moment.astimezone(dt.UTC).strftime("%Y-%m-%d %H:%M:%S.%f UTC")


def read_timestamp(line: str) -> dt.datetime | None:
    """The moment that a timestamp.txt gives, None when it is not one: nbgrader would stop the whole class."""
    moment = _moment(line.removeprefix("\ufeff").strip())
    # Beside these years it is a mistake, and nbgrader would read another date, or none.
    return moment if moment is not None and 2000 <= moment.year < 2200 else None


def _moment(line: str) -> dt.datetime | None:
    for pattern in ("%Y-%m-%d %H:%M:%S.%f UTC", "%Y-%m-%d %H:%M:%S UTC"):
        try:
            return dt.datetime.strptime(line, pattern).replace(tzinfo=dt.UTC)
        except ValueError:
            continue
    try:
        moment = dt.datetime.fromisoformat(line)
        return moment.astimezone(dt.UTC) if moment.tzinfo else moment.replace(tzinfo=dt.UTC)
    except (ValueError, OverflowError):
        return None


def misplaceable(folder: Path) -> list[str]:
    """The notebooks of `folder` that may be another one under a wrong name: one that has its folder's name
    is that exercise's own.
    """
    own = folder.resolve().name
    return [path.name for path in sorted(folder.glob("*.ipynb")) if path.is_file() and path.stem != own]


def find_copy(assignment: str, start: Path) -> Path:
    """The folder that holds the copy: `start` itself, or the assignment's folder below it."""
    wanted = f"{assignment}.ipynb"
    places = (start, start / assignment, start / "release" / assignment)
    for place in places:
        if (place / wanted).is_file():
            return place
    for place in places:
        if place.is_dir():
            close = nearest(wanted, misplaceable(place))
            if close:
                raise HandinError(text("handin.notebook-misnamed", found=close, wanted=wanted, folder=place))
    raise HandinError(text("handin.notebook-missing", wanted=wanted, folder=start))


def pack(
    assignment: str,
    declared: Sequence[str],
    student: str,
    start: Path,
    *,
    out: Path | None = None,
    now: dt.datetime | None = None,
) -> Packed:
    """Write `<assignment>-<student>.zip` into `out` (default: `start`) and say what to look at.

    `declared` are the files that course.yaml accepts beside the notebook. Raises HandinError, in French,
    when nothing useful could be handed in.
    """
    if not valid_student_id(student):
        if not student:
            raise HandinError(text("handin.id-missing"))
        raise HandinError(text("handin.id-refused", given=student, proposal=safe_student_id(student)))
    folder = find_copy(assignment, start)
    content = {f"{assignment}.ipynb": _read(folder / f"{assignment}.ipynb")}
    try:
        notebook = json.loads(content[f"{assignment}.ipynb"])
        cells = [cell for cell in notebook["cells"] if isinstance(cell, dict)]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise HandinError(text("handin.notebook-unreadable", wanted=f"{assignment}.ipynb")) from None

    warnings = []
    for name in declared:
        path = folder / name
        if path.is_file():
            content[name] = _read(path)
            written = written_file(cells, name)
            on_disk = content[name].decode("utf-8", "replace")
            if written is not None and _same_script(written, on_disk):
                continue
            if written is not None and CODE_STUB not in written:
                warnings.append(text("handin.file-differs", name=name))
        elif written_file(cells, name) is None:
            others = [other.name for other in folder.iterdir() if other.suffix == Path(name).suffix]
            close = nearest(name, others)
            key = "handin.file-misnamed" if close else "handin.file-missing"
            warnings.append(text(key, name=name, found=close or ""))
    holes = [_cell_name(cell) for cell in cells if is_hole(cell)]
    if holes:
        warnings.append(text("handin.holes", count=len(holes), s=plural(len(holes)), cells=", ".join(holes)))
    if sum(map(len, content.values())) > MAX_COPY_BYTES:
        raise HandinError(text("handin.too-big", limit=MAX_COPY_BYTES // 2**20))

    stamp = timestamp_line(now or dt.datetime.now(dt.UTC))
    content[TIMESTAMP] = f"{stamp}\n".encode()
    target = (out or start) / f"{assignment}-{student}.zip"
    write_zip(target, content)
    return Packed(target, tuple(sorted(content)), tuple(warnings))


def written_file(cells: Sequence[dict[str, Any]], name: str) -> str | None:
    """What the notebook's `%%writefile name` cell writes, None when no cell does."""
    for cell in cells:
        first, _, rest = _source(cell).partition("\n")
        if cell.get("cell_type") == "code" and first.split() == ["%%writefile", name]:
            return rest
    return None


def is_hole(cell: dict[str, Any]) -> bool:
    """Whether a cell that the student has to fill still holds the released stub."""
    if not _roles(cell).get("solution"):
        return False
    stub = CODE_STUB if cell.get("cell_type") == "code" else TEXT_STUB
    return any(stub in line and not line.lstrip().startswith("#") for line in _source(cell).splitlines())


def _cell_name(cell: dict[str, Any]) -> str:
    return str(_roles(cell).get("grade_id", "?"))


def _roles(cell: dict[str, Any]) -> dict[str, Any]:
    """nbgrader's metadata of a cell, in a notebook that anything may have written."""
    metadata = cell.get("metadata")
    roles = metadata.get("nbgrader") if isinstance(metadata, dict) else None
    return roles if isinstance(roles, dict) else {}


def _source(cell: dict[str, Any]) -> str:
    source = cell.get("source", "")
    return "".join(map(str, source)) if isinstance(source, list) else str(source)


def _same_script(one: str, other: str) -> bool:
    return one.replace("\r\n", "\n").strip() == other.replace("\r\n", "\n").strip()


def _read(path: Path) -> bytes:
    if path.stat().st_size > MAX_FILE_BYTES:
        raise HandinError(text("handin.file-too-big", name=path.name, limit=MAX_FILE_BYTES // 2**20))
    return path.read_bytes()
