"""What a written answer mentions and what it misses: a hint for the person who marks it, never a mark.

The words are the course's own: they stand in the answer's mark scheme, which no student receives.

    Indices :
    - le rang 0 : `rang 0`, `rank 0`
    - l'attente : `atten*`, `bloqu*`

Each line is a label and the texts of which one is enough; a final * stands for any ending. Case, accents and
line ends are ignored; a number is never found inside another one.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from autograder import messages
from autograder.verdict.plain_text import unaccented

_TITLE = re.compile(r"^\W*Indices\b[^`:]*:\W*$", re.IGNORECASE)
_LINE = re.compile(r"^\s*[-*]\s+(?P<label>[^`]+?)\s*:\s*(?P<texts>`.+)$")
LONGEST = 20_000   # characters of an answer that are looked at


@dataclass(frozen=True)
class Hint:
    """`label` is mentioned by an answer that holds one of `texts`."""

    label: str
    texts: tuple[str, ...]

    def mentioned(self, answer: str) -> bool:
        plain = folded(answer[:LONGEST])
        return any(_pattern(text).search(plain) for text in self.texts)


def hints(scheme: str) -> tuple[Hint, ...]:
    """The hints of a mark scheme: the list under its line `Indices :`; none where there is no such list."""
    found: list[Hint] = []
    inside = False
    for line in scheme.splitlines():
        if _TITLE.match(line):
            inside = True
        elif inside and (match := _LINE.match(line)):
            texts = tuple(text.strip() for text in re.findall(r"`([^`]+)`", match["texts"]) if text.strip())
            found.append(Hint(match["label"].strip("* "), texts))
        elif inside and line.strip():
            inside = False
    return tuple(found)


def hint(answer: str, scheme: str) -> str | None:
    """One French line on what `answer` mentions and misses; None where the mark scheme names nothing."""
    wanted = hints(scheme)
    if not wanted:
        return None
    there = [one.label for one in wanted if one.mentioned(answer)]
    missing = [one.label for one in wanted if one.label not in there]
    said = [messages.text("indice.head")]
    if there:
        said.append(messages.text("indice.mentions", labels=", ".join(there)))
    if missing:
        said.append(messages.text("indice.misses", labels=", ".join(missing)))
    return " ".join(said)


def folded(text: str) -> str:
    """Without case, accents, emphasis and line ends; typographic signs as they are typed."""
    bare = unaccented(text.replace("’", "'").replace("œ", "oe").replace("Œ", "OE"))
    return " ".join(re.sub(r"[`*_]", lambda sign: "_" if sign[0] == "_" else " ", bare).casefold().split())


def _pattern(text: str) -> re.Pattern[str]:
    ending = text.endswith("*")
    plain = folded(text.rstrip("*"))
    # "8 s" is not in "18 s" nor in "0,8 s", "sort" not in "sortie", "8000" not in "80000".
    before = r"(?<!\w)(?<!\d[.,])" if plain[:1].isdigit() else r"(?<!\w)"
    after = "" if ending else r"(?!\w)(?![.,]\d)" if plain[-1:].isdigit() else r"(?!\w)"
    return re.compile(before + r"\s*".join(map(re.escape, plain.split())) + after)
