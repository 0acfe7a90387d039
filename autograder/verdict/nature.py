"""What a file is that was handed in as an output and is none: a script, a picture, an error, a command.

Pure functions of its text. Students write what is searched: no two repetitions of a pattern may share the
same characters.
"""

from __future__ import annotations

import ast
import re

from autograder.verdict import texts

_COMMAND = re.compile(r"\btorchrun\b|torch\.distributed\.(?:run|launch)\b|\bpython3? \S*labo\.py")
_ERROR = re.compile(r"^(?:[\w.]*(?:Error|Exception|Interrupt)\b[^\n]*)", re.MULTILINE)
_PICTURE = re.compile(r"\S[^\n]{0,200}\.(?:png|jpe?g|gif|heic|webp|bmp|tiff?|pdf|docx|odt)\"?", re.IGNORECASE)
_CODE = re.compile(r"^[ \t]*(?:%%writefile|import torch\b|from torch\b)", re.MULTILINE)
# The first bytes of a picture or an office document, as they read once decoded and cleaned.
_BINARY = re.compile(r"PNG\n|%PDF|PK(?!\w* )|ÿØÿ|GIF8|\{\\rtf|<!DOCTYPE|<html", re.IGNORECASE)
_LONGEST_SOURCE = 50_000  # characters: beyond it Python's parser may take seconds, and no script is so long


def is_source(text: str) -> bool:
    """The whole file is Python that imports something: a script, whatever its comments quote."""
    if len(text) > _LONGEST_SOURCE or "import" not in text:
        return False
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return any(isinstance(node, ast.Import | ast.ImportFrom) for node in ast.walk(tree))


def nature(text: str) -> tuple[str, str]:
    """What a file without any text of the course's contract looks like: (reason, quotation).

    The reason is document, notebook, source, picture, error (quoted), command, or no-text (quoted).
    """
    start = text.strip()
    if _BINARY.match(start):
        return "document", ""
    if start.startswith("{") and '"cells"' in text:
        return "notebook", ""
    if is_source(text) or _CODE.search(text):
        return "source", ""
    if _PICTURE.fullmatch(start):
        return "picture", texts.one_line(start, 80)
    errors = _ERROR.findall(texts.without_prefix(text))
    if errors:
        return "error", texts.one_line(errors[0], 160)
    if _COMMAND.search(text):
        return "command", ""
    return "no-text", texts.one_line(start, 80)
