"""Read a student's plain answer in whatever form it was written: what is said counts, not how.

Each function gives None for what it cannot read without guessing. None of them knows a right answer.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from typing import Any

from autograder.verdict.plain_text import unaccented

_NUMBER = re.compile(r"[+-]?\d+(?:[.,]\d+)?")
_BREAKS = re.compile(r"[,;/\n]|→|->|\bet\b|\bpuis\b|(?<=[k}>\d]) (?=(?:entre|sort|saute)\b)")
_LINE = re.compile(
    r"(?:(?:le )?rang (\d{1,6}) ?: ?)?(entre|sort|saute)(?:\s*(?:rang\s*)?(k|[<{]k[>}]|\d{1,6}))?"
)
_PAIR = re.compile(r"[(\[]\s?(\d{1,6})\s?[,;]\s?(\d{1,6})\s?[)\]]")
_EVERY = re.compile(r"(?:les )?(?:deux|2)(?: rangs)?|tous(?: les (?:deux|rangs))?|chaque rang")
_RANKS = re.compile(r"(?:(?:les )?rangs?[ =]*)?\d{1,6}(?: ?(?:,|et|&|\+) ?(?:le )?(?:rang )?\d{1,6})*")
_QUOTES = " \t\"'`«»\u00a0."


def number(value: object) -> float | None:
    """14, 14.0, "14", "14,0" are 14.0; a bool is not a number."""
    if isinstance(value, str) and _NUMBER.fullmatch(value.strip()):
        value = float(value.strip().replace(",", "."))
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value) if math.isfinite(value) else None
    except OverflowError:
        return None


def whole(value: object) -> int | None:
    """As `number`, for a number without decimals."""
    read = number(value)
    return int(read) if read is not None and read.is_integer() else None


def words(value: object) -> str | None:
    """A text in small letters, without quotes, underscores, nor an article or "c'est" in front."""
    if not isinstance(value, str):
        return None
    plain = re.sub(r"[\s_-]+", " ", value.casefold().replace("’", "'")).strip(_QUOTES)
    return re.sub(r"^(?:c'est |il s'agit d[' ]?)?(?:un |le )?", "", plain)


def choice(value: object, choices: Iterable[str]) -> str | None:
    """The one of `choices` that a text is, whatever its case, accents, hyphens or article."""
    read = words(value)
    found = [one for one in choices if read is not None and _bare(read) == _bare(words(one) or "")]
    return found[0] if found else None


def _bare(text: str) -> str:
    return "".join(sign for sign in unaccented(text) if sign.isalnum() or sign == " ").strip()


def ranks(value: object, size: int = 2) -> set[int] | None:
    """The ranks that an answer names: 1, "1", "rang 1"; [0, 1], "0 et 1", "les deux", "tous les rangs"."""
    if isinstance(value, list | tuple):
        each = [whole(item) if not isinstance(item, str) else _rank_of(item) for item in value]
        return None if None in each or not each else {rank for rank in each if rank is not None}
    if isinstance(value, str):
        plain = words(value) or ""
        if _EVERY.fullmatch(plain):
            return set(range(size))
        return {int(digit) for digit in re.findall(r"\d+", plain)} if _RANKS.fullmatch(plain) else None
    one = whole(value)
    return None if one is None else {one}


def variable(value: object) -> str | None:
    """The one launch variable that a text names: "local_rank", "$LOCAL_RANK", 'os.environ["LOCAL_RANK"]'."""
    if not isinstance(value, str):
        return None
    named = re.findall(r"(?<![a-z])(local[ _-]?rank|world[ _-]?size|rank)(?![a-z])", value.casefold())
    found = {re.sub("[ -]", "_", name) for name in named}
    found = {{"localrank": "local_rank", "worldsize": "world_size"}.get(name, name) for name in found}
    return found.pop() if len(found) == 1 else None


def by_rank(value: object, size: int = 2) -> list[Any] | None:
    """One item per rank: a list in the ranks' order, or a dict by rank (0, "0", "rang 0")."""
    if isinstance(value, list | tuple):
        return list(value) if len(value) == size else None
    if not isinstance(value, dict):
        return None
    found = {_rank_of(key): item for key, item in value.items()}
    return [found[rank] for rank in range(size)] if found.keys() == set(range(size)) else None


def _rank_of(key: object) -> int | None:
    """0, "0", "rang 0", "RANK=0": the only number there."""
    digits = re.findall(r"\d+", key) if isinstance(key, str) else []
    return whole(digits[0]) if len(digits) == 1 else whole(key)


def rank_pairs(value: object) -> list[tuple[int, int]] | None:
    """(RANK, LOCAL_RANK) of each process, from pairs, from texts, or from dicts; lists by node are joined.

    A dict may give LOCAL_RANK by RANK ({0: 0, 1: 1}), both by name ({"RANK": 0, "LOCAL_RANK": 0}, or two
    lists), or a pair by process.
    """
    if isinstance(value, str):
        return _pair_in_text(value)
    if isinstance(value, dict):
        named = {variable(key): item for key, item in value.items()}
        if len(value) == 2 and named.keys() == {"rank", "local_rank"}:
            return _named(named["rank"], named["local_rank"])
        if value and all(whole(item) is not None for item in value.values()):
            return _all_pairs((_rank_of(key), whole(item)) for key, item in value.items())
        return _joined(value.values())
    if isinstance(value, list | tuple):
        if len(value) == 2 and all(whole(item) is not None for item in value):
            return _all_pairs([(whole(value[0]), whole(value[1]))])
        return _joined(value)
    return None


def _named(ranks: object, locals_: object) -> list[tuple[int, int]] | None:
    if isinstance(ranks, list | tuple) and isinstance(locals_, list | tuple):
        if len(ranks) != len(locals_):
            return None
        return _all_pairs((whole(one), whole(other)) for one, other in zip(ranks, locals_, strict=True))
    return _all_pairs([(whole(ranks), whole(locals_))])


def _pair_in_text(value: str) -> list[tuple[int, int]] | None:
    written = _PAIR.findall(value)
    if len(written) > 1 and not re.search(r"\d", _PAIR.sub("", value)):   # "(0, 0), (1, 1)"
        return [(int(one), int(other)) for one, other in written]
    lines = [line for line in re.split(r"[;\n]", value) if line.strip()]
    if len(lines) > 1 and len(re.findall(r"\d+", value)) > 2:             # one process on each line
        return _joined(lines)
    plain = value.casefold()
    local = re.search(r"local[ _-]?rank\D{0,6}?(\d+)", plain)
    rank = re.search(r"(?<!local)(?<!local[ _-])rank\D{0,6}?(\d+)", plain)
    if local and rank:
        return _all_pairs([(whole(rank[1]), whole(local[1]))])
    digits = re.findall(r"\d+", plain)
    if len(digits) != 2 or local or rank:
        return None
    return _all_pairs([(whole(digits[0]), whole(digits[1]))])


def _all_pairs(pairs: Iterable[tuple[int | None, int | None]]) -> list[tuple[int, int]] | None:
    read: list[tuple[int, int]] = []
    for one, other in pairs:
        if one is None or other is None:
            return None
        read.append((one, other))
    return read


def _joined(items: Iterable[object]) -> list[tuple[int, int]] | None:
    read: list[tuple[int, int]] = []
    for item in items:
        pairs = rank_pairs(item)
        if pairs is None:
            return None
        read += pairs
    return read


def rank_lines(value: object) -> set[tuple[str, int | None]] | None:
    """The lines `entre k`, `sort k` or `saute k` that an answer names: {("entre", 0), …}.

    The rank is None where the answer gives none, or writes k: the line of any rank.
    """
    if isinstance(value, dict):
        read: set[tuple[str, int | None]] = set()
        for key, item in value.items():
            rank, lines = _rank_of(key), rank_lines(item)
            if rank is None or lines is None or any(line[1] not in (None, rank) for line in lines):
                return None
            read |= {(word, rank) for word, _ in lines}
        return read
    if isinstance(value, list | tuple):
        each = [rank_lines(item) for item in value]
        return None if None in each else set().union(*(lines for lines in each if lines))
    if not isinstance(value, str):
        return None
    read = set()
    for part in _BREAKS.split(value.casefold()):
        plain = part.strip(_QUOTES)
        line = _LINE.fullmatch(plain)
        if line is None:
            if plain:
                return None
            continue
        named = {int(one) for one in (line[1], line[3]) if one and one.isdigit()}
        if len(named) > 1:
            return None
        read.add((line[2], named.pop() if named else None))
    return read
