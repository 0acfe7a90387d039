"""Read the traceback that ended a rank: the student's line, the exception, its message."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import PurePosixPath, PureWindowsPath

from autograder.verdict import texts

_START = "Traceback (most recent call last):"
_FRAME = re.compile(r'^\s*File "(?P<file>[^"\n]*)", line (?P<line>\d+)', re.MULTILINE)
_RAISED = re.compile(r"^(?P<type>[A-Za-z_][\w.]*)(?:: (?P<message>.*))?$")
# faulthandler's text when a signal ends the interpreter; the innermost call comes first.
_FATAL = re.compile(
    r"^(?:Current thread|Thread) .*\(most recent call first\):\n(?P<frames>(?:  File .*\n?)*)", re.MULTILINE,
)


@dataclass(frozen=True)
class Raised:
    """The exception that ended a rank; `line` is the last one of the student's script on the way to it."""

    type: str
    message: str
    line: int | None


def raised(stderr: str, script: str) -> Raised | None:
    """What the last traceback of `stderr` says; None when there is none."""
    text = texts.without_prefix(stderr)
    blocks = text.split(_START)
    if len(blocks) < 2:
        return None
    last: Raised | None = None
    line: int | None = None
    for block in blocks[1:]:
        here = _script_line(block, script)
        found = _exception(block)
        if found is None:
            continue
        # "During handling of the above exception…": the last exception is what ended the rank.
        line = here if here is not None else line
        last = Raised(found[0], found[1], line)
    return last


def fatal_line(stderr: str, script: str) -> int | None:
    """The script's line at which a signal ended the interpreter, from faulthandler's dump."""
    for match in _FATAL.finditer(stderr.replace("\r\n", "\n")):
        for frame in _FRAME.finditer(match["frames"]):
            if base_name(frame["file"]) == base_name(script):
                return int(frame["line"])
    return None


def base_name(path: str) -> str:
    return PureWindowsPath(path).name if "\\" in path else PurePosixPath(path).name


def _script_line(block: str, script: str) -> int | None:
    lines = [int(m["line"]) for m in _FRAME.finditer(block) if base_name(m["file"]) == base_name(script)]
    return lines[-1] if lines else None


def _exception(block: str) -> tuple[str, str] | None:
    """(type, message) of a traceback's block: its first line that is not indented, and what continues it."""
    lines = block.split("\n")
    for index, text in enumerate(lines):
        match = _RAISED.match(text)
        if match is None or text.startswith(" "):
            continue
        rest = []
        for more in lines[index + 1:index + 6]:
            if not more.strip():
                break
            rest.append(more)
        message = "\n".join([match["message"] or "", *rest]).strip()
        return match["type"].rsplit(".", 1)[-1], message
    return None
