"""nbgrader's plug-ins, named in its settings by nbconfig.py. They add to nbgrader; the gradebook stays its
own.

Sanitize: RepairCopy first. Autograde: ExecuteApart in place of Execute, LimitBytes of LimitOutput,
SaveGrades of SaveAutoGrades; LatePolicy for the penalties. Feedback: StripTests, of feedback.py. Release:
DeclaredFilesOnly and ReleasedCells first, SaveDueDate after SaveCells.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from nbformat import NotebookNode
from nbgrader import utils
from nbgrader.api import Gradebook
from nbgrader.plugins import LateSubmissionPlugin
from nbgrader.preprocessors import NbGraderPreprocessor, SaveAutoGrades
from traitlets import Enum, Integer, Unicode

from autograder import course as courses
from autograder.launch import box
from autograder.messages import text
from autograder.notebook import launches
from autograder.notebook.cells import same_code
from autograder.notebook.comments import automatic
from autograder.notebook.exam import Exam, in_box, prepare, still_good
from autograder.notebook.examine import examine
from autograder.notebook.feedback import StripTests, coursedir_of, shorten_cells
from autograder.notebook.late import penalty
from autograder.notebook.nbconfig import utc_naive
from autograder.notebook.recorded import Reviewed
from autograder.notebook.repair import Skeleton, repair
from autograder.notebook.result import CopyResult, kept, result_path
from autograder.notebook.student_shell import shorten
from autograder.notebook.variants import variant

__all__ = [
    "DeclaredFilesOnly", "ExecuteApart", "LatePolicy", "LimitBytes", "ReleasedCells", "RepairCopy",
    "SaveDueDate", "SaveGrades", "StripTests", "undeclared",
]  # fmt: skip

Converted = tuple[NotebookNode, dict[str, Any]]


_EXAMS: dict[tuple[str, str, float], Exam] = {}


def _exam(plugin: Any, assignment: str) -> tuple[Exam, courses.Course]:
    """The assignment's tests, read once for a class as long as its source does not change."""
    course = courses.load(Path(coursedir_of(plugin).root))
    source = course.root / "source" / assignment / f"{assignment}.ipynb"
    stamp = source.stat().st_mtime if source.is_file() else 0.0
    key = (str(course.root), assignment, stamp)
    if key not in _EXAMS:
        _EXAMS[key] = prepare(assignment, course)
    return _EXAMS[key], course


class ReleasedCells(NbGraderPreprocessor):
    """Leave out of a release the cells that stand in source/ only (see variants.py)."""

    def preprocess(self, nb: NotebookNode, resources: dict[str, Any]) -> Converted:
        course = courses.load(Path(coursedir_of(self).root))
        return variant(nb, course.assignment(resources["nbgrader"]["assignment"]).numbers), resources


class RepairCopy(NbGraderPreprocessor):
    """Put the copy back on the released skeleton before nbgrader looks at it (see repair.py)."""

    def preprocess(self, nb: NotebookNode, resources: dict[str, Any]) -> Converted:
        exam, _ = _exam(self, resources["nbgrader"]["assignment"])
        for cell in nb.cells:
            if cell.cell_type == "code":
                cell.outputs = []
        mended = repair(nb, exam.frame)
        for remark in mended.remarks:
            self.log.warning(remark)
        return mended.notebook, resources


class ExecuteApart(NbGraderPreprocessor):
    """Put the result of grading apart into the cells; grade there and then when none is kept for this very
    copy.
    """

    results = Unicode("", help="A folder of results to use as they are, by <assignment>/<student>.json.")
    results.tag(config=True)
    sandbox = Enum(
        ["auto", "yes", "no"], default_value="auto",
        help="Run students' code in a box: where one can be made, always, or never.").tag(config=True)

    def preprocess(self, nb: NotebookNode, resources: dict[str, Any]) -> Converted:
        info = resources["nbgrader"]
        result = self._result(info["assignment"], info["student"])
        info["autograder"] = result
        for cell in nb.cells:
            if cell.cell_type != "code":
                continue
            outputs = result.cells.get(
                cell.metadata.get("nbgrader", {}).get("grade_id") or cell.get("id"), []
            )
            if utils.is_grade(cell) and not utils.is_solution(cell) and not outputs:
                # nbgrader gives full marks to a test cell without any output.
                outputs = [_not_graded(text("grading.test-fault"))]
            outputs = launches.drawn(outputs) if utils.is_grade(cell) else outputs
            plain = json.dumps(outputs, ensure_ascii=False).encode("utf-8", "replace")  # no half surrogates
            cell.outputs = [NotebookNode(output) for output in json.loads(plain)]
            cell.execution_count = None
        return nb, resources

    def _result(self, assignment: str, student: str) -> CopyResult:
        if self.results:
            result = kept(Path(self.results) / assignment / f"{student}.json")
            if result is None:
                raise RuntimeError(f"no result of {student} for {assignment} in {self.results}")
            return result
        coursedir = coursedir_of(self)
        exam, course = _exam(self, assignment)
        folder = Path(coursedir.format_path(coursedir.submitted_directory, student, assignment))
        result = kept(result_path(course.root, assignment, student))
        if result is not None and still_good(result, exam, folder):
            return result
        return examine(folder, assignment, course, student=student, exam=self._boxed(exam))

    def _boxed(self, exam: Exam) -> Exam:
        why_not = box.why_not() if self.sandbox != "no" else "ExecuteApart.sandbox is no"
        if why_not is not None:
            if self.sandbox == "yes":
                raise RuntimeError(why_not)
            self.log.warning("Students' code runs without a sandbox, with your rights: %s", why_not)
        return in_box(exam, why_not is None)


def _not_graded(cause: str) -> dict[str, Any]:
    return {"output_type": "error", "ename": "NotGraded", "evalue": cause, "traceback": [cause]}


class LimitBytes(NbGraderPreprocessor):
    """Bound what cells and their outputs weigh: nbgrader counts lines, and one line can be 30 MB."""

    max_bytes = Integer(200_000, help="Characters kept of one cell's outputs.").tag(config=True)

    def preprocess(self, nb: NotebookNode, resources: dict[str, Any]) -> Converted:
        shorten_cells(nb)
        return super().preprocess(nb, resources)

    def preprocess_cell(self, cell: NotebookNode, resources: dict[str, Any], cell_index: int) -> Converted:
        if cell.cell_type != "code":
            return cell, resources
        left, kept_outputs = int(self.max_bytes), []
        for output in cell.outputs:
            if output.output_type == "stream":
                output.text = shorten(output.text, max(left, 200))
            elif output.output_type == "error":
                output.traceback = [shorten(line, max(left // 10, 200)) for line in output.traceback[-60:]]
            elif len(json.dumps(output)) > left:
                continue
            left -= len(json.dumps(output))
            kept_outputs.append(output)
        cell.outputs = kept_outputs
        return cell, resources


class SaveGrades(SaveAutoGrades):
    """Record marks; "not graded" is no mark to be looked at by hand, and what was reviewed stays reviewed.

    nbgrader asks for another review of every cell with a manual mark each time the copy is graded; here
    only when what was reviewed has changed.
    """

    def preprocess(self, nb: NotebookNode, resources: dict[str, Any]) -> Converted:
        info = resources["nbgrader"]
        self.result: CopyResult | None = info.get("autograder")
        exam, course = _exam(self, info["assignment"])
        self.frame: Skeleton = exam.frame
        self.reviewed = Reviewed(course.root, info["assignment"], info["student"])
        nb, resources = super().preprocess(nb, resources)
        self.reviewed.save()
        return nb, resources

    def _add_score(self, cell: NotebookNode, resources: dict[str, Any]) -> None:
        ident = cell.metadata.nbgrader["grade_id"]
        grade = self.gradebook.find_grade(ident, self.notebook_id, self.assignment_id, self.student_id)
        auto = self._auto(cell)
        copy = self.result.copy_sha256 if self.result is not None and not utils.is_solution(cell) else ""
        same = self.reviewed.unchanged(ident, f"{cell.source}\0{copy}") and grade.auto_score == auto
        already_reviewed = same and not grade.needs_manual_grade
        grade.auto_score = auto
        grade.needs_manual_grade = (grade.manual_score is not None or auto is None) and not already_reviewed
        self.gradebook.db.commit()

    def _auto(self, cell: NotebookNode) -> float | None:
        """The automatic mark, None when there is none to give."""
        if utils.is_solution(cell):
            if not self._read():
                return None  # nobody may conclude that nothing was written
            return 0.0 if self._unanswered(cell) else None
        if any(
            output.output_type == "error" and output.ename == "NotGraded"
            for output in cell.get("outputs", ())
        ):
            return None
        return float(utils.determine_grade(cell, self.log)[0])

    def _read(self) -> bool:
        return self.result is None or self.result.notebook

    def _unanswered(self, cell: NotebookNode) -> bool:
        released = self.frame.released.get(cell.metadata.nbgrader["grade_id"])
        return not cell.source.strip() or (released is not None and same_code(cell.source, released))

    def _add_comment(self, cell: NotebookNode, resources: dict[str, Any]) -> None:
        ident = cell.metadata.nbgrader["grade_id"]
        comment = self.gradebook.find_comment(ident, self.notebook_id, self.assignment_id, self.student_id)
        comment.auto_comment = automatic(cell, self.frame, self._unanswered(cell), self._read())
        self.gradebook.db.commit()


class SaveDueDate(NbGraderPreprocessor):
    """Give the gradebook the due date of course.yaml: nbgrader alone would take no copy for late."""

    def preprocess(self, nb: NotebookNode, resources: dict[str, Any]) -> Converted:
        info = resources["nbgrader"]
        course = courses.load(Path(coursedir_of(self).root))
        due = utc_naive(course.assignment(info["assignment"]).due)
        with Gradebook(info["db_url"], course.course.id) as gradebook:
            gradebook.update_or_create_assignment(info["assignment"], duedate=due)
        return nb, resources


class LatePolicy(LateSubmissionPlugin):
    """course.yaml's late policy."""

    def late_submission_penalty(
        self, student_id: str, score: float, total_seconds_late: float
    ) -> float | None:
        owner: Any = self.parent
        return penalty(score, total_seconds_late, courses.load(Path(coursedir_of(owner).root)).late) or None


class DeclaredFilesOnly(NbGraderPreprocessor):
    """Refuse to release an assignment whose source folder holds a file that course.yaml does not declare.

    A labo.py left there by running the source notebook is the solution: nbgrader would ship it to the
    students and copy it over every submission.
    """

    def preprocess(self, nb: NotebookNode, resources: dict[str, Any]) -> Converted:
        assignment = resources["nbgrader"]["assignment"]
        coursedir = coursedir_of(self)
        course = courses.load(Path(coursedir.root))
        folder = Path(coursedir.format_path(coursedir.source_directory, ".", assignment))
        if strange := undeclared(folder, course.assignment(assignment)):
            raise ValueError(
                f"{folder} holds {', '.join(strange)}, which course.yaml does not declare "
                f"(assignments, {assignment}, data): remove it, or declare it"
            )
        return nb, resources


def undeclared(folder: Path, assignment: courses.Assignment) -> list[str]:
    """The files under source/<assignment>/ that may not be there."""
    allowed = {assignment.notebook, *assignment.data}
    ignored = {".ipynb_checkpoints", "__pycache__"}
    files = (path.relative_to(folder) for path in folder.rglob("*") if not path.is_dir())
    return sorted(str(path) for path in files if not ignored & set(path.parts) and str(path) not in allowed)
