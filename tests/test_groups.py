"""One copy for a group of two: whose it is, what each member gets, and that no mark given by hand is lost."""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
import tiny_course
from rich.console import Console

from autograder import course as courses
from autograder.batch import groups
from autograder.batch.grade import ClassReport, Row, find_copies, grade_class
from autograder.batch.groups import Standing, standings
from autograder.batch.shared_marks import settle
from autograder.notebook.exam import prepare
from autograder.report.table import class_view, left_by_hand, not_graded_lines
from autograder.report.why import why
from autograder.verdict.members import folded, read_members

pytestmark = pytest.mark.usefixtures("forked")
RIGHT = tiny_course.copy_notebook(written="Parce que.")
OTHER = tiny_course.copy_notebook(answer="moyenne = 4.0\nunite = 'ms'", written="Autrement.")
EARLY, LATE = "2031-02-03 10:00:00 UTC", "2031-02-03 14:30:00 UTC"


@pytest.fixture
def course(tmp_path: Path) -> courses.Course:
    return make_course(tmp_path)


def make_course(root: Path, late: str = "none", size: int = 2) -> courses.Course:
    tiny_course.make_course(root, late)
    path = root / "course.yaml"
    yaml = path.read_text(encoding="utf-8")
    files = "files: [labo.py]"
    assert files in yaml
    grouped = yaml.replace(files, f"files: [labo.py, groupe.json], group: {size}")
    path.write_text(grouped, encoding="utf-8")
    return courses.load(root)


def hand_in(
    course: courses.Course, student: str, members: object, notebook: Any = RIGHT, at: str = "", **files: str
) -> Path:
    """`members`: the ids of groupe.json, or its whole text; None: no such file."""
    folder = tiny_course.hand_in(course.root, student, copy.deepcopy(notebook), **files)
    if members is not None:
        content = members if isinstance(members, str) else json.dumps({"membres": members})
        (folder / "groupe.json").write_text(content, encoding="utf-8")
    if at:
        (folder / "timestamp.txt").write_text(at, encoding="utf-8")
    return folder


def standing(course: courses.Course) -> dict[str, Standing]:
    copies = find_copies(course.root, ["mini"])
    found = standings(course, copies, lambda name: prepare(name, course))
    return {student: one for (student, _), one in found.items()}


# ------------------------------------------------------------------------------------------ groupe.json


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (None, "absent"), ("", "json"), ("{", "json"), ("[" * 3000, "json"), ('"' + "x" * 5000 + '"', "size"),
        ("9" * 3900, "form"), ("[]", "form"), ('["a", "b"]', "form"), ('{"membres": "a b"}', "form"),
        ('{"membres": [["a"], ["b"]]}', "form"), ('{"membres": [null, "b"]}', "form"),
        ('{"membres": [true, "b"]}', "form"), ('{"membres": ["", "b"]}', "form"),
        ('{"groupe": ["a", "b"]}', "form"),
        ('{"membres": []}', "few"), ('{"membres": ["a"]}', "few"), ('{"membres": ["a", "b", "c"]}', "many"),
        ('{"membres": ["a", "a"]}', "twice"), ('{"membres": ["Zoé.B", " zoe-b "]}', "twice"),
    ],
)  # fmt: skip
def test_what_is_wrong_in_groupe_json_is_told(content: str | None, problem: str) -> None:
    found = read_members(content.encode() if content is not None else None)
    assert (found.ok, found.problem) == (False, problem)
    assert "groupe.json" in found.message and len(found.message) < 300


@pytest.mark.parametrize(
    "data",
    [
        b'{"membres": ["a.b", "c"]}', b'\xef\xbb\xbf{"Membres": [" a.b ", "c"]}\r\n',
        '{"membres": ["a.b", "c"]}'.encode("utf-16"), b'{"members": ["a.b", "c"], "remarque": "ok"}',
    ],
)  # fmt: skip
def test_what_differs_harmlessly_in_groupe_json(data: bytes) -> None:
    assert read_members(data).ids == ("a.b", "c")


def test_platform_numbers_are_ids() -> None:
    assert read_members(b'{"membres": [1234567, "7654321"]}').ids == ("1234567", "7654321")


def test_one_student_spelt_twice() -> None:
    assert folded(" Élodie  Dupont") == folded("elodie_dupont") == folded("ELODIE-DUPONT")
    assert folded("12.3") != folded("123")


# ------------------------------------------------------------------------------------------ whose copy


def test_one_copy_counts_for_both(course: courses.Course) -> None:
    hand_in(course, "bob", ["alice", "bob"])
    tiny_course.hand_in(course.root, "alice").rmdir()  # known, without a copy
    found = standing(course)
    assert {one.copy for one in found.values()} == {"bob"}
    assert found["alice"].members == found["bob"].members == ("bob", "alice")
    assert found["bob"].flags == () and found["bob"].note is None


@pytest.mark.parametrize(
    "written", ["ALICE.Noël", " alice.noel", "alice noël", "alice_noël", "Alice-Noe\u0308l"]
)
def test_case_accents_and_spaces_of_an_id(course: courses.Course, written: str) -> None:
    hand_in(course, "bob", [written, "Bob"])
    (course.root / "submitted" / "alice.noël").mkdir()
    assert standing(course)["alice.noël"].copy == "bob"


def test_an_id_that_could_be_two_students_is_nobody_s(course: courses.Course) -> None:
    hand_in(course, "bob", ["a-b", "bob"])
    for name in ("a.b", "a_b"):
        (course.root / "submitted" / name).mkdir()
    assert standing(course)["bob"].flags == ("group-unknown",)


@pytest.mark.parametrize(
    ("members", "flag"),
    [
        (None, "group-file"), ("pas du json", "group-file"), (["alice"], "group-file"),
        (["bob"], "group-file"),
        (["alice", "bob", "chloe"], "group-file"), (["bob", "bob"], "group-file"),
        (["bob", "Bob"], "group-file"), (["alice", "chloe"], "group-not-member"),
        (["bob", "david"], "group-unknown"), (["bob", "../.."], "group-unknown"),
        (["bob", "/etc/passwd"], "group-unknown"), (["bob", "."], "group-unknown"),
    ],
)  # fmt: skip
def test_a_wrong_groupe_json_leaves_its_author_graded_alone_and_flagged(
    course: courses.Course, members: object, flag: str
) -> None:
    hand_in(course, "bob", members)
    for name in ("alice", "chloe"):
        (course.root / "submitted" / name).mkdir()
    found = standing(course)
    assert list(found) == ["bob"]  # nobody else gets anything from it
    assert (found["bob"].copy, found["bob"].cause, found["bob"].flags) == ("bob", None, (flag,))
    assert found["bob"].note and "bob, mini" in found["bob"].note


def test_the_nearest_known_id_is_proposed(course: courses.Course) -> None:
    hand_in(course, "bob", ["bob", "alicee"])
    (course.root / "submitted" / "alice").mkdir()
    note = standing(course)["bob"].note
    assert note is not None and "« alicee »" in note.replace("\u00a0", " ") and "alice" in note


def test_a_cell_of_the_notebook_may_write_groupe_json(course: courses.Course) -> None:
    written = copy.deepcopy(RIGHT)
    cell = copy.deepcopy(written.cells[1])
    cell.metadata, cell.id = {}, "le-groupe"
    cell.source = '%%writefile groupe.json\n{"membres": ["alice", "bob"]}'
    written.cells.append(cell)
    hand_in(course, "bob", None, written)
    (course.root / "submitted" / "alice").mkdir()
    assert standing(course)["alice"].copy == "bob"


def rerun(notebook: Any) -> Any:
    """The same work saved by another machine: outputs, counts and metadata differ."""
    other = copy.deepcopy(notebook)
    other.metadata["language_info"] = {"name": "python", "version": "3.13"}
    for cell in other.cells:
        cell.source += "\n"
        if cell.cell_type == "code":
            cell.execution_count = 7
    return other


@pytest.mark.parametrize(("alice", "bob", "owner"), [
    (EARLY, LATE, "alice"), (LATE, EARLY, "bob"), ("", EARLY, "alice"), (LATE, "", "bob"), ("", "", "alice"),
])  # fmt: skip
def test_the_same_work_handed_in_twice_counts_as_the_first(
    course: courses.Course, alice: str, bob: str, owner: str
) -> None:
    hand_in(course, "alice", ["alice", "bob"], at=alice, labo_py="print(42)\n")
    hand_in(course, "bob", ["Bob", "alice"], rerun(RIGHT), at=bob, labo_py="print(42)\r\n")
    found = standing(course)
    assert [one.copy for one in found.values()] == [owner, owner]
    assert all(one.cause is None and one.note is None for one in found.values())


@pytest.mark.parametrize("members", [["alice", "bob"], None, ["bob"], ["bob", "inconnu"]])
def test_two_copies_that_differ_are_not_graded(course: courses.Course, members: object) -> None:
    """Whatever the second one says of its group: that protects its author from a stranger who names them."""
    hand_in(course, "alice", ["alice", "bob"])
    hand_in(course, "bob", members, OTHER)
    found = standing(course)
    for student in ("alice", "bob"):
        cause = found[student].cause
        assert cause is not None and "alice, bob" in cause
        assert "mini-reponse" in cause and "mini-ecrit" in cause and "mini-labo" not in cause


def test_an_untouched_or_empty_copy_is_no_second_one(course: courses.Course) -> None:
    hand_in(course, "alice", ["alice", "bob"], tiny_course_released())
    hand_in(course, "bob", None)
    assert {one.copy for one in standing(course).values()} == {"bob"}
    hand_in(course, "chloe", ["chloe", "david"])
    tiny_course.hand_in(course.root, "david")
    found = standing(course)
    assert found["david"].copy == "chloe" and found["david"].cause is None


def tiny_course_released() -> Any:
    from autograder.notebook.repair import skeleton, untouched

    return untouched(skeleton(tiny_course.source_notebook()))


def test_a_student_of_two_groups_stops_both(course: courses.Course) -> None:
    hand_in(course, "alice", ["alice", "bob"])
    hand_in(course, "chloe", ["chloe", "bob"], OTHER)
    (course.root / "submitted" / "bob").mkdir()
    hand_in(course, "david", ["david", "eve"])
    hand_in(course, "eve", ["david", "eve"])
    found = standing(course)
    for student in ("alice", "bob", "chloe"):
        cause = found[student].cause
        assert cause is not None and "alice + bob (copie rendue par alice)" in cause
        assert "bob + chloe (copie rendue par chloe)" in cause
    assert found["alice"].circle == {"alice", "bob", "chloe"}
    assert found["eve"].cause is None and found["eve"].copy == "david"


def test_a_stranger_cannot_take_a_pair_apart_without_a_person_seeing_it(course: courses.Course) -> None:
    hand_in(course, "victime", ["victime", "amie"])
    (course.root / "submitted" / "amie").mkdir()
    hand_in(course, "mallory", ["mallory", "victime"])  # even with the very same work
    found = standing(course)
    for name in ("victime", "amie", "mallory"):
        assert "mallory" in str(found[name].cause)


def test_a_group_of_three_where_the_course_says_so(tmp_path: Path) -> None:
    course = make_course(tmp_path, size=3)
    hand_in(course, "bob", ["alice", "bob", "chloe"])
    for name in ("alice", "chloe"):
        (course.root / "submitted" / name).mkdir()
    assert standing(course)["chloe"].members == ("bob", "alice", "chloe")


def test_assignments_without_groups_are_left_alone(tmp_path: Path) -> None:
    course = tiny_course.make_course(tmp_path)
    tiny_course.hand_in(tmp_path, "bob", RIGHT, groupe_json='{"membres": ["alice", "bob"]}')
    assert standings(course, [("bob", "mini")], lambda name: pytest.fail(name)) == {}


# ------------------------------------------------------------------------------------------ marks by hand


@pytest.mark.parametrize(("values", "last", "settled"), [
    ([None, None], None, (None, False)), ([2.0, None], None, (2.0, False)), ([None, 2.0], None, (2.0, False)),
    ([2.0, 2.0], None, (2.0, False)), ([2.0, 1.0], 1.0, (2.0, False)), ([2.0, 1.0], 2.0, (1.0, False)),
    ([2.0, 1.0], None, (2.0, True)), ([2.0, 1.0], 3.0, (2.0, True)), ([None, 2.0], 2.0, (2.0, False)),
    ([None, 2.0, 1.0], 3.0, (2.0, True)), ([2.0, 1.0, 1.0], 2.0, (1.0, False)),
])  # fmt: skip
def test_what_was_given_since_the_last_time_counts(values: list[Any], last: Any, settled: Any) -> None:
    assert settle(values, last) == settled


# ------------------------------------------------------------------------------------------ a whole class


def book(course: courses.Course) -> Any:
    from nbgrader.api import Gradebook

    return Gradebook(f"sqlite:///{course.root / 'gradebook.db'}", "petit-cours")


def entry(course: courses.Course, student: str, cell: str = "mini-ecrit") -> tuple[Any, ...]:
    """(automatic mark, mark by hand, to be looked at) of one cell, and the comment on the written one."""
    with book(course) as gradebook:
        grade = gradebook.find_grade(cell, "mini", "mini", student)
        comment = gradebook.find_comment("mini-ecrit", "mini", "mini", student).manual_comment
        return grade.auto_score, grade.manual_score, grade.needs_manual_grade, comment


def mark(course: courses.Course, student: str, score: float, comment: str, cell: str = "mini-ecrit") -> None:
    """What formgrader does when a grader marks a cell."""
    with book(course) as gradebook:
        grade = gradebook.find_grade(cell, "mini", "mini", student)
        grade.manual_score, grade.needs_manual_grade = score, False
        gradebook.find_comment("mini-ecrit", "mini", "mini", student).manual_comment = comment
        gradebook.db.commit()


def feedback(course: courses.Course, student: str) -> str:
    path = course.root / "feedback" / student / "mini" / "mini.html"
    return path.read_text(encoding="utf-8").replace("\u00a0", " ")


def rows(report: ClassReport) -> dict[str, Row]:
    return {row.student: row for row in report.rows}


def shown(report: ClassReport) -> str:
    console = Console(width=200, record=True, file=open(os.devnull, "w"))  # noqa: SIM115
    console.print(class_view(report))
    return console.export_text().replace("\u00a0", " ")


@pytest.fixture
def examined(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The students whose copy was examined, in order."""
    from autograder.batch import work

    names: list[str] = []
    real: Callable[..., Any] = work.examine

    def counted(*arguments: Any, student: str, **more: Any) -> Any:
        names.append(student)
        return real(*arguments, student=student, **more)

    monkeypatch.setattr(work, "examine", counted)
    return names


def test_both_members_get_the_marks_of_one_copy_and_what_a_person_adds(
    tmp_path: Path, examined: list[str]
) -> None:
    course = make_course(tmp_path, late="daily")
    (course.root / "submitted" / "alice").mkdir(parents=True)
    hand_in(course, "bob", ["alice", "bob"], at=LATE)
    report = grade_class(course, students=["alice"])  # one member brings the other
    assert examined == ["bob"]
    assert {name: row.result.score for name, row in rows(report).items()} == {"alice": 6, "bob": 6}
    assert report.complete and report.notes == () and report.missing == ()
    assert entry(course, "alice") == entry(course, "bob") == (None, None, True, None)
    assert entry(course, "alice", "mini-test-reponse")[0] == 4
    assert "Copie de groupe, rendue par bob" in feedback(course, "alice")
    table = shown(report)
    assert "copie rendue par bob" in table and "groupe : bob, alice" in table
    assert "Classe : 1 copies" not in table and "Classe : 1 copie" in table
    assert left_by_hand(report)[0].startswith("Une réponse")  # one is enough for both

    mark(course, "alice", 3, "Bien vu.")  # on the partner's page: either will do
    report = grade_class(course)
    assert examined == ["bob"]  # an unchanged copy is not run again
    assert entry(course, "bob") == entry(course, "alice") == (None, 3, False, "Bien vu.")
    assert "Bien vu." in feedback(course, "bob")
    assert rows(report)["bob"].recorded == _same_but(rows(report)["alice"].recorded, student="bob")
    assert rows(report)["bob"].recorded.penalty == pytest.approx(0.9)  # of 9 points, those by hand included
    assert not any(row.recorded.pending for row in report.rows)

    mark(course, "bob", 2, "À revoir.")  # changed his mind, on the other page
    for _ in range(2):  # and it stays so
        report = grade_class(course)
        assert entry(course, "bob") == entry(course, "alice") == (None, 2, False, "À revoir.")
        assert report.notes == ()

    mark(course, "alice", 1, "Un.")
    mark(course, "bob", 4, "Quatre.")
    report = grade_class(course, students=["alice"])
    assert entry(course, "bob") == entry(course, "alice") == (None, 4, False, "Quatre.")
    assert len(report.notes) == 2 and "4 / 1" in report.notes[0] and "copie rendue par bob" in report.notes[0]
    assert grade_class(course).notes == ()


def _same_but(recorded: Any, **values: Any) -> Any:
    from dataclasses import replace

    return replace(recorded, **values)


def test_a_changed_copy_is_looked_at_again_by_a_person(course: courses.Course) -> None:
    (course.root / "submitted" / "alice").mkdir(parents=True)
    hand_in(course, "bob", ["alice", "bob"])
    grade_class(course)
    mark(course, "bob", 3, "Bien.")
    grade_class(course)
    hand_in(course, "bob", ["alice", "bob"], OTHER)
    report = grade_class(course)
    assert entry(course, "bob") == entry(course, "alice") == (None, 3, True, "Bien.")
    mark(course, "alice", 1, "Moins bien.")
    report = grade_class(course)
    assert entry(course, "bob") == entry(course, "alice") == (None, 1, False, "Moins bien.")
    reasons = list(why(report))
    assert len(reasons) == 1 and "bob" in reasons[0]  # one copy, one reason


def test_a_conflict_is_never_a_zero_and_ends_when_one_copy_is_left(
    course: courses.Course, examined: list[str]
) -> None:
    hand_in(course, "alice", ["alice", "bob"])
    grade_class(course)
    assert entry(course, "alice", "mini-test-reponse")[:3] == (4, None, False)
    folder = hand_in(course, "bob", ["alice", "bob"], OTHER)
    report = grade_class(course)
    assert examined == ["alice"] and not report.complete
    for student in ("alice", "bob"):
        assert entry(course, student, "mini-test-reponse")[:3] == (None, None, True)
        assert entry(course, student)[:3] == (None, None, True)
        assert "alice, bob" in feedback(course, student)
    assert len([line for line in not_graded_lines(report) if "alice, bob" in line]) == 2
    autograded = (course.root / "autograded" / "bob" / "mini" / "mini.ipynb").read_text(encoding="utf-8")
    assert "Autrement." in autograded  # each keeps its own copy to be looked at
    for path in folder.iterdir():
        path.unlink()
    folder.rmdir()
    report = grade_class(course)
    assert report.complete and {row.result.score for row in report.rows} == {6}
    assert entry(course, "bob", "mini-test-reponse")[:3] == (4, None, False)


def test_a_student_whom_the_copy_no_longer_names_keeps_no_mark_of_it(course: courses.Course) -> None:
    for name in ("alice", "chloe"):
        (course.root / "submitted" / name).mkdir(parents=True)
    hand_in(course, "bob", ["alice", "bob"])
    grade_class(course)
    hand_in(course, "bob", ["chloe", "bob"])
    for _ in range(2):  # said until somebody has seen to it
        found = rows(grade_class(course))
        assert found["chloe"].result.score == 6
        assert not found["alice"].result.graded and "bob" in str(found["alice"].result.cause)
    assert entry(course, "alice", "mini-test-reponse")[:3] == (None, None, True)
    hand_in(course, "alice", None, OTHER)
    found = rows(grade_class(course))
    assert found["alice"].result.graded and found["alice"].result.flags == ("group-file",)
    assert "rendue par bob" not in feedback(course, "alice")


def test_flags_and_notes_reach_the_grader_and_go_when_the_file_is_mended(
    course: courses.Course, examined: list[str]
) -> None:
    hand_in(course, "bob", ["bob", "alise"])
    report = grade_class(course)
    assert rows(report)["bob"].result.score == 6 and report.complete
    assert rows(report)["bob"].result.flags == ("group-unknown",)
    assert "alise" in report.notes[0] and "alise" in shown(report)
    with book(course) as gradebook:
        gradebook.add_student("alise")  # known to the gradebook alone
    report = grade_class(course)
    assert examined == ["bob"]
    assert rows(report)["bob"].result.flags == () and rows(report)["alise"].result.score == 6


def test_a_course_that_knows_nobody_yet(tmp_path: Path) -> None:
    assert groups.known_students(make_course(tmp_path)) == set()


def names(found: Iterable[Row]) -> list[str]:
    return [row.student for row in found]


def test_one_student_asked_for_leaves_other_groups_alone(course: courses.Course) -> None:
    hand_in(course, "alice", ["alice", "bob"])
    hand_in(course, "bob", ["alice", "bob"])
    hand_in(course, "chloe", ["chloe", "david"])
    (course.root / "submitted" / "david").mkdir()
    report = grade_class(course, students=["david"])
    assert names(report.rows) == ["chloe", "david"] and report.missing == ()
    report = grade_class(course, students=["bob", "zoe"])
    assert names(report.rows) == ["alice", "bob"] and report.missing == (("zoe", "mini"),)
