"""What grading one copy gave: plain, frozen data, written and read as JSON. No database is needed to make
it.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import stat
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from autograder.files import write_whole
from autograder.messages import number, plural, text

SCHEMA = 1
RESULTS = Path(".autograder") / "results"
# Neither digested nor run: what another program adds to a copy.
NOT_THE_COPY = {".ipynb_checkpoints", "__pycache__", ".git", "timestamp.txt"}


@dataclass(frozen=True)
class TestResult:
    """One test cell: status is passed, partial, failed, skipped or not_graded."""

    __test__ = False

    id: str
    status: str
    points: float
    max_points: float
    message: str = ""
    advice: str = ""


@dataclass(frozen=True)
class CopyResult:
    """One copy's marks from its test cells, in points; written answers are not in `max_score`.

    `graded` False: nothing may be read as a zero; `cause` says why, in French. `cells` are the outputs to
    show, by cell id (the grade_id where there is one). `notebook` False: no notebook could be read, only
    labo.py, or nothing.
    """

    assignment: str
    student: str | None = None
    graded: bool = True
    cause: str | None = None
    score: float = 0.0
    max_score: float = 0.0
    tests: tuple[TestResult, ...] = ()
    flags: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    diagnosis: dict[str, Any] | None = None
    cells: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    key_fingerprint: str = "public"
    sandbox: bool = False
    copy_sha256: str = ""
    notebook: bool = True
    details: tuple[str, ...] = ()  # for the grader: what went wrong in a test cell, never shown to a student
    duration_s: float = 0.0
    suspicions: tuple[str, ...] = ()  # for the grader: what to read again, where `flags` has "tampering"
    group: tuple[str, ...] = ()  # whom this one copy counts for, the student whose copy it is first
    clock: tuple[str, ...] = ()  # what a quicker machine might have ended otherwise: test cells, "notebook"
    alone: bool = False  # because of that, examined a second time with no other copy running
    warm: bool = False  # a process that had all loaded forked its cells, tests or launches (launch/warm)
    cold: str = ""  # why it was examined without one after that: "confirmed", "audited"; that is what counts
    disagreed: str = ""  # for the grader: what the first examination had found instead
    schema: int = SCHEMA

    @property
    def passed(self) -> bool:
        """Every test that was run gave all its points."""
        return self.graded and all(test.status in ("passed", "skipped") for test in self.tests)

    @property
    def all_hidden(self) -> bool:
        """Nothing of any test is here to be run: an exam, on a student's machine."""
        return bool(self.tests) and all(test.status == "skipped" and not test.message for test in self.tests)

    def head(self) -> str:
        """The mark of one copy, or why there is none, in one French line."""
        if self.graded and self.all_hidden:
            count, points = len(self.tests), number(sum(test.max_points for test in self.tests))
            return text(
                "exam.all-hidden", assignment=self.assignment, count=count, s=plural(count), points=points,
            )  # fmt: skip
        if not self.graded:
            return text("grading.check-not-graded", assignment=self.assignment, cause=self.cause or "")
        score, top = number(self.score), number(self.max_score)
        return text("grading.check-head", assignment=self.assignment, score=score, max=top)

    def to_json(self) -> str:
        return json.dumps(dataclasses.asdict(self), ensure_ascii=False, indent=1, sort_keys=True)

    @classmethod
    def from_json(cls, content: str) -> CopyResult:
        data = json.loads(content)
        data["tests"] = tuple(TestResult(**test) for test in data["tests"])
        for key in ("flags", "remarks", "details", "suspicions", "group", "clock"):
            data[key] = tuple(data.get(key, ()))
        return cls(**data)

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """What IPython shows, and a notebook stores: the head line, not the outputs of a whole copy."""
        printer.text(self.head())

    def _repr_markdown_(self) -> str:
        """What a notebook shows for the value of a check, whose table is printed above."""
        return f"**{self.head()}**"


def copy_sha256(folder: Path) -> str:
    """The content of a submission: names and bytes of its regular files, without its timestamp and caches."""
    digest = hashlib.sha256()
    for place, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if name not in NOT_THE_COPY)
        for name in sorted(files):
            path = Path(place, name)
            try:
                if name in NOT_THE_COPY or not stat.S_ISREG(path.lstat().st_mode):
                    continue
                with path.open("rb") as file:
                    content = hashlib.file_digest(file, "sha256").digest()
            except OSError:
                content = b"unreadable"
            digest.update(path.relative_to(folder).as_posix().encode("utf-8", "surrogateescape") + b"\0")
            digest.update(content)
    return digest.hexdigest()


def result_path(root: Path, assignment: str, student: str) -> Path:
    """Where the result of a copy is kept."""
    return root / RESULTS / assignment / f"{student}.json"


def keep(result: CopyResult, path: Path) -> None:
    """Write `result` at `path`, whole or not at all."""
    write_whole(path, result.to_json().encode("utf-8", errors="surrogatepass"))


def kept(path: Path) -> CopyResult | None:
    """The result kept at `path`, or None when there is none that this version can read."""
    try:
        result = CopyResult.from_json(path.read_text(encoding="utf-8", errors="surrogatepass"))
    except (OSError, ValueError, TypeError, KeyError):
        return None
    return result if result.schema == SCHEMA else None
