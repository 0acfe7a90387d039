"""What the record proves: which collectives ran, and where the ranks should have met."""

from dataclasses import replace

from runs_made import a_run, averaging, call, gradient, log, stack

from autograder.launch.run import Event
from autograder.verdict import evidence, meeting


def test_a_collective_ran_on_every_rank():
    run = averaging()
    assert evidence.ran(run, "all_reduce") and evidence.ran(run, ("broadcast", "all_reduce"), numel=2)
    assert evidence.ran(run) and not evidence.ran(run, "all_reduce", numel=8)
    assert not evidence.ran(run, "all_reduce", at_least=2) and not evidence.ran(run, "broadcast")
    one = replace(run, collectives=run.collectives[:1])
    assert not evidence.ran(one, "all_reduce") and evidence.ran(one, "all_reduce", ranks=[0])
    for rank in (0, 1):
        assert [call.values_out for call in evidence.reductions(run, rank)] == [(6.0, 10.0)]


def started(rank, op="all_reduce", **more):
    """A call with async_op: it came back at once, and its result was not there to be recorded."""
    return call(rank, op, values_in=((1.0, 3.0), (5.0, 7.0))[rank], values_out=None, **more)


def test_the_result_of_an_asynchronous_call_follows_from_what_the_ranks_brought():
    run = a_run(log(0), log(1), collectives=[started(0), started(1)])
    for rank in (0, 1):
        assert evidence.did(run, "all_reduce", rank, 2, [[6.0, 10.0]])
        assert not evidence.did(run, "all_reduce", rank, 2, [[1.0, 3.0]])
    mean = a_run(log(0), log(1), collectives=[started(rank, reduce_op="avg") for rank in (0, 1)])
    assert evidence.did(mean, "all_reduce", 0, 2, [[3.0, 5.0]])
    sent = a_run(log(0), log(1), collectives=[started(rank, "broadcast", reduce_op=None) for rank in (0, 1)])
    assert evidence.did(sent, "broadcast", 1, 2, [[1.0, 3.0]])
    assert not evidence.did(sent, "broadcast", 1, 2, [[6.0, 10.0]])
    alone = a_run(log(0), log(1), collectives=[started(0)])
    assert not evidence.did(alone, "all_reduce", 0, 2, [[1.0, 3.0]])
    peak = a_run(log(0), log(1), collectives=[started(rank, reduce_op="max") for rank in (0, 1)])
    assert not evidence.did(peak, "all_reduce", 0, 2, [[5.0, 7.0]])


def test_a_barrier_carries_nothing():
    assert not evidence.ran(a_run(log(0), log(1), collectives=[call(0, "barrier"), call(1, "barrier")]))


def test_entered_is_not_completed():
    run = a_run(
        log(0),
        log(1),
        collectives=[call(0, returned=None), call(1, returned=None, error="Timed out waiting 5ms")],
    )
    assert not evidence.ran(run, "all_reduce")
    assert set(evidence.inside(run)) == {0} and set(evidence.blocked(run)) == {0, 1}


def record(rank, at, op="gloo:all_reduce", **more):
    return call(rank, op, at, source="flight_recorder", returned=None, **more)


def test_what_the_flight_recorder_alone_saw_was_made_by_ddp():
    ddp = tuple(Event(rank, "ddp", 0.5) for rank in (0, 1))
    own = [call(0), call(1), record(0, 1.0), record(1, 1.0)]
    by_hand = a_run(log(0), log(1), collectives=own, events=ddp)
    assert not evidence.ddp_ran(by_hand) and evidence.ops(by_hand) == {"all_reduce": 2}
    run = a_run(log(0), log(1), collectives=[*own, record(0, 2.0), record(1, 2.0)], events=ddp)
    assert evidence.ddp_ran(run) and evidence.ops(run, 0) == {"all_reduce": 2}
    assert not evidence.ddp_ran(replace(run, events=()))


def test_mean_of_local_gradients():
    run = a_run(log(0), log(1), events=(), gradients=(gradient(0, (1.0, 0.0)), gradient(1, (0.0, 3.0))))
    assert evidence.is_mean_of_local_gradients(run, [[0.5, 1.5]])
    assert not evidence.is_mean_of_local_gradients(run, [[1.0, 3.0]])
    assert not evidence.is_mean_of_local_gradients(replace(run, gradients=run.gradients[:1]), [[1.0, 0.0]])


def test_mismatches():
    def kind(first, second):
        found = meeting.mismatch(a_run(log(0), log(1), collectives=[first, second]))
        return found and found.kind

    assert kind(call(0), call(1)) is None
    assert kind(call(0), call(1, "broadcast")) == "order"
    assert kind(call(0), call(1, numel=4)) == "shape"
    assert kind(call(0), call(1, dtype="int32")) == "dtype"
    assert kind(call(0, "send"), call(1, "recv")) is None
    assert kind(call(0, "gather"), call(1, "gather", numel=0, shape=())) is None


def test_ranks_of_several_groups_are_not_compared():
    run = a_run(
        log(0), log(1), collectives=[call(0), call(1, "broadcast")], events=(Event(0, "new_group", 0.1),)
    )
    assert meeting.mismatch(run) is None and meeting.absent(run) is None


def test_the_absent_rank_is_named():
    run = a_run(
        log(0, code=1),
        log(1, code=-15),
        collectives=[call(0, returned=None, error="Timed out waiting 5000ms")],
    )
    assert meeting.absent(run).rank == 1
    three = a_run(
        log(0),
        log(1),
        exit_code=1,
        collectives=[call(0), call(1), call(0, at=2), call(0, at=3, returned=None), call(1, at=2)],
    )
    assert (meeting.absent(three).rank, meeting.absent(three).waiting.entered) == (1, 3)


def test_the_absent_rank_is_named_inside_ddp_too():
    hung = a_run(
        log(0, code=-15),
        log(1, code=-15),
        timed_out=True,
        stacks=(stack(0, 9), stack(1, 11)),
        collectives=[record(0, 1.0), record(1, 1.0), record(0, 2.0)],
    )
    assert meeting.absent(hung).rank == 1
    # A rank ended by the launcher could not write its record: its silence proves nothing.
    assert meeting.absent(replace(hung, stacks=(stack(0, 9),))) is None


def steps(late_by, count=6):
    return [
        call(rank, at=step + (late_by if rank == 1 else 0.0), returned=step + late_by + 0.01)
        for step in range(count)
        for rank in (0, 1)
    ]


def test_the_slow_rank_is_the_one_that_comes_last():
    found = meeting.late(a_run(log(0), log(1), collectives=steps(0.4)))
    assert (found.rank, found.count, round(found.seconds, 3)) == (1, 6, 0.4)
    assert meeting.late(a_run(log(0), log(1), collectives=steps(0.02))) is None
    assert meeting.late(a_run(log(0), log(1), collectives=steps(0.4, 2))) is None
