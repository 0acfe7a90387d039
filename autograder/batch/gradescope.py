"""Gradescope's results.json, one for each copy whose mark is whole.

Its fields are those of Gradescope's "Autograder Specifications" (results.json, output format): the copy's own
`score` stands above the tests' sum, and so carries the late penalty. Students see it once it is published.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from autograder.batch.book import Book, Entry
from autograder.batch.told import of_cells, summary
from autograder.files import write_whole

VISIBILITY = "after_published"
NAME = "results.json"


def results(book: Book, entry: Entry) -> dict[str, Any]:
    """The content of results.json for a copy that has a mark."""
    assert entry.mark is not None, "a copy without a mark has no score"
    tests = [
        {
            "name": name, "number": str(n), "score": points, "max_score": most,
            "status": "passed" if points >= most else "failed", "output": said, "output_format": "text",
            "visibility": VISIBILITY,
        }
        for n, (name, points, most, said) in enumerate(of_cells(book, entry), start=1)
    ]  # fmt: skip
    seconds = entry.result.duration_s if entry.result is not None else 0.0
    return {
        "score": entry.mark, "execution_time": round(seconds), "output": "\n".join(summary(book, entry)),
        "output_format": "text", "visibility": VISIBILITY, "stdout_visibility": "hidden",
        "extra_data": {"raw_score": entry.raw, "late_penalty": entry.penalty, "seconds_late": entry.late_s},
        "tests": tests,
    }  # fmt: skip


def write_results(book: Book, folder: Path) -> tuple[int, list[str]]:
    """Write folder/<assignment>/<student>/results.json for each mark; how many, and the ids that no folder
    may have. A copy that has no mark any more loses the file that an earlier export wrote.
    """
    written, refused = 0, []
    for (student, assignment), entry in book.entries.items():
        if not _is_folder_name(student):
            if entry.mark is not None:
                refused.append(student)
            continue
        path = folder / assignment / student / NAME
        if entry.mark is None:
            path.unlink(missing_ok=True)
            continue
        content = json.dumps(results(book, entry), ensure_ascii=False, indent=1, allow_nan=False)
        write_whole(path, content.encode("utf-8", errors="replace"))
        written += 1
    return written, sorted(set(refused))


def _is_folder_name(name: str) -> bool:
    return bool(name) and name not in (".", "..") and not set(name) & set('/\\:\0<>"|?*')
