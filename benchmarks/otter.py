"""One exercise graded by `autograder grade` and by otter-grader without containers, for reference.

    python benchmarks/otter.py [--copies K] [--otter-python PATH] [--no-install | --only-install] [--short]

The same K right copies of ex2-moyenne. For otter each is the student's own cells, and the tests are written
in otter's form: the same answers, the same three launches (as it is, with drawn rows, with a rank that skips)
by `subprocess` and torchrun, texts looked for in what they print. They prove less: nothing records which
collectives ran, and nothing holds the copy's processes. `otter run`, its mode without containers, takes one
copy at a time; `autograder grade` takes the class.

otter-grader is no dependency of this project: it is looked for in a Python of its own, which is made in the
user's cache folder with pip unless --otter-python names one, or --no-install forbids it (exit status 77).
The last line is our copies a minute over those of otter.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import copies
import grading
import machine
from grading import Cost

EXERCISE = "ex2-moyenne"
PACKAGES = ("otter-grader", "ipykernel")
SKIPPED = 77
FOUND = "import importlib.metadata as m, ipykernel, otter; print(m.version('otter-grader'))"

# -- the exercise, in otter's form ---------------------------------------------------------------------------

HEAD = f"""\
import os, socket, subprocess
from otter.test_files import test_case

OK_FORMAT = False

def launch(**more):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [{sys.executable!r}, "-m", "torch.distributed.run", "--nproc_per_node=2",
               f"--master_port={{port}}", "labo.py"]
    done = subprocess.run(command, env=os.environ | more, capture_output=True, text=True, timeout=120)
    return done.returncode, done.stdout + done.stderr

"""
TESTS = {
    "q1": """\
name, points = "q1", 4

@test_case(points=3)
def test_rows(ligne_rang_0, ligne_rang_1, somme, moyenne):
    assert [list(ligne_rang_0), list(ligne_rang_1)] == [[1, 3], [5, 7]]
    assert [list(somme), list(moyenne)] == [[6, 10], [3, 5]]

@test_case(points=1)
def test_seen(textes_vus):
    assert sorted(textes_vus) == ["entre 0", "saute 1"]
""",
    "q2": """\
name, points = "q2", 6

@test_case(points=6)
def test_mean(env):
    code, said = launch()
    assert code == 0, said[-2000:]
    for rank in (0, 1):
        assert f"entre {rank}" in said and f"sort {rank}" in said
        assert f"moyenne {rank} [3.0, 5.0]" in said
""",
    "q3": """\
name, points = "q3", 3

@test_case(points=3)
def test_other_rows(env):
    code, said = launch(MCI_LIGNES="[[21, 30], [28, 41]]")
    assert code == 0 and all(f"moyenne {rank} [24.5, 35.5]" in said for rank in (0, 1)), said[-2000:]
""",
    "q4": """\
name, points = "q4", 3

@test_case(points=3)
def test_a_rank_skips(env):
    code, said = launch(MCI_SKIP_RANK="1", MCI_TIMEOUT_S="5")
    assert code != 0 and "saute 1" in said and "entre 0" in said
    assert "sort 0" not in said and "Timed out waiting 5000ms" in said, said[-2000:]
""",
}


def notebook(path: Path) -> str:
    """The student's cells of a copy of ours: what otter runs. What is only shown is left out, as we do."""
    book = json.loads(path.read_text(encoding="utf-8"))
    cells = [
        {"cell_type": "code", "id": cell["id"], "metadata": {}, "source": cell["source"], "outputs": [],
         "execution_count": None}
        for cell in book["cells"]
        if cell["cell_type"] == "code" and cell["metadata"].get("nbgrader", {}).get("solution")
    ]  # fmt: skip
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    written = {"cells": cells, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(written)


# -- otter's own Python --------------------------------------------------------------------------------------

def cached() -> Path:
    """The environment that we make for it."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(base) / "autograder-benchmarks" / f"otter-python{platform.python_version()}"


def python_of(folder: Path) -> Path:
    return folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def version(python: Path) -> str | None:
    """That of the otter-grader of this Python; None where it has none that works."""
    try:
        done = subprocess.run(
            [str(python), "-c", FOUND], capture_output=True, text=True, env=environment(python))
    except OSError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def environment(python: Path) -> dict[str, str]:
    """Ours, without what is ours alone, and with its programs first."""
    own = ("AUTOGRADER_", "PYTHON", "VIRTUAL_ENV")
    env = {name: value for name, value in os.environ.items() if not name.startswith(own)}
    return env | {"PATH": os.pathsep.join([str(python.parent), env.get("PATH", os.defpath)])}


def install() -> Path:
    """Make the environment; SystemExit says why it cannot be."""
    folder = cached()
    print(f"  installing {' and '.join(PACKAGES)} in {folder}", file=sys.stderr, flush=True)
    shutil.rmtree(folder, ignore_errors=True)
    python = python_of(folder)
    for command in ([sys.executable, "-m", "venv", str(folder)],
                    [str(python), "-m", "pip", "install", "--quiet", *PACKAGES]):
        done = subprocess.run(command, capture_output=True, text=True, errors="replace")
        if done.returncode != 0:
            shutil.rmtree(folder, ignore_errors=True)
            said = [line for line in done.stderr.splitlines() if line.strip()] or ["nothing"]
            raise SystemExit(
                f"otter-grader cannot be installed: {' '.join(command[1:4])}… says: {said[-1]}\n"
                "give --otter-python the Python of an environment that has it, and ipykernel")
    return python


# -- both ways -----------------------------------------------------------------------------------------------

def run(cost: Cost, python: Path, cwd: Path, *arguments: str) -> None:
    """Run otter's command, and add what it cost."""
    before, started = os.times(), time.perf_counter()
    done = subprocess.run(
        [str(python), "-m", "otter", *arguments], cwd=cwd, env=environment(python), stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
    after = os.times()
    cost.wall_s += time.perf_counter() - started
    cost.cpu_s += sum(after[2:4]) - sum(before[2:4])
    if done.returncode != 0:
        raise SystemExit(f"otter {arguments[0]}: exit code {done.returncode}\n{done.stdout[-4000:]}")


def theirs(
    python: Path, root: Path, submitted: Path, count: int, asked: dict[str, str]
) -> tuple[Cost, list[str]]:  # fmt: skip
    """What otter costs on these copies with these tests, and which it did not give full marks."""
    tests = root / "tests"
    tests.mkdir()
    for name, text in asked.items():
        (tests / f"{name}.py").write_text(HEAD + text, encoding="utf-8")
    run(Cost(0), python, root, "generate", "-t", "tests", "-o", "autograder.zip")
    cost, short = Cost(count), []
    for number in range(count):
        student = copies.student(number)
        place = root / student
        place.mkdir()
        copy = submitted / student / EXERCISE / f"{EXERCISE}.ipynb"
        (place / "ex2.ipynb").write_text(notebook(copy), encoding="utf-8")
        run(cost, python, place, "run", "ex2.ipynb", "-a", "../autograder.zip", "-o", ".", "--no-logo")
        given = json.loads((place / "results.json").read_text(encoding="utf-8"))["tests"]
        points = [(one["score"], one["max_score"]) for one in given if one.get("max_score")]
        if not points or any(score != most for score, most in points):
            short.append(f"{student}: {json.dumps(given)[:1500]}")
    return cost, short


def most(root: Path) -> float:
    """The points of the exercise's test cells."""
    book = json.loads((root / "source" / EXERCISE / f"{EXERCISE}.ipynb").read_text(encoding="utf-8"))
    told = [cell["metadata"].get("nbgrader", {}) for cell in book["cells"] if cell["cell_type"] == "code"]
    return sum(float(one["points"]) for one in told if one.get("grade"))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--copies", type=int, default=6, metavar="K")
    parser.add_argument("--jobs", type=int, metavar="N", help="of `autograder grade`")
    parser.add_argument("--otter-python", type=Path, metavar="PATH", help="that has it, and ipykernel")
    parser.add_argument("--no-install", action="store_true", help="only if it is there")
    parser.add_argument("--only-install", action="store_true", help="measure nothing")
    parser.add_argument("--short", action="store_true", help="one copy, one launch by otter: that it runs")
    asked = parser.parse_args()
    count = 1 if asked.short else asked.copies
    python = asked.otter_python or python_of(cached())
    there = version(python)
    if there is None and asked.otter_python:
        raise SystemExit(f"{python} has no otter-grader with ipykernel")
    if there is None and asked.no_install:
        print(f"skipped: no otter-grader in {cached()}; `python benchmarks/otter.py` installs it there")
        return SKIPPED
    if there is None:
        python = install()
        there = version(python)
    if asked.only_install:
        print(f"otter-grader {there} in {python}")
        return 0
    from autograder.launch import box

    options = [f"--jobs={asked.jobs}"] if asked.jobs else []
    options += [] if box.why_not() is None else ["--no-sandbox"]
    print(machine.describe("torch", "nbgrader") + f", otter-grader {there}")
    print(f"{count} copies of {EXERCISE}: {' '.join(['autograder grade', EXERCISE, *options])}\n", flush=True)
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
        course = copies.make(Path(one), count, [EXERCISE])
        cost = Cost(count)
        grading.timed(cost, Path(one), "autograder.cli", "grade", EXERCISE, *options)
        given = grading.marks(course, [EXERCISE])
        print(f"  autograder grade: {cost.wall_s:.0f} s", file=sys.stderr, flush=True)
        tests = {name: TESTS[name] for name in ("q1", "q2")} if asked.short else TESTS
        base, short = theirs(python, Path(other), Path(one) / "submitted", count, tests)
        full = most(Path(one))
    short += [f"{copy[0]}, ours: {points}" for copy, points in given.items()
              if sum(point or 0 for point in points.values()) != full]  # fmt: skip
    head = ("way", "copies", "wall s", "CPU s", "wall s/copy", "CPU s/copy", "copies/min")
    print(machine.table(head, [cost.row("autograder grade"), base.row("otter run")]))
    for line in short:
        print(f"not full marks: {line}")
    same = not short and len(given) == count
    print(f"\nmarks: {'full' if same else 'NOT FULL'}, {count} copies, both ways")
    print(f"ratio: {cost.rate / base.rate:.1f}")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
