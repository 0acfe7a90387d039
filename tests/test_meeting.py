"""Hang or slow step: what the times of the ranks' collectives say, whatever the machine did meanwhile."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest
from runs_made import a_run, call, log, stack

from autograder.launch.run import Collective, Event, Request, Run
from autograder.verdict import meeting
from autograder.verdict.diagnosis import diagnose


def steps(lateness: list[float], every: float = 0.05, slow: int = 1) -> list[Collective]:
    """Two ranks that meet; at each step `slow` comes so many seconds after the other (before it, below 0)."""
    calls, now = [], 1.0
    for late in lateness:
        entries = {slow: now + max(late, 0.0), 1 - slow: now + max(-late, 0.0)}
        now = max(entries.values()) + 0.001
        calls += [call(rank, at=entries[rank], returned=now, line=6) for rank in (0, 1)]
        now += every
    return calls


def late(lateness: list[float], **more: float) -> tuple[int, int] | None:
    found = meeting.late(a_run(log(0), log(1), collectives=steps(lateness, **more)))
    return found and (found.rank, round(found.seconds * 1000))


def test_a_long_wait_is_told_from_the_second_one_on() -> None:
    assert late([0.0, 0.4, 0.4]) == (1, 400)
    assert late([0.4, 0.0, 0.0, 0.0]) is None


def test_a_short_one_must_come_back() -> None:
    assert late([0.0, 0.02, 0.021, 0.02, 0.024]) == (1, 20)
    assert late([0.0, 0.02, 0.021, 0.02]) is None                    # too few to be sure
    assert late([0.0, 0.02, 0.001, 0.03, 0.002, 0.02]) is None       # now and then: the machine's doing
    assert late([0.0, 0.02, -0.02, 0.02, -0.02, 0.02]) is None       # now this rank, now the other
    assert late([0.0, 0.005, 0.005, 0.005, 0.005]) is None           # no time worth a word
    assert late([0.0, 0.02, 0.021, 0.02, 0.024], every=2.0) is None  # nothing beside the step


def test_the_first_collective_is_counted_where_it_was_waited_in_too() -> None:
    """It decides nothing, but the picture of the ranks draws that wait like the others."""
    def count(lateness: list[float]) -> int:
        found = meeting.late(a_run(log(0), log(1), collectives=steps(lateness)))
        assert found is not None
        return found.count

    assert count([0.4, 0.4, 0.4, 0.4, 0.4]) == 5
    assert count([0.0, 0.4, 0.4, 0.4, 0.4]) == count([-0.4, 0.4, 0.4, 0.4, 0.4]) == 4


def test_a_busy_machine_slows_nobody_in_particular() -> None:
    """Held back at any step, either rank, by nothing most often and by as long as you like sometimes."""
    dice = random.Random(6)
    named = 0
    for _ in range(500):
        held = [dice.expovariate(1 / 0.015) * dice.choice((-1, 1)) for _ in range(8)]
        named += late([0.0, *held]) is not None
    assert named <= 15   # as many as eight throws of a coin give nearly the same side


def test_a_slow_rank_is_named_on_a_busy_machine() -> None:
    dice = random.Random(6)
    for _ in range(200):
        pause, slow = dice.uniform(0.06, 2.0), dice.randrange(2)
        held = [pause + dice.gauss(0, 0.012) for _ in range(8)]
        found = late([0.0, *held], slow=slow)
        assert found is not None and found[0] == slow


def test_of_three_ranks_the_one_that_the_others_wait_for() -> None:
    calls = [
        call(rank, at=step + (0.3 if rank == 2 else 0.0), returned=step + 0.31)
        for step in range(4) for rank in range(3)
    ]
    run = a_run(log(0), log(1), log(2), request=Request(nproc=3), collectives=calls)
    found = meeting.late(run)
    assert found is not None and (found.rank, round(found.seconds, 2)) == (2, 0.3)
    two_late = [replace(one, entered=one.entered + 0.3) if one.rank == 1 else one for one in calls]
    assert meeting.late(replace(run, collectives=tuple(two_late))) is None


def test_ddps_own_reductions_tell_it_too() -> None:
    records = [replace(one, source="flight_recorder", returned=None) for one in steps([0.0] + [0.2] * 4)]
    found = meeting.late(a_run(log(0), log(1), collectives=records))
    assert found is not None and (found.rank, found.count) == (1, 4)


def joined(calls: list[Collective], at: tuple[float, float]) -> Run:
    events = [
        event for rank in (0, 1)
        for event in (Event(rank, "init-enter", 0.1), Event(rank, "init", at[rank], 3, {"backend": "gloo"}))
    ]
    return a_run(log(0), log(1), collectives=calls, events=tuple(events))


@pytest.mark.parametrize("count", [1, 2])
def test_of_one_or_two_collectives_what_each_rank_did_since_it_joined(count: int) -> None:
    calls = steps([0.5] * count)
    found = diagnose(joined(calls, (1.0, 1.0)))
    assert found is not None and (found.id, found.rank) == ("slow-step", 1)
    assert ("à 1 collectif (" in found.message) == (count == 1)
    assert meeting.late(joined(calls, (1.0, 1.45))) is None      # it joined late: the machine's doing
    assert meeting.late(joined(steps([0.2] * count), (1.0, 1.0))) is None
    assert meeting.late(a_run(log(0), log(1), collectives=calls)) is None   # nothing tells when they joined
    assert meeting.late(joined(steps([0.5, -0.5]), (1.0, 1.0))) is None


def test_no_rank_of_a_saved_launch_is_called_slow_that_was_not_made_slow() -> None:
    """Hundreds of right launches, many of them from a busy machine."""
    told = 0
    for path in sorted((Path(__file__).parent / "runs").glob("*.json")):
        run = Run.from_json(path.read_text(encoding="utf-8"))
        found = diagnose(run)
        if found is not None and found.id == "slow-step":
            told += 1
            assert "RALENTI" in run.request.env or "sleep" in run.source, path.name
    assert told


# -- stopped at the deadline -------------------------------------------------------------------------------

def stopped(calls: list[Collective], limit: float) -> Run:
    last = max(one.returned or one.entered for one in calls)
    waiting = call(0, at=last + 0.05, returned=None, line=6)
    return a_run(
        log(0, code=-15), log(1, code=-15), timed_out=True, exit_code=-15,
        request=Request(time_limit_s=limit), collectives=[*calls, waiting],
        stacks=(stack(0, 6, "all_reduce"), stack(1, 4, "sleep")))


def test_slow_to_the_end_is_no_hang() -> None:
    calls = steps([0.0] + [1.0] * 8)                          # the last one ends at about 9.5 s
    found = diagnose(stopped(calls, 10.0))
    assert found is not None and (found.id, found.rank, found.cls) == ("slow-step", 1, "P")
    assert "Ce n'est pas un blocage" in found.message and "10 s" in found.message.replace("\u00a0", " ")
    hung = diagnose(stopped(calls, 20.0))                     # ten times what a step had taken
    assert hung is not None and (hung.id, hung.rank, hung.line) == ("missing-rank", 1, 4)


def test_both_slow_to_the_end() -> None:
    calls = steps([0.0] * 10, every=1.0)
    found = diagnose(stopped(calls, 11.5))
    assert found is not None and (found.id, found.rank) == ("unfinished", None)
    assert diagnose(stopped(calls, 20.0)).id == "missing-rank"    # type: ignore[union-attr]


@pytest.mark.parametrize("count", [1, 2, 3])
def test_too_few_steps_say_nothing_of_going_on(count: int) -> None:
    found = diagnose(stopped(steps([1.0] * count), 1.0 + 1.1 * count))
    assert found is not None and found.id == "missing-rank"


def test_a_rank_that_the_test_holds_back_is_not_slow() -> None:
    from autograder.launch.run import Delay

    run = stopped(steps([0.0] + [1.0] * 8), 10.0)
    held = replace(run, request=replace(run.request, delays=(Delay(1, 1.0),)))
    assert diagnose(held).id == "missing-rank"    # type: ignore[union-attr]


def test_groups_of_some_ranks_are_not_compared() -> None:
    run = stopped(steps([0.0] + [1.0] * 8), 10.0)
    run = replace(run, events=(Event(0, "new_group", 0.1, 3, {"ranks": [0]}),))
    assert meeting.moving(run) is None and meeting.absent(run) is None
    everybody = replace(run, events=(Event(0, "new_group", 0.1, 3, {"ranks": [0, 1]}),))
    assert meeting.moving(everybody) is not None and meeting.absent(everybody) is not None


# -- more collectives than are kept --------------------------------------------------------------------------

def test_a_long_loop_is_not_a_missing_rank() -> None:
    """Marks stop at two thousand; a rank that waits writes its last one at the deadline, the other cannot."""
    calls = [
        call(rank, at=index / 1000, returned=index / 1000 + 0.0005, seq=index)
        for index in range(meeting.STREAMED) for rank in (0, 1)
    ]
    inside = call(0, at=9.0, returned=None, seq=9000)
    records = [
        call(rank, at=8.0 + index / 1000, seq=8001 + index + rank, source="flight_recorder", returned=None)
        for index in range(meeting.KEPT) for rank in (0, 1)
    ]
    run = a_run(
        log(0, code=-15), log(1, code=-15), timed_out=True, exit_code=-15, request=Request(time_limit_s=9.0),
        collectives=[*calls, inside, *records], stacks=(stack(0, 6), stack(1, 6)))
    assert meeting.absent(run) is None or meeting.absent(run).rank == 0   # type: ignore[union-attr]
    found = diagnose(run)
    assert found is not None and found.id in ("unfinished", "silent-hang")
