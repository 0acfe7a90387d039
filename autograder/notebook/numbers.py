"""Whose numbers a copy is graded with, where course.yaml gives each student numbers of their own.

The submission's id decides. The notebook's first cell holds the id that the student typed, ETUDIANT: it only
says whether the questions that the student read were the right ones.
"""

from __future__ import annotations

from typing import Any

from nbformat import NotebookNode

from autograder.messages import text
from autograder.notebook.student import StudentRun
from autograder.verdict.personal import canonical
from autograder.verdict.texts import one_line

TYPED = "ETUDIANT"
FLAG = "other-student"


def whose(student: str | None, typed: object) -> str | None:
    """The submission's id; without one (a student's own check) the one that was typed, fit to stand in a
    process's environment.
    """
    if student is not None:
        return student
    return canonical(typed) or None


def mismatch(student: str | None, typed: object) -> str | None:
    """What to tell where the questions that were read are those of somebody else; None where they are not.

    Nothing typed is no mismatch: the numbers may have been read on another machine.
    """
    if student is None or not canonical(typed) or canonical(typed) == canonical(student):
        return None
    return text("exam.other-student", typed=one_line(str(typed), 80), student=student)


def cell_of(notebook: NotebookNode, ran: StudentRun) -> str | None:
    """The id of the cell that sets ETUDIANT, under which the student reads the remark."""
    cells: list[Any] = [cell for cell in notebook.cells if cell.cell_type == "code" and cell.id in ran.cells]
    return next((cell.id for cell in cells if cell.source.lstrip().startswith(f"{TYPED} =")), None)
