"""What a test asks of the record: this collective, so often, on these ranks and tensors, and no other."""

from __future__ import annotations

from dataclasses import replace

import pytest
from runs_made import a_run, averaging, call, log

from autograder.launch.run import Collective, Event, Run
from autograder.verdict.expected import Expected, entered
from autograder.verdict.life import Group, alive, groups, last_event, subgroups
from autograder.verdict.marks import TestFailed, marks

FREE = "\u00a0"


def ran(*calls: Collective) -> Run:
    return a_run(log(0), log(1), collectives=calls)


def both(op: str = "all_reduce", at: float = 1.0, **more: object) -> list[Collective]:
    return [call(rank, op, at, **more) for rank in (0, 1)]


def said(run: Run, secret: bool = False, **asked: object) -> str:
    return Expected(**asked).missing(run, secret).replace(FREE, " ")


def test_as_asked() -> None:
    run = ran(*both(), *both(at=2.0), *both("broadcast", 3.0, numel=8, shape=(2, 4), dtype="torch.int64"))
    assert said(run, op="all_reduce", times=2, shape=[2], dtype="float32") == ""
    assert said(run, op="all_reduce", times=2, dtype="torch.float32", numel=2, only=("broadcast",)) == ""
    assert said(run, op=("broadcast", "reduce"), times=1, shape=(2, 4), dtype="int64") == ""
    assert said(run, op="barrier", times=0, only=("broadcast", "all_reduce")) == ""
    assert said(run, times=3, only=True) == ""


def test_how_often() -> None:
    run = ran(*both(), call(1, at=2.0))
    assert said(run, op="all_reduce", times=1) == (
        "Rang 1 : `all_reduce` a eu lieu 2 fois ; il en fallait exactement 1.")
    assert said(run, op="all_reduce", times=1, ranks=(0,)) == ""
    assert "Rangs 0 et 1" in said(ran(*both(), *both(at=2.0)), op="all_reduce", times=3)
    assert "3" not in said(ran(*both()), secret=True, op="all_reduce", times=3)
    assert said(ran(*both()), op="all_reduce", times=0).startswith("Rangs 0 et 1 : `all_reduce` a eu lieu 1")


@pytest.mark.parametrize("asked", [{"shape": (4,)}, {"dtype": "int32"}, {"numel": 4}])
def test_on_which_tensor(asked: dict[str, object]) -> None:
    run = ran(*both())
    text = said(run, op="all_reduce", **asked)
    assert text.startswith("Rangs 0 et 1 : `all_reduce` a bien eu lieu, mais pas sur un tenseur")
    assert "Observé : [2] float32." in text and ("4" in text or "int32" in text)
    hidden = said(run, secret=True, op="all_reduce", **asked)
    assert "[2] float32" in hidden and "4" not in hidden and "int32" not in hidden


def test_nothing_else_ran() -> None:
    run = ran(*both(line=6), call(1, "barrier", 2.0, numel=0, shape=(), dtype="", line=7))
    text = said(run, op="all_reduce", times=1, only=True)
    assert text.startswith("Rang 1 : d'autres collectifs") and "barrier × 1 (ligne 7 : " in text
    assert said(run, op="all_reduce", only=("barrier",)) == ""
    assert said(run, op="all_reduce", only=["broadcast"]) != ""
    # The same collective on a rank that was not to call it is another one.
    assert "all_reduce × 1" in said(ran(*both()), op="all_reduce", ranks=(0,), only=True)
    # So is one with another tensor, one that never came back, and one that torch made.
    other = both(at=2.0, numel=8, shape=(8,))
    assert "all_reduce × 1" in said(ran(*both(), *other), op="all_reduce", numel=2, only=True)
    stuck = call(0, "broadcast", 2.0, returned=None)
    assert "broadcast × 1" in said(ran(*both(), stuck), op="all_reduce", only=True)
    torchs = [call(rank, "gloo:broadcast", 5.0, source="flight_recorder", returned=None) for rank in (0, 1)]
    assert "broadcast × 1" in said(ran(*both(), *torchs), op="all_reduce", only=True)


def test_what_torch_refused_or_did_to_carry_an_object_is_nothing_else() -> None:
    refused = call(0, "broadcast", 2.0, returned=None, error="TypeError: Expected parameter `tensor`")
    assert said(ran(*both(), refused), op="all_reduce", only=True) == ""
    carried = [
        *both("all_gather_object", 1.0, numel=0, shape=(), dtype=""),
        *[call(k, "gloo:all_gather", 1.001, source="flight_recorder", returned=None) for k in (0, 1)],
    ]
    assert said(ran(*carried), op="all_gather_object", times=1, only=True) == ""
    assert [len(entered(ran(*carried), rank)) for rank in (0, 1)] == [1, 1]


def test_in_a_test_cell(capsys: pytest.CaptureFixture[str]) -> None:
    m = marks(2, averaging())
    assert m.collective("all_reduce", times=1, shape=(2,), dtype="float32", only=True, points=2)
    assert m.total() == 2.0
    m = marks(2, averaging())
    assert not m.collective("all_reduce", times=2, points=2)
    with pytest.raises(TestFailed) as failed:
        m.total()
    assert "exactement 2" in str(failed.value)
    assert m.collective("all_reduce", values=[[6, 10]]) and not m.collective("all_reduce", values=[[1, 1]])
    with pytest.raises(TypeError):
        m.collective("all_reduce", time=2)   # type: ignore[call-arg]


# -- the process groups ------------------------------------------------------------------------------------

def test_the_life_of_the_groups() -> None:
    events = (
        Event(0, "init-enter", 1.0, 3), Event(0, "init", 1.5, 3, {"backend": "gloo", "world_size": 2}),
        Event(0, "destroy", 4.0, 9), Event(1, "init-enter", 1.0, 3),
    )
    run = replace(averaging(), events=events)
    assert groups(run, 0) == [Group(0, 1.0, 1.5, 4.0, "gloo", 2, (3, 9))]
    assert groups(run, 1) == [Group(1, 1.0, lines=(3, None))]
    assert [alive(run, 0, at) for at in (1.2, 2.0, 5.0)] == [False, True, False]
    assert alive(run, 1, 2.0) is False and alive(replace(run, events=()), 0, 2.0) is None
    assert (last_event(run, 0), last_event(run, 1)) == ("destroy", "init-enter")


@pytest.mark.parametrize(("ranks", "left_out"), [
    ([0], {(0,)}), ([1, 0], set()), (None, set()), ([0, "?"], {(0,)}),
])
def test_a_group_of_all_ranks_leaves_nobody_out(ranks: object, left_out: set[tuple[int, ...]]) -> None:
    assert subgroups(averaging(events=(Event(0, "new_group", 0.1, 4, {"ranks": ranks}),))) == left_out
