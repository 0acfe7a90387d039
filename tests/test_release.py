"""Releasing: what students get, what is found before they get it, and when it is refused."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import release_course as tiny

import autograder.notebook.examine as examining
from autograder.course import Course, CourseError, load
from autograder.notebook import proofs
from autograder.notebook.leaks import scan, secrets
from autograder.notebook.release import GenerateError, generate, prove, release, stale
from autograder.notebook.tidy import main as tidy
from autograder.notebook.tidy import tidied

BEFORE = datetime(2031, 3, 20, 9)
SESSION = datetime(2031, 3, 27, 14)
AFTER = datetime(2031, 5, 1, 9)


@pytest.fixture
def course(tmp_path_factory: pytest.TempPathFactory) -> Course:
    return load(tiny.write_course(tmp_path_factory.mktemp("cours") / "élève n°1 (copie)"))


@pytest.fixture
def graded(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, Any], None]:
    """Grade without launching: the solution passes and the release fails, unless a test says otherwise."""

    def result(status: str, **other: Any) -> Any:
        points = 3 if status == "passed" else 0
        test = SimpleNamespace(id="t", status=status, message="dit pourquoi", advice="")
        plain = {"graded": True, "cause": None, "score": points, "max_score": 3, "tests": [test], "flags": ()}
        return SimpleNamespace(**plain | other)

    results = {"solution": result("passed"), "release": result("failed")}

    def examine(copy_dir: Path, assignment: str, course: Course, **_: Any) -> Any:
        text = (copy_dir / f"{assignment}.ipynb").read_text(encoding="utf-8")
        return results["solution" if "BEGIN SOLUTION" in text else "release"]

    monkeypatch.setattr(examining, "examine", examine)

    def change(which: str, status: str, **other: Any) -> None:
        results[which] = result(status, **other)

    return change


def notebook(path: Path) -> dict[str, Any]:
    return {cell["id"]: "".join(cell["source"]) for cell in json.loads(path.read_bytes())["cells"]}


def change_cell(course: Course, name: str, ident: str, **change: Any) -> None:
    cells = tiny.first_cells() if name == "ex1" else tiny.second_cells()
    for cell in cells:
        if cell.id == ident:
            cell.source = change.pop("source", cell.source)
            cell.metadata.get("nbgrader", {}).update(change)
    tiny.write_notebook(course.root / "source" / name / f"{name}.ipynb", cells)


def said(course: Course, name: str = "ex1") -> str:
    return "\n".join(map(str, prove(course, name, run=False)))


# ------------------------------------------------------------------------------------ generating


def test_students_get_stubs_visible_tests_and_data(course: Course, tmp_path: Path) -> None:
    made = [generate(course, name, tmp_path / "out") for name in ("ex1", "ex2")]
    names = [path.relative_to(tmp_path / "out").as_posix() for paths in made for path in paths]
    assert names == ["ex1/ex1.ipynb", "ex2/ex2.ipynb", "ex2/lignes.txt"]
    first = notebook(tmp_path / "out" / "ex1" / "ex1.ipynb")
    assert list(first) == [cell.id for cell in tiny.first_cells()]  # ids are stable
    assert 'import os\nraise NotImplementedError("à compléter")\nprint' in first["ex1-labo"]
    assert first["ex1-test"].endswith('m.text("rang 0", rank=0, points=3)\nm.total()')
    assert first["ex1-reponse"] == "Écrivez votre réponse ici."


def test_a_written_answer_may_keep_its_question_beside_the_stub(course: Course, tmp_path: Path) -> None:
    scheme = tiny.WRITTEN.partition("\n\n")[2]
    source = f"Pourquoi ?\n### BEGIN SOLUTION\nNCCL.\n### END SOLUTION\n{scheme}"
    change_cell(course, "ex1", "ex1-reponse", source=source)
    generate(course, "ex1", tmp_path)
    assert notebook(tmp_path / "ex1" / "ex1.ipynb")["ex1-reponse"] == "Pourquoi ?\nÉcrivez votre réponse ici."


def test_the_release_is_the_same_on_every_run_and_in_every_place(course: Course, tmp_path: Path) -> None:
    here = generate(course, "ex1", tmp_path / "a")[0].read_bytes()
    elsewhere = shutil.copytree(course.root, tmp_path / "autre")
    code = (
        "import sys, pathlib; from autograder.course import load; "
        "from autograder.notebook.release import generate; "
        "generate(load(sys.argv[1]), 'ex1', pathlib.Path(sys.argv[2]))"
    )
    env = {**os.environ, "LC_ALL": "C", "PYTHONHASHSEED": "7", "TZ": "Asia/Tokyo"}
    subprocess.run([sys.executable, "-c", code, elsewhere, tmp_path / "b"], env=env, check=True, timeout=120)
    assert (tmp_path / "b" / "ex1" / "ex1.ipynb").read_bytes() == here
    assert tidied(here) == here


def test_only_declared_files_are_taken(course: Course, tmp_path: Path) -> None:
    (course.root / "source" / "ex1" / "labo.py").write_text("rang_lu = int(os.environ['RANK'])\n")
    assert [path.name for path in generate(course, "ex1", tmp_path)] == ["ex1.ipynb"]
    assert sorted(path.name for path in (tmp_path / "ex1").iterdir()) == ["ex1.ipynb"]


def test_what_nbgrader_cannot_convert_is_told(course: Course, tmp_path: Path) -> None:
    change_cell(course, "ex1", "ex1-labo", source="### BEGIN SOLUTION\nx = 1")
    with pytest.raises(GenerateError, match=r"ex1: .*no end solution"):
        generate(course, "ex1", tmp_path)
    (course.root / "source" / "ex2" / "lignes.txt").unlink()
    with pytest.raises(GenerateError, match=r"lacks lignes\.txt"):
        generate(course, "ex2", tmp_path)


# ------------------------------------------------------------------------------------ leaks


def test_the_release_of_the_small_course_leaks_nothing(course: Course, tmp_path: Path) -> None:
    for name in ("ex1", "ex2"):
        generate(course, name, tmp_path)
    assert scan(course, tmp_path) == []
    assert {(secret.assignment, secret.kind) for secret in secrets(course)} == {
        ("ex1", "solution"), ("ex1", "hidden test"), ("ex1", "mark scheme"), ("ex2", "solution"),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("planted", "told"),
    [
        ("### BEGIN SOLUTION", "marker 'BEGIN SOLUTION'"),
        ("# begin hidden tests", "marker 'HIDDEN TEST'"),
        ("=== END MARK SCHEME ===", "marker 'MARK SCHEME'"),
        ("rang_lu = int(os.environ['RANK'])", "a solution line of ex1"),
        ("    #  rang_lu=int( os.environ[\"RANK\"] )  # TODO", "a solution line of ex1"),
        ('m.collective("reduce_scatter_tensor")', "a hidden test line of ex1"),
        ("Deux points pour l'usage exclusif que demande NCCL.", "a mark scheme line of ex1"),
        ("moyenne_attendue = sum(LIGNES) / len(LIGNES)", "a solution line of ex2"),
        ("File \"/home/prof/cours/source/x.py\"", "a path of some machine"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("where", ["cell", "metadata", "file"])
def test_a_planted_leak_is_found(course: Course, tmp_path: Path, planted: str, told: str, where: str) -> None:
    path = generate(course, "ex1", tmp_path)[0]
    if where == "file":
        path = path.with_name("aide.txt")
        path.write_text("Un mot.\n" + planted + "\n", encoding="utf-8")
    else:
        content = json.loads(path.read_bytes())
        if where == "cell":
            content["cells"][0]["source"] += ["\n", planted]
        else:
            content["cells"][0]["metadata"]["note"] = planted
        path.write_text(json.dumps(content), encoding="utf-8")
    leaks = scan(course, tmp_path)
    assert any(told in str(leak) for leak in leaks), leaks
    assert all(leak.file == f"ex1/{path.name}" for leak in leaks)


def test_another_assignment_may_not_hold_a_hole_filled(course: Course, tmp_path: Path) -> None:
    scaffold = tiny.SECOND_TEST.replace("m = marks(1)", "rang_lu = int(os.environ['RANK'])\nm = marks(1)")
    change_cell(course, "ex2", "ex2-test", source=scaffold)
    generate(course, "ex2", tmp_path)
    (leak,) = scan(course, tmp_path)
    assert leak.what.startswith("gives away a solution line of ex1, cell ex1-labo")
    assert "solution line of ex1" in said(course, "ex2")


def test_words_that_students_read_anyway_are_no_secret(course: Course, tmp_path: Path) -> None:
    cells = tiny.first_cells()
    cells[0].source += "\n\nOn écrit `rang_lu = int(os.environ['RANK'])`."
    tiny.write_notebook(course.root / "source" / "ex1" / "ex1.ipynb", cells)
    generate(course, "ex1", tmp_path)
    assert scan(course, tmp_path) == []


def test_two_lines_of_the_solution_in_the_lesson_are_a_copy_of_it(course: Course, tmp_path: Path) -> None:
    cells = tiny.first_cells()
    second = 'print("le rang lu est", rang_lu)'
    cells[1].source = cells[1].source.replace("### END", f"{second}\n### END")
    cells[0].source += f"\n\n```python\nrang_lu = int(os.environ['RANK'])\n\n  {second}\n```"
    tiny.write_notebook(course.root / "source" / "ex1" / "ex1.ipynb", cells)
    generate(course, "ex1", tmp_path)
    found = [str(leak) for leak in scan(course, tmp_path)]
    assert len(found) == 2 and all("gives away a solution line of ex1, cell ex1-labo" in one for one in found)


def test_outputs_left_in_a_release_are_found(course: Course, tmp_path: Path) -> None:
    path = generate(course, "ex1", tmp_path)[0]
    content = json.loads(path.read_bytes())
    content["cells"][1] |= {"execution_count": 3}
    path.write_text(json.dumps(content))
    assert [leak.what for leak in scan(course, tmp_path)] == ["cell ex1-labo carries outputs"]


# ------------------------------------------------------------------------------------ proofs without running


def test_the_small_course_is_proved(course: Course) -> None:
    assert said(course) == said(course, "ex2") == ""


def test_source_may_hold_declared_files_only(course: Course) -> None:
    folder = course.root / "source" / "ex1"
    (folder / ".DS_Store").write_text("")
    assert said(course) == ""
    (folder / "labo.py").write_text("x = 1\n")
    (folder / ".ipynb_checkpoints").mkdir()
    (folder / ".ipynb_checkpoints" / "ex1-checkpoint.ipynb").write_text("{}")
    text = said(course)
    assert "labo.py is not declared in course.yaml" in text
    assert "ex1-checkpoint.ipynb is not declared" in text


@pytest.mark.parametrize(
    ("cell", "change", "told"),
    [
        ("ex1-test", {"points": 2}, "its test cells add up to 2 points, course.yaml says points.auto: 3"),
        ("ex1-test", {"points": 2}, "cell ex1-test calls marks(3) and is worth 2 points"),
        ("ex1-test", {"source": tiny.TEST.replace("marks(3", "marks(N")}, "calls marks(None) and is worth 3"),
        ("ex1-test", {"source": tiny.TEST.replace("m.total()", "print(1)")}, "does not end with m.total()"),
        ("ex1-test", {"source": "assert True\nm.total()"}, "never calls marks(…)"),
        ("ex1-test", {"source": "!torchrun labo.py"}, "a test cell uses no magic"),
        ("ex1-test", {"source": tiny.TEST.replace("### END HIDDEN TESTS\n", "")}, "without its END"),
        ("ex1-reponse", {"points": 4}, "its written cells add up to 4 points, course.yaml says"),
        ("ex1-question", {"source": "### BEGIN SOLUTION\n### END SOLUTION"}, "not marked as a solution cell"),
        ("ex1-labo", {"source": "### BEGIN HIDDEN TESTS\nx\n### END HIDDEN TESTS"}, "is not a test cell"),
        ("ex1-labo", {"grade_id": "ex2-reponse"}, "grade id ex2-reponse stands twice, here and in ex1"),
    ],
)
def test_a_malformed_cell_is_told(course: Course, cell: str, change: dict[str, Any], told: str) -> None:
    change_cell(course, "ex1", cell, **dict(change))
    findings = said(course, "ex2") if "twice" in told else said(course)
    assert told in findings


def test_a_notebook_saved_by_an_editor_is_told_and_tidied(course: Course) -> None:
    path = course.root / "source" / "ex1" / "ex1.ipynb"
    clean = path.read_bytes()
    content = json.loads(clean)
    output = {"output_type": "stream", "name": "stdout", "text": "a"}
    content["cells"][1] |= {"execution_count": 3, "outputs": [output]}
    content["cells"][1]["metadata"]["scrolled"] = True
    content["metadata"]["language_info"] |= {"version": "3.12.1", "file_extension": ".py"}
    path.write_text(json.dumps(content, indent=2), encoding="utf-8")
    assert f"python -m autograder.notebook.tidy {path}" in said(course)
    assert tidy([str(path)]) == 0
    assert path.read_bytes() == clean
    assert said(course) == ""


def test_a_damaged_notebook_is_a_finding_not_a_crash(course: Course) -> None:
    path = course.root / "source" / "ex1" / "ex1.ipynb"
    path.write_bytes(path.read_bytes()[:200])
    assert "ex1.ipynb" in said(course)
    assert "ex1.ipynb" in said(course, "ex2")  # whose leaks cannot be looked for without it
    for names in ([], ["ex2"]):  # under its own name, once, whichever assignment is to be released
        (finding,) = release(course, names, force=True, run=False).findings
        assert (finding.assignment, "Le dépôt" in finding.what) == ("ex1", False)
        assert finding.what.startswith(f"{path} is no notebook (Expecting ':'")
    path.unlink()
    assert "there is no" in said(course)


@pytest.mark.parametrize(
    ("content", "told"),
    [(None, "cannot be read: No such file"), (b"", "is no notebook (Expecting value"),
     (b'{"cells": [', "is no notebook (Expecting value"), (b"[1]", "its JSON is not that of a notebook"),
     (b"\xff\xfe\x00", "is no notebook (")],
)  # fmt: skip
def test_what_cannot_be_tidied_is_told_and_stays(
    tmp_path: Path, content: bytes | None, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    bad, good = tmp_path / "bad.ipynb", tmp_path / "good.ipynb"
    tiny.write_notebook(good, tiny.first_cells())
    good.write_bytes(good.read_bytes() + b"\n\n")
    if content is not None:
        bad.write_bytes(content)
    assert tidy([str(bad), str(good)]) == 1
    said = capsys.readouterr()
    assert said.err.startswith(str(bad)) and told in said.err and said.out == f"tidied {good}\n"
    assert content is None or bad.read_bytes() == content


# ------------------------------------------------------------------------------------ proofs by running


def test_nothing_is_run_in_source(course: Course, graded: Any) -> None:
    before = sorted((course.root / "source").rglob("*"))
    assert prove(course, "ex1") == []
    assert sorted((course.root / "source").rglob("*")) == before


@pytest.mark.parametrize(
    ("which", "status", "other", "told"),
    [
        ("solution", "failed", {}, "the solution gets 0 of 3"),
        ("solution", "failed", {}, "the solution failed, cell t: dit pourquoi"),
        ("solution", "passed", {"flags": ("hard-coded",)}, "the solution is flagged hard-coded"),
        ("solution", "passed", {"graded": False, "cause": "disque plein"}, "not be graded: disque plein"),
        ("release", "passed", {}, "the untouched release gets 3 of 3"),
        ("release", "not_graded", {}, "the untouched release is not_graded in cell t"),
    ],
)
def test_what_running_shows_is_told(
    course: Course, graded: Any, which: str, status: str, other: dict[str, Any], told: str
) -> None:
    graded(which, status, **other)
    assert told in "\n".join(map(str, proofs.prove_by_running(course, "ex1")))


# ------------------------------------------------------------------------------------ releasing


def test_release_writes_what_changed_and_says_the_days(course: Course, graded: Any) -> None:
    report = release(course, as_of=BEFORE)
    assert report.ok and report.written == ("ex1", "ex2") and report.days_left == 7
    assert report.notices[0] == "7 days before the session of 2031-03-27 13:00."
    files = (course.root / "release").rglob("*.*")
    assert sorted(path.name for path in files) == ["ex1.ipynb", "ex2.ipynb", "lignes.txt"]
    assert release(course, as_of=BEFORE).written == ()
    (course.root / "source" / "ex2" / "lignes.txt").write_text("2 4\n")
    assert release(course, ["ex2"], as_of=BEFORE).written == ("ex2",)
    assert (course.root / "release" / "ex2" / "lignes.txt").read_text() == "2 4\n"
    assert list((course.root / ".autograder").iterdir()) == []


def test_a_finding_stops_every_write(course: Course, graded: Any) -> None:
    change_cell(course, "ex2", "ex2-test", points=9)
    report = release(course, as_of=BEFORE)
    assert not report.ok and report.written == ()
    assert not (course.root / "release").exists()


def test_a_write_that_fails_half_way_leaves_the_old_release(
    course: Course, graded: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    release(course, as_of=BEFORE)
    before = {path: path.read_bytes() for path in (course.root / "release").rglob("*.*")}
    (course.root / "source" / "ex2" / "lignes.txt").write_text("2 4\n")
    cells = tiny.first_cells()
    cells[0].source += " changé"
    tiny.write_notebook(course.root / "source" / "ex1" / "ex1.ipynb", cells)
    rename = Path.rename

    def fails_on_ex2(self: Path, target: Path) -> Path:
        if self.parent.name == "new" and self.name == "ex2":
            raise OSError(28, "No space left on device")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", fails_on_ex2)
    with pytest.raises(OSError, match="No space left"):
        release(course, as_of=BEFORE)
    assert {path: path.read_bytes() for path in (course.root / "release").rglob("*.*")} == before


def test_dates_warn_then_refuse(course: Course, graded: Any) -> None:
    assert release(course, as_of=SESSION, check=True).notices == ("The session is today, 2031-03-27 13:00.",)
    report = release(course, as_of=SESSION)
    assert report.refused is not None and ". " not in report.refused  # one sentence
    assert "ex1 was due 2031-03-27 12:00" in report.refused and "--force" in report.refused
    assert not (course.root / "release").exists()
    assert release(course, ["ex2"], as_of=SESSION).written == ("ex2",)  # due later
    late = release(course, ["ex1"], as_of=AFTER, force=True)
    assert late.written == ("ex1",)
    assert late.notices[0].startswith("Warning: the session of 2031-03-27 13:00 is over")
    assert release(course, as_of=AFTER, check=True).refused is None


def test_before_its_release_date_an_assignment_is_announced(course: Course, graded: Any) -> None:
    notices = release(course, as_of=datetime(2031, 2, 1), check=True).notices
    assert "ex1 is planned for 2031-03-06 13:00." in notices
    early = datetime(2031, 3, 1, 9)
    (_, only) = release(course, ["ex2"], as_of=early, run=False).notices  # ex1 was not asked for
    assert only.startswith("ex2 is planned for")


def test_check_writes_nothing_and_finds_a_stale_release(course: Course, graded: Any) -> None:
    assert "release/ex1/ex1.ipynb is missing" in str(release(course, check=True, as_of=AFTER).findings[0])
    assert not (course.root / "release").exists()
    release(course, as_of=BEFORE)
    assert release(course, check=True).ok
    (course.root / "release" / "ex1" / "labo.py").write_text("x = 1\n")
    (course.root / "release" / "ex2" / "lignes.txt").write_text("")
    assert stale(course, "ex1") == ["release/ex1/labo.py is not made from source/: remove it"]
    assert stale(course, "ex2") == ["release/ex2/lignes.txt is out of date: run `autograder release ex2`"]


def test_an_unknown_assignment_is_refused(course: Course) -> None:
    with pytest.raises(CourseError, match="did you mean ex1"):
        release(course, ["ex11"])
