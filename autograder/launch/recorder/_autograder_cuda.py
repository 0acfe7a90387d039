"""A stand-in for CUDA in one rank: the script believes to see GPUs, and its tensors stay in host memory.

Loaded only when the launch asks for it (AUTOGRADER_GPUS). Here: how many GPUs there are, which one is
current, what is still "running on the GPU", and torch.cuda and torch.accelerator as the script calls them.
_autograder_mode.py makes tensors say where they are, _autograder_nccl.py stands in for NCCL. What none of
them follows is noted (`cuda_unknown`) and raises: a person then reads the script.
"""

from __future__ import annotations

import os
import sys
import time
from _thread import get_ident

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_now = time.perf_counter    # before a script, or our own witness, replaces it
MOST_NOTES = 200            # per name
MEMORY = 24 * 2**30         # bytes that each GPU pretends to have
NAME = "NVIDIA GPU (simulé)"
# What torch says where it was built without CUDA: a real GPU was wanted.
NO_CUDA = ("not compiled with CUDA", "not linked with support for cuda", "from the 'CUDA' backend")
ABOUT_GPUS = ("cuda", "nccl", "accelerator", "gloo does not", "not implemented", "_autograder")
ORDINAL = (
    "CUDA error: invalid device ordinal\n"
    "GPU device may be out of range, do you have enough GPUs?\n"
    "CUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below "
    "might be incorrect.\nFor debugging consider passing CUDA_LAUNCH_BLOCKING=1\n"
)


class Cuda:
    """The GPUs that this rank believes to see. Indices are the script's; `physical` gives the machine's."""

    def __init__(self, recorder: Any, count: int) -> None:
        self.count, self.owner, self.ops = count, recorder.owner, recorder.ops
        self.node = os.environ.get("GROUP_RANK") or os.environ.get("SLURM_NODEID") or "0"
        self.current = 0
        self.pending: list = []      # what NCCL was asked for and the host has not waited for
        self.synchronised = 0        # how often the host has waited for everything
        self.dirty = False           # something was asked since
        self.backward: Any = None    # the place of the loss whose backward runs
        self.groups: dict = {}       # id of a process group (None: the default one) -> {"cpu": …, "cuda": …}
        self.claimed: set = set()
        self.said: list = []         # by the exceptions that we raise as CUDA would
        self.notes: dict = {}
        self.active: Any = None      # the mode, once torch is there
        recorder.settle, recorder.where = self.settle, self.where
        # Functions, not the recorder: a script reaches this object.
        self.tell = lambda name, **detail: recorder.event(name, **detail)
        self.inside = lambda: recorder.busy.get(get_ident(), {})
        self.late = lambda *told: recorder.late(*told)

    # -- what is noted, what is raised ---------------------------------------------------------------------

    def note(self, name: str, **detail: Any) -> None:
        self.notes[name] = self.notes.get(name, 0) + 1
        if self.notes[name] <= MOST_NOTES:
            self.tell(name, **detail)

    def error(self, kind: Any, message: str) -> Any:
        """The exception that CUDA would raise here."""
        self.said = [*self.said[-50:], message]   # not the exception, which holds the frames' tensors
        return kind(message)

    def unknown(self, name: str) -> Any:
        """Note what is not followed, and give the exception that says so."""
        self.note("cuda_unknown", what=name)
        return self.error(RuntimeError, (
            f"{name} : les GPU de ce lancement sont simulés, et la simulation ne suit pas cet appel. "
            "Votre script n'est pas en cause : une personne le lira."))

    def judge(self, kind: Any, error: Any, trace: Any) -> None:
        """An exception that ends the script: did it come from what we do not follow?"""
        if str(error) in self.said:
            return
        file = ""
        while trace is not None:
            file, trace = trace.tb_frame.f_code.co_filename, trace.tb_next
        text = f"{kind.__name__}: {error}"
        ours = os.path.dirname(__file__) == os.path.dirname(file)
        torchs = file != getattr(sys.modules.get("__main__"), "__file__", None)
        about = torchs and any(word in text.lower() for word in ABOUT_GPUS)
        waited = "Timed out waiting" in text or "closed by peer" in text   # for another rank
        if any(words in text for words in NO_CUDA) or ((ours or about) and not waited):
            self.note("cuda_unknown", what=text[:300])

    # -- devices -------------------------------------------------------------------------------------------

    def visible(self) -> list:
        """The machine's indices of the GPUs that CUDA_VISIBLE_DEVICES leaves; all of them without it."""
        asked = os.environ.get("CUDA_VISIBLE_DEVICES")
        if asked is None:
            return list(range(self.count))
        found: list = []
        for item in asked.split(","):
            if not item.strip().isdigit() or int(item) >= self.count:
                break   # as CUDA does: the rest of the list is ignored
            found.append(int(item))
        return found

    def physical(self, index: int) -> int:
        seen = self.visible()
        return seen[index] if 0 <= index < len(seen) else index

    def index(self, device: Any = None) -> int:
        """The index that `device` (None, int, text, torch.device) stands for; CUDA's error without one."""
        torch = sys.modules["torch"]
        index = getattr(device, "idx", device)   # torch.cuda.device
        if isinstance(index, str):
            index = torch.device(index)
        if isinstance(index, torch.device):
            if index.type != "cuda":
                raise self.error(ValueError, f"Expected a cuda device, but got: {device}")
            index = index.index
        index = self.current if index is None else int(index)
        if not 0 <= index < len(self.visible()):
            raise self.error(getattr(torch, "AcceleratorError", RuntimeError), ORDINAL)
        return index

    def where(self, tensor: Any) -> Any:
        """The machine's index of the GPU that holds `tensor`, None for the CPU."""
        place = tensor.__dict__.get("_autograder_place", self.backward)
        return None if place in (None, "cpu") else self.physical(place)

    def set_device(self, device: Any) -> None:
        if isinstance(device, int) and device < 0:
            return   # as torch does
        self.current = self.index(device)

    def exchange(self, index: int) -> int:
        previous = self.current
        if index >= 0:
            self.current = self.index(index)
        return previous

    # -- time ----------------------------------------------------------------------------------------------

    def settle(self) -> None:
        """What was asked of the GPU before comes first: wait for it, as its stream would."""
        if not self.pending or self.owner != os.getpid():
            return
        found, self.pending = self.pending, []
        for work in found:
            work.finish()

    def synchronize(self, how: str = "") -> None:
        """The host waits for the GPU."""
        self.settle()
        if how and self.dirty:
            self.note("cuda_sync", how=how)
        self.dirty = False
        self.synchronised += 1

    def is_done(self) -> bool:
        return all(work.is_done() for work in self.pending)


CUDA: Any = None   # set when the stand-in is put in place; no attribute of what a script sees leads to it


class Followed:
    """What our own classes lack is noted, like any other call that is not followed."""

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("__"):
            CUDA.note("cuda_unknown", what=f"{type(self).__name__}.{name}")
        raise CUDA.error(AttributeError, f"{type(self).__name__!r} object has no attribute {name!r}")


class Stream(Followed):
    """Every stream is the one stream: works run in the order in which they were asked for."""

    def __init__(self, device: Any = None, priority: int = 0, **_: Any) -> None:
        self.device_index = CUDA.index(device)
        self.device_type, self.priority, self.stream_id, self.cuda_stream = 1, priority, 0, 0
        self.before: list = []

    @property
    def device(self) -> Any:
        return sys.modules["torch"].device("cuda", self.device_index)

    def synchronize(self) -> None:
        CUDA.synchronize("stream")

    def query(self) -> bool:
        done = CUDA.is_done()
        if done:
            CUDA.synchronize("stream")
        return done

    def is_capturing(self) -> bool:
        return False

    def wait_event(self, event: Any) -> None:
        pass

    def wait_stream(self, stream: Any) -> None:
        pass

    def record_event(self, event: Any = None) -> Any:
        event = type(self).event() if event is None else event
        event.record(self)
        return event

    event: Any = None

    def __enter__(self) -> Stream:
        self.before.append(CUDA.exchange(self.device_index))
        return self

    def __exit__(self, *_: Any) -> None:
        CUDA.exchange(self.before.pop())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream) and other.device_index == self.device_index

    def __hash__(self) -> int:
        return hash(self.device_index)


class Event(Followed):
    """Complete once the host has waited for it: `elapsed_time` before that raises, as it may on a GPU.

    Whether a GPU has finished by itself depends on its speed; a mark must not.
    """

    def __init__(
        self, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False,
        external: bool = False,
    ) -> None:
        self.timing, self.waited = enable_timing, 0
        self.at: float | None = None
        self.pending: list = []
        self.cuda_event = id(self)
        CUDA.note("cuda_event")

    @property
    def device(self) -> Any:
        return sys.modules["torch"].device("cuda", CUDA.current)

    def record(self, stream: Any = None) -> None:
        CUDA.dirty = True
        self.at, self.pending, self.waited = _now(), list(CUDA.pending), CUDA.synchronised

    def wait(self, stream: Any = None) -> None:
        pass

    def synchronize(self) -> None:
        if self.at is not None:
            CUDA.settle()
            self.waited = -1

    def query(self) -> bool:
        if self.at is None or self.complete():
            return True
        if not all(work.is_done() for work in self.pending):
            return False
        self.synchronize()
        return True

    def complete(self) -> bool:
        return self.at is not None and (self.waited < 0 or self.waited < CUDA.synchronised)

    def time(self) -> float:
        return max([self.at or 0.0, *(work.done_at or 0.0 for work in self.pending)])

    def elapsed_time(self, end_event: Any) -> float:
        error = CUDA.error
        if not (self.timing and end_event.timing):
            raise error(ValueError, "Both events must be created with argument 'enable_timing=True'.")
        if self.at is None or end_event.at is None:
            raise error(ValueError, "Both events must be recorded before calculating elapsed time.")
        # An event recorded before another that is complete is complete too: it is the same stream.
        if not end_event.complete() and not (self.complete() and self.at > end_event.at):
            kind = getattr(sys.modules["torch"], "AcceleratorError", RuntimeError)
            raise error(kind, "CUDA error: device not ready")
        return (end_event.time() - self.time()) * 1e3


class Pending:
    """A collective that was asked of NCCL: gloo does it meanwhile, and the host has not waited for it."""

    def __init__(self, cuda: Any, work: Any, call: tuple) -> None:
        self.work: Any = work
        self.call: Any = call
        self.done_at: Any = None
        self.mark = cuda.inside()
        self.mark["later"] = cuda.dirty = True

    def is_done(self) -> bool:
        return self.work is None or bool(self.work.is_completed())

    def finish(self) -> None:
        error = None
        try:
            self.work.wait()
            self.done_at = _now()
        except BaseException as raised:
            error = raised
            raise
        finally:
            CUDA.late(self.mark, *self.call, error)
            self.work = self.call = None   # an event that remembers us must keep no tensor alive
