"""What each recorded cell held when its mark was last written: the gradebook has no place for it.

Kept beside the gradebook, in .autograder/recorded/. Losing it only means that reviewed cells are reviewed
again.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from autograder.files import write_whole

RECORDED = Path(".autograder") / "recorded"


class Reviewed:
    """The digests of one copy's cells."""

    def __init__(self, root: Path, assignment: str, student: str) -> None:
        self.path = root / RECORDED / assignment / f"{student}.json"
        try:
            before = json.loads(self.path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            before = {}
        self.before: dict[str, str] = before if isinstance(before, dict) else {}
        self.now: dict[str, str] = {}

    def unchanged(self, cell: str, content: str) -> bool:
        """Whether `cell` holds what it held when it was last recorded; remembers what it holds now."""
        self.now[cell] = hashlib.sha256(content.encode("utf-8", "surrogatepass")).hexdigest()
        return self.before.get(cell) == self.now[cell]

    def save(self) -> None:
        write_whole(self.path, json.dumps(self.now, indent=1, sort_keys=True).encode())
