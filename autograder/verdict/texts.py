"""Expected texts in what the ranks printed: present, count, the nearest one, `RESULTAT {json}` lines.

Ranks share one terminal and `print` is two writes, so their texts may come in any order and glued on one
line ("sort 0moyenne 0 [3.0, 5.0]moyenne 1 …"): presence is what counts. Numbers are guarded, so that a
right text is not found inside a wrong one: `3.0` is not in `13.0`, nor `3` in `30` or `3.5`.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterator
from typing import Any

from autograder.launch.run import Run

# Sequences that colour or repaint a terminal: CSI, OSC, two-character.
ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")
# Control characters, and the marks that reorder or hide text on screen.
_CONTROL = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff\ud800-\udfff]"
)
_RANK_PREFIX = re.compile(r"^\[rank\d+\]: ?", re.MULTILINE)
# The source lines that a traceback quotes are not something that the script printed.
_QUOTED_SOURCE = re.compile(
    r'^( *)File "[^"\n]*", line \d+(?:, in [^\n]*)?\n(?:\1  [^\n]*(?:\n|$))*', re.MULTILINE,
)


def present(run: Run, text: str, rank: int | None = None) -> bool:
    """True when `text` was printed (stdout or stderr), by `rank` or, when None, by anyone."""
    return count(run, text, rank) > 0


def count(run: Run, text: str, rank: int | None = None) -> int:
    """How many times `text` was printed, numbers guarded."""
    return len(guarded(text).findall(printed(run, rank)))


def printed(run: Run, rank: int | None = None) -> str:
    """All that `rank` (or anyone) wrote, without torch's `[rankN]:` prefix and without quoted source lines.

    Where the system could not separate the ranks, the merged text stands for each of them.
    """
    log = run.rank(rank) if rank is not None and run.per_rank else None
    if log is not None:
        out, err = log.stdout, log.stderr
    elif rank is not None and run.per_rank and run.ranks:
        return ""
    else:
        out = run.stdout or "\n".join(log.stdout for log in run.ranks)
        err = run.stderr or "\n".join(log.stderr for log in run.ranks)
        if not run.per_rank:
            err += "\n" + run.launcher_stderr
    return out.replace("\r\n", "\n") + "\n" + without_source(err)


def without_source(stderr: str) -> str:
    """stderr without the rank prefix and the source lines that tracebacks quote."""
    return _QUOTED_SOURCE.sub("", without_prefix(stderr))


def without_prefix(stderr: str) -> str:
    return _RANK_PREFIX.sub("", stderr.replace("\r\n", "\n"))


def guarded(text: str) -> re.Pattern[str]:
    """The pattern that finds `text` and never a part of another number or name."""
    pattern = re.escape(text)
    if re.match(r"[A-Za-z]", text):
        pattern = r"(?<!_)" + pattern              # RANK=1 is not in LOCAL_RANK=1
    elif re.match(r"[\d.]", text):
        pattern = r"(?<![\d-])(?<!\d[.,])(?<!\d[eE])(?<!\d[eE][+-])" + pattern
    elif re.match(r"[+-]\d", text):
        pattern = r"(?<!\d[eE])" + pattern
    if re.search(r"\d$", text):
        pattern += r"(?!\d)(?![.,]\d)(?![eE][+-]?\d)"
    elif re.search(r"\d[.,]$", text):
        pattern += r"(?!\d)"
    return re.compile(pattern)


def nearest(run: Run, text: str, rank: int | None = None) -> str | None:
    """The printed text that looks most like `text`, cleaned for showing; None when nothing comes near.

    A glued line is cut where the first word of `text` begins again.
    """
    word = re.match(r"[^\W\d]+|\S+", text.strip())
    best: tuple[float, str] | None = None
    matcher = difflib.SequenceMatcher(autojunk=False)
    matcher.set_seq2(text)
    for piece in _pieces(printed(run, rank), word.group() if word else ""):
        matcher.set_seq1(piece)
        if matcher.real_quick_ratio() < 0.5:
            continue
        score = matcher.ratio()
        if best is None or score > best[0]:
            best = (score, piece)
    return clean(best[1]) if best is not None and best[0] >= 0.5 else None


def _pieces(output: str, word: str) -> Iterator[str]:
    lines = output.splitlines()
    if len(lines) > 400:                 # an endless printer must not cost a minute of comparing
        lines = lines[:200] + lines[-200:]
    for line in lines:
        line = line[:2000]
        again = re.finditer(rf"(?<!_){re.escape(word)}", line) if word else ()
        starts = [0, *(match.start() for match in again if match.start())]
        for start, end in zip(starts, [*starts[1:], len(line)], strict=True):
            piece = line[start:end].strip()
            if piece:
                yield piece[:300]


def results(run: Run, marker: str = "RESULTAT") -> list[tuple[int | None, dict[str, Any]]]:
    """The `RESULTAT {json}` objects with the rank that printed each (None where ranks are not separated).

    Decoded from each marker on, since two ranks may glue their lines. On stderr too: `logging` writes there.
    """
    sources: list[tuple[int | None, str]] = (
        [(log.rank, output) for log in run.ranks for output in (log.stdout, without_source(log.stderr))]
        if run.per_rank and run.ranks else [(None, run.stdout), (None, without_source(run.stderr))]
    )
    decoder = json.JSONDecoder()
    found: list[tuple[int | None, dict[str, Any]]] = []
    for rank, output in sources:
        for match in re.finditer(re.escape(marker) + r"\s*:?\s*", output):
            try:
                value, _ = decoder.raw_decode(output, match.end())
            except (ValueError, RecursionError):
                continue
            if isinstance(value, dict):
                found.append((rank, value))
    return found


def clean(text: str, width: int = 200, lines: int = 12) -> str:
    """`text` fit to be shown: no ANSI or control character, long lines and long texts cut in their middle."""
    text = _CONTROL.sub("", ANSI.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))).strip("\n")
    kept = text.split("\n")
    if len(kept) > lines:
        head = lines // 2
        kept = [*kept[:head], "[…]", *kept[-(lines - head - 1):]]
    return "\n".join(_cut(line, width) for line in kept)


def one_line(text: str, width: int = 200) -> str:
    """`text` cleaned and on one line."""
    return _cut(" ".join(clean(text, width=10 * width).split()), width)


def _cut(line: str, width: int) -> str:
    if len(line) <= width:
        return line
    head = width * 2 // 3
    return line[:head] + " […] " + line[-(width - head - 5):]
