"""The commands as they are typed: options, exit codes, and the JSON that is documented."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
import tiny_course

from autograder import cli
from autograder.commands import grader, student
from autograder.launch import box
from autograder.launch.run import RankLog, Request, Run
from autograder.notebook.result import CopyResult, TestResult
from autograder.verdict.diagnosis import Diagnosis

ROOT = Path(__file__).resolve().parent.parent

FINE = """import torch, torch.distributed as dist
dist.init_process_group("gloo")
value = torch.tensor([float(dist.get_rank())])
dist.broadcast(value, src=0)
print("rang", dist.get_rank(), value.tolist(), flush=True)
dist.destroy_process_group()
"""


def a_run(**changes: Any) -> Run:
    logs = (RankLog(0, 0, 0, "entre 0\n", ""), RankLog(1, 1, 0, "entre 1\n", ""))
    fine = Run(Request(), "torchrun labo.py", "", exit_code=0, timed_out=False, duration_s=6.0, ranks=logs)
    return dataclasses.replace(fine, **changes)


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A student's folder, with no course above it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "labo.py").write_text("print(1)\n")
    return tmp_path


@pytest.fixture
def launched(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What `run` asks of the launcher, and what it is answered ("run", "diagnosis")."""
    seen: dict[str, Any] = {"run": a_run(), "diagnosis": None}

    def launch(script: str, **asked: Any) -> Run:
        seen.update(asked, script=script)
        run: Run = seen["run"]
        return run

    import autograder.launch
    import autograder.verdict.diagnosis

    monkeypatch.setattr(autograder.launch, "launch", launch)
    monkeypatch.setattr(autograder.verdict.diagnosis, "diagnose", lambda run: seen["diagnosis"])
    return seen


# -------------------------------------------------------------------------------------------- the parser


@pytest.mark.parametrize("arguments", [[], ["fly"], ["run"], ["check"], ["run", "labo.py", "--nproc", "two"]])
def test_a_wrong_command_line_is_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(arguments) == 2
    assert "usage: autograder" in capsys.readouterr().err


@pytest.mark.parametrize("typed", [["check", "ex1-rang", "--wotch"], ["course", "ex1-rang"]])
def test_an_unknown_option_is_told_with_the_command_s_own(
    typed: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(typed) == 2
    told = capsys.readouterr().err
    assert told.startswith(f"usage: autograder {typed[0]} [-h]") and typed[-1] in told


def test_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--help"]) == 0
    shown = capsys.readouterr().out
    for command in ("run", "check", "pack", "collect", "release", "grade", "report", "export", "doctor",
                    "course"):
        assert f"\n    {command} " in shown


def test_ctrl_c_is_130(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(**_: Any) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(student, "doctor", interrupted)
    assert cli.main(["doctor"]) == 130


def test_a_reader_that_leaves_early_is_no_traceback() -> None:
    code = (
        "import sys; from autograder import cli; sys.exit(cli.main(['--help']) or cli.main(['course']))"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT
    ) as child:
        assert child.stdout is not None and child.stderr is not None
        child.stdout.close()
        assert b"Traceback" not in child.stderr.read()


def test_french_survives_an_ascii_terminal(desk: Path) -> None:
    env = {**os.environ, "LC_ALL": "C", "PYTHONIOENCODING": "ascii", "PYTHONPATH": str(ROOT)}
    answer = subprocess.run(
        [sys.executable, "-m", "autograder.cli", "run", "absent.py"], capture_output=True, env=env, cwd=desk
    )
    assert answer.returncode == 2
    assert "introuvable" in answer.stderr.decode("utf-8")


# --------------------------------------------------------------------------------------------------- run


def test_run_passes_its_options_to_the_launch(desk: Path, launched: dict[str, Any]) -> None:
    given = ["run", "labo.py", "--nproc", "3", "--env", "A=1", "B=x=y", "--env", "C=", "--timeout", "2.5"]
    assert cli.main(given) == 0
    assert launched["nproc"] == 3 and launched["time_limit_s"] == 2.5
    assert launched["env"] == {"A": "1", "B": "x=y", "C": ""}


def test_run_shows_ranks_and_diagnosis(
    desk: Path, launched: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    launched["run"] = a_run(exit_code=1)
    launched["diagnosis"] = Diagnosis("x", 1, 1, "Le rang 1 s'arrête.", "Relisez.", "P")
    assert cli.main(["run", "labo.py"]) == 1
    shown = capsys.readouterr().out
    assert "rang 0" in shown and "entre 1" in shown and "Relisez." in shown


def test_run_json_is_as_documented(
    desk: Path, launched: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    launched["diagnosis"] = Diagnosis("x", 1, 4, "message", "advice", "P")
    assert cli.main(["run", "labo.py", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert set(data) == {
        "schema", "exit_code", "timed_out", "duration_s", "ranks", "collectives", "diagnosis",
    }  # fmt: skip
    assert data["ranks"][1] == {"rank": 1, "exit_code": 0, "stdout": "entre 1\n", "stderr": ""}
    assert data["diagnosis"] == {"id": "x", "rank": 1, "line": 4, "message": "message", "advice": "advice"}


def test_run_json_without_separate_ranks_keeps_the_text() -> None:
    data = student.run_json(a_run(ranks=(), stdout="entre 0entre 1", per_rank=False), None)
    assert data["ranks"] == [{"rank": None, "exit_code": 0, "stdout": "entre 0entre 1", "stderr": ""}]
    assert data["diagnosis"] is None


@pytest.mark.parametrize(
    ("changes", "code"),
    [({}, 0), ({"exit_code": 1}, 1), ({"timed_out": True, "exit_code": None}, 1), ({"infra": "hostname"}, 3)],
)
def test_run_exit_codes(desk: Path, launched: dict[str, Any], changes: dict[str, Any], code: int) -> None:
    launched["run"] = a_run(**changes)
    assert cli.main(["run", "labo.py"]) == code


@pytest.mark.parametrize(
    "options", [["--env", "A"], ["--env", "=1"], ["--timeout", "0"], ["--timeout", "nan"], ["--nproc", "0"]]
)
def test_run_refuses_what_cannot_be_launched(
    desk: Path, launched: dict[str, Any], options: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["run", "labo.py", *options]) == 2
    assert "script" not in launched
    assert options[0] in capsys.readouterr().err


def test_run_of_a_missing_script_names_the_nearest(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["run", "Labo.py"]) == 2 or (desk / "Labo.py").is_file()  # macOS ignores the case
    assert cli.main(["run", "labo1.py"]) == 2
    assert "`labo.py`" in capsys.readouterr().err


def test_run_of_what_is_no_script_names_the_script(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def refused(given: str) -> str:
        assert cli.main(["run", given]) == 2
        return capsys.readouterr().err.replace("\u00a0", " ").strip()

    folder = desk / "ex1"
    folder.mkdir()
    (folder / "ex1.ipynb").write_text(json.dumps({"cells": [{"source": "%%writefile labo.py\\nprint(1)"}]}))
    (folder / "donnees.json").write_text("{}")
    write = "Exécutez d'abord la cellule `%%writefile labo.py` du notebook `ex1.ipynb`"
    right = f"Donnez le script : `{Path('ex1', 'labo.py')}`."
    assert write in refused("ex1/labo.py") and "introuvable" in refused("ex1/labo.py")
    for given, why in (("ex1", "est un dossier"), ("ex1/ex1.ipynb", "n'est pas un script"),
                       ("ex1/donnees.json", "n'est pas un script")):
        assert why in refused(given) and right in refused(given) and write in refused(given)
    (folder / "labo.py").write_text("print(1)")
    assert refused("ex1") == f"`ex1` est un dossier, pas un script. {right}"
    (desk / "vide").mkdir()
    assert refused("vide").endswith("Donnez le script, un fichier `.py`.")


@pytest.mark.parametrize("typed", [
    ["run", "labo.py"], ["check", "mini"], ["check", "mini", "--watch"], ["pack", "mini", "--id", "a"],
    ["course"], ["collect", "."], ["collect", "--exchange"], ["grade", "--no-sandbox"], ["report"],
    ["export"], ["release", "--check"],
], ids=" ".join)  # fmt: skip
def test_a_wrong_course_yaml_is_told_in_one_message(
    desk: Path, capsys: pytest.CaptureFixture[str], typed: list[str]
) -> None:
    yaml = tiny_course.COURSE.replace("LATE", "none").replace("[DATA]", "[]").replace("nproc:", "nprocs:")
    (desk / "course.yaml").write_text(yaml, encoding="utf-8")
    assert cli.main(typed) == 2
    assert "launch.nprocs = 2 is an unknown key; did you mean nproc?" in capsys.readouterr().err


def test_run_of_a_real_script(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (desk / "labo.py").write_text(FINE)
    assert cli.main(["run", "labo.py", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert [log["stdout"].split()[:2] for log in data["ranks"]] == [["rang", "0"], ["rang", "1"]]
    assert {one["op"] for one in data["collectives"]} == {"broadcast"}
    assert data["diagnosis"] is None


# ------------------------------------------------------------------------------------------------- check


def a_result(**changes: Any) -> CopyResult:
    tests = (TestResult("ex1-a", "passed", 4.0, 4.0), TestResult("ex1-b", "skipped", 0.0, 4.0))
    fine = CopyResult(assignment="ex1-rang", score=4.0, max_score=4.0, tests=tests)
    return dataclasses.replace(fine, **changes)


FAILED_TEST = TestResult("ex1-a", "failed", 0.0, 4.0, "Le texte manque.", "Relisez.")


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({}, 0),
        ({"tests": (FAILED_TEST,), "score": 0.0}, 1),
        ({"graded": False, "cause": "disque plein"}, 3),
    ],
)
def test_check_exit_codes_and_json(
    desk: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], changes: dict[str, Any],
    code: int,
) -> None:  # fmt: skip
    import autograder.notebook.check

    monkeypatch.setattr(autograder.notebook.check, "check", lambda name, path: a_result(**changes))
    assert cli.main(["check", "ex1-rang"]) == code
    assert "ex1-rang" in capsys.readouterr().out
    assert cli.main(["check", "ex1-rang", "--json"]) == code
    data = json.loads(capsys.readouterr().out)
    assert set(data) == {
        "schema", "assignment", "score", "max_score", "graded", "cause", "tests", "flags", "diagnosis",
    }  # fmt: skip
    assert set(data["tests"][0]) == {"id", "status", "points", "max_points", "message", "advice"}


def test_an_instructor_s_source_is_not_to_be_handed_in(tmp_path: Path) -> None:
    tiny_course.make_course(tmp_path)
    source = tmp_path / "source" / "mini"
    for place, hands_in in ((source, False), (source / "mini.ipynb", False), (tmp_path / "mini", True)):
        assert ("autograder pack" in student.check_text(a_result(), place)) == hands_in


def test_check_json_knows_four_statuses(
    desk: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import autograder.notebook.check

    unmarked = TestResult("a", "not_graded", 0.0, 4.0, "port pris")
    busy = a_result(graded=False, cause="port pris", tests=(unmarked,))
    monkeypatch.setattr(autograder.notebook.check, "check", lambda name, path: busy)
    assert cli.main(["check", "ex1-rang", "--json"]) == 3
    data = json.loads(capsys.readouterr().out)
    assert [test["status"] for test in data["tests"]] == ["skipped"] and data["cause"] == "port pris"
    assert cli.main(["check", "ex1-rang"]) == 3
    assert "? a" in capsys.readouterr().out


def test_check_of_nothing_is_usage(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["check", "ex1-rang", str(desk / "absent.ipynb")]) == 2
    assert capsys.readouterr().err


def test_check_of_an_unknown_assignment_names_the_nearest(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)
    for typed in (["check", "ex1-rangs"], ["check", "ex1"], ["pack", "ex1-rangs", "--id", "a"]):
        assert cli.main(typed) == 2
        assert "Vouliez-vous dire `ex1-rang`" in capsys.readouterr().err
    assert cli.main(["check", "zzz"]) == 2
    assert "n'est pas un exercice de ce cours" in capsys.readouterr().err


def test_course_outside_of_a_course_says_where_to_go(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["course"]) == 2
    assert "Placez-vous dans le dossier du cours" in capsys.readouterr().err


def test_an_interrupted_grading_says_that_it_goes_on(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import autograder.batch.grade

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(autograder.batch.grade, "grade_class", interrupted)
    assert cli.main(["grade", "--no-sandbox"]) == 130
    assert "the same command goes on" in capsys.readouterr().err


def test_a_student_without_a_copy_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "course.yaml").write_bytes((ROOT / "course.yaml").read_bytes())
    monkeypatch.chdir(tmp_path)
    assert cli.main(["grade", "ex1-rang", "--student", "personne", "--no-sandbox"]) == 1
    assert "by personne in" in capsys.readouterr().err


# ---------------------------------------------------------------------------------- pack, course, doctor


def test_pack_then_collect(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    course = tmp_path / "course"
    (course / "ex1-rang").mkdir(parents=True)
    (course / "course.yaml").write_bytes((ROOT / "course.yaml").read_bytes())
    (course / "ex1-rang" / "ex1-rang.ipynb").write_text('{"cells": []}')
    monkeypatch.chdir(course)
    assert cli.main(["pack", "ex1-rang", "--id", "marie.curie"]) == 0
    shown = capsys.readouterr()
    assert "ex1-rang-marie.curie.zip" in shown.out and "labo.py" in shown.out
    with zipfile.ZipFile(course / "ex1-rang-marie.curie.zip") as archive:
        assert "timestamp.txt" in archive.namelist()
    assert cli.main(["collect", "ex1-rang-marie.curie.zip"]) == 0
    assert (course / "submitted" / "marie.curie" / "ex1-rang" / "ex1-rang.ipynb").is_file()
    assert "marie.curie" in capsys.readouterr().out


def test_pack_without_an_id_takes_the_login_name(
    desk: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.setenv(name, "dupont")
    (desk / "ex1-rang.ipynb").write_text('{"cells": []}')
    assert cli.main(["pack", "ex1-rang"]) == 0
    assert "dupont" in capsys.readouterr().out
    assert (desk / "ex1-rang-dupont.zip").is_file()


def test_pack_says_in_french_what_is_missing(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["pack", "ex1-rang", "--id", "a"]) == 2
    assert "Le notebook" in capsys.readouterr().err
    assert cli.main(["pack", "ex1-rang", "--id", "VOTRE_IDENTIFIANT"]) == 2   # as the pages print it
    assert "à remplacer par votre identifiant" in capsys.readouterr().err and not list(desk.glob("*.zip"))
    assert cli.main(["pack", "ex1-rang", "--id", "a/b"]) == 2
    assert "--id a-b" in capsys.readouterr().err


def test_collect_says_what_it_could_not_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "course.yaml").write_bytes((ROOT / "course.yaml").read_bytes())
    monkeypatch.chdir(tmp_path)
    assert cli.main(["collect", "absent"]) == 2
    (tmp_path / "inbox").mkdir()
    (tmp_path / "inbox" / "ex1_rang-dupont.ipynb").write_text("{}")
    assert cli.main(["collect", "inbox"]) == 1
    shown = capsys.readouterr().out
    assert "Not placed" in shown and "ex1_rang-dupont.ipynb" in shown


def test_course_tells_the_facts_in_french(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from autograder.course import load
    from autograder.messages import french_moment

    monkeypatch.chdir(ROOT)
    course = load()
    assert cli.main(["course"]) == 0
    shown = capsys.readouterr().out
    assert course.session.room in shown and course.session.teacher in shown
    for assignment in course.assignments:
        assert f"{assignment.id}\u00a0: à rendre avant le {french_moment(assignment.due)}" in shown


def test_doctor_exit_codes(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    from autograder import doctor

    for status, code in (("ok", 0), ("warn", 0), ("fail", 1)):
        finding = doctor.Finding("x", status, "titre", "vu")
        monkeypatch.setattr(doctor, "examine", lambda *, launch, found=finding: iter([found]))
        assert cli.main(["doctor", "--no-launch"]) == code
        assert "titre" in capsys.readouterr().out
        assert cli.main(["doctor", "--json"]) == code
        assert json.loads(capsys.readouterr().out)["checks"][0]["status"] == status


# ------------------------------------------------------------------------------------- grade and release


def test_grade_refuses_in_one_sentence_where_there_is_no_sandbox(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(box, "why_not", lambda: "bubblewrap is away: install it")
    assert cli.main(["grade"]) == 2
    said = capsys.readouterr().err.strip()
    assert "bubblewrap is away: install it" in said and "--no-sandbox" in said and said.count("\n") == 0


@pytest.mark.parametrize(
    ("option", "why_not", "boxed"),
    [([], None, True), (["--sandbox=auto"], None, True), (["--sandbox=auto"], "it is away", False),
     (["--sandbox=no"], None, False), (["--no-sandbox"], None, False)],
)  # fmt: skip
def test_grade_says_when_it_does_without(
    option: list[str], why_not: str | None, boxed: bool,
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    from autograder.batch import grade

    asked: list[Any] = []

    def grade_class(*_: object, **options: Any) -> grade.ClassReport:
        asked.append(options["sandbox"])
        options["starts"](1)
        return grade.ClassReport(("ex1-rang",), ())

    monkeypatch.setattr(box, "why_not", lambda: why_not)
    monkeypatch.setattr(grade, "grade_class", grade_class)
    monkeypatch.chdir(ROOT)
    cli.main(["grade", *option])
    said = capsys.readouterr().err
    assert asked == [boxed] and ("No sandbox" in said) is not boxed
    assert why_not is None or why_not in said


def test_nothing_is_said_of_a_sandbox_where_nothing_is_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """An unchanged copy keeps its result, which says how it was run."""
    tiny_course.make_course(tmp_path)
    tiny_course.hand_in(tmp_path, "amira", tiny_course.copy_notebook(written="Parce que."))
    monkeypatch.chdir(tmp_path)
    assert cli.main(["grade", "--no-sandbox"]) == 0
    assert "No sandbox" in capsys.readouterr().err
    assert cli.main(["grade", "--no-sandbox"]) == 0
    assert "sandbox" not in capsys.readouterr().err
    assert cli.main(["grade", "--no-sandbox", "--student", "amria", "42"]) == 1
    said = capsys.readouterr().err
    assert "Nobody called 'amria' has handed in anything; did you mean amira?" in said and "'42'" not in said
    assert cli.main(["grade", "--no-sandbox", "mini", "--student", "amira", "amria"]) == 3
    assert "did you mean amira?" in capsys.readouterr().err


def test_grade_with_nothing_submitted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "course.yaml").write_bytes((ROOT / "course.yaml").read_bytes())
    monkeypatch.chdir(tmp_path)
    assert cli.main(["grade", "--no-sandbox"]) == 1
    assert "No copy" in capsys.readouterr().err
    for command in (["grade", "--no-sandbox"], ["report"], ["export"], ["release", "--check"]):
        assert cli.main([*command[:1], "ex1-rag", *command[1:]]) == 2
        said = capsys.readouterr().err
        assert said.startswith("'ex1-rag' is no assignment of this course; did you mean ex1-rang?")
        assert str(tmp_path) not in said  # nothing is wrong with course.yaml


@pytest.mark.parametrize("option", [["--slurm-option", "foo=bar"], ["--chunk", "2"]])
def test_an_option_of_slurm_s_needs_slurm(option: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["grade", *option]) == 2
    assert f"{option[0]}: only together with --executor slurm" in capsys.readouterr().err
    assert cli.main(["grade", "--executor", "local", *option]) == 2


@pytest.mark.parametrize("typed", ["0", "-3", "deux", "1.5", ""])
def test_a_count_that_is_none_is_told_in_words(typed: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["grade", f"--jobs={typed}"]) == 2
    said = capsys.readouterr().err
    assert f"{typed!r} is not a whole number from 1 on" in said and "_count" not in said


def test_grade_ends_with_what_is_left_to_do_by_hand(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from autograder.batch import grade
    from autograder.batch.record import Recorded

    lost = a_result(tests=(FAILED_TEST,), score=0.0)
    row = grade.Row("anna", "ex1-rang", lost, Recorded("anna", "ex1-rang", pending=("ex1-question",)))
    report = grade.ClassReport(("ex1-rang",), (row,))
    monkeypatch.setattr(grade, "grade_class", lambda *_, **__: report)
    monkeypatch.chdir(ROOT)
    assert cli.main(["grade", "--no-sandbox"]) == 0
    *before, count, command = capsys.readouterr().out.strip().splitlines()
    assert any("Le texte manque." in line for line in before)
    assert "ex1-rang (1)" in count and "jupyter lab" in command and "Formgrader" in command


@pytest.fixture
def releaser(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    from autograder.notebook import release

    seen: dict[str, Any] = {"report": release.Report(("ex1-rang",), 7, ("7 days",), written=("ex1-rang",))}

    def make(course: Any, names: Any, **options: Any) -> release.Report:
        seen.update(options, names=list(names))
        report: release.Report = seen["report"]
        return report

    monkeypatch.setattr(release, "release", make)
    monkeypatch.chdir(ROOT)
    return seen


def test_release_passes_its_options(releaser: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["release", "ex1-rang", "--as-of", "2031-02-03", "--check", "--force"]) == 0
    assert releaser["names"] == ["ex1-rang"] and releaser["check"] and releaser["force"]
    assert releaser["as_of"].isoformat().startswith("2031-02-03T00:00")
    assert "7 days" in capsys.readouterr().out


def test_a_bundle_that_cannot_be_made_is_refused_before_the_proofs(
    releaser: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    long_ago = "2001-01-01"
    assert cli.main(["release", "--as-of", long_ago, "--bundle", str(tmp_path / "x.zip")]) == 2
    assert "no assignment is open yet" in capsys.readouterr().err
    (tmp_path / "course.yaml").write_bytes((ROOT / "course.yaml").read_bytes())
    monkeypatch.chdir(tmp_path)
    assert cli.main(["release", "ex1-rang", "--bundle", "x.zip"]) == 2
    assert "lacks pyproject.toml, README.md" in capsys.readouterr().err
    assert "names" not in releaser


@pytest.mark.parametrize("typed", [["--as-of=-P7D"], ["--as-of", "-P7D"]])
def test_release_counts_a_duration_from_the_session(releaser: dict[str, Any], typed: list[str]) -> None:
    from autograder.course import load

    assert cli.main(["release", *typed]) == 0
    assert (load().session.start - releaser["as_of"]).days == 7


@pytest.mark.parametrize("date", ["03/02/2031", "demain", "2031-02-30", "2031-02-03 10:00 +0100"])
def test_release_refuses_a_date_that_would_have_to_be_guessed(
    releaser: dict[str, Any], date: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["release", "--as-of", date]) == 2
    assert "accepted" in capsys.readouterr().err


def test_release_refused_or_to_mend_is_1(
    releaser: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    from autograder.notebook import release

    releaser["report"] = release.Report(("ex1-rang",), -3, refused="Nothing was released.")
    assert cli.main(["release"]) == 1
    assert "Nothing was released." in capsys.readouterr().err
    releaser["report"] = release.Report(
        ("ex1-rang",), 7, findings=(release.Finding("ex1-rang", "cell x has no points"),)
    )
    assert cli.main(["release", "ex1-rang", "--bundle", "never.zip"]) == 1
    assert "cell x has no points" in capsys.readouterr().out
    assert not Path("never.zip").exists()


def test_release_writes_the_bundle_once_all_is_proved(
    releaser: dict[str, Any], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from autograder.notebook import bundle

    monkeypatch.setattr(bundle, "bundle", lambda course, out, names: ["LISEZMOI.md"])
    assert cli.main(["release", "--bundle", "out.zip"]) == 0
    assert "LISEZMOI.md" in capsys.readouterr().out

    def broken(course: Any, out: Path, names: Any) -> list[str]:
        raise bundle.BundleError("the wheel was not built")

    monkeypatch.setattr(bundle, "bundle", broken)
    assert cli.main(["release", "--bundle", "out.zip"]) == 1
    assert "wheel" in capsys.readouterr().err


def test_a_bundle_needs_its_folder_before_anything_is_proved(
    releaser: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["release", "--bundle", str(tmp_path / "absent" / "out.zip")]) == 2
    assert "no folder" in capsys.readouterr().err
    assert "names" not in releaser


@pytest.mark.parametrize(
    ("typed", "jobs", "again"),
    [(["--cold"], 4, False), (["--jobs", "3"], 3, False), (["--cold", "--force"], 4, True),
     (["--jobs", "0"], None, False), (["--jobs", "deux"], None, False),
     (["--executor", "nuage"], None, False)],
)  # fmt: skip
def test_grade_s_jobs_and_force(
    typed: list[str], jobs: int | None, again: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    from autograder.batch import grade

    asked: list[Any] = []

    def grade_class(*_: object, **options: Any) -> grade.ClassReport:
        asked.append((options["jobs"], options["again"]))
        return grade.ClassReport(("ex1-rang",), ())

    monkeypatch.setattr(os, "cpu_count", lambda: 8)
    monkeypatch.setattr(grade, "grade_class", grade_class)
    monkeypatch.chdir(ROOT)
    code = cli.main(["grade", "--no-sandbox", *typed])
    assert asked == ([(jobs, again)] if jobs else []) and (code == 2) is (jobs is None)


def test_changed_marks_and_problem_copies_are_shown_without_their_control_characters(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from autograder.batch import grade
    from autograder.batch.record import Recorded

    def grade_class(*_: object, **options: Any) -> grade.ClassReport:
        options["tell"]("zoé [bold] mini: not graded: \x1b[2J…")
        row = grade.Row("anna", "ex1-rang", a_result(), Recorded("anna", "ex1-rang"))
        return grade.ClassReport(("ex1-rang",), (row,), changed=("anna ex1-rang: 4 of 6 → 6 of 6\x1b[2J",))

    monkeypatch.setattr(grade, "grade_class", grade_class)
    monkeypatch.chdir(ROOT)
    assert cli.main(["grade", "--no-sandbox"]) == 0
    shown = capsys.readouterr()
    assert "zoé [bold] mini: not graded: …" in shown.err
    assert f"{grader.CHANGED}\n  anna ex1-rang: 4 of 6 → 6 of 6\n" in shown.out and "\x1b" not in shown.out


def test_cold_jobs_leave_half_the_cores_and_warm_ones_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    for why_not in (None, "no reason"):
        monkeypatch.setattr("autograder.launch.warm.client.why_not", lambda why_not=why_not: why_not)
        for cores, jobs in ((1, 1), (2, 1), (8, 4), (None, 1)):
            monkeypatch.setattr(os, "cpu_count", lambda cores=cores: cores)
            assert grader._jobs(warm=False) == jobs
            assert grader._jobs(warm=True) == (jobs if why_not else 2 * (cores or 2))


@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_ctrl_c_on_the_real_command_is_130(tmp_path: Path) -> None:
    code = (
        # A shell's background job ignores SIGINT, and so would its children.
        "import signal, sys, time\nsignal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "from autograder import cli\nfrom autograder.commands import student\n"
        "def wait(**_): print('ready', flush=True); time.sleep(60)\n"
        "student.doctor = wait\nsys.exit(cli.main(['doctor']))"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    ) as child:  # fmt: skip
        assert child.stdout is not None
        child.stdout.readline()
        child.send_signal(signal.SIGINT)
        assert child.wait(30) == 130


def test_a_place_that_cannot_be_written_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(*_: object, **__: object) -> int:
        raise PermissionError(13, "Permission denied", "rendu/ex1-rang-a1.zip")

    monkeypatch.setattr(student, "pack", refuse)
    assert cli.main(["pack", "ex1-rang", "--id", "a1"]) == 2
    assert "rendu/ex1-rang-a1.zip" in capsys.readouterr().err
