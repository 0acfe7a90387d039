"""The data of a diagnosis, and how its French texts are made."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from autograder import messages
from autograder.launch.run import Run
from autograder.verdict import texts

AFTER_THE_END = frozenset({"exit-abort", "exit-hang"})
"""torch's own stumbling after the script's last line: no mark is lost for it."""


@dataclass(frozen=True)
class Diagnosis:
    """One cause. `rank` and `line` (of the script, 1-based) where they are known; texts are French.

    `cls`: P primary, S secondary, I infrastructure, N noise (no fault of the script), - not a fault.
    """

    id: str
    rank: int | None
    line: int | None
    message: str
    advice: str
    cls: str

    def as_dict(self) -> dict[str, Any]:
        return dataclasses.asdict(self)


@dataclass(frozen=True)
class Context:
    """What a test cell knows and a launch alone cannot tell: which expected texts were there, which not.

    `collective_missing`: a collective that the exercise asks for did not run on every rank.
    """

    present: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    collective_missing: bool = False

    @property
    def all_there(self) -> bool:
        return bool(self.present) and not self.missing


def make(id: str, cls: str, rank: int | None = None, line: int | None = None, **values: Any) -> Diagnosis:
    """The diagnosis `id`; `values` fill its texts and are already fit to be shown."""
    values = {"rank": rank, "line": line, **values}
    return Diagnosis(
        id, rank, line, messages.text(f"diagnosis.{id}.finding", **values),
        messages.text(f"diagnosis.{id}.advice", **values), cls,
    )


def at(run: Run, line: int | None) -> str:
    """« (ligne 8 : `dist.all_reduce(t)`) » with a space before it, or nothing."""
    if line is None:
        return ""
    code = quoted(run, line)
    return " " + messages.text("part.at-code" if code else "part.at-line", line=line, code=code)


def quoted(run: Run, line: int) -> str:
    lines = run.source.splitlines()
    return texts.one_line(lines[line - 1].strip(), 100) if 0 < line <= len(lines) else ""


def ranks_named(ranks: Sequence[int], lower: bool = False) -> str:
    """« Rang 1 », « Rangs 0 et 1 », in order; `lower` inside a sentence."""
    ranks = sorted(ranks)
    if len(ranks) == 1:
        named = messages.text("part.rank", ranks=ranks[0])
    else:
        listed = ", ".join(str(rank) for rank in ranks[:-1]) + f" et {ranks[-1]}"
        named = messages.text("part.ranks", ranks=listed)
    return named[0].lower() + named[1:] if lower else named
