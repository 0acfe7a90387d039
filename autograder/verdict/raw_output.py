"""What only a failed launch's raw output holds: its exit code, the launcher's signal, the script's frames.

Pure functions over a pasted text (see pasted.py, which compares what the ranks print). A frame of the
student's own script ties the output to that script: line numbers and code move with every edit, and nobody
types them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from autograder.verdict import texts

# "code de sortie : 1", "exit code = 1", "$LASTEXITCODE 1"; torchrun's "exitcode : 1 (pid: 12)" is a rank's.
_EXIT = re.compile(
    r"(?:\bcode\b|\bexit\b|exit_?code|\bstatus\b|\$\?)[^\d\n-]{0,40}(-?\d+)\W*$", re.IGNORECASE
)
_ASKED = re.compile(r"\$\?|\$LASTEXITCODE|%ERRORLEVEL%", re.IGNORECASE)
_SIGNAL = re.compile(r"closing signal (?:Signals\.)?([A-Z]\w+)")
_BROKEN_SIGNAL = re.compile(r"closingsignal(?:Signals\.)?(SIGTERM|SIGKILL|SIGINT|CTRL_(?:C|BREAK)_EVENT)")
# What may have become of a letter with an accent, and spaces: `é`, `Ã©`, `?`, `\xe9`.
_GARBLED = re.compile(r"\\x[0-9a-f]{2}|\\u[0-9a-f]{4}|[^\x21-\x7e]|\?")
_LONGEST_NAME = 120  # of a function, between a frame's line number and its code


@dataclass(frozen=True)
class OwnFrame:
    """A traceback's line of the script: `agrees` when the script has that code on that line."""

    line: int
    agrees: bool


def exit_code(output: str) -> int | None:
    """The launcher's exit code, as the student noted it under the output; None where there is none.

    A last line that is a number alone is what `echo $?` prints.
    """
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    if lines and re.fullmatch(r"-?\d{1,10}", lines[-1]):
        return int(lines[-1])
    for asked, line in zip(lines[-2:0:-1], lines[:1:-1], strict=False):   # a prompt may follow
        if _ASKED.search(asked) and re.fullmatch(r"-?\d{1,10}", line):
            return int(line)
    found = [match[1] for line in lines if "pid:" not in line and (match := _EXIT.search(line))]
    return int(found[-1]) if found and len(found[-1]) < 12 else None


def signals(output: str) -> tuple[str, ...]:
    """The signals with which the launcher says that it ended a rank: SIGTERM, on Windows CTRL_C_EVENT."""
    return tuple(dict.fromkeys(_SIGNAL.findall(output) or _BROKEN_SIGNAL.findall(re.sub(r"\s", "", output))))


def is_whole(output: str) -> bool:
    """A rank's traceback and the launcher's own report stand there: both streams, end to end."""
    squeezed = re.sub(r"\s", "", output)
    return "Traceback(mostrecentcalllast)" in squeezed and "RootCause(first" in squeezed


def own_frames(output: str, source: str, script: str = "labo.py") -> tuple[OwnFrame, ...]:
    """The frames of `script` that the tracebacks of `output` quote, each compared with `source`.

    Read without any space, since a narrow console breaks lines anywhere, and in ASCII: a Windows console
    garbles the accents of a comment beside the call.
    """
    squeezed = _GARBLED.sub("", texts.without_prefix(output))
    lines = [_GARBLED.sub("", line) for line in source.splitlines()]
    quoted = re.compile(rf'File"[^"]{{0,400}}?(?<![\w.-]){re.escape(script)}",line(\d{{1,7}}),in')
    frames = []
    for match in quoted.finditer(squeezed):
        number = int(match[1])
        code = lines[number - 1] if 0 < number <= len(lines) else ""
        after = squeezed[match.end() : match.end() + _LONGEST_NAME + len(code)]
        frames.append(OwnFrame(number, bool(code) and code in after))
    return tuple(frames)
