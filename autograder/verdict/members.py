"""groupe.json, where the members of a group name themselves: `{"membres": ["marie.curie", "pierre.curie"]}`.

Pure: bytes in, ids or the reason why there are none out. Whatever the file holds, nothing raises, and an id
is only ever compared with others: it names no file here.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from autograder import messages
from autograder.verdict import texts
from autograder.verdict.plain_text import decoded, unaccented

FILE = "groupe.json"
MAX_BYTES = 4_000   # two names and braces weigh less than a hundred
_SEPARATORS = re.compile(r"[\s._-]+")


@dataclass(frozen=True)
class Members:
    """The ids as they were written, without the spaces around them.

    `problem`: "" when the file names as many members as it must, all different; else which rule it breaks
    (absent, size, json, form, few, many, twice), told by `message` in French.
    """

    ids: tuple[str, ...] = ()
    problem: str = ""
    message: str = ""

    @property
    def ok(self) -> bool:
        return not self.problem


def read_members(data: bytes | None, size: int = 2) -> Members:
    """Who made the copy, from the bytes of its groupe.json (None: it is not there): `size` members."""
    if data is None:
        return _wrong("absent")
    if len(data) > MAX_BYTES:
        return _wrong("size", ko=MAX_BYTES // 1000)
    try:
        content = json.loads(decoded(data))
    except (ValueError, RecursionError) as error:   # a number of a thousand digits is a ValueError too
        return _wrong("json", line=getattr(error, "lineno", 1))
    named = _list(content)
    if named is None:
        return _wrong("form")
    ids = tuple(" ".join(str(one).split()) for one in named)
    if not all(ids) or not all(isinstance(one, str) or type(one) is int for one in named):
        return _wrong("form")
    if len({folded(one) for one in ids}) < len(ids):
        return _wrong("twice", ids, names=_shown(ids))
    if len(ids) != size:
        kind, s = "few" if len(ids) < size else "many", messages.plural(len(ids))
        return _wrong(kind, ids, n=len(ids), s=s, size=size, names=_shown(ids))
    return Members(ids)


def folded(name: str) -> str:
    """What two spellings of one id share: case, accents, and the kind of separator aside."""
    return _SEPARATORS.sub(".", unaccented(name.strip())).casefold()


def _list(content: Any) -> list[Any] | None:
    if not isinstance(content, dict):
        return None
    values = [value for key, value in content.items() if folded(str(key)) in ("membres", "members")]
    return values[0] if len(values) == 1 and isinstance(values[0], list) else None


def _shown(ids: tuple[str, ...]) -> str:
    names = ", ".join(f"« {texts.one_line(one, 40)} »" for one in ids[:4])
    return names + (", …" if len(ids) > 4 else "") if ids else "—"


def _wrong(problem: str, ids: tuple[str, ...] = (), **values: Any) -> Members:
    return Members(ids, problem, messages.text(f"groupe.{problem}", name=FILE, **values))
