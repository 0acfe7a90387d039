"""What a student sees in the terminal: clean text, a block per rank, the cause with its place, advice."""

from __future__ import annotations

import re

import pytest

from autograder.launch.run import RankLog, Request, Run
from autograder.report.run_view import check_view, clean, diagnosis_lines, unsaid_place, view
from autograder.verdict import catalogue
from autograder.verdict.diagnosis import Diagnosis


def a_run(*ranks: RankLog, **changes: object) -> Run:
    values: dict[str, object] = {
        "request": Request(), "command": "torchrun labo.py", "script_sha256": "", "exit_code": 0,
        "timed_out": False, "duration_s": 6.25, "ranks": ranks,
    }  # fmt: skip
    return Run(**(values | changes))  # type: ignore[arg-type]


def test_control_characters_never_reach_the_terminal() -> None:
    assert clean("\x1b[31mrouge\x1b[0m") == "rouge"
    assert clean("\x1b]0;titre\x07texte\x1b[2J") == "texte"
    assert clean("a\x00b\x08\u202ec") == "a�b��c"
    assert clean("tab\tgardé\r\nligne") == "tab\tgardé\nligne"


def test_a_progress_bar_keeps_its_last_state() -> None:
    assert clean(" 10%\r 50%\r100%\nfin") == "100%\nfin"


def test_each_rank_is_one_block_even_when_their_lines_were_written_together() -> None:
    shown = view(
        a_run(RankLog(0, 0, 0, "entre 0\nsort 0\n", ""), RankLog(1, 1, 0, "entre 1", "attention\n")), None
    )
    first, second = shown.split("rang 1")
    assert "│ entre 0\n│ sort 0\n└──" in first
    assert "│ entre 1\n│ (sortie d'erreur)\n│   attention\n└──" in second
    assert "Rien d'anormal" in second and "6,2 s" in second


def test_a_silent_rank_says_so_and_a_long_one_is_cut_in_the_middle() -> None:
    shown = view(
        a_run(RankLog(0, 0, 0, "", ""), RankLog(1, 1, 0, "\n".join(map(str, range(1000))), "")), None
    )
    assert "│ (rien)" in shown
    assert "│ 0\n" in shown and "│ 999\n" in shown and "│ 500\n" not in shown
    assert len(shown.splitlines()) < 90


def test_a_rank_that_the_launcher_ended_is_not_blamed() -> None:
    shown = view(a_run(RankLog(0, 0, -15, "", ""), RankLog(1, 1, 1, "", ""), exit_code=1), None)
    assert "rang 0 (arrêté par torchrun" in shown and "rang 1 (code 1)" in shown


def test_a_rank_that_was_stopped_after_its_end_had_ended() -> None:
    ended = RankLog(1, 1, -15, "", "", reached_end=True)
    shown = view(a_run(RankLog(0, 0, 1, "", ""), ended, exit_code=1), None)
    assert "rang 1 (arrivé à sa fin, puis arrêté" in shown and "un autre rang" not in shown


def test_at_our_own_limit_no_other_rank_is_said_to_have_failed() -> None:
    ranks = RankLog(0, 0, -15, "", ""), RankLog(1, 1, -15, "", "")
    shown = view(a_run(*ranks, exit_code=1, timed_out=True), None)
    assert "un autre rang" not in shown and shown.count("encore en cours") == 2


def test_without_ranks_the_merged_text_speaks() -> None:
    shown = view(a_run(stdout="entre 0entre 1\n", per_rank=False), None)
    assert "tous les rangs" in shown and "entre 0entre 1" in shown


def test_the_cause_has_its_rank_its_line_and_the_advice() -> None:
    found = Diagnosis("exception", 1, 2, "Une division par zéro.", "Relisez la ligne.", "P")
    shown = view(a_run(RankLog(1, 1, 1, "", ""), exit_code=1, source="import torch\n1/0\n"), found)
    tail = shown[shown.index("Cause") :]
    assert tail.splitlines() == [
        "Cause (rang 1, ligne 2)\u00a0: Une division par zéro.", "    2 | 1/0",
        "À essayer\u00a0: Relisez la ligne.",
    ]  # fmt: skip


def test_what_the_cause_says_already_is_not_said_twice() -> None:
    found = {"rank": 1, "line": 2, "message": "Rang 1, ligne 2 : `1/0`", "advice": ""}
    assert diagnosis_lines(found, "import torch\n1/0\n") == ["Cause\u00a0: Rang 1, ligne 2 : `1/0`"]


@pytest.mark.parametrize(
    ("message", "where"),
    [("Rangs 0 et 1 : `KeyError`", "ligne 4"), ("Rangs 1, 0 et 2 : `KeyError`", "ligne 4"),
     ("Le rang 0 se tait", "ligne 4"), ("Le rang 10 se tait (ligne 41)", "rang 0, ligne 4"),
     ("Les rangs 1 et 2, ligne 4", "rang 0")],
)  # fmt: skip
def test_only_the_place_that_the_message_does_not_name_is_added(message: str, where: str) -> None:
    assert unsaid_place({"rank": 0, "line": 4, "message": message}) == where


def test_a_line_out_of_the_script_is_not_quoted() -> None:
    assert len(diagnosis_lines({"rank": None, "line": 9, "message": "m", "advice": ""}, "x = 1\n")) == 1


def test_the_machine_s_fault_is_said_as_such() -> None:
    shown = " ".join(view(a_run(infra="hostname", exit_code=1), None).split())   # whatever the screen's width
    assert "pas votre script" in shown and "autograder doctor" in shown


def test_a_time_out_names_the_limit() -> None:
    assert "60 s" in view(a_run(timed_out=True, exit_code=None), None)


def a_check(**changes: object) -> dict[str, object]:
    tests = [
        {"id": "ex1-a", "status": "passed", "points": 4.0, "max_points": 4.0, "message": "✔", "advice": ""},
        {
            "id": "ex1-b",
            "status": "partial",
            "points": 1.5,
            "max_points": 4.0,
            "message": "Vu : 3",
            "advice": "Divisez.",
        },
        {
            "id": "ex1-c",
            "status": "failed",
            "points": 0.0,
            "max_points": 4.0,
            "message": "Rien",
            "advice": "",
        },
        {"id": "ex1-d", "status": "skipped", "points": 0.0, "max_points": 4.0, "message": "", "advice": ""},
    ]
    result = {
        "schema": 1, "assignment": "ex1-rang", "score": 5.5, "max_score": 12.0, "graded": True, "cause": None,
        "tests": tests, "flags": [], "diagnosis": None,
    }  # fmt: skip
    return result | changes


def test_a_check_shows_findings_advice_and_score() -> None:
    shown = check_view(a_check(), ["copie réparée"])
    assert "◐ ex1-b" in shown and "(1,5/4)" in shown and "Divisez." in shown
    assert "✘ ex1-c" in shown and "– ex1-d" in shown
    assert "Remarque\u00a0: copie réparée" in shown
    assert "5,5 / 12" in shown
    assert "pack" not in shown


def test_the_cause_comes_first_and_its_advice_once() -> None:
    advice = "Remplacez la ligne."
    cause = {"rank": 0, "line": None, "message": "Il reste un trou.", "advice": advice}
    tests = [{"id": name, "status": "failed", "points": 0.0, "max_points": 1.0,
              "message": "Un texte manque.", "advice": f"{advice}\nRelisez."} for name in "ab"]  # fmt: skip
    shown = check_view(a_check(tests=tests, diagnosis=cause)).splitlines()
    assert shown[:2] == ["Cause (rang 0)\u00a0: Il reste un trou.", f"À essayer\u00a0: {advice}"]
    assert "\n".join(shown).count(advice) == 1 and "\n".join(shown).count("Relisez.") == 2
    said = [{**test, "message": "Il reste un trou."} for test in tests]   # the tests say it themselves
    assert "Cause" not in check_view(a_check(tests=said, diagnosis=cause))


def test_a_remark_on_what_passed_comes_after_it() -> None:
    late = {"rank": 1, "line": None, "message": "Le rang 1 arrive en retard.", "advice": "Cherchez."}
    passed = [{"id": "a", "status": "passed", "points": 1.0, "max_points": 1.0, "message": "", "advice": ""}]
    shown = check_view(a_check(tests=passed, diagnosis=late))
    assert shown.index("✔ a") < shown.index("en retard") < shown.index("Tout est réussi")


def test_a_perfect_check_says_how_to_hand_in() -> None:
    tests = [{"id": "a", "status": "passed", "points": 1.0, "max_points": 1.0, "message": "", "advice": ""}]
    assert "autograder pack ex1-rang" in check_view(a_check(tests=tests))


def test_a_script_that_differs_from_its_cell_is_not_congratulated_for_it() -> None:
    tests = [{"id": "a", "status": "passed", "points": 1.0, "max_points": 1.0, "message": "", "advice": ""}]
    shown = " ".join(check_view(a_check(tests=tests, flags=["file-differs"]), ["labo.py diffère"]).split())
    assert "Remarque : labo.py diffère" in shown and "autograder check ex1-rang FICHIER" in shown
    assert "Tout est réussi ici" not in shown and "autograder pack" not in shown


@pytest.mark.parametrize("flag", [*catalogue.ids(), "file-differs", "other-student", "de-l-exercice"])
def test_a_flag_is_told_in_words_or_not_at_all(flag: str) -> None:
    shown = check_view(a_check(flags=[flag]))
    assert not re.search(rf"Remarque\W+{flag}$", shown, re.MULTILINE) and "{" not in shown
    assert ("Remarque" in shown) == (flag in catalogue.ids())


def test_hidden_tests_are_not_a_failure_of_the_student() -> None:
    hidden = {"id": "b", "status": "skipped", "points": 0.0, "max_points": 3.0, "message": "", "advice": ""}
    passed = {"id": "a", "status": "passed", "points": 1.0, "max_points": 1.0, "message": "", "advice": ""}
    shown = check_view(a_check(tests=[passed, hidden]))
    assert "à la correction seulement" in shown and "3 points" in shown
    assert "autograder pack" in shown
    unanswered = {**hidden, "message": "Réponse non évaluée."}
    shown = check_view(a_check(tests=[passed, unanswered]))
    assert "Réponse non évaluée." in shown and "autograder pack" not in shown


def test_a_check_that_could_not_be_graded_costs_nothing() -> None:
    shown = " ".join(check_view(a_check(graded=False, cause="plus de place sur le disque", tests=[])).split())
    assert "non noté" in shown and "plus de place" in shown and "Aucun point n'est perdu" in shown
    assert "5,5" not in shown
