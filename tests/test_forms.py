"""Plain answers in whatever form they were written; what cannot be read without guessing is None."""

from __future__ import annotations

import math
from typing import Any

import pytest

from autograder.verdict.forms import (
    by_rank,
    choice,
    number,
    rank_lines,
    rank_pairs,
    ranks,
    variable,
    whole,
    words,
)

FOUR = [(0, 0), (1, 1), (2, 0), (3, 1)]


@pytest.mark.parametrize("value", [14, 14.0, "14", " 14 ", "14.0", "14,0", "+14"])
def test_numbers(value: object) -> None:
    assert number(value) == 14 and whole(value) == 14


@pytest.mark.parametrize(
    "value", [True, None, "quatorze", "14 ou 15", [14], math.nan, math.inf, 10**400, "", "14 %", "1e1"]
)
def test_no_numbers(value: object) -> None:
    assert number(value) is None and whole(value) is None


def test_a_half_is_no_whole_number() -> None:
    assert number("3,5") == 3.5 and whole(3.5) is None


@pytest.mark.parametrize(
    "value", ["blocage", "Blocage", " BLOCAGE.", "un blocage", "C'est un blocage", "«\u00a0blocage\u00a0»"]
)
def test_a_choice(value: str) -> None:
    assert words(value) == "blocage"


def test_another_choice() -> None:
    assert words("pas_lent") == words("Un pas lent") == "pas lent"
    assert words("blocage ou pas lent") not in ("blocage", "pas lent") and words(3) is None


@pytest.mark.parametrize(
    "value", [
        "LOCAL_RANK", "local_rank", "Local rank", "localrank", "$LOCAL_RANK", "${LOCAL_RANK}", "LOCAL-RANK",
        "os.environ['LOCAL_RANK']", 'int(os.environ["LOCAL_RANK"])', "la variable LOCAL_RANK",
    ],
)  # fmt: skip
def test_a_variable(value: str) -> None:
    assert variable(value) == "local_rank"


def test_one_variable_and_no_more() -> None:
    assert variable("RANK") == "rank" and variable("WORLD_SIZE") == "world_size"
    assert variable("LOCAL_RANK ou RANK") is None
    assert variable("GLOBALRANK") is None and variable("") is None and variable(0) is None


def test_one_item_per_rank() -> None:
    for value in ([14, 3], (14, 3), {0: 14, 1: 3}, {"1": 3, "0": 14}, {"rang 0": 14, "rang 1": 3}):
        assert by_rank(value) == [14, 3]
    for value in ([14], [14, 3, 3], 14, "14, 3", {0: 14}, {0: 14, 2: 3}, {"rang 0 et 1": 14, "x": 2}, None):
        assert by_rank(value) is None


@pytest.mark.parametrize(
    "value",
    [
        FOUR,
        [[0, 0], [1, 1], [2, 0], [3, 1]],
        [("0", "0"), ("1", 1.0), (2, 0), (3, 1)],
        {0: 0, 1: 1, 2: 0, 3: 1},
        {"RANK 0": "0", "RANK 1": "1", "RANK 2": 0, "3": 1},
        [[(0, 0), (1, 1)], [(2, 0), (3, 1)]],
        {"noeud 0": [(0, 0), (1, 1)], "noeud 1": [(2, 0), (3, 1)]},
        {"processus A": (0, 0), "processus B": (1, 1), "processus C": (2, 0), "processus D": (3, 1)},
        [{"RANK": k, "LOCAL_RANK": local} for k, local in FOUR],
        {k: {"rank": k, "local_rank": local} for k, local in FOUR},
        {"LOCAL_RANK": [0, 1, 0, 1], "RANK": [0, 1, 2, 3]},
        [f"RANK={k} LOCAL_RANK={local}" for k, local in FOUR],
        [f"local_rank {local}, rank {k}" for k, local in FOUR],
        [f"({k}, {local})" for k, local in FOUR],
        "(0, 0), (1, 1), (2, 0), (3, 1)",
        "[[0, 0], [1, 1], [2, 0], [3, 1]]",
        "\n".join(f"RANK={k} LOCAL_RANK={local}" for k, local in FOUR),
    ],
)
def test_pairs(value: object) -> None:
    assert rank_pairs(value) == FOUR


@pytest.mark.parametrize(
    "value",
    [
        None, 4, True, "RANK de 0 à 3", "1 2 3", [0, 1, 2, 3], [(0, 0, 0)], [(True, 0)], [(0.5, 0)],
        "(0, 0), (1, 1) ou 2", "(0, 0) ; 1",
        {"RANK": [0, 1], "LOCAL_RANK": [0]}, {"RANK": 0, "LOCAL_RANK": None}, [(0, 0), "?"],
    ],
)  # fmt: skip
def test_no_pairs(value: object) -> None:
    assert rank_pairs(value) is None


ANY = {("entre", None), ("sort", None)}
EACH = {(word, rank) for word in ("entre", "sort") for rank in (0, 1)}


@pytest.mark.parametrize(
    ("value", "read"),
    [
        (["entre k", "sort k"], ANY),
        (("Sort", "Entre"), ANY),
        ("entre k, sort k", ANY),
        ("entre puis sort", ANY),
        ("`entre k` et `sort k`", ANY),
        ([["entre", "sort"], ["entre", "sort"]], ANY),
        (["entre {k}", "sort rang k"], ANY),
        (["entre 0", "sort 0", "entre 1", "sort 1"], EACH),
        ({0: ["entre 0", "sort 0"], 1: ["entre", "sort"]}, EACH),
        ({"rang 0": "entre 0\nsort 0", "rang 1": "entre 1\nsort 1"}, EACH),
        (["sort 0"], {("sort", 0)}),
        ("entre k sort k", ANY), (["entre <k>", "sort <k>"], ANY),
        (["entre 0 sort 0", "rang 1 : entre 1", "rang 1 : sort k"], EACH),
        (["saute 1", "sort 1"], {("saute", 1), ("sort", 1)}),
    ],
)
def test_lines(value: object, read: Any) -> None:
    assert rank_lines(value) == read


@pytest.mark.parametrize(
    "value",
    [
        None, 2, ["entre", 3], "moyenne k", {0: ["entre 1"]}, {"x": ["entre"]}, "ni entre ni sort",
        "rang 0 : entre 1",
    ],
)
def test_no_lines(value: object) -> None:
    assert rank_lines(value) is None


@pytest.mark.parametrize("digits", ["1" * 5000, "²", "٣" * 5000])
def test_no_run_of_digits_raises(digits: str) -> None:
    """Python refuses to read a number of more than 4300 digits."""
    readers = (number, whole, words, ranks, variable, by_rank, rank_pairs, rank_lines)
    for value in (digits, f"rang {digits}", f"entre {digits}", [digits, "0"], {digits: 0, "1": "entre 1"}):
        for read in readers:
            read(value)
    assert ranks(digits) is None and rank_lines(f"entre {digits}") is None


def test_the_ranks_that_an_answer_names() -> None:
    for value in (1, 1.0, "1", "rang 1", "le rang 1", "RANK", [1], "rang = 1"):
        assert ranks(value) == (None if value == "RANK" else {1}), value
    for value in ([0, 1], "0 et 1", "les deux", "tous les rangs", "rangs 0 et 1", ["rang 0", "rang 1"]):
        assert ranks(value) == {0, 1}, value
    assert ranks([]) is None and ranks("peut-être") is None and ranks(None) is None and ranks(True) is None


def test_one_of_several_choices() -> None:
    kinds = ("forme différente", "dtype différent")
    assert choice("Forme differente", kinds) == choice("une-forme".replace("une-", "") + "_différente", kinds)
    assert choice("autre", kinds) is None and choice(3, kinds) is None and choice("", kinds) is None
