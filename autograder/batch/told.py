"""What an export tells a student beside the mark: French, without paths of the grader's machine."""

from __future__ import annotations

from collections.abc import Iterator

from autograder.batch.book import Book, Entry
from autograder.files import private_paths
from autograder.launch.untrusted import printable
from autograder.messages import french_delay, number, text

_MOST = 2000  # characters of one message


def summary(book: Book, entry: Entry) -> Iterator[str]:
    """The mark and, where the copy was late, how it comes about."""
    mark = number(entry.mark or 0.0)
    yield text("export.feedback-mark", mark=mark, max=number(entry.top))
    if entry.penalty:
        yield text(
            "export.feedback-late", late=french_delay(entry.late_s), raw=number(entry.raw),
            penalty=number(entry.penalty), mark=mark,
        )  # fmt: skip


def of_cells(book: Book, entry: Entry) -> Iterator[tuple[str, float, float, str]]:
    """Each cell that gives points: its name, its points, their most, and what is said of it."""
    hidden = private_paths(book.course.root)
    tests = {test.id: test for test in entry.result.tests} if entry.result is not None else {}
    comments: dict[str, list[str]] = {}
    for cell, comment in entry.comments:
        comments.setdefault(cell, []).append(comment)
    for question in book.questions[entry.assignment]:
        points = entry.points.get(question.name) or 0.0
        said = list(comments.get(question.name, ()))
        if question.name in entry.unanswered and not said:
            said = [text("export.no-answer")]
        test = tests.get(question.name)
        if test is not None and points < question.points:
            said += [part for part in (test.message, test.advice) if part]
        yield question.name, points, question.points, without("\n".join(said), hidden)[:_MOST]


def without(content: str, paths: list[str]) -> str:
    """`content` with "…" for each of `paths`, and no character that JSON or CSV readers stumble over."""
    for path in paths:
        content = content.replace(path, "…")
    return printable(content, also="\n\t")
