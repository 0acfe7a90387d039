"""Every French text of the package, from one catalogue: messages_fr.toml; numbers and dates in French.

A key is "table.name". Another language is another file of the same keys.
"""

from __future__ import annotations

import functools
import re
import tomllib
from datetime import datetime
from importlib import resources
from typing import Any

LANGUAGE = "fr"

_DAYS = ("lundi", "mardi", "mercredi", "jeudi", "vendredi", "samedi", "dimanche")
_MONTHS = (
    "janvier", "février", "mars", "avril", "mai", "juin",
    "juillet", "août", "septembre", "octobre", "novembre", "décembre",
)  # fmt: skip


def text(key: str, **values: Any) -> str:
    """The text of `key` ("diagnosis.syntax.finding"), its {placeholders} filled; KeyError names the key."""
    return _typeset(template(key)).format(**values)


def has(key: str) -> bool:
    """Whether the catalogue has a text of this key."""
    return isinstance(_find(key), str)


def template(key: str) -> str:
    """The text of `key` as it stands in the catalogue, its {placeholders} empty; KeyError names the key."""
    found = _find(key)
    if not isinstance(found, str):
        raise KeyError(f"no text {key!r} in messages_{LANGUAGE}.toml")
    return found.strip()


def catalogue() -> dict[str, Any]:
    """The whole catalogue, as nested tables; do not change it."""
    return _load(LANGUAGE)


def number(value: float, digits: int = 3) -> str:
    """A number as a French reader writes it: 2, 2,5, 0,125."""
    return f"{round(float(value), digits):g}".replace(".", ",")


def plural(count: float) -> str:
    """The French plural's letter: "" for 0 and 1 (and 1,5), "s" from 2 on."""
    return "s" if abs(count) >= 2 else ""


def french_day(moment: datetime) -> str:
    """jeudi 1er janvier 1970"""
    day = "1er" if moment.day == 1 else str(moment.day)
    return f"{_DAYS[moment.weekday()]} {day} {_MONTHS[moment.month - 1]} {moment.year}"


def french_hour(moment: datetime) -> str:
    """13 h, 9 h 05"""
    return f"{moment.hour} h" + (f" {moment.minute:02}" if moment.minute else "")


def french_moment(moment: datetime) -> str:
    """jeudi 1er janvier 1970 à 13 h"""
    return f"{french_day(moment)} à {french_hour(moment)}"


def french_span(start: datetime, end: datetime) -> str:
    """le jeudi 1er janvier 1970, de 13 h à 17 h"""
    if start.date() == end.date():
        return f"le {french_day(start)}, de {french_hour(start)} à {french_hour(end)}"
    return f"du {french_moment(start)} au {french_moment(end)}"


def french_delay(seconds: float) -> str:
    """35 min, 3 h 20 min, 2 j 4 h: with no-break spaces, since it stands in narrow columns."""
    minutes = int(seconds // 60)
    if minutes < 60:
        return f"{minutes}\u00a0min"
    if minutes < 24 * 60:
        return f"{minutes // 60}\u00a0h\u00a0{minutes % 60}\u00a0min"
    return f"{minutes // (24 * 60)}\u00a0j\u00a0{minutes // 60 % 24}\u00a0h"


def _find(key: str) -> Any:
    node: Any = catalogue()
    for part in key.split("."):
        if not isinstance(node, dict) or part not in node:
            return None
        node = node[part]
    return node


@functools.cache
def _load(language: str) -> dict[str, Any]:
    source = resources.files("autograder").joinpath(f"messages_{language}.toml")
    return tomllib.loads(source.read_text(encoding="utf-8"))


@functools.cache
def _typeset(template: str) -> str:
    """French spacing: a no-break space inside « » and before : ; ? ! — but never inside `code`.

    U+00A0 everywhere rather than the narrow U+202F, which a Windows console cannot print.
    """
    parts = template.split("`")
    for index in range(0, len(parts), 2):
        part = re.sub(r" ([:;?!»])", "\u00a0\\1", parts[index])
        parts[index] = part.replace("« ", "«\u00a0")
    return "`".join(parts)
