"""What a student's cells displayed, as a notebook holds it: of known kinds, bounded, without our paths."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from autograder.launch.untrusted import readable

Outputs = list[dict[str, Any]]

# What is shown of a display, and the characters kept of each kind in a whole copy. Rendering a page takes a
# time that grows with its HTML; pictures are only carried.
TEXT, PAGES, PICTURES = "text", "pages", "pictures"
KINDS = {
    "text/plain": TEXT, "text/latex": TEXT,
    "text/markdown": PAGES, "text/html": PAGES, "image/svg+xml": PAGES,
    "image/png": PICTURES, "image/jpeg": PICTURES, "image/gif": PICTURES,
}  # fmt: skip
MOST = {TEXT: 4_000_000, PAGES: 1_000_000, PICTURES: 24_000_000}
MOST_OF_ONE = {TEXT: 1_000_000, PAGES: 100_000, PICTURES: 8_000_000}
MOST_OUTPUTS = 300   # of one cell
_BASE64 = re.compile(r"[\w+/=\s]*", re.ASCII)


def outputs_of(cells: Mapping[Any, Any], wanted: list[str], base: Path) -> dict[str, Outputs]:
    """The outputs of the cells `wanted` among what the student's side told, which may be forged or of any
    shape. `base`: the grader's temporary folder, whose paths are left out.
    """
    reader = _Reader(base)
    return {ident: reader.read(cells[ident]) for ident in wanted if ident in cells}


class _Reader:
    def __init__(self, base: Path) -> None:
        self.left = dict(MOST)
        work = str(base / "work")
        self.hidden = ((f"{work}{os.sep}", ""), (work, "."), (str(base), "…"))

    def read(self, told: object) -> Outputs:
        kept = []
        for output in (told if isinstance(told, list) else [])[:MOST_OUTPUTS]:
            if not isinstance(output, dict):
                continue
            kind = output.get("output_type")
            read = _READ.get(kind) if isinstance(kind, str) else None
            if read is not None and (made := read(self, output)) is not None:
                kept.append({"output_type": kind} | made)
        return kept

    def stream(self, output: dict[str, Any]) -> dict[str, Any] | None:
        content = self.text(output.get("text", ""), TEXT)
        name = "stderr" if output.get("name") == "stderr" else "stdout"
        return None if content is None else {"name": name, "text": content}

    def error(self, output: dict[str, Any]) -> dict[str, Any] | None:
        lines = output.get("traceback")
        told = [self.text(line, TEXT) for line in (lines if isinstance(lines, list) else [])[:MOST_OUTPUTS]]
        name, value = (self.text(output.get(key, ""), TEXT) or "" for key in ("ename", "evalue"))
        return {"ename": name, "evalue": value, "traceback": [line for line in told if line is not None]}

    def display(self, output: dict[str, Any]) -> dict[str, Any] | None:
        told = output.get("data")
        data = {}
        for mime, content in told.items() if isinstance(told, dict) else ():
            kind = KINDS.get(mime)
            right = isinstance(content, str) and (kind != PICTURES or _BASE64.fullmatch(content))
            if kind is not None and right and (shown := self.text(content, kind)) is not None:
                data[mime] = shown
        made: dict[str, Any] = {"data": data, "metadata": {}}
        return made | ({"execution_count": None} if output["output_type"] == "execute_result" else {})

    def text(self, content: object, kind: str) -> str | None:
        """`content` without our paths; None where there is no room for it."""
        if not isinstance(content, str) or len(content) > min(self.left[kind], MOST_OF_ONE[kind]):
            return None
        self.left[kind] -= len(content)
        shown = readable(content)
        for path, word in self.hidden:
            shown = shown.replace(path, word)
        return shown


_READ: dict[str, Callable[[_Reader, dict[str, Any]], dict[str, Any] | None]] = {
    "stream": _Reader.stream, "error": _Reader.error,
    "execute_result": _Reader.display, "display_data": _Reader.display,
}  # fmt: skip
