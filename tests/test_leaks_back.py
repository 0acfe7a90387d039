"""Nothing that goes back to a student tells what is not theirs: feedback/, release/, the bundle."""

from __future__ import annotations

import html
import io
import os
import re
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest
import sample_class as samples
from sample_class import ROOT, Sample

from autograder import course as courses
from autograder.batch.groups import standings
from autograder.notebook import leaks
from autograder.notebook.bundle import bundle
from autograder.notebook.exam import prepare
from autograder.notebook.leaks import Secret, secrets
from autograder.notebook.variants import solution_files
from autograder.verdict.draw import drawn

# What tells of a test's own code or of this program's, in a traceback or a report.
INSIDE = re.compile(
    r"cellule de test|test_shell|autograder[/\\](?:notebook|verdict|launch|batch)[/\\]"
    r"|sitecustomize\.py|HIDDEN TESTS|MARK SCHEME|Barème \("
)
NOSY = """\
import json, os, sys, traceback
import torch
import torch.distributed as dist
dist.init_process_group("gloo")
rang = dist.get_rank()
print("tout", os.environ.get("MCI_LIGNES"), os.environ.get("MCI_SKIP_RANK"), dict(os.environ), sys.path)
print(os.getcwd(), os.listdir("."), __file__, traceback.format_stack())
lignes = json.loads(os.environ.get("MCI_LIGNES", "[[1, 3], [5, 7]]"))
ligne = torch.tensor(lignes[rang], dtype=torch.float32)
print("entre", rang, flush=True)
dist.all_reduce(ligne)
print("sort", rang, flush=True)
print("moyenne", rang, (ligne / 2).tolist() if "MCI_LIGNES" not in os.environ else "secret", flush=True)
if "MCI_LIGNES" in os.environ:
    raise SystemExit(f"les lignes étaient {os.environ['MCI_LIGNES']}")
dist.destroy_process_group()
"""
CURIOUS_CELL = (
    "import os, sys, traceback\nprint(os.getcwd(), globals().get('__file__'), sys.path, sys.argv)\n"
    "print(dict(os.environ)); traceback.print_stack()\nopen('/nulle/part')"
)


def text_of(page: bytes) -> str:
    """What a page says, line by line: colours cut each word of code into tags of its own. Code within a
    sentence keeps its quotes: the bracket after it is none of its.
    """
    content = page.decode("utf-8", errors="replace")
    body = content[content.find("<body") :] if "<body" in content else content
    body = re.sub(r"</?code\b[^<>]*>", "`", body)
    return html.unescape(re.sub(r"<[^<>]*>", "", re.sub(r"(?is)<(style|script)\b.*?</\1>", "", body)))


def pages(root: Path) -> Iterator[tuple[str, str, Path]]:
    for path in sorted((root / "feedback").rglob("*")):
        if path.is_file():
            student, assignment = path.relative_to(root / "feedback").parts[:2]
            yield student, assignment, path


def private_paths(root: Path) -> list[str]:
    known = {str(root), str(ROOT), str(Path(tempfile.gettempdir()) / "autograder-"), str(Path.home())}
    known |= {sys.prefix, sys.base_prefix, os.path.dirname(sys.executable), str(Path(root).resolve())}
    return sorted(path for path in known if len(path) > 4)


def own_text(root: Path, student: str, assignment: str) -> str:
    """What the student wrote: it may come back to them, whatever it is."""
    folder = root / "submitted" / student / assignment
    said = [path.read_text(encoding="utf-8", errors="replace") for path in folder.glob("*") if path.is_file()]
    for path in folder.glob("*.ipynb"):
        book = nbformat.read(path, as_version=4)
        said += [cell.source for cell in book.cells]
    return "\n".join("".join(leaks._plain(line) + "\n" for line in one.split("\n")) for one in said)


def found_in(root: Path, course: courses.Course, known: list[Secret]) -> list[str]:
    """Everything in feedback/ that must not be there."""
    students = {path.name for path in (root / "submitted").iterdir()}
    groups = standings(course, [(s, a.id) for s in students for a in course.assignments
                                if (root / "submitted" / s / a.id).is_dir()],
                       lambda name: prepare(name, course))  # fmt: skip
    found = []
    for student, assignment, path in pages(root):
        said = text_of(path.read_bytes())
        where = path.relative_to(root).as_posix()
        for private in private_paths(root):
            found += [f"{where}: the path {private}"] if private in path.read_text("utf-8", "replace") else []
        found += [f"{where}: {match[0]!r}" for match in INSIDE.finditer(said)]
        standing = groups.get((student, assignment))
        partners = {student, *(standing.circle if standing else ())}
        found += [
            f"{where}: names {other}" for other in students - partners if re.search(rf"\b{other}\b", said)
        ]
        own = own_text(root, standing.copy if standing else student, assignment)
        lines = {leaks._plain(line) for line in said.split("\n")}
        found += [
            f"{where}: {secret.kind}: {secret.line}"
            for secret in known
            if (secret.kind == "solution" or secret.assignment == assignment)
            and secret.line not in own and any(secret.line in line for line in lines)
        ]  # fmt: skip
    return found


def drawn_rows(labo: Path) -> tuple[int, int, int, int]:
    """What ex2's hidden test draws for this script (see its source)."""
    lucky = drawn("ex2-lignes", str(labo))
    b, c, d = lucky.sample(range(20, 60), 3)
    return c + lucky.choice((-9, -7, 7, 9)), b, c, d


def expected_in(root: Path, student: str, labo: Path) -> list[str]:
    """What was expected for them, where the feedback shows it. The rows themselves may stand in the command
    that was launched: another script gets others.
    """
    a, b, c, d = drawn_rows(labo)
    first, second = (a + c) / 2, (b + d) / 2
    values = [f"{[first, second]}", f"{first}, {second}", f"{first} {second}"]
    page = text_of((root / "feedback" / student / "ex2-moyenne" / "ex2-moyenne.html").read_bytes())
    return [value for value in values if value in page or value.replace(" ", "") in page]


@pytest.fixture(scope="module")
def known(sample_class: Sample) -> list[Secret]:
    return secrets(sample_class.course)


def test_the_secrets_that_are_looked_for_are_many(known: list[Secret]) -> None:
    kinds = {
        kind: sum(secret.kind == kind for secret in known)
        for kind in ("solution", "hidden test", "mark scheme")
    }
    assert min(kinds.values()) > 40, kinds


def test_the_feedback_of_the_sample_class_gives_nothing_away(
    sample_class: Sample, known: list[Secret]
) -> None:
    assert len(list((sample_class.root / "feedback").rglob("*.html"))) == len(sample_class.report.rows)
    assert found_in(sample_class.root, sample_class.course, known) == []


def test_a_planted_leak_in_a_feedback_is_found(
    sample_class: Sample, known: list[Secret], tmp_path: Path
) -> None:
    page = tmp_path / "feedback" / "ines" / "ex2-moyenne" / "ex2-moyenne.html"
    page.parent.mkdir(parents=True)
    (tmp_path / "submitted" / "ines").mkdir(parents=True)
    (tmp_path / "submitted" / "hugo").mkdir()
    hidden = "<span>reduites</span> <span>=</span> <span>lignes_echangees</span>(run, objets=<b>False</b>)"
    page.write_text(f"<body><pre>{hidden}\nhugo {tmp_path} cellule de test</pre></body>")
    told = " ".join(found_in(tmp_path, sample_class.course, known))
    for word in ("names hugo", f"the path {tmp_path}", "cellule de test"):
        assert word in told
    page.write_text(
        "<body><pre>"
        + html.escape(next(s.line for s in known if s.cell == "ex2-test-tirage"))
        + "</pre></body>"
    )
    assert "hidden test" in " ".join(found_in(tmp_path, sample_class.course, known))


def test_no_value_expected_for_drawn_rows_comes_back(
    sample_class: Sample, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_at = []
    for row in sample_class.report.rows:
        if row.assignment == "ex2-moyenne":
            labo = sample_class.root / "autograded" / row.student / "ex2-moyenne" / "labo.py"
            if not labo.exists():
                continue
            looked_at.append(labo)
            assert expected_in(sample_class.root, row.student, labo) == [], row.student
    assert len(looked_at) >= 6
    runs = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests" / "runs").glob("*.json"))
    launched = [labo for labo in looked_at if "[[{}, {}], [{}, {}]]".format(*drawn_rows(labo)) in runs]
    assert len(launched) >= 4  # so these are the very values that the tests drew


@pytest.fixture(scope="module")
def nosy(tmp_path_factory: pytest.TempPathFactory, sample_class: Sample) -> tuple[Path, courses.Course]:
    """Two students who print all they can find, in labo.py and in a cell, and one whose paste is a lie."""
    root = tmp_path_factory.mktemp("curieux")
    course = samples.course_in(root)
    book = nbformat.read(root / "release" / "ex2-moyenne" / "ex2-moyenne.ipynb", as_version=4)
    for cell in book.cells:
        if cell.metadata.get("nbgrader", {}).get("grade_id") == "ex2-lignes":
            cell.source = CURIOUS_CELL
    book.cells.append(nbformat.v4.new_code_cell(CURIOUS_CELL))
    for cell in book.cells:
        if cell.source.startswith("%%writefile labo.py"):
            cell.source = "%%writefile labo.py\n" + NOSY
    folder = root / "submitted" / "curieux" / "ex2-moyenne"
    folder.mkdir(parents=True)
    nbformat.write(book, folder / "ex2-moyenne.ipynb")
    (folder / "labo.py").write_text(NOSY)
    samples.graded(course)
    return root, course


def test_a_script_that_prints_all_it_sees_brings_nothing_home(
    nosy: tuple[Path, courses.Course], known: list[Secret]
) -> None:
    root, course = nosy
    page = (root / "feedback" / "curieux" / "ex2-moyenne" / "ex2-moyenne.html").read_bytes()
    assert "tout None None" in text_of(page) or "moyenne" in text_of(page)
    assert expected_in(root, "curieux", root / "submitted" / "curieux" / "ex2-moyenne" / "labo.py") == []
    assert found_in(root, course, known) == []


def test_feedback_holds_pages_and_the_student_s_files_only(sample_class: Sample) -> None:
    for student, assignment, path in pages(sample_class.root):
        one = sample_class.course.assignment(assignment)
        named = {f"{assignment}.html", "timestamp.txt", *one.files, *one.data}
        assert path.name in named, f"{student}: {path}"


# ------------------------------------------------------------------------------------------ what is published


def test_the_bundle_and_the_wheel_in_it_give_nothing_away(
    sample_class: Sample, known: list[Secret], tmp_path: Path
) -> None:
    course = courses.load(ROOT)
    written = tmp_path / "cours.zip"
    bundle(course, written, [one.id for one in course.assignments])
    texts = dict(members(written.read_bytes()))
    assert any(name.endswith("METADATA") for name in texts)  # inside the wheel too
    graders = re.compile(r"(?<![\w.])/(?:home|root|Users)/\w")
    for name, said in texts.items():
        lines = {leaks._plain(line) for line in said.split("\n")}
        for private in private_paths(ROOT):
            assert re.search(re.escape(private) + r"[/\\]\w", said) is None, f"{name}: {private}"
        assert graders.search(said) is None or "autograder/" in name, name
        if name.endswith(".py") and ".whl" in name:
            continue  # this package: its own tests hold it to what it may say
        for secret in known:  # the tests of all assignments use the same few words: each in its own
            if secret.kind != "hidden test" or secret.assignment in name.split("/"):
                assert not any(secret.line in line for line in lines), f"{name}: {secret}"


def members(archive: bytes, prefix: str = "") -> Iterator[tuple[str, str]]:
    with zipfile.ZipFile(io.BytesIO(archive)) as opened:
        for name in opened.namelist():
            data = opened.read(name)
            if name.endswith((".zip", ".whl")):
                yield from members(data, f"{prefix}{name}/")
            elif name.endswith(".ipynb"):
                yield prefix + name, "\n".join(cell_texts(data))
            else:
                yield prefix + name, data.decode("utf-8", errors="replace")


def cell_texts(data: bytes) -> Iterator[str]:
    book: Any = nbformat.reads(data.decode(), as_version=4)
    for cell in book.cells:
        yield cell.source
        assert not cell.get("outputs")


def test_the_committed_release_gives_nothing_away(known: list[Secret]) -> None:
    assert leaks.scan(courses.load(ROOT), ROOT / "release", known) == []


def test_no_solution_file_is_in_the_package() -> None:
    """The wheel that students install holds no script that a source-only cell writes."""
    public = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "release").rglob("*.ipynb"))
    package = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "autograder").rglob("*.py"))
    for path in (ROOT / "source").glob("*/*.ipynb"):
        for name, content in solution_files(nbformat.read(path, as_version=4)).items():
            body = content.strip()
            if name.endswith(".py") and body not in public:
                assert body not in package, f"{path.name}: {name}"
