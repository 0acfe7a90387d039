"""When far more processes of a box want a core than any launch has use for: a few of them at a time.

A crowd would leave the box beside it nothing, whatever the kernel does for fairness between processes. None
is ended for that: they take turns, and have only the time that no other work of the machine asks for.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable

Process = tuple[int, str]   # its number, and when it began
MOVED_S = 0.05


class Crowd:
    """`most` processes may want a core at once; of more, `kept` run at a time."""

    def __init__(self, most: int, kept: int) -> None:
        self.most, self.kept, self.turn = most, kept, 0
        # Processes that are to stand still, with the CPU time of each at the look after it was told.
        self.stopped: dict[Process, float | None] = {}

    def look(
        self, states: dict[Process, str], seconds: dict[Process, float], agents: Iterable[int]
    ) -> bool:
        """Give the next ones their turn; False where somebody else had one go on that was to stand still.

        `states` and `seconds` (of CPU time): of each process, as /proc tells it. `agents` are left alone.
        """
        stopped = {one: before for one, before in self.stopped.items() if one in states}
        if any(before is not None and seconds[one] > before + MOVED_S for one, before in stopped.items()):
            return False
        self.stopped = {one: seconds[one] if before is None else before for one, before in stopped.items()}
        busy = sorted(one for one, state in states.items()
                      if (state == "R" or one in self.stopped) and one[0] not in agents)
        if len(busy) <= self.most:
            self.end()
            return True
        first = self.turn % len(busy)
        self.turn = first + self.kept
        running = {*(busy + busy)[first:first + self.kept]}
        for one in busy:
            if one in running:
                self.stopped.pop(one, None)
                _signal(one[0], signal.SIGCONT)
            elif one not in self.stopped:
                self.stopped[one] = None
                _signal(one[0], signal.SIGSTOP)
        for pid, _ in states:
            try:
                os.sched_setscheduler(pid, os.SCHED_IDLE, os.sched_param(0))
            except OSError:
                continue
        return True

    def end(self) -> None:
        """All may go on."""
        for pid, _ in self.stopped:
            _signal(pid, signal.SIGCONT)
        self.stopped = {}


def _signal(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except OSError:
        return
