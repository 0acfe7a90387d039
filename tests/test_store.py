"""Identical launches are made once; what the machine spoilt is never kept."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import pytest

from autograder.launch import store
from autograder.launch.run import (
    Collective,
    Delay,
    Event,
    Frame,
    Gradient,
    RankLog,
    Request,
    Run,
    Stack,
)


class Launcher:
    """Counts its launches."""

    def __init__(self, infra: str | None = None) -> None:
        self.count, self.infra = 0, infra

    def __call__(self, request: Request, folder: Path) -> Run:
        self.count += 1
        return Run(
            request=request, command="torchrun labo.py", script_sha256="0", exit_code=0, timed_out=False,
            duration_s=1.0, stdout="é", infra=self.infra)


@pytest.fixture(autouse=True)
def _fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv("AUTOGRADER_RUNS", raising=False)
    store.forget()
    yield
    store.forget()


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    folder = tmp_path / "élève n°1 (copie)"
    folder.mkdir()
    (folder / "labo.py").write_text("print(1)\n")
    return folder


def test_the_same_request_is_launched_once(copy: Path) -> None:
    launcher = Launcher()
    first = store.get_or_run(Request(), copy, launcher)
    assert store.get_or_run(Request(), copy, launcher) is first
    assert launcher.count == 1


@pytest.mark.parametrize("change", [
    {"nproc": 3}, {"nnodes": 2}, {"launcher": False}, {"env": {"A": "1"}}, {"time_limit_s": 5.0},
    {"detail": True}, {"delays": (Delay(1, 0.2),)}, {"output_limit_bytes": 10},
])
def test_whatever_is_asked_counts(copy: Path, change: dict[str, object]) -> None:
    assert store.key(Request(), copy) != store.key(dataclasses.replace(Request(), **change), copy)  # type: ignore[arg-type]


def test_the_script_and_the_python_files_beside_it_count_not_the_place(copy: Path, tmp_path: Path) -> None:
    before = store.key(Request(), copy)
    (copy / "notes.txt").write_text("rien")
    assert store.key(Request(), copy) == before
    other = tmp_path / "ailleurs"
    other.mkdir()
    (other / "labo.py").write_text("print(1)\n")
    assert store.key(Request(), other) == before
    (copy / "outils.py").write_text("x = 1\n")
    with_tools = store.key(Request(), copy)
    (copy / "labo.py").write_text("print(2)\n")
    assert len({before, with_tools, store.key(Request(), copy)}) == 3


def test_runs_are_kept_in_the_folder_that_is_named(
    copy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AUTOGRADER_RUNS", str(tmp_path / "runs"))
    first = store.get_or_run(Request(), copy, Launcher())
    (path,) = (tmp_path / "runs").iterdir()
    assert path.name == store.key(Request(), copy) + ".json"
    store.forget()
    never = Launcher()
    assert store.get_or_run(Request(), copy, never) == first
    assert never.count == 0


def test_an_unreadable_kept_run_is_launched_again(
    copy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AUTOGRADER_RUNS", str(tmp_path))
    (tmp_path / f"{store.key(Request(), copy)}.json").write_text('{"half":')
    launcher = Launcher()
    store.get_or_run(Request(), copy, launcher)
    assert launcher.count == 1


def test_what_the_machine_spoilt_is_not_kept(
    copy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AUTOGRADER_RUNS", str(tmp_path / "runs"))
    launcher = Launcher(infra="port")
    store.get_or_run(Request(), copy, launcher)
    store.get_or_run(Request(), copy, launcher)
    assert launcher.count == 2
    assert not (tmp_path / "runs").exists()


def test_a_run_is_the_same_once_written_and_read() -> None:
    run = Run(
        request=Request(env={"A": "é"}, delays=(Delay(1, 0.2, numel=8),)), command="c", script_sha256="0",
        exit_code=None, timed_out=True, duration_s=1.5,
        ranks=(RankLog(0, 0, -15, "a", "b", reached_end=True, error_line=3),),
        collectives=(Collective(0, 0, "all_reduce", 2, (2,), "float32", 0.5, values_in=(1.0, 2.0)),),
        gradients=(Gradient(0, "weight", (1, 2), (0.5, 1.5), 0.1),),
        events=(Event(0, "ddp", 0.1, 4, {"device_ids": False}),),
        stacks=(Stack(0, (Frame("labo.py", 8, "<module>", "dist.all_reduce(t)"),)),),
    )
    assert Run.from_json(run.to_json()) == run
