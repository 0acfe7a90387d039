"""The text of a file that a student hands in, whatever program wrote it."""

from __future__ import annotations

import re
import unicodedata
from pathlib import Path

from autograder.verdict import texts

MAX_BYTES = 200_000   # as for every file that crosses to the tests


def read(name: str = "sortie.txt") -> str | None:
    """The text of `name` in the current folder, decoded and cleaned; None when there is no such file.

    A redirection by PowerShell writes UTF-16, an old editor Latin-1, a colour terminal its own codes: the
    text is the same. Line numbers are the file's.
    """
    path = Path(name)
    try:
        if not path.is_file():
            return None
        with path.open("rb") as file:
            return cleaned(decoded(file.read(MAX_BYTES)))
    except OSError:
        return None


def decoded(data: bytes) -> str:
    """The text of these bytes: UTF-16 and UTF-8 with or without a mark, else Latin-1."""
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return data.decode("utf-16", errors="replace")
    head = data[:2000]
    if head.count(0) > len(head) // 4:   # UTF-16 whose mark was lost: every other byte of a latin text is 0
        little = head[1::2].count(0) >= head[::2].count(0)
        return data.decode("utf-16-le" if little else "utf-16-be", errors="replace")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return data.decode("latin-1")


def cleaned(text: str) -> str:
    """Without terminal codes, control characters and no-break spaces; lines end in \\n."""
    # A text that went through a word processor or a chat keeps its words, not its plain spaces.
    text = re.sub(r"[\u00a0\u2007\u202f]", " ", texts.ANSI.sub("", text))
    return "\n".join(texts.clean(line, width=MAX_BYTES) for line in re.split(r"\r\n|\r|\n", text))


def unaccented(text: str) -> str:
    """Letters without their accents, signs by their plain form: what two keyboards type alike."""
    return "".join(sign for sign in unicodedata.normalize("NFKD", text) if not unicodedata.combining(sign))
