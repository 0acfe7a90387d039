"""Hostile copies against the real `autograder grade`, one student per attack, each of one process.

Each attack has the mark that it deserves, the class ends, the honest copies before and after it keep theirs,
and nothing of the grader's was read, changed or left behind. What an attack is: hostile_course.py; how a
class of them is graded: hostile_class.py; what must hold: hostile_checks.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from html.parser import HTMLParser

import pytest

pytest.register_assert_rewrite("hostile_checks")

import hostile_course  # noqa: E402
from hostile_checks import Checks, attack_is_held  # noqa: E402
from hostile_class import WHOLE_S, Class, graded, skip_without_box  # noqa: E402
from hostile_course import Attack  # noqa: E402

from autograder import course as courses  # noqa: E402

pytestmark = [pytest.mark.launch, pytest.mark.timeout(WHOLE_S + 120)]


@pytest.fixture(scope="module")
def one(request: pytest.FixtureRequest) -> Iterator[Class]:
    yield from graded("mini", request)


@pytest.mark.parametrize("attack", hostile_course.attacks("mini"), ids=lambda attack: attack.name)
def test_an_attack(attack: Attack, request: pytest.FixtureRequest) -> None:
    skip_without_box(attack)
    attack_is_held(request.getfixturevalue("one"), attack)


class TestTheClass(Checks):
    """See hostile_checks.py."""


class Live(HTMLParser):
    """What of an attack's would act by itself in a page: each of its scripts holds the word `pwned`."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self.tag = ""

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tag = tag
        names = ("href", "src", "srcdoc", "style")
        acting = [value for name, value in attributes if name.startswith("on") or name in names]
        self.found += [str(value) for value in acting if "pwned" in str(value)]

    def handle_data(self, data: str) -> None:
        if self.tag in ("script", "style", "iframe", "svg", "object") and "pwned" in data:
            self.found.append(f"<{self.tag}> {data}")

    def handle_endtag(self, tag: str) -> None:
        self.tag = ""


def test_no_script_of_a_copy_runs_in_a_page(one: Class) -> None:
    """Neither in the feedback nor in formgrader, whose page may give marks."""
    from nbconvert.exporters import HTMLExporter
    from nbgrader.server_extensions.formgrader import handlers
    from traitlets.config import Config

    from autograder.notebook.nbconfig import configure

    config = Config()
    configure(config, courses.load(one.root))
    config.HTMLExporter.template_name = "formgrade"
    config.HTMLExporter.extra_template_basedirs = [handlers.template_path]
    graded = one.root / "autograded" / "html.script" / "mini" / "mini.ipynb"
    formgrader, _ = HTMLExporter(config=config).from_filename(str(graded), resources={"index": 0, "total": 1})
    feedback = (one.root / "feedback" / "html.script" / "mini" / "mini.html").read_text(encoding="utf-8")
    for page in (feedback, formgrader):
        assert "pwned" in page   # what they wrote is there to be read
        live = Live()
        live.feed(page)
        assert live.found == []


def test_there_are_enough_attacks_and_each_says_what_it_tries() -> None:
    found = hostile_course.attacks()
    assert len(found) >= 40
    assert len([attack for attack in found if attack.assignment == "duo"]) <= 14   # each costs two ranks
    for attack in found:
        assert len(attack.about.splitlines()[0]) > 30, attack.name
        assert attack.marks, attack.name
