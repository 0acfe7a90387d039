"""The lab on DDP and FSDP: its recorded reading adds up, and its two scripts do together what it teaches."""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path
from statistics import median
from types import ModuleType
from typing import Any

import nbformat
import psutil
import pytest

from autograder.notebook.variants import solution_files

ROOT = Path(__file__).resolve().parent.parent
LAB = ROOT / "source" / "lab-ddp-fsdp"
MIB = 2**20
# Small enough for a busy machine; a batch so small that what is left at the peak is the model's.
SIZES = {"LARGEUR": 256, "COUCHES": 4, "LOT": 2, "CUDA_VISIBLE_DEVICES": ""}
P = 4 * 4 * (256**2 + 256)


@pytest.fixture(scope="module")
def record() -> dict[str, Any]:
    return json.loads((LAB / "releve.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def notebook() -> nbformat.NotebookNode:
    return nbformat.read(LAB / "lab-ddp-fsdp.ipynb", as_version=4)


@pytest.fixture(scope="module")
def files(notebook: nbformat.NotebookNode) -> dict[str, str]:
    return solution_files(notebook)


@pytest.fixture
def lance(files: dict[str, str], tmp_path: Path) -> ModuleType:
    """The solution's lance.py, as the notebook imports it."""
    path = tmp_path / "lance.py"
    path.write_text(files["lance.py"], encoding="utf-8")
    spec = importlib.util.spec_from_file_location("lance_of_the_lab", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def accepted(notebook: nbformat.NotebookNode, cell: str, name: str) -> list[tuple[float, float]]:
    """The ranges in which the test `cell` accepts `name`."""
    source = next(one.source for one in notebook.cells if one.id == cell)
    found = re.findall(rf"within\({name}, ([\d.]+), ([\d.]+)\)", source)
    return [(float(low), float(high)) for low, high in found]


# -- the recorded reading ----------------------------------------------------------------------------


def test_the_record_is_p_and_a_few_mib(record: dict[str, Any]) -> None:
    model = record["modele"]
    assert model["parametres"] == model["couches"] * (model["largeur"] ** 2 + model["largeur"])
    p = model["parametres"] * model["octets_par_parametre"] / MIB
    assert p == pytest.approx(512.1, abs=0.05)
    peak = {run["strategie"]: run["pic_cuda_mio"] for run in record["sans_pause"]}
    assert peak["ddp"] - 6 * p == pytest.approx(18, abs=0.5)
    assert peak["fsdp"] - 2.5 * p == pytest.approx(19, abs=0.5)
    assert peak["fsdp"] < peak["ddp"] / 2


def test_what_the_document_calls_4_p_is_bytes_per_parameter(record: dict[str, Any]) -> None:
    whole = record["modele"]["octets_par_parametre"]
    read = {run["strategie"]: run["poids_octets_par_parametre"] for run in record["sans_pause"]}
    assert read == {"ddp": whole, "fsdp": whole / 2}


def test_every_fair_estimate_of_the_peak_is_accepted(
    record: dict[str, Any], notebook: nbformat.NotebookNode,
) -> None:
    p = record["modele"]["parametres"] * 4
    held, peak = (accepted(notebook, "lab-test-pic", name) for name in ("etat_fsdp_mo", "pic_fsdp_mo"))
    assert (len(held), len(peak)) == (1, 1)
    for unit in (MIB, 10**6):   # "Mo" is read in both ways
        assert held[0][0] <= 2 * p / unit <= held[0][1]
        assert not held[0][0] <= 4 * p / unit <= held[0][1]
        # The document's hint: 2P, and one gathered layer, or up to three.
        for estimate in (2 * p, 2 * p + p / 8, 2 * p + 3 * p / 8, 2.5 * p):
            assert peak[0][0] <= estimate / unit <= peak[0][1]
    assert peak[0] == (1024, 1560)
    assert peak[0][0] <= record["sans_pause"][-1]["pic_cuda_mio"] <= peak[0][1]


def test_the_slow_rank_costs_what_the_table_says(
    record: dict[str, Any], notebook: nbformat.NotebookNode,
) -> None:
    table = record["avec_pause"]
    waits = [late - early for late, early in zip(table["rang_1_ms"], table["rang_0_ms"], strict=True)]
    pause, steps = table["pause_ms"], len(table["pas"])
    by_count = [(steps - 1) * pause, steps * pause]
    assert by_count == [250, 300]
    assert sum(waits[1:]) == pytest.approx(251.8, abs=0.05) and sum(waits) == pytest.approx(260, abs=0.05)
    two = accepted(notebook, "lab-test-cout", "perdu_rang_1_ms")
    assert two == [(200, 310)]
    wall, ranks = accepted(notebook, "lab-test-cout", "perdu_a_8_rangs_s")
    for lost in (*by_count, sum(waits[1:]), sum(waits)):
        assert two[0][0] <= lost <= two[0][1]
        assert wall[0] <= lost / 1000 <= wall[1]
        assert all(ranks[0] <= count * lost / 1000 <= ranks[1] for count in (7, 8))


def test_the_inverted_columns_are_the_table_s(
    record: dict[str, Any], notebook: nbformat.NotebookNode,
) -> None:
    table = record["avec_pause"]
    source = next(one.source for one in notebook.cells if one.id == "lab-test-inversion")
    for shown, comes_from in (("rang_0_ms", "rang_1_ms"), ("rang_1_ms", "rang_0_ms")):
        low, high = map(float, re.findall(rf"colonne\({shown}, (\d+), (\d+)\)", source)[0])
        assert all(low <= ms <= high for ms in table[comes_from][1:])
        assert not any(low <= ms <= high for ms in table[shown][1:])


def test_the_record_does_not_hold_the_answers(record: dict[str, Any]) -> None:
    """Students get the file: P, the state and the decomposition are theirs to find."""
    p = record["modele"]["parametres"] * 4
    numbers = re.findall(r"[\d.]+", json.dumps(record))
    assert not {round(float(one)) for one in numbers} & {p, 2 * p, round(p / MIB), round(2 * p / MIB)}


# -- the two scripts together ------------------------------------------------------------------------


@pytest.mark.launch
def test_fsdp_and_fully_shard_keep_the_same_bytes(lance: ModuleType, files: dict[str, str]) -> None:
    worker = files["travailleur.py"]
    runs = {name: lance.lance(2, worker, name, **SIZES) for name in ("ddp", "fsdp", "fully_shard")}
    for name, ranks in runs.items():
        assert [one["rang"] for one in ranks] == [0, 1]
        assert {(one["strategie"], one["gpu"], one["pic_cuda_mo"]) for one in ranks} == {(name, "cpu", None)}
        # AdamW also counts its steps, 4 bytes per tensor: 4 flat ones, or 8 of a weight or a bias each.
        share, tensors = (1, 8) if name == "ddp" else (2, 4 if name == "fsdp" else 8)
        for one in ranks:
            assert one["poids"] == one["gradients"] == P // share
            assert one["optimiseur"] == 2 * P // share + 4 * tensors
    # What the counter finds is what the two cards showed: 6P and 2.5P, in optimizer.step.
    peaks = {name: {one["pic_cpu_mo"] * MIB / P for one in ranks} for name, ranks in runs.items()}
    assert all(peak == pytest.approx(6, abs=0.15) for peak in peaks["ddp"])
    assert all(peak == pytest.approx(2.5, abs=0.15) for peak in peaks["fsdp"] | peaks["fully_shard"])


@pytest.mark.launch
def test_a_threshold_above_one_layer_wraps_nothing_and_shows_in_the_peak(
    lance: ModuleType, files: dict[str, str],
) -> None:
    worker = files["travailleur.py"].replace("une_couche // 2", "10**6")
    assert worker != files["travailleur.py"]
    for one in lance.lance(2, worker, "fsdp", **SIZES):
        assert one["poids"] == P // 2
        assert one["pic_cpu_mo"] * MIB / P > 3


@pytest.mark.launch
def test_the_rank_that_sleeps_is_not_the_one_that_looks_slow(
    lance: ModuleType, files: dict[str, str],
) -> None:
    ranks = lance.lance(2, files["travailleur.py"], "ddp", ralenti=0.5, RANG_LENT=1, **SIZES)
    waiting, sleeping = (median(one["pas_ms"][1:]) for one in ranks)
    assert waiting >= sleeping + 0.5 * 500


@pytest.mark.launch
def test_two_cards_are_used_with_nccl(lance: ModuleType, files: dict[str, str]) -> None:
    import torch

    if torch.cuda.device_count() < 2 or not torch.distributed.is_nccl_available():
        pytest.skip("needs two visible GPUs and nccl")
    lance.carte_de_travail()
    sizes = {**SIZES, "CUDA_VISIBLE_DEVICES": "0,1"}
    for name, share in (("ddp", 1), ("fsdp", 2), ("fully_shard", 2)):
        for one in lance.lance(2, files["travailleur.py"], name, **sizes):
            assert one["gpu"] != "cpu" and one["pic_cpu_mo"] is None
            assert one["poids"] == one["gradients"] == P // share
            assert one["pic_cuda_mo"] * MIB > one["poids"] + one["gradients"] + one["optimiseur"]


def test_a_failed_rank_is_named_first_and_nothing_is_left(
    lance: ModuleType, monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(lance, "REPIT_S", 0.5)
    before = set(psutil.Process().children())   # the warm servers that tests share
    worker = (
        "import os, sys, time\nif os.environ['RANK'] == '0': time.sleep(600)\n"
        "print('la cause', file=sys.stderr)\nsys.exit(41)\n"
    )
    with pytest.raises(RuntimeError, match=r"^rang 1 : code 41\nla cause$"):
        lance.lance(2, worker, "ddp")
    with pytest.raises(RuntimeError, match=r"délai de 0\.5 s dépassé, sans fin pour : rang 0, rang 1"):
        lance.lance(2, "import time\ntime.sleep(600)\n", "ddp", delai=0.5)
    now = {child for child in psutil.Process().children() if child.status() != psutil.STATUS_ZOMBIE}
    assert not now - before


def test_results_are_decoded_wherever_they_stand(lance: ModuleType) -> None:
    glued = 'pas 6 RESULTAT {"rang": 1, "a": {"b": "}"}}RESULTAT {"rang": 0} fin\nRESULTAT {"rang": 2}'
    assert lance.resultats(glued) == [{"rang": 1, "a": {"b": "}"}}, {"rang": 0}, {"rang": 2}]
    assert lance.resultats("rien") == []
