"""What another speed of the machine could have changed is known as such, and is not taken at its word."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import tiny_course
from runs_made import averaging

from autograder.launch.run import Delay, Request
from autograder.notebook import examine as examiner
from autograder.notebook.examine import examine
from autograder.notebook.testcells import Outcome, _by_clock
from autograder.verdict import clock
from autograder.verdict import marks as accounts
from autograder.verdict.outcome import TestFailed


@pytest.mark.parametrize(
    ("changes", "matters"),
    [
        ({}, False),
        ({"timed_out": True, "exit_code": None}, True),
        ({"infra": "too-slow"}, True),
        ({"request": Request(env={"MCI_TIMEOUT_S": "5"})}, True),
        ({"request": Request(env={"MCI_LIGNES": "[[1], [2]]"})}, False),
        ({"request": Request(delays=(Delay(1, 0.3),))}, True),
        ({"stderr": "RuntimeError: [gloo] Timed out waiting 5000ms for recv operation"}, True),
        ({"launcher_stderr": "torch.distributed.DistStoreError: wait timeout after 5000ms"}, True),
        ({"stderr": "ZeroDivisionError: division by zero", "exit_code": 1}, False),
    ],
)
def test_which_launches_time_decides(changes: dict[str, Any], matters: bool) -> None:
    assert clock.matters(replace(averaging(), **changes)) is matters


@pytest.mark.parametrize("late", [True, False])
def test_points_lost_on_such_a_launch_are_marked_and_no_others(late: bool) -> None:
    run = replace(averaging(), timed_out=late)
    m = accounts.marks(2, run)
    m.text("jamais imprimé", points=2)
    with pytest.raises(TestFailed):
        m.total()
    assert accounts.LAST is not None and accounts.LAST.timed is late
    m = accounts.marks(2, run)
    m.text("moyenne 0 [3.0, 5.0]", points=2)
    m.total()
    assert accounts.LAST.timed is False


@pytest.mark.parametrize(
    ("status", "item", "timed"),
    [
        ("failed", {"outcome": "failed", "report": {"timed": True}}, True),
        ("passed", {"outcome": "value", "report": {"timed": True}}, False),
        ("failed", {"outcome": "failed", "report": {"timed": False}}, False),
        ("failed", {"outcome": "failed", "report": None}, False),
        ("not_graded", {"outcome": "not_graded", "report": None}, True),
        ("not_graded", None, True),
        ("not_graded", {"outcome": "fault", "report": None}, False),
        ("not_graded", {"outcome": "blocked"}, False),
    ],
)
def test_of_the_outcomes_of_a_test(status: Any, item: dict[str, Any] | None, timed: bool) -> None:
    assert _by_clock(Outcome("a", status, 0.0, 2.0), item).timed is timed


def test_cells_that_do_not_come_to_their_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    course = tiny_course.make_course(tmp_path)
    endless = tiny_course.copy_notebook(answer="moyenne = 3.0\nwhile True: pass")
    folder = tiny_course.hand_in(tmp_path, "zoe", endless)
    monkeypatch.setattr(examiner, "STUDENT_LIMIT_S", 4.0)
    result = examine(folder, "mini", course)
    assert result.clock[0] == "notebook"
    right = tiny_course.hand_in(tmp_path, "ann", tiny_course.copy_notebook(answer="moyenne = 4.0"))
    monkeypatch.undo()
    assert examine(right, "mini", course).clock == ()
