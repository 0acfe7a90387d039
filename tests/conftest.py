"""What every test shares: saved Runs instead of launches, and a course key of its own.

A launch whose request stands in tests/runs/ is read back from there; any other is really made and kept there,
so that a new script costs its launch once. `pytest -m launch` selects the tests that always launch for real.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

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


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """One more than the cores: many tests wait, for a time limit or for a rank that sleeps."""
    return (os.cpu_count() or 1) + 1


LONGEST = (
    "grade_slurm", "benchmarks", "hostile", "warm", "confirm", "exercises", "hostile_ranks", "nothing_lost",
    "sample_class", "engine", "warm_same", "any_state", "readme", "tampering", "grade", "postgres", "browser",
    "box", "warm_leaks", "lab", "warm_student", "groups",
)  # fmt: skip


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The files that take minutes first, so that no worker is left alone with one of them at the end."""
    places = {f"test_{name}": place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: places.get(item.path.stem, len(places)))   # stable: else as they were


@pytest.fixture(scope="session")
def notebook_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A warm server for cells and tests without a box, for all the tests of this worker that want one."""
    from autograder.launch.warm import client, keeper

    if client.why_not() is not None:
        yield client.COLD
        return
    server = keeper.Server(tmp_path_factory.mktemp("notebooks"), sandbox=False, kind="notebook")
    assert server.ready() is not None, server.log.read_text()
    yield client.Servers(notebook=str(server.path))
    server.close()


@pytest.fixture
def forked(notebook_server: Any, _course_environment: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """See forking.py."""
    from forking import fork_cells

    fork_cells(notebook_server, monkeypatch)


@pytest.fixture
def root() -> Path:
    return ROOT


@pytest.fixture(scope="session")
def sample_class(tmp_path_factory: pytest.TempPathFactory, notebook_server: Any) -> Any:
    """examples/class, graded once (see sample_class.py), by the first of pytest-xdist's workers that asks."""
    import filelock
    import sample_class
    from forking import fork_cells

    shared = tmp_path_factory.getbasetemp()
    if os.environ.get("PYTEST_XDIST_WORKER"):
        shared = shared.parent
    kept = shared / "sample-class.pickle"
    with filelock.FileLock(shared / "sample-class.lock"):
        if not kept.exists():
            root = shared / "sample-class"
            root.mkdir()
            with pytest.MonkeyPatch.context() as patch:
                fork_cells(notebook_server, patch)
                kept.write_bytes(pickle.dumps(sample_class.sample(root)))
        return pickle.loads(kept.read_bytes())
