"""Under which number and name Moodle knows a student: seen by `collect`, so that marks find their way back.

Moodle numbers a person anew for each of its assignments; the same number stands in the download's folders
and in the grading worksheet. Kept in .autograder/moodle.json; losing it only means that fewer rows are
recognised.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from autograder.batch.whose import Sender
from autograder.files import write_whole

FILE = Path(".autograder") / "moodle.json"

Known = dict[str, dict[str, tuple[str, str]]]  # assignment → student → (number, name)


def known(root: Path) -> Known:
    """What is remembered; empty where nothing can be read."""
    try:
        held = json.loads((root / FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    found: Known = {}
    for assignment, students in held.items() if isinstance(held, dict) else ():
        pairs: Any = students.items() if isinstance(students, dict) else ()
        found[assignment] = {
            student: (str(one[0]), str(one[1]))
            for student, one in pairs if isinstance(one, list) and len(one) == 2
        }  # fmt: skip
    return found


def remember(root: Path, seen: Mapping[tuple[str, str], Sender]) -> None:
    """Add who sent each (student, assignment)."""
    if not seen:
        return
    before = known(root)
    for (student, assignment), person in seen.items():
        before.setdefault(assignment, {})[student] = (person.number, person.name)
    content = json.dumps(before, ensure_ascii=False, indent=1, sort_keys=True)
    write_whole(root / FILE, content.encode("utf-8", errors="replace"))
