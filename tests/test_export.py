"""Marks go out whole or not at all: CSV, Moodle's worksheet and Gradescope, read back as they do it."""

from __future__ import annotations

import csv
import datetime as dt
import html
import io
import json
import shutil
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import test_groups
import tiny_course

from autograder import cli
from autograder import course as courses
from autograder.batch.book import Book, Entry, read_book
from autograder.batch.grade import grade_class
from autograder.batch.gradescope import results, write_results
from autograder.batch.marks_csv import as_text, marks_csv
from autograder.batch.moodle_sheet import Sheet, SheetError, fill, read_sheet
from autograder.batch.senders import known, remember
from autograder.batch.whose import Sender
from autograder.course_model import Late
from autograder.launch.untrusted import printable
from autograder.notebook.late import penalty

pytestmark = pytest.mark.usefixtures("forked")
DATA = Path(__file__).resolve().parent / "data"
FRENCH, ENGLISH = DATA / "moodle" / "feuille_fr.csv", DATA / "moodle" / "worksheet_en.csv"
SCHEMA = json.loads((DATA / "gradescope" / "results.schema.json").read_text(encoding="utf-8"))
NUMBERS = {"alice": "1204871", "bob": "1204872", "chloe": "1204873", "dora": "1204874"}
ON_TIME, LATE = "2031-02-03 10:05:00 UTC", "2031-02-05 09:20:00 UTC"  # the second in the second day begun


def open_gradebook(course: courses.Course) -> Any:
    from nbgrader.api import Gradebook

    return Gradebook(f"sqlite:///{course.root / 'gradebook.db'}", "petit-cours")


def mark(course: courses.Course, student: str, points: float, comment: str = "") -> None:
    """What a grader does in formgrader."""
    with open_gradebook(course) as gradebook:
        grade = gradebook.find_grade("mini-ecrit", "mini", "mini", student)
        grade.manual_score, grade.needs_manual_grade = points, False
        gradebook.find_comment("mini-ecrit", "mini", "mini", student).manual_comment = comment
        gradebook.db.commit()


def key(patch: pytest.MonkeyPatch) -> None:
    patch.setenv("AUTOGRADER_KEY_FILE", str(DATA / "test.key"))


@pytest.fixture(scope="module")
def course(tmp_path_factory: pytest.TempPathFactory) -> courses.Course:
    """Marked: alice, bob (late), 1204877. Not: chloe (to mark), dora (not graded), zoe (nothing run yet)."""
    root = tmp_path_factory.mktemp("export")
    course = tiny_course.make_course(root, late="daily")
    right = tiny_course.copy_notebook(written="Parce que.")
    half = tiny_course.copy_notebook(answer="moyenne = 3.0\nunite = 0", written="Je crois.")
    for student, copy, at in (
        ("alice", right, ON_TIME), ("bob", right, LATE), ("chloe", right, ON_TIME),
        ("1204877", half, ON_TIME),
    ):  # fmt: skip
        tiny_course.hand_in(root, student, copy, timestamp_txt=at)
    (tiny_course.hand_in(root, "dora") / "mini.ipynb").write_text('{"cells": [')
    with pytest.MonkeyPatch.context() as patch:
        key(patch)
        grade_class(course, jobs=1)
    mark(course, "alice", 4.0)
    mark(course, "bob", 2.0, "Bien vu, mais <court>.")
    mark(course, "1204877", 0.0)
    tiny_course.hand_in(root, "zoe", right)
    remember(root, {(student, "mini"): Sender((), student, number) for student, number in NUMBERS.items()})
    return course


@pytest.fixture(scope="module")
def book(course: courses.Course) -> Book:
    return read_book(course)


def entry(book: Book, student: str) -> Entry:
    return book.entries[student, "mini"]


# ---------------------------------------------------------------------------------------- what counts


def test_a_mark_is_whole_or_there_is_none(book: Book) -> None:
    found = {person.id: (entry(book, person.id).state, entry(book, person.id).mark) for person in book.people}
    assert found == {
        "alice": ("graded", 10.0), "bob": ("graded", 6.4), "1204877": ("graded", 4.0),
        "chloe": ("to-mark", None), "dora": ("not-graded", None), "zoe": ("waiting", None),
    }  # fmt: skip
    assert entry(book, "chloe").raw == 6.0 and entry(book, "chloe").pending == ("mini-ecrit",)
    assert "tronqué" in entry(book, "dora").cause


def test_the_penalty_is_taken_off_after_manual_marks_and_the_gradebook_keeps_the_raw_mark(
    course: courses.Course, book: Book
) -> None:
    bob = entry(book, "bob")
    assert (bob.raw, bob.penalty, bob.mark) == (8.0, 1.6, 6.4)  # two days begun, 10 % each, of 6 + 2 points
    with open_gradebook(course) as gradebook:
        assert gradebook.find_submission("mini", "bob").score == 8.0


@pytest.mark.parametrize(
    ("late_s", "most", "lost"),
    [(600, 100, 0), (1000, 100, 2), (86_400, 100, 2), (86_401, 100, 4), (86_401, 15, 3), (9e7, 100, 20),
     (9e7, 50, 10)],
)  # fmt: skip
def test_a_late_copy_loses_a_part_for_each_day_begun_and_no_more_than_the_most(
    late_s: float, most: float, lost: float
) -> None:
    late = Late.model_validate(
        {"policy": "daily", "per_day_percent": 10, "max_percent": most, "grace": "PT15M"}
    )
    assert penalty(20.0, late_s, late) == lost


def test_no_gradebook_is_made_by_reading_one(tmp_path: Path) -> None:
    course = tiny_course.make_course(tmp_path)
    tiny_course.hand_in(tmp_path, "alice", tiny_course.copy_notebook())
    assert [one.state for one in read_book(course).entries.values()] == ["waiting"]
    assert not (tmp_path / "gradebook.db").exists()


def test_a_group_has_one_mark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    key(monkeypatch)
    course = test_groups.make_course(tmp_path)
    test_groups.hand_in(course, "alice", ["alice", "bob"])
    (tmp_path / "submitted" / "bob").mkdir()
    grade_class(course, jobs=1)
    waiting = read_book(course)
    assert [entry(waiting, student).state for student in ("alice", "bob")] == ["to-mark"] * 2
    assert [entry(waiting, student).of_partner for student in ("alice", "bob")] == [False, True]
    mark(course, "alice", 3.0)
    grade_class(course, jobs=1)
    marked = read_book(course)
    assert [entry(marked, student).mark for student in ("alice", "bob")] == [9.0] * 2
    rows = list(csv.DictReader(io.StringIO(marks_csv(marked).decode())))
    assert {(row["student"], row["mark"], row["group"]) for row in rows} == {
        ("alice", "9", "alice bob"), ("bob", "9", "alice bob")
    }  # fmt: skip
    assert write_results(marked, tmp_path / "gs") == (2, [])


@pytest.mark.parametrize("page", ["README.md", "docs/grader.md"])
def test_nbgrader_s_own_table_has_zeros_and_earlier_penalties_as_the_pages_say(
    course: courses.Course, book: Book, tmp_path: Path, page: str
) -> None:
    from nbgrader.plugins import CsvExportPlugin

    with open_gradebook(course) as gradebook:
        CsvExportPlugin(to=str(tmp_path / "grades.csv")).export(gradebook)
    with (tmp_path / "grades.csv").open(encoding="utf-8", newline="") as file:
        found = {row["student_id"]: row for row in csv.DictReader(file)}
    assert (found["dora"]["score"], entry(book, "dora").mark) == ("0.0", None)
    assert (found["chloe"]["score"], entry(book, "chloe").mark) == ("6.0", None)
    # Of 6 points, before a person gave 2 more.
    assert (found["bob"]["late_submission_penalty"], entry(book, "bob").penalty) == ("1.2", 1.6)
    said = " ".join((tiny_course.ROOT / page).read_text(encoding="utf-8").split())
    assert "has 0 for a copy that was *not graded*" in said and "when `autograder grade` last ran" in said


# ---------------------------------------------------------------------------------------------- CSV


def test_the_csv_is_quoted_and_an_ungraded_copy_has_an_empty_mark(book: Book) -> None:
    data = marks_csv(book)
    assert all(line.startswith('"') and line.endswith('"') for line in data.decode().split("\r\n")[:-1])
    rows = {row["student"]: row for row in csv.DictReader(io.StringIO(data.decode("utf-8")))}
    assert {student: row["mark"] for student, row in rows.items()} == {
        "alice": "10", "bob": "6.4", "1204877": "4", "chloe": "", "dora": "", "zoe": ""
    }  # fmt: skip
    assert (rows["bob"]["raw"], rows["bob"]["penalty"], rows["bob"]["max"]) == ("8", "1.6", "10")
    assert rows["bob"]["handed_in"] == "2031-02-05T10:20:00+01:00"
    assert rows["chloe"]["to_mark"] == "mini-ecrit" and rows["zoe"]["status"] == "waiting"


def test_the_csv_for_excel_has_a_mark_semicolons_and_decimal_commas(book: Book) -> None:
    data = marks_csv(book, excel=True)
    assert data.startswith(b"\xef\xbb\xbf")
    rows = csv.DictReader(io.StringIO(data.decode("utf-8-sig")), delimiter=";")
    assert {row["student"]: row["mark"] for row in rows}["bob"] == "6,4"


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "=cmd|' /C calc'!A0"])
def test_what_a_spreadsheet_would_compute_is_text(text: str) -> None:
    assert as_text(text) == f"'{text}"


def test_what_students_chose_is_read_back(book: Book, course: courses.Course) -> None:
    import dataclasses

    name = 'Dupont, "Jr"\n;=é'
    one = dataclasses.replace(entry(book, "alice"), student=name)
    person = dataclasses.replace(book.people[0], id=name, last_name="=HYPERLINK(1)")
    hostile = dataclasses.replace(book, people=(person,), entries={(name, "mini"): one})
    (row,) = csv.DictReader(io.StringIO(marks_csv(hostile).decode("utf-8"), newline=""))
    assert row["student"] == name and row["last_name"] == "'=HYPERLINK(1)"


def test_the_spaces_of_our_french_are_no_strange_characters(
    book: Book, course: courses.Course, tmp_path: Path
) -> None:
    write_results(book, tmp_path)
    sheet = read_sheet(FRENCH)
    fill(sheet, book, "mini", known(course.root))
    written = [path.read_text(encoding="utf-8") for path in tmp_path.rglob("results.json")]
    written += [data.decode("utf-8-sig") for data in (marks_csv(book), sheet.content())]
    assert all("\u00a0" in one and "\ufffd" not in one for one in written), written
    assert printable("« a », b\u202f; c\u2009d\u3000e") == "« a », b\u202f; c\u2009d\u3000e"
    assert printable("a\x1b\u202e\u2028\ud800\n\tb", also="\n\t") == "a\ufffd\ufffd\ufffd?\n\tb"


def test_what_is_not_known_of_a_copy_that_was_not_graded_is_empty(book: Book) -> None:
    rows = {row["student"]: row for row in csv.DictReader(io.StringIO(marks_csv(book).decode("utf-8")))}
    lost = rows["dora"]
    assert [lost[name] for name in ("mark", "raw", "penalty", "late_minutes", "to_mark")] == [""] * 5
    assert lost["max"] == "10" and "tronqué" in lost["cause"]
    assert (rows["bob"]["raw"], rows["bob"]["late_minutes"]) == ("8", "2660")
    assert (rows["chloe"]["raw"], rows["chloe"]["to_mark"]) == ("6", "mini-ecrit")


def test_the_class_comes_in_one_order(book: Book, course: courses.Course) -> None:
    assert [student for student, _ in book.entries] == [person.id for person in book.people]
    assert list(read_book(course).entries) == list(book.entries)
    assert [person.id for person in book.people] == sorted(person.id for person in book.people)


def test_a_question_without_an_answer_says_so_wherever_marks_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key(monkeypatch)
    course = tiny_course.make_course(tmp_path)
    tiny_course.hand_in(tmp_path, "alice", tiny_course.copy_notebook())
    grade_class(course, jobs=1)
    book = read_book(course)
    one = entry(book, "alice")
    assert (one.mark, one.unanswered) == (6.0, ("mini-ecrit",))
    (told,) = [test for test in results(book, one)["tests"] if test["name"] == "mini-ecrit"]
    assert (told["score"], told["output"]) == (0.0, "Sans réponse.")
    mark(course, "alice", 0.0, "Rien, et c'est dommage.")
    book = read_book(course)
    assert "Sans réponse." not in str(results(book, entry(book, "alice")))


# ------------------------------------------------------------------------------------------- Moodle


def moodle_reads(path: Path) -> dict[str, tuple[float | None, str]]:
    """What Moodle's importer takes from a worksheet: by participant, the grade and the feedback.

    As mod/assign/feedback/offline/importgradeslib.php does: columns by their names, the number at the end of
    the identifier, the grade with the language's separator, an empty one skipped.
    """
    with path.open(encoding="utf-8-sig", newline="") as stream:
        header, *rows = csv.reader(stream)
    french = "Identifiant" in header
    names = ("Identifier", "Grade", "Last modified (grade)", "Feedback comments")
    if french:
        names = ("Identifiant", "Note", "Dernière modification (note)", "Feedback par commentaires")
    ident, grade, _, feedback = (header.index(name) for name in names)
    found = {}
    for row in rows:
        written = row[grade].replace(",", ".") if french else row[grade]
        number = row[ident].removeprefix("Participant").strip()
        found[number] = float(written) if written else None, row[feedback]
    return found


@pytest.fixture
def filled(book: Book, course: courses.Course, tmp_path: Path) -> Path:
    sheet = read_sheet(FRENCH)
    assert fill(sheet, book, "mini", known(course.root)).rows == 3
    path = tmp_path / "out.csv"
    path.write_bytes(sheet.content())
    return path


def test_the_french_worksheet_is_filled_and_keeps_all_else(filled: Path) -> None:
    before, after = read_sheet(FRENCH), read_sheet(filled)
    assert filled.read_bytes().startswith(b"\xef\xbb\xbf") and after.header == before.header
    changed = {before.at["grade"], before.at["feedback"]}
    for one, other in zip(before.rows, after.rows, strict=True):
        assert all(one[n] == other[n] for n in range(len(before.header)) if n not in changed)
        assert len(one) == len(other)
    raw = {row[0]: row[before.at["grade"]] for row in after.rows}
    assert raw["Participant 1204872"] == "6,4"
    assert {ident: grade for ident, (grade, _) in moodle_reads(filled).items()} == {
        "1204871": 10.0, "1204872": 6.4, "1204873": None, "1204874": None, "1204875": None,
        "1204876": 7.5, "1204877": 4.0,
    }  # fmt: skip


def test_the_feedback_is_html_after_what_a_person_wrote(
    filled: Path, book: Book, course: courses.Course
) -> None:
    told = moodle_reads(filled)["1204872"][1]
    assert told.startswith("Vu en séance : bon départ.\n<p><strong>Correction automatique")
    assert "8 − 1,6 = 6,4" in told and html.escape("Bien vu, mais <court>.") in told and "<court>" not in told
    assert str(course.root) not in told
    assert moodle_reads(filled)["1204873"][1] == ""
    assert moodle_reads(filled)["1204876"][1] == "<p>Note du jury.</p>"
    # Filled again, as after another download: our own words are replaced, not repeated.
    again = read_sheet(filled)
    fill(again, book, "mini", known(course.root))
    assert again.content() == filled.read_bytes()


def test_the_english_worksheet_has_decimal_points_and_no_mark_of_its_own(
    book: Book, course: courses.Course, tmp_path: Path
) -> None:
    sheet = read_sheet(ENGLISH)
    done = fill(sheet, book, "mini", known(course.root))
    assert done.rows == 2 and any(note.startswith("1204877: no line of the worksheet") for note in done.notes)
    path = tmp_path / "out.csv"
    path.write_bytes(sheet.content())
    assert not path.read_bytes().startswith(b"\xef\xbb\xbf")
    assert {ident: grade for ident, (grade, _) in moodle_reads(path).items()} == {
        "1204871": 10.0, "1204872": 6.4, "1204873": None, "1204874": None
    }  # fmt: skip


def test_without_what_collect_saw_addresses_and_names_are_matched(book: Book) -> None:
    import dataclasses

    people = [dataclasses.replace(one, email="Chloe@student.example.org") if one.id == "bob" else one
              for one in book.people]  # fmt: skip
    other = dataclasses.replace(book, people=tuple(people))
    sheet = read_sheet(ENGLISH)
    done = fill(sheet, other, "mini", {"earlier": {"alice": ("1", "alice dupont")}})
    assert [row[sheet.at["grade"]] for row in sheet.rows] == [""] * 4  # "earlier" is no assignment here
    assert done.rows == 0 and any("fits bob and chloe" in note for note in done.notes)


def test_a_locked_grade_stays(book: Book) -> None:
    sheet = read_sheet(FRENCH)
    done = fill(sheet, book, "mini", {"mini": {"alice": ("1204876", "x")}})
    assert sheet.rows[5][sheet.at["grade"]] == "7,50" and any("locked" in note for note in done.notes)


def test_another_maximum_is_refused_or_converted(book: Book, course: courses.Course, tmp_path: Path) -> None:
    path = tmp_path / "sheet.csv"
    path.write_bytes(FRENCH.read_bytes().replace(b"10,00", b"20,00"))
    with pytest.raises(SheetError, match="line 2, column 'Note maximale': 20,00, where mini is marked out"):
        fill(read_sheet(path), book, "mini", known(course.root))
    sheet = read_sheet(path)
    fill(sheet, book, "mini", known(course.root), rescale=True)
    assert [row[sheet.at["grade"]] for row in sheet.rows][:2] == ["20", "12,8"]


def spoiled(tmp_path: Path, old: str, new: str, encoding: str = "utf-8-sig") -> Path:
    text = FRENCH.read_text(encoding="utf-8-sig")
    assert old in text
    path = tmp_path / "feuille.csv"
    path.write_bytes(text.replace(old, new).encode(encoding))
    return path


@pytest.mark.parametrize(
    ("old", "new", "encoding", "said"),
    [
        ("Identifiant", "Id", "utf-8", "line 1: no column 'Identifier' or 'Identifiant'"),
        (",Note,", ",Calificación,", "utf-8", "line 1: no column 'Grade' or 'Note'"),
        ("Note maximale", "Barème", "utf-8", "line 1, column 'Barème': this Moodle"),
        ("Participant 1204873", "Chloé", "utf-8", "line 4, column 'Identifiant': 'Chloé' does not end"),
        ("1204873", "1204872", "utf-8", "participant 1204872 stands on line 3 too"),
        (",Oui,-,-,\n", ",Oui,-\n", "utf-8", "line 6: 8 fields where the first line has 10"),
        ("Oui", "Oui", "cp1252:replace", "line 1: not UTF-8"),
        ('Alice DUPONT"', 'Alice "DUPONT', "utf-8", "not CSV"),
    ],
)
def test_a_worksheet_that_cannot_be_used_is_told_where(
    tmp_path: Path, old: str, new: str, encoding: str, said: str
) -> None:
    if encoding == "cp1252:replace":
        path = tmp_path / "feuille.csv"
        path.write_bytes(FRENCH.read_text(encoding="utf-8-sig").encode("cp1252", "replace"))
    else:
        path = spoiled(tmp_path, old, new, encoding)
    with pytest.raises(SheetError) as caught:
        read_sheet(path)
    assert str(path) in str(caught.value) and said in str(caught.value)


@pytest.mark.parametrize("delimiter", [";", "\t"])
def test_a_worksheet_that_excel_has_saved_is_read_too(tmp_path: Path, delimiter: str) -> None:
    rows = list(csv.reader(io.StringIO(FRENCH.read_text(encoding="utf-8-sig"))))
    stream = io.StringIO()
    csv.writer(stream, delimiter=delimiter).writerows(rows)
    path = tmp_path / "sheet.csv"
    path.write_bytes(stream.getvalue().encode("utf-8-sig"))
    sheet: Sheet = read_sheet(path)
    assert [sheet.header, *sheet.rows] == rows and sheet.content() == path.read_bytes()


# ---------------------------------------------------------------------------------------- Gradescope


def test_results_json_is_as_gradescope_documents(book: Book, course: courses.Course, tmp_path: Path) -> None:
    written, refused = write_results(book, tmp_path / "gs")
    assert (written, refused) == (3, [])
    files = list((tmp_path / "gs").rglob("results.json"))
    found = {path.parent.name: json.loads(path.read_text(encoding="utf-8")) for path in files}
    assert sorted(found) == ["1204877", "alice", "bob"]  # none for a copy without a mark: never 0
    for content in found.values():
        jsonschema.validate(content, SCHEMA)
        assert content["visibility"] == "after_published" and str(course.root) not in json.dumps(content)
    bob = found["bob"]
    assert bob["score"] == 6.4 and sum(test["score"] for test in bob["tests"]) == 8.0
    assert bob["extra_data"] == {"raw_score": 8.0, "late_penalty": 1.6, "seconds_late": 159_600.0}
    status = {test["name"]: test["status"] for test in found["1204877"]["tests"]}
    assert status["mini-test-reponse"] == "failed"
    assert "Bien vu" in next(test["output"] for test in bob["tests"] if test["name"] == "mini-ecrit")
    assert tiny_course.SECRET not in json.dumps(found)


def test_the_schema_refuses_what_gradescope_does_not_know(book: Book) -> None:
    content = results(book, entry(book, "alice"))
    for change in ({"score": None}, {"visibility": "later"}, {"points": 3}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(content | change, SCHEMA)


def test_a_mark_that_is_whole_no_more_takes_its_file_away(book: Book, tmp_path: Path) -> None:
    import dataclasses

    write_results(book, tmp_path)
    fewer = {one: dataclasses.replace(held, state="to-mark") for one, held in book.entries.items()}
    write_results(dataclasses.replace(book, entries=fewer), tmp_path)
    assert not list(tmp_path.rglob("results.json"))


# ------------------------------------------------------------------------------------------ commands


def test_the_command_writes_each_form(
    course: courses.Course, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(course.root)
    assert cli.main(["export"]) == 0
    said = capsys.readouterr().out.replace("\xa0", " ")
    assert "marks.csv: 3 marks" in said and "chloe, mini: à noter à la main : mini-ecrit" in said
    assert cli.main(["export", "mini", "--moodle", str(FRENCH)]) == 0
    assert "3 of 7 lines filled" in capsys.readouterr().out
    assert cli.main(["export", "--gradescope", "--out", str(tmp_path / "gs")]) == 0
    assert cli.main(["export", "--excel", "--out", str(tmp_path / "x.csv")]) == 0
    assert {path.name for path in (course.root / "export").iterdir()} == {"marks.csv", "moodle-mini.csv"}
    shutil.rmtree(course.root / "export")


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--moodle", "absent.csv"], "name the one assignment"),
        (["mini", "--moodle", "absent.csv"], "absent.csv"),
        (["--gradescope", "--excel"], "one of them at a time"),
        (["--rescale"], "only together with --moodle"), (["minni"], "mini"), (["--out", "."], "a folder"),
    ],
)  # fmt: skip
def test_a_wrong_command_writes_nothing(
    course: courses.Course, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    more: list[str], said: str,
) -> None:  # fmt: skip
    monkeypatch.chdir(course.root)
    assert cli.main(["export", *more]) == 2
    assert said in capsys.readouterr().err and not (course.root / "export").exists()


def test_the_worksheet_itself_is_never_written_over(
    course: courses.Course, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(course.root)
    path = Path(shutil.copy(FRENCH, tmp_path / "sheet.csv"))
    assert cli.main(["export", "mini", "--moodle", str(path), "--out", str(path)]) == 2
    assert path.read_bytes() == FRENCH.read_bytes()


def test_dates_of_the_book_say_their_zone(book: Book) -> None:
    assert entry(book, "bob").handed_in == dt.datetime(2031, 2, 5, 9, 20, tzinfo=dt.UTC)
