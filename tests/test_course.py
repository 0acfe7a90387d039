"""course.yaml: what it accepts, and what it says of everything else."""

from __future__ import annotations

import os
import re
import stat
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
import yaml

from autograder import yamlfile
from autograder.course import Course, CourseError, course_key, find_root, key_fingerprint, load

SMALL = """\
course:
  id: petit
  title: Un petit cours
  language: fr
  timezone: Europe/Paris
  hours: 2
session:
  title: Séance
  teacher: A. Personne
  start: 2031-03-27T13:00
  duration: PT4H
  organisation: URCA
  campus: Reims
  building: bâtiment 1
  room: salle 1
  modes: [présentiel]
launch: {nproc: 2, backend: gloo, time_limit_s: 60, copy_limit_s: 600, output_limit_kib: 256}
late: {policy: none}
assignments:
  - id: ex1
    title: Premier
    points: {auto: 3, manual: 2}
    release: -P21D
    due: -PT1H
    files: [labo.py]
  - id: ex2
    title: Second
    points: {auto: 1}
    release: -P21D
    due: P14D
"""

Refused = Callable[..., CourseError]


@pytest.fixture
def refused(tmp_path: Path) -> Refused:
    """The error of the small course with one text replaced by another."""

    def load_changed(old: str, new: str) -> CourseError:
        assert old in SMALL
        (tmp_path / "course.yaml").write_text(SMALL.replace(old, new, 1), encoding="utf-8")
        with pytest.raises(CourseError) as caught:
            load(tmp_path)
        return caught.value

    return load_changed


def changed(folder: Path, old: str, new: str) -> Course:
    assert old in SMALL
    (folder / "course.yaml").write_text(SMALL.replace(old, new, 1), encoding="utf-8")
    return load(folder)


def line_of(text: str) -> int:
    return next(n for n, line in enumerate(SMALL.splitlines(), 1) if text in line)


# ------------------------------------------------------------------------------------ what is accepted


def test_the_real_course_loads(root: Path) -> None:
    course = load(root)
    assert course.root == root
    assert course.session.end - course.session.start == timedelta(hours=4)
    before = [one.id for one in course.assignments if one.due < course.session.start]
    assert before == ["ex1-rang", "ex2-moyenne", "ex3-ddp", "ex4-chronometre", "projet-solo"]
    assert all(course.assignment(name).files[0] == "labo.py" for name in before)
    assert course.assignment("projet-groupe").group == 2


def test_dates_follow_the_session(tmp_path: Path) -> None:
    first = changed(tmp_path, "2031-03-27T13:00", "2031-03-27T13:00").assignment("ex1")
    later = changed(tmp_path, "2031-03-27T13:00", "2032-06-10T09:30").assignment("ex1")
    assert first.due.isoformat() == "2031-03-27T12:00:00+01:00"
    assert later.due.isoformat() == "2032-06-10T08:30:00+02:00"


@pytest.mark.parametrize(
    ("written", "utc"),
    [
        ("2031-01-31T23:59", "2031-01-31T22:59"),
        ("2031-01-31T23:59:30", "2031-01-31T22:59:30"),
        ("2030-07-31T23:59", "2030-07-31T21:59"),
        ("2031-01-31T23:59Z", "2031-01-31T23:59"),
        ("2031-01-31T23:59:00-05:00", "2031-02-01T04:59"),
        ("'2031-01-31T23:59'", "2031-01-31T22:59"),
    ],
)
def test_a_date_is_local_unless_it_gives_its_offset(tmp_path: Path, written: str, utc: str) -> None:
    course = changed(tmp_path, "release: -P21D", f"release: {written}")
    moment = course.assignment("ex1").release
    assert moment.astimezone(UTC).replace(tzinfo=None) == datetime.fromisoformat(utc)
    assert moment.tzinfo == ZoneInfo("Europe/Paris")


def test_days_keep_the_hour_and_hours_are_elapsed_when_the_clocks_change(tmp_path: Path) -> None:
    # The clocks of Paris go forward in the night before 2031-03-30.
    wanted = {"P3D": "2031-03-30T13:00:00+02:00", "PT72H": "2031-03-30T14:00:00+02:00"}
    wanted["+P1W1DT30M"] = "2031-04-04T13:30:00+02:00"
    for duration, due in wanted.items():
        assert changed(tmp_path, "P14D", duration).assignment("ex2").due.isoformat() == due


def test_a_duration_may_land_in_the_hour_that_the_clocks_skip(tmp_path: Path) -> None:
    course = changed(tmp_path, "2031-03-27T13:00", "2031-03-27T02:30")
    assert course.session.start.isoformat() == "2031-03-27T02:30:00+01:00"
    course = changed(tmp_path, "due: P14D", "due: P2DT13H30M")
    assert course.assignment("ex2").due.isoformat() == "2031-03-30T03:30:00+02:00"


def test_what_may_be_left_out(tmp_path: Path) -> None:
    course = changed(tmp_path, "", "")
    second = course.assignment("ex2")
    assert (second.points.manual, second.files, second.data) == (0, [], [])
    assert course.late.grace.total == timedelta(0)


def test_the_nearest_course_upwards_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "course.yaml").write_text(SMALL, encoding="utf-8")
    deep = tmp_path / "élève n°1 (copie)" / "ex1"
    deep.mkdir(parents=True)
    assert find_root(deep) == tmp_path.resolve()
    monkeypatch.chdir(deep)
    assert load().root == tmp_path.resolve()
    assert load(tmp_path / "course.yaml") == load(tmp_path)


# ------------------------------------------------------------------------------------ what is refused


@pytest.mark.parametrize(
    ("written", "why"),
    [
        ("'2031-01-31 23:59:00 +0100'", "the offset needs a colon"),
        ("2031-01-31T23:59:00+0100", "the offset needs a colon"),
        ("2031-01-31 23:59", "T stands between date and hour"),
        ("01/02/2031", "day and month cannot be told apart"),
        ("2031-01-31", "the hour is missing"),
        ("2031-02-30T12:00", "not a date of the calendar"),
        ("2031-13-01T12:00", "not a date of the calendar"),
        ("2031-01-31T24:30", "not a date of the calendar"),
        ("2031-01-31T23:59 CET", "not an ISO 8601 date and time"),
        ("20310131T2359", "not an ISO 8601 date and time"),
        ("demain", "not an ISO 8601 date and time"),
        ("2031", "not a date and time"),
        ("", "not a date and time"),
        ("P1Y", "months or years"),
        ("-P1M", "months or years"),
        ("P", "not an ISO 8601 duration"),
        ("PT", "not an ISO 8601 duration"),
        ("P1.5D", "not an ISO 8601 duration"),
        ("-P999999999D", "longer than a century"),
        ("2031-03-30T02:30", "the clocks skip that hour"),
        ("2031-10-26T02:30", "exists twice"),
    ],
)
def test_any_other_date_is_refused(refused: Refused, written: str, why: str) -> None:
    error = refused("release: -P21D", f"release: {written}")
    assert error.key == "assignments[0].release"
    assert error.line == line_of("release: -P21D")
    assert why in str(error)
    assert "YYYY-MM-DDTHH:MM" in error.accepted and "-P21D" in error.accepted


def test_the_session_cannot_be_relative_to_itself(refused: Refused) -> None:
    error = refused("2031-03-27T13:00", "P2D")
    assert (error.key, error.value) == ("session.start", "P2D")
    assert len(error.problems) == 1  # the dates that count from it are not blamed as well


@pytest.mark.parametrize(
    ("old", "new", "key", "said"),
    [
        ("Europe/Paris", "Europe/Pari", "course.timezone", "did you mean Europe/Paris"),
        ("Europe/Paris", "../etc/passwd", "course.timezone", "unknown time zone"),
        ("Europe/Paris", "7", "course.timezone", "not the name of a time zone"),
        ("language: fr", "language: en", "course.language", "fr"),
        ("hours: 2", "hours: deux", "course.hours", "whole hours"),
        ("hours: 2", "hours: 0o2", "course.hours", "whole hours"),
        ("duration: PT4H", "duration: -PT4H", "session.duration", "negative"),
        ("duration: PT4H", "duration: 4h", "session.duration", "PT1H"),
        ("modes: [présentiel]", "modes: []", "session.modes", "at least 1"),
        ("nproc: 2", "nproc: 0", "launch.nproc", "from 1 to 64"),
        ("nproc: 2", "nproc: '2'", "launch.nproc", "from 1 to 64"),
        ("backend: gloo", "backend: mpi", "launch.backend", "gloo or nccl"),
        ("time_limit_s: 60", "time_limit_s: -1", "launch.time_limit_s", "more than 0"),
        ("copy_limit_s: 600", "copy_limit_s: 6", "launch.copy_limit_s", "at least launch.time_limit_s (60)"),
        ("policy: none", "policy: lax", "late.policy", "none, zero or daily"),
        ("policy: none", "policy: none, grace: 15", "late.grace", "PT1H"),
        ("auto: 3", "auto: 0", "assignments[0].points.auto", "more than 0"),
        ("manual: 2", "manual: -2", "assignments[0].points.manual", "0 or more"),
        ("manual: 2", "manual: yes", "assignments[0].points.manual", "0 or more"),
        ("id: ex2", "id: ex1", "assignments[1].id", "earlier assignment"),
        ("id: ex2", "id: ex 2", "assignments[1].id", "lower-case letters"),
        ("due: -PT1H", "due: -P30D", "assignments[0].due", "not after release"),
        ("[labo.py]", "[labo.py, labo.py]", "assignments[0].files[1]", "already"),
        ("[labo.py]", "[../labo.py]", "assignments[0].files[0]", "bare names"),
        ("[labo.py]", "[ex1.ipynb]", "assignments[0].files[0]", "notebook"),
        ("[labo.py]", "[labo.py, labo.py]", "assignments[0].files[1]", "already"),
        ("    title: Second\n", "", "assignments[1].title", "missing"),
        ("late: {policy: none}\n", "", "late", "missing"),
        ("  room: salle 1\n", "", "session.room", "missing"),
    ],
)
def test_a_wrong_value_is_told_with_its_key_and_what_is_accepted(
    refused: Refused, old: str, new: str, key: str, said: str
) -> None:
    error = refused(old, new)
    assert error.key == key
    assert said in str(error)
    assert error.line is not None
    assert f"course.yaml:{error.line}: {key}" in str(error)
    if error.value is not None:
        assert repr(error.value)[:60] in str(error)


@pytest.mark.parametrize(
    ("old", "new", "near"),
    [("nproc: 2", "nprocs: 2", "nproc"), ("late:", "lates:", "late"), ("teacher:", "techer:", "teacher")],
)
def test_an_unknown_key_is_told_with_the_nearest(refused: Refused, old: str, new: str, near: str) -> None:
    error = refused(old, new)
    assert f"unknown key; did you mean {near}?" in str(error)
    assert {problem.what.split(";")[0] for problem in error.problems} == {"is missing", "is an unknown key"}


def test_all_that_is_wrong_is_told_at_once(refused: Refused) -> None:
    error = refused("nproc: 2, backend: gloo", "nproc: 0, backend: mpi")
    assert [problem.key for problem in error.problems] == ["launch.nproc", "launch.backend"]


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("course: [un\nsession: 3\n", 2, "not YAML"),
        ("course:\n\tid: x\n", 2, "not YAML"),
        ("course: {}\ncourse: {}\n", 2, "stands twice: here and on line 1"),
        ("- course\n", 1, "not a table of keys"),
        ("", 1, "not a table of keys"),
    ],
)
def test_a_file_that_is_not_a_course(tmp_path: Path, text: str, line: int, said: str) -> None:
    (tmp_path / "course.yaml").write_text(text)
    with pytest.raises(CourseError, match=re.escape(said)) as caught:
        load(tmp_path)
    assert caught.value.line == line


def test_a_file_in_another_encoding_or_absent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(CourseError, match="no such file"):
        load(tmp_path)
    (tmp_path / "course.yaml").write_bytes(SMALL.encode("latin-1"))
    with pytest.raises(CourseError, match="not UTF-8"):
        load(tmp_path)
    monkeypatch.setattr("autograder.course.find_root", lambda start=None: None)
    with pytest.raises(CourseError, match="neither here nor in the folders above"):
        load()


def test_a_byte_order_mark_and_windows_line_ends_are_read(tmp_path: Path) -> None:
    (tmp_path / "course.yaml").write_bytes(b"\xef\xbb\xbf" + SMALL.replace("\n", "\r\n").encode())
    assert load(tmp_path).course.id == "petit"


def test_an_unknown_assignment_is_told_with_the_nearest(tmp_path: Path, root: Path) -> None:
    with pytest.raises(CourseError) as caught:
        load(root).assignment("ex2-moyene")
    first, second = str(caught.value).splitlines()
    assert first == "'ex2-moyene' is no assignment of this course; did you mean ex2-moyenne?"
    # The word was mistyped: course.yaml is where the right ones stand, not what is to be mended.
    assert second.strip().startswith("course.yaml lists: ex1-rang, ex2-moyenne")


# ------------------------------------------------------------------------------------ the key, the imports


def test_the_course_key_is_made_once_and_kept_private(tmp_path: Path) -> None:
    key = course_key(tmp_path)
    assert len(key) == 32
    assert course_key(tmp_path) == key
    path = tmp_path / ".autograder" / "course.key"
    if os.name == "posix":
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [one.name for one in path.parent.iterdir()] == ["course.key"]
    assert re.fullmatch("[0-9a-f]{12}", key_fingerprint(key))
    assert key_fingerprint(key) != key_fingerprint(course_key(tmp_path / "autre"))


def test_a_cut_course_key_is_not_replaced(tmp_path: Path) -> None:
    course_key(tmp_path)
    (tmp_path / ".autograder" / "course.key").write_bytes(b"short")
    with pytest.raises(CourseError, match="holds 5 bytes"):
        course_key(tmp_path)


def test_processes_that_start_together_share_one_key(tmp_path: Path) -> None:
    code = "import sys; from autograder.course import course_key; print(course_key(sys.argv[1]).hex())"
    command = [sys.executable, "-c", code, str(tmp_path)]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    assert len({process.communicate(timeout=60)[0] for process in running}) == 1


def test_without_libyaml_it_is_read_the_same(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with_it = yamlfile.read_yaml(root / "course.yaml")

    class Pure(yaml.SafeLoader):
        yaml_implicit_resolvers = yamlfile._Loader.yaml_implicit_resolvers

    monkeypatch.setattr(yamlfile, "_Loader", Pure)
    assert yamlfile.read_yaml(root / "course.yaml") == with_it


def test_loading_imports_neither_torch_nor_nbgrader(root: Path) -> None:
    code = (
        "import sys; from autograder.course import load; load(sys.argv[1]); "
        "assert not {'torch', 'nbgrader', 'nbformat'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code, str(root)], check=True, timeout=60)
