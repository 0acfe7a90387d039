"""Handing in: the student's zip, and what the grader makes of whatever comes in."""

from __future__ import annotations

import datetime as dt
import io
import json
import os
import stat
import zipfile
from pathlib import Path

import pytest

from autograder.batch.collect import Collection, collect, identify
from autograder.batch.handin import (
    MAX_FILE_BYTES,
    HandinError,
    nearest,
    pack,
    read_timestamp,
    safe_student_id,
    timestamp_line,
    valid_student_id,
)
from autograder.notebook.stubs import CODE_STUB, TEXT_STUB

NOON = dt.datetime(2031, 2, 3, 12, 0, tzinfo=dt.UTC)
LATER = NOON + dt.timedelta(days=7)
DECLARED = {"ex1-rang": ["labo.py"], "ex2-moyenne": ["labo.py"]}
SCRIPT = "print(1)\n"


def notebook(script: str = SCRIPT, *, extra: tuple[dict[str, object], ...] = ()) -> bytes:
    roles = {"nbgrader": {"grade_id": "ex1-labo", "solution": True, "grade": False}}
    labo = {"cell_type": "code", "source": f"%%writefile labo.py\n{script}", "metadata": roles}
    return json.dumps({"cells": [labo, *extra], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}).encode()


def zipped(path: Path, content: dict[str, bytes | str]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in content.items():
            archive.writestr(name, data)
    return path


def copy_of(folder: Path, script: str = SCRIPT) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "ex1-rang.ipynb").write_bytes(notebook(script))
    (folder / "labo.py").write_text(script)
    return folder


def outcomes(result: Collection) -> list[tuple[str, str, str]]:
    return [(copy.student, copy.assignment, copy.outcome) for copy in result.placed]


# ------------------------------------------------------------------------------------------------- pack


def test_the_zip_holds_the_notebook_the_declared_files_and_the_time(tmp_path: Path) -> None:
    copy_of(tmp_path)
    (tmp_path / "notes.txt").write_text("mine")
    packed = pack("ex1-rang", ["labo.py"], "dupont", tmp_path, now=NOON)
    assert packed.path == tmp_path / "ex1-rang-dupont.zip"
    assert packed.warnings == ()
    with zipfile.ZipFile(packed.path) as archive:
        assert archive.namelist() == ["ex1-rang.ipynb", "labo.py", "timestamp.txt"]
        assert archive.read("timestamp.txt") == b"2031-02-03 12:00:00.000000 UTC\n"


def test_the_same_files_give_the_same_bytes(tmp_path: Path) -> None:
    first = pack("ex1-rang", ["labo.py"], "dupont", copy_of(tmp_path / "a"), now=NOON).path.read_bytes()
    os.utime(copy_of(tmp_path / "b") / "labo.py", (1, 1))
    second = pack("ex1-rang", ["labo.py"], "dupont", tmp_path / "b", now=NOON).path.read_bytes()
    assert first == second


def test_nbgrader_reads_our_timestamp() -> None:
    utils = pytest.importorskip("nbgrader.utils")
    paris = dt.datetime(2031, 7, 1, 14, 30, tzinfo=dt.timezone(dt.timedelta(hours=2)))
    assert utils.parse_utc(timestamp_line(paris)) == dt.datetime(2031, 7, 1, 12, 30)
    assert read_timestamp(timestamp_line(paris)) == paris


def test_the_assignment_folder_is_found_below(tmp_path: Path) -> None:
    copy_of(tmp_path / "release" / "ex1-rang")
    assert pack("ex1-rang", ["labo.py"], "dupont", tmp_path, now=NOON).path.parent == tmp_path


@pytest.mark.parametrize(
    "name", ["ex1-rang (1).ipynb", "ex1-rang-Copy1.ipynb", "Ex1_rang.ipynb", "ex1rang.ipynb"]
)
def test_a_misnamed_notebook_is_named_with_its_right_name(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(notebook())
    with pytest.raises(HandinError) as refusal:
        pack("ex1-rang", ["labo.py"], "dupont", tmp_path)
    assert name in str(refusal.value) and "ex1-rang.ipynb" in str(refusal.value)


def test_another_exercise_s_notebook_is_not_to_be_renamed(tmp_path: Path) -> None:
    folder = copy_of(tmp_path / "ex1-rang")
    with pytest.raises(HandinError, match="Placez-vous dans le dossier qui le contient"):
        pack("ex2-rang", ["labo.py"], "dupont", folder)


@pytest.mark.parametrize("content", [b"", b'{"cells": [', b"[]", b'{"metadata": {}}'])
def test_an_unreadable_notebook_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "ex1-rang.ipynb").write_bytes(content)
    with pytest.raises(HandinError, match="lisible"):
        pack("ex1-rang", ["labo.py"], "dupont", tmp_path)


def test_odd_cells_do_not_stop_the_packing(tmp_path: Path) -> None:
    cells = [None, 3, {"metadata": None}, {"metadata": {"nbgrader": [1]}, "source": [None]}]
    (tmp_path / "ex1-rang.ipynb").write_text(json.dumps({"cells": cells}))
    assert pack("ex1-rang", ["labo.py"], "dupont", tmp_path, now=NOON).names == (
        "ex1-rang.ipynb",
        "timestamp.txt",
    )
    (tmp_path / "ex1-rang.ipynb").write_text('{"cells": ' + "[" * 100_000)
    with pytest.raises(HandinError, match="lisible"):
        pack("ex1-rang", ["labo.py"], "dupont", tmp_path)


def test_nothing_to_hand_in_is_refused(tmp_path: Path) -> None:
    with pytest.raises(HandinError, match=r"ex1-rang\.ipynb"):
        pack("ex1-rang", ["labo.py"], "dupont", tmp_path)


def test_empty_holes_are_counted_and_named(tmp_path: Path) -> None:
    written = {
        "cell_type": "markdown",
        "source": [f"{TEXT_STUB}\n"],
        "metadata": {"nbgrader": {"grade_id": "ex1-question", "solution": True, "grade": True}},
    }
    lesson = {"cell_type": "markdown", "source": TEXT_STUB, "metadata": {}}
    (tmp_path / "ex1-rang.ipynb").write_bytes(notebook(f"{CODE_STUB}\n", extra=(written, lesson)))
    warnings = pack("ex1-rang", ["labo.py"], "dupont", tmp_path, now=NOON).warnings
    assert len(warnings) == 1
    assert warnings[0].startswith("2 ") and "ex1-labo, ex1-question" in warnings[0]


def test_a_file_that_is_not_the_cell_is_told(tmp_path: Path) -> None:
    copy_of(tmp_path)
    (tmp_path / "labo.py").write_text("print(2)\n")
    (warning,) = pack("ex1-rang", ["labo.py"], "dupont", tmp_path, now=NOON).warnings
    assert "labo.py" in warning and "diffèrent" in warning


def test_a_missing_script_is_told_with_the_nearest(tmp_path: Path) -> None:
    (tmp_path / "ex1-rang.ipynb").write_text('{"cells": []}')
    (tmp_path / "labo (1).py").write_text(SCRIPT)
    (warning,) = pack("ex1-rang", ["labo.py"], "dupont", tmp_path, now=NOON).warnings
    assert "labo (1).py" in warning


def test_a_huge_notebook_is_refused_with_the_cure(tmp_path: Path) -> None:
    with (tmp_path / "ex1-rang.ipynb").open("wb") as file:
        file.truncate(MAX_FILE_BYTES + 1)
    with pytest.raises(HandinError, match="Clear Outputs"):
        pack("ex1-rang", ["labo.py"], "dupont", tmp_path)


@pytest.mark.parametrize("student", ["dupont", "élise.martin", "m-12345", "a", "marie@univ.fr", "名前"])
def test_good_ids(student: str) -> None:
    assert valid_student_id(student)
    assert safe_student_id(student) == student


@pytest.mark.parametrize(
    "student",
    [
        "",
        "a+b",
        "../x",
        "a/b",
        "a\\b",
        ".cache",
        "a b",
        "a\nb",
        "*",
        "a,b",
        "{x}",
        "con",
        "a.",
        "x" * 65,
        "-a",
    ],
)
def test_refused_ids_get_a_proposal_that_is_accepted(tmp_path: Path, student: str) -> None:
    assert not valid_student_id(student)
    assert valid_student_id(safe_student_id(student))
    copy_of(tmp_path)
    with pytest.raises(HandinError, match="--id"):
        pack("ex1-rang", ["labo.py"], student, tmp_path)


def test_nearest() -> None:
    assert nearest("ex1-rang(2).ipynb", ["ex1-rang.ipynb", "ex2-moyenne.ipynb"]) == "ex1-rang.ipynb"
    assert nearest("readme.md", ["ex1-rang.ipynb"]) is None


# ---------------------------------------------------------------------------------------------- collect


def test_a_packed_zip_comes_back_as_it_was(tmp_path: Path) -> None:
    packed = pack("ex1-rang", ["labo.py"], "élise.martin", copy_of(tmp_path / "desk"), now=NOON)
    result = collect(packed.path, tmp_path / "course", DECLARED, now=LATER)
    assert outcomes(result) == [("élise.martin", "ex1-rang", "new")]
    assert result.refused == ()
    there = tmp_path / "course" / "submitted" / "élise.martin" / "ex1-rang"
    assert sorted(path.name for path in there.iterdir()) == ["ex1-rang.ipynb", "labo.py", "timestamp.txt"]
    assert (there / "ex1-rang.ipynb").read_bytes() == notebook()


def test_every_usual_shape_is_placed(tmp_path: Path) -> None:
    inbox = tmp_path / "inbox"
    zipped(inbox / "ex1-rang-anna.zip", {"ex1-rang.ipynb": notebook()})
    zipped(inbox / "ex1-rang-bob (1).zip", {"ex1-rang.ipynb": notebook()})  # a browser's second copy
    zipped(inbox / "ex2-moyenne-anna.zip", {"ex2-moyenne/ex2-moyenne.ipynb": notebook()})  # zipped by hand
    copy_of(inbox / "ex1-rang-carl")  # unzipped by the browser
    copy_of(inbox / "dora" / "ex1-rang")  # nbgrader's own layout
    (inbox / "dora" / "ex1-rang" / ".DS_Store").write_bytes(b"x")
    zipped(
        inbox / "moodle.zip",
        {
            "Émile Zola_1234567_assignsubmission_file_/ex1-rang.ipynb": notebook(),
            "Émile Zola_1234567_assignsubmission_file_/labo.py": SCRIPT,
            "Ève Curie_7654321_assignsubmission_file_/ex1-rang-eve.zip": zipped(
                tmp_path / "e.zip", {"ex1-rang.ipynb": notebook()}
            ).read_bytes(),
        },
    )
    result = collect(inbox, tmp_path, DECLARED)
    assert result.refused == ()
    assert sorted(outcomes(result)) == [
        ("1234567", "ex1-rang", "new"),
        ("anna", "ex1-rang", "new"),
        ("anna", "ex2-moyenne", "new"),
        ("bob", "ex1-rang", "new"),
        ("carl", "ex1-rang", "new"),
        ("dora", "ex1-rang", "new"),
        ("eve", "ex1-rang", "new"),
    ]
    assert (tmp_path / "submitted" / "1234567" / "ex1-rang" / "labo.py").is_file()


def test_collecting_twice_changes_nothing(tmp_path: Path) -> None:
    inbox = tmp_path / "inbox"
    inbox.mkdir()
    pack("ex1-rang", ["labo.py"], "dupont", copy_of(tmp_path / "desk"), out=inbox, now=NOON)
    collect(inbox, tmp_path, DECLARED, now=LATER)
    again = collect(inbox, tmp_path, DECLARED, now=LATER)
    assert outcomes(again) == [("dupont", "ex1-rang", "unchanged")]
    assert not (tmp_path / ".autograder").exists()


def test_an_earlier_copy_that_differs_is_kept_aside_and_said(tmp_path: Path) -> None:
    for hour, script in ((0, "print('first')\n"), (1, "print('second')\n")):
        desk = copy_of(tmp_path / f"desk{hour}", script)
        packed = pack("ex1-rang", ["labo.py"], "dupont", desk, now=NOON + dt.timedelta(hours=hour))
        result = collect(packed.path, tmp_path, DECLARED, now=LATER)
    (copy,) = result.placed
    assert copy.outcome == "replaced"
    assert ".autograder/earlier/dupont/ex1-rang/1" in copy.remarks[0]
    assert "second" in (tmp_path / "submitted" / "dupont" / "ex1-rang" / "labo.py").read_text()
    assert "first" in (tmp_path / ".autograder/earlier/dupont/ex1-rang/1/labo.py").read_text()
    # The first one again: it is older than what is in place.
    older = collect(tmp_path / "desk0" / "ex1-rang-dupont.zip", tmp_path, DECLARED, now=LATER)
    assert older.placed[0].outcome == "kept aside"
    assert "second" in (tmp_path / "submitted" / "dupont" / "ex1-rang" / "labo.py").read_text()


def test_a_hostile_archive_writes_nowhere_else(tmp_path: Path) -> None:
    root = tmp_path / "deep" / "course"
    path = tmp_path / "inbox" / "ex1-rang-mallory.zip"
    path.parent.mkdir()
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("ex1-rang.ipynb", notebook())
        archive.writestr("../../evil.py", "x")
        archive.writestr("/tmp/absolute/labo.py", "x")
        archive.writestr("C:\\labo.py", "x")
        link = zipfile.ZipInfo("labo.py")
        link.external_attr = (stat.S_IFLNK | 0o777) << 16
        archive.writestr(link, "/etc/passwd")
    result = collect(path, root, DECLARED)
    assert outcomes(result) == [("mallory", "ex1-rang", "new")]
    assert sorted(p.name for p in (root / "submitted").rglob("*") if p.is_file()) == ["ex1-rang.ipynb"]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["deep", "inbox"]
    reasons = " ".join(why for _, why in result.refused)
    assert "leaves its folder" in reasons and "links are not followed" in reasons


@pytest.mark.skipif(not hasattr(os, "symlink"), reason="no symbolic links")
def test_links_in_a_folder_are_not_followed(tmp_path: Path) -> None:
    secret = tmp_path / "secret.py"
    secret.write_text("secret")
    folder = copy_of(tmp_path / "inbox" / "ex1-rang-mallory")
    (folder / "labo.py").unlink()
    (folder / "labo.py").symlink_to(secret)
    (tmp_path / "inbox" / "ex2-moyenne-mallory").symlink_to(folder)
    result = collect(tmp_path / "inbox", tmp_path, DECLARED)
    assert outcomes(result) == [("mallory", "ex1-rang", "new")]
    assert len(result.refused) == 2
    assert not (tmp_path / "submitted" / "mallory" / "ex1-rang" / "labo.py").exists()


def test_a_zip_bomb_is_stopped_while_reading(tmp_path: Path) -> None:
    path = tmp_path / "ex1-rang-mallory.zip"
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("ex1-rang.ipynb", "w") as entry,
    ):
        for _ in range(40):
            entry.write(bytes(2**20))
    result = collect(path, tmp_path, DECLARED)
    assert result.placed == ()
    assert "larger than 10 MiB" in result.refused[0][1]


def test_zips_nested_without_end_are_refused(tmp_path: Path) -> None:
    data = notebook()
    for _ in range(5):
        stream = io.BytesIO()
        with zipfile.ZipFile(stream, "w") as archive:
            archive.writestr("ex1-rang-mallory.zip", data)
        data = stream.getvalue()
    (tmp_path / "inbox.zip").write_bytes(data)
    result = collect(tmp_path / "inbox.zip", tmp_path, DECLARED)
    assert result.placed == ()
    assert "nested" in result.refused[0][1]


def test_a_damaged_zip_does_not_stop_the_others(tmp_path: Path) -> None:
    inbox = tmp_path / "inbox"
    good = zipped(inbox / "ex1-rang-anna.zip", {"ex1-rang.ipynb": notebook()}).read_bytes()
    (inbox / "ex1-rang-bob.zip").write_bytes(good[: len(good) // 2])
    corrupt = bytearray(good)
    corrupt[60] ^= 0xFF
    (inbox / "ex1-rang-carl.zip").write_bytes(bytes(corrupt))
    result = collect(inbox, tmp_path, DECLARED)
    assert outcomes(result) == [("anna", "ex1-rang", "new")]
    assert [name.split(".zip")[0] for name, _ in result.refused][:1] == ["inbox/ex1-rang-bob"]
    assert any("carl" in name for name, _ in result.refused)


def test_a_file_that_cannot_be_read_does_not_stop_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for student in ("anna", "bob"):
        copy_of(tmp_path / "inbox" / f"ex1-rang-{student}")
    opened = Path.open

    def forbidden(path: Path, *args: object, **kwargs: object) -> object:
        if "inbox" in path.parts and "anna" in path.parent.name:
            raise PermissionError(13, "Permission denied")
        return opened(path, *args, **kwargs)  # type: ignore[call-overload]

    monkeypatch.setattr(Path, "open", forbidden)
    result = collect(tmp_path / "inbox", tmp_path, DECLARED)
    assert outcomes(result) == [("bob", "ex1-rang", "new")]
    assert {why for _, why in result.refused} == {"cannot be read: Permission denied"}


def test_what_cannot_be_placed_is_named_with_the_nearest_name(tmp_path: Path) -> None:
    inbox = tmp_path / "inbox"
    zipped(inbox / "ex1_rang-dupont.zip", {"ex1-rang.ipynb": notebook()})
    zipped(inbox / "travail.zip", {"travail.ipynb": notebook()})
    zipped(inbox / "ex1-rang-a+b.zip", {"ex1-rang.ipynb": notebook()})
    result = collect(inbox, tmp_path, DECLARED)
    assert result.placed == ()
    why = {name.split("/")[1]: reason for name, reason in result.refused}
    assert "ex1-rang-dupont.zip" in why["ex1_rang-dupont.zip"]
    assert "ex1-rang, ex2-moyenne" in why["travail.zip"]
    assert "'a-b'" in why["ex1-rang-a+b.zip"]


def test_names_that_a_browser_changed_are_put_right_and_said(tmp_path: Path) -> None:
    path = zipped(
        tmp_path / "ex1-rang-anna.zip",
        {"ex1-rang (1).ipynb": notebook(), "labo(2).py": SCRIPT, "notes.txt": "x", "timestamp.txt": "hier"},
    )
    result = collect(path, tmp_path, DECLARED)
    (copy,) = result.placed
    names = sorted(p.name for p in copy.folder.iterdir())
    assert names == ["ex1-rang.ipynb", "labo.py"]  # a bad timestamp would stop nbgrader for the whole class
    assert any("ex1-rang (1).ipynb taken as" in remark for remark in copy.remarks)
    assert any("timestamp" in remark for remark in copy.remarks)
    assert [name for name, _ in result.refused] == ["ex1-rang-anna.zip/notes.txt"]


def test_a_script_alone_or_a_cut_notebook_is_placed_with_a_remark(tmp_path: Path) -> None:
    zipped(tmp_path / "inbox" / "ex1-rang-anna.zip", {"labo.py": SCRIPT})
    zipped(tmp_path / "inbox" / "ex1-rang-bob.zip", {"ex1-rang.ipynb": notebook()[:50]})
    result = collect(tmp_path / "inbox", tmp_path, DECLARED)
    assert [copy.remarks[0].split(":")[0] for copy in result.placed] == [
        "no ex1-rang.ipynb",
        "ex1-rang.ipynb is not a readable notebook",
    ]


@pytest.mark.parametrize(
    ("path", "owner"),
    [
        ("in/dupont/ex1-rang/labo.py", ("dupont", "ex1-rang")),
        ("dupont.zip/ex1-rang/labo.py", ("dupont", "ex1-rang")),
        ("in/ex1-rang-dupont.zip/ex1-rang/labo.py", ("dupont", "ex1-rang")),
        ("in/X_12_assignsubmission_file_/ex1-rang/labo.py", ("12", "")),
        ("in/ex1-rang/labo.py", None),  # whose?
        ("in/ex1-rang/dupont/labo.py", None),  # nbgrader's layout the other way round: not guessed
        ("in/labo.py", None),
    ],
)
def test_identify(path: str, owner: tuple[str, str] | None) -> None:
    found = identify(path.split("/"), DECLARED)
    assert (None if isinstance(found, str) else found[:2]) == owner
