"""Diagnoses concluded from the record of the collectives, the exit codes and the stacks."""

from __future__ import annotations

import dataclasses
import json
import re
from typing import Any

from autograder import messages
from autograder.launch.run import Collective, Run
from autograder.verdict import catalogue, evidence, life, meeting, texts
from autograder.verdict.cause import Context, Diagnosis, at, make, quoted, ranks_named
from autograder.verdict.traceback import base_name

# The rows of the course's exercise 2, unless the launch was given others.
COURSE_ROWS = [[1, 3], [5, 7]]
_RESULT = re.compile(r"\d\D+\d")   # a rank, then a value


def standing(run: Run, rank: int) -> tuple[int | None, str]:
    """Where `rank` stood at the deadline: (line of the script, innermost function), (None, "") if unknown."""
    for stack in run.stacks:
        if stack.rank == rank:
            lines = [f.line for f in stack.frames if base_name(f.file) == base_name(run.request.script)]
            return (lines[-1] if lines else None), stack.frames[-1].function if stack.frames else ""
    return None, ""


def mismatch(run: Run) -> Diagnosis | None:
    """Two ranks met in a collective with another name, shape or dtype."""
    found = meeting.mismatch(run)
    if found is None:
        return _detail_mismatch(run)
    if run.exit_code == 0 and found.kind != "dtype":
        return None   # all of them completed: these two calls did not meet
    first, second = found.first, found.second
    sides = {
        "order": lambda c: f"`{evidence.name(c.op)}`",
        "shape": lambda c: f"`{list(c.shape)}`",
        "dtype": lambda c: f"`{c.dtype.removeprefix('torch.')}`",
    }[found.kind]
    return make(
        found.kind, "P", None, first.line, op=evidence.name(first.op),
        rank_a=first.rank, a=sides(first), at_a=at(run, first.line),
        rank_b=second.rank, b=sides(second), at_b=at(run, second.line),
    )


def _detail_mismatch(run: Run) -> Diagnosis | None:
    """What torch itself says under TORCH_DISTRIBUTED_DEBUG=DETAIL."""
    for log in run.ranks:
        if not catalogue.DETAIL_MISMATCH.search(log.stderr):
            continue
        sides = re.findall(
            r"Rank (\d+) is running collective: CollectiveFingerPrint\(SequenceNumber=\d+, OpType=(\w+)"
            r"(?:, TensorShape=\[([^\]]*)\])?(?:, TensorDtypes=(\w+))?", log.stderr,
        )
        if len(sides) < 2:
            continue
        (rank_a, op_a, shape_a, dtype_a), (rank_b, op_b, shape_b, dtype_b) = sides[:2]
        kind, a, b = (
            ("order", op_a.lower(), op_b.lower()) if op_a != op_b
            else ("shape", f"[{shape_a}]", f"[{shape_b}]") if shape_a != shape_b
            else ("dtype", dtype_a, dtype_b)
        )
        return make(
            kind, "P", None, None, op=evidence.name(op_a), rank_a=rank_a, a=f"`{a}`", at_a="",
            rank_b=rank_b, b=f"`{b}`", at_b="",
        )
    return None


def absent_rank(run: Run) -> Diagnosis | None:
    """A rank never entered the collective in which another one waits."""
    found = meeting.absent(run)
    if found is None:
        for log in run.ranks:
            told = catalogue.DETAIL_ABSENT.search(log.stderr)
            if told:
                line, _ = standing(run, int(told["rank"]))
                return _missing(run, int(told["rank"]), line, log.rank, None, "all_reduce")
        return None
    line, _ = standing(run, found.rank)
    call = found.waiting
    return _missing(run, found.rank, line, call.rank, call.line, evidence.name(call.op))


def _line(run: Run, line: int) -> str:
    code = quoted(run, line)
    return messages.text("part.line-code" if code else "part.line", line=line, code=code)


def _missing(
    run: Run, rank: int, line: int | None, waiting: int, waiting_line: int | None, op: str,
) -> Diagnosis:
    log = run.rank(rank)
    if line is not None:
        fate = messages.text("part.stands", at=_line(run, line))
    elif log is not None and (log.exit_code == 0 or (log.exit_code in (None, -15) and log.reached_end)):
        fate = messages.text("part.ended-well")
    elif log is not None and log.exit_code is not None and log.exit_code != -15:
        fate = messages.text("part.ended", code=log.exit_code)
    elif log is not None and log.exit_code == -15 and not run.timed_out:
        fate = messages.text("part.stopped")
    else:
        fate = messages.text("part.unknown-fate")
    return make(
        "missing-rank", "P", rank, line if line is not None else waiting_line, op=op, waiting=waiting,
        at=at(run, waiting_line), fate=fate,
    )


def killed(run: Run, rank: int) -> Diagnosis:
    """`rank` ended by SIGKILL: how far it had come, from the marks that it had written by then."""
    marks = evidence.calls(run, rank)
    after = ""
    if marks:
        key = "part.killed-after" if marks[-1].returned is not None else "part.killed-inside"
        after = " " + messages.text(key, op=evidence.name(marks[-1].op), at=at(run, marks[-1].line))
    elif life.last_event(run, rank) == "init":
        after = " " + messages.text("part.killed-joined")
    return make("killed", "P", rank, marks[-1].line if marks else None, after=after)


def no_backward(run: Run) -> Diagnosis | None:
    """Every rank wrapped its model, some computed gradients, one did not."""
    wrapped = {event.rank for event in run.events if event.name == "ddp"}
    computed = {gradient.rank for gradient in run.gradients}
    missing = sorted(wrapped - computed)
    if not computed or not missing:
        return None
    line, _ = standing(run, missing[0])
    return make("no-backward", "P", missing[0], line, at=at(run, line),
                others=ranks_named(sorted(computed), lower=True))


def hang(run: Run) -> Diagnosis:
    """Nothing more was going to happen: where each rank stands."""
    places = {rank: standing(run, rank) for rank in evidence.world(run)}
    shown = [
        messages.text("part.place", rank=rank, at=_line(run, line))
        for rank, (line, _) in places.items() if line is not None
    ]
    where = (" " + " ".join(shown)) if shown else ""
    limit = messages.number(run.request.time_limit_s)
    lines = [line for line, _ in places.values() if line is not None]
    joining = [rank for rank in places if life.last_event(run, rank) == "init-enter"]
    if joining and len(joining) == len(places) and re.search(r"\bworld_size\s*=", run.source):
        return make("world-size", "P", None, lines[0] if lines else None, processes=len(places))
    if joining:
        return make("init-hang", "P", joining[0], places[joining[0]][0], limit=limit, where=where,
                    ranks=ranks_named(joining))
    return make("silent-hang", "P", None, lines[0] if lines else None, limit=limit, where=where)


def wrong_division(run: Run, context: Context | None) -> Diagnosis | None:
    """After `moyenne`, the sum that the ranks really reduced, or the mean divided once more.

    With a test's expected texts missing, the printed list is compared with what the reduction gave; without,
    only where what entered the reduction is the exercise's own rows (a script may divide before it reduces).
    """
    if context is not None and not context.missing:
        return None
    for rank in evidence.world(run):
        printed = re.findall(r"moyenne\s*\d+\s*(\[[^\]\n]{1,200}\])", texts.printed(run, rank))
        for shown in printed:
            for call in evidence.reductions(run, rank):
                verdict = _division(run, shown, call, context)
                if verdict is not None:
                    return make(
                        verdict, "P", rank, call.line, at=at(run, call.line), shown=texts.one_line(shown, 80),
                        size=len(evidence.world(run)),
                    )
    return None


def unwaited(run: Run, context: Context | None) -> Diagnosis | None:
    """A rank printed what it had brought to an asynchronous reduction: it did not wait for the result.

    Nothing but the values tells it: the call came back at once, and what is shown is the rank's own, or its
    share of it.
    """
    if context is not None and not context.missing:
        return None
    for rank in evidence.world(run):
        for call in evidence.matching(run, tuple(evidence.REDUCTIONS), rank):
            if call.source != "mark" or call.values_in is None or call.values_out is not None:
                continue
            own, row = list(call.values_in), _row(run, rank)
            if context is None and not (row is not None and evidence.same(own, row)):
                continue   # without a test's expectations, only the exercise's own rows
            share = [value / len(evidence.world(run)) for value in own]
            for shown in re.findall(r"moyenne\s*\d+\s*(\[[^\]\n]{1,200}\])", texts.printed(run, rank)):
                values = _list(shown)
                if any(own) and (evidence.same(values, own) or evidence.same(values, share)):
                    return make("async", "P", rank, call.line, at=at(run, call.line),
                                op=evidence.name(call.op), shown=texts.one_line(shown, 80))
    return None


def _list(shown: str) -> list[float]:
    try:
        return evidence.flatten(json.loads(shown))
    except (ValueError, RecursionError):
        return []


def _division(run: Run, shown: str, call: Collective, context: Context | None) -> str | None:
    values = _list(shown)
    out = list(call.values_out or ())
    size = len(evidence.world(run))
    row = _row(run, call.rank)
    whole = row is not None and evidence.same(list(call.values_in or ()), row)
    halved = row is not None and evidence.same(list(call.values_in or ()), [value / size for value in row])
    if not any(out) or not (whole or halved or context is not None):
        return None
    if call.reduce_op == "sum" and not halved:
        if evidence.same(values, out):
            return "not-divided"
        mean = [value / size for value in out]
    elif call.reduce_op in ("sum", "avg"):
        mean = out
    else:
        return None
    return "divided-twice" if evidence.same(values, [value / size for value in mean]) else None


def _row(run: Run, rank: int) -> list[float] | None:
    """The row that exercise 2 gives to `rank`: the launch's own, else the course's."""
    try:
        rows = json.loads(run.request.env["MCI_LIGNES"]) if "MCI_LIGNES" in run.request.env else COURSE_ROWS
        return evidence.flatten(rows[rank])
    except (ValueError, TypeError, LookupError):
        return None


def wrong_unit(run: Run) -> Diagnosis | None:
    """`all_reduce_ms` holds seconds: it equals the recorded duration in seconds of a long all-reduce."""
    for rank in evidence.world(run):
        for shown in re.findall(r"all_reduce_ms\s+([\d.]+(?:[eE][+-]?\d+)?)", texts.printed(run, rank)):
            try:
                value = float(shown)
            except ValueError:
                continue
            for call in evidence.matching(run, "all_reduce", rank):
                lasted = (call.returned or call.entered) - call.entered
                if lasted >= 0.05 and abs(value - lasted) <= 0.2 * lasted:
                    return make("seconds-not-ms", "P", rank, call.line, shown=shown,
                                lasted=messages.number(lasted * 1000, 0))
    return None


def by_hand(run: Run, context: Context) -> Diagnosis | None:
    """The expected texts are there, and no rank called any collective that carries data.

    Where some are missing, one that carries a result (`moyenne 0 [3.0, 5.0]`) is enough; a mere `sort 0` is
    not: a rank that averages its own row alone is wrong, and invents nothing.
    """
    if not context.collective_missing or run.exit_code != 0:
        return None
    invented = [text for text in context.present if _RESULT.search(text)]
    if not context.missing:
        invented = invented or list(context.present)
    if not invented or set(evidence.ops(run)) - evidence.NO_DATA:
        return None
    lines = run.source.splitlines()
    word = re.match(r"[^\W\d]+", invented[0])
    printing = [n for n, code in enumerate(lines, 1) if word and "print" in code and word.group() in code]
    line = printing[0] if printing else None
    return make("hard-coded", "P", None, line, at=at(run, line))


def slow_step(run: Run) -> Diagnosis | None:
    """Everything completes, late: the slow rank is the one that waits least."""
    if run.request.delays or run.exit_code != 0:
        return None
    found = meeting.late(run)
    if found is None:
        return None
    return make("slow-step", "-", found.rank, found.line, **_late_values(run, found))


def unfinished(run: Run) -> Diagnosis | None:
    """The launch had to be stopped, and was no hang: its collectives went on, all slow or one rank late."""
    found = meeting.moving(run)
    if found is None or run.request.delays:
        return None
    limit, ago = messages.number(run.request.time_limit_s), messages.number(found.ago, 1)
    if found.late is None:
        line = next((standing(run, rank)[0] for rank in evidence.world(run)), None)
        return make("unfinished", "P", None, line, limit=limit, count=found.count, ago=ago)
    values = _late_values(run, found.late)
    slow = make("slow-step", "P", found.late.rank, found.late.line, **values)
    message = messages.text("part.still-slow", limit=limit, ago=ago, rank=found.late.rank, **values)
    return dataclasses.replace(slow, message=message)


def _late_values(run: Run, found: meeting.Late) -> dict[str, Any]:
    others = [rank for rank in evidence.world(run) if rank != found.rank]
    return {
        "at": at(run, found.line), "others": ranks_named(others), "count": found.count,
        "s": messages.plural(found.count),
        "ms": messages.number(found.seconds * 1000, 0),
    }
