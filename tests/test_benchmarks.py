"""Each benchmark runs, in its short form, and prints what it promises. How fast is not for a test to say."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


def run(*command: str) -> list[str]:
    """The lines that it prints."""
    done = subprocess.run(
        [sys.executable, *command], cwd=ROOT, capture_output=True, text=True, encoding="utf-8",
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout.splitlines()


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
    assert sizes == ["3", "6"]
    assert re.fullmatch(r"ratio: -?\d+\.\d+", lines[-1])


@pytest.mark.launch
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="elsewhere every launch is a cold one")
@pytest.mark.parametrize("name", ["grading", "launch"])
def test_warm_against_cold(name: str) -> None:
    lines = run(f"benchmarks/{name}.py", "--short")
    assert "cores" in lines[0] and "torch" in lines[0]
    assert name != "grading" or "marks: equal, 1 copies compared" in lines
    assert re.fullmatch(r"ratio: \d+\.\d+", lines[-1])
