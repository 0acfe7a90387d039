"""Read a YAML file that people write, and keep the line of every value.

Values stay what was typed: a date stays a string (YAML would turn it into a datetime, and so decide on its
zone), ``13:00`` too (YAML 1.1 reads it as 780). A key that stands twice is refused, not silently replaced.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

Loc = tuple[str | int, ...]


class YamlProblem(ValueError):
    """The file cannot be read as YAML: where, and why."""

    def __init__(self, what: str, accepted: str, line: int | None = None, key: str = "") -> None:
        super().__init__(what)
        self.what, self.accepted, self.line, self.key = what, accepted, line, key


_Base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # libyaml's where PyYAML has it: ten times faster


class _Loader(_Base):
    """SafeLoader without the guesses about dates and base-60 numbers."""


_GUESSED = ("tag:yaml.org,2002:timestamp", "tag:yaml.org,2002:int", "tag:yaml.org,2002:float")
_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag not in _GUESSED]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


@dataclass(frozen=True)
class Located:
    """Plain data, and the line where each value stands."""

    data: Any
    lines: dict[Loc, int] = field(default_factory=dict)

    def line(self, loc: Loc) -> int | None:
        """The line of the value at `loc`, or of the nearest thing around it."""
        while loc and loc not in self.lines:
            loc = loc[:-1]
        return self.lines.get(loc)

    def value(self, loc: Loc) -> Any:
        """The value at `loc`, as it was typed."""
        value = self.data
        for step in loc:
            value = value[step]
        return value

    @staticmethod
    def name(loc: Loc) -> str:
        """`loc` as people write it: assignments[0].due."""
        parts = [f"[{step}]" if isinstance(step, int) else f".{step}" for step in loc]
        return "".join(parts).lstrip(".")


def read_yaml(path: Path) -> Located:
    """The file's content with its lines, or YamlProblem."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise YamlProblem("there is no such file", "a course.yaml at the root of the course") from None
    except UnicodeDecodeError as error:
        what = f"is not UTF-8 text ({error.reason} at byte {error.start})"
        raise YamlProblem(what, "a file saved as UTF-8") from None
    except OSError as error:
        raise YamlProblem(f"cannot be read ({error.strerror})", "a file that you may read") from None
    loader = _Loader(text)
    try:
        node = loader.get_single_node()
        lines: dict[Loc, int] = {}
        return Located(_plain(loader, node, (), lines) if node else None, lines)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        what = f"is not YAML here: {error.problem or error.context}"
        accepted = "`key: value` lines, indented by spaces, not tabs"
        raise YamlProblem(what, accepted, mark.line + 1 if mark else None) from None
    except yaml.YAMLError as error:
        raise YamlProblem(f"is not YAML: {error}", "UTF-8 text") from None
    finally:
        loader.dispose()


def _plain(loader: _Loader, node: yaml.Node, loc: Loc, lines: dict[Loc, int]) -> Any:
    lines.setdefault(loc, node.start_mark.line + 1)
    if isinstance(node, yaml.MappingNode):
        table: dict[str, Any] = {}
        for key_node, value_node in node.value:
            key, line = str(key_node.value), key_node.start_mark.line + 1
            if key in table:
                what = f"stands twice: here and on line {lines[(*loc, key)]}"
                raise YamlProblem(what, "each key once", line, Located.name((*loc, key)))
            lines[(*loc, key)] = line
            table[key] = _plain(loader, value_node, (*loc, key), lines)
        return table
    if isinstance(node, yaml.SequenceNode):
        return [_plain(loader, child, (*loc, i), lines) for i, child in enumerate(node.value)]
    value = loader.construct_object(node, deep=True)
    plain_text = isinstance(node, yaml.ScalarNode) and not node.style  # None, or "" by libyaml
    return _number(value) if plain_text and isinstance(value, str) else value


def _number(text: str) -> str | int | float:
    """`text` as the number that it plainly is, else itself: 16 and 0.5, not 0o17, 1_000 or 13:00."""
    digits = text.lstrip("+-")
    if digits.isascii() and digits.isdigit() and len(text) - len(digits) <= 1:
        return int(text)
    whole, dot, rest = digits.partition(".")
    if dot and (whole + rest).isascii() and (whole + rest).isdigit() and len(text) - len(digits) <= 1:
        return float(text)
    return text
