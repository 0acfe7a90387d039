"""The gradebook on a real PostgreSQL server: the same marks as in a file, its troubles told in a sentence.

Skipped where no server can be started; `.ci/run` installs Debian's.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import postgres_server
import pytest
import tiny_course
from postgres_server import Server

from autograder import cli
from autograder import course as courses
from autograder.batch import trouble
from autograder.batch.grade import grade_class
from autograder.batch.trouble import GradingStopped
from autograder.notebook.nbconfig import gradebook_url
from autograder.notebook.result import kept, result_path

pytestmark = pytest.mark.usefixtures("forked")
WHY_NOT = postgres_server.why_not()
needs_server = pytest.mark.skipif(WHY_NOT is not None, reason=WHY_NOT or "-")
NUMBERS = itertools.count()


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    pytest.importorskip("psycopg", reason="psycopg is not installed: pip install 'autograder[postgres]'")
    with Server() as started:
        yield started
    assert started.process is not None and started.process.poll() is not None
    assert not started.folder.exists()


@pytest.fixture
def make(server: Server) -> Callable[[Path], courses.Course]:
    """A class of two, whose gradebook is a new database."""

    def make(root: Path) -> courses.Course:
        return on_server(make_class(root), server.url(f"cours{next(NUMBERS)}"))

    return make


def make_class(root: Path) -> courses.Course:
    course = tiny_course.make_course(root, late="daily")
    late = "2031-02-03 14:30:00 UTC"
    right = tiny_course.copy_notebook(written="Parce que.")
    tiny_course.hand_in(root, "Ève d'Été", right, timestamp_txt=late)
    wrong = tiny_course.copy_notebook(answer="moyenne = 3.0\nunite = 0", written="Je crois.")
    tiny_course.hand_in(root, "bob", wrong)
    return course


def on_server(course: courses.Course, url: str) -> courses.Course:
    path = course.root / "course.yaml"
    path.write_text(f"{path.read_text(encoding='utf-8')}gradebook: {{db_url: '{url}'}}\n", encoding="utf-8")
    return courses.load(course.root)


def all_marks(course: courses.Course) -> Any:
    from nbgrader.api import Gradebook

    with Gradebook(gradebook_url(course), course.course.id) as gradebook:
        return {
            one.student.id: [
                one.score, one.late_submission_penalty,
                sorted(
                    (grade.name, grade.auto_score, grade.manual_score, grade.needs_manual_grade)
                    for notebook in one.notebooks for grade in notebook.grades
                ),
                sorted(comment.comment or "" for notebook in one.notebooks for comment in notebook.comments),
            ]
            for one in gradebook.assignment_submissions("mini")
        }  # fmt: skip


def by_hand(course: courses.Course) -> None:
    from nbgrader.api import Gradebook

    with Gradebook(gradebook_url(course), course.course.id) as gradebook:
        grade = gradebook.find_grade("mini-ecrit", "mini", "mini", "bob")
        grade.manual_score, grade.needs_manual_grade = 3, False
        gradebook.find_comment("mini-ecrit", "mini", "mini", "bob").manual_comment = "Bien vu, Ève."
        gradebook.db.commit()


@needs_server
def test_the_same_marks_as_in_a_file(make: Callable[[Path], courses.Course], tmp_path: Path) -> None:
    there, here = make(tmp_path / "serveur"), make_class(tmp_path / "fichier")
    for course in (there, here):
        assert grade_class(course).complete
        by_hand(course)
    reports = [grade_class(course) for course in (there, here)]
    assert [row.recorded for row in reports[0].rows] == [row.recorded for row in reports[1].rows]
    assert all_marks(there) == all_marks(here)
    assert all_marks(there)["bob"][0] == 7 and "Bien vu, Ève." in all_marks(there)["bob"][3]
    assert not (there.root / "gradebook.db").exists()
    page = there.root / "feedback" / "bob" / "mini" / "mini.html"
    assert "Bien vu, Ève." in page.read_text(encoding="utf-8")


@needs_server
def test_nbgrader_s_own_commands_find_it(make: Callable[[Path], courses.Course], tmp_path: Path) -> None:
    import subprocess
    import sys

    course = make(tmp_path)
    grade_class(course)
    for command in (["db", "upgrade"], ["export"]):
        done = subprocess.run(
            [sys.executable, "-m", "nbgrader", *command], cwd=tmp_path, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
    assert "Ève d'Été" in (tmp_path / "grades.csv").read_text(encoding="utf-8")


@needs_server
def test_what_a_server_takes_less_kindly_than_a_file(
    make: Callable[[Path], courses.Course], tmp_path: Path
) -> None:
    """Characters that PostgreSQL refuses in a text, half characters, a name longer than its column."""
    course = make(tmp_path)
    odd = tiny_course.copy_notebook(answer="moyenne = 3.0\nunite = 'ms'", written="zéro \x00 et \ud83d, 🙂")
    wild = copy.deepcopy(odd)
    wild.cells.append(tiny_course.new_markdown_cell("nul \x00", id="nul"))
    tiny_course.hand_in(tmp_path, "nul", wild, labo_py="print(42)  # \x00\n")
    tiny_course.hand_in(tmp_path, "x" * 150, tiny_course.copy_notebook())
    report = grade_class(course)
    problems = {row.student: row.recorded.problem for row in report.rows}
    assert {student: problem for student, problem in problems.items() if problem} == {
        "x" * 150: problems["x" * 150]
    }
    assert "value too long" in str(problems["x" * 150])
    assert {row.student: row.recorded.score for row in report.rows if not row.recorded.problem} == {
        "Ève d'Été": pytest.approx(5.4), "bob": 4, "nul": 6
    }  # fmt: skip


def sentence(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("No sandbox")]
    assert len(lines) == 1, text
    return lines[0]


@needs_server
def test_a_server_that_goes_away_loses_nothing(
    server: Server, make: Callable[[Path], courses.Course], tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    from autograder.batch.record import Recorder

    course = make(tmp_path)
    real = Recorder.add

    def add(self: Recorder, student: str, assignment: str) -> str | None:
        server.stop()
        return real(self, student, assignment)

    monkeypatch.chdir(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(Recorder, "add", add)
        assert cli.main(["grade", "--no-sandbox"]) == 3
    told = sentence(capsys.readouterr().err)
    assert "cannot be reached" in told and gradebook_url(course) in told and "Nothing is lost" in told
    assert all(kept(result_path(tmp_path, "mini", student)) for student in ("bob", "Ève d'Été"))
    assert cli.main(["grade", "--no-sandbox"]) == 3  # not there at the start either
    assert "cannot be reached" in sentence(capsys.readouterr().err)
    assert server.start()
    assert grade_class(course).complete


@needs_server
def test_a_part_that_is_locked_is_waited_for_then_named(
    server: Server, make: Callable[[Path], courses.Course], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import psycopg

    course = make(tmp_path)
    grade_class(course)
    monkeypatch.setattr(trouble, "LOCK_WAIT_S", 0.5)
    with psycopg.connect(gradebook_url(course).replace("+psycopg", "")) as other:
        other.execute("LOCK TABLE grade IN ACCESS EXCLUSIVE MODE")
        with pytest.raises(GradingStopped, match=r"in use.*0\.5 s.*Nothing is lost"):
            grade_class(course)
    assert grade_class(course).complete


@needs_server
def test_the_database_of_something_else_is_left_alone(
    server: Server, make: Callable[[Path], courses.Course], tmp_path: Path
) -> None:
    course = make(tmp_path)
    server.query("CREATE TABLE notes (x int)", database=gradebook_url(course).rpartition("/")[2])
    with pytest.raises(GradingStopped, match="holds other tables"):
        grade_class(course)


def test_without_its_driver_it_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    course = on_server(make_class(tmp_path), "postgresql+psycopg://localhost/cours")
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(GradingStopped, match=r"autograder\[postgres\]"):
        grade_class(course)


@pytest.mark.parametrize("url", [
    "postgresql+psycopg://grader:secret@host/cours", "postgresql+psycopg://host/cours?password=secret",
    "sqlite:///x.db", "mysql://host/cours", "postgresql+psycopg://host",
])  # fmt: skip
def test_course_yaml_takes_no_password_and_no_other_database(tmp_path: Path, url: str) -> None:
    with pytest.raises(courses.CourseError, match=r"~/\.pgpass"):
        on_server(make_class(tmp_path), url)


def test_urls_that_are_taken(tmp_path: Path) -> None:
    course = make_class(tmp_path)
    assert gradebook_url(course) == f"sqlite:///{tmp_path / 'gradebook.db'}"
    before = (tmp_path / "course.yaml").read_text(encoding="utf-8")
    for rest in ("u@host:5433/cours", "/cours?host=/run/postgresql", "host/cours?sslmode=require"):
        (tmp_path / "course.yaml").write_text(before, encoding="utf-8")
        url = f"postgresql+psycopg://{rest}"
        assert gradebook_url(on_server(course, url)) == url
