"""Texts count in any order, even glued; numbers and names are never found inside others."""

import pytest
from runs_made import a_run, log

from autograder.verdict import texts

GLUED = "entre 0entre 1\nsort 0moyenne 0 [3.0, 5.0]moyenne 1 [3.0, 5.0]sort 1"


@pytest.mark.parametrize(
    "text", ["entre 0", "entre 1", "sort 0", "sort 1", "moyenne 0 [3.0, 5.0]", "moyenne 1 [3.0, 5.0]"]
)
def test_glued_texts_are_found(text):
    assert texts.present(a_run(log(0, GLUED)), text)


@pytest.mark.parametrize(
    ("text", "output"),
    [
        ("3.0", "13.0"),
        ("3.0", "3.05"),
        ("3", "30"),
        ("3", "3.5"),
        ("3", "13"),
        ("3", "-3"),
        ("3", "1.3"),
        ("3", "1e3"),
        ("3", "3e5"),
        ("entre 1", "entre 10"),
        ("entre 1", "entre 1.5"),
        ("RANK=1", "LOCAL_RANK=1"),
        ("RANK=1", "RANK=12"),
        ("WORLD_SIZE=2.", "WORLD_SIZE=2.5"),
        ("reduce_ms", "all_reduce_ms"),
        ("moyenne 0 [3.0, 5.0]", "moyenne 0 [13.0, 5.0]"),
    ],
)
def test_guarded(text, output):
    assert not texts.present(a_run(log(0, output)), text)


@pytest.mark.parametrize(
    ("text", "output"),
    [
        ("3", "a 3."),
        ("3.0", "[3.0, 5.0]"),
        ("RANK=1", "LOCAL_RANK=0 RANK=1"),
        ("backend=gloo", "backend=glooRANK=1"),
        ("RANK=1 LOCAL", "backend=glooRANK=1 LOCAL"),
        ("Ce laboratoire attend WORLD_SIZE=2.", "Ce laboratoire attend WORLD_SIZE=2.\n"),
        ("-3", "[-3]"),
        ("élève", "un élève"),
    ],
)
def test_found(text, output):
    assert texts.present(a_run(log(0, output)), text)


def test_by_rank_and_anywhere():
    run = a_run(log(0, "saute 0\n"), log(1, "entre 1\n", "RuntimeError: Timed out waiting 4000ms\n", 1))
    assert texts.present(run, "saute 0", 0) and not texts.present(run, "saute 0", 1)
    assert texts.present(run, "Timed out waiting", 1) and texts.present(run, "Timed out waiting")
    assert texts.count(a_run(log(0, "a\na\n"), log(1, "a")), "a") == 3
    assert not texts.present(run, "entre 1", 7)


def test_merged_output_speaks_for_every_rank():
    run = a_run(stdout="sort 0sort 1", per_rank=False, exit_code=0)
    assert texts.present(run, "sort 1", 1) and texts.present(run, "sort 0")


def test_a_source_line_quoted_by_a_traceback_was_not_printed():
    stderr = (
        '[rank0]: Traceback (most recent call last):\n[rank0]:   File "/x/labo.py", line 3, in <module>\n'
        '[rank0]:     1 / 0 or print("sort 0")\n[rank0]:     ~~^~~\n'
        "[rank0]: ZeroDivisionError: division by zero\n"
    )
    run = a_run(log(0, "", stderr, 1))
    assert not texts.present(run, "sort 0") and texts.present(run, "division by zero", 0)


def test_nearest_cuts_glued_lines():
    run = a_run(log(0, "sort 0moyenne 0 [6.0, 10.0]moyenne 1 [6.0, 10.0]\n"))
    assert texts.nearest(run, "moyenne 0 [3.0, 5.0]", 0) == "moyenne 0 [6.0, 10.0]"
    assert texts.nearest(a_run(log(0, "bonjour\n")), "moyenne 0 [3.0, 5.0]") is None


def test_results_are_decoded_from_each_marker():
    glued = (
        'RESULTAT {"rang": 0, "pas_ms": [1.5]}RESULTAT {"rang": 1}\nRESULTAT pas du json RESULTAT [1]\n'
        'RESULTAT: {"a": {}}'
    )
    assert texts.results(a_run(log(0, glued))) == [
        (0, {"rang": 0, "pas_ms": [1.5]}),
        (0, {"rang": 1}),
        (0, {"a": {}}),
    ]
    assert texts.results(a_run(stdout='RESULTAT {"rang": 1}', per_rank=False, exit_code=0)) == [
        (None, {"rang": 1})
    ]
    assert texts.results(a_run(log(0, "RESULTAT " + '{"a":' * 100_000))) == []


def test_hostile_output_is_fit_to_be_shown():
    shown = texts.clean(
        "\x1b[31mrouge\x1b[0m\x1b]0;titre\x07\x08\x00\u202egauche\r\n" + "x" * 100_000 + "\n" * 500 + "fin"
    )
    assert shown.startswith("rougegauche\n") and shown.endswith("fin")
    assert len(shown) < 500 and len(shown.splitlines()) <= 12
    assert "\n" not in texts.one_line("a\nb\n\nc")
    texts.clean("\ud800").encode("utf-8")
