"""What a student's feedback page says, gathered from their graded copy: the mark, what to do, each test.

Everything comes from the notebook that nbgrader converts and from its gradebook, so that `nbgrader
generate_feedback` makes the same page as `autograder grade`. The page itself: templates/student_feedback/.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nbformat import NotebookNode
from nbgrader import utils
from nbgrader.preprocessors import NbGraderPreprocessor

from autograder import course as courses
from autograder.launch.untrusted import readable
from autograder.messages import number, plural, text
from autograder.notebook.comments import NO_RESPONSE
from autograder.notebook.feedback import coursedir_of
from autograder.notebook.headings import Headings
from autograder.report import launches, timeline, timeline_svg
from autograder.report.run_view import clean
from autograder.verdict.shown import MIME

Converted = tuple[NotebookNode, dict[str, Any]]

MOST_STEPS = 6
MOST_REPORT = 12_000    # characters of one test's report
MOST_DRAWN = 12         # launches of one page
NOT_GRADED, FAILED, PARTIAL, PASSED = "not_graded", "failed", "partial", "passed"
_MARKS = {PASSED: "✔", PARTIAL: "◐", FAILED: "✘", NOT_GRADED: "?"}


@dataclass(frozen=True)
class Line:
    """One line of a report: `kind` is "finding", "advice" or "text"; `label` stands before it in bold."""

    kind: str
    label: str
    said: str


@dataclass(frozen=True)
class Test:
    """One test cell; `launches` are numbers of the page's launches."""

    __test__ = False

    id: str
    anchor: str
    title: str
    status: str
    score: float
    points: float
    lines: tuple[Line, ...]
    launches: tuple[int, ...]

    @property
    def mark(self) -> str:
        return _MARKS[self.status]

    @property
    def word(self) -> str:
        return text(f"feedback.{self.status}")

    @property
    def out_of(self) -> str:
        if self.status == NOT_GRADED:
            return f"– / {number(self.points)}"
        return f"{number(self.score)} / {number(self.points)}"


@dataclass(frozen=True)
class Answer:
    """A written answer, or one with a comment. `points` None: it has no mark of its own. `unread`: it stands
    in a notebook that was not read.
    """

    id: str
    anchor: str
    title: str
    score: float
    points: float | None
    pending: bool
    unread: bool
    unanswered: bool
    comment: str

    @property
    def word(self) -> str:
        if self.unanswered:
            return text("feedback.no-answer")
        if self.unread:
            return text("feedback.unread")
        return text("feedback.waiting" if self.pending else "feedback.read")

    @property
    def out_of(self) -> str:
        return "" if self.points is None else (
            f"{'–' if self.pending or self.unread else number(self.score)} / {number(self.points)}")


@dataclass(frozen=True)
class Step:
    said: str
    anchor: str = ""
    about: str = ""


@dataclass(frozen=True)
class Drawn:
    """A launch as the page shows it."""

    number: int
    launch: launches.Launch
    svg: str
    sentences: tuple[str, ...]


@dataclass(frozen=True)
class Page:
    course: str
    title: str
    assignment: str
    student: str
    score: str
    max_score: str
    penalty: str
    state: str          # "", "pending" (some answers are not read yet), "partly", "not_graded"
    pending: int
    tests: tuple[Test, ...] = ()
    answers: tuple[Answer, ...] = ()
    steps: tuple[Step, ...] = ()
    launches: tuple[Drawn, ...] = ()
    anchors: dict[str, str] = field(default_factory=dict)   # of a cell's grade id

    @property
    def comments(self) -> list[Answer]:
        return [answer for answer in self.answers if answer.comment]


class FeedbackData(NbGraderPreprocessor):
    """Put the page's data beside the notebook, once its marks are read and what is hidden is out of it."""

    def preprocess(self, nb: NotebookNode, resources: dict[str, Any]) -> Converted:
        info = resources["nbgrader"]
        info["page"] = gather(nb, info, courses.load(Path(coursedir_of(self).root)))
        info["headings"] = Headings()
        return nb, resources


def gather(nb: NotebookNode, info: dict[str, Any], course: courses.Course) -> Page:
    """The page of one copy. `info`: what nbgrader tells of it."""
    drawn: dict[str, Drawn] = {}
    tests: list[Test] = []
    answers: list[Answer] = []
    anchors: dict[str, str] = {}
    for cell in nb.cells:
        ident = cell.metadata.get("nbgrader", {}).get("grade_id")
        if ident is None:
            continue
        if cell.cell_type == "code" and utils.is_grade(cell) and not utils.is_solution(cell):
            anchors[ident] = f"fb-test-{len(tests) + 1}"
            tests.append(_test(cell, anchors[ident], drawn))
        elif utils.is_grade(cell) or utils.is_task(cell) or cell.metadata.nbgrader.get("comment"):
            anchors[ident] = f"fb-reponse-{len(answers) + 1}"
            answers.append(_answer(cell, anchors[ident]))
    pending = sum(answer.pending for answer in answers)
    without = [test for test in tests if test.status == NOT_GRADED]
    state = "pending" if pending else ""
    if without:
        state = "not_graded" if len(without) == len(tests) else "partly"
    one = next((one for one in course.assignments if one.id == info["assignment"]), None)
    score, most, penalty = (float(info.get(key) or 0) for key in ("score", "max_score", "late_penalty"))
    return Page(
        course=course.course.title, title=one.title if one is not None else info["assignment"],
        assignment=info["assignment"], student=clean(str(info["student"])),
        score=number(score, 2), max_score=number(most, 2),
        penalty=number(penalty, 2) if penalty > 0 else "", state=state, pending=pending,
        tests=tuple(tests), answers=tuple(answers), steps=tuple(_steps(tests, answers)),
        launches=tuple(drawn.values()), anchors=anchors,
    )  # fmt: skip


# -- tests -------------------------------------------------------------------------------------------------


def _test(cell: NotebookNode, anchor: str, drawn: dict[str, Drawn]) -> Test:
    meta = cell.metadata.nbgrader
    score, points = float(meta.get("score") or 0), float(meta.get("points") or 0)
    error = next((output for output in cell.outputs if output.output_type == "error"), None)
    status = PASSED if score >= points else PARTIAL if score > 0 else FAILED
    if error is not None and error.ename == "NotGraded" and not score:
        status = NOT_GRADED
    said = [output.text for output in cell.outputs if output.output_type == "stream"]
    said += ["\n".join(error.traceback)] if error is not None else []
    numbers = []
    for output in cell.outputs:
        for launch in launches.read(output.get("data", {}).get(MIME)):
            known = drawn.get(launch.id)
            if known is not None and known.launch.hidden and launch.whole and not launch.hidden:
                known = drawn[launch.id] = _drawn(launch, known.number)   # this test may show its output
            elif known is None and launch.whole and len(drawn) < MOST_DRAWN:
                known = drawn[launch.id] = _drawn(launch, len(drawn) + 1)
            numbers += [known.number] if known is not None else []
    return Test(
        meta.grade_id, anchor, _title(cell.source), status, score, points,
        tuple(_lines("\n".join(said)[:MOST_REPORT])), tuple(dict.fromkeys(numbers)),
    )  # fmt: skip


def _drawn(launch: launches.Launch, place: int) -> Drawn:
    if launch.timeline is None:
        return Drawn(place, launch, "", ())
    return Drawn(place, launch, timeline_svg.svg(launch.timeline), tuple(timeline.sentences(launch.timeline)))


def _title(source: str) -> str:
    """What the test's own first comment says of it."""
    first = source.lstrip().split("\n", 1)[0]
    return clean(first.lstrip("# ").strip())[:200] if first.startswith("#") else ""


@functools.cache
def _labels() -> tuple[tuple[str, str, str], ...]:
    """How the lines of a report begin: kind, the text before, and the label to show in its place."""
    found = []
    keys = (("finding", "finding"), ("launched", "command"), ("cause", "cause"), ("advice", "advice"),
            ("remark", "remark"))  # fmt: skip
    for key, name in keys:
        before = text(f"check.{key}", **{name: "\0"}).split("\0")[0]
        label = "" if key == "finding" else before.strip("` :\u00a0")
        found.append((key, before, label))
    return tuple(found)


def _lines(report: str) -> list[Line]:
    """The report of a test cell, without its first line where that is only its mark, which stands above."""
    lines = []
    for said in clean(report).split("\n"):
        said = said.strip()
        if not said or said[0] in "✔◐✘·":
            continue
        for kind, before, label in _labels():
            if said.startswith(before):
                rest = said.removeprefix(before)
                lines.append(Line(kind, label, f"`{rest}" if before.endswith("`") else rest))
                break
        else:
            lines.append(Line("text", "", said))
    return lines


def _steps(tests: list[Test], answers: list[Answer]) -> list[Step]:
    """What to do next, one line a test: the first thing to try, else what was found."""
    steps: dict[str, Step] = {}
    for test in tests:
        if test.status == PASSED:
            continue
        kinds = ("text", "finding") if test.status == NOT_GRADED else ("advice", "finding", "text")
        lines = [line for kind in kinds for line in test.lines if line.kind == kind]
        if lines and lines[0].said not in steps:
            steps[lines[0].said] = Step(lines[0].said, test.anchor, test.id)
    made = list(steps.values())
    if len(made) > MOST_STEPS:
        left = len(made) - MOST_STEPS + 1
        made = [*made[: MOST_STEPS - 1], Step(text("feedback.more-steps", count=left, s=plural(left)))]
    if empty := sum(answer.unanswered and answer.points is not None for answer in answers):
        made.append(Step(text("feedback.unanswered", count=empty, s=plural(empty))))
    if any(answer.comment for answer in answers):
        made.append(Step(text("feedback.read-comments"), "fb-commentaires"))
    if not made:
        pending = any(answer.pending for answer in answers)
        made = [Step(text("feedback.all-right-pending" if pending else "feedback.all-right"))]
    return made


def _answer(cell: NotebookNode, anchor: str) -> Answer:
    meta = cell.metadata.nbgrader
    graded = utils.is_grade(cell) or utils.is_task(cell)
    comment = meta.get("comment")
    no_answer = comment == NO_RESPONSE
    return Answer(
        meta.grade_id, anchor, meta.grade_id, float(meta.get("score") or 0),
        float(meta.get("points") or 0) if graded else None, bool(meta.get("pending")),
        bool(meta.get("unread")), no_answer,
        "" if no_answer else readable(str(comment or "")),
    )  # fmt: skip
