"""A pasted output beside a fresh launch: harmless differences are told apart from other values."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from autograder.launch.run import Request, Run
from autograder.verdict import pasted
from autograder.verdict.marks import marks
from autograder.verdict.outcome import TestFailed
from tests.runs_made import a_run, log, traceback

LINES_0 = [
    "RANK=0 LOCAL_RANK=0 WORLD_SIZE=2 backend=gloo", "entre 0", "sort 0", "moyenne 0 [3.0, 5.0]",
    "gradient 0 [[0.5, 1.5]]", "all_reduce_ms 0.312",
]
LINES_1 = [
    "RANK=1 LOCAL_RANK=1 WORLD_SIZE=2 backend=gloo", "entre 1", "sort 1", "moyenne 1 [3.0, 5.0]",
    "gradient 1 [[0.5, 1.5]]",
]
OUTPUT = "\n".join([*LINES_0, *LINES_1]) + "\n"
BANNER = """W1126 13:02:11.402000 8120 torch/distributed/run.py:852]
W1126 13:02:11.402000 8120 torch/distributed/run.py:852] *****************************************
W1126 13:02:11.402000 8120 torch/distributed/run.py:852] Setting OMP_NUM_THREADS environment variable for each
W1126 13:02:11.402000 8120 torch/distributed/run.py:852] *****************************************
"""


def solo(out0: str = "\n".join(LINES_0) + "\n", out1: str = "\n".join(LINES_1) + "\n") -> Run:
    return a_run(log(0, out0), log(1, out1))


def hang(timeout_s: int = 8) -> Run:
    error = f"RuntimeError: [../gloo/unbound_buffer.cc:88] Timed out waiting {timeout_s}000ms for recv"
    ranks = "RANK={k} LOCAL_RANK={k} WORLD_SIZE=2 backend=gloo\n"
    return a_run(
        log(0, ranks.replace("{k}", "0") + "entre 0\n", traceback(40, error, prefix="[rank0]: "), code=1),
        log(1, ranks.replace("{k}", "1") + "saute 1\n", code=-15),
    )


def kind(text: str | None, run: Run | None = None) -> str:
    return pasted.compare(text, run or solo()).kind


# -- harmless ------------------------------------------------------------------------------------------


def test_the_same_texts_are_the_same() -> None:
    assert pasted.compare(OUTPUT, solo()).kind == "same"


@pytest.mark.parametrize(("text", "note"), [
    (OUTPUT.replace("0.312", "4.071"), "timing"),
    (OUTPUT.replace("0.312", "4"), "timing"),
    (OUTPUT.replace("all_reduce_ms 0.312", "all_reduce_ms: 1.2e-1"), "timing"),
    ("\n".join([*LINES_1, *LINES_0]), "order"),
    ("\n".join(reversed([*LINES_0, *LINES_1])), "order"),
    (OUTPUT.replace("\nentre", "entre"), "glued"),
    (OUTPUT.replace("\n", ""), "glued"),
    (BANNER + OUTPUT, "noise"),
    ("lea@portable:~$ torchrun --nproc_per_node=2 --master_port=29777 labo.py\n" + OUTPUT, "noise"),
    ("PS C:\\solo> $env:MCI_ENTREES='[[1,0],[0,3]]'\n" + OUTPUT + "PS C:\\solo> ", "noise"),
    ("".join(f"[rank{line.split()[0][-1]}]: {line}\n" for line in OUTPUT.splitlines()), "noise"),
    ("".join(f"[default0]:{line}\n" for line in OUTPUT.splitlines()), "noise"),
    (OUTPUT + OUTPUT, "repeated"),
    (OUTPUT.replace("[3.0, 5.0]", "[3.00, 5.000]"), "rounded"),
    (OUTPUT.replace("gradient 0 [[0.5, 1.5]]", "gradient 0 tensor([[0.5000, 1.5000]])"), "rounded"),
    (OUTPUT.replace("WORLD_SIZE=2 backend", "WORLD_\nSIZE=2 backend"), "wrapped"),
    (OUTPUT.replace("[[0.5, 1.5]]", "[[0.5, 1.\n5]]"), "wrapped"),
])
def test_what_says_nothing_about_the_script_is_harmless(text: str, note: str) -> None:
    found = pasted.compare(text, solo())
    assert found.kind == "harmless" and note in found.notes and found.right, found


def test_the_student_s_own_lines_are_nobody_s_business() -> None:
    run = solo(out0="bonjour du rang 0\n" + "\n".join(LINES_0) + "\n")
    assert kind(OUTPUT, run) == "same"
    assert kind("je suis prête\n" + OUTPUT, run) == "harmless"


def test_a_launch_that_glued_its_own_texts_is_compared_alike() -> None:
    run = solo(out0="".join(LINES_0), out1="".join(LINES_1))
    assert pasted.compare(OUTPUT, run).right
    assert pasted.compare("".join([*LINES_0, *LINES_1]), run).right


# -- another output ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("old", "new", "line"), [
    ("gradient 0 [[0.5, 1.5]]", "gradient 0 [[0.5, 1.0]]", 5),
    ("gradient 1 [[0.5, 1.5]]", "gradient 1 [[0.0, 3.0]]", 11),
    ("moyenne 0 [3.0, 5.0]", "moyenne 0 [13.0, 5.0]", 4),
    ("moyenne 0 [3.0, 5.0]", "moyenne 0 [3.0, 5.05]", 4),
    ("moyenne 0 [3.0, 5.0]", "moyenne 0 [3.0, 5.0, 0.0]", 4),
    ("moyenne 0 [3.0, 5.0]", "moyenne 0 []", 4),
    (LINES_0[0], "RANK=0 LOCAL_RANK=1 WORLD_SIZE=2 backend=gloo", 1),
    (LINES_0[0], "RANK=0 LOCAL_RANK=0 WORLD_SIZE=2 backend=nccl", 1),
    ("sort 0", "saute 0", 3),
])
def test_another_value_is_named_with_its_line_and_the_fresh_one(old: str, new: str, line: int) -> None:
    found = pasted.compare(OUTPUT.replace(old, new), solo())
    assert found.kind == "other" and not found.right
    assert (found.foreign[0].text, found.foreign[0].line) == (new, line)
    assert old in found.missing
    if old != "sort 0":
        assert found.foreign[0].fresh == old


def test_someone_else_s_rows_differ_on_both_ranks() -> None:
    other = OUTPUT.replace("[[0.5, 1.5]]", "[[4.0, 2.5]]")
    assert [one.text for one in pasted.compare(other, solo()).foreign] == [
        "gradient 0 [[4.0, 2.5]]", "gradient 1 [[4.0, 2.5]]",
    ]


def test_a_wrong_value_is_found_in_glued_texts_too() -> None:
    glued = OUTPUT.replace("\n", "").replace("gradient 1 [[0.5", "gradient 1 [[1.5")
    found = pasted.compare(glued, solo())
    assert found.kind == "other" and found.foreign[0].text == "gradient 1 [[1.5, 1.5]]"


def test_an_older_version_lacks_what_the_script_prints_now() -> None:
    older = [line for line in OUTPUT.splitlines() if not line.startswith(("gradient", "all_reduce"))]
    found = pasted.compare("\n".join(older), solo())
    assert found.kind == "missing"
    assert set(found.missing) == {"gradient 0 [[0.5, 1.5]]", "gradient 1 [[0.5, 1.5]]", "all_reduce_ms 0.312"}


def test_one_rank_s_texts_only_are_missing_the_other_s() -> None:
    assert pasted.compare("\n".join(LINES_0), solo()).missing == tuple(LINES_1)


def test_the_whole_output_beside_another_launch_is_right_and_told() -> None:
    first_try = "gradient 0 [[1.0, 3.0]]\ngradient 1 [[1.0, 3.0]]\n"
    found = pasted.compare(first_try + OUTPUT, solo())
    assert found.kind == "more" and found.right
    assert found.foreign[0].line == 1


def test_a_hang_and_its_delay() -> None:
    output = hang().stdout + hang().stderr
    assert kind(output, hang()) == "harmless"   # its traceback is of no interest
    found = pasted.compare(output, hang(timeout_s=5))
    assert found.kind == "other"
    assert (found.foreign[0].text, found.foreign[0].fresh) == (
        "Timed out waiting 8000ms", "Timed out waiting 5000ms",
    )
    assert kind(OUTPUT, hang()) == "other"


# -- no output -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("text", "reason"), [
    ('"""Imprime gradient 0 [[0.5, 1.5]]."""\nimport torch\n', "source"),
    ("%%writefile labo.py\nimport torch\nprint(f'gradient {rank}'\n", "source"),
    ("torchrun --nproc_per_node=2 --master_port=29531 labo.py\n", "command"),
    ("$ python3 -m torch.distributed.run --nproc_per_node=2 labo.py", "command"),
    ("capture-solo.png\n", "picture"),
    ("C:\\Users\\Léa\\Images\\Capture d'écran 3.PNG", "picture"),
    ("\x89PNG\r\n\x1a\nIHDR", "document"),
    ("%PDF-1.7 ...", "document"),
    ("{\\rtf1\\ansi sortie}", "document"),
    ('{"cells": [], "nbformat": 4}', "notebook"),
    (traceback(12, "KeyError: 'RANK'"), "error"),
    ("tout a bien marché", "no-text"),
])
def test_what_is_no_output_is_named(text: str, reason: str) -> None:
    found = pasted.compare(text, solo())
    assert (found.kind, found.reason) == ("not-an-output", reason)


@pytest.mark.parametrize("text", [None, "", "\n \n", "\ufeff"])
def test_nothing_is_empty(text: str | None) -> None:
    assert kind(text) == "empty"


def test_a_launch_that_prints_nothing_compares_with_nothing() -> None:
    silent = a_run(log(0), log(1))
    assert kind(OUTPUT, silent) == "unknown"
    assert kind("", silent) == "empty"


@pytest.mark.timeout(20)
@pytest.mark.parametrize("text", [
    "moyenne 0 [" * 15_000, "gradient 0 [[" * 15_000, "entre 0" * 25_000, "[" * 190_000,
])
def test_a_hostile_file_costs_no_minute(text: str) -> None:
    kind(text)


# -- the file ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("data", [
    OUTPUT.encode(),
    b"\xef\xbb\xbf" + OUTPUT.encode(),
    OUTPUT.replace("\n", "\r\n").encode(),
    OUTPUT.replace("\n", "\r\n").encode("utf-16"),          # PowerShell's >
    OUTPUT.encode("utf-16-le"),                             # the same, its mark lost
    OUTPUT.encode("utf-16-be"),
    "".join(f"\x1b[32m{line}\x1b[0m\n" for line in OUTPUT.splitlines()).encode(),
    OUTPUT.replace(" ", "\u00a0").encode(),
    OUTPUT.replace("entre", "\u200bentre").encode(),
])
def test_an_encoding_changes_nothing(data: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("sortie.txt").write_bytes(data)
    assert kind(pasted.read()) == "same"


def test_latin_1_and_its_accents(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("sortie.txt").write_bytes(("exécuté à 13 h\n" + OUTPUT).encode("latin-1"))
    text = pasted.read("sortie.txt")
    assert text is not None and text.startswith("exécuté à 13 h\n")
    assert kind(text) == "harmless"


def test_no_file_and_what_is_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert pasted.read() is None
    Path("sortie.txt").mkdir()
    assert pasted.read() is None


def test_line_numbers_are_the_file_s(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = "\n\n" + OUTPUT.replace("5.0]", "6.0]")
    Path("sortie.txt").write_bytes(text.replace("\n", "\r\n").encode("utf-16"))
    assert pasted.compare(pasted.read(), solo()).foreign[0].line == 6


@pytest.mark.parametrize("command", [
    "MCI_SKIP_RANK=1 MCI_ENTREES='[[2, 1], [4, 3]]' torchrun --nproc_per_node=2 labo.py",
    "export MCI_ENTREES='[[2, 1], [4, 3]]'\n$ torchrun labo.py",
    'PS C:\\> $env:MCI_ENTREES = "[[2, 1], [4, 3]]"\nPS C:\\> torchrun labo.py',
    "MCI_ENTREES='[[0, 0], [0, 0]]' torchrun labo.py\nMCI_ENTREES='[[2, 1], [4, 3]]' torchrun labo.py",
    'C:\\solo> set MCI_ENTREES="[[2, 1], [4, 3]]"',
])
def test_the_variables_of_a_pasted_command_are_read(command: str) -> None:
    assert pasted.variables(command + "\n" + OUTPUT, ["MCI_ENTREES"]) == {"MCI_ENTREES": "[[2, 1], [4, 3]]"}


def test_other_variables_are_left_alone() -> None:
    assert pasted.variables("AUTOGRADER_RUNS=/x X_MCI_ENTREES=1 MCI_SKIP_RANK=1 t", ["MCI_ENTREES"]) == {}
    assert pasted.variables(None, ["MCI_ENTREES"]) == {}


@pytest.mark.parametrize(("text", "found"), [
    ("moyenne 0" + " " * 190_000 + "x", "not-an-output"),
    (OUTPUT + "all_reduce_ms" + " " * 190_000 + "x", "harmless"),
    ("\n" * 190_000 + "x", "not-an-output"),
    ("".join(f"moyenne 0 [{n}.0]\n" for n in range(9_000)), "other"),
    ("".join(f"entre {n} " for n in range(16_000)), "other"),
    ("import os\nx = f'" + "{x}" * 60_000 + "'", "not-an-output"),
    ("moyenne 0 [" * 17_000, "not-an-output"),
])
def test_no_text_takes_the_grading_s_time(text: str, found: str) -> None:
    """Each took seconds or minutes while a pattern or a comparison was quadratic."""
    assert kind(text) == found


# -- marks ---------------------------------------------------------------------------------------------


def said(text: str | None, folder: Path, run: Run | None = None, **more: Any) -> tuple[float, str]:
    """(points of 4, what the student reads)."""
    from autograder.verdict import marks as module

    old = Path.cwd()
    os.chdir(folder)
    try:
        if text is not None:
            Path("sortie.txt").write_text(text, encoding="utf-8")
        m = marks(4, run or solo())
        pasted.check(m, "sortie.txt", run or solo(), points=4, **more)
        try:
            points = m.total() or 0.0
        except TestFailed as failed:
            return 0.0, str(failed)
        assert module.LAST is not None
        return points, module.LAST.message
    finally:
        os.chdir(old)


def test_a_right_output_earns_all(tmp_path: Path) -> None:
    assert said(BANNER + OUTPUT.replace("0.312", "9.9"), tmp_path)[0] == 4


def test_an_incomplete_output_keeps_its_part(tmp_path: Path) -> None:
    points, report = said("\n".join(LINES_0), tmp_path, partial=2)
    assert points == 2
    assert "incomplet" in report and "« RANK=1" in report.replace("\u00a0", " ")
    points, report = said("entre 0\nentre 1\nsort 0\nsort 1", tmp_path, partial=2)   # typed
    assert points == 0 and "incomplet" in report


def test_another_output_earns_nothing_and_names_the_line(tmp_path: Path) -> None:
    points, report = said(OUTPUT.replace("1.5]]", "2.5]]"), tmp_path, partial=2)
    report = report.replace("\u00a0", " ")
    assert points == 0
    assert "`sortie.txt`, ligne 5 : « gradient 0 [[0.5, 2.5]] »" in report
    assert "affiche « gradient 0 [[0.5, 1.5]] »" in report and "1 autre texte diffère aussi" in report
    assert "triche" not in report and "copié sur" not in report


def test_values_that_move_by_themselves_cost_nothing(tmp_path: Path) -> None:
    second = solo(out0="\n".join(LINES_0).replace("0.5, 1.5", "0.3, 0.4"),
                  out1="\n".join(LINES_1).replace("0.5, 1.5", "0.3, 0.4"))
    text = OUTPUT.replace("0.5, 1.5", "0.8, 0.9")
    assert said(text, tmp_path, again=lambda: second)[0] == 4
    assert said(text.replace("3.0, 5.0", "3.0, 6.0"), tmp_path, again=lambda: second)[0] == 0
    assert said(text, tmp_path, again=solo)[0] == 0


def test_an_absent_file_is_said_to_be_absent(tmp_path: Path) -> None:
    points, report = said(None, tmp_path)
    assert points == 0 and "n'est pas là" in report and "> sortie.txt 2>&1" in report


@pytest.mark.parametrize("text", [
    "", "import torch\n", "torchrun labo.py", "a.png", "%PDF-", '{"cells": 1}', "KeyError: 'RANK'", "rien",
])
def test_every_kind_of_no_output_has_its_words(text: str, tmp_path: Path) -> None:
    points, report = said(text, tmp_path)
    assert points == 0 and "`sortie.txt`" in report and "À essayer" in report


def test_another_backend_gets_its_own_advice(tmp_path: Path) -> None:
    assert "sans MCI_BACKEND" in said(OUTPUT.replace("gloo", "nccl"), tmp_path)[1]


def test_the_command_shown_is_the_run_s_own(tmp_path: Path) -> None:
    run = a_run(log(0), log(1), request=Request(env={"MCI_SKIP_RANK": "1"}))
    assert "MCI_SKIP_RANK=1 torchrun" in said(OUTPUT, tmp_path, run)[1]
