"""Test cells: points, gates, what is shown, what is never shown."""

import subprocess
import sys

import pytest
from runs_made import GOOD, a_run, averaging, call, log, traceback

from autograder import NotGraded, TestFailed, close, marks, within
from autograder.launch.run import Delay, Event, Request
from autograder.verdict import marks as module


def average(run, max_points=4, **options):
    m = marks(max_points, run, **options)
    m.each("moyenne {k} [3.0, 5.0]", points=max_points)
    m.collective("all_reduce")
    return m


def failure(m):
    with pytest.raises(TestFailed) as caught:
        m.total()
    return str(caught.value)


def test_all_right(capsys):
    assert average(averaging()).total() == 4.0
    out, err = capsys.readouterr()
    assert out.startswith("✔ 4 / 4") and not err
    assert (module.LAST.status, module.LAST.points, module.LAST.diagnosis) == ("passed", 4.0, None)


def test_one_rank_right_is_half(capsys):
    points = average(averaging(out1="moyenne 1 [6.0, 10.0]\n")).total()
    assert points == 2.0 and isinstance(points, float)
    out = capsys.readouterr().out.replace("\u00a0", " ")
    assert "Rang 1 : le texte « moyenne 1 [3.0, 5.0] » est absent." in out
    assert "Texte le plus proche : « moyenne 1 [6.0, 10.0] »." in out
    assert "torchrun --nproc_per_node=2" in out
    assert module.LAST.status == "partial" and module.LAST.diagnosis["id"] == "not-divided"


@pytest.mark.parametrize(("shown", "id"), [("[6.0, 10.0]", "not-divided"), ("[1.5, 2.5]", "divided-twice")])
def test_the_division_is_told_apart(shown, id):
    text = failure(average(averaging(f"moyenne 0 {shown}\n", f"moyenne 1 {shown}\n")))
    assert module.LAST.diagnosis["id"] == id and module.LAST.diagnosis["line"] == 6
    assert shown in text


@pytest.mark.parametrize(
    ("op", "before", "out"),
    [
        ("avg", ([1, 3], [5, 7]), (3.0, 5.0)),
        ("sum", ([0.5, 1.5], [2.5, 3.5]), (3.0, 5.0)),
    ],
)
@pytest.mark.parametrize(("shown", "id"), [("[3.0, 5.0]", None), ("[1.5, 2.5]", "divided-twice")])
def test_dividing_before_and_avg_are_right_too(op, before, out, shown, id):
    calls = [call(k, reduce_op=op, values_in=tuple(map(float, before[k])), values_out=out) for k in (0, 1)]
    run = a_run(log(0, f"moyenne 0 {shown}"), log(1, f"moyenne 1 {shown}"), collectives=calls)
    m = average(run)
    if id is None:
        assert m.total() == 4
    else:
        failure(m)
    assert (module.LAST.diagnosis or {}).get("id") == id


def test_texts_without_the_collective_are_worth_nothing_and_flagged():
    by_hand = a_run(log(0, "moyenne 0 [3.0, 5.0]"), log(1, "moyenne 1 [3.0, 5.0]"))
    failure(average(by_hand))
    assert module.LAST.flags == ["hard-coded"] and module.LAST.points == 0
    with_barrier = a_run(*by_hand.ranks, collectives=[call(0, "barrier"), call(1, "barrier")])
    failure(average(with_barrier))
    assert module.LAST.flags == ["hard-coded"]


def test_another_collective_is_not_hard_coded():
    run = a_run(
        log(0, "moyenne 0 [3.0, 5.0]"),
        log(1, "moyenne 1 [3.0, 5.0]"),
        collectives=[call(0, "all_gather"), call(1, "all_gather")],
    )
    assert "all_gather × 1" in failure(average(run)) and module.LAST.flags == []


def test_a_crash_is_not_hard_coded():
    run = a_run(log(0, "moyenne 0 [3.0, 5.0]", traceback(8, "ValueError: non"), 1), log(1, "", code=-15))
    failure(average(run))
    assert module.LAST.flags == [] and module.LAST.diagnosis["id"] == "exception"


def test_a_right_launch_without_any_record_is_not_graded():
    run = a_run(stdout="moyenne 0 [3.0, 5.0]moyenne 1 [3.0, 5.0]", per_rank=False, exit_code=0)
    with pytest.raises(NotGraded):
        average(run)
    assert module.LAST.status == "not_graded"


def test_values_of_the_collective():
    m = marks(1, averaging())
    assert m.collective("all_reduce", values=[[3, 5], [6, 10]], points=1)
    assert not m.collective("all_reduce", values=[[1, 1]])
    assert "d'autres valeurs" in failure(m)


def test_rows_written_in_the_script():
    request = Request(env={"MCI_LIGNES": "[[2,4],[6,9]]"})
    m = marks(3, averaging(request=request), secret=True)
    m.each("moyenne {k} [4.0, 6.5]", points=3)
    m.collective("all_reduce")
    assert m.follow_inputs("MCI_LIGNES", ["moyenne 0 [3.0, 5.0]", "moyenne 1 [3.0, 5.0]"])
    text = failure(m)
    assert module.LAST.flags == ["inputs-ignored"]
    assert "6.5" not in text and "MCI_LIGNES='[[2,4],[6,9]]'" in text and "json.loads" in text


def test_a_wrong_result_is_not_inputs_ignored():
    m = marks(2, averaging("moyenne 0 [9.0]", "moyenne 1 [9.0]"), secret=True)
    m.each("moyenne {k} [4.0, 6.5]", points=2)
    assert not m.follow_inputs("MCI_LIGNES", ["moyenne 0 [3.0, 5.0]", "moyenne 1 [3.0, 5.0]"])
    text = failure(m)
    assert module.LAST.flags == [] and "6.5" not in text and "« moyenne »" in text.replace("\u00a0", " ")


def test_a_negative_test_counts_only_with_the_main_texts():
    empty = a_run(log(0), log(1), source="")
    m = marks(2, empty)
    m.main("gradient {k} [[0.5, 1.5]]")
    m.check(not any(event.name == "cuda_event" for event in empty.events), "Event", points=2)
    failure(m)
    assert module.LAST.points == 0
    ran = a_run(log(0, "gradient 0 [[0.5, 1.5]]"), log(1, "gradient 1 [[0.5, 1.5]]"))
    m = marks(2, empty)
    m.main("gradient {k} [[0.5, 1.5]]", run=ran)
    m.absent("gradient", points=2)
    assert m.total() == 2


def test_an_abort_after_the_end_costs_nothing(capsys):
    err = "terminate called without an active exception\nFatal Python error: Aborted\n"
    base = averaging()
    run = a_run(
        base.ranks[0], log(1, base.ranks[1].stdout, err, -6), collectives=base.collectives, exit_code=1
    )
    m = average(run, 4)
    m.exit(zero=True)
    assert m.total() == 4
    assert "Remarque" in capsys.readouterr().out and module.LAST.diagnosis["id"] == "exit-abort"


def test_exit_codes():
    stopped = a_run(
        log(0, "", traceback(3, "RuntimeError: Ce laboratoire attend WORLD_SIZE=2."), 1),
        request=Request(nproc=1),
    )
    m = marks(1, stopped)
    assert m.exit(zero=False, points=1) and not m.exit(zero=True)
    assert m.total() == 1.0
    hung = a_run(log(0, code=-15), log(1, code=-15), timed_out=True)
    m = marks(1, hung)
    assert not m.exit(zero=False, points=1)
    assert "60 s" in failure(m)


def test_infrastructure_loses_no_mark():
    with pytest.raises(NotGraded, match="Non noté"):
        marks(4, averaging(infra="hostname"))
    assert module.LAST.status == "not_graded" and module.LAST.diagnosis["id"] == "hostname"
    with pytest.raises(NotGraded):
        marks(4, averaging(infra="something-new"))
    with pytest.raises(NotGraded):
        marks(1).text("x", run=averaging(infra="port"))


def test_answers_of_any_type():
    m = marks(3)
    for name, value in [("a", None), ("b", "3,5"), ("c", [1, {"x": ...}])]:
        m.answer(name, value, ok=close(value, 3.5), points=1)
    text = failure(m)
    assert "`a` n'est pas encore donnée" in text and "`b = '3,5'`" in text and "3.5" not in text
    assert "Commande" not in text
    assert not any(close(value, 1) for value in (True, "1", None, [1], {}, 1 + 0j, float("nan"), 10**400))
    assert close([3, 5.0], [3.0, 5.0]) and not close([3], [3, 5]) and not close([True, 5], [1, 5])
    assert within(250, 200, 310) and not within("250", 200, 310) and not within(True, 0, 2)


def test_comparisons_without_a_truth_value_are_wrong_answers():
    class Odd:
        def __bool__(self):
            raise RuntimeError

        __repr__ = __bool__

    m = marks(1)
    m.answer("x", Odd(), ok=Odd(), points=1)
    assert "Odd" in failure(m)


def test_the_drawn_delay_is_not_told():
    m = marks(1, averaging(request=Request(delays=(Delay(1, 0.3125),))), secret=True)
    m.text("all_reduce_ms 312.5", rank=0, points=1)
    text = failure(m)
    assert "312" not in text and "retarde volontairement" in text and "all_reduce_ms" in text


def test_too_many_points_is_the_authors_error():
    m = marks(1, averaging())
    m.text("entre 0", points=2)
    with pytest.raises(ValueError, match="2 points"):
        m.total()


def test_without_its_hidden_lines_a_cell_says_what_is_left(capsys):
    m = marks(4, averaging())
    m.text("moyenne 0 [3.0, 5.0]", rank=0, points=1)
    assert m.total() is None   # nbgrader validate would show a number below the maximum as a failure
    out = capsys.readouterr().out
    assert "1 / 1" in out and "3 points" in out
    m = marks(4, averaging())
    m.text("moyenne 0 [4.0]", rank=0, points=1)
    failure(m)


def test_hostile_output_in_a_report():
    evil = "moyenne 0 [6.0, 10.0]\x1b[2J\x00" + "A" * 100_000
    text = failure(average(averaging(evil, "\x1b]0;x\x07")))
    assert "\x1b" not in text and "\x00" not in text and len(text) < 4000


def test_the_right_line_is_shown_for_an_unfilled_hole():
    source = GOOD.replace("dist.all_reduce(t)", 'raise NotImplementedError("à compléter")')
    err = traceback(6, "NotImplementedError: à compléter")
    run = a_run(log(0, "", err, 1), log(1, "", err, 1), source=source)
    assert "ligne 6" in failure(average(run)) and module.LAST.diagnosis["id"] == "unfilled"


def test_a_right_cell_keeps_an_expected_failure_quiet(capsys):
    err = traceback(3, "ValueError: environment variable RANK expected, but not set")
    run = a_run(log(0, "", err, 1), request=Request(launcher=False))
    m = marks(1, run)
    m.text("environment variable RANK expected", points=1)
    assert m.total() == 1
    assert "Cause" not in capsys.readouterr().out


def test_a_script_of_the_test_is_never_quoted():
    err = (
        'Traceback (most recent call last):\n  File "/x/piege.py", line 2, in <module>\n    runpy()\n'
        '  File "/x/labo.py", line 7, in <module>\n    code()\nValueError: non'
    )
    source = "attendu = 3141\nif attendu == 3141: runpy()\n"
    run = a_run(log(0, "", err, 1), log(1, code=-15), source=source, request=Request(script="piege.py"))
    m = marks(1, run)
    m.text("x", points=1)
    text = failure(m)
    assert "3141" not in text and "ligne 7" in text


def test_ddp_line():
    m = marks(1, a_run(log(0), log(1), events=tuple(Event(k, "ddp", 1.0) for k in (0, 1))))
    assert not m.ddp(points=1)
    failure(m)


CELL = """
from autograder import marks
m = marks(1)
m.answer("x", 2, ok=2 == SECRET_3141, points=1)
m.total()
""".replace("SECRET_3141", "3141")


def test_a_failure_in_plain_python_reads_well():
    done = subprocess.run([sys.executable, "-c", CELL], capture_output=True, text=True, encoding="utf-8")
    assert "autograder.TestFailed: ✘ 0 / 1" in done.stderr and "During handling" not in done.stderr


def test_a_failure_in_ipython_shows_the_report_only():
    pytest.importorskip("IPython")
    done = subprocess.run(
        [sys.executable, "-m", "IPython", "--no-banner", "--colors=NoColor", "-c", CELL],
        capture_output=True,
        text=True,
        encoding="utf-8",
    )
    shown = done.stdout + done.stderr
    assert "✘ 0 / 1" in shown and "3141" not in shown and "Traceback" not in shown


def test_a_narrow_console_still_gets_the_report():
    done = subprocess.run(
        [sys.executable, "-c", CELL.replace("3141", "2")],
        capture_output=True,
        env={"PYTHONIOENCODING": "cp1252"},
    )
    assert done.returncode == 0 and b"1 / 1" in done.stdout and not done.stderr
