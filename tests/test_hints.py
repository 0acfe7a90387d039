"""A hint for the person who marks: what a written answer mentions, in the course's words; never a mark."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import nbformat
import pytest
import tiny_course

from autograder import course as courses
from autograder.batch.grade import grade_class
from autograder.notebook.generate import generate
from autograder.verdict.hints import hint, hints

pytestmark = pytest.mark.usefixtures("forked")
ROOT = Path(__file__).resolve().parent.parent
SCHEME = """\
=== BEGIN MARK SCHEME ===
**Barème** : 1 point par ligne, dont `entre 0`.

Indices :
- le rang 0 : `rang 0`, `rank 0`
- la ligne qui manque : `sort`, `sort 0`
- **le délai** : `8000 ms`, `8 s`
- l'attente : `atten*`, `bloqué*`

Ne sanctionner ni la longueur : `rien`.
=== END MARK SCHEME ==="""


def mentioned(answer: str) -> set[str]:
    return {one.label for one in hints(SCHEME) if one.mentioned(answer)}


def test_the_words_stand_in_the_mark_scheme() -> None:
    labels = [one.label for one in hints(SCHEME)]
    assert labels == ["le rang 0", "la ligne qui manque", "le délai", "l'attente"]
    assert hints(SCHEME)[1].texts == ("sort", "sort 0")
    assert hints("=== BEGIN MARK SCHEME ===\n- 1 point : `entre`\n=== END MARK SCHEME ===") == ()


@pytest.mark.parametrize(
    ("answer", "labels"),
    [
        ("", set()), ("Le RANG 0 attend.", {"le rang 0", "l'attente"}), ("rank\u00a00", {"le rang 0"}),
        ("le rang\n0", {"le rang 0"}), ("le rang 01 et le rang 10", set()),
        ("`sort 0` manque", {"la ligne qui manque"}),
        ("la sortie, le ressort", set()), ("8s", {"le délai"}), ("8000ms", {"le délai"}), ("18 s", set()),
        ("0,8 s", set()), ("80000 ms", set()), ("**Bloque**", {"l'attente"}),
        ("Il est bloqué", {"l'attente"}),
        ("rien", set()),
    ],
)  # fmt: skip
def test_what_an_answer_mentions(answer: str, labels: set[str]) -> None:
    assert mentioned(answer) == labels


def test_the_hint_is_one_line_that_gives_no_mark() -> None:
    told = str(hint("Le rang 0 attend.", SCHEME)).replace("\u00a0", " ")
    assert told == (
        "Indice, pas une note. Mentionne : le rang 0, l'attente. "
        "Ne mentionne pas : la ligne qui manque, le délai."
    )
    assert hint("n'importe quoi", "sans indices") is None
    assert "point" not in told and len(str(hint("x" * 10_000_000, SCHEME))) < 300


def test_the_group_project_has_hints_for_each_sentence_and_releases_none(tmp_path: Path) -> None:
    path = ROOT / "source" / "projet-groupe" / "projet-groupe.ipynb"
    cells = [cell for cell in nbformat.read(path, as_version=4).cells if "MARK SCHEME" in cell.source]
    assert len(cells) == 5 and all(3 <= len(hints(cell.source)) <= 6 for cell in cells)
    right = (
        "Le rang 0 a imprimé entre 0 ; sort 0 manque : l'appel n'est jamais revenu.",
        "Le rang 1 a imprimé saute 1 ; entre 1 manque : il n'a pas appelé le collectif.",
        "Le rang 0 lève Timed out waiting 8000ms : les 8 secondes de MCI_TIMEOUT_S, le délai du groupe.",
        "Le lanceur a arrêté le rang 1 par SIGTERM, parce que le rang 0 était tombé.",
        "Un pas lent imprime entre puis sort sur les deux rangs ; ici, aucun sort jusqu'au délai.",
    )
    for cell, answer in zip(cells, right, strict=True):
        missed = [one.label for one in hints(cell.source) if not one.mentioned(answer)]
        assert missed == [], cell.id
    generate(courses.load(ROOT), "projet-groupe", tmp_path)
    for given in tmp_path.rglob("*"):
        assert given.is_dir() or "Indices" not in given.read_text(encoding="utf-8")


@pytest.fixture
def course(tmp_path: Path) -> courses.Course:
    course = tiny_course.make_course(tmp_path)
    path = course.root / "source" / "mini" / "mini.ipynb"
    notebook = nbformat.read(path, as_version=4)
    notebook.cells[-1].source = f"### BEGIN SOLUTION\nune réponse\n### END SOLUTION\n{SCHEME}"
    nbformat.write(notebook, path)
    return course


def comment(course: courses.Course, student: str, manual: str | None = None) -> str | None:
    """nbgrader's automatic comment, which formgrader shows in the empty box; `manual` is typed there."""
    from nbgrader.api import Gradebook

    with Gradebook(f"sqlite:///{course.root / 'gradebook.db'}", "petit-cours") as gradebook:
        found: Any = gradebook.find_comment("mini-ecrit", "mini", "mini", student)
        if manual is not None:
            found.manual_comment = manual
            gradebook.db.commit()
        return found.auto_comment


def test_the_grader_reads_the_hint_and_the_student_never_does(course: courses.Course) -> None:
    answered = tiny_course.copy_notebook(written="Le rang 0 attend.")
    tiny_course.hand_in(course.root, "alice", answered)
    tiny_course.hand_in(course.root, "bob", copy.deepcopy(answered))
    tiny_course.hand_in(course.root, "carl", tiny_course.copy_notebook())
    grade_class(course)
    assert "le rang 0" in str(comment(course, "alice")) and comment(course, "carl") == "No response."
    comment(course, "bob", "Presque.")
    grade_class(course)
    found = course.root.glob("feedback/*/mini/*.html")
    pages = {path.parts[-3]: path.read_text(encoding="utf-8") for path in found}
    assert sorted(pages) == ["alice", "bob", "carl"]
    assert not any("Indice" in page or "Mentionne" in page for page in pages.values())
    assert "Presque." in pages["bob"] and "sans réponse" in pages["carl"]
    assert "Indice" in str(comment(course, "bob"))  # still there for the grader, under what was typed


def test_a_hint_changes_no_mark(course: courses.Course) -> None:
    tiny_course.hand_in(course.root, "alice", tiny_course.copy_notebook(written="Rien d'attendu."))
    row = grade_class(course).rows[0]
    assert row.recorded.score == 6 and row.recorded.pending == ("mini-ecrit",)
