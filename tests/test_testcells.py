"""Test cells in their trusted process: points, zero with a cause, skipped, not graded — and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from autograder.notebook.cells import Cell
from autograder.notebook.testcells import Answers, Outcome, Trusted, run_tests


def cell(ident: str, source: str, points: float = 2, role: str = "test") -> Cell:
    return Cell(0, ident, role, "code", source, points, True)  # type: ignore[arg-type]


def solution(*names: str) -> Cell:
    return cell("reponse", "\n".join(f"{name} = 0" for name in names), 0, "answer")


def run(
    *cells: Cell,
    labo: bytes | None = None,
    data: tuple[Path, ...] = (),
    limit_s: float = 60,
    **answers: object,
) -> list[Outcome]:
    trusted = Trusted(limit_s=limit_s)
    files = {} if labo is None else {"labo.py": labo}
    return run_tests([*cells, solution(*answers)], Answers(answers), files, data, trusted)


def one(source: str, **answers: object) -> Outcome:
    return run(cell("t", source), **answers)[0]


MARKS = "from autograder import marks\nm = marks(2)\n"


def test_full_partial_and_zero() -> None:
    source = MARKS + "m.check(a, 'a est faux', points=1)\nm.check(b, 'b est faux', points=1)\nm.total()"
    full, partial, zero = (one(source, a=a, b=b) for a, b in ((True, True), (True, False), (False, False)))
    assert (full.status, full.points) == ("passed", 2)
    assert (partial.status, partial.points) == ("partial", 1)
    assert "b est faux" in partial.message and "a est faux" not in partial.message
    assert (zero.status, zero.points) == ("failed", 0)
    assert "a est faux" in zero.report


def test_a_value_without_the_marks_api() -> None:
    assert one("x = 1\nx + 0.5").points == 1.5
    assert one("assert 1 == 1").status == "passed"
    failed = one("assert 1 == 2, 'un n’est pas deux'")
    assert (failed.status, failed.message) == ("failed", "un n’est pas deux")


@pytest.mark.parametrize(
    "source", ["True", "-1", "float('nan')", "'2'", "3", "1 / 0", "raise ValueError", "(", "exit()"]
)
def test_the_author_s_mistake_is_never_a_zero(source: str) -> None:
    outcome = one(source)
    assert outcome.status == "not_graded"
    assert "l'erreur est dans le test" in outcome.message
    assert outcome.cause is not None


def test_points_that_do_not_add_up_are_the_author_s_mistake() -> None:
    outcome = one(MARKS + "m.check(True, '', points=5)\nm.total()")
    assert (outcome.status, outcome.points) == ("not_graded", 0)


def test_lines_that_put_fewer_points_at_stake_than_the_cell_are_the_author_s_mistake() -> None:
    source = MARKS + "m.check(a, 'a est faux', points=1)\nm.total()"
    for answer in (True, False):
        outcome = one(source, a=answer)
        assert (outcome.status, outcome.max_points) == ("not_graded", 2)
        assert "give 1 points, the cell is worth 2" in str(outcome.cause)


def test_a_student_s_own_copy_counts_for_its_visible_lines() -> None:
    source = MARKS + "m.check(a, 'a est faux', points=1)\nm.total()"
    cells, trusted = [cell("t", source), solution("a")], Trusted(limit_s=60)
    (outcome,) = run_tests(cells, Answers({"a": True}), {}, (), trusted, with_solution=False)
    assert (outcome.status, outcome.points, outcome.max_points) == ("passed", 1, 1)


def test_not_graded_by_the_test_itself() -> None:
    outcome = one("from autograder import NotGraded\nraise NotGraded('machine occupée')")
    assert (outcome.status, outcome.message) == ("not_graded", "machine occupée")


def test_stderr_costs_nothing() -> None:
    outcome = one("import sys\nprint('bruit', file=sys.stderr)\nprint('bonjour')\n2.0")
    assert (outcome.status, outcome.stdout) == ("passed", "bonjour\n")


def test_a_missing_answer_is_zero_and_names_the_variable() -> None:
    cells = [cell("t", "moyenne + unite"), solution("moyenne", "unite")]
    answers = Answers({"unite": 1}, {"moyenne": "undefined"})
    outcome = run_tests(cells, answers, {}, (), Trusted())[0]
    assert outcome.status == "failed"
    assert "`moyenne`" in outcome.message and "unite" not in outcome.message


@pytest.mark.parametrize(("reason", "words"), [("Tensor", "type `Tensor`"), ("size", "volumineuse")])
def test_an_answer_that_cannot_cross_says_why(reason: str, words: str) -> None:
    cells = [cell("t", "moyenne"), solution("moyenne")]
    outcome = run_tests(cells, Answers({}, {"moyenne": reason}), {}, (), Trusted())[0]
    assert outcome.status == "failed" and words in outcome.message


def test_a_name_that_no_answer_cell_defines_is_the_author_s_mistake() -> None:
    outcome = run_tests([cell("t", "faute_de_frappe"), solution("moyenne")], Answers(), {}, (), Trusted())[
        0
    ]
    assert outcome.status == "not_graded"
    assert "faute_de_frappe" in (outcome.cause or "")


def test_a_test_whose_every_line_is_hidden_passes_nothing() -> None:
    outcome = one("# Tests cachés : vos trois listes.\n\n")
    assert (outcome.status, outcome.points, outcome.message) == ("skipped", 0, "")


def test_with_a_labo_alone_the_tests_of_answers_are_skipped() -> None:
    cells = [cell("t", "moyenne"), cell("u", "2.0"), solution("moyenne")]
    outcomes = run_tests(cells, Answers(handed_in=False), {"labo.py": b""}, (), Trusted())
    assert [outcome.status for outcome in outcomes] == ["skipped", "passed"]


def test_answers_that_were_never_reached_are_not_graded() -> None:
    cells = [cell("t", "moyenne"), solution("moyenne")]
    outcome = run_tests(cells, Answers({}, {}, stopped="boucle sans fin"), {}, (), Trusted())[0]
    assert (outcome.status, outcome.cause) == ("not_graded", "boucle sans fin")


def test_tests_share_what_they_define_and_a_test_that_depends_on_a_failed_one_ends_like_it() -> None:
    first = cell("a", "outil = 1\n2.0")
    assert [o.status for o in run(first, cell("b", "outil + 1"))] == ["passed", "passed"]
    broken = cell("a", "assert False, 'non'\noutil = 1")
    outcomes = run(broken, cell("b", "outil + 1"))
    assert [o.status for o in outcomes] == ["failed", "failed"]
    assert "`a`" in outcomes[1].message


def test_the_folder_is_clean_and_holds_labo_and_the_data(tmp_path: Path) -> None:
    table = tmp_path / "table.csv"
    table.write_text("1")
    source = "import os\nassert sorted(os.listdir()) == ['labo.py', 'table.csv'], os.listdir()\n2.0"
    assert run(cell("t", source), labo=b"print(1)", data=(table,))[0].status == "passed"


def test_student_code_beside_the_tests_is_never_imported() -> None:
    source = "import sys\nassert '' not in sys.path and __import__('os').getcwd() not in sys.path\n2.0"
    assert run(cell("t", source), labo=b"raise SystemExit")[0].status == "passed"


def test_a_copy_that_takes_too_long_is_not_graded_and_keeps_what_was_done() -> None:
    outcomes = run(cell("a", "2.0"), cell("b", "import time\ntime.sleep(600)"), cell("c", "2.0"), limit_s=8)
    assert [o.status for o in outcomes] == ["passed", "not_graded", "not_graded"]
    assert "8 s" in outcomes[1].message


def test_a_test_process_that_dies_is_not_graded() -> None:
    outcomes = run(cell("a", "2.0"), cell("b", "import os\nos._exit(3)"))
    assert [o.status for o in outcomes] == ["passed", "not_graded"]


def test_course_key_and_runs_are_passed_on(tmp_path: Path) -> None:
    source = "import os\nassert os.environ['AUTOGRADER_RUNS'] and os.environ['AUTOGRADER_COURSE']\n2.0"
    key = tmp_path / "key"
    key.write_bytes(b"k" * 32)
    trusted = Trusted(tmp_path, key, tmp_path / "runs")
    drawn = "from autograder import drawn\nx = drawn('essai').random()\nprint(x)\n2.0"
    first = [cell("t", source), cell("u", drawn)]
    outcomes = run_tests(first, Answers(), {"labo.py": b"print(1)"}, (), trusted)
    again = run_tests([cell("u", drawn)], Answers(), {"labo.py": b"print(1)"}, (), trusted)
    other = run_tests([cell("u", drawn)], Answers(), {"labo.py": b"print(2)"}, (), trusted)
    assert [o.status for o in outcomes] == ["passed", "passed"]
    assert again[0].stdout == outcomes[1].stdout != other[0].stdout


def test_a_huge_print_is_cut() -> None:
    assert len(one("print('x' * 30_000_000)\n2.0").stdout) < 100_000
