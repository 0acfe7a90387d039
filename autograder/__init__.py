"""An auto-graded course on distributed PyTorch: launch the student's ranks, judge them, explain them.

Importing this package is quick and never imports torch: what a notebook asks for is loaded when it is named.

    launch, Delay               run a script with its ranks, and hold one of them back
    marks, gpu_marks            the account of one test cell; with expectations on GPUs
    close, within               compare a plain answer with a number
    results, pasted             read what ranks print: `RESULTAT {json}` lines; a pasted output (a module)
    drawn                       what a hidden test draws, the same at every grading
    exam_numbers, exam_statement    the exam's numbers, everybody's or a student's own
    NotGraded, TestFailed       how a test cell ends without points, or with none
    check                       what a student asks of a whole notebook

Each is documented where it lives (see _HOMES). A test cell takes the rest from autograder.verdict:
`evidence`, `texts`, `forms` (answers in any form), `members`, `raw_output`.
"""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.1.0"

_HOMES = {
    "launch": "autograder.launch",
    "Delay": "autograder.launch.run",
    "marks": "autograder.verdict.marks",
    "gpu_marks": "autograder.verdict.gpu_marks",
    "close": "autograder.verdict.marks",
    "within": "autograder.verdict.marks",
    "NotGraded": "autograder.verdict.outcome",
    "TestFailed": "autograder.verdict.outcome",
    "drawn": "autograder.verdict.draw",
    "exam_numbers": "autograder.verdict.personal",
    "exam_statement": "autograder.verdict.personal",
    "results": "autograder.verdict.texts",
    "pasted": "autograder.verdict.pasted",
    "check": "autograder.notebook.check",
}


_SHOWN = "autograder.report.run_shown"


def shown(run: Any) -> dict[str, str]:
    """A Run as a notebook shows it, by kind of content: what its ranks did, in words and as a picture."""
    bundle: dict[str, str] = importlib.import_module(_SHOWN).bundle(run)
    return bundle


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'autograder' has no attribute {name!r}")
    module = importlib.import_module(_HOMES[name])
    return module if name in ("launch", "pasted") else getattr(module, name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
