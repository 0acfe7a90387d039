"""A copy in any state: the mark that can be known, else "not graded" with its cause and the next step;
never a class that stops, waits or fills a disk. One class of broken copies, graded once.
"""

from __future__ import annotations

import copy
import dataclasses
import html
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tiny_course
from forking import fork_cells
from nbformat.v4 import new_code_cell, new_markdown_cell

from autograder.batch.collect import collect
from autograder.batch.copies import unusable_names
from autograder.batch.grade import ClassReport, Row, grade_class
from autograder.report.table import not_graded_lines

Make = Callable[[Path], None]
RIGHT = tiny_course.copy_notebook(written="Parce que.")
TEXT = json.dumps(RIGHT)
# What a student is asked to do next: some verb of a next step stands in each cause.
NEXT_STEP = re.compile(r"(?i)dépos|renomm|demandez|enregistr|complétez|vérifiez")

STATES: dict[str, tuple[float | None, Make]] = {}  # the automatic mark, None: not graded


def state(mark: float | None, *, posix: bool = False) -> Callable[[Make], Make]:
    def add(make: Make) -> Make:
        if not posix or os.name == "posix":
            STATES[make.__name__] = (mark, make)
        return make

    return add


def write(folder: Path, content: str | bytes = TEXT, name: str = "mini.ipynb") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def changed(change: Callable[[Any], None]) -> str:
    notebook = copy.deepcopy(RIGHT)
    change(notebook)
    return json.dumps(notebook)


def cell(notebook: Any, name: str) -> Any:
    return next(one for one in notebook.cells if one.id == name)


def sparse(path: Path, megabytes: int = 300) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        file.truncate(megabytes * 1_000_000)


# ------------------------------------------------------------------------------------------ cells, run


@state(6)
def right(folder: Path) -> None:
    """Without a timestamp."""
    write(folder)
    write(folder, "import sys\nprint(42)", "labo.py")


@state(6)
def each_cell_twice_for_another_kernel(folder: Path) -> None:
    def change(book: Any) -> None:
        book.cells.extend(copy.deepcopy(book.cells))
        book.metadata = {"kernelspec": {"name": "ir", "display_name": "R"}, "language_info": {"name": "R"}}

    write(folder, changed(change))


@state(6)
def no_test_cells_and_an_odd_timestamp(folder: Path) -> None:
    def change(book: Any) -> None:
        book.cells = [one for one in book.cells if "test" not in one.id]

    write(folder, changed(change))
    write(folder, "31/02/2031 à midi", "timestamp.txt")


@state(0)
def no_cells_and_a_timestamp_beyond_time(folder: Path) -> None:
    write(folder, changed(lambda book: book.cells.clear()))
    write(folder, "9999-12-31T23:59:59-12:00", "timestamp.txt")


@state(0)
def weakened_tests_and_no_answer(folder: Path) -> None:
    def change(book: Any) -> None:
        cell(book, "mini-reponse").source = cell(book, "mini-labo").source = ""
        for name in ("mini-test-reponse", "mini-test-labo"):
            cell(book, name).source = "100"

    write(folder, changed(change))


@state(6)
def retyped_reflagged_and_in_reverse(folder: Path) -> None:
    def change(book: Any) -> None:
        for place, one in enumerate(book.cells):
            make = new_markdown_cell if one.cell_type == "code" else new_code_cell
            if "nbgrader" in one.metadata:
                one.metadata.nbgrader.update(grade=False, solution=True, locked=False, points=-3)
            book.cells[place] = make(one.source, id=one.id, metadata=one.metadata)
        book.cells.reverse()

    write(folder, changed(change))


@state(6)
def attachments_that_are_no_pictures(folder: Path) -> None:
    def change(book: Any) -> None:
        odd: list[Any] = [3, [1], {"x.png": 3}, {"x.png": {"image/png": [1]}}, {"x.png": {"a": "x"}, "y": 0}]
        for number, attached in enumerate(odd):
            one = new_markdown_cell("![a](attachment:x.png)", id=f"q{number}")
            book.cells.append(one | {"attachments": attached})

    write(folder, changed(change))


@state(None)
def cells_by_the_thousand(folder: Path) -> None:
    def change(book: Any) -> None:
        book.cells += [new_markdown_cell("", id="z")] * 30_000

    write(folder, changed(change))


@state(6)
def raw_cells_in_utf_16(folder: Path) -> None:
    notebook = json.loads(TEXT)
    for one in notebook["cells"]:
        one["cell_type"] = "raw"
    write(folder, json.dumps(notebook, ensure_ascii=False).encode("utf-16"))


@state(6)
def metadata_of_odd_types(folder: Path) -> None:
    notebook = json.loads(TEXT)
    odd_ones = [3, None, [], "x", {"tags": 3}, {"tags": [[]]}, {"collapsed": "oui", "jupyter": 7}]
    for one, odd in zip(notebook["cells"], odd_ones, strict=True):
        one["metadata"] = odd
    notebook["cells"] += [None, 3, {}, {"cell_type": "code", "metadata": {"tags": {"a": 1}}, "source": None}]
    notebook["metadata"] = [1]
    write(folder, json.dumps(notebook))


@state(6)
def deep_metadata(folder: Path) -> None:
    notebook = json.loads(TEXT)
    notebook["cells"][0]["metadata"] = notebook["metadata"] = {"x": "DEEP"}
    deep = '{"a":' * 600 + "1" + "}" * 600
    write(folder, json.dumps(notebook).replace('"DEEP"', deep))


@state(6)
def ten_thousand_cells_of_one_name(folder: Path) -> None:
    def change(book: Any) -> None:
        book.cells += [new_code_cell(f"x = {n}", id="z") for n in range(10_000)]

    write(folder, changed(change))


@state(6)
def cells_of_five_megabytes(folder: Path) -> None:
    def change(book: Any) -> None:
        book.cells.insert(1, new_code_cell(f"x = '{'1234567, ' * 560_000}'", id="grande"))
        book.cells.insert(1, new_markdown_cell("[[" * 20_000 + "*a _b " * 800_000, id="texte"))

    write(folder, changed(change))


@state(6)
def thirty_megabytes_saved_printed_and_piped(folder: Path) -> None:
    def change(book: Any) -> None:
        book.cells += [
            new_code_cell("print('x' * 30_000_000)", id="bavard"),
            new_code_cell("!yes | head -c 30000000", id="yes"),
        ]
        stored = {"output_type": "stream", "name": "stdout", "text": "x" * 30_000_000}
        cell(book, "mini-reponse").outputs = [stored]

    write(folder, changed(change))


# ------------------------------------------------------------------------------------------ bytes


@state(6)
def byte_order_marks_and_windows_line_ends(folder: Path) -> None:
    text = json.dumps(RIGHT, indent=1).replace("\n", "\r\n")
    write(folder, b"\xef\xbb\xbf" + text.encode())
    write(folder, "2031-02-03 14:30:00 UTC".encode("utf-8-sig"), "timestamp.txt")


@state(6)
def latin_1_old_mac_line_ends_and_half_surrogates(folder: Path) -> None:
    notebook = json.loads(TEXT)
    for one in notebook["cells"]:
        one["source"] = one["source"].replace("\n", "\r")
    notebook["metadata"]["auteur SUR"] = "SUR"
    notebook["cells"].append({"cell_type": "markdown", "metadata": {}, "source": "SUR é seul"})
    shown = {"cell_type": "code", "metadata": {}, "source": "print('\\ud800'); '\\udfff'", "outputs": []}
    notebook["cells"].append(shown)
    content = json.dumps(notebook, ensure_ascii=False).replace("SUR", "\\ud83d")
    write(folder, content.encode("latin-1", "replace"))


NOT_NOTEBOOKS: dict[str, str | bytes] = {
    "truncated": TEXT[: len(TEXT) // 2],
    "empty": "",
    "a_web_page": "<!DOCTYPE html><html>Connexion</html>",
    "random_bytes": bytes(range(256)) * 200,
    "json_of_something_else": '{"a": [1, 2]}',
    "json_too_deep_to_read": '{"cells": ' + "[" * 200_000 + "]" * 200_000 + "}",
    "a_number_too_long_to_read": '{"cells": [], "nbformat": ' + "9" * 100_000 + "}",
}
for _name, _content in NOT_NOTEBOOKS.items():
    STATES[_name] = (None, lambda folder, content=_content: write(folder, content))  # type: ignore[misc]


# ------------------------------------------------------------------------------------------ names and files


@state(None)
def empty_folder(folder: Path) -> None:
    folder.mkdir(parents=True)


@state(None)
def renamed(folder: Path) -> None:
    write(folder, name="mini (1).ipynb")


@state(None, posix=True)
def renamed_with_bytes_that_are_no_text(folder: Path) -> None:
    write(folder, name=os.fsdecode(b"mini\xff\x1b[31m\n.ipynb"))


@state(None)
def script_alone(folder: Path) -> None:
    write(folder, "print(42)", "labo.py")


@state(None)
def a_folder_named_as_the_notebook(folder: Path) -> None:
    (folder / "mini.ipynb").mkdir(parents=True)


@state(6, posix=True)
def read_only_and_deep_with_names_that_are_no_text(folder: Path) -> None:
    write(folder)
    write(folder, "import sys\nprint(42)", "labo.py")
    write(folder, "x", os.fsdecode(b"caf\xe9\n\x1b[2J.txt"))
    (folder / Path(*["d"] * 300)).mkdir(parents=True)
    write(folder, "1" * 10_000_000, "timestamp.txt")
    for path in folder.iterdir():
        path.chmod(0o555 if path.is_dir() else 0o444)
    folder.chmod(0o555)


@state(6, posix=True)
def a_huge_file_a_pipe_a_socket_and_links_beside(folder: Path) -> None:
    """labo.py counts: none of them may keep it out."""
    write(folder, hole())
    write(folder, "print(42)", "labo.py")
    sparse(folder / "donnees.bin")
    os.mkfifo(folder / "tube")
    (folder / "boucle").symlink_to(".")
    (folder / "mort").symlink_to("nulle-part")
    here = os.getcwd()
    os.chdir(folder)  # a socket's path may have a hundred letters
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind("prise")
    finally:
        os.chdir(here)


@state(None)
def a_huge_notebook(folder: Path) -> None:
    sparse(folder / "mini.ipynb")


@state(None)
def a_huge_script(folder: Path) -> None:
    write(folder, hole())
    sparse(folder / "labo.py")


@state(6)
def a_huge_script_beside_a_right_cell(folder: Path) -> None:
    write(folder)
    sparse(folder / "labo.py")


@state(None)
def a_huge_script_alone(folder: Path) -> None:
    sparse(folder / "labo.py")


@state(None, posix=True)
def a_link_to_another_copy(folder: Path) -> None:
    folder.mkdir(parents=True)
    (folder / "mini.ipynb").symlink_to("../../right/mini/mini.ipynb")


@state(None, posix=True)
def a_folder_that_is_a_link(folder: Path) -> None:
    folder.parent.mkdir(parents=True)
    folder.symlink_to("../right/mini")


@state(None, posix=True)
def a_script_that_is_a_link(folder: Path) -> None:
    write(folder, hole())
    (folder / "labo.py").symlink_to("../../right/mini/labo.py")


@state(None)
def a_folder_that_is_a_file(folder: Path) -> None:
    folder.parent.mkdir(parents=True)
    folder.write_text(TEXT)


@state(None, posix=True)
def a_notebook_that_is_a_pipe(folder: Path) -> None:
    folder.mkdir(parents=True)
    os.mkfifo(folder / "mini.ipynb")


def hole() -> str:
    """The notebook whose script's cell is as it was released: the file counts."""
    return changed(lambda book: setattr(cell(book, "mini-labo"), "source", released("mini-labo")))


def released(name: str) -> str:
    from autograder.notebook.repair import skeleton

    return skeleton(tiny_course.source_notebook()).released[name]


# ------------------------------------------------------------------------------------------ the class


@dataclasses.dataclass(frozen=True)
class Graded:
    root: Path
    report: ClassReport
    temp: Path
    seconds: float
    alone_s: float  # what one right copy takes here
    again: dict[str, Any]

    def row(self, student: str) -> Row:
        return next(row for row in self.report.rows if row.student == student)


@pytest.fixture(scope="module")
def graded(tmp_path_factory: pytest.TempPathFactory, notebook_server: Any) -> Graded:
    root, temp = tmp_path_factory.mktemp("classe"), tmp_path_factory.mktemp("temp")
    course = tiny_course.make_course(root, late="daily")
    for student, (_, make) in STATES.items():
        make(root / "submitted" / student / "mini")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AUTOGRADER_KEY_FILE", str(tiny_course.ROOT / "tests" / "data" / "test.key"))
        patch.setattr(tempfile, "tempdir", str(temp))
        fork_cells(notebook_server, patch)
        started = time.monotonic()
        grade_class(course, students=["right"])
        alone = time.monotonic() - started
        report = grade_class(course)
        return Graded(root, report, temp, time.monotonic() - started - alone, alone, marks(root))


def marks(root: Path) -> dict[str, Any]:
    import disturbed

    return dict(disturbed.marks(root))


@pytest.mark.parametrize("student", STATES)
def test_the_mark_that_can_be_known(graded: Graded, student: str) -> None:
    row, expected = graded.row(student), STATES[student][0]
    assert row.recorded.problem is None
    assert row.result.details == (), row.result.details
    if expected is not None:
        assert (row.result.graded, row.result.score) == (True, expected), row.result
    else:
        assert not row.result.graded and row.result.cause
        assert NEXT_STEP.search(row.result.cause), row.result.cause
        assert row.result.cause.replace("\xa0", " ").isprintable()


@pytest.mark.parametrize("student", [name for name, (mark, _) in STATES.items() if mark is None])
def test_not_graded_waits_for_a_person_and_its_feedback_says_why(graded: Graded, student: str) -> None:
    grades = {name: (auto, needs) for name, auto, _, needs in graded.again[student][1]}
    if student not in ("script_alone", "a_huge_script", "a_script_that_is_a_link"):  # other tests have a mark
        assert set(grades.values()) == {(None, True)}
    assert (None, True) in grades.values()
    page = (graded.root / "feedback" / student / "mini" / "mini.html").read_text(encoding="utf-8")
    cause = " ".join((graded.row(student).result.cause or "").split())
    assert cause.split("`")[-1].strip(" .:") in " ".join(html.unescape(page).split())


def test_one_line_says_each_cause_to_the_grader(graded: Graded) -> None:
    lines = not_graded_lines(graded.report)
    assert len(lines) == sum(mark is None for mark, _ in STATES.values())
    assert all(line.replace("\xa0", " ").isprintable() for line in lines)


def test_a_broken_copy_does_not_delay_the_class(graded: Graded) -> None:
    """No copy takes long against a right one (here: ten thousand cells), none the limits of the course."""
    slowest = max(graded.report.rows, key=lambda row: row.result.duration_s)
    assert slowest.result.duration_s < 30 * max(graded.alone_s, 1), slowest.student
    assert graded.seconds < 4 * len(STATES) * max(graded.alone_s, 1)


def test_nothing_huge_is_written_and_nothing_is_left(graded: Graded) -> None:
    for place in ("autograded", "feedback", ".autograder"):
        big = [path for path in (graded.root / place).rglob("*") if path.lstat().st_size > 40_000_000]
        assert big == []
    assert [path.name for path in graded.temp.iterdir()] == []


def test_what_is_no_file_never_reaches_the_graded_copies(graded: Graded) -> None:
    for place in ("autograded", "feedback"):
        for path in (graded.root / place).rglob("*"):
            assert not path.is_symlink() and (path.is_dir() or path.is_file()), path


def test_lateness_is_read_through_a_byte_order_mark(graded: Graded) -> None:
    late = {row.student for row in graded.report.rows if row.recorded.late_s > 0}
    assert late == {"byte_order_marks_and_windows_line_ends"}


# ------------------------------------------------------------------------------------------ elsewhere


@pytest.mark.skipif(os.name != "posix", reason="names of a POSIX system")
def test_a_student_s_folder_that_cannot_be_graded_under_its_name_is_named(tmp_path: Path) -> None:
    course = tiny_course.make_course(tmp_path)
    for name in (b"caf\xe9", b"a[b]", b"c*", b"esc\x1b[2J"):
        write(tmp_path / "submitted" / os.fsdecode(name) / "mini")
    write(tmp_path / "submitted" / "à côté" / "mini")
    report = grade_class(course)
    assert [(row.student, row.result.score, row.recorded.problem) for row in report.rows] == [
        ("à côté", 6, None)
    ]
    assert len(report.unusable) == 4 and not report.complete
    assert all(line.isprintable() and "rename it to" in line for line in report.unusable)
    assert "'a-b'" in " ".join(unusable_names(tmp_path))


# Root may read all: without these two rights, no more than its owner.
ORDINARY = (
    ["setpriv", "--bounding-set=-dac_override,-dac_read_search", "--inh-caps=-dac_override,-dac_read_search"]
    if os.name == "posix" and os.geteuid() == 0
    else []
)


@pytest.mark.skipif(os.name != "posix", reason="rights of a POSIX system")
@pytest.mark.skipif(
    bool(ORDINARY) and shutil.which("setpriv") is None, reason="needs setpriv where we are root"
)
def test_what_an_ordinary_user_may_not_read_is_not_graded(tmp_path: Path) -> None:
    course = tiny_course.make_course(tmp_path)
    locked = {"dossier": 0, "liste": 0o444, "etudiant": 0o755, "carnet": 0o755, "script": 0o755}
    for student in locked:
        write(tmp_path / "submitted" / student / "mini")
    write(tmp_path / "submitted" / "script" / "mini", "print(42)", "labo.py").chmod(0)
    write(tmp_path / "submitted" / "script" / "mini", hole())
    (tmp_path / "submitted" / "carnet" / "mini" / "mini.ipynb").chmod(0)
    write(tmp_path / "submitted" / "juste" / "mini")
    for student, mode in locked.items():
        (tmp_path / "submitted" / student / "mini").chmod(mode)
    (tmp_path / "submitted" / "etudiant").chmod(0)
    code = (
        "import json\nfrom autograder import course\nfrom autograder.batch.grade import grade_class\n"
        "report = grade_class(course.load('.'))\n"
        "print(json.dumps({r.student: [r.result.score, r.result.cause, r.recorded.problem,"
        " list(r.result.details)] for r in report.rows}))"
    )
    temp = tmp_path / "temp"
    temp.mkdir()
    env = {"PATH": os.environ["PATH"], "HOME": str(temp), "TMPDIR": str(temp), "LANG": "C.UTF-8"}
    try:
        done = subprocess.run(
            [*ORDINARY, sys.executable, "-c", code], cwd=tmp_path, env=env, capture_output=True, text=True
        )
    finally:
        for student in locked:
            (tmp_path / "submitted" / student).chmod(0o755)
            (tmp_path / "submitted" / student / "mini").chmod(0o755)
    assert done.returncode == 0, done.stderr[-3000:]
    told = json.loads(done.stdout.splitlines()[-1])
    assert told.pop("juste") == [6, None, None, []]
    assert told.pop("script")[0] == 4
    for student, (score, cause, problem, details) in told.items():
        assert (score, problem, details) == (0, None, []), student
        assert NEXT_STEP.search(cause) and "droits" in cause, student
    assert set(told) == {"dossier", "liste", "etudiant", "carnet"}
    assert course.course.id


@pytest.mark.skipif(os.name != "posix", reason="zips made on a POSIX system")
def test_links_and_names_that_climb_in_a_zip_reach_nothing(tmp_path: Path) -> None:
    course = tiny_course.make_course(tmp_path / "cours")
    secret = write(tmp_path, "un secret", "secret.txt")
    archive = tmp_path / "lot.zip"
    with zipfile.ZipFile(archive, "w") as zipped:
        for name in (
            "../../secret.txt",
            "/etc/cron.d/x",
            "mini-zoe/../../labo.py",
            "..\\..\\labo.py",
            "C:\\labo.py",
        ):
            zipped.writestr(name, "print('ailleurs')")
        for name in ("mini-alice/labo.py", "mini-bob/mini.ipynb"):
            link = zipfile.ZipInfo(name)
            link.create_system, link.external_attr = 3, 0o120777 << 16
            zipped.writestr(link, str(secret))
        zipped.writestr("mini-alice/mini.ipynb", TEXT)
    done = collect(archive, course.root, {"mini": ["labo.py"]})
    assert [(one.student, one.outcome) for one in done.placed] == [("alice", "new")]
    assert [name for name, _ in done.refused] == ["lot.zip (5 files)", "lot.zip (2 files)"]
    assert secret.read_text() == "un secret"
    report = grade_class(course)
    assert [(row.student, row.result.score) for row in report.rows] == [("alice", 6)]
    assert "un secret" not in "".join(
        path.read_text(errors="replace") for path in (course.root / "feedback").rglob("*") if path.is_file()
    )
