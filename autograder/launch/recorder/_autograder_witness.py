"""Notes which clock a script reads around its collectives, on real GPUs and on simulated ones alike."""

from __future__ import annotations

import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MOST = 300   # notes of each name
CLOCKS = ("perf_counter", "perf_counter_ns", "time", "time_ns", "monotonic", "monotonic_ns")


class Witness:
    def __init__(self, recorder: Any) -> None:
        self.tell = lambda name, **detail: recorder.event(name, **detail)   # a script may reach this object
        self.notes: dict = {}

    def note(self, name: str, **detail: Any) -> None:
        self.notes[name] = self.notes.get(name, 0) + 1
        if self.notes[name] <= MOST:
            self.tell(name, **detail)

    def clocks(self) -> None:
        """The host's clocks, when the script itself reads them."""
        for name in CLOCKS:
            setattr(time, name, self._clock(name, getattr(time, name)))

    def _clock(self, name: str, original: Any) -> Any:
        frame_of = sys._getframe

        def clock() -> Any:
            script = getattr(sys.modules.get("__main__"), "__file__", None)
            if frame_of(1).f_code.co_filename == script:
                self.note("host_clock", clock=name)
            return original()

        clock.__name__ = clock.__qualname__ = name
        return clock

    def events(self, kind: Any) -> None:
        """The methods of an Event class."""
        record, synchronize, query, elapsed = kind.record, kind.synchronize, kind.query, kind.elapsed_time

        def new_record(event: Any, *args: Any, **kwargs: Any) -> Any:
            self.note("cuda_record", event=id(event))
            return record(event, *args, **kwargs)

        def new_synchronize(event: Any) -> Any:
            result = synchronize(event)
            self.note("cuda_sync", how="event", event=id(event))
            return result

        def new_query(event: Any) -> Any:
            result = query(event)
            if result:
                self.note("cuda_sync", how="query", event=id(event))
            return result

        def new_elapsed(event: Any, end_event: Any) -> Any:
            detail = {"start": id(event), "end": id(end_event)}
            try:
                result = elapsed(event, end_event)
            except Exception:
                self.note("cuda_elapsed", ready=False, **detail)
                raise
            self.note("cuda_elapsed", ready=True, ms=float(result), **detail)
            return result

        for name, call in (("record", new_record), ("synchronize", new_synchronize), ("query", new_query),
                           ("elapsed_time", new_elapsed)):
            setattr(kind, name, call)

    def module(self, cuda: Any) -> None:
        """torch.cuda itself: the choice of a device, and waiting for it."""
        set_device, synchronize = cuda.set_device, cuda.synchronize

        def new_set_device(device: Any) -> Any:
            self.note("cuda_set_device", device=str(device))
            return set_device(device)

        def new_synchronize(device: Any = None) -> Any:
            result = synchronize(device)
            self.note("cuda_sync", how="device")
            return result

        cuda.set_device, cuda.synchronize = new_set_device, new_synchronize
