"""What a rank writes down of its life: one line of JSON per mark, as it happens.

The marks go to AUTOGRADER_RECORD/rank<k>.jsonl, so that a rank that is killed leaves its past. When a file
named `dump` appears there, the rank also writes where it stands and PyTorch's Flight Recorder. The rules of
sitecustomize.py, which loads this file, hold here too.

Each mark has a number and a seal, made with a secret of the launch (AUTOGRADER_SEAL). That shows marks that
were added, changed or taken away by whoever only finds the file. It does not stop a script that digs the
secret out of its own process: for that one there are _autograder_guard.py beside this file, and the look at
its text (verdict/script_look.py).
"""

from __future__ import annotations

import _imp
import _thread
import itertools
import os
import sys
import time

from _autograder_ops import OPS, REDUCTIONS, argument, reduction  # type: ignore[import-not-found]

del sys.modules["_autograder_ops"]   # a script sees no more of us than it must

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# Bound now: a script may replace time.time or os.write for its own ends.
_now, _sleep, _write, _getpid, _fstat, _exists = (
    time.time, time.sleep, os.write, os.getpid, os.fstat, os.path.exists)
_frame, _ident, _hash = sys._getframe, _thread.get_ident, _imp.source_hash

SMALL = 64          # elements: beyond it, values are not kept
MOST_MARKS = 2000   # collectives streamed per rank; a later one is written only if the rank stands in it
MOST_EVENTS = 2000  # of each name
POLL_S = 0.25


def _json(value: Any) -> str:
    """Write plain values as JSON (the json module could be a student's file)."""
    kind = type(value)
    if kind is str and value.isascii() and value.isprintable() and len(value) <= 4000:
        if '"' not in value and "\\" not in value:
            return f'"{value}"'   # nearly all of them
    elif kind is int:
        return repr(value)
    elif kind is dict:
        return "{" + ",".join([f"{_json(str(key))}:{_json(item)}" for key, item in value.items()]) + "}"
    elif value is None or kind is bool:
        return "null" if value is None else "true" if value else "false"
    elif isinstance(value, (int, float)):
        return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}.get(repr(value), repr(value))
    elif isinstance(value, (list, tuple)):
        return "[" + ",".join([_json(item) for item in value]) + "]"
    text = str(value)[:4000].encode("utf-8", "replace").decode("utf-8")
    quoted = "".join([
        "\\" + letter if letter in '"\\' else letter if letter >= " " else f"\\u{ord(letter):04x}"
        for letter in text])
    return '"' + quoted + '"'


class Recorder:
    """One per rank; every public method swallows its own errors."""

    def __init__(
        self, folder: str, rank: int, local_rank: int, epoch: float, delays: str, seal: int = 0
    ) -> None:
        self.folder, self.rank, self.epoch, self.seal = folder, rank, epoch, seal
        self.owner = _getpid()
        self.path = os.path.join(folder, f"rank{rank}.jsonl")
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_EXCL | getattr(os, "O_BINARY", 0)
        self.fd = os.open(self.path, flags, 0o600)   # a second process of the same rank stops here
        self.file = self._identity()
        self.main = _ident()
        self.count = self.gradients = 0
        self.numbers = itertools.count()   # `next` of it is atomic: the thread writes marks too
        self.events: dict = {}             # name -> how many
        self.busy: dict = {}        # thread -> the mark it is inside
        self.place: Any = None      # these three: see _autograder_guard.py
        self.flight: Any = None
        self.afresh: Any = None
        self.settle: Any = None     # what simulated GPUs do before the next collective
        self.ops = OPS
        self.delays = [item.split(":") for item in delays.split(";") if item]
        self.matches = [0] * len(self.delays)
        self.stop = _thread.allocate_lock()
        self.stop.acquire()
        self.put("start", pid=self.owner, rank=rank, local_rank=local_rank)

    def _identity(self) -> tuple:
        status = _fstat(self.fd)
        return status.st_dev, status.st_ino

    def put(self, kind: str, at: float | None = None, **fields: Any) -> None:
        try:
            # A forked child shares our descriptor, and a script may have closed it and opened its own.
            if _getpid() == self.owner and self._identity() == self.file:
                mark = {"k": kind, "at": round((_now() if at is None else at) - self.epoch, 6), **fields}
                _write(self.fd, self.sealed(_json(mark)))
        except Exception:
            pass

    def sealed(self, mark: str) -> bytes:
        """The line of a mark: its number, then the seal of all that stands before the seal."""
        line = f'{mark[:-1]},"i":{next(self.numbers)}'.encode("utf-8", "replace")
        return line + b',"s":"' + self.digest(line) + b'"}\n'

    def digest(self, data: bytes) -> bytes:
        return _hash(self.seal, b"%d:" % self.rank + data).hex().encode()

    # -- collectives ---------------------------------------------------------------------------------------

    def enter(self, op: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict:
        """Note that the rank goes in; a delay is honoured first."""
        mark: dict = {"op": op}
        try:
            self.busy[_ident()] = mark
            before = argument(OPS[op][0], args, kwargs)
            tensors = _tensors(before)
            numel = sum(tensor.numel() for tensor in tensors)
            mark.update(n=self.count, numel=numel, line=self.line(), dtype="", shape=())
            if tensors:
                mark.update(shape=tuple(tensors[0].shape), dtype=str(tensors[0].dtype).replace("torch.", ""))
            elif before is not None:
                mark["dtype"] = type(before).__name__
            if op in REDUCTIONS:
                mark["reduce"] = reduction(argument(("op", REDUCTIONS[op]), args, kwargs))
            mark["in"] = values(tensors)
            device = self.where(tensors[0]) if tensors else None
            if device is not None:
                self.event("cuda_collective", op=op, n=self.count, numel=numel, device=device)
            self.count += 1
            self.delay(op, numel)
            mark["at"] = _now()
            if mark["n"] < MOST_MARKS:
                self.put("enter", **mark)
        except Exception:
            pass
        return mark

    def leave(
        self, mark: dict[str, Any], args: Any, kwargs: Any, result: Any, error: Any = None
    ) -> None:
        """Note that the call came back: with its values, unless it only started (`async_op`), or an error."""
        try:
            at = _now()
            self.busy.pop(_ident(), None)
            if "n" not in mark or (mark["n"] >= MOST_MARKS and error is None):
                return
            if "later" in mark and error is None:
                return   # a simulated GPU is still at it: see `late`
            if error is not None:
                if mark["n"] >= MOST_MARKS:
                    self.put("enter", **mark)
                self.put("leave", at, n=mark["n"], error=f"{type(error).__name__}: {error}")
                return
            out = None
            started_only = hasattr(result, "wait")
            if not started_only and OPS[mark["op"]][1] is not None:
                out = values(_tensors(argument(OPS[mark["op"]][1], args, kwargs)))
            self.put("leave", at, n=mark["n"], out=out, started_only=started_only)
        except Exception:
            pass

    def late(self, mark: dict, args: Any, kwargs: Any, error: Any = None) -> None:
        """`leave`, for a collective whose work ended after the call came back."""
        mark.pop("later", None)
        if "op" in mark:
            self.leave(mark, args, kwargs, None, error)

    def where(self, tensor: Any) -> Any:
        """The index of the GPU that holds `tensor`, None for the CPU."""
        return tensor.device.index if tensor.is_cuda else None

    def delay(self, op: str, numel: int) -> None:
        for index, (rank, seconds, name, wanted, nth) in enumerate(self.delays):
            if int(rank) != self.rank or name != op or (wanted and int(wanted) != numel):
                continue
            self.matches[index] += 1
            if not nth or int(nth) == self.matches[index] - 1:
                self.put("event", name="delay", detail={"seconds": float(seconds), "op": op})
                _sleep(float(seconds))

    # -- the rest of a rank's life -------------------------------------------------------------------------

    def event(self, name: str, **detail: Any) -> None:
        self.events[name] = self.events.get(name, 0) + 1
        if self.events[name] <= MOST_EVENTS:
            self.put("event", name=name, line=self.line(), detail=detail)

    def line(self) -> Any:
        """The line of the script that led here."""
        try:
            script = sys.modules["__main__"].__file__
            frame: Any = _frame(1)
            while frame is not None:
                if frame.f_code.co_filename == script:
                    return frame.f_lineno
                frame = frame.f_back
        except Exception:
            pass
        return None

    def exception(self, kind: Any, error: Any, trace: Any) -> None:
        try:
            script = getattr(sys.modules["__main__"], "__file__", None)
            line, text = None, str(error)
            while trace is not None:
                if trace.tb_frame.f_code.co_filename == script:
                    line = trace.tb_lineno
                trace = trace.tb_next
            if line is None and isinstance(error, SyntaxError):
                line, text = error.lineno, error.msg
            self.put("event", name="exception", line=line, detail={"type": kind.__name__, "message": text})
        except Exception:
            pass

    def dump(self) -> None:
        """Where this rank stands; the launcher waits for the `dumped` mark."""
        try:
            frames = []
            frame = sys._current_frames().get(self.main)
            while frame is not None:
                frames.append((frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name))
                frame = frame.f_back
            self.put("stack", frames=frames[:100][::-1])
            inside = self.busy.get(self.main)
            if inside is not None and inside.get("n", 0) >= MOST_MARKS:
                self.put("enter", **inside)
        except Exception:
            pass
        self.flight()
        self.put("dumped")

    def watch(self) -> None:
        try:
            request = os.path.join(self.folder, "dump")
            while not self.stop.acquire(timeout=POLL_S):
                if _exists(request):
                    self.dump()
                    return
        except Exception:
            pass


def _tensors(value: Any) -> list:
    items = value if isinstance(value, (list, tuple)) else [value]
    kind = sys.modules["torch"].Tensor
    return [item for item in items if isinstance(item, kind)]


def dress(call: Any, original: Any) -> None:
    """Make `call` look like `original`: name, docstring, signature."""
    for name in ("__module__", "__name__", "__qualname__", "__doc__", "__annotations__"):
        setattr(call, name, getattr(original, name, None))
    call.__dict__.update(getattr(original, "__dict__", {}))
    call.__wrapped__ = original


def values(tensors: list) -> list | None:
    """The values of small tensors, flat. On a GPU reading them would wait for the stream: not taken."""
    if not tensors or sum(tensor.numel() for tensor in tensors) > SMALL:
        return None
    try:
        with sys.modules["torch"]._C.DisableTorchFunction():   # a simulated GPU's tensors are the CPU's
            return _plain(tensors)
    except Exception:
        return None   # sparse, quantised, fake…: no plain values


def _plain(tensors: list) -> list | None:
    base = sys.modules["torch"]._C.TensorBase   # its own methods, not what a subclass or a patch made of them
    if any(tensor.device.type != "cpu" or base.is_complex(tensor) for tensor in tensors):
        return None
    return [float(number) for tensor in tensors
            for number in base.tolist(base.reshape(base.detach(tensor), (-1,)))]
