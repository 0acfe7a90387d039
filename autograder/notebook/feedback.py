"""What a graded copy shows: bounded and, on its way back to the student, without what is not theirs."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from jinja2 import BytecodeCache, Environment
from jinja2.bccache import Bucket
from markupsafe import Markup, escape
from nbconvert.exporters import HTMLExporter
from nbconvert.filters import Highlight2HTML
from nbconvert.filters.widgetsdatatypefilter import WidgetsDataTypeFilter
from nbformat import NotebookNode
from nbformat.v4 import new_markdown_cell
from nbgrader import utils
from nbgrader.preprocessors import NbGraderPreprocessor
from traitlets import default

from autograder.files import private_paths
from autograder.messages import LANGUAGE, number, plural, text
from autograder.notebook.cells import cut, unique_id
from autograder.notebook.student_shell import shorten

Converted = tuple[NotebookNode, dict[str, Any]]

# Of the graded copy's own text; what was handed in stays whole in submitted/. Rendering markdown takes a time
# that grows with the square of some texts: 20 000 characters take a second at most.
MOST_OF_CELL, MOST_OF_ALL, MOST_CELLS, MOST_ATTACHED = 20_000, 400_000, 1_000, 4_000_000


class CompiledOnce(BytecodeCache):
    """The page's templates, compiled once for a whole class: nbconvert alone compiles them for every copy."""

    def __init__(self) -> None:
        self.kept: dict[str, bytes] = {}

    def load_bytecode(self, bucket: Bucket) -> None:
        if bucket.key in self.kept:
            bucket.bytecode_from_string(self.kept[bucket.key])   # which looks whether the template changed

    def dump_bytecode(self, bucket: Bucket) -> None:
        self.kept[bucket.key] = bucket.bytecode_to_string()


COMPILED = CompiledOnce()


NO_ALT = re.compile(r"<img(?![^<>]*\salt=)")   # as safe_html.py writes the pictures of a copy's own text
TEMPLATES = Path(__file__).with_name("templates") / "student_feedback"


class FeedbackPage(HTMLExporter):
    """A student's page: our own template, in French, which loads nothing from anywhere else."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.language_code = LANGUAGE

    @default("template_paths")
    def _template_paths(self, prune: bool = True, root_dirs: Any = None) -> list[str]:
        """Ours alone, whatever the settings of HTMLExporter say: those are formgrader's too."""
        return [str(TEMPLATES)]

    def from_notebook_node(self, nb: NotebookNode, resources: Any = None, **options: Any) -> Any:
        """As HTMLExporter's, which then reads the whole page again to find pictures without a description:
        half the time that a page took.
        """
        resources = self._init_resources(resources)
        shown = WidgetsDataTypeFilter(notebook_metadata=self._nb_metadata, parent=self, resources=resources)
        self.register_filter("highlight_code", Highlight2HTML(parent=self))
        self.register_filter("filter_data_type", shown)
        page, resources = super(HTMLExporter, self).from_notebook_node(nb, resources, **options)
        return NO_ALT.sub(f'<img alt="{escape(text("feedback.no-alt"))}"', page), resources

    def _create_environment(self) -> Environment:
        environment = super()._create_environment()
        environment.bytecode_cache = COMPILED
        environment.globals |= {"say": text, "number": number, "plural": plural}
        environment.filters["inline"] = inline
        return environment


def inline(said: str) -> Markup:
    """A line of a report, escaped, with what stands between backquotes as code."""
    parts = re.split(r"`([^`\n]+)`", said)
    return Markup("").join(
        Markup("<code>{}</code>").format(part) if place % 2 else escape(part)
        for place, part in enumerate(parts)
    )


def coursedir_of(plugin: Any) -> Any:
    """nbgrader's CourseDirectory, from the converter that this preprocessor's exporter belongs to."""
    owner = plugin.parent
    while owner is not None and getattr(owner, "coursedir", None) is None:
        owner = owner.parent
    if owner is None:
        raise RuntimeError(f"{type(plugin).__name__} runs inside nbgrader's converters only")
    return owner.coursedir


def shorten_cells(nb: NotebookNode) -> None:
    """Bound the text that a student wrote, cell by cell and in all: no page may take minutes to be made."""
    left, attached, own, cells = MOST_OF_ALL, MOST_ATTACHED, 0, []
    for cell in nb.cells:
        role = cell.metadata.get("nbgrader", {})
        own += not role.get("grade_id")
        if own > MOST_CELLS and not role.get("grade_id"):
            continue
        if not role.get("locked"):
            most = MOST_OF_CELL if role.get("grade_id") else min(MOST_OF_CELL, left)
            cell.source = shorten(cell.source, most)
            left = max(200, left - len(cell.source))
        attached -= len(json.dumps(cell.get("attachments", {})))
        if attached < 0:
            cell.pop("attachments", None)
        cells.append(cell)
    if len(cells) < len(nb.cells):
        out = len(nb.cells) - len(cells)
        told = text("grading.cells-left-out", n=out, s=plural(out))
        ident = unique_id("left-out", {str(cell.get("id")) for cell in cells}, "left-out")
        cells.append(new_markdown_cell(told, id=ident))
    nb.cells = cells


class StripTests(NbGraderPreprocessor):
    """Keep hidden tests, tracebacks through tests and the grader's paths out of the feedback."""

    def preprocess(self, nb: NotebookNode, resources: dict[str, Any]) -> Converted:
        self._paths = private_paths(Path(coursedir_of(self).root))
        seen: set[str] = set()
        for place, cell in enumerate(nb.cells):
            cell["id"] = unique_id(cell.get("id"), seen, f"cell-{place}")
            seen.add(cell["id"])
        return super().preprocess(nb, resources)

    def preprocess_cell(self, cell: NotebookNode, resources: dict[str, Any], cell_index: int) -> Converted:
        cell.source = cut(cut(cell.source, "HIDDEN TESTS"), "MARK SCHEME")
        if cell.cell_type != "code":
            return cell, resources
        test = utils.is_grade(cell) and not utils.is_solution(cell)
        for output in cell.outputs:
            if output.output_type == "error":
                if test and output.ename not in ("TestFailed", "NotGraded"):
                    output.evalue = text("grading.test-failed")
                    output.traceback = [output.evalue]
                output.traceback = [self._clean(line) for line in output.traceback]
                output.evalue = self._clean(output.evalue)
            elif output.output_type == "stream":
                output.text = self._clean(output.text)
            else:
                output.data = self._clean(output.data)
        return cell, resources

    def _clean(self, content: Any) -> Any:
        """The same text, or plain data of texts, without our paths."""
        if isinstance(content, dict):
            return {kind: self._clean(part) for kind, part in content.items()}
        if isinstance(content, list):
            return [self._clean(part) for part in content]
        if isinstance(content, str):
            for path in self._paths:
                content = content.replace(path, "…")
        return content
