"""nbgrader's settings and its gradebook, both derived from course.yaml."""

from __future__ import annotations

import os
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autograder.course import Course
from autograder.notebook.stubs import CODE_STUB, TEXT_STUB

if TYPE_CHECKING:
    from traitlets.config import Config

PLUGINS = "autograder.notebook.plugins"
GRADEBOOK = "gradebook.db"

# Never copied from source/ to release/, nor from a submission to its graded copy.
IGNORED = [".ipynb_checkpoints", "*.pyc", "__pycache__", "feedback", ".DS_Store", "Thumbs.db", "desktop.ini"]

# A Moodle download is a zip of `Nom Prénom_1234567_assignsubmission_file_/…`, accents, nested zips and all.
MOODLE_NAMES = (
    r".*/(?P<first_name>[^/_]+)_(?P<student_id>\d+)_assignsubmission_file_/(?:.*/)?(?P<file_id>[^/]+)$"
)


def configure(config: Config, course: Course) -> None:
    """Put every nbgrader setting of this course into `config`, and its tools on PATH."""
    c: Any = config
    c.CourseDirectory.course_id = course.course.id
    c.CourseDirectory.root = str(course.root)
    c.CourseDirectory.db_url = gradebook_url(course)
    c.CourseDirectory.ignore = IGNORED
    c.Exchange.timezone = course.course.timezone
    c.NbGraderAPI.timezone = course.course.timezone

    c.ClearSolutions.code_stub = {"python": CODE_STUB}
    c.ClearSolutions.text_stub = TEXT_STUB
    # A written answer is graded and a solution; nbgrader would take a mark scheme in its "task" cells only.
    c.ClearMarkScheme.enforce_metadata = False
    c.GenerateAssignment.preprocessors = [
        f"{PLUGINS}.DeclaredFilesOnly",
        f"{PLUGINS}.ReleasedCells",
        *(f"nbgrader.preprocessors.{name}" for name in (
            "IncludeHeaderFooter", "LockCells", "ClearSolutions", "ClearOutput", "CheckCellMetadata",
            "ComputeChecksums", "SaveCells",
        )),
        f"{PLUGINS}.SaveDueDate",
        *(f"nbgrader.preprocessors.{name}" for name in (
            "ClearHiddenTests", "ClearMarkScheme", "ComputeChecksums", "CheckCellMetadata",
        )),
    ]  # fmt: skip

    c.Autograde.exclude_overwriting = {one.id: list(one.files) for one in course.assignments}
    c.Autograde.sanitize_preprocessors = [
        f"{PLUGINS}.RepairCopy",
        *(f"nbgrader.preprocessors.{name}" for name in (
            "ClearOutput", "DeduplicateIds", "OverwriteKernelspec", "OverwriteCells", "CheckCellMetadata",
        )),
    ]  # fmt: skip
    c.Autograde.autograde_preprocessors = [
        f"{PLUGINS}.ExecuteApart",
        "nbgrader.preprocessors.IgnorePattern",
        "nbconvert.preprocessors.ClearMetadataPreprocessor",
        f"{PLUGINS}.LimitBytes",
        f"{PLUGINS}.SaveGrades",
        "nbgrader.preprocessors.AssignLatePenalties",
        "nbgrader.preprocessors.CheckCellMetadata",
    ]
    c.OverwriteCells.add_missing_cells = True
    c.AssignLatePenalties.plugin_class = f"{PLUGINS}.LatePolicy"
    c.GenerateFeedback.exporter_class = "autograder.notebook.feedback.FeedbackPage"
    c.GenerateFeedback.preprocessors = [
        "autograder.notebook.comments.PersonsComments",
        f"{PLUGINS}.StripTests",
        "nbgrader.preprocessors.ClearHiddenTests",
        "autograder.notebook.feedback_page.FeedbackData",
    ]

    # Formgrader and the feedback show what a student wrote: no script of theirs may run there.
    c.HTMLExporter.sanitize_html = True
    safe = "autograder.notebook.safe_html"
    c.HTMLExporter.filters = {"markdown2html": f"{safe}.markdown", "clean_html": f"{safe}.clean"}

    c.FileNameCollectorPlugin.valid_ext = accepted_extensions(course)
    c.FileNameCollectorPlugin.named_regexp = MOODLE_NAMES

    tools_on_path()


def tools_on_path() -> None:
    """Put this Python's own folder on PATH: nbgrader creates and upgrades its gradebook by running the
    `alembic` command, which is not found there when a virtual environment is used without being activated.
    """
    here = str(Path(sys.executable).parent)
    if here not in os.environ.get("PATH", "").split(os.pathsep):
        os.environ["PATH"] = os.pathsep.join(filter(None, [here, os.environ.get("PATH")]))


def accepted_extensions(course: Course) -> list[str]:
    """What a submission may hold: notebooks, nbgrader's timestamp.txt, and the kinds of files declared."""
    declared = {Path(name).suffix for one in course.assignments for name in one.files}
    return sorted({".ipynb", ".txt"} | declared)


def gradebook_url(course: Course) -> str:
    """The course's gradebook, as SQLAlchemy names it."""
    return course.gradebook.db_url or "sqlite:///" + str(course.root / GRADEBOOK)


def on_a_server(course: Course) -> bool:
    """The gradebook is not a file of ours."""
    return course.gradebook.db_url is not None


def utc_naive(moment: datetime) -> datetime:
    """`moment` as nbgrader stores dates: in UTC, without saying so."""
    return moment.astimezone(UTC).replace(tzinfo=None)
