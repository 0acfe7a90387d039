"""What a rank writes down of its life: one line of JSON per mark, as it happens.

The marks go to AUTOGRADER_RECORD/rank<k>.jsonl, so that a rank that is killed leaves its past. When a file
named `dump` appears there, the rank also writes where it stands and PyTorch's Flight Recorder. The rules of
sitecustomize.py, which loads this file, hold here too.
"""

# ruff: noqa: SIM105  contextlib is not loaded yet, and could be a student's
from __future__ import annotations

import _thread
import os
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# Bound now: a script may replace time.time or os.write for its own ends.
_now, _sleep, _write, _getpid, _fstat, _exists = (
    time.time, time.sleep, os.write, os.getpid, os.fstat, os.path.exists)
_frame, _ident = sys._getframe, _thread.get_ident

SMALL = 64          # elements: beyond it, values are not kept
MOST_MARKS = 2000   # collectives streamed per rank; a later one is written only if the rank stands in it
POLL_S = 0.1

# The collectives, with the name and position of the tensor that goes in, and of what comes out.
OPS = {
    "all_reduce": (("tensor", 0), ("tensor", 0)),
    "broadcast": (("tensor", 0), ("tensor", 0)),
    "reduce": (("tensor", 0), ("tensor", 0)),
    "all_gather": (("tensor", 1), ("tensor_list", 0)),
    "all_gather_into_tensor": (("input_tensor", 1), ("output_tensor", 0)),
    "all_gather_single": (("input_tensor", 1), ("output_tensor", 0)),
    "reduce_scatter": (("input_list", 1), ("output", 0)),
    "reduce_scatter_tensor": (("input", 1), ("output", 0)),
    "reduce_scatter_single": (("input", 1), ("output", 0)),
    "gather": (("tensor", 0), ("gather_list", 1)),
    "scatter": (("scatter_list", 1), ("tensor", 0)),
    "all_to_all": (("input_tensor_list", 1), ("output_tensor_list", 0)),
    "all_to_all_single": (("input", 1), ("output", 0)),
    "send": (("tensor", 0), None),
    "isend": (("tensor", 0), None),
    "recv": (("tensor", 0), ("tensor", 0)),
    "irecv": (("tensor", 0), None),
    "barrier": (None, None),
    "monitored_barrier": (None, None),
    "all_gather_object": (None, None),
    "gather_object": (None, None),
    "broadcast_object_list": (None, None),
    "scatter_object_list": (None, None),
}
REDUCTIONS = {"all_reduce": 1, "reduce": 2, "reduce_scatter": 2, "reduce_scatter_tensor": 2,
              "reduce_scatter_single": 2}   # position of `op`


def _json(value: Any) -> str:
    """Write plain values as JSON (the json module could be a student's file)."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, (int, float)):
        return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}.get(repr(value), repr(value))
    if isinstance(value, (list, tuple)):
        return "[" + ",".join(map(_json, value)) + "]"
    if isinstance(value, dict):
        return "{" + ",".join(_json(str(key)) + ":" + _json(item) for key, item in value.items()) + "}"
    text = str(value)[:4000].encode("utf-8", "replace").decode("utf-8")
    quoted = "".join(
        "\\" + letter if letter in '"\\' else letter if letter >= " " else f"\\u{ord(letter):04x}"
        for letter in text)
    return '"' + quoted + '"'


class Recorder:
    """One per rank; every public method swallows its own errors."""

    def __init__(self, folder: str, rank: int, local_rank: int, epoch: float, delays: str) -> None:
        self.folder, self.rank, self.epoch = folder, rank, epoch
        self.owner = _getpid()
        self.path = os.path.join(folder, f"rank{rank}.jsonl")
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_EXCL | getattr(os, "O_BINARY", 0)
        self.fd = os.open(self.path, flags, 0o600)   # a second process of the same rank stops here
        self.file = self._identity()
        self.main = _ident()
        self.count = self.gradients = 0
        self.busy: dict = {}        # thread -> the mark it is inside
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
                _write(self.fd, (_json(mark) + "\n").encode("utf-8", "replace"))
        except Exception:
            pass

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
                mark["reduce"] = _reduction(argument(("op", REDUCTIONS[op]), args, kwargs))
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

    def flight_recorder(self) -> None:
        try:
            core = sys.modules.get("torch._C._distributed_c10d")
            if core is None or _getpid() != self.owner:
                return
            data = core._dump_fr_trace_json()
            data = data.encode() if isinstance(data, str) else bytes(data)
            path = os.path.join(self.folder, f"flight{self.rank}.json")
            with open(path + ".part", "wb") as file:
                file.write(data)
            os.replace(path + ".part", path)
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
        self.flight_recorder()
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

    def end(self) -> None:
        self.flight_recorder()
        self.put("end")
        try:
            self.stop.release()
        except Exception:
            pass


def argument(where: tuple | None, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if where is None:
        return None
    name, position = where
    return kwargs[name] if name in kwargs else args[position] if len(args) > position else None


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
    if any(tensor.device.type != "cpu" or tensor.is_complex() for tensor in tensors):
        return None
    return [float(number) for tensor in tensors for number in tensor.detach().reshape(-1).tolist()]


def _reduction(op: Any) -> str:
    return "sum" if op is None else str(getattr(op, "name", None) or str(op).rsplit(".", 1)[-1]).lower()
