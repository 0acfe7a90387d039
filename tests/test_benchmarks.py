"""Each benchmark runs, in its short form, and prints what it promises. How fast is not for a test to say."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


def printed(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *command], cwd=ROOT, capture_output=True, text=True, encoding="utf-8",
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip


def run(*command: str) -> list[str]:
    """The lines that it prints."""
    done = printed(*command)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-3000:]
    return done.stdout.splitlines()


def test_each_is_run_here() -> None:
    made = {path.stem for path in (ROOT / "benchmarks").glob("*.py") if "__main__" in path.read_text("utf-8")}
    text = Path(__file__).read_text(encoding="utf-8")
    assert made == {name for name in made if name in text}


def test_startup() -> None:
    lines = run("benchmarks/startup.py", "--short")
    assert "cores" in lines[0] and "torch" in lines[0]
    assert any(line.startswith("autograder --help ") for line in lines)
    assert re.fullmatch(r"help_s: \d+\.\d+", lines[-1])


@pytest.mark.skipif(os.name != "posix", reason="its memory is asked of POSIX's resource module")
@pytest.mark.parametrize("more", [[], ["--writer"]])
def test_scaling(more: list[str]) -> None:
    lines = run("benchmarks/scaling.py", "--short", *more)
    assert "cores" in lines[0] and "nbgrader" in lines[0]
    sizes = [line.split()[0] for line in lines if line[:1].isdigit()]
    assert sizes == ["2", "3"]
    assert re.fullmatch(r"ratio: -?\d+\.\d+", lines[-1])


def test_class_page() -> None:
    lines = run("benchmarks/class_page.py", "--short")
    assert "cores" in lines[0] and "nbgrader" in lines[0]
    assert [line.split()[0] for line in lines[2:] if line[:1].isdigit()] == ["3", "6"]
    assert re.fullmatch(r"page_s: \d+\.\d+", lines[-1])


@pytest.mark.launch
def test_otter() -> None:
    done = printed("benchmarks/otter.py", "--short", "--no-install")
    if done.returncode == 77:
        pytest.skip(done.stdout.splitlines()[-1])   # no test installs anything
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-3000:]
    lines = done.stdout.splitlines()
    assert "cores" in lines[0] and "otter-grader" in lines[0]
    assert "marks: full, 1 copies, both ways" in lines
    assert re.fullmatch(r"ratio: \d+\.\d+", lines[-1])


@pytest.mark.launch
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="elsewhere no launch is a warm one")
def test_soak() -> None:
    lines = run("benchmarks/soak.py", "--short")
    assert "cores" in lines[0] and "13 launches, 1 at once" in lines[1]
    assert "cold launches: 0, restarts of the server: 0" in lines
    assert lines[-1] == "wrong: 0 orphans: 0 leaked: 0"


@pytest.mark.launch
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="elsewhere every launch is a cold one")
@pytest.mark.parametrize("name", ["grading", "launch"])
def test_warm_against_cold(name: str) -> None:
    lines = run(f"benchmarks/{name}.py", "--short")
    assert "cores" in lines[0] and "torch" in lines[0]
    assert name != "grading" or "marks: equal, 1 copies compared" in lines
    assert re.fullmatch(r"ratio: \d+\.\d+", lines[-1])


@pytest.mark.launch
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="elsewhere every launch is a cold one")
def test_loop() -> None:
    lines = run("benchmarks/loop.py", "--short")
    assert "cores" in lines[0] and "torch" in lines[0]
    assert any(line.startswith("ex3-ddp, labo.py ") for line in lines)
    assert re.fullmatch(r"median_s: \d+\.\d+", lines[-1])


@pytest.mark.launch
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="elsewhere every launch is a cold one")
def test_what_the_evidence_costs() -> None:
    lines = run("benchmarks/evidence.py", "--short")
    assert "cores" in lines[0] and "torch" in lines[0]
    assert [line.split()[0] for line in lines if line[:4] in ("wall", "CPU ")] == ["wall", "CPU"]
    assert re.fullmatch(r"overhead: -?\d+\.\d+", lines[-1])


@pytest.mark.launch
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="elsewhere every launch is a cold one")
def test_hang_or_slow() -> None:
    """Not a measure: what is drawn must be told right, on a machine as busy as it likes."""
    lines = run("benchmarks/hang_or_slow.py", "--cases", "4", "--seed", "8", "--burners", "1")
    assert lines[-1] == "right: 4 of 4"
