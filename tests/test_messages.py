"""The catalogue is whole: every diagnosis has its texts, and every key that the code names exists."""

import ast
import re
import string
from pathlib import Path

import pytest

from autograder import messages
from autograder.verdict import catalogue

PACKAGE = Path(messages.__file__).parent
NAMED = re.compile(r"""(?<![\w.])(?:messages\.)?(?:text|template)\(\s*"([^"]+)\"""")
FILLED = {"rank", "line", "at", "where", "error", "processes", "others", "ms", "module", "when"}


@pytest.mark.parametrize("id", catalogue.ids())
def test_every_diagnosis_has_its_texts(id):
    for part in ("finding", "advice"):
        assert messages.template(f"diagnosis.{id}.{part}")


def test_no_text_without_its_diagnosis():
    assert set(messages.catalogue()["diagnosis"]) == set(catalogue.ids())


@pytest.mark.parametrize("rule", [*catalogue.PRIMARY, *catalogue.SECONDARY], ids=lambda rule: rule.id)
def test_the_texts_of_a_rule_ask_only_for_what_it_gives(rule):
    for part in ("finding", "advice"):
        names = {
            name
            for _, name, _, _ in string.Formatter().parse(messages.template(f"diagnosis.{rule.id}.{part}"))
            if name
        }
        assert names <= FILLED


def test_every_key_that_the_code_names_exists():
    missing = []
    for path in PACKAGE.rglob("*.py"):
        for key in NAMED.findall(path.read_text(encoding="utf-8")):
            if not messages.has(key):
                missing.append(f"{path.name}: {key}")
    assert not missing


def test_no_name_follows_a_word_that_it_would_shorten():
    """« de amira », « que ines »: what a student is called is not known when the text is written."""
    named = re.compile(r"\b(?:de|que|le|la|ne|se) \{(?:student|owner|giver|names|name)\}")
    texts = [text for _, text in messages_of(messages.catalogue())]
    assert [text for text in texts if named.search(text)] == []


def messages_of(table, place=""):
    for key, value in table.items():
        if isinstance(value, dict):
            yield from messages_of(value, f"{place}{key}.")
        else:
            yield place + key, value


# The keys that code makes up: f"check.{status}"; what stands in the braces.
MADE_UP = {
    "check": "passed|partial|failed",
    "check_view": "passed|partial|failed|skipped|not_graded",
    "diagnosis": r"[\w-]+\.(?:finding|advice)",
    "doctor": r"ok|warn|fail|all-fine|fine-with-remarks|not-fine|[a-z]+\.(?:title|advice)",
    "grading": "answer-(?:undefined|size|type)",
    "groupe": "absent|size|json|form|few|many|twice",
    "class_page": r"[a-z0-9-]+",   # test_class_page.py looks each of them up in the page's template and code
    "misconception": r"[a-z-]+",   # one for each diagnosis: test_class_page.py
    "tampering": r"[a-z]+-?[a-z]*(?:-runs)?",   # test_tampering.py reaches each of them
    "slurm": r"[a-z]+\.[a-z0-9-]+",   # test_slurm_checks.py reaches each of them
    "timeline": (
        "busy|wait|meet|asleep|missing|ended|failed|killed|stopped|(?:of|the)-ranks"
        "|fate-(?:asleep|busy|wait|ended|failed|killed)"
    ),
    "feedback": "passed|partial|failed|not_graded|see-launch",
    "pasted": (
        "(?:absent|empty|source|command|picture|document|notebook|error|no-text|more|differs|foreign)(?:-advice)?"
        "|(?:missing|unknown)(?:-advice)?|(?:missing|differs)-rest|(?:backend-)?advice"
    ),
}


def test_every_text_is_used():
    """A key stands whole in the code, or is one of those that the code makes up."""
    written = {
        node.value
        for path in PACKAGE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    for path in PACKAGE.rglob("*.j2"):
        template = path.read_text(encoding="utf-8")
        written |= set(re.findall(r"""say\(["']([\w.-]+)["']""", template))
    unused = []
    for key, _ in every_text():
        table, _, name = key.partition(".")
        if key not in written and not re.fullmatch(MADE_UP.get(table, "(?!)"), name):
            unused.append(key)
    assert not unused


def every_text(node=None, path=""):
    for key, value in (messages.catalogue() if node is None else node).items():
        if isinstance(value, dict):
            yield from every_text(value, f"{path}{key}.")
        elif isinstance(value, str):
            yield path + key, value


def test_every_text_is_a_valid_template():
    for key, value in every_text():
        list(string.Formatter().parse(value))
        assert value.count("`") % 2 == 0, key


def test_french_spacing_spares_code():
    assert messages._typeset("Cause : « x » ! `a : b`") == "Cause\u00a0: «\u00a0x\u00a0»\u00a0! `a : b`"


def test_an_unknown_key_is_named():
    with pytest.raises(KeyError, match=r"check\.nothing"):
        messages.text("check.nothing")


def test_numbers_are_french():
    assert [messages.number(value) for value in (2, 2.5, 0.125)] == ["2", "2,5", "0,125"]


@pytest.mark.parametrize(
    ("seconds", "shown"), [(0, "0 min"), (2159, "35 min"), (12_000, "3 h 20 min"), (187_200, "2 j 4 h")]
)
def test_delays_are_french(seconds, shown):
    assert messages.french_delay(seconds).replace("\u00a0", " ") == shown
