"""One thing that a person should read again in a copy, and how it is told to them."""

from __future__ import annotations

from dataclasses import dataclass

from autograder import messages
from autograder.verdict import texts

FLAG = "tampering"   # what the copy is flagged with, whatever was seen
LONGEST = 80         # characters quoted of what a student wrote


@dataclass(frozen=True)
class Suspicion:
    """`what` is a French clause; `line` is of the script. See tampering.py for the ids."""

    id: str
    rank: int | None
    line: int | None
    what: str


def seen(id: str, rank: int | None = None, line: int | None = None, **values: object) -> Suspicion:
    """The suspicion `id`, in the catalogue's words; what a student wrote is cut and put on one line."""
    shown = {
        name: texts.one_line(value, LONGEST) if isinstance(value, str) else value
        for name, value in values.items()
    }
    return Suspicion(id, rank, line, messages.text(f"tampering.{id}", **shown))


def told(suspicion: Suspicion, file: str = "") -> str:
    """« labo.py, ligne 12, rang 0 : le script … »"""
    places = [texts.one_line(file, LONGEST)] if file else []
    if suspicion.line is not None:
        places.append(messages.text("tampering.at-line", line=suspicion.line))
    if suspicion.rank is not None:
        places.append(messages.text("tampering.on-rank", rank=suspicion.rank))
    if not places:
        return suspicion.what
    return messages.text("tampering.place", place=", ".join(places), what=suspicion.what)
