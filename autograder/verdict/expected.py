"""What a test asks of the record: this collective, on these ranks, so many times, with these tensors, and
nothing else.

    m.collective("all_reduce", times=3, shape=(2, 4), dtype="float32")   # three of these on each rank
    m.collective("broadcast", ranks=(0, 1), times=1, only=True)          # and no other collective anywhere
    m.collective("all_reduce", times=1, only=("barrier",))               # barriers may come with it
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypedDict

from autograder import messages
from autograder.launch.run import Collective, Run
from autograder.verdict import evidence, report
from autograder.verdict.cause import at, ranks_named

# Their tensors travel in collectives of torch's own, which are no further ones.
OBJECTS = frozenset({"all_gather_object", "gather_object", "broadcast_object_list", "scatter_object_list"})
_NEAR_S = 0.05


class Exactly(TypedDict, total=False):
    """`times`: so many of them on each rank, neither more nor fewer. `shape`, `dtype`: of the (first) tensor
    that goes in, on every rank. `only`: no other collective was entered by any rank; names allow those.
    """

    times: int | None
    shape: Sequence[int] | None
    dtype: str | None
    only: bool | Iterable[str]


@dataclass(frozen=True)
class Expected:
    """One expectation on the record. `op` None: any collective that carries data; `ranks` None: all."""

    op: str | Sequence[str] | None = None
    ranks: Sequence[int] | None = None
    numel: int | None = None
    values: Sequence[Sequence[float]] | None = None
    times: int | None = None
    shape: Sequence[int] | None = None
    dtype: str | None = None
    only: bool | Iterable[str] = False

    def missing(self, run: Run, secret: bool = False) -> str:
        """What the record lacks or has too much of, in French; "" when it is as asked. `secret`: only what
        was recorded is shown, never what was asked for.
        """
        ranks = list(evidence.world(run) if self.ranks is None else self.ranks)
        if self.times == 0:
            return self._count(run, ranks, secret) or self._others(run, ranks)
        without = [rank for rank in ranks if not evidence.matching(run, self.op, rank)]
        if without:
            return report.missing_collective(run, self.op, without, False)
        unlike = [rank for rank in ranks if not self.calls(run, rank)]
        if unlike:
            return self._tensors(run, unlike, secret)
        if self.values is not None:
            wrong = [rank for rank in ranks if not self._gave(run, rank)]
            if wrong:
                return report.missing_collective(run, self.op, wrong, True)
        return self._count(run, ranks, secret) or self._others(run, ranks)

    def calls(self, run: Run, rank: int) -> list[Collective]:
        """The completed collectives of `rank` that are as asked, their values apart."""
        wanted = None if self.shape is None else tuple(self.shape)
        dtype = None if self.dtype is None else self.dtype.removeprefix("torch.")
        return [
            call for call in evidence.matching(run, self.op, rank, self.numel)
            if (wanted is None or call.shape == wanted)
            and (dtype is None or call.dtype.removeprefix("torch.") == dtype)
        ]

    def _gave(self, run: Run, rank: int) -> bool:
        return any(
            evidence.same(result, one) for call in self.calls(run, rank)
            for result in evidence.given(run, call) for one in self.values or ()
        )

    def _tensors(self, run: Run, ranks: Sequence[int], secret: bool) -> str:
        seen = Counter(_tensor(call) for call in evidence.matching(run, self.op, ranks[0]))
        shown = ", ".join(sorted(seen))
        if secret:
            return messages.text(
                "expected.other-tensor", where=ranks_named(ranks), op=self._named(), seen=shown)
        shape = "" if self.shape is None else f"{list(self.shape)}"
        size = "" if self.numel is None else messages.text("expected.numel", count=self.numel)
        wanted = " ".join(part for part in (shape, size, (self.dtype or "").removeprefix("torch.")) if part)
        return messages.text(
            "expected.tensor", where=ranks_named(ranks), op=self._named(), wanted=wanted, seen=shown)

    def _count(self, run: Run, ranks: Sequence[int], secret: bool) -> str:
        if self.times is None:
            return ""
        counts = {rank: len(self.calls(run, rank)) for rank in ranks}
        wrong = [rank for rank in ranks if counts[rank] != self.times]
        if not wrong:
            return ""
        alike = [rank for rank in wrong if counts[rank] == counts[wrong[0]]]
        return messages.text(
            "expected.other-count" if secret else "expected.count", where=ranks_named(alike),
            op=self._named(), found=counts[wrong[0]], times=self.times)

    def _others(self, run: Run, ranks: Sequence[int]) -> str:
        """Another collective that a rank entered, where there were to be none."""
        if self.only is False:
            return ""
        allowed = set() if self.only is True else set(self.only)
        for rank in evidence.world(run):
            asked = self.calls(run, rank) if rank in ranks else []
            others = [
                call for call in entered(run, rank)
                if call not in asked and evidence.name(call.op) not in allowed
            ]
            if others:
                counted = Counter(evidence.name(call.op) for call in others)
                shown = ", ".join(f"{name} × {count}" for name, count in sorted(counted.items()))
                line = next((call.line for call in others if call.line is not None), None)
                return messages.text(
                    "expected.others", where=ranks_named([rank]), seen=shown, at=at(run, line))
        return ""

    def _named(self) -> str:
        names = [self.op] if isinstance(self.op, str) else list(self.op or ())
        return " ou ".join(f"`{name}`" for name in names) or messages.text("check.any-collective")


def entered(run: Run, rank: int) -> list[Collective]:
    """Every collective that `rank` entered, whether or not it came back; what torch refused at once (a wrong
    argument) is none, nor is what it did to carry an object.
    """
    marks = [
        call for call in evidence.calls(run, rank)
        if call.error is None or evidence.WAITING.search(call.error)
    ]
    carriers = [call for call in marks if evidence.name(call.op) in OBJECTS]
    inside = [
        record for record in evidence.internal(run, rank)
        if not any(
            call.entered - _NEAR_S <= record.entered
            and (call.returned is None or record.entered <= call.returned + _NEAR_S)
            for call in carriers
        )
    ]
    return [*marks, *inside]


def _tensor(call: Collective) -> str:
    return f"{list(call.shape)} {call.dtype.removeprefix('torch.')}".strip()
