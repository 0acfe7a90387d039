"""The API of test cells for the GPU branch: `marks`, and expectations on what the ranks did with GPUs.

    m = gpu_marks(3, launch("labo.py", gpus=2, env={"MCI_BACKEND": "nccl"}))
    m.backend("nccl", points=1)
    m.device(points=2)                # each rank on the GPU of its LOCAL_RANK
    m.total()

An expectation is about every rank: it holds on all of them, or its points are lost. Where something failed
and the launch met what the simulated GPUs do not follow, `total` raises NotGraded: a person reads the script.
"""

from __future__ import annotations

from collections.abc import Iterable

from autograder import messages
from autograder.launch.run import Run
from autograder.verdict import evidence, gpu, texts
from autograder.verdict.cause import ranks_named
from autograder.verdict.marks import Marks

MOST_SHOWN = 160   # characters of what was not followed


def gpu_marks(
    max_points: float, run: Run | None = None, *, secret: bool = False, provoked: Iterable[str] = (),
) -> GpuMarks:
    """Open the account of one test cell, as `marks` does, with the expectations below."""
    return GpuMarks(max_points, run, secret=secret, provoked=provoked)


class GpuMarks(Marks):
    def backend(
        self, name: str, points: float = 0, gate: bool = False, advice: str = "", run: Run | None = None,
    ) -> bool:
        """Every rank's process group does its collectives with `name` ("nccl", "gloo")."""
        run = self._recorded(run)
        wrong = [rank for rank in evidence.world(run) if gpu.backend(run, rank) != name]
        finding = ""
        if wrong:
            found = gpu.backend(run, wrong[0])
            key = "gpu.no-group" if found is None else "gpu.backend"
            finding = messages.text(key, where=ranks_named(wrong), found=found)
        advice = advice or messages.text("gpu.backend-advice")
        return self.check(not wrong, finding, advice, points, gate, run)

    def device(
        self, points: float = 0, gate: bool = False, advice: str = "", run: Run | None = None,
    ) -> bool:
        """Every rank gave to its collectives, and to DDP, tensors of the GPU of index LOCAL_RANK only."""
        run = self._recorded(run)
        for rank in evidence.world(run):
            found, local = gpu.devices(run, rank), gpu.local_rank(run, rank)
            if found != {local}:
                key = "gpu.device" if found else "gpu.no-device"
                indices = " et ".join(f"cuda:{index}" for index in sorted(found))
                finding = messages.text(key, where=ranks_named([rank]), local=local, found=indices)
                advice = advice or messages.text("gpu.device-advice")
                return self.check(False, finding, advice, points, gate, run)
        return self.check(True, "", advice, points, gate, run)

    def device_ids(
        self, points: float = 0, gate: bool = False, advice: str = "", run: Run | None = None,
    ) -> bool:
        """Every rank gave DDP the `device_ids` of the GPU on which its model is."""
        run = self._recorded(run)
        for rank in evidence.world(run):
            given = gpu.device_ids(run, rank)
            if given is None or not gpu.device_ids_fit(run, rank):
                key = "gpu.no-ddp" if given is None else "gpu.other-ids" if given else "gpu.no-ids"
                finding = messages.text(key, where=ranks_named([rank]), found=given)
                advice = advice or messages.text("gpu.ids-advice")
                return self.check(False, finding, advice, points, gate, run)
        return self.check(True, "", advice, points, gate, run)

    def cuda_clock(
        self, rank: int = 0, points: float = 0, gate: bool = False, advice: str = "", run: Run | None = None,
    ) -> bool:
        """`rank` timed an all-reduce on its GPU: with CUDA events, half; waiting for the GPU, half."""
        run = self._recorded(run)
        found, where = gpu.clock(run, rank), ranks_named([rank])
        advice = advice or messages.text("gpu.clock-advice")
        finding = messages.text("gpu.no-clock", where=where)
        waited, events = finding, finding
        if found is not None:
            key = "gpu.not-ready" if found == gpu.EVENTS_NOT_WAITED else "gpu.not-waited"
            waited = messages.text(key, where=where)
            events = messages.text("gpu.host-clock", where=where)
        half = points / 2
        fine = self.check(found in (gpu.EVENTS, gpu.HOST_WAITED), waited, advice, half, gate, run)
        timed = self.check(found in (gpu.EVENTS, gpu.EVENTS_NOT_WAITED), events, advice, half, gate, run)
        return fine and timed

    def on_cpu(
        self, points: float = 0, gate: bool = False, advice: str = "", run: Run | None = None,
    ) -> bool:
        """Every rank completed its all-reduce with gloo on CPU tensors, and left the visible GPUs alone."""
        run = self._recorded(run)
        world = evidence.world(run)
        without = [rank for rank in world if gpu.backend(run, rank) is None]
        if without:
            finding = messages.text("gpu.no-group", where=ranks_named(without), found=None)
            return self.check(False, finding, advice, points, gate, run)
        using = [rank for rank in world if gpu.uses_gpu(run, rank) or gpu.backend(run, rank) != "gloo"]
        idle = [rank for rank in world if not evidence.matching(run, "all_reduce", rank)]
        wrong = using or idle
        finding = ""
        if wrong:
            finding = messages.text(
                "gpu.not-on-cpu" if using else "gpu.no-all-reduce", where=ranks_named(wrong),
                found=gpu.backend(run, wrong[0]))
        advice = advice or messages.text("gpu.backend-advice")
        return self.check(not wrong, finding, advice, points, gate, run)

    def total(self) -> float | None:
        for line in self._lines:
            if not line.ok and line.run is not None and gpu.unknown(line.run):
                what = texts.one_line(gpu.unknown(line.run)[0].partition("\n")[0], MOST_SHOWN)
                cause = messages.text("gpu.unknown", what=what)
                self._give_up(cause, messages.text("gpu.unknown-advice"), None, line.run)
        return super().total()
