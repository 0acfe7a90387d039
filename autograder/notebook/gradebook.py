"""Bring nbgrader's gradebook up to what source/ and course.yaml say."""

from __future__ import annotations

from collections.abc import Iterable

from autograder.course import Course
from autograder.leftovers import scratch
from autograder.notebook.generate import generate
from autograder.notebook.nbconfig import gradebook_url, utc_naive


def sync_gradebook(course: Course, assignments: Iterable[str] | None = None) -> None:
    """Make the gradebook say what source/ and course.yaml say: cells, points and due dates.

    Submissions, marks and comments already there are kept. nbgrader refuses to add or remove cells of an
    assignment that has submissions: that is NbGraderException, and nothing else of it is changed.
    """
    from nbgrader.api import Gradebook

    chosen = [course.assignment(name) for name in assignments] if assignments else course.assignments
    for one in chosen:
        with scratch() as folder:
            generate(course, one.id, folder, db_url=gradebook_url(course))
        with Gradebook(gradebook_url(course), course.course.id) as gradebook:
            gradebook.update_or_create_assignment(one.id, duedate=utc_naive(one.due))
