"""The class page: one file that says everything, loads nothing, and runs nothing that a student wrote."""

from __future__ import annotations

import base64
import datetime as dt
import hashlib
import re
from collections import Counter
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import synthetic_class
from browser import accessibility, chromium

from autograder import cli, messages
from autograder import course as courses
from autograder.batch.book import Book, read_book
from autograder.report.class_page import class_page, misconception
from autograder.verdict import catalogue

NOW = dt.datetime(2031, 2, 3, 12, 0, tzinfo=dt.UTC)
STUDENTS, ASSIGNMENTS = 12, 3
BASE = "https://hub.example.org/user/prof"


@pytest.fixture(scope="module")
def course(tmp_path_factory: pytest.TempPathFactory) -> courses.Course:
    course = synthetic_class.course_in(tmp_path_factory.mktemp("classe"), late="daily")
    synthetic_class.make(course, STUDENTS, assignments=ASSIGNMENTS, seed=4, hostile=True)
    return course


@pytest.fixture(scope="module")
def book(course: courses.Course) -> Book:
    return read_book(course)


@pytest.fixture(scope="module")
def page(book: Book) -> str:
    return class_page(book, NOW, BASE)


class Parsed(HTMLParser):
    """Elements with their attributes, and the rows of each section's table."""

    VOID = ("meta", "input", "br", "img", "rect", "col")

    def __init__(self, content: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.text: dict[str, str] = {"script": "", "style": ""}
        self.section, self.rows = "", {}  # type: ignore[var-annotated]
        self.feed(content)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)
        if tag == "section":
            self.section = str(dict(attrs)["aria-labelledby"]).removeprefix("h-")
        if tag == "tr":
            self.rows.setdefault(self.section, []).append([])
        if tag in ("td", "th"):
            self.rows[self.section][-1].append("")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open and self.open.pop() == tag, f"</{tag}>"

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] in self.text:
            self.text[self.open[-1]] += data
        elif {"td", "th"} & set(self.open):
            self.rows[self.section][-1][-1] += data


@pytest.fixture(scope="module")
def parsed(page: str) -> Parsed:
    return Parsed(page)


# ------------------------------------------------------------------------------------------- what it says


def test_every_student_and_assignment_is_there(parsed: Parsed, book: Book) -> None:
    head, *rows = parsed.rows["marks"]
    assert len(rows) == len(book.people) == STUDENTS
    assert [one.split("/")[0].strip() for one in head[2:-1]] == list(book.assignments)
    assert {row[0] for row in rows} == {person.id for person in book.people}


def test_marks_are_the_gradebook_s_less_the_penalty(parsed: Parsed, book: Book) -> None:
    for row in parsed.rows["marks"][1:]:
        for name, shown in zip(book.assignments, row[2:], strict=False):
            one = book.entries[row[0], name]
            if one.state == "graded":
                assert one.mark is not None and shown.startswith(messages.number(one.mark, 2))
            elif one.state == "to-mark":
                assert shown.startswith(f"{messages.number(one.raw, 2)}+ 1 à noter")
            else:
                assert shown.startswith({"not-graded": "non noté", "absent": "—"}[one.state])


def test_each_list_has_what_belongs_in_it(parsed: Parsed, book: Book) -> None:
    every = book.entries.values()
    expected = {
        "none": {(one.student, one.assignment) for one in every if one.state == "not-graded"},
        "todo": {(one.student, one.assignment) for one in every if one.pending},
        "flag": {(one.student, one.assignment) for one in every if one.flags},
        "late": {(one.student, one.assignment) for one in every if one.late_s},
    }
    for section, copies in expected.items():
        assert {(row[0], row[1]) for row in parsed.rows.get(section, [])[1:]} == copies, section
    assert all(expected[section] for section in ("none", "todo", "late"))
    assert all(row[2] == synthetic_class.CAUSE for row in parsed.rows["none"][1:])


def test_misconceptions_are_counted_once_a_copy_under_their_french_names(parsed: Parsed, book: Book) -> None:
    met = Counter(
        (one.assignment, misconception(str(one.result.diagnosis["id"])))
        for one in book.entries.values() if one.result is not None and one.result.diagnosis
    )  # fmt: skip
    assert {(row[0], row[1]): int(row[2]) for row in parsed.rows["wrong"][1:]} == dict(met)


def test_every_diagnosis_has_a_name_and_an_unknown_one_shows_its_own() -> None:
    assert set(messages.catalogue()["misconception"]) >= set(catalogue.ids())
    assert misconception("a-new-one") == "a-new-one"


def test_each_question_has_its_bars(parsed: Parsed, page: str, book: Book) -> None:
    rows = parsed.rows["questions"][1:]
    assert [(row[0], row[1]) for row in rows] == [
        (name, one.name) for name in book.assignments for one in book.questions[name]
    ]
    copies = Counter(one.assignment for one in book.entries.values() if one.state != "absent")
    for said in re.findall(r"<title>([^<]*) sans note</title>", page):
        name = said.split()[0].rpartition("-test-")[0] or said.split()[0].removesuffix("-ecrit")
        assert sum(map(int, re.findall(r"(?<=[:,] )\d+", said.replace("\xa0", " ")))) == copies[name]


def test_every_text_of_the_catalogue_is_used() -> None:
    folder = Path(messages.__file__).parent
    read = (*folder.rglob("*.py"), *folder.rglob("*.j2"))
    written = "\n".join(path.read_text(encoding="utf-8") for path in read)
    for key in messages.catalogue()["class_page"]:
        assert f"class_page.{key}" in written or re.fullmatch(r"late-(none|zero|daily)|bin-\d", key), key


def test_an_empty_class_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    synthetic_class.course_in(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert cli.main(["report"]) == 1
    assert "Nobody has handed in" in capsys.readouterr().err and not (tmp_path / "report").exists()


# ---------------------------------------------------------------------------------------- what it cannot do


def test_no_script_of_a_student_s_runs_and_nothing_is_loaded(parsed: Parsed) -> None:
    tags = Counter(tag for tag, _ in parsed.elements)
    assert tags["script"] == tags["style"] == 1
    assert not {"img", "link", "iframe", "object", "embed"} & set(tags)
    assert not parsed.open
    for _, attributes in parsed.elements:
        assert not {"src", "srcset", "style", "action"} & set(attributes)
        assert not any(name.startswith("on") for name in attributes)
    ids = {row[0] for row in parsed.rows["marks"][1:]}
    assert set(synthetic_class.HOSTILE) <= ids


def test_the_policy_names_the_page_s_own_script_and_style(parsed: Parsed) -> None:
    policy = next(
        str(attributes["content"]) for tag, attributes in parsed.elements
        if tag == "meta" and attributes.get("http-equiv") == "Content-Security-Policy"
    )  # fmt: skip
    assert policy.startswith("default-src 'none'") and "unsafe" not in policy and "http" not in policy
    for kind in ("script", "style"):
        digest = base64.b64encode(hashlib.sha256(parsed.text[kind].encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}'" in policy


def test_links_open_formgrader_where_nbgrader_has_it(parsed: Parsed, book: Book) -> None:
    from nbgrader.server_extensions.formgrader.handlers import default_handlers

    links = [str(attributes["href"]) for tag, attributes in parsed.elements if tag == "a"]
    assert len(links) > sum(bool(one.pending) for one in book.entries.values())
    for link in links:
        path = urlsplit(link).path.removeprefix("/user/prof")
        assert link.startswith(BASE) and any(re.fullmatch(one[0], path) for one in default_handlers), link
    assert any(f"/formgrader/submissions/{one.submission}" in links[-1] for one in book.entries.values())


@pytest.mark.parametrize("address", ["javascript:alert(1)", "localhost:8888", 'http://x" onload="y'])
def test_an_address_that_is_none_is_refused(
    course: courses.Course, monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    monkeypatch.chdir(course.root)
    assert cli.main(["report", "--formgrader", address]) == 2
    assert not (course.root / "report").exists()


# ------------------------------------------------------------------------------------------- how it is made


def test_a_larger_class_asks_the_gradebook_no_more(course: courses.Course, tmp_path: Path) -> None:
    from sqlalchemy import event
    from sqlalchemy.engine import Engine

    asked: list[str] = []

    def note(*told: Any) -> None:
        asked.append(told[2])

    small = synthetic_class.course_in(tmp_path)
    synthetic_class.make(small, 2, assignments=ASSIGNMENTS)
    event.listen(Engine, "before_cursor_execute", note)
    try:
        counts = []
        for one in (small, course):
            asked.clear()
            read_book(one)
            counts.append(sum(statement.lstrip().upper().startswith("SELECT") for statement in asked))
    finally:
        event.remove(Engine, "before_cursor_execute", note)
    assert counts[0] == counts[1] < 20


def test_the_command_writes_it_whole(
    course: courses.Course, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(course.root)
    out = tmp_path / "deep" / "page.html"
    assert cli.main(["report", "ex1-rang", "--out", str(out), "--formgrader", BASE + "/"]) == 0
    written = out.read_text(encoding="utf-8")
    assert "ex1-rang" in written and "ex2-moyenne" not in written
    assert [path.name for path in out.parent.iterdir()] == ["page.html"]
    assert cli.main(["report", "--out", str(tmp_path)]) == 2


# ------------------------------------------------------------------------------------------ in the browser


@pytest.fixture(scope="module")
def address(page: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("page") / "classe.html"
    path.write_text(page, encoding="utf-8")
    return path.as_uri()


@pytest.fixture(scope="module")
def browser(address: str) -> Iterator[Any]:
    with chromium(1400, 1000) as driver:
        yield driver


def column(browser: Any, number: int) -> list[str]:
    """The sorting values of the class table's column, as it stands now, of the rows that are shown."""
    values: list[str] = browser.execute_script(
        "return Array.from(document.querySelectorAll('#class tbody tr:not([hidden])'),"
        " row => row.cells[arguments[0]].dataset.v ?? row.cells[arguments[0]].textContent)", number,
    )  # fmt: skip
    return values


@pytest.mark.timeout(600)
def test_it_sorts_by_mouse_and_by_keyboard(browser: Any, address: str) -> None:
    browser.get(address)
    heads = browser.find_elements("css selector", "#class thead th")
    button = heads[2].find_element("tag name", "button")
    for direction, back in (("ascending", False), ("descending", True)):
        button.click()
        assert heads[2].get_attribute("aria-sort") == direction
        values = column(browser, 2)
        marks = [float(value) for value in values if value]
        assert marks == sorted(marks, reverse=back) and values[: len(marks)] == [one for one in values if one]
    heads[0].find_element("tag name", "button").send_keys("\ue007")  # Enter
    assert heads[0].get_attribute("aria-sort") == "ascending" and heads[2].get_attribute("aria-sort") is None
    names = column(browser, 0)
    plain = [name for name in names if name.startswith("prénom")]
    assert plain == sorted(plain) and names.index("élodie.ńowak") < names.index(plain[0])


@pytest.mark.timeout(600)
def test_axe_finds_nothing_wrong_with_it(browser: Any, address: str) -> None:
    browser.get(address)
    assert accessibility(browser) == []


@pytest.mark.timeout(600)
def test_it_searches_without_accents_and_filters(browser: Any, address: str, book: Book) -> None:
    browser.get(address)
    field, shown = browser.find_element("id", "q"), browser.find_element("id", "n")
    field.send_keys("ELODIE nowak")
    assert column(browser, 0) == ["élodie.ńowak"] and shown.text.endswith(f": 1 sur {STUDENTS}")
    field.clear()
    field.send_keys("x")
    field.send_keys("\ue003")  # Backspace
    assert len(column(browser, 0)) == STUDENTS
    browser.find_element("css selector", "#f option[value=none]").click()
    wanted = {one.student for one in book.entries.values() if one.state == "not-graded"}
    assert set(column(browser, 0)) == wanted


@pytest.mark.timeout(600)
def test_the_policy_is_obeyed_and_nothing_else_is_said(browser: Any, address: str) -> None:
    browser.get(address)
    assert browser.get_log("browser") == []
    style = "return getComputedStyle(document.querySelector('#class th')).textAlign"
    assert browser.execute_script(style) == "left"  # its own style sheet was let in


@pytest.mark.timeout(600)
def test_without_scripts_it_is_plain_tables(address: str) -> None:
    with chromium(1400, 1000, "--blink-settings=scriptEnabled=false") as driver:
        driver.get(address)
        assert len(driver.find_elements("css selector", "#class tbody tr")) == STUDENTS
        assert not driver.find_element("id", "tools").is_displayed()
        assert not driver.find_elements("css selector", "th button")
