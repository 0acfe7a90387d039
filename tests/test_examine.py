"""One copy, from its folder to its result, without a database."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import nbformat
import pytest
import tiny_course

from autograder import course as courses
from autograder.notebook.cells import CopyError
from autograder.notebook.check import check
from autograder.notebook.exam import prepare, still_good
from autograder.notebook.examine import examine, examine_script
from autograder.notebook.late import penalty
from autograder.notebook.result import CopyResult, copy_sha256, keep, kept

HOLE = 'raise NotImplementedError("à compléter")'


@pytest.fixture
def course(tmp_path: Path) -> courses.Course:
    return tiny_course.make_course(tmp_path)


def grade(course: courses.Course, notebook: Any = None, **files: str | bytes) -> CopyResult:
    folder = tiny_course.hand_in(course.root, "alice", notebook, **files)
    return examine(folder, "mini", course, student="alice")


def statuses(result: CopyResult) -> list[str]:
    return [test.status for test in result.tests]


def test_a_right_copy(course: courses.Course) -> None:
    result = grade(course, tiny_course.copy_notebook())
    assert (result.score, result.max_score, result.graded, result.passed) == (6, 6, True, True)
    assert result.student == "alice" and result.sandbox is False and len(result.key_fingerprint) == 12
    assert set(result.versions) == {"autograder", "python", "torch", "tests"}
    assert "pas exécutée" in result.cells["lancer"][0]["text"]
    assert CopyResult.from_json(result.to_json()) == result


def test_the_untouched_release_is_zero_with_clear_messages(course: courses.Course) -> None:
    from autograder.notebook.repair import skeleton, untouched

    result = grade(course, untouched(skeleton(tiny_course.source_notebook())))
    assert (result.score, result.graded, statuses(result)) == (0, True, ["failed", "failed"])
    assert "`moyenne`" in result.tests[0].message


def test_a_hidden_test_never_shows_what_it_expects(course: courses.Course) -> None:
    result = grade(course, tiny_course.copy_notebook(answer="moyenne = 3.0\nunite = 's'"))
    assert (result.tests[0].status, result.tests[0].points) == ("partial", 2)
    assert tiny_course.SECRET not in result.to_json() and '"ms"' not in result.to_json()


def test_the_same_copy_gets_the_same_mark(course: courses.Course) -> None:
    notebook = tiny_course.copy_notebook(answer="moyenne = 3.0\nunite = 1")
    first, second = grade(course, notebook), grade(course, notebook)
    assert first.tests == second.tests and first.copy_sha256 == second.copy_sha256


def test_the_file_counts_when_the_cell_still_has_its_hole(course: courses.Course) -> None:
    result = grade(course, tiny_course.copy_notebook(labo=HOLE), labo_py="print(42)\n")
    assert statuses(result) == ["passed", "passed"]
    assert result.flags == ()
    assert "labo.py" in result.remarks[0]


def test_the_cell_counts_when_both_changed_and_the_copy_is_flagged(course: courses.Course) -> None:
    result = grade(course, tiny_course.copy_notebook(labo="print(1)"), labo_py="print(42)\n")
    assert statuses(result) == ["passed", "failed"]
    assert result.flags == ("file-differs",)


def test_the_cell_s_own_file_is_no_difference(course: courses.Course) -> None:
    result = grade(course, tiny_course.copy_notebook(), labo_py="import sys\r\nprint(42)\r\n")
    assert (result.flags, result.remarks, result.score) == ((), (), 6)


def test_a_file_with_the_hole_does_not_replace_the_cell(course: courses.Course) -> None:
    assert grade(course, tiny_course.copy_notebook(), labo_py=f"import sys\n{HOLE}\n").score == 6


def test_labo_alone_is_graded_and_its_missing_answers_are_no_zero(course: courses.Course) -> None:
    result = grade(course, labo_py="print(42)")
    assert (result.score, result.max_score, statuses(result)) == (2, 6, ["not_graded", "passed"])
    assert (result.notebook, result.graded) == (False, False)
    assert "`mini.ipynb` manque" in str(result.cause)


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("mini.ipynb", '{"cells": [{"cell_type": "code", "sour', "tronqué"),
        ("mini (1).ipynb", "{}", "mini (1).ipynb"),
        ("Mini.ipynb", "{}", "Mini.ipynb"),
        ("notes.txt", "", "Ni `mini.ipynb` ni `labo.py`"),
    ],
)
def test_what_cannot_be_graded_is_never_zero(
    course: courses.Course, name: str, content: str, words: str
) -> None:
    folder = tiny_course.hand_in(course.root, "alice")
    (folder / name).write_text(content)
    result = examine(folder, "mini", course)
    assert result.graded is False and words in (result.cause or "")
    assert statuses(result) == ["not_graded", "not_graded"]
    assert result.cells["mini-test-labo"][0]["ename"] == "NotGraded"


def test_an_endless_cell_leaves_the_rest_graded(
    course: courses.Course, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("autograder.notebook.examine.STUDENT_LIMIT_S", 10.0)
    result = grade(course, tiny_course.copy_notebook(answer="while True: pass"))
    assert statuses(result) == ["not_graded", "passed"]
    assert result.graded is False and "10 s" in (result.cause or "")


def test_a_test_that_is_wrong_costs_nothing(course: courses.Course) -> None:
    path = course.root / "source" / "mini" / "mini.ipynb"
    path.write_text(path.read_text().replace("points=2)\\n', 'm.total()", "").replace("m.check(", "m.chek("))
    result = grade(course, tiny_course.copy_notebook())
    assert statuses(result) == ["passed", "not_graded"]
    assert result.details and "chek" in result.details[0]
    assert "chek" not in str([result.cells, result.tests])


def test_data_files_are_there_for_student_and_tests(course: courses.Course) -> None:
    answer = "moyenne = 3.0\nunite = 'ms' if open('table.csv').read() else ''"
    assert grade(course, tiny_course.copy_notebook(answer=answer)).score == 6


def test_a_student_s_file_does_not_replace_a_data_file(course: courses.Course) -> None:
    answer = "moyenne = 3.0\nunite = 'ms' if open('table.csv').read() == 'a,b\\n1,2\\n' else ''"
    folder = tiny_course.hand_in(course.root, "alice", tiny_course.copy_notebook(answer=answer))
    (folder / "table.csv").write_text("faux")
    assert examine(folder, "mini", course).score == 6


def test_a_kept_result_is_good_for_this_very_copy_only(course: courses.Course, tmp_path: Path) -> None:
    result = grade(course, tiny_course.copy_notebook())
    folder, exam = course.root / "submitted" / "alice" / "mini", prepare("mini", course)
    keep(result, tmp_path / "kept" / "alice.json")
    again = kept(tmp_path / "kept" / "alice.json")
    assert again == result and still_good(again, exam, folder)
    (folder / "timestamp.txt").write_text("2031-02-03 12:00:00 UTC")
    assert still_good(again, exam, folder)
    (folder / "labo.py").write_text("autre")
    assert not still_good(again, exam, folder)
    assert kept(tmp_path / "absent.json") is None


def test_the_digest_of_a_copy_follows_names_and_bytes(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("1")
    first = copy_sha256(tmp_path)
    (tmp_path / "a").rename(tmp_path / "b")
    assert copy_sha256(tmp_path) != first


def test_a_folder_with_a_hostile_name(course: courses.Course) -> None:
    folder = tiny_course.hand_in(course.root, "élève n°1 (copie)", tiny_course.copy_notebook())
    assert examine(folder, "mini", course).score == 6


# ------------------------------------------------------------------------------------------ check


def test_check_takes_a_labo_a_notebook_or_a_folder(
    course: courses.Course, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tiny_course.hand_in(course.root, "alice", tiny_course.copy_notebook(), labo_py="print(42)")
    assert check("mini", folder).score == 6
    assert check("mini", folder / "mini.ipynb").score == 6
    assert check("mini", folder / "labo.py").max_score == 2
    (folder / "mini.ipynb").unlink()
    assert check("mini", folder).max_score == 2
    assert capsys.readouterr().out == ""


def test_check_of_nothing_or_of_an_unknown_assignment(course: courses.Course, tmp_path: Path) -> None:
    folder = tiny_course.hand_in(course.root, "alice")
    with pytest.raises(CopyError):
        check("mini", folder / "labo.py")
    with pytest.raises(courses.CourseError, match="mini"):
        check("minis", folder)
    with pytest.raises(CopyError, match="autograder check mini CHEMIN"):
        check("mini", folder)


def test_check_of_the_source_itself_has_no_remark_on_its_hidden_tests(course: courses.Course) -> None:
    result = check("mini", course.root / "source" / "mini")
    assert (result.score, result.remarks) == (6, ())


def test_check_in_another_exercise_s_folder_says_where_to_go(course: courses.Course) -> None:
    other = course.root / "autre"
    other.mkdir()
    (other / "autre.ipynb").write_text("{}")
    (other / "labo.py").write_text("print(1)")
    with pytest.raises(CopyError, match="Placez-vous dans le dossier qui le contient"):
        check("mini", other)


def test_check_of_a_misnamed_notebook_gives_its_right_name(course: courses.Course) -> None:
    desk = course.root / "bureau"
    desk.mkdir()
    (desk / "mini (1).ipynb").write_text("{}")
    with pytest.raises(CopyError, match=r"il doit s'appeler `mini\.ipynb`"):
        check("mini", desk)


def test_check_on_a_student_s_machine_uses_the_notebook_s_own_tests(
    course: courses.Course, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = tiny_course.hand_in(course.root, "alice", tiny_course.copy_notebook(answer="moyenne = 3.0"))
    desk = tmp_path_factory.mktemp("desk")
    shutil.copytree(made, desk / "mini")
    monkeypatch.chdir(desk)
    result = check("mini", desk / "mini")
    assert [test.points for test in result.tests] == [2, 2]  # the hidden part is not there
    assert result.graded


@pytest.fixture
def desk(course: courses.Course, tmp_path_factory: pytest.TempPathFactory, monkeypatch: Any) -> Path:
    """A student's course folder, and the current one: course.yaml, the notebook in a folder of its name."""
    desk = tmp_path_factory.mktemp("desk")
    shutil.copyfile(course.root / "course.yaml", desk / "course.yaml")
    made = tiny_course.hand_in(course.root, "alice", tiny_course.copy_notebook(answer="moyenne = 3.0"))
    shutil.copytree(made, desk / "mini")
    monkeypatch.chdir(desk)
    return desk


def test_check_in_a_student_s_course_folder_finds_the_exercise_below(desk: Path) -> None:
    assert [test.points for test in check("mini").tests] == [2, 2]
    (desk / "essai.py").write_text("print(42)")
    assert check("mini", "essai.py").score == 2   # the tests are those of the notebook below
    (desk / "autre").mkdir()
    (desk / "autre" / "labo.py").write_text("print(42)")
    assert check("mini", "autre").score == 2


def test_where_there_is_no_test_a_student_is_told_where_they_are(desk: Path) -> None:
    def why() -> str:
        with pytest.raises(CopyError) as refused:
            check("mini", "essai.py")
        assert "source" not in str(refused.value) and "release" not in str(refused.value)
        return str(refused.value)

    (desk / "essai.py").write_text("print(42)")
    shutil.rmtree(desk / "mini")
    assert "ni à côté ni dans le dossier `mini` du cours" in why()
    (desk / "course.yaml").unlink()
    assert "Placez-vous dans le dossier du cours" in why()
    with pytest.raises(CopyError, match="Placez-vous dans le dossier du cours"):
        check("mini")
    (desk / "course.yaml").write_text(tiny_course.COURSE.replace("LATE", "none").replace("[DATA]", "[]"))
    (desk / "source").mkdir()
    with pytest.raises(CopyError, match=r"ni dans `source/`, ni dans `release/`"):
        check("mini", "essai.py")   # an instructor's folder


def test_a_notebook_that_checks_itself_does_not_do_so_for_ever(course: courses.Course) -> None:
    answer = "moyenne = 3.0\nunite = 'ms'\nfrom autograder import check\ncheck('mini')"
    result = grade(course, tiny_course.copy_notebook(answer=answer))
    assert result.score == 6
    assert "pas relancée" in str(result.cells["mini-reponse"])


def test_a_check_in_a_notebook_is_shown_and_stored_as_one_line(course: courses.Course) -> None:
    from IPython.core.formatters import PlainTextFormatter

    result = grade(course, tiny_course.copy_notebook())
    assert PlainTextFormatter()(result).replace("\u00a0", " ") == "mini : 6 / 6 points"


def test_a_script_that_is_no_regular_file(course: courses.Course, tmp_path: Path) -> None:
    script = tmp_path / "labo.py"

    def why() -> str:
        with pytest.raises(CopyError) as refused:
            examine_script(script, "mini", course)
        return str(refused.value)

    assert why() == f"`{script}` est introuvable."
    script.mkdir()
    assert "est un dossier" in why()
    script.rmdir()
    script.write_text("#" * 300_000)
    assert why() == f"`{script}` n'est pas un fichier ordinaire d'au plus 200 ko."


def test_a_script_that_no_cell_has_written_yet(course: courses.Course, tmp_path: Path) -> None:
    nbformat.write(tiny_course.copy_notebook(), tmp_path / "mini.ipynb")
    with pytest.raises(CopyError, match=r"Exécutez d'abord la cellule `%%writefile labo\.py`"):
        check("mini", tmp_path / "labo.py")


@pytest.mark.parametrize(
    ("name", "content", "why"),
    [("nulle-part", None, "`{}` est introuvable."),
     ("x.zip", b"PK", "`{}` n'est ni un dossier, ni un notebook"),
     ("table.yaml", b"course:", "`{}` n'est ni un dossier, ni un notebook"),
     ("mini.ipynb", b"", "Retrouvez-en une copie entière, puis vérifiez-la ou rendez-la"),
     ("mini.ipynb", b'{"cells": [', "Retrouvez-en une copie entière, puis vérifiez-la ou rendez-la"),
     ("mini.ipynb", b"<html>", "puis vérifiez-le ou rendez-le")],
)  # fmt: skip
def test_whoever_only_checks_is_not_told_of_a_copy_that_was_handed_in(
    course: courses.Course, tmp_path: Path, name: str, content: bytes | None, why: str
) -> None:
    given = tmp_path / "bureau" / name
    given.parent.mkdir()
    if content is not None:
        given.write_bytes(content)
    with pytest.raises(CopyError) as refused:
        check("mini", given)
    told = str(refused.value).replace("\u00a0", " ")
    assert why.format(given) in told and "époser" not in told and "éposez" not in told


# ------------------------------------------------------------------------------------------ late


@pytest.mark.parametrize(
    ("policy", "hours", "lost"),
    [("none", 100, 0), ("zero", 0.2, 0), ("zero", 0.3, 10),
     ("daily", 0.2, 0), ("daily", 1, 1), ("daily", 25, 2), ("daily", 1000, 10)],
)  # fmt: skip
def test_late_penalty(tmp_path: Path, policy: str, hours: float, lost: float) -> None:
    late = tiny_course.make_course(tmp_path, late=policy).late
    assert penalty(10, hours * 3600, late) == lost
    assert penalty(0, hours * 3600, late) == 0


def test_without_course_yaml_the_files_are_those_that_the_tests_name(tmp_path: Path) -> None:
    """A notebook fetched alone, without the course around it: its own tests tell what goes with it."""
    notebook = tiny_course.source_notebook()
    test = next(cell for cell in notebook.cells if cell.metadata.get("nbgrader", {}).get("grade"))
    test.source = 'texte = open("sortie.txt").read()\n' + test.source
    own = tmp_path / "mini.ipynb"
    nbformat.write(notebook, own)
    assert prepare("mini", None, own=own).files == ("labo.py", "sortie.txt")
