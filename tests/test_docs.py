"""docs/: what is said there can be typed, every link leads somewhere, and every picture is small and shown.

The commands of the README are executed (test_readme.py), and those of docs/new-exercise.md too
(test_docs_exercise.py); here each command and option that a page names is asked of the parser itself.
"""

from __future__ import annotations

import argparse
import re
import shlex
from pathlib import Path

import pytest
import take_pictures

from autograder.cli import build_parser

ROOT = Path(__file__).resolve().parent.parent
PAGES = sorted((ROOT / "docs").glob("*.md"))
MOST_KIB = 150
# Commands that are told of in a paragraph of their own before they are there.
NBGRADER = {
    "generate_assignment", "validate", "autograde", "generate_feedback", "zip_collect", "export",
}  # fmt: skip
OTHERS = {"jupyter lab", "torchrun", "make", "source", "nbgrader", "python"}


def console(page: Path) -> list[str]:
    """The commands of its console blocks."""
    return [line[2:] for line in page.read_text(encoding="utf-8").splitlines() if line.startswith("$ ")]


def inline(page: Path) -> list[str]:
    """The commands that its sentences name: `autograder …` between backquotes, without an ellipsis."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    found = re.findall(r"`(autograder [^`…]+)`", text)
    return [one for one in found if not one.startswith("autograder[")]


def parsers() -> dict[str, argparse.ArgumentParser]:
    (commands,) = [
        action for action in build_parser()._actions if isinstance(action, argparse._SubParsersAction)
    ]
    return dict(commands.choices)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_each_command_is_one_that_the_parser_takes(
    page: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    known = parsers()
    for command in [*console(page), *inline(page)]:
        program, *rest = shlex.split(command)
        if program != "autograder":
            assert program in {one.split()[0] for one in OTHERS}, command
            assert program != "nbgrader" or rest[0] in NBGRADER, command
            continue
        assert rest[0] in known, command
        if len(rest) > 1 or command in console(page):   # a bare name in a sentence names the command
            try:
                build_parser().parse_args(rest)
            except SystemExit as stop:
                assert not stop.code, f"{page.name}: {command}\n{capsys.readouterr().err}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_each_option_that_it_names_exists(page: Path) -> None:
    known = {option for parser in parsers().values() for option in parser._option_string_actions}
    foreign = {"--master_port", "--nproc_per_node", "--to", "--chunk", "--sizes", "--assignment", "--writer"}
    for option in re.findall(r"`(--[a-z][\w-]*)", page.read_text(encoding="utf-8")):
        assert option in known | foreign, f"{page.name}: {option}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_each_link_and_picture_leads_somewhere(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for target in re.findall(r"\]\((?!https?:)([^)\s]+)\)", text):
        path, _, anchor = target.partition("#")
        if page.name == "new-exercise.md" and path.startswith("../pages/"):
            continue   # a link of the notebook that the page shows
        file = (page.parent / path).resolve() if path else page
        assert file.exists(), f"{page.name}: {target}"
        if anchor:
            heads = re.findall(r"^#+ (.+)$", file.read_text(encoding="utf-8"), re.MULTILINE)
            assert anchor in {_slug(head) for head in heads}, f"{page.name}: {target}"
    for name in re.findall(r"`((?:autograder|tests|pages|docs)/[\w./-]+)`", text):
        made_there = page.name == "new-exercise.md" and "ex6-" in name
        assert made_there or (ROOT / name).exists(), f"{page.name}: {name}"


def _slug(head: str) -> str:
    """As GitHub names a heading's anchor."""
    return re.sub(r"[^\w\- ]", "", head.strip().lower()).replace(" ", "-")


def test_each_picture_is_shown_described_and_small() -> None:
    shown = {}
    for page in [*PAGES, ROOT / "README.md"]:
        for described, target in re.findall(r"!\[([^\]]*)\]\(([^)]+)\)", page.read_text(encoding="utf-8")):
            assert len(described) > 10, f"{page.name}: {target} has no words for those who cannot see it"
            shown[(page.parent / target).resolve()] = page
    pictures = sorted((ROOT / "docs" / "img").iterdir())
    assert pictures and set(pictures) == set(shown)
    for picture in pictures:
        assert picture.read_bytes().startswith(b"<svg" if picture.suffix == ".svg" else b"\x89PNG\r\n\x1a\n")
        assert picture.stat().st_size < MOST_KIB * 1024, picture.name


def test_no_date_stands_in_a_page_and_the_readme_links_each_of_them() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for page in PAGES:
        assert f"](docs/{page.name})" in readme, page.name
        assert not re.search(r"\b20[2-9]\d\b", page.read_text(encoding="utf-8")), page.name


@pytest.mark.parametrize("name", sorted(take_pictures.TIMELINES))
def test_each_timeline_is_as_it_is_drawn_now(name: str) -> None:
    assert (take_pictures.IMAGES / f"{name}.svg").read_text(encoding="utf-8") == take_pictures.timeline(name)
