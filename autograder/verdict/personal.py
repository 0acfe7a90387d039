"""The numbers of the exam: the course document's, or a student's own, that come from the id.

Nothing here is secret. A student's numbers are a SHA-256 of the id, so they are the same on every machine and
with every Python; whoever hands in under an id is asked that id's questions, whatever the notebook says.
"""

from __future__ import annotations

import hashlib
import os
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from autograder import messages

STUDENT = "AUTOGRADER_STUDENT"  # whose copy is graded; set only where each student has numbers of their own

Choice = TypeVar("Choice")

# The number of nodes and of processes differ, so that taking one for the other shows; eight rows at most.
_SHAPES = ((2, 3), (3, 2), (2, 4), (4, 2))
_ELEMENTS = (4, 16, 32, 64)
_TIMEOUTS_S = (10, 15, 30, 40, 60)


def _fair(first: int, second: int) -> bool:
    """No wrong way of reducing gives the right number, and the document's own answer (14) is not right."""
    both, mean = first + second, (first + second) / 2
    others = (first, second, abs(first - second), first * second, max(first, second))
    return both not in others and mean not in others and both != 14


_GRADIENTS = tuple((a, b) for a in range(2, 21) for b in range(2, 21) if _fair(a, b))


@dataclass(frozen=True)
class ExamNumbers:
    """What the three questions are asked with: the givens only, no answer.

    `gradients` are those of ranks 0 and 1; `elements` counts the probe's floats; `timeout_s` is the delay
    given to init_process_group; `skipped` is the rank that does not enter the collective.
    """

    nodes: int = 2
    per_node: int = 2
    gradients: tuple[int, int] = (4, 10)
    elements: int = 8
    timeout_s: int = 20
    skipped: int = 1


def exam_numbers(student: str | None = None) -> ExamNumbers:
    """The numbers of `student`; by default those of the copy that is being graded.

    The document's own where no student is named: the course gives everybody the same ones.
    """
    whose = canonical(os.environ.get(STUDENT, "") if student is None else student)
    if not whose:
        return ExamNumbers()
    nodes, per_node = _pick(whose, "nodes", _SHAPES)
    return ExamNumbers(
        nodes, per_node, _pick(whose, "gradients", _GRADIENTS), _pick(whose, "elements", _ELEMENTS),
        _pick(whose, "timeout", _TIMEOUTS_S), _pick(whose, "skipped", (0, 1)),
    )  # fmt: skip


def _pick(student: str, label: str, choices: Sequence[Choice]) -> Choice:
    """`random` is not used: what it draws may change from one Python to the next."""
    digest = hashlib.sha256(f"exam\0{label}\0{student}".encode()).digest()
    return choices[int.from_bytes(digest[:8], "big") % len(choices)]


def canonical(student: object) -> str:
    """An id as it is compared: case, spaces and the form of accents do not make another student."""
    plain = unicodedata.normalize("NFKC", "" if student is None else str(student)).strip().casefold()
    return re.sub(r"[^\w.@-]+", "-", plain).strip("-.@")


class Statement:
    """The questions' givens in French, as a notebook and a terminal show them."""

    def __init__(self, student: object) -> None:
        self.student = str(student).strip() if canonical(student) else ""

    @property
    def lines(self) -> list[str]:
        """One line per question; a single one that asks for the id where there is none."""
        if not self.student:
            return [messages.text("exam.no-student")]
        givens = statements(exam_numbers(self.student))
        told = [messages.text("exam.question", n=n, given=given) for n, given in enumerate(givens, 1)]
        return [messages.text("exam.whose", student=self.student), *told]

    def _repr_markdown_(self) -> str:
        return "\n\n".join(self.lines)

    def __repr__(self) -> str:
        return "\n".join(self.lines).replace("**", "").replace("`", "")


def exam_statement(student: Any) -> Statement:
    """What the exam's first cell shows: the numbers of the student of this id."""
    return Statement(student)


def statements(numbers: ExamNumbers) -> list[str]:
    """The givens of each of the three questions, in Markdown."""
    first, second = numbers.gradients
    return [
        messages.text("exam.question-1", nodes=numbers.nodes, per_node=numbers.per_node),
        messages.text("exam.question-2", first=first, second=second),
        messages.text(
            "exam.question-3", waiting=1 - numbers.skipped, skipped=numbers.skipped,
            elements=numbers.elements, timeout=numbers.timeout_s,
        ),
    ]  # fmt: skip
