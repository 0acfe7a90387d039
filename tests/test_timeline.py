"""The rank timeline: what it makes of saved Runs, and how it is drawn, in words, as text and as SVG."""

from __future__ import annotations

import dataclasses
import itertools
import json
import random
import re
from pathlib import Path

import defusedxml.ElementTree as ElementTree
import pytest
from runs_made import a_run, call, log

from autograder.launch import run_request
from autograder.launch.run import Event, Frame, Request, Run, Stack
from autograder.report import timeline as words
from autograder.report import timeline_svg, timeline_text
from autograder.report.run_view import view
from autograder.verdict import proofs
from autograder.verdict.lives import standing, timeline
from autograder.verdict.timeline import ASLEEP, BUSY, MEET, MOST_LANES, MOST_SPANS, WAIT, Lane, Timeline

HERE = Path(__file__).resolve().parent
SVG = "{http://www.w3.org/2000/svg}"


def saved(name: str) -> Run:
    path = next((HERE / "runs_broken").glob(f"{name}.json"), None) or next(HERE.glob(f"runs/{name}*.json"))
    return Run.from_json(path.read_text(encoding="utf-8"))


def of(run: Run) -> Timeline:
    found = timeline(run)
    assert found is not None
    return found


def long(lane: Lane, kind: str, least: float = 0.2) -> list[float]:
    return [round(span.length, 1) for span in lane.spans if span.kind == kind and span.length >= least]


def living(*ranks: int, at: float = 1.0) -> list[Event]:
    return [Event(rank, name, moment) for rank in ranks
            for name, moment in (("start", 0.1), ("init-enter", 0.5), ("init", at))]  # fmt: skip


# -- what happened -----------------------------------------------------------------------------------------


def test_a_rank_that_sleeps_while_the_other_waits_for_it() -> None:
    """The page's own hang: rank 0 skips the barrier, rank 1 stands in it until our time limit."""
    line = of(saved("3bb04119750c"))
    absent, waiting = line.lanes
    assert (absent.missing is not None) and absent.missing.op == "barrier" and absent.missing.ranks == (1,)
    assert absent.spans[-1].kind == ASLEEP and absent.spans[-1].line == 38
    assert [span.kind for span in waiting.spans if span.length > 1] == [WAIT]
    assert waiting.spans[-1].ranks == (0,) and waiting.waited == pytest.approx(17.1, abs=0.1)
    assert (absent.end, waiting.end) == ("stopped", "stopped")


def test_a_slow_rank_makes_the_other_wait_and_never_waits_itself() -> None:
    line = of(saved("25551694fc14"))
    slow, healthy = line.lanes
    assert long(healthy, WAIT) == [0.3] * 5 and long(slow, WAIT) == []
    assert {span.ranks for span in healthy.spans if span.kind == WAIT and span.length > 0.2} == {(0,)}
    assert words.culprits(line) == [0]
    assert sum(span.kind == MEET for span in slow.spans) >= 5


def test_the_collectives_inside_ddp_count_too() -> None:
    line = of(saved("a235088d35c4"))
    assert line.collectives == 34 and words.culprits(line) == [0]


def test_a_pause_that_the_test_makes_is_drawn_as_sleep() -> None:
    line = of(saved("8f71a23e38be"))
    assert long(line.lanes[1], ASLEEP) == [0.3] * 3 and long(line.lanes[0], WAIT) == [0.3] * 3


@pytest.mark.parametrize(
    ("name", "end"), [("skip_exits", "ended"), ("killed", "killed"), ("skip_sleeps", "stopped")]
)
def test_how_the_absent_rank_ended(name: str, end: str) -> None:
    lane = of(saved(name)).lanes[1]
    assert lane.missing is not None and lane.end == end


def test_different_collectives_face_to_face_have_no_culprit() -> None:
    line = of(saved("order"))
    assert [lane.missing for lane in line.lanes] == [None, None]
    assert [lane.spans[-1].ranks for lane in line.lanes] == [(), ()]
    assert words.culprits(line) == []


def test_a_group_that_is_never_formed_is_what_there_is_to_see() -> None:
    line = of(saved("world_by_hand"))
    assert not line.formed and {lane.spans[-1].op for lane in line.lanes} == {"init_process_group"}
    assert line.telling


def test_ranks_of_several_groups_are_not_put_face_to_face() -> None:
    run = a_run(
        log(0), log(1), collectives=[call(0, at=1.1, returned=2.0)],
        events=(*living(0, 1), Event(0, "new_group", 1.05)),
    )  # fmt: skip
    line = of(run)
    assert not line.matched and line.lanes[1].missing is None
    assert any("plusieurs groupes" in said for said in words.sentences(line))


def test_nothing_recorded_draws_nothing() -> None:
    assert timeline(a_run(log(0), log(1))) is None
    assert words.of(dataclasses.replace(saved("order"), infra="port")) is None


def test_every_saved_run_gives_a_timeline_that_holds_together() -> None:
    paths = [*HERE.glob("runs_broken/*.json"), *sorted(HERE.glob("runs/*.json"))[::9]]
    seen = 0
    for path in paths:
        line = timeline(Run.from_json(path.read_text(encoding="utf-8")))
        if line is None:
            continue
        seen += 1
        for lane in line.lanes:
            moments = [moment for span in lane.spans for moment in (span.start, span.end)]
            assert moments == sorted(moments), path.name
            assert all(-1e-9 <= moment <= line.length + 1e-6 for moment in moments), path.name
        assert len(timeline_svg.svg(line)) < 60_000
        assert all(words.sentences(line))
    assert seen > 40


def test_where_a_stack_stands() -> None:
    def at(*frames: Frame) -> tuple[str, int | None]:
        return standing(Stack(0, frames))

    assert at(Frame("labo.py", 9, "main", "time.sleep(5)")) == (ASLEEP, 9)
    assert at(Frame("labo.py", 4, "main", "t.backward()"), Frame("c.py", 1, "wait")) == (WAIT, 4)
    assert at(Frame("labo.py", 3, "main", "x = x + 1")) == (BUSY, 3)
    assert at() == (BUSY, None)


# -- many ranks, many collectives --------------------------------------------------------------------------


def many(ranks: int, steps: int) -> Run:
    drawn = random.Random(7)
    now = [1.0] * ranks
    calls = []
    for step in range(steps):
        entered = [moment + drawn.uniform(0.002, 0.004) + 0.03 * (rank == 5 and step % 10 == 0)
                   for rank, moment in enumerate(now)]  # fmt: skip
        over = max(entered) + 0.0005
        calls += [call(rank, at=entered[rank], seq=step, returned=over) for rank in range(ranks)]
        now = [over] * ranks
    return a_run(
        *(log(rank) for rank in range(ranks)), collectives=calls, events=tuple(living(*range(ranks))),
        request=Request(nproc=ranks),
    )  # fmt: skip


def test_hundreds_of_collectives_on_eight_ranks_stay_bounded() -> None:
    line = of(many(8, 400))
    assert len(line.lanes) == 8 and max(len(lane.spans) for lane in line.lanes) <= MOST_SPANS
    assert len(timeline_svg.svg(line)) < 100_000 and len(json.dumps(line.as_dict())) < 60_000
    assert max(map(len, timeline_text.lines(line, 100))) <= 100
    assert words.culprits(line) == [5]
    # What is too short to be drawn is in the total all the same.
    assert line.lanes[0].waited > 1.0


def test_more_ranks_than_lanes_are_told() -> None:
    line = of(many(12, 20))
    assert len(line.lanes) == MOST_LANES and line.more == 4
    assert any("4 autres rangs" in said for said in words.sentences(line))


# -- as data -----------------------------------------------------------------------------------------------


def test_the_data_come_back_as_they_went() -> None:
    line = of(saved("3bb04119750c"))
    back = Timeline.from_dict(json.loads(json.dumps(line.as_dict())))
    assert back is not None and back.as_dict() == line.as_dict()
    assert timeline_svg.svg(back) == timeline_svg.svg(Timeline.from_dict(back.as_dict()) or back)


@pytest.mark.parametrize("data", [
    None, 3, [], {}, {"lanes": 1}, {"lanes": [1]}, {"lanes": [{"rank": "x"}]},
    {"start": float("nan"), "length": 1, "formed": 1, "more": 0, "matched": 1, "timed_out": 0,
     "collectives": 0, "lanes": []},
])  # fmt: skip
def test_data_of_any_other_shape_are_no_timeline(data: object) -> None:
    assert Timeline.from_dict(data) is None


# -- drawn -------------------------------------------------------------------------------------------------


def test_the_svg_stands_alone_and_can_be_read_aloud() -> None:
    drawn = timeline_svg.svg(of(saved("3bb04119750c")))
    tree = ElementTree.fromstring(drawn)
    assert tree.get("role") == "img"
    title, desc = tree.find(f"{SVG}title"), tree.find(f"{SVG}desc")
    assert title is not None and desc is not None and desc.text is not None
    assert tree.get("aria-labelledby") == f"{title.get('id')} {desc.get('id')}"
    assert "n'entre jamais dans `barrier`" in desc.text
    allowed = {"svg", "title", "desc", "defs", "pattern", "rect", "circle", "path", "text"}
    assert {element.tag.removeprefix(SVG) for element in tree.iter()} <= allowed
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)|href|@import|\bon\w+=", drawn)


def test_the_wait_s_length_and_the_absence_are_written_in_it() -> None:
    drawn = timeline_svg.svg(of(saved("3bb04119750c")))
    said = [element.text for element in ElementTree.fromstring(drawn).iter(f"{SVG}text")]
    assert "barrier\u00a0: 17,1 s" in said or "barrier : 17,1 s" in said
    assert any(text and text.endswith("jamais venu") for text in said)
    assert "stroke-dasharray" in drawn


def luminance(colour: str) -> float:
    channels = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [one / 12.92 if one <= 0.04045 else ((one + 0.055) / 1.055) ** 2.4 for one in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_what_is_drawn_is_told_apart_without_its_hue() -> None:
    """Filled: three lightnesses. Waiting and sleeping: two textures, each dark on light."""
    filled = sorted(luminance(one) for one in (timeline_svg.MEET_FILL, timeline_svg.BUSY_FILL, "#ffffff"))
    ratios = [(light + 0.05) / (dark + 0.05) for dark, light in itertools.pairwise(filled)]
    assert min(ratios) >= 3
    for ink, paper in (("WAIT_INK", "WAIT_PAPER"), ("SLEEP_INK", "SLEEP_PAPER"), ("INK", "PAPER")):
        dark, light = (luminance(getattr(timeline_svg, name)) for name in (ink, paper))
        assert (light + 0.05) / (dark + 0.05) >= 4.5
    drawn = timeline_svg.svg(of(saved("3bb04119750c")))
    assert drawn.count("<pattern") == 2 and "rotate(45)" in drawn and "<circle" in drawn


def test_two_pictures_of_a_page_share_no_id() -> None:
    ids = [set(re.findall(r' id="([^"]+)"', timeline_svg.svg(of(saved(name)))))
           for name in ("order", "skip_exits")]  # fmt: skip
    assert ids[0] and not ids[0] & ids[1]


def test_the_text_fits_any_terminal_and_says_it_in_words() -> None:
    for width in (60, 100):
        shown = timeline_text.lines(of(saved("3bb04119750c")), width)
        assert max(map(len, shown)) <= width
        rank0, rank1 = (next(one for one in shown if one.startswith(f"rang {k}")) for k in (0, 1))
        assert "z" in rank0 and "jamais venu" in rank0 and "░" in rank1 and "17,1 s" in rank1
    assert any("il dort (ligne 38)" in one for one in timeline_text.lines(of(saved("3bb04119750c")), 100))


def test_a_hostile_name_is_neither_markup_nor_a_control_character() -> None:
    run = a_run(
        log(0), log(1, code=-9), events=tuple(living(0, 1)), exit_code=1,
        collectives=[call(0, "</text><script>alert(1)</script>\x1b[2J", at=1.2, returned=None)],
    )  # fmt: skip
    line = of(run)
    assert "<script" not in timeline_svg.svg(line)
    assert "\x1b" not in "\n".join(timeline_text.lines(line))


# -- where it is shown -------------------------------------------------------------------------------------


def test_the_terminal_shows_it_where_there_is_something_to_see() -> None:
    assert "Chronologie des rangs" in view(saved("3bb04119750c"), None)
    calm = a_run(log(0), log(1), events=tuple(living(0, 1)),
                 collectives=[call(0, at=1.1, returned=1.12), call(1, at=1.11, returned=1.12)])  # fmt: skip
    assert "Chronologie" not in view(calm, None)


def test_a_run_displays_itself_in_a_notebook() -> None:
    from IPython.core.formatters import DisplayFormatter

    shown, _ = DisplayFormatter().format(saved("3bb04119750c"))
    assert ElementTree.fromstring(shown["image/svg+xml"]).tag == f"{SVG}svg"
    assert "Cause" in shown["text/plain"] and "Chronologie" in shown["text/plain"]
    assert "time.sleep(DELAI_S + 5)" in shown["image/svg+xml"]   # the cause stands under the picture
    shown, _ = DisplayFormatter().format(a_run(log(0), log(1)))
    assert "image/svg+xml" not in shown and shown["text/plain"]


# -- real launches -----------------------------------------------------------------------------------------

LATE = """import time
import torch
import torch.distributed as dist
dist.init_process_group("gloo")
dist.barrier()
for _ in range(3):
    if dist.get_rank() == 1:
        time.sleep(0.6)
    dist.all_reduce(torch.ones(4))
dist.destroy_process_group()
"""
NEVER = """import time
import torch
import torch.distributed as dist
dist.init_process_group("gloo")
if dist.get_rank() == 1:
    time.sleep(600)
dist.all_reduce(torch.ones(4))
"""


@pytest.mark.launch
@pytest.mark.timeout(600)
def test_a_slow_rank_launched_for_real(tmp_path: Path) -> None:
    (tmp_path / "labo.py").write_text(LATE, encoding="utf-8")
    line = of(run_request(Request(time_limit_s=200.0), tmp_path))
    assert words.culprits(line) == [1]
    assert line.lanes[0].waited > 1.2 > line.lanes[1].waited
    assert not any(lane.missing for lane in line.lanes)


@pytest.mark.launch
@pytest.mark.timeout(600)
def test_a_hang_launched_for_real(tmp_path: Path) -> None:
    (tmp_path / "labo.py").write_text(NEVER, encoding="utf-8")
    line = of(run_request(Request(time_limit_s=20.0), tmp_path))
    waiting, absent = line.lanes
    assert absent.missing is not None and absent.missing.op == "all_reduce" and absent.missing.ranks == (0,)
    assert absent.spans[-1].kind == ASLEEP and absent.spans[-1].line == 6
    assert waiting.spans[-1].kind == WAIT and waiting.spans[-1].ranks == (1,)


@pytest.mark.parametrize(
    ("code", "reached_end", "cause", "picture"),
    [(0, True, "il s'est terminé sans l'appeler", "est déjà fini"),
     (-15, True, "il s'est terminé sans l'appeler", "est déjà fini"),
     (None, True, "il s'est terminé sans l'appeler", "est déjà fini"),
     (-15, False, "il n'y était toujours pas", "fait autre chose")],
)  # fmt: skip
def test_picture_and_cause_say_the_same_of_the_rank_that_never_came(
    code: int | None, reached_end: bool, cause: str, picture: str
) -> None:
    """Also of one that had come to its end when the launcher stopped it."""
    broken = "RuntimeError: [pair.cc:553] Connection closed by peer [127.0.0.1]:1"
    run = a_run(
        log(0, code=1, reached_end=False), log(1, "fin 1\n", code=code, reached_end=reached_end), exit_code=1,
        collectives=[call(0, at=1.2, returned=None, error=broken, line=6)],
        events=(*living(0, 1), Event(0, "exception", 1.5, {"line": 6}), Event(1, "end", 1.21)),
    )  # fmt: skip
    found = proofs.absent_rank(run)
    assert found is not None and cause in found.message
    assert picture in " ".join(words.sentences(of(run)))
