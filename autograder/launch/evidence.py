"""Read what the recorder left in each rank (marks, stacks, Flight Recorder) into plain data.

What is read comes from the student's own process: anything may be missing, cut or forged, and none
of it raises.
"""

from __future__ import annotations

import dataclasses
import json
import math
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from autograder.launch.command import RECORDER_FILE
from autograder.launch.run import Collective, Event, Frame, Gradient, Stack

RECORDER_SCHEMA = 1
MOST_BYTES = 8 * 1024 * 1024   # per file; the recorder itself writes far less


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
    source = _source_lines(script)
    for rank in range(world_size):
        reader = _RankReader(rank, script, source)
        for mark in _lines(folder / f"rank{rank}.jsonl"):
            reader.take(mark)
        record = reader.record()
        if record is not None:
            ranks[rank] = record
        collectives += sorted(reader.collectives.values(), key=lambda item: item.seq)
        collectives += flight_recorder(_text(folder / f"flight{rank}.json"), rank, epoch)
        gradients += reader.gradients
        events += reader.events
        stacks += reader.stacks
    return Evidence(ranks, tuple(collectives), tuple(gradients), tuple(events), tuple(stacks))


def dumped(folder: Path, world_size: int) -> bool:
    """Whether every rank that started and has not ended has answered the request for its stacks."""
    for rank in range(world_size):
        text = _text(folder / f"rank{rank}.jsonl")
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
    for entry in entries if isinstance(entries, list) else []:
        try:
            sizes, dtypes = entry.get("input_sizes") or [], entry.get("input_dtypes") or []
            shape = tuple(int(size) for size in sizes[0]) if sizes else ()
            found.append(Collective(
                rank=rank,
                seq=int(entry.get("collective_seq_id") or entry.get("p2p_seq_id") or 0),
                op=str(entry["profiling_name"]).split(":", 1)[-1],
                numel=sum(math.prod(int(size) for size in item) for item in sizes),
                shape=shape,
                dtype=DTYPES.get(str(dtypes[0]), str(dtypes[0]).lower()) if dtypes else "",
                entered=round(int(entry["time_created_ns"]) / 1e9 - epoch, 6),
                source="flight_recorder",
            ))
        except (KeyError, TypeError, ValueError, AttributeError, IndexError):
            continue
    return found


DTYPES = {
    "Float": "float32", "Double": "float64", "Half": "float16", "BFloat16": "bfloat16", "Int": "int32",
    "Long": "int64", "Short": "int16", "Char": "int8", "Byte": "uint8", "Bool": "bool",
}


class _RankReader:
    def __init__(self, rank: int, script: Path, source: list[str]) -> None:
        self.rank, self.script, self.source = rank, script, source
        self.start: dict[str, Any] | None = None
        self.ended: float | None = None
        self.collectives: dict[int, Collective] = {}
        self.gradients: list[Gradient] = []
        self.events: list[Event] = []
        self.stacks: list[Stack] = []

    def take(self, mark: dict[str, Any]) -> None:
        action = getattr(self, "_" + str(mark.get("k", "")), None)
        try:
            if action is not None and str(mark["k"]) in KINDS:
                action(mark, float(mark["at"]))
        except (KeyError, TypeError, ValueError, AttributeError):
            return

    def record(self) -> RankRecord | None:
        if self.start is None:
            return None
        raised = [event for event in self.events if event.name == "exception"]
        return RankRecord(
            self.rank, int(self.start.get("local_rank", self.rank)), int(self.start.get("pid", 0)),
            float(self.start["at"]), self.ended, raised[-1].line if raised else None, bool(raised))

    def _start(self, mark: dict[str, Any], at: float) -> None:
        if self.start is None:
            self.start = mark
            self.events.append(Event(self.rank, "start", at))   # the proof that a recorder was alive here

    def _end(self, mark: dict[str, Any], at: float) -> None:
        self.ended = at

    def _enter(self, mark: dict[str, Any], at: float) -> None:
        seq = int(mark["n"])
        self.collectives[seq] = Collective(
            rank=self.rank, seq=seq, op=str(mark["op"]), numel=int(mark["numel"]),
            shape=tuple(int(size) for size in mark["shape"]), dtype=str(mark["dtype"]), entered=at,
            line=_int(mark.get("line")), reduce_op=mark.get("reduce"), values_in=_floats(mark.get("in")))

    def _leave(self, mark: dict[str, Any], at: float) -> None:
        before = self.collectives[int(mark["n"])]
        error = mark.get("error")
        self.collectives[before.seq] = dataclasses.replace(
            before, returned=None if error else at, values_out=_floats(mark.get("out")),
            error=None if error is None else str(error))

    def _gradient(self, mark: dict[str, Any], at: float) -> None:
        values = _floats(mark["values"])
        if values is not None:
            shape = tuple(int(size) for size in mark["shape"])
            self.gradients.append(Gradient(self.rank, str(mark["name"]), shape, values, at))

    def _event(self, mark: dict[str, Any], at: float) -> None:
        detail = mark.get("detail")
        detail = detail if isinstance(detail, dict) else {}
        self.events.append(Event(self.rank, str(mark["name"]), at, _int(mark.get("line")), detail))

    def _stack(self, mark: dict[str, Any], at: float) -> None:
        frames = []
        for file, line, function in mark["frames"]:
            own = Path(str(file)).name == self.script.name
            code = self.source[line - 1].strip() if own and 0 < line <= len(self.source) else ""
            frames.append((str(file), Frame(Path(str(file)).name, int(line), str(function), code)))
        kept = tuple(frame for file, frame in frames if not _OURS.search(file))
        self.stacks.append(Stack(self.rank, kept))


_OURS = re.compile(RECORDER_FILE + "$")
KINDS = {"start", "end", "enter", "leave", "gradient", "event", "stack"}


def _int(value: Any) -> int | None:
    return int(value) if isinstance(value, int) and not isinstance(value, bool) else None


def _floats(value: Any) -> tuple[float, ...] | None:
    return None if value is None else tuple(float(number) for number in value)


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(MOST_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""


def _lines(path: Path) -> list[dict[str, Any]]:
    found = []
    for line in _text(path).split("\n"):
        try:
            mark = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(mark, dict):
            found.append(mark)
    return found


def _source_lines(script: Path) -> list[str]:
    return _text(script).split("\n")
