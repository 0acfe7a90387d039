"""Pages of the course: released as written, complete, linked from every notebook, giving nothing away."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import zipfile
from pathlib import Path

import nbformat
import pytest
import release_course as tiny
from test_release_committed import LESSONS

from autograder.course import Course, load
from autograder.notebook import bundle as bundler
from autograder.notebook import pages
from autograder.notebook.bundle import BundleError, bundle
from autograder.notebook.generate import generate
from autograder.notebook.release import release
from autograder.notebook.tidy import tidied

ROOT = Path(__file__).resolve().parent.parent
REAL = load(ROOT)
LESSON = "lent-ou-blocage.ipynb"
LINK = re.compile(r"\]\((?!https?:|#)([^)#\s]+)[^)]*\)")


def with_pages(root: Path) -> Course:
    """The small course with a page that was run, and a batch script from a Windows editor."""
    tiny.write_course(root)
    with (root / "course.yaml").open("a", encoding="utf-8") as file:
        file.write("pages: [leçon.ipynb, labo.sbatch]\n".replace("ç", "c"))
    page = nbformat.v4.new_notebook(cells=[tiny.cell("markdown", "titre", "# Leçon")])
    run = tiny.cell("code", "montre", "print(1)")
    run.outputs, run.execution_count = [nbformat.v4.new_output("stream", text="1\n")], 7
    page.cells.append(run)
    (root / "pages" / "lecon.ipynb").parent.mkdir()
    nbformat.write(page, root / "pages" / "lecon.ipynb")
    (root / "pages" / "labo.sbatch").write_bytes(b"#!/bin/bash\r\nsrun true\r\n")
    return load(root)


@pytest.fixture
def course(tmp_path: Path) -> Course:
    return with_pages(tmp_path / "élève n°1 (copie)")


def source(path: Path, kind: str | None = None) -> str:
    cells = json.loads(path.read_bytes())["cells"]
    return "\n".join("".join(cell["source"]) for cell in cells if kind in (None, cell["cell_type"]))


# ------------------------------------------------------------------------------------ releasing


def test_a_page_is_released_in_its_one_form_without_outputs(course: Course, tmp_path: Path) -> None:
    assert pages.problems(course) == []
    pages.write(course, tmp_path / "a")
    pages.write(course, tmp_path / "b")
    made = (tmp_path / "a" / "pages" / "lecon.ipynb").read_bytes()
    assert made == (tmp_path / "b" / "pages" / "lecon.ipynb").read_bytes() == tidied(made)
    assert all(cell.get("outputs", []) == [] for cell in json.loads(made)["cells"])
    assert (tmp_path / "a" / "pages" / "labo.sbatch").read_bytes() == b"#!/bin/bash\nsrun true\n"


def test_every_release_carries_the_pages_whichever_assignments_are_named(course: Course) -> None:
    report = release(course, ["ex2"], force=True, run=False)
    assert report.ok and report.pages and report.written == ("ex2", "pages")
    assert sorted(path.name for path in (course.root / "release" / "pages").iterdir()) == course.pages[::-1]
    assert release(course, ["ex2"], force=True, run=False).written == ()
    (course.root / "pages" / "labo.sbatch").write_text("#!/bin/bash\nsrun hostname\n")
    assert release(course, ["ex2"], force=True, run=False).written == ("pages",)


def test_check_finds_a_page_that_is_stale_missing_or_nobody_s(course: Course) -> None:
    said = [str(finding) for finding in release(course, ["ex2"], check=True, run=False).findings]
    assert "pages: release/pages/lecon.ipynb is missing: run `autograder release`" in said
    release(course, force=True, run=False)
    assert release(course, check=True, run=False).ok
    folder = course.root / "release" / "pages"
    (folder / "labo.sbatch").write_text("#!/bin/bash\n")
    (folder / "temoin.py").write_text("x = 1\n")
    assert pages.stale(course) == [
        "release/pages/labo.sbatch is out of date: run `autograder release`",
        "release/pages/temoin.py is not made from pages/: remove it",
    ]


def test_a_missing_a_broken_and_an_unlisted_page_are_named(course: Course) -> None:
    folder = course.root / "pages"
    (folder / "temoin.py").write_text("x = 1\n")  # what running the lesson in place leaves
    (folder / ".ipynb_checkpoints").mkdir()
    (said,) = pages.problems(course)
    assert said.startswith("pages/temoin.py is not listed under `pages` in course.yaml")
    (folder / "temoin.py").unlink()
    (folder / "lecon.ipynb").write_text("{")
    assert pages.problems(course)[0].startswith("pages/lecon.ipynb is no notebook")
    (folder / "lecon.ipynb").unlink()
    assert pages.problems(course) == ["pages/lecon.ipynb is missing, and course.yaml lists it under `pages`"]
    report = release(course, ["ex2"], force=True, run=False)
    assert not report.ok and not (course.root / "release").exists()


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ('rang_lu = int(os.environ["RANK"])', "solution line of ex1"),
        ('m.collective("reduce_scatter_tensor")', "line of ex1, cell ex1-test"),
        ("Deux points pour l'usage exclusif que demande NCCL.", "line of ex1, cell ex1-reponse"),
        ("### BEGIN SOLUTION", "marker"),
    ],
)
def test_a_page_gives_nothing_away_of_any_assignment(course: Course, line: str, what: str) -> None:
    path = course.root / "pages" / "lecon.ipynb"
    page = nbformat.read(path, as_version=4)
    page.cells.append(tiny.cell("markdown", "trop", f"```\n{line}\n```"))
    nbformat.write(page, path)
    assert what in "\n".join(pages.problems(course))


def test_nothing_is_graded_in_a_page(course: Course) -> None:
    path = course.root / "pages" / "lecon.ipynb"
    page = nbformat.read(path, as_version=4)
    page.cells.append(tiny.cell("code", "note", "1", grade=True, points=1))
    nbformat.write(page, path)
    assert pages.problems(course) == ["pages/lecon.ipynb, cell note: nothing is graded in a page"]


def test_a_course_without_pages_has_none(tmp_path: Path) -> None:
    course = load(tiny.write_course(tmp_path))
    report = release(course, force=True, run=False)
    assert report.ok and not report.pages and not (tmp_path / "release" / "pages").exists()


def test_the_bundle_holds_the_pages_beside_the_assignments(
    course: Course, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def wheel(root: Path, out: Path) -> Path:
        (out / "autograder-0-py3-none-any.whl").write_bytes(b"")
        return out / "autograder-0-py3-none-any.whl"

    monkeypatch.setattr(bundler, "build_wheel", wheel)  # test_bundle.py builds the real one
    for one in course.assignments:
        generate(course, one.id, course.root / "release")
    with pytest.raises(BundleError, match=r"lecon\.ipynb is missing: run `autograder release` first"):
        bundle(course, tmp_path / "x.zip")
    pages.write(course, course.root / "release")
    held = bundle(course, tmp_path / "x.zip")
    assert {"pages/lecon.ipynb", "pages/labo.sbatch", "ex1/ex1.ipynb"} <= set(held)
    with zipfile.ZipFile(tmp_path / "x.zip") as archive:
        assert archive.read("pages/lecon.ipynb") == pages.released(course)["lecon.ipynb"]


# ------------------------------------------------------------------------------------ the course's own


def test_the_course_s_pages_are_right_and_released() -> None:
    assert pages.problems(REAL) == []
    assert pages.stale(REAL) == []
    for name in REAL.pages:  # what instructors edit is already in its one form
        path = ROOT / "pages" / name
        assert not name.endswith(".ipynb") or tidied(path.read_bytes()) == path.read_bytes()


@pytest.mark.parametrize("name", [one.id for one in REAL.assignments])
def test_every_notebook_links_the_lesson_and_no_link_is_broken(name: str) -> None:
    path = ROOT / "release" / name / f"{name}.ipynb"
    targets = LINK.findall(source(path, kind="markdown"))
    assert f"../pages/{LESSON}" in targets
    for target in targets:
        assert (path.parent / target).is_file(), target


@pytest.mark.parametrize("name", [name for name in REAL.pages if name.endswith(".ipynb")])
def test_no_link_of_a_page_is_broken(name: str) -> None:
    targets = LINK.findall(source(ROOT / "release" / "pages" / name))
    assert targets if name == LESSON else True
    for target in targets:
        assert (ROOT / "release" / "pages" / target).is_file(), target


def test_the_lesson_says_what_it_must() -> None:
    said = source(ROOT / "release" / "pages" / LESSON)
    for words in (
        "entre", "sort", "saute", "10 minutes", "30 minutes", "MCI_TIMEOUT_S", "torch.cuda.Event",
        "time.perf_counter", "synchronize", "flush=True", "Root Cause", "portable", "GPU loué", "cluster",
        "autograder run",
    ):  # fmt: skip
        assert words in said, words


@pytest.mark.parametrize("lesson", LESSONS)
def test_no_script_of_a_page_holds_a_hole_of_any_exercise_filled(lesson: str) -> None:
    for ident, script in demo_cells().items():
        assert not re.search(LESSONS[lesson], script), ident


def test_the_demo_has_the_pages() -> None:
    assert re.search(r"cp -R course\.yaml .*\bpages\b", (ROOT / "Makefile").read_text(encoding="utf-8"))


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash on this machine")
def test_the_batch_script_and_what_the_page_types_are_bash() -> None:
    page = source(ROOT / "release" / "pages" / "cluster.ipynb")
    scripts = re.findall(r"```bash\n(.*?)```", page, re.DOTALL)
    assert len(scripts) >= 6
    for script in (*scripts, (ROOT / "release" / "pages" / "labo.sbatch").read_text(encoding="utf-8")):
        done = subprocess.run(["bash", "-n"], input=script, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{script}\n{done.stderr}"


def demo_cells() -> dict[str, str]:
    cells = json.loads((ROOT / "release" / "pages" / LESSON).read_bytes())["cells"]
    return {cell["id"]: "".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"}


def written(cell: str, folder: Path) -> str:
    head, _, body = demo_cells()[cell].partition("\n")
    name = head.split()[1]
    (folder / name).write_text(body, encoding="utf-8")
    return name


@pytest.mark.parametrize(
    ("cell", "texts", "cause"),
    [
        ("lecon-lancer-lent", ("entre 0", "sort 0, après 3.", "entre 1", "sort 1, après 0."), None),
        ("lecon-lancer-qui", ("saute 0", "entre 1"), "Le rang 0 n'entre jamais dans `barrier`"),
    ],
)
def test_what_the_lesson_shows_is_what_happens(
    cell: str, texts: tuple[str, ...], cause: str | None, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """The cell's own command; its Run is a saved one, as for the exercises."""
    from autograder.cli import main

    monkeypatch.chdir(tmp_path)
    written("lecon-ecrire-temoin", tmp_path)
    program, *arguments = demo_cells()[cell].lstrip("!").split()
    assert program == "autograder"
    assert main(arguments) == (0 if cause is None else 1)
    shown = capsys.readouterr().out
    assert all(words in shown for words in texts), shown
    assert (cause or "Rien d'anormal") in shown, shown
    if cause:
        assert "sort" not in re.sub(r"Cause.*", "", shown, flags=re.DOTALL)


def test_a_line_that_is_not_flushed_stays_inside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONUNBUFFERED", "1")  # a notebook server may have it
    written("lecon-ecrire-muet", tmp_path)
    exec(demo_cells()["lecon-lancer-muet"].replace("timeout=3", "timeout=2"), {})
    without, with_flush = capsys.readouterr().out.splitlines()
    assert without.endswith("b''") and "entre 0" in with_flush
