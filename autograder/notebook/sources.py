"""The notebooks that instructors write: read, or told in English what is wrong with them.

read_notebook (cells.py) speaks to the student who handed in what cannot be read; nobody handed these in.
"""

from __future__ import annotations

import json
from pathlib import Path

from nbformat import NotebookNode

from autograder.notebook.cells import CopyError, read_notebook


class SourceError(CopyError):
    """A notebook of the course's own cannot be read. The message names its path."""


def read_source(path: Path) -> NotebookNode:
    """The notebook at `path`, as `read_notebook` gives it; else SourceError."""
    try:
        return read_notebook(path)
    except CopyError:
        raise SourceError(no_notebook(path)) from None


def no_notebook(path: Path) -> str:
    """Why the file at `path`, which cannot be read as a notebook, is none, and what to do."""
    try:
        json.loads(path.read_bytes())
    except OSError as error:
        return f"{path} cannot be read: {error.strerror or error}"
    except (ValueError, RecursionError) as error:  # the first: bytes that are no text, too
        why = str(error)
    else:
        why = "its JSON is not that of a notebook"
    return f"{path} is no notebook ({why}): save it again in JupyterLab, or take it back from git"
