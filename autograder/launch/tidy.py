"""Turn raw captured bytes into text that tells nothing of this machine: no path, date or recorder frame."""

from __future__ import annotations

import re
import sys
import sysconfig
from pathlib import Path

from autograder.launch.command import RECORDER_FILE

CUT = "\n[… {count} octets coupés …]\n"

# `  File "…/recorder/sitecustomize.py", line 12, in call`, with or without torch's `[rank1]: `, and the more
# indented lines (source, carets) that follow it.
_FRAME = re.compile(
    rf'^(?P<lead>(?:\[rank\d+\]: ?)?)  File "[^"\n]*[/\\]{RECORDER_FILE}", line \d+[^\n]*\n'
    r"(?:(?P=lead)    [^\n]*\n)*",
    re.MULTILINE,
)
# faulthandler shows our thread too.
_THREAD = re.compile(
    rf'^Thread 0x[0-9a-f]+ [^\n]*\n(?:  File "[^"\n]*[/\\]{RECORDER_FILE}", [^\n]*\n)+\n?', re.MULTILINE)
_WARNING = re.compile(
    rf"^[^\n]*[/\\]{RECORDER_FILE}:\d+: (\w+Warning: [^\n]*\n)(?:  [^\n]*\n)?", re.MULTILINE)
_LOG_PREFIX = re.compile(r"^(\[?)([EWIF])\d{3,4} \d\d:\d\d:\d\d\.\d+ (?:\d+ )?", re.MULTILINE)
_LIBRARY = re.compile(r"""(?<![^\s"'([])[^\s"'()[]*[/\\](?:site|dist)-packages[/\\]""")
_PRIVATE_FIELDS = re.compile(r"^  (?:time|host) +: [^\n]*\n", re.MULTILINE)


def read_limited(path: Path, limit: int) -> tuple[str, bool]:
    """The text of a file (head and tail when it is longer than `limit` bytes), and whether it was cut."""
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            if size <= limit:
                return file.read().decode("utf-8", "replace").replace("\r\n", "\n"), False
            head = file.read(limit // 2)
            file.seek(size - limit // 2)
            tail = file.read(limit // 2)
    except OSError:
        return "", False
    cut = CUT.format(count=size - len(head) - len(tail))
    return head.decode("utf-8", "replace") + cut + tail.decode("utf-8", "replace"), True


class Tidier:
    """Removes from texts the paths of one launch: its work folder, its own temporary folder, Python's."""

    def __init__(self, folder: Path, temp: Path) -> None:
        paths = {str(path) for place in (temp, folder) for path in (place.absolute(), place.resolve())}
        libraries = {sysconfig.get_path(name) for name in ("purelib", "platlib", "stdlib", "platstdlib")}
        libraries |= {entry for entry in sys.path if entry.endswith(("site-packages", "dist-packages"))}
        programs = {sys.executable, str(Path(sys.executable).resolve())}
        self.replacements = [(program, "python3") for program in sorted(programs, key=len, reverse=True)]
        for path in sorted(paths | libraries, key=len, reverse=True):
            if len(path) > 1:
                self.replacements += [(path + "/", ""), (path + "\\", ""), (path, ".")]

    def paths(self, text: str) -> str:
        for path, other in self.replacements:
            text = text.replace(path, other)
        return _LIBRARY.sub("", text)

    def stderr(self, text: str) -> str:
        text = _WARNING.sub(r"\1", _FRAME.sub("", _THREAD.sub("", text)))
        return self.paths(_LOG_PREFIX.sub(r"\1\2 ", text))

    def launcher(self, text: str) -> str:
        return self.stderr(_PRIVATE_FIELDS.sub("", text))
