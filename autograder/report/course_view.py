"""The course's facts and dates in French, from course.yaml: no other file needs to hold a date."""

from __future__ import annotations

from autograder.course import Course
from autograder.messages import french_moment, french_span, text


def view(course: Course) -> str:
    """Title, session, prerequisites, and what is due when."""
    session = course.session
    lines = [
        course.course.title,
        "",
        text(
            "course.session", title=session.title, teacher=session.teacher, organisation=session.organisation
        ),
        text("course.when", when=french_span(session.start, session.end), timezone=course.course.timezone),
        text(
            "course.where",
            campus=session.campus,
            building=session.building,
            room=session.room,
            modes=", ".join(session.modes),
        ),
    ]
    if session.limited_places:
        lines.append(text("course.limited"))
    lines.append(text("course.hours", hours=course.course.hours))
    if course.course.prerequisites:
        lines.append(text("course.prerequisites", items="\u00a0; ".join(course.course.prerequisites)))
    if course.course.places_to_run:
        lines.append(text("course.places", items=", ".join(course.course.places_to_run)))
    lines.append("")
    lines += [
        text("course.due", id=one.id, due=french_moment(one.due), points=one.points.total)
        for one in course.assignments
    ]
    return "\n".join(lines)
