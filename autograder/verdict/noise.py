"""What torch and torchrun print that tells a student nothing, or blames the victim: not shown.

torchrun's summary ("Root Cause") names the rank that it saw fail first, which is often the one that waited.
"""

from __future__ import annotations

import re

from autograder.verdict import texts

# Whole lines, each the mark of one row of the catalogue's noise.
_LINES = re.compile("|".join((
    r"^\*{10,}$",
    r"Setting OMP_NUM_THREADS environment variable",
    r"Root Cause \(first observed failure\)|^Failures:$|<NO_OTHER_FAILURES>",
    r"error_file\s*: <N/A>|traceback\s*: (?:To enable traceback see|Signal \d+)",
    r"^\[\d+\]:$|^\s+(?:time|host|rank|exitcode)\s+: ",
    r"^[=-]{20,}$",
    r"closing signal SIG(?:TERM|KILL)|Received \d+ death signal",
    r"errno: 97 - Address family not supported by protocol",
    r"Failed to initialize NumPy|^\s*(?:cpu = _conversion_method_template|\(Triggered internally at)",
    r"Unable to resolve hostname to a \(local\) address|the client socket has failed to connect",
    r"^\[?[WI]\d{0,4}(?: [\d:.]+)?(?: \d+)? \S+\.(?:cpp|hpp|py):\d+\]",
)))
# From here to its end a launcher's text is its own traceback and summary, of which nothing is the script's.
_SUMMARY = re.compile(r"^(?:\[rank\d+\]: )?torch\.distributed\.elastic\.\S*ChildFailedError|"
                      r"^E\d* .{0,80}api\.py:\d+\] failed \(exitcode", re.MULTILINE)


def without(text: str) -> str:
    """`text` less its noise; the lines that are left are as they were."""
    kept = [line for line in text.replace("\r\n", "\n").split("\n") if not _LINES.search(line)]
    return "\n".join(kept)


def launchers(text: str) -> str:
    """What the launcher itself said before it reported which rank failed."""
    found = _SUMMARY.search(text)
    return without(text[:found.start()] if found else text)


def last_lines(text: str, count: int = 3) -> list[str]:
    """The last lines that say something, cleaned, without the source that tracebacks quote."""
    lines = [texts.one_line(line) for line in without(texts.without_source(text)).splitlines()]
    told = [line for line in lines if line and line != "Traceback (most recent call last):"]
    return told[-count:]
