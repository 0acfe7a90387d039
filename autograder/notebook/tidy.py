"""Store a notebook in its one form, so that a change reads as a change.

`python -m autograder.notebook.tidy FILE …` does it in place. Outputs go, and with them what editors add about
the machine; cells, their ids and their metadata stay.
"""

from __future__ import annotations

import sys
from pathlib import Path

import nbformat

from autograder.notebook.sources import no_notebook

KERNELSPEC = {"display_name": "Python 3", "language": "python", "name": "python3"}
LANGUAGE_INFO = {"name": "python"}
# What editors leave on a cell: how it is folded, when it ran.
_EDITORS = ("collapsed", "execution", "ExecuteTime", "jp-MarkdownHeadingCollapsed", "scrolled", "vscode")


def tidied(data: bytes) -> bytes:
    """The same notebook as nbformat writes it, in format 4.5, without outputs."""
    notebook = nbformat.reads(data.decode("utf-8-sig"), as_version=4)
    notebook.nbformat_minor = max(5, notebook.nbformat_minor)
    notebook.metadata = nbformat.from_dict({"kernelspec": KERNELSPEC, "language_info": LANGUAGE_INFO})
    for cell in notebook.cells:
        for key in _EDITORS:
            cell.metadata.pop(key, None)
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    return (nbformat.writes(notebook).rstrip("\n") + "\n").encode()


def main(paths: list[str]) -> int:
    """Tidy these files in place; say which ones changed. 1 where one is no notebook: it stays as it is."""
    refused = 0
    for path in map(Path, paths):
        try:
            before = path.read_bytes()
            after = tidied(before)
        except Exception:  # nbformat raises whatever its parsers raise
            refused = 1
            print(no_notebook(path), file=sys.stderr)
            continue
        if after != before:
            path.write_bytes(after)
            print(f"tidied {path}")
    return refused


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
