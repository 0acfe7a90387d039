"""A failing launch is made once more under DETAIL where that can name what the first one could not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from autograder.commands import student
from autograder.launch.run import Event, Run
from autograder.verdict import detail
from autograder.verdict.diagnosis import diagnose

KEPT = Path(__file__).parent / "reproduced"


def kept(name: str) -> Run:
    return Run.from_json((KEPT / f"{name}.json").read_text(encoding="utf-8"))


def test_a_victim_in_a_group_of_some_ranks_is_worth_it() -> None:
    first, again = kept("group_timed_out"), kept("group_detail")
    found, told = diagnose(first), diagnose(again)
    assert found is not None and found.cls == "S" and detail.worth_it(first, found)
    better = detail.better(first, found, again, told)
    assert better is not None and (better.id, better.rank) == ("missing-rank", 1)
    # torch counts in the group: rank 1 of the ranks 1 and 2 is another one.
    event = Event(0, "new_group", 1.0, 7, {"ranks": [1, 2]})
    assert detail.better(replace(first, events=(*first.events, event)), found, again, told) is found
    assert detail.better(first, found, first, found) is found
    assert detail.better(first, found, again, None) is found


KNOWN = ["killed_at_work", "after_destroy", "no_launcher", "waits_to_join", "slow_ddp"]


@pytest.mark.parametrize("name", KNOWN)
def test_what_is_known_is_not_launched_again(name: str) -> None:
    run = kept(name)
    assert not detail.worth_it(run, diagnose(run))


def test_never_after_the_deadline_nor_twice_nor_for_the_machine() -> None:
    first = kept("group_timed_out")
    found = diagnose(first)
    assert not detail.worth_it(replace(first, timed_out=True), found)
    assert not detail.worth_it(replace(first, request=replace(first.request, detail=True)), found)
    assert not detail.worth_it(replace(first, infra="port"), found)
    assert not detail.worth_it(replace(first, events=()), found)


def test_run_launches_it_once_more_and_keeps_the_first_times(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:
    from autograder import launch

    asked: list[bool] = []

    def answer(script: str, **settings: Any) -> Run:
        asked.append(bool(settings.get("detail")))
        return kept("group_detail" if asked[-1] else "group_timed_out")

    monkeypatch.setattr(launch, "launch", answer)
    (tmp_path / "labo.py").write_text(kept("group_timed_out").source, encoding="utf-8")
    code = student.run(tmp_path / "labo.py", nproc=3, env=[], timeout=None, as_json=True)
    told = capsys.readouterr().out
    assert code == 1 and asked == [False, True]
    assert '"id": "missing-rank"' in told and f'"duration_s": {kept("group_timed_out").duration_s}' in told
