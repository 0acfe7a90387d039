"""The output that a student hands in beside the script: read it, compare it with a fresh launch.

    run = launch("labo.py")
    m = marks(4, run)
    found = pasted.check(m, "sortie.txt", run, points=4)      # in a test cell

Only the contract's texts are compared (`RANK=…`, `entre k`, `moyenne k […]`, …): around them stand prompts,
banners and warnings that change from one machine to the next. Ranks share a terminal, so order and glue say
nothing, and neither does a measured duration. What is told is what is seen, never who did it.
"""

from __future__ import annotations

import bisect
import functools
import itertools
import re
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from autograder import messages
from autograder.launch.run import Run
from autograder.verdict import evidence, nature, report, texts
from autograder.verdict.plain_text import cleaned, read

if TYPE_CHECKING:
    from autograder.verdict.marks import Marks

__all__ = ["Comparison", "Foreign", "check", "compare", "fresh_texts", "read", "told", "variables"]

# With these the file holds the whole output of the launch. `more`: and texts of another launch beside it.
RIGHT = frozenset({"same", "harmless", "more"})

_BACKEND = r"(?:cpu:gloo,cuda:nccl|gloo|nccl|mpi|ucc|xccl)"
_NUMBER = r"[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?"
# One text of the course's contract. `tensor([…])` is a student's own way to print the same values.
# Students write what is searched: no two repetitions may share the same characters.
_TEXT = re.compile(
    rf"(?<!_)RANK=\d+\s+LOCAL_RANK=\d+\s+WORLD_SIZE=\d+(?:\s+backend={_BACKEND})?"
    r"|(?<!_)(?:entre|sort|saute)[ \t]+\d+"
    r"|(?<!_)(?:moyenne|gradient)\s+\d+\s*(?:[:=]\s*)?(?:tensor\()?\[(?:[^\[\]]|\[[^\[\]]{0,200}\]){0,200}\]"
    rf"|all_reduce_ms\s*(?:[:=]\s*)?{_NUMBER}"
    r"|Timed out waiting \d+ms"
    r"|Ce laboratoire attend WORLD_SIZE=2\.|MCI_BACKEND=nccl demande un GPU visible\."
    r"|RANK ou WORLD_SIZE diverge du process group\."
)
_TIMING = "all_reduce_ms"
LONGEST_VALUE = 2_000   # characters: beyond some length, no process can be given a variable
MOST_TEXTS = 500  # different ones that are compared, of a file and of a launch: a right output has a dozen


@dataclass(frozen=True)
class Foreign:
    """A text of the file that the launch does not print; `fresh` is what it prints in its place, if any."""

    text: str
    line: int          # of the file, from 1
    fresh: str | None


@dataclass(frozen=True)
class Comparison:
    """What a pasted output and a fresh launch have in common.

    kind:  same           the same texts
           harmless       the same texts; `notes` says what differs (order, glued, timing, noise, wrapped,
                          repeated, rounded)
           more           the whole output of the launch, and texts of another launch beside it (`foreign`)
           missing        only texts of this launch, not all of them (`missing`)
           other          texts that the launch does not print (`foreign`), some of its own missing
           empty          nothing in the file
           not-an-output  no text of the contract; `reason`: source, command, picture, document, notebook,
                          error (`detail` quotes it) or no-text
           unknown        the launch itself prints no text of the contract: nothing to compare with
    """

    kind: str
    fresh: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    foreign: tuple[Foreign, ...] = ()
    notes: frozenset[str] = frozenset()
    reason: str = ""
    detail: str = ""

    @property
    def right(self) -> bool:
        return self.kind in RIGHT


@dataclass(frozen=True)
class _Found:
    text: str
    line: int


def compare(text: str | None, run: Run) -> Comparison:
    """What `text`, pasted or redirected by a student, has in common with what `run` printed."""
    fresh = fresh_texts(run)
    text = texts.without_source(cleaned(text or ""))
    if not text.strip():
        return Comparison("empty", fresh)
    if not _TEXT.search(text.replace("\n", "")) or nature.is_source(text):
        reason, detail = nature.nature(text)
        return Comparison("not-an-output", fresh, reason=reason, detail=detail)
    if not fresh:
        return Comparison("unknown")
    # A console window breaks long lines where its edge was: read with and without the line ends.
    readings = [_compared(text, run, fresh, end) for end in ("\n", "")]
    return min(readings, key=lambda one: len(one.foreign) + len(one.missing))


def fresh_texts(run: Run) -> tuple[str, ...]:
    """The contract's texts that `run` printed, each once, in the order of the ranks."""
    printed = dict.fromkeys(one.text for one in _texts(texts.printed(run), "\n"))
    return tuple(itertools.islice(printed, MOST_TEXTS))


def variables(text: str | None, names: Iterable[str]) -> dict[str, str]:
    """Those of the environment's `names` that a command pasted with the output sets, as it sets them.

    `NOM='…' torchrun`, `export NOM=…`, `set NOM=…` and PowerShell's `$env:NOM = "…"`; the last one counts.
    """
    wanted = "|".join(re.escape(name) for name in names)
    found = re.finditer(rf"(?<![\w$])(?:\$env:)?({wanted})[ ]?=[ ]?('[^'\n]*'|\"[^\"\n]*\"|\S+)", text or "")
    return {match[1]: match[2].strip("'\"") for match in found if len(match[2]) <= LONGEST_VALUE}


def _compared(text: str, run: Run, fresh: tuple[str, ...], end: str) -> Comparison:
    reading = text.replace("\n", end)
    found = _texts(text, end)
    printed = texts.printed(run)
    # One text several times is one text; the second launch of a session may differ from the first.
    pasted: dict[str, _Found] = {}
    for each in found:
        if len(pasted) < MOST_TEXTS:
            pasted.setdefault(each.text, each)
    missing = tuple(one for one in fresh if not _stands(one, reading, pasted))
    foreign = tuple(
        Foreign(one.text, one.line, next((o for o in fresh if _about(o) == _about(one.text)), None))
        for one in pasted.values()
        if not _stands(one.text, printed, fresh)
    )
    if foreign:
        kind = "other" if missing else "more"
    elif missing:
        kind = "missing"
    else:
        notes = _notes(text, found, fresh, printed, end)
        return Comparison("harmless" if notes else "same", fresh, notes=notes)
    return Comparison(kind, fresh, missing, foreign)


def _texts(text: str, end: str) -> list[_Found]:
    """The contract's texts in `text`, read with its line ends or with `end` in their place."""
    lines = text.split("\n")
    starts = list(itertools.accumulate((len(line) + len(end) for line in lines), initial=0))
    return [
        _Found(" ".join(match.group().split()), bisect.bisect_right(starts, match.start()))
        for match in _TEXT.finditer(end.join(lines))
    ]


def _stands(text: str, output: str, among: tuple[str, ...] | dict[str, _Found]) -> bool:
    """`text` is in `output`, numbers guarded, or one of the texts `among` says the same."""
    if text.startswith(_TIMING):
        return any(one.startswith(_TIMING) for one in among)
    return _printed(text, output) or any(_alike(text, one) for one in among)


def _printed(text: str, output: str) -> bool:
    # The plain search first: thousands of different texts would mean as many patterns to compile.
    return text in output and texts.guarded(text).search(output) is not None


@functools.lru_cache(256)
def _about(text: str) -> str:
    """What a text is about, its values aside: `gradient 0`, `RANK=1`, `Timed out waiting`."""
    if text.startswith(_TIMING):
        return _TIMING
    match = re.match(r"(?:moyenne|gradient|entre|sort|saute) \d+|RANK=\d+|\D+", text)
    return match.group() if match else text


def _alike(first: str, second: str) -> bool:
    """The same text but for how its numbers are written (`0.5` and `0.5000`) or rounded."""
    if first == second:
        return True
    if "[" not in first or _about(first) != _about(second):
        return False
    numbers = [
        evidence.flatten([float(number) for number in re.findall(_NUMBER, one.split("[", 1)[-1])])
        for one in (first, second)
    ]
    return evidence.same(numbers[0], numbers[1], 1e-4)


def _notes(text: str, found: list[_Found], fresh: tuple[str, ...], printed: str, end: str) -> frozenset[str]:
    """What differs although all the texts are there."""
    kept = [one.text for one in found]
    own = {line.strip() for line in printed.splitlines()}
    left = [
        line for line in _TEXT.sub("", text).splitlines() if line.strip() and line.strip() not in own
    ] if end else []
    timings = {one for one in (*kept, *fresh) if one.startswith(_TIMING)}
    values = [one for one in kept if not one.startswith(_TIMING)]
    order = [one for one in fresh if not one.startswith(_TIMING)]
    return frozenset(
        note for note, holds in (
            ("timing", len(timings) > 1),
            ("glued", max(Counter(one.line for one in found).values()) > 1),
            ("repeated", len(kept) > len(set(kept))),
            ("rounded", bool(set(values) - set(order))),
            ("order", [one for one in dict.fromkeys(values) if one in order] != order),
            ("noise", bool(left)),
            ("wrapped", not end),
        ) if holds
    )


# -- in a test cell ------------------------------------------------------------------------------------


def check(
    m: Marks, name: str, run: Run, points: float, *, partial: float = 0.0, gate: bool = False,
    again: Callable[[], Run] | None = None,
) -> Comparison:
    """Put `points` of the cell `m` on the file `name` holding the output of `run`, and say what differs.

    `partial` of these points stay where the file holds only texts of this launch, and half of them at least:
    one or two are typed without any launch.
    `again` makes the same launch once more, where values differ: those that move from one launch to the next
    (weights drawn without a seed) prove nothing about the file, and cost nothing here.
    """
    found = compare(read(name), run) if Path(name).is_file() else Comparison("empty", reason="absent")
    finding, advice = told(found, name, run)
    right = found.right
    if found.kind == "other" and again is not None and _moves(found, run, again()):
        right = True
        finding = messages.text("pasted.moves", name=name)
    if partial:
        some = right or (found.kind == "missing" and 2 * len(found.missing) <= len(found.fresh))
        m.check(some, finding, advice, points=partial, run=run)
    m.check(right, finding, advice, points=points - partial, gate=gate, run=run)
    if right and finding:
        m.remark(finding)
    return found


def _moves(found: Comparison, run: Run, second: Run) -> bool:
    """The values that differ are of texts whose values differ between two launches of the script itself."""
    moving = {_about(one) for one in fresh_texts(run) if not _stands(one, "", fresh_texts(second))}
    return {_about(one) for one in (*found.missing, *(other.text for other in found.foreign))} <= moving


def told(found: Comparison, name: str, run: Run) -> tuple[str, str]:
    """(finding, advice) of a comparison, in French; empty where nothing differs."""
    if found.kind in ("same", "harmless"):
        return "", ""

    def say(key: str, **values: object) -> str:
        return messages.text(f"pasted.{key}", name=name, command=report.launched(run), **values)

    def rest(key: str, count: int) -> str:
        if count < 2:
            return ""
        left = count - 1
        return " " + say(key, count=left, s=messages.plural(left), nt="nt" if left > 1 else "")

    if found.kind in ("empty", "not-an-output"):
        key = found.reason or "empty"
        advice = f"{key}-advice"
        return say(key, detail=found.detail), say(advice if messages.has(f"pasted.{advice}") else "advice")
    if found.kind == "unknown":
        return say("unknown"), say("unknown-advice")
    if found.kind == "missing":
        finding = say("missing", text=found.missing[0]) + rest("missing-rest", len(found.missing))
        return finding, say("missing-advice")
    first = found.foreign[0]
    kind = "more" if found.kind == "more" else "differs" if first.fresh else "foreign"
    finding = say(kind, line=first.line, text=first.text, fresh=first.fresh)
    nccl = "backend=nccl" in first.text
    return (
        finding + (rest("differs-rest", len(found.foreign)) if found.kind == "other" else ""),
        say("backend-advice" if nccl else "differs-advice"),
    )
