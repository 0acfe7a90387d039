"""A class of any size that nothing was run for: a gradebook, results and lateness as a real one leaves them.

Drawn from a seed, so that two of one size are the same. What students chose (ids, names) is hostile here.
"""

from __future__ import annotations

import datetime as dt
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

from autograder import course as courses
from autograder.notebook.nbconfig import gradebook_url, tools_on_path, utc_naive
from autograder.notebook.result import CopyResult, TestResult, keep, result_path

HOSTILE = ("<script>alert(1)<∕script>", "=HYPERLINK(0)", "o'neil\"><img src=x onerror=x(1)>", "élodie.ńowak")
WRONG = ("missing-rank", "not-divided", "divided-twice", "hard-coded", "exception", "syntax", "timed-out")
CAUSE = "Le port 29531 était occupé <b>pendant</b> cette copie."
TESTS, WRITTEN = 5, 1


def make(
    course: courses.Course, students: int, *, assignments: int = 8, seed: int = 0, hostile: bool = False
) -> None:
    """Fill the gradebook and .autograder/results of `course`; nothing is put in submitted/."""
    from nbgrader import api
    from sqlalchemy import insert

    tools_on_path()
    drawn = random.Random(seed)
    ids = [f"prénom{n:03}.nom{drawn.randrange(1000):03}" for n in range(students)]
    if hostile:
        ids[: len(HOSTILE)] = HOSTILE
    tables = (api.Student, api.SubmittedAssignment, api.SubmittedNotebook, api.Grade)
    rows: dict[Any, list[dict[str, Any]]] = {table: [] for table in tables}
    rows[api.Student] = [
        {"id": ident, "first_name": f"Prénom {n}", "last_name": f"Nom {n % 50}", "email": f"e{n}@u.example"}
        for n, ident in enumerate(ids)
    ]
    with api.Gradebook(gradebook_url(course), course.course.id) as book:
        for one in course.assignments[:assignments]:
            cells = _assignment(book, one)
            assignment = book.find_assignment(one.id)
            notebook = book.find_notebook(one.id, one.id)
            for n, ident in enumerate(ids):
                if drawn.random() < 0.05:
                    continue
                _copy(api, rows, course, one, assignment.id, notebook.id, cells, ident, n, drawn)
        for table, filled in rows.items():
            if filled:
                book.db.execute(insert(table.__table__), filled)
        book.db.commit()


def _assignment(book: Any, one: courses.Assignment) -> list[tuple[str, str, float, bool]]:
    """Its cells: id, name, points, whether a person marks it."""
    book.add_assignment(one.id, duedate=utc_naive(one.due))
    book.add_notebook(one.id, one.id)
    points = one.points.auto / TESTS
    for n in range(TESTS):
        book.add_grade_cell(f"{one.id}-test-{n}", one.id, one.id, max_score=points, cell_type="code")
    if one.points.manual:
        name, worth = f"{one.id}-ecrit", float(one.points.manual)
        book.add_grade_cell(name, one.id, one.id, max_score=worth, cell_type="markdown")
        book.add_solution_cell(name, one.id, one.id)
    cells = book.find_notebook(one.id, one.id).grade_cells
    return [(cell.id, cell.name, cell.max_score, cell.cell_type == "markdown") for cell in cells]


def _copy(
    api: Any, rows: dict[Any, list[dict[str, Any]]], course: courses.Course, one: courses.Assignment,
    assignment: str, notebook: str, cells: list[tuple[str, str, float, bool]], student: str, n: int,
    drawn: random.Random,
) -> None:  # fmt: skip
    late = drawn.random() < 0.1
    moment = utc_naive(one.due) + (1 if late else -1) * dt.timedelta(minutes=drawn.randrange(20, 5000))
    ident = f"{one.id}-{n:05}"
    rows[api.SubmittedAssignment].append(
        {"id": ident, "assignment_id": assignment, "student_id": student, "timestamp": moment}
    )
    rows[api.SubmittedNotebook].append(
        {"id": ident, "assignment_id": ident, "notebook_id": notebook, "flagged": False}
    )
    graded, right = drawn.random() >= 0.03, drawn.random() < 0.5
    tests, wrong = [], None
    for number, (cell, name, worth, written) in enumerate(sorted(cells, key=lambda one: one[1])):
        auto: float | None = worth if right or drawn.random() < 0.6 else drawn.choice([0.0, worth / 2])
        manual = None
        if written:
            auto, manual = None, drawn.choice([None, 0.0, worth / 2, worth])
        elif not graded and number == 1:
            auto = None
        waiting = manual is None and auto is None
        rows[api.Grade].append(
            {"id": f"{ident}-{number}", "notebook_id": ident, "cell_id": cell, "auto_score": auto,
             "manual_score": manual, "extra_credit": None, "needs_manual_grade": waiting}
        )  # fmt: skip
        if written:
            continue
        status = "not_graded" if auto is None else "passed" if auto == worth else "failed"
        told = "" if status == "passed" else f"Le texte de {name} est absent."
        tests.append(TestResult(name, status, auto or 0.0, worth, told))
        if status == "failed" and wrong is None:
            wrong = {"id": drawn.choice(WRONG), "rank": 1, "line": 4, "message": told, "cls": "P"}
    flags = ("tampering",) if drawn.random() < 0.02 else ()
    result = CopyResult(
        one.id, student, graded, None if graded else CAUSE, sum(test.points for test in tests),
        sum(test.max_points for test in tests), tuple(tests), flags, diagnosis=wrong,
        suspicions=("ligne 3 : `os._exit` <i>dans</i> le script",) if flags else (),
        cells={tests[0].id: [{"output_type": "stream", "name": "stdout", "text": "moyenne 0 [3, 5]\n" * 40}]},
    )  # fmt: skip
    keep(replace(result, student=student), result_path(course.root, one.id, student))


def course_in(root: Path, late: str = "none") -> courses.Course:
    """The real course.yaml in a folder of its own, with this late policy."""
    yaml = (Path(__file__).resolve().parent.parent / "course.yaml").read_text(encoding="utf-8")
    assert "policy: none" in yaml
    root.mkdir(parents=True, exist_ok=True)
    (root / "course.yaml").write_text(yaml.replace("policy: none", f"policy: {late}"), encoding="utf-8")
    return courses.load(root)
