"""What every test shares: saved Runs instead of launches, and a course key of its own.

A launch whose request stands in tests/runs/ is read back from there; any other is really made and kept there,
so that a new script costs its launch once. `pytest -m launch` selects the tests that always launch for real.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(autouse=True)
def _course_environment(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in [name for name in os.environ if name.startswith("AUTOGRADER_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AUTOGRADER_KEY_FILE", str(ROOT / "tests" / "data" / "test.key"))
    if request.node.get_closest_marker("launch") is None:
        monkeypatch.setenv("AUTOGRADER_RUNS", str(ROOT / "tests" / "runs"))
    yield


@pytest.fixture
def root() -> Path:
    return ROOT
