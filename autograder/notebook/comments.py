"""Comments on written answers: a hint for the grader in formgrader, a person's own words for the student.

formgrader shows nbgrader's automatic comment in grey, in the box where the grader writes. nbgrader's feedback
would give it to the student where nothing else was written: here it does not.
"""

from __future__ import annotations

from typing import Any

from nbformat import NotebookNode
from nbgrader.preprocessors import GetGrades

from autograder.messages import text
from autograder.notebook.repair import Skeleton
from autograder.verdict.hints import hint

NO_RESPONSE = "No response."  # nbgrader's own words


def not_read() -> str:
    """What stands in the box of a copy whose notebook was not read: nobody can say what was answered."""
    return text("indice.not-read")


def automatic(cell: NotebookNode, frame: Skeleton, unanswered: bool, read: bool) -> str | None:
    """What to write in the box before a grader does: nothing was answered, or a hint on what was."""
    if not read:
        return not_read()
    if unanswered:
        return NO_RESPONSE
    model = frame.graded.get(cell.metadata.nbgrader["grade_id"])
    return hint(cell.source, model.source) if model is not None and model.role == "written" else None


class PersonsComments(GetGrades):
    """nbgrader's own, without the hints, and with whether a person has still to give the mark (`pending`), or
    could not yet, since the notebook was not read (`unread`).
    """

    def _get_comment(self, cell: NotebookNode, resources: dict[str, Any]) -> None:
        ident = cell.metadata.nbgrader["grade_id"]
        comment = self.gradebook.find_comment(ident, self.notebook_id, self.assignment_id, self.student_id)
        told = comment.auto_comment if comment.auto_comment == NO_RESPONSE else None
        cell.metadata.nbgrader["unread"] = comment.auto_comment == not_read()
        cell.metadata.nbgrader["comment"] = told if comment.manual_comment is None else comment.manual_comment

    def _get_score(self, cell: NotebookNode, resources: dict[str, Any]) -> None:
        super()._get_score(cell, resources)
        ident = cell.metadata.nbgrader["grade_id"]
        grade = self.gradebook.find_grade(ident, self.notebook_id, self.assignment_id, self.student_id)
        told = cell.metadata.nbgrader
        told["unread"] = bool(told.get("unread") and grade.needs_manual_grade)
        told["pending"] = bool(grade.needs_manual_grade) and not told["unread"]
