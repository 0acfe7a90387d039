"""Whatever stops a grading (kill -9, Ctrl-C, a full disk, a gradebook that is locked or damaged), no mark is
lost or invented, and the next run goes on from there.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import disturbed
import nbformat
import psutil
import pytest
import tiny_course

from autograder import cli, leftovers
from autograder import course as courses
from autograder.batch import trouble
from autograder.batch.grade import grade_class
from autograder.batch.trouble import GradingStopped
from autograder.files import draft_of, write_whole, write_zip
from autograder.launch import box
from autograder.notebook.result import kept

posix = pytest.mark.skipif(os.name != "posix", reason="signals, forks and mounts of a POSIX system")


def make_class(root: Path) -> courses.Course:
    course = tiny_course.make_course(root, late="daily")
    right = tiny_course.copy_notebook(written="Parce que.")
    tiny_course.hand_in(root, "alice", right, timestamp_txt="2031-02-03 14:30:00 UTC")
    wrong = tiny_course.copy_notebook(answer="moyenne = 3.0\nunite = 0", written="Je crois.")
    tiny_course.hand_in(root, "bob", wrong)
    return course


class Plan:
    """Steps for disturbed.py, run in one go."""

    def __init__(self, place: Path, *around: str, **env: str) -> None:
        self.place, self.around, self.steps = place, around, list[dict[str, Any]]()
        self.temp = place / "temp"
        (place / "heard").mkdir()
        self.temp.mkdir()
        self.env = os.environ | {"TMPDIR": str(self.temp), "HEARD": str(place / "heard")} | env

    def add(self, do: str, root: Path, **more: Any) -> None:
        self.steps.append({"do": do, "root": str(root)} | more)

    def run(self) -> list[Any]:
        plan = self.place / "plan.json"
        plan.write_text(json.dumps(self.steps), encoding="utf-8")
        self.steps = []
        command = [*self.around, sys.executable, disturbed.__file__, str(plan)]
        done = subprocess.run(command, env=self.env, capture_output=True, text=True, cwd=self.place)
        assert done.returncode == 0, done.stderr[-4000:]
        return list(json.loads(done.stdout))


def sentence(stderr: str) -> str:
    """The one line that `grade` says, beside the notice that it runs without a sandbox."""
    lines = [line for line in stderr.splitlines() if line.strip() and not line.startswith("No sandbox")]
    assert len(lines) == 1, stderr
    return lines[0]


def temporary_left(place: Path) -> list[str]:
    return sorted(path.name for path in place.iterdir() if not path.name.endswith(".lock"))


def mounts() -> set[str]:
    """What is mounted in this process's view (Linux), by place."""
    told = Path("/proc/self/mountinfo")
    return {line.split()[4] for line in told.read_text().splitlines()} if told.exists() else set()


def drafts(root: Path) -> list[Path]:
    return [path for path in root.rglob(".*.part*") if path.is_file()]


# ------------------------------------------------------------------------------------------ kill, Ctrl-C


@posix
def test_killed_at_any_moment_then_graded_as_if_nothing_had_been(tmp_path: Path) -> None:
    """Six kills while the class is graded for the first time, six while it is recorded again over marks given
    by hand; the moments are drawn, from a seed, over the whole of an undisturbed run.
    """
    draw = random.Random(20310203)
    calm, root = tmp_path / "calme", tmp_path / "course"
    make_class(calm)
    make_class(root)
    mounted = mounts()
    plan = Plan(tmp_path, GRADE="" if box.why_not() is None else "--no-sandbox")
    plan.add("grade", calm)
    for number, share in enumerate([*stratified(draw, 6), *stratified(draw, 6)]):
        if number == 6:
            plan.add("grade", root)
            for course in (calm, root):
                plan.add("marks", course)
                plan.add("by_hand", course)
            plan.add("grade", calm)
        elif number < 6:
            plan.add("touch", root)
        plan.add("kill", root, share=share)
        plan.add("whole", root)
    plan.add("grade", root)
    done = [step["do"] for step in plan.steps]
    given: dict[str, list[Any]] = {do: [] for do in done}
    for do, told in zip(done, plan.run(), strict=True):
        given[do].append(told)
    assert [one["code"] for one in given["grade"]] == [0] * 4, given["grade"]
    assert [one["left"] for one in given["kill"]] == [[]] * 12
    # A run that is faster than the calm one ends before its moment: then it was not disturbed.
    assert sum(one["code"] is None for one in given["kill"]) >= 4
    assert given["whole"] == [""] * 12
    calmly, disturbedly = given["marks"]
    assert calmly == disturbedly
    assert disturbed.marks(root) == disturbed.marks(calm)
    assert disturbed.marks(root)["bob"][2].count("Bien vu.") == 1
    assert mounts() <= mounted
    assert (temporary_left(plan.temp), drafts(root)) == ([], [])
    for student in ("alice", "bob"):
        assert (root / "feedback" / student / "mini" / "mini.html").is_file()


def stratified(draw: random.Random, count: int) -> list[float]:
    """`count` shares of a duration, one in each equal part of it, in any order."""
    shares = [(number + draw.random()) / count for number in range(count)]
    draw.shuffle(shares)
    return shares


@posix
def test_interrupted_while_a_copy_runs_it_stops_at_once_and_goes_on_later(tmp_path: Path) -> None:
    root = tmp_path / "course"
    make_class(root)
    endless = tiny_course.copy_notebook(answer="import time\nwhile True: time.sleep(1)")
    tiny_course.hand_in(root, "zoe", endless)
    plan = Plan(tmp_path)
    plan.add("kill", root, signal=2, after_s=9.0)
    stopped = plan.run()[0]
    assert stopped["code"] == 130 and "goes on from there" in stopped["stderr"]
    assert stopped["left"] == [] and temporary_left(plan.temp) == []
    assert stopped["s"] < 30  # the endless cell has 60 s
    assert kept(root / ".autograder" / "results" / "mini" / "zoe.json") is None
    tiny_course.hand_in(root, "zoe", tiny_course.copy_notebook())
    plan.add("grade", root)
    plan.add("kill", root, signal=2, after_s=0.5)  # while it records
    done, stopped = plan.run()
    assert done["code"] == 0 and stopped["code"] in (130, 0)
    marks = disturbed.marks(root)
    assert {student: marks[student][0][0] for student in marks} == {"alice": 6, "bob": 4, "zoe": 6}


@posix
@pytest.mark.launch
@pytest.mark.parametrize("options", ["--sandbox=auto", "--no-sandbox"])
def test_killed_while_ranks_run_no_rank_is_left(tmp_path: Path, options: str) -> None:
    root = tmp_path / "course"
    tiny_course.make_course(root)
    path = root / "source" / "mini" / "mini.ipynb"
    book = nbformat.read(path, as_version=4)
    test = next(cell for cell in book.cells if cell.id == "mini-test-labo")
    launches = "from autograder import launch, marks\nrun = launch('labo.py')\nm = marks(2, run)\n"
    test.source = launches + "m.text('42', points=2)\nm.total()"
    nbformat.write(book, path)
    endless = "import time\nprint(42, flush=True)\ntime.sleep(300)"
    tiny_course.hand_in(root, "alice", tiny_course.copy_notebook(labo=endless))
    plan = Plan(tmp_path, GRADE=options)
    plan.add("kill", root, once="labo.py")
    (killed,) = plan.run()
    assert killed["code"] is None and killed["left"] == [], killed
    tiny_course.hand_in(root, "alice", tiny_course.copy_notebook())
    plan.add("grade", root)
    assert plan.run()[0]["code"] == 0
    assert disturbed.marks(root)["alice"][0][0] == 6
    assert (temporary_left(plan.temp), drafts(root)) == ([], [])


def test_interrupted_inside_nbgrader_the_other_copies_are_not_gone_through(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """nbgrader takes a Ctrl-C for one more copy that failed."""
    from autograder.notebook.plugins import SaveGrades

    course = make_class(tmp_path)
    seen: list[str] = []

    def interrupted(self: Any, nb: Any, resources: dict[str, Any]) -> Any:
        seen.append(resources["nbgrader"]["student"])
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(SaveGrades, "preprocess", interrupted)
        with pytest.raises(KeyboardInterrupt):
            grade_class(course)
    assert seen == ["alice"]
    assert all(row.recorded.problem is None for row in grade_class(course).rows)


@posix
def test_what_a_killed_grading_left_is_removed_or_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    gone = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    here = leftovers.owner().split(".")[-1]
    mark = f"{gone.pid}.{int(psutil.Process(gone.pid).create_time())}.{here}"
    alive, dead, foreign = tmp_path / f"autograder-{mark}-a", tmp_path / "dead", tmp_path / "autograder-x"
    for folder in (alive, dead, foreign):
        folder.mkdir()
    environment = os.environ | {leftovers.TOKEN: f"{mark}.00"}
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], env=environment)
    try:
        assert leftovers.sweep() == [] and alive.exists() and child.poll() is None
        gone.communicate(b"\n")
        (alive / "sub").mkdir()
        (alive / "sub" / "file").write_text("x")
        (alive / "sub").chmod(0)
        assert leftovers.sweep() == []
        assert not alive.exists() and dead.exists() and foreign.exists()
        assert child.wait(20) == -9
    finally:
        child.kill()
        child.wait()
    (tmp_path / f"autograder-{mark}-b").mkdir()
    monkeypatch.setattr(
        shutil, "rmtree", lambda path, onerror: onerror(None, str(path), (None, "busy", None))
    )
    (told,) = leftovers.sweep()
    assert f"autograder-{mark}-b" in told and "busy" in told


def test_two_gradings_of_one_course_do_not_run_together(tmp_path: Path) -> None:
    course = make_class(tmp_path)
    with (
        trouble.alone(tmp_path),
        pytest.raises(GradingStopped, match=r"Another `autograder grade` is at work"),
    ):
        grade_class(course)


def test_a_file_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "new" / "result.json"
    write_whole(path, b"1")
    with pytest.raises(RuntimeError), draft_of(path) as draft:
        draft.write_bytes(b"half of it")
        raise RuntimeError
    assert path.read_bytes() == b"1" and [one.name for one in path.parent.iterdir()] == ["result.json"]


def test_what_cannot_be_written_is_named_as_it_was_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "marks.csv"
    folder.mkdir()  # a folder where the file should go
    for write in (lambda: write_whole(folder, b"a"), lambda: write_zip(folder, {"a": b""})):
        with pytest.raises(OSError) as caught:
            write()
        assert caught.value.filename == str(folder) and ".part" not in str(caught.value)
    assert [path.name for path in tmp_path.iterdir()] == ["marks.csv"]

    def refuse(prefix: str, suffix: str, dir: Path) -> tuple[int, str]:
        raise PermissionError(13, "Permission denied", f"{dir}/{prefix}abc{suffix}")

    monkeypatch.setattr(tempfile, "mkstemp", refuse)
    monkeypatch.delenv("AUTOGRADER_KEY_FILE", raising=False)
    for asked, write in (
        (tmp_path / "a.csv", lambda: write_whole(tmp_path / "a.csv", b"")),
        (tmp_path / ".autograder" / "course.key", lambda: courses.course_key(tmp_path)),
    ):
        with pytest.raises(PermissionError) as refused:
            write()
        assert refused.value.filename == str(asked)


def test_every_file_that_grading_keeps_is_written_whole() -> None:
    """Nothing in batch/ and notebook/ writes in place what a later run reads back."""
    package = Path(cli.__file__).parent
    in_place = {
        path.relative_to(package).as_posix()
        for place in ("batch", "notebook")
        for path in (package / place).glob("*.py")
        if any(
            word in path.read_text(encoding="utf-8")
            for word in (".write_text(", ".write_bytes(", "nbformat.write(")
        )
    }
    # Folders that are made anew and read in the same run; collect.py and release.py rename a whole folder.
    anew = {"batch/record.py", "notebook/generate.py", "notebook/student.py", "notebook/testcells.py"}
    anew |= {"batch/collect.py", "notebook/proofs.py", "notebook/student_shell.py", "notebook/tidy.py"}
    assert in_place - anew == set()


# ------------------------------------------------------------------------------------------ the disk


def can_mount() -> str:
    """Why no disk of a few MiB can be made here, "" where it can."""
    if os.name != "posix" or shutil.which("unshare") is None or shutil.which("mount") is None:
        return "needs unshare and mount"
    made = ["unshare", "--mount", "mount", "-t", "tmpfs", "none", tempfile.gettempdir()]
    done = subprocess.run(made, capture_output=True, text=True)
    return "" if done.returncode == 0 else f"no right to mount a small disk here: {done.stderr.strip()}"


needs_mount = pytest.mark.skipif(bool(can_mount()), reason=can_mount() or "-")


@needs_mount
def test_a_full_disk_is_said_in_one_sentence_and_loses_nothing(tmp_path: Path) -> None:
    made, root = tmp_path / "made", tmp_path / "disk"
    make_class(made)
    plan = Plan(tmp_path, "unshare", "--mount")
    plan.add("mount", root, mib=6)
    plan.add("copy", root, **{"from": str(made)})
    for leave in (0, 60):  # no room for a result; room for results, not for a gradebook
        plan.add("fill", root, leave_kib=leave)
        plan.add("grade", root)
        plan.add("free", root)
    plan.add("grade", root)
    plan.add("marks", root)
    plan.add("touch", root)
    plan.add("fill", root, leave_kib=0)
    plan.add("grade", root)
    plan.add("free", root)
    plan.add("grade", root)
    plan.add("marks", root)
    given = plan.run()
    full = [one for one in given if one and one.get("code") == 3]
    assert len(full) == 3, given
    for one in full:
        assert str(root) in sentence(one["stderr"]) and "full" in sentence(one["stderr"])
    assert [one["code"] for one in given if one and "code" in one].count(0) == 2
    before, after = given[9], given[-1]
    assert before == after and {who: before[who][0][0] for who in before} == {"alice": 6, "bob": 4}


@needs_mount
def test_a_full_temporary_folder_is_no_zero(tmp_path: Path) -> None:
    root, small = tmp_path / "course", tmp_path / "small"
    make_class(root)
    plan = Plan(tmp_path, "unshare", "--mount")
    plan.add("mount", small, mib=24)
    plan.add("temp", root, path=str(small))
    for leave in (0, 200):
        plan.add("fill", small, leave_kib=leave)
        plan.add("grade", root)
    plan.add("free", small)
    plan.add("grade", root)
    plan.add("marks", root)
    given = plan.run()
    first, second, last = (one for one in given if one and "code" in one)
    for one in (first, second):
        assert one["code"] == 3 and str(small) in sentence(one["stderr"]), one["stderr"]
    assert last["code"] == 0
    assert {who: held[0][0] for who, held in given[-1].items()} == {"alice": 6, "bob": 4}


def test_a_write_that_finds_no_room_stops_with_the_file_s_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As above, on systems where no small disk can be made."""
    make_class(tmp_path)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device", str(tmp_path / "somewhere"))

    with monkeypatch.context() as patch:
        patch.setattr("autograder.batch.grade.keep", full)
        patch.chdir(tmp_path)
        assert cli.main(["grade", "--no-sandbox"]) == 3
    assert "is full" in sentence(capsys.readouterr().err)


# ------------------------------------------------------------------------------------------ the gradebook


@pytest.fixture(scope="module")
def graded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A class that was graded, with a mark given by hand."""
    root = tmp_path_factory.mktemp("classe")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AUTOGRADER_KEY_FILE", str(tiny_course.ROOT / "tests" / "data" / "test.key"))
        grade_class(make_class(root))
        disturbed.by_hand(root)
        grade_class(courses.load(root))
    return root


@pytest.fixture
def again(graded: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    return Path(shutil.copytree(graded, tmp_path / "classe"))


@contextlib.contextmanager
def locked(path: Path, seconds: float) -> Iterator[None]:
    """Another process that holds the gradebook's write lock for so long."""
    code = (
        "import sqlite3, sys, time\n"
        "book = sqlite3.connect(sys.argv[1], isolation_level=None)\n"
        "book.execute('BEGIN IMMEDIATE')\nprint('locked', flush=True)\n"
        "time.sleep(float(sys.argv[2]))\nbook.execute('ROLLBACK')\n"
    )
    command = [sys.executable, "-c", code, str(path), str(seconds)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None and holder.stdout.readline() == "locked\n"
        try:
            yield
        finally:
            holder.kill()


def test_a_gradebook_locked_for_a_while_is_waited_for(again: Path) -> None:
    before = disturbed.marks(again)
    with locked(again / "gradebook.db", 8):  # sqlite's own patience is 5 s
        report = grade_class(courses.load(again))
    assert report.complete and disturbed.marks(again) == before


def test_a_gradebook_locked_for_ever_is_named_and_nothing_is_lost(
    again: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    before = disturbed.marks(again)
    tiny_course.hand_in(again, "zoe", tiny_course.copy_notebook())
    monkeypatch.setattr(trouble, "LOCK_WAIT_S", 0.5)
    monkeypatch.chdir(again)
    with locked(again / "gradebook.db", 600):
        assert cli.main(["grade", "--no-sandbox"]) == 3
    told = sentence(capsys.readouterr().err)
    assert str(again / "gradebook.db") in told and "in use" in told
    assert kept(again / ".autograder" / "results" / "mini" / "zoe.json") is not None
    assert cli.main(["grade", "--no-sandbox"]) == 0
    after = disturbed.marks(again)
    assert after.pop("zoe")[0] == [6, 0] and after == before


def damage(path: Path, how: str) -> None:
    content = path.read_bytes()
    if how == "garbage":
        path.write_bytes(random.Random(7).randbytes(len(content)))
    elif how == "garbage inside":
        path.write_bytes(content[:4096] + random.Random(7).randbytes(8192) + content[12288:])
    elif how == "truncated":
        path.write_bytes(content[: len(content) // 2 + 100])
    elif how == "empty":
        path.write_bytes(b"")
    elif how == "another database":
        path.unlink()
        with contextlib.closing(sqlite3.connect(path)) as book:
            book.execute("CREATE TABLE notes (x)")
            book.commit()


@pytest.mark.parametrize("how", ["garbage", "garbage inside", "truncated", "empty", "another database"])
def test_a_damaged_gradebook_is_named_kept_and_never_replaced(
    again: Path, how: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    book = again / "gradebook.db"
    backup, before = book.read_bytes(), disturbed.marks(again)
    damage(book, how)
    harmed = book.read_bytes()
    monkeypatch.chdir(again)
    assert cli.main(["grade", "--no-sandbox"]) == 3
    told = sentence(capsys.readouterr().err)
    assert str(book) in told and "damaged" in told and "backup" in told
    assert book.read_bytes() == harmed
    book.write_bytes(backup)
    if how == "garbage":
        assert grade_class(courses.load(again)).complete
        assert disturbed.marks(again) == before


def test_without_a_backup_the_automatic_marks_come_back(again: Path) -> None:
    (again / "gradebook.db").unlink()
    report = grade_class(courses.load(again))
    assert {row.student: row.recorded.score for row in report.rows} == {"alice": 5.4, "bob": 4}
    # Results were kept: nothing was run again.
    assert all(row.result.duration_s == kept_duration(again, row.student) for row in report.rows)


def kept_duration(root: Path, student: str) -> float:
    result = kept(root / ".autograder" / "results" / "mini" / f"{student}.json")
    assert result is not None
    return result.duration_s
