"""Read what the recorder left in each rank (marks, stacks, Flight Recorder) into plain data.

What is read comes from the student's own process: anything may be missing, cut or forged, and none of it
raises (see untrusted.py). What a recorder did not write is left out, and told by an event named `tampered`.
"""

from __future__ import annotations

import dataclasses
import json
import math
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from autograder.launch import untrusted
from autograder.launch.command import RECORDER_FILE, seal_of
from autograder.launch.run import Collective, Event, Frame, Gradient, Stack

RECORDER_SCHEMA = 1
MOST_ENTRIES = 4_000    # of one rank's Flight Recorder, which keeps 1000
MOST_GRADIENTS = 1_000
MOST_EVENTS = 20_000
MOST_FRAMES = 100
TAMPERED = "tampered"   # an event: what this reader found. Its `what` is an id of verdict/tampering.py


@dataclass(frozen=True)
class RankRecord:
    """One rank's life as it told it. `ended` is when its interpreter came to its normal end, else None."""

    rank: int
    local_rank: int
    pid: int
    started: float
    ended: float | None = None
    error_line: int | None = None
    raised: bool = False     # an exception came up to the top of the script


@dataclass(frozen=True)
class Evidence:
    ranks: dict[int, RankRecord] = field(default_factory=dict)
    collectives: tuple[Collective, ...] = ()
    gradients: tuple[Gradient, ...] = ()
    events: tuple[Event, ...] = ()
    stacks: tuple[Stack, ...] = ()


def read(folder: Path, *, world_size: int, epoch: float, script: Path) -> Evidence:
    """Everything found in a recorder's folder, by rank. `epoch`: the launch's start, in epoch seconds."""
    ranks: dict[int, RankRecord] = {}
    collectives: list[Collective] = []
    gradients: list[Gradient] = []
    events: list[Event] = []
    stacks: list[Stack] = []
    source = untrusted.text(script).split("\n")
    seal = seal_of(folder)
    for rank in range(world_size):
        reader = _RankReader(rank, script, source)
        found = untrusted.marks(folder / f"rank{rank}.jsonl", rank, seal)
        for mark in found.marks:
            reader.take(mark)
        record = reader.record()
        if record is not None:
            ranks[rank] = record
        flight, whole = untrusted.read(folder / f"flight{rank}.json")
        forged = bool(flight) and seal is not None and (
            untrusted.digest(seal, rank, flight) not in reader.flights or not whole)
        collectives += sorted(reader.collectives.values(), key=lambda item: item.seq)
        if not forged:
            collectives += flight_recorder(flight.decode("utf-8", "replace"), rank, epoch)
        gradients += reader.gradients
        wrong = found.forged + found.missing
        if wrong:
            events.append(_tampered(rank, "forged-marks", count=wrong))
        if not found.whole:
            events.append(_tampered(rank, "strange-file", seen=f"rank{rank}.jsonl"))
        if forged:
            events.append(_tampered(rank, "forged-flight"))
        events += reader.events
        stacks += reader.stacks
    if seal is not None:   # the folder of a launch of ours, and nothing else
        events += _strange_files(folder, world_size)
    return Evidence(ranks, tuple(collectives), tuple(gradients), tuple(events), tuple(stacks))


def dumped(folder: Path, world_size: int) -> bool:
    """Whether every rank that started and has not ended has answered the request for its stacks."""
    for rank in range(world_size):
        text = untrusted.text(folder / f"rank{rank}.jsonl")
        if text and '{"k":"dumped"' not in text and '{"k":"end"' not in text:
            return False
    return True


def flight_recorder(text: str, rank: int, epoch: float) -> list[Collective]:
    """PyTorch's own record: every collective, DDP's internal ones too; it cannot tell if they returned."""
    try:
        entries = json.loads(text).get("entries", []) if text else []
    except (ValueError, AttributeError, RecursionError):
        return []
    found = []
    for entry in entries[:MOST_ENTRIES] if isinstance(entries, list) else []:
        try:
            sizes, dtypes = entry.get("input_sizes") or [], entry.get("input_dtypes") or []
            shapes = [untrusted.shape(item) for item in sizes[:MOST_ENTRIES]]
            dtype = untrusted.name(dtypes[0]) if dtypes else ""
            found.append(Collective(
                rank=rank,
                seq=untrusted.integer(entry.get("collective_seq_id") or entry.get("p2p_seq_id") or 0),
                op=untrusted.name(entry["profiling_name"]).split(":", 1)[-1],
                numel=min(sum(math.prod(shape) for shape in shapes), untrusted.MOST_INT),
                shape=shapes[0] if shapes else (),
                dtype=DTYPES.get(dtype, dtype.lower()),
                entered=round(untrusted.integer(entry["time_created_ns"], most=2**63) / 1e9 - epoch, 6),
                source="flight_recorder",
            ))
        except WRONG:
            continue
    return found


# What a field that is not what it should be raises, here and in the reader of a rank.
WRONG = (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError)

DTYPES = {
    "Float": "float32", "Double": "float64", "Half": "float16", "BFloat16": "bfloat16", "Int": "int32",
    "Long": "int64", "Short": "int16", "Char": "int8", "Byte": "uint8", "Bool": "bool",
}


class _RankReader:
    def __init__(self, rank: int, script: Path, source: list[str]) -> None:
        self.rank, self.script, self.source = rank, script, source
        self.start: RankRecord | None = None
        self.ended: float | None = None
        self.collectives: dict[int, Collective] = {}
        self.gradients: list[Gradient] = []
        self.events: list[Event] = []
        self.stacks: list[Stack] = []
        self.flights: set[str] = set()   # the digests of the Flight Recorder's files that the rank wrote

    def take(self, mark: dict[str, Any]) -> None:
        kind = mark.get("k")
        if not isinstance(kind, str) or kind not in KINDS:
            return
        try:
            getattr(self, f"_{kind}")(mark, untrusted.moment(mark["at"]))
        except WRONG:
            return

    def record(self) -> RankRecord | None:
        if self.start is None:
            return None
        raised = [event for event in self.events if event.name == "exception"]
        return dataclasses.replace(
            self.start, ended=self.ended, error_line=raised[-1].line if raised else None, raised=bool(raised))

    def _start(self, mark: dict[str, Any], at: float) -> None:
        local_rank = untrusted.integer(mark.get("local_rank", self.rank))
        found = RankRecord(self.rank, local_rank, untrusted.integer(mark.get("pid", 0)), at)
        if self.start is None:
            self.start = found
            self.events.append(Event(self.rank, "start", at))   # the proof that a recorder was alive here
        elif self.start.pid != found.pid:
            self.events.insert(0, _tampered(self.rank, "two-processes"))

    def _flight(self, mark: dict[str, Any], at: float) -> None:
        self.flights.add(untrusted.words(mark["sum"]))

    def _end(self, mark: dict[str, Any], at: float) -> None:
        self.ended = at

    def _enter(self, mark: dict[str, Any], at: float) -> None:
        seq = untrusted.integer(mark["n"])
        self.collectives[seq] = Collective(
            rank=self.rank, seq=seq, op=untrusted.name(mark["op"]), numel=untrusted.integer(mark["numel"]),
            shape=untrusted.shape(mark["shape"]), dtype=untrusted.name(mark["dtype"]), entered=at,
            line=untrusted.line(mark.get("line")), values_in=untrusted.numbers(mark.get("in")),
            reduce_op=untrusted.name(mark["reduce"]) if mark.get("reduce") is not None else None)

    def _leave(self, mark: dict[str, Any], at: float) -> None:
        before = self.collectives[untrusted.integer(mark["n"])]
        error = mark.get("error")
        self.collectives[before.seq] = dataclasses.replace(
            before, returned=None if error else at, values_out=untrusted.numbers(mark.get("out")),
            error=None if error is None else untrusted.words(error))

    def _gradient(self, mark: dict[str, Any], at: float) -> None:
        values = untrusted.numbers(mark["values"])
        if values is not None and len(self.gradients) < MOST_GRADIENTS:
            shape = untrusted.shape(mark["shape"])
            self.gradients.append(Gradient(self.rank, untrusted.words(mark["name"], 200), shape, values, at))

    def _event(self, mark: dict[str, Any], at: float) -> None:
        name = untrusted.name(mark["name"])
        if name != TAMPERED and len(self.events) < MOST_EVENTS:
            self.events.append(Event(
                self.rank, name, at, untrusted.line(mark.get("line")), untrusted.detail(mark.get("detail"))))

    def _stack(self, mark: dict[str, Any], at: float) -> None:
        frames = []
        for one in mark["frames"][:MOST_FRAMES]:
            file, line, function = one
            file, line = untrusted.words(file, 1000), untrusted.line(line) or 0
            own = Path(file).name == self.script.name
            code = self.source[line - 1].strip() if own and 0 < line <= len(self.source) else ""
            frames.append((file, Frame(Path(file).name, line, untrusted.words(function, 200), code)))
        kept = tuple(frame for file, frame in frames if not _OURS.search(file))
        self.stacks = [Stack(self.rank, kept)]   # the last one tells where it stood


_OURS = re.compile(RECORDER_FILE + "$")
KINDS = {"start", "end", "enter", "leave", "gradient", "event", "stack", "flight"}


# What a record's folder may hold: the marks, the Flight Recorder's file (whole, or while it is written), the
# launcher's request to tell where the ranks stand.
_FILES = re.compile(r"rank(\d{1,4})\.jsonl|flight(\d{1,4})\.json(?:\.part)?|dump")
_AGAIN = re.compile(r"again(\d{1,4})")


def _tampered(rank: int, what: str, **detail: Any) -> Event:
    return Event(rank, TAMPERED, 0.0, None, {"what": what, **detail})


def _strange_files(folder: Path, world_size: int) -> list[Event]:
    """What lies in the record's folder and is no part of it; at most one event of each kind per rank."""
    found: dict[tuple[int, str], Event] = {}
    for name, regular in untrusted.files(folder):
        again, known = _AGAIN.fullmatch(name), _FILES.fullmatch(name)
        rank = int(next(iter(re.findall(r"\d+", name)), 0)) if again or known else 0
        if again:
            found.setdefault((rank, "two-processes"), _tampered(rank, "two-processes"))
        elif known is None or not regular or rank >= world_size:
            shown = untrusted.words(name, 100)
            found.setdefault((rank, "strange-file"), _tampered(rank, "strange-file", seen=shown))
    return list(found.values())
