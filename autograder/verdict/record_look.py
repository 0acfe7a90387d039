"""Whether what a launch left holds together: our marks, PyTorch's own record, the texts and the exit codes.

An honest record may be cut short (a rank that was killed writes no more); the rest of what is looked for here
has no honest cause. What the reader of the record found (launch/evidence.py) is in events named `tampered`.
"""

from __future__ import annotations

import ast
import functools
import itertools
import math
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterator

from autograder.launch.run import Collective, Run
from autograder.verdict import evidence, meeting
from autograder.verdict.script_names import words
from autograder.verdict.suspicion import Suspicion, seen

TAMPERED, REPLACED = "tampered", "replaced"   # the events that tell of it
READ = ("forged-marks", "forged-flight", "two-processes", "strange-file")   # what the reader may have found

# All wait for all: one completes only if each rank entered it (the source of a broadcast may go on alone).
ALL_WAIT = frozenset({
    "all_reduce", "all_gather", "all_gather_into_tensor", "reduce_scatter", "reduce_scatter_tensor",
    "all_to_all", "all_to_all_single", "barrier",
})
# One call makes one entry of that name in PyTorch's record, on every rank that takes part.
RECORDED = frozenset({"all_reduce", "broadcast", "reduce", "all_gather", "barrier"})
FULL = 900         # entries: PyTorch's record keeps the last 1000
SLACK_S = 2.0      # clocks are read in several processes, and may be set meanwhile
BACKWARDS_S = 1.0
TOLERANCE = {"float64": 1e-9, "float32": 1e-4, "float16": 2e-2, "bfloat16": 1e-1, "int64": 0.0, "int32": 0.0}
KINDS: dict[str, Callable[[tuple[float, ...]], float]] = {
    "sum": math.fsum, "avg": lambda row: math.fsum(row) / len(row), "min": min, "max": max,
    "product": math.prod,
}
LARGEST = 2.0**31   # beyond, integers may wrap and floats may overflow
# Subgroups: ranks of different groups need not call the same things, and the marks do not tell the group.
GROUPS = words("new_group new_subgroups new_subgroups_by_enumeration split_group init_device_mesh DeviceMesh")
# Torch itself calls collectives without a mark (DDP, FSDP, torch.distributed.algorithms…). A script that
# imports no more than this, and names none of that, calls each of them itself.
PLAIN = words("torch torch.distributed torch.nn torch.nn.functional torch.optim torch.cuda torch.utils")
UNMARKED = words(
    "exec eval runpy import_module __import__ algorithms fsdp tensor_parallel checkpoint rpc "
    "all_gather_object gather_object broadcast_object_list scatter_object_list monitored_barrier parallel "
    "_functional_collectives distributed_c10d functional_collectives all_reduce_coalesced batch_isend_irecv"
)


def look(run: Run, own: bool = True) -> list[Suspicion]:
    """What does not hold together in `run`. `own` False: what was launched is a test's script around it."""
    if run.infra is not None:
        return []   # nothing can be concluded from it
    found = [*_as_read(run, own), *_ends(run), *_times(run), *_counterparts(run)]
    if not _names(run.source)[0] & GROUPS:
        found += [*_met_nobody(run), *_wrong_reductions(run)]
    return found


def _as_read(run: Run, own: bool) -> Iterator[Suspicion]:
    for event in run.events:
        kind = str(event.detail.get("what", ""))
        if event.name == TAMPERED and kind in READ:
            count = event.detail.get("count")
            count = count if isinstance(count, int) else 1
            yield seen(kind, event.rank, count=count, seen=str(event.detail.get("seen", "")))
        elif event.name == REPLACED and own:
            yield seen("replaced", event.rank, seen=kind)


def _ends(run: Run) -> Iterator[Suspicion]:
    """The launch ended well, and a rank's record lacks its end, or is missing."""
    if run.exit_code != 0 or run.timed_out or run.output_limited:
        return
    told = {event.rank for event in run.events} | {call.rank for call in run.collectives}
    for log in run.ranks:
        if log.rank not in told:
            if log.stdout.strip():
                yield seen("no-record", log.rank)
        elif log.exit_code == 0 and not log.reached_end:
            yield seen("no-end", log.rank, _last_line(run, log.rank))


def _last_line(run: Run, rank: int) -> int | None:
    lives: list[tuple[float, int | None]] = [(e.at, e.line) for e in run.events if e.rank == rank]
    lives += [(c.entered, c.line) for c in evidence.calls(run, rank)]
    return max(lives, key=lambda one: one[0])[1] if lives else None


def _times(run: Run) -> Iterator[Suspicion]:
    for rank in evidence.world(run):
        marks = sorted(evidence.calls(run, rank), key=lambda c: c.seq)
        flights = [c.entered for c in evidence.calls(run, rank, "flight_recorder")]
        lasts = [c.returned for c in marks if c.returned is not None]
        events = [event.at for event in run.events if event.rank == rank and event.name != TAMPERED]
        moments = [*(c.entered for c in marks), *flights, *lasts, *events]
        outside = any(not -SLACK_S <= at <= run.duration_s + SLACK_S for at in moments)
        back = any(c.returned is not None and c.returned < c.entered - BACKWARDS_S for c in marks)
        if outside or back or _backwards([c.entered for c in marks]) or _backwards(events):
            yield seen("times", rank)


def _backwards(moments: list[float]) -> bool:
    return any(after < before - BACKWARDS_S for before, after in itertools.pairwise(moments))


# -- our marks and PyTorch's own record ----------------------------------------------------------------------

def _counterparts(run: Run) -> Iterator[Suspicion]:
    """Each completed call has its entry in PyTorch's record, where the rank lived to write that one."""
    for rank in evidence.world(run):
        log = run.rank(rank)
        flights = Counter(evidence.name(c.op) for c in evidence.calls(run, rank, "flight_recorder"))
        marks = [c for c in evidence.calls(run, rank) if evidence.name(c.op) in RECORDED]
        if log is None or not log.reached_end or not _init_is_known(run, rank):
            continue
        if sum(flights.values()) >= FULL or len(marks) >= FULL:
            continue
        done = Counter(evidence.name(c.op) for c in marks if c.returned is not None)
        for op, count in sorted(done.items()):
            if count > flights[op] and run.request.world_size > 1:
                late = [c for c in marks if evidence.name(c.op) == op]
                yield seen("no-flight", rank, late[-1].line, op=op)
        if _all_is_plain(run.source) and not _inside(run, rank):
            made = Counter(evidence.name(c.op) for c in marks)
            for op in sorted(flights):
                if op in ("all_reduce", "reduce") and flights[op] > made[op]:
                    yield seen("no-mark", rank, op=op)


def _init_is_known(run: Run, rank: int) -> bool:
    """A backend that PyTorch's record knows (gloo; NCCL, simulated or not, has its own affairs)."""
    found = [e for e in run.events if e.rank == rank and e.name == "init"]
    return bool(found) and all(e.detail.get("backend") == "gloo" for e in found)


def _all_is_plain(source: str) -> bool:
    """The script knows torch.distributed's own functions only: no collective can come from elsewhere."""
    names, modules = _names(source)
    return bool(modules) and modules <= PLAIN and not names & UNMARKED


@functools.lru_cache(maxsize=32)
def _names(source: str) -> tuple[frozenset[str], frozenset[str]]:
    """The identifiers of a script (not its comments nor texts), and what of torch it imports; empty where it
    cannot be parsed: then nothing of it ran.
    """
    names: set[str] = set()
    modules: set[str] = set()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            nodes = list(ast.walk(ast.parse(source)))
    except (SyntaxError, ValueError, RecursionError, MemoryError, OverflowError):
        return frozenset(), frozenset()
    for node in nodes:
        if isinstance(node, ast.Name):
            names.add(node.id)
        elif isinstance(node, ast.Attribute):
            names.add(node.attr)
        elif isinstance(node, ast.Import):
            modules |= {one.name for one in node.names}
        elif isinstance(node, ast.ImportFrom):
            modules.add(node.module or ".")
            names |= {one.name for one in node.names}
    own = {module for module in modules if module.split(".")[0] not in sys.stdlib_module_names}
    return frozenset(names), frozenset(own)


def _inside(run: Run, rank: int) -> bool:
    return any(event.rank == rank and event.name == "ddp" for event in run.events)


# -- the ranks among themselves ------------------------------------------------------------------------------

def _met_nobody(run: Run) -> Iterator[Suspicion]:
    world = list(evidence.world(run))
    calls = {rank: evidence.calls(run, rank) for rank in world}
    if any(len(found) >= FULL for found in calls.values()):
        return
    entered = {
        rank: Counter(evidence.name(c.op) for c in calls[rank]) for rank in world
    }
    for rank in world:   # DDP and others inside torch may stand for the other rank's own call
        entered[rank].update(evidence.name(c.op) for c in evidence.internal(run, rank))
    for rank in world:
        done: Counter[str] = Counter()
        for call in calls[rank]:
            op = evidence.name(call.op)
            if op not in ALL_WAIT or call.returned is None or (call.values_out is None and op != "barrier"):
                continue   # it may only have been started (`async_op`), or its values are not kept
            done[op] += 1
            absent = [q for q in world if entered[q][op] < done[op] and _known(run, q)]
            if absent:
                yield seen("met-nobody", rank, call.line, op=op, other=absent[0])
                break


def _known(run: Run, rank: int) -> bool:
    """All that `rank` entered is written down: its marks as they come, what is inside torch at its end."""
    log = run.rank(rank)
    return log is not None and (log.reached_end or not _inside(run, rank))


def _wrong_reductions(run: Run) -> Iterator[Suspicion]:
    if meeting.mismatch(run) is not None:
        return   # an honest fault, told as such: what then comes out is anything
    # While an asynchronous operation is under way, what a tensor holds when it is read depends on the moment.
    started = min((c.entered for c in run.collectives if c.values_in is not None and c.values_out is None
                   and c.returned is not None), default=math.inf)
    each = [
        [c for c in evidence.calls(run, rank) if evidence.name(c.op) == "all_reduce" and c.entered < started]
        for rank in evidence.world(run)
    ]
    for met in zip(*each, strict=False):
        if len({(c.numel, c.dtype, c.reduce_op) for c in met}) > 1:
            return   # they did not meet: no later pair can be relied on
        wanted = _reduced(met)
        if wanted is None:
            continue
        for call in met:
            if call.values_out is not None and not _close(call, wanted, met):
                yield seen("wrong-reduction", call.rank, call.line, op="all_reduce")
                return


def _reduced(met: tuple[Collective, ...]) -> list[float] | None:
    """What the ranks' values give, element by element; None where that cannot be told."""
    columns = [c.values_in for c in met if c.values_in is not None]
    if len(columns) < len(met) or met[0].dtype not in TOLERANCE or len({len(one) for one in columns}) > 1:
        return None
    if any(not math.isfinite(number) or abs(number) > LARGEST for one in columns for number in one):
        return None
    rows = list(zip(*columns, strict=True))
    kind = KINDS.get(met[0].reduce_op or "")
    found = None if kind is None else [float(kind(row)) for row in rows]
    return found if found is None or all(abs(number) <= LARGEST for number in found) else None


def _close(call: Collective, wanted: list[float], met: tuple[Collective, ...]) -> bool:
    given = call.values_out or ()
    if len(given) != len(wanted):
        return False
    scale = [max(1.0, *(abs((c.values_in or ())[n]) for c in met)) for n in range(len(wanted))]
    return all(
        abs(a - b) <= TOLERANCE[call.dtype] * most for a, b, most in zip(given, wanted, scale, strict=True)
    )


