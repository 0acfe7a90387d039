"""Collecting from people who want another's place, the grader's memory, or the grader's terminal."""

from __future__ import annotations

import datetime as dt
import io
import json
import os
import tracemalloc
import unicodedata
import zipfile
import zlib
from pathlib import Path

import pytest
import tiny_course

from autograder import cli
from autograder.batch import unpack
from autograder.batch.collect import Collection, collect
from autograder.batch.senders import known

NOW = dt.datetime(2031, 2, 3, 12, 0, tzinfo=dt.UTC)
DECLARED = {"mini": ["labo.py"], "maxi": ["labo.py"], "lab": ["labo.py", "groupe.json"]}
FOLDERS = {"victim": "Vera Victime_111", "mallory": "Mallory M_222", "bob": "Bob B_333"}
MEMBER = (2031, 2, 1, 10, 0, 0)


def notebook(said: str) -> str:
    return json.dumps({"cells": [{"cell_type": "markdown", "source": said, "metadata": {}}]})


def zip_of(
    *files: tuple[str, bytes | str], method: int = zipfile.ZIP_DEFLATED, date: tuple[int, ...] = MEMBER
) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, data in files:
            entry = zipfile.ZipInfo(name, date)  # type: ignore[arg-type]
            entry.compress_type = method
            archive.writestr(entry, data)
    return stream.getvalue()


def copy_of(said: str, stamp: str | None = "2031-02-01 10:00:00 UTC", assignment: str = "mini") -> bytes:
    stamped = [("timestamp.txt", stamp)] if stamp else []
    return zip_of((f"{assignment}.ipynb", notebook(said)), *stamped)


def moodle(path: Path, *files: tuple[str, str, bytes | str]) -> Path:
    """Moodle's download: whose folder, the name in it, its bytes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    named = [(f"{FOLDERS.get(who, who)}_assignsubmission_file_/{name}", data) for who, name, data in files]
    path.write_bytes(zip_of(*named))
    return path


def collected(source: Path, root: Path) -> Collection:
    return collect(source, root, DECLARED, now=NOW)


def placed(result: Collection) -> list[tuple[str, str]]:
    return sorted((copy.student, copy.outcome) for copy in result.placed)


def said_by(root: Path, student: str) -> str:
    return (root / "submitted" / student / "mini" / "mini.ipynb").read_text()


# ------------------------------------------------------------------------------------- another's copy


@pytest.mark.parametrize("name", ["mini-victim.zip", "mini-Victim.zip", "x.zip", "mini-victim/mini.ipynb"])
@pytest.mark.parametrize("unzipped", [False, True])
def test_two_persons_cannot_send_one_student_s_copy(tmp_path: Path, name: str, unzipped: bool) -> None:
    stolen: bytes | str = copy_of("stolen", "2031-02-02 10:00:00 UTC")
    if name == "x.zip":
        stolen = zip_of(("deep/mini-victim/mini.ipynb", notebook("stolen")))
    if name.endswith("ipynb"):
        stolen = notebook("stolen")
    path = moodle(
        tmp_path / "moodle.zip",
        ("victim", "mini-victim.zip", copy_of("mine")),
        ("mallory", name, stolen),
        ("bob", "mini-bob.zip", copy_of("bob")),
    )
    if unzipped:
        with zipfile.ZipFile(path) as archive:
            archive.extractall(tmp_path / "moodle")
        path = tmp_path / "moodle"
    result = collected(path, tmp_path)
    assert placed(result) == [("bob", "new")]
    assert not (tmp_path / "submitted" / "victim").exists()
    assert len(result.refused) == 2
    for _, why in result.refused:
        assert "Vera Victime_111" in why and "Mallory M_222" in why


def test_a_folder_that_looks_like_moodle_s_inside_a_person_s_own_is_that_person_s(tmp_path: Path) -> None:
    inner = zip_of(("Vera Victime_111_assignsubmission_file_/mini.ipynb", notebook("stolen")))
    path = moodle(
        tmp_path / "moodle.zip",
        ("mallory", "a.zip", inner),
        ("victim", "mini.ipynb", notebook("mine")),
        ("bob", "mini-111.zip", copy_of("stolen too")),
    )
    result = collected(path, tmp_path)
    assert placed(result) == [("111", "new")]
    assert "mine" in said_by(tmp_path, "111")
    assert len(result.refused) == 2 and all("Vera Victime_111" in why for _, why in result.refused)


def test_one_person_cannot_send_two_students_copies(tmp_path: Path) -> None:
    path = moodle(
        tmp_path / "moodle.zip",
        ("mallory", "mini-mallory.zip", copy_of("mallory")),
        ("mallory", "mini-absent.zip", copy_of("as another")),
        ("bob", "mini-bob.zip", copy_of("bob")),
    )
    result = collected(path, tmp_path)
    assert placed(result) == [("bob", "new")]
    assert all("Mallory M_222" in why and "absent, mallory" in why for _, why in result.refused)


def test_what_a_person_sent_for_another_activity_counts(tmp_path: Path) -> None:
    """Moodle numbers a person anew for each activity: the same name is the same person there."""
    inbox = tmp_path / "inbox"
    moodle(inbox / "1.zip", *[(name, f"mini-{name}.zip", copy_of(name)) for name in ("mallory", "victim")])
    moodle(
        inbox / "2.zip",
        ("Mallory M_777", "maxi-victim.zip", copy_of("stolen", assignment="maxi")),
        ("Bob B_888", "maxi-bob.zip", copy_of("b", assignment="maxi")),
    )
    assert placed(collected(inbox, tmp_path)) == [("bob", "new")]
    moodle(inbox / "2.zip", ("Vera Victime_778", "maxi-victim.zip", copy_of("v", assignment="maxi")))
    assert placed(collected(inbox, tmp_path)) == [("mallory", "new"), ("victim", "new"), ("victim", "new")]


def test_a_group_s_copy_may_come_from_either_member_or_from_both(tmp_path: Path) -> None:
    inbox = tmp_path / "inbox"
    shared = copy_of("shared", assignment="lab")
    moodle(inbox / "1.zip", *[(name, f"mini-{name}.zip", copy_of(name)) for name in ("bob", "victim")])
    moodle(inbox / "2.zip", ("Bob B_888", "lab-victim.zip", shared))
    result = collected(inbox, tmp_path)
    assert placed(result) == [("bob", "new"), ("victim", "new"), ("victim", "new")]
    moodle(inbox / "2.zip", *[(who, "lab-victim.zip", shared) for who in ("Bob B_888", "Vera Victime_889")])
    again = collected(inbox, tmp_path)
    assert {outcome for _, outcome in placed(again)} == {"unchanged"} and not again.refused


def test_a_copy_under_the_moodle_number_beside_one_under_a_name_is_said(tmp_path: Path) -> None:
    path = moodle(
        tmp_path / "moodle.zip",
        ("bob", "mini.ipynb", notebook("b")),
        ("bob", "mini-bob.zip", copy_of("b")),
    )
    result = collected(path, tmp_path)
    assert placed(result) == [("333", "new"), ("bob", "new")]
    remarks = {copy.student: copy.remarks for copy in result.placed}
    assert remarks["bob"] == () and "Bob B_333 handed in as bob too" in remarks["333"][0]


def test_who_replaced_a_copy_is_said(tmp_path: Path) -> None:
    collected(moodle(tmp_path / "1.zip", ("victim", "mini-victim.zip", copy_of("mine"))), tmp_path)
    later = copy_of("stolen", "2031-02-02 10:00:00 UTC")
    (copy,) = collected(moodle(tmp_path / "2.zip", ("mallory", "mini-victim.zip", later)), tmp_path).placed
    assert copy.outcome == "replaced" and "Mallory M_222 handed in this one" in copy.remarks[0]


# -------------------------------------------------------------------------------------------- dates


@pytest.mark.parametrize("names", ["ab", "ba"])
@pytest.mark.parametrize("stamped", [False, True])
def test_a_date_in_the_future_wins_over_no_other(tmp_path: Path, names: str, stamped: bool) -> None:
    inbox = tmp_path / "inbox"
    for name in names:
        (inbox / name).mkdir(parents=True)
    (inbox / names[0] / "mini-victim.zip").write_bytes(copy_of("mine"))
    future = zip_of(("mini.ipynb", notebook("future")), date=(2099, 1, 1, 0, 0, 0))
    if stamped:
        future = copy_of("future", "2150-01-01 10:00:00 UTC")
    (inbox / names[1] / "mini-victim.zip").write_bytes(future)
    result = collected(inbox, tmp_path)
    assert "mine" in said_by(tmp_path, "victim")
    assert sum("in the future" in remark for copy in result.placed for remark in copy.remarks) == 1
    # Nor when it was in place before: what no clock of ours would say is no date.
    again = collect(inbox / names[1], tmp_path / "other", DECLARED, now=NOW)
    assert [copy.outcome for copy in again.placed] == ["new"]
    collect(inbox / names[0], tmp_path / "other", DECLARED, now=NOW)
    assert "mine" in said_by(tmp_path / "other", "victim")


def test_a_clock_that_is_hours_wrong_is_no_matter(tmp_path: Path) -> None:
    (tmp_path / "mini-bob.zip").write_bytes(copy_of("b", "2031-02-04 01:00:00 UTC"))
    (copy,) = collected(tmp_path / "mini-bob.zip", tmp_path).placed
    assert copy.remarks == ()


def test_a_stamp_long_before_what_moodle_says_is_named(tmp_path: Path) -> None:
    back = copy_of("b", "2031-01-01 10:00:00 UTC")
    folder = "{}_assignsubmission_file_/{}"
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for who, student, date in (("bob", "bob", MEMBER), ("victim", "victim", (2031, 1, 20, 9, 0, 0))):
            name = folder.format(FOLDERS[who], f"mini-{student}.zip")
            content = back if who == "bob" else copy_of("v", "2031-01-20")
            archive.writestr(zipfile.ZipInfo(name, date), content)
    (tmp_path / "moodle.zip").write_bytes(stream.getvalue())
    remarks = {copy.student: copy.remarks for copy in collected(tmp_path / "moodle.zip", tmp_path).placed}
    assert remarks["victim"] == ()
    assert "2031-01-01 10:00" in remarks["bob"][0] and "2031-02-01 10:00" in remarks["bob"][0]
    # All dated alike: that is when the download was made, and says nothing of when a copy came.
    copies = {"bob": back, "victim": copy_of("v")}
    path = moodle(tmp_path / "alike.zip", *[(who, f"mini-{who}.zip", data) for who, data in copies.items()])
    assert all(not copy.remarks for copy in collected(path, tmp_path / "other").placed)


# -------------------------------------------------------------------------------------------- archives


def corrupt(data: bytes, name: bytes = b"mini.ipynb") -> bytes:
    start = data.index(name) + len(name)
    return data[:start] + bytes(byte ^ 0xFF for byte in data[start : start + 20]) + data[start + 20 :]


@pytest.mark.parametrize("kind", ["deflate", "lzma", "bz2", "names", "not-a-zip", "encrypted"])
@pytest.mark.parametrize("in_class_zip", [False, True])
def test_an_archive_that_cannot_be_unpacked_costs_its_sender_alone(
    tmp_path: Path, kind: str, in_class_zip: bool
) -> None:
    files = (("mini.ipynb", notebook("x" * 2000)),)
    data = {
        "deflate": corrupt(zip_of(*files)),
        "lzma": corrupt(zip_of(*files, method=zipfile.ZIP_LZMA)),
        "bz2": zip_of(*files, method=zipfile.ZIP_BZIP2),
        "names": zip_of(("mini-é.ipynb", "x"), *files).replace("é".encode(), b"\xff\xfe"),
        "not-a-zip": b"PK\x05\x06" + b"\xff" * 18,
        "encrypted": zip_of(*files).replace(
            b"PK\x01\x02\x14\x03\x14\x00\x00", b"PK\x01\x02\x14\x03\x14\x00\x01"
        ),
    }[kind]
    copies = {"mini-aaa.zip": data, "mini-bob.zip": copy_of("b")}
    inbox = tmp_path / "inbox"
    inbox.mkdir()
    for name, content in {"class.zip": zip_of(*copies.items())}.items() if in_class_zip else copies.items():
        (inbox / name).write_bytes(content)
    result = collected(inbox, tmp_path)
    assert placed(result) == [("bob", "new")]
    assert result.refused and all("mini-aaa" in name for name, _ in result.refused)


BOMBS = {
    "members": [(f"x{number}", b"") for number in range(50)],
    "scripts": [(f"d{number}/labo.py", bytes(2**20)) for number in range(30)],
    "nested": [
        (f"d{number}/y{number}.zip", zip_of(*[(f"{n}.py", bytes(2**20)) for n in range(3)]))
        for number in range(9)
    ],
    "corrupt": [(f"{number}/mini.ipynb", bytes(2**20)) for number in range(30)],
}


@pytest.mark.parametrize("kind", BOMBS)
@pytest.mark.parametrize("shape", ["folder", "class.zip", "mini-all.zip", "moodle.zip"])
def test_a_bomb_refuses_itself_only(
    tmp_path: Path, kind: str, shape: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unpack, "MAX_MEMBERS", 40)
    monkeypatch.setattr(unpack, "MAX_BYTES", 8 * 2**20)
    bomb = zip_of(*BOMBS[kind])
    if kind == "corrupt":  # a wrong checksum, known once all was unpacked
        right = zlib.crc32(bytes(2**20)).to_bytes(4, "little")
        assert right in bomb
        bomb = bomb.replace(right, b"abcd")
    read = []
    bounded = unpack.Reader._bounded

    def counted(self: unpack.Reader, stream: io.BytesIO, *args: object) -> bytes | None:
        data = bounded(self, stream, *args)  # type: ignore[arg-type]
        read.append(len(data or b""))
        return data

    monkeypatch.setattr(unpack.Reader, "_bounded", counted)
    copies = [("aaa", "mini-aaa.zip", bomb), *[(f"s{n}", f"mini-s{n}.zip", copy_of("s")) for n in range(30)]]
    inbox = tmp_path / "inbox"
    inbox.mkdir()
    if shape == "moodle.zip":
        moodle(inbox / shape, *[(f"N_{n}", name, data) for n, (_, name, data) in enumerate(copies)])
    elif shape == "folder":
        for _, name, data in copies:
            (inbox / name).write_bytes(data)
    else:
        (inbox / shape).write_bytes(zip_of(*[(name, data) for _, name, data in copies]))
    result = collected(inbox, tmp_path)
    assert [one for one in placed(result) if one[0] != "aaa"] == sorted((f"s{n}", "new") for n in range(30))
    assert all("mini-aaa.zip" in name or "/N_0_" in name for name, _ in result.refused)
    limit = "more than 40 files" if kind == "members" else "GiB unpacked"
    assert [why for _, why in result.refused if limit in why] and sum(read) < 10 * 2**20


def test_one_student_s_undeclared_files_are_not_held_in_memory(tmp_path: Path) -> None:
    files = [(f"d{number}/other{number}.py", bytes(2**20)) for number in range(60)]
    files += [(f"d{number}/labo.py", bytes(2**20)) for number in range(60)]
    (tmp_path / "mini-bob.zip").write_bytes(zip_of(("mini.ipynb", notebook("b")), ("labo.py", "1"), *files))
    tracemalloc.start()
    try:
        result = collected(tmp_path / "mini-bob.zip", tmp_path)
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert placed(result) == [("bob", "new")]
    assert (tmp_path / "submitted" / "bob" / "mini" / "labo.py").read_text() == "1"
    assert most < 12 * 2**20


def test_a_list_of_files_without_end_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unpack, "MAX_LIST_BYTES", 2000)
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "mini-aaa.zip").write_bytes(zip_of(*[(f"x{number}", b"") for number in range(100)]))
    (tmp_path / "in" / "mini-bob.zip").write_bytes(copy_of("b"))
    result = collected(tmp_path / "in", tmp_path)
    assert placed(result) == [("bob", "new")]
    assert [name for name, _ in result.refused] == ["in/mini-aaa.zip"]


# ---------------------------------------------------------------------------------------------- names


def test_no_name_reaches_the_terminal_as_it_is(tmp_path: Path) -> None:
    bad = "\x1b[2J\x1b]0;owned\x07\u202e\u2028\x9b31m"
    inbox = tmp_path / "inbox"
    inbox.mkdir()
    (inbox / "mini-aaa.zip").write_bytes(
        zip_of(
            ("mini\x1b[2J\u202e.ipynb", notebook("a")),
            *[(f"{name}{bad}.py", "x") for name in ("a", "b", "n" * 300)],
        )
    )
    moodle(
        inbox / "moodle.zip",
        (f"Vera{bad}_1", "mini-v.zip", copy_of("1")), (f"Mallory{bad}_2", "mini-v.zip", copy_of("2")),
        (f"Bob{bad}_3", "mini-bob.zip", copy_of("3")), (f"Bob{bad}_3", "mini.ipynb", notebook("4")),
    )  # fmt: skip
    (inbox / "x.zip").write_bytes(zip_of((f"mini_{bad}/mini.ipynb", "x"), (f"mini-{bad}/mini.ipynb", "x")))
    result = collected(inbox, tmp_path)
    shown = [*(remark for copy in result.placed for remark in copy.remarks), *sum(result.refused, ())]
    assert len(result.placed) == 3 and any("taken as mini.ipynb" in line for line in shown)
    assert all(line.isprintable() and len(line) <= 400 for line in shown)


# --------------------------------------------------------------------------------------- nothing in it


def test_an_empty_zip_is_named(tmp_path: Path) -> None:
    for name, data in (
        ("mini-eve.zip", zip_of()), ("noise.zip", zip_of(("__MACOSX/._mini.ipynb", "x"))),
        ("folders.zip", zip_of(("mini/", ""), ("mini/deep/", ""))),
    ):  # fmt: skip
        (tmp_path / name).write_bytes(data)
        assert collected(tmp_path / name, tmp_path).refused == ((name, "nothing in it: ask for it again"),)
    class_zip = tmp_path / "class.zip"
    class_zip.write_bytes(zip_of(
        ("mini-eve.zip", zip_of()), ("mini-bob.zip", copy_of("b")), ("mini-ada/", ""),
        ("mini-zoe/mini.ipynb", "{}"), ("mini-zoe/data/", ""),
    ))  # fmt: skip
    result = collected(class_zip, tmp_path)
    assert [copy.student for copy in result.placed] == ["bob", "zoe"]
    assert sorted(result.refused) == [
        ("class.zip/mini-ada", "an empty folder"),
        ("class.zip/mini-eve.zip", "nothing in it: ask for it again"),
    ]


def test_an_empty_folder_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    inbox = tmp_path / "inbox"
    (inbox / "eve" / "mini").mkdir(parents=True)
    assert collected(inbox, tmp_path).refused == (("inbox", "an empty folder"),)
    for name in ("bob/mini/data", "bob/maxi", "zoe/.ipynb_checkpoints"):
        (inbox / name).mkdir(parents=True)
    (inbox / "bob" / "mini" / "mini.ipynb").write_text(notebook("b"))
    (inbox / "mini-ada.zip").write_bytes(copy_of("a"))
    result = collected(inbox, tmp_path)
    assert placed(result) == [("ada", "new"), ("bob", "new")]
    assert sorted(result.refused) == [(name, "an empty folder") for name in ("bob/maxi", "eve", "zoe")]
    course = tiny_course.make_course(tmp_path / "course")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(course.root)
        (tmp_path / "mini-eve.zip").write_bytes(zip_of())
        assert cli.main(["collect", str(tmp_path / "mini-eve.zip")]) == 1
    said = capsys.readouterr().out
    assert "'mini-eve.zip': nothing in it" in said and "0 copies placed, 1 not placed" in said


# ---------------------------------------------------------------------------- what platforms really give

CLASS = (  # as Moodle names them: "Prénom NOM" in French sites or English ones, or "NOM Prénom"
    ("Élodie D'ALMEIDA-Nguyễn", "1204871", "mini-elodie.zip"),
    ("LE GOFF Gaëlle", "1204872", "mini-gaelle (1).zip"),
    ("Zoë Müller", "1204873", "mini.ipynb"),
)
SHAPES = ("{name}_{number}_assignsubmission_file_/", "{name}_{number}_assignsubmission_file/",
          "{name}_{number}_assignsubmission_file_")  # fmt: skip


def whole_class(path: Path, shape: str, decomposed: bool = False) -> Path:
    files = []
    for name, number, file in CLASS:
        inner: bytes | str = copy_of(name) if file.endswith(".zip") else notebook(name)
        folder = shape.format(name=name, number=number)
        named = unicodedata.normalize("NFD", folder) if decomposed else folder
        files.append((named + file, inner))
        files.append((named.replace("_file", "_onlinetext") + "onlinetext.html", "<p>Voici.</p>"))
    path.write_bytes(zip_of(*files))
    return path


@pytest.mark.parametrize("decomposed", [False, True])
@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("unzipped", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
def test_moodle_s_download_with_folders_and_without(
    tmp_path: Path, shape: str, unzipped: bool, nested: bool, decomposed: bool
) -> None:
    path = whole_class(tmp_path / "PDIST-ex1-48213.zip", shape, decomposed)
    if nested:
        path.write_bytes(zip_of(("Téléchargements/PDIST-ex1-48213.zip", path.read_bytes())))
    if unzipped:
        with zipfile.ZipFile(path) as archive:
            archive.extractall(tmp_path / "extrait")
        path = tmp_path / "extrait"
    result = collected(path, tmp_path)
    assert placed(result) == [("1204873", "new"), ("elodie", "new"), ("gaelle", "new")]
    assert said_by(tmp_path, "elodie") == notebook("Élodie D'ALMEIDA-Nguyễn")
    assert len(result.refused) == len(CLASS)
    assert all("onlinetext" in name and "typed in Moodle" in why for name, why in result.refused)
    assert known(tmp_path)["mini"] == {
        "1204873": ("1204873", "Zoë Müller"), "elodie": ("1204871", "Élodie D'ALMEIDA-Nguyễn"),
        "gaelle": ("1204872", "LE GOFF Gaëlle"),
    }  # fmt: skip


def test_without_folders_one_person_s_files_are_one_copy(tmp_path: Path) -> None:
    head = "Bob B_333_assignsubmission_file_"
    path = tmp_path / "moodle.zip"
    path.write_bytes(zip_of(
        (f"{head}mini.ipynb", notebook("bob")),
        ("Anna A_444_assignsubmission_file_mini.ipynb", notebook("anna")),
        (f"{head}labo.py", "print(42)"), ("Anna A_444_assignsubmission_file_labo.py", "print(43)"),
    ))  # fmt: skip
    assert placed(collected(path, tmp_path)) == [("333", "new"), ("444", "new")]
    assert (tmp_path / "submitted" / "333" / "mini" / "labo.py").read_text() == "print(42)"
    assert (tmp_path / "submitted" / "444" / "mini" / "labo.py").read_text() == "print(43)"


@pytest.mark.parametrize("shape", ["{}_assignsubmission_file_/{}", "{}_assignsubmission_file_{}"])
def test_without_folders_too_two_persons_cannot_send_one_student_s_copy(tmp_path: Path, shape: str) -> None:
    path = tmp_path / "moodle.zip"
    path.write_bytes(zip_of(
        (shape.format(FOLDERS["victim"], "mini-victim.zip"), copy_of("mine")),
        (shape.format(FOLDERS["mallory"], "mini-victim.zip"), copy_of("stolen")),
    ))  # fmt: skip
    result = collected(path, tmp_path)
    assert not result.placed and all("Mallory M_222" in why for _, why in result.refused)


def test_while_marking_is_blind_nobody_is_taken_for_another(tmp_path: Path) -> None:
    inbox = tmp_path / "inbox"
    blind = "Participant_{}"
    moodle(inbox / "1.zip", *[
        (blind.format(n), f"mini-{who}.zip", copy_of(who)) for n, who in ((11, "a"), (12, "b"))
    ])  # fmt: skip
    moodle(inbox / "2.zip", *[
        (blind.format(n), f"maxi-{who}.zip", copy_of(who, assignment="maxi"))
        for n, who in ((21, "c"), (22, "d"))
    ])  # fmt: skip
    assert placed(collected(inbox, tmp_path)) == [(who, "new") for who in "abcd"]
    moodle(inbox / "2.zip", (blind.format(29), "maxi-a.zip", copy_of("stolen", assignment="maxi")))
    assert ("a", "new") not in placed(collected(inbox, tmp_path / "other"))


def test_of_several_attempts_the_last_counts_and_the_others_are_kept(tmp_path: Path) -> None:
    head = "Bob B_333_assignsubmission_file_/"
    attempts = [("mini-bob (2).zip", 3), ("mini-bob.zip", 1), ("mini-bob (1).zip", 2)]
    path = tmp_path / "moodle.zip"
    path.write_bytes(zip_of(
        *[(head + name, copy_of(f"n° {n}", f"2031-02-0{n} 09:00:00 UTC")) for name, n in attempts]
    ))  # fmt: skip
    result = collected(path, tmp_path)
    assert not result.refused and said_by(tmp_path, "bob") == notebook("n° 3")
    kept = sorted((tmp_path / ".autograder" / "earlier" / "bob" / "mini").rglob("*.ipynb"))
    assert sorted(one.read_text() for one in kept) == [notebook("n° 1"), notebook("n° 2")]


# -------------------------------------------------------------------------------- nbgrader's exchange


def hand_in_to(inbound: Path, student: str, stamp: str, said: str, rest: str = "+aB3xY") -> Path:
    folder = inbound / f"{student}+mini+{stamp}{rest}"
    folder.mkdir(parents=True)
    (folder / "mini.ipynb").write_text(notebook(said))
    (folder / "timestamp.txt").write_text(stamp)
    return folder


def test_the_exchange_s_inbound_folder(tmp_path: Path) -> None:
    inbound = tmp_path / "exchange" / "petit-cours" / "inbound"
    hand_in_to(inbound, "anna", "2031-02-01 10:00:00.000000 UTC", "anna 1")
    hand_in_to(inbound, "anna", "2031-02-02 10:00:00.000000 UTC", "anna 2", rest="")
    hand_in_to(inbound, "bob.b", "2031-02-01 10:00:00.000000 UTC", "bob")
    (inbound / "carl+unknown+2031-02-01 10:00:00.000000 UTC+x").mkdir()
    (inbound / "carl+unknown+2031-02-01 10:00:00.000000 UTC+x" / "a.ipynb").write_text(notebook("?"))
    result = collected(inbound, tmp_path)
    assert [student for student, _ in placed(result)] == ["anna", "anna", "bob.b"]
    assert said_by(tmp_path, "anna") == notebook("anna 2") and len(result.refused) == 1
    again = collected(inbound, tmp_path)
    assert said_by(tmp_path, "anna") == notebook("anna 2")
    assert {copy.outcome for copy in again.placed} == {"unchanged", "kept aside"}


@pytest.mark.skipif(os.name != "posix" or os.getuid() != 0, reason="only root may give a folder away")
def test_a_folder_of_another_account_is_not_taken_for_the_student_s(tmp_path: Path) -> None:
    inbound = tmp_path / "inbound"
    os.chown(hand_in_to(inbound, "victim", "2031-02-02 10:00:00.000000 UTC", "stolen"), 4242, 4242)
    hand_in_to(inbound, "bob", "2031-02-02 10:00:00.000000 UTC", "bob")
    result = collected(inbound, tmp_path)
    assert placed(result) == [("bob", "new")] and "account number 4242" in result.refused[0][1]


def test_the_command_finds_the_exchange_and_says_where_it_looked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tiny_course.make_course(tmp_path / "cours")
    config = tmp_path / "cours" / "nbgrader_config.py"
    root = tmp_path / "échanges"
    config.write_text(config.read_text() + f"\nget_config().Exchange.root = {str(root)!r}  # noqa\n")
    monkeypatch.chdir(tmp_path / "cours")
    assert cli.main(["collect", "--exchange"]) == 2
    said = capsys.readouterr().err
    assert str(root / "petit-cours" / "inbound") in said and "c.Exchange.root" in said
    hand_in_to(root / "petit-cours" / "inbound", "anna", "2020-02-01 10:00:00.000000 UTC", "anna")
    assert cli.main(["collect", "--exchange"]) == 0
    assert (tmp_path / "cours" / "submitted" / "anna" / "mini" / "mini.ipynb").is_file()
    assert cli.main(["collect"]) == 2 and cli.main(["collect", "x.zip", "--exchange"]) == 2
