"""What course.yaml holds: one pydantic model per table, each key documented beside its definition."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import Annotated, Literal, cast
from zoneinfo import ZoneInfo

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PrivateAttr,
    ValidationInfo,
)
from pydantic_core import PydanticCustomError

from autograder.dates import DURATION_FORM, DateError, Duration, parse_duration, parse_moment, parse_zone

FILE_NAME = "course.yaml"
MAX_RANKS = 64  # of one launch: more is a mistyped number


@dataclass(frozen=True)
class Problem:
    """One thing wrong in course.yaml."""

    key: str
    value: object
    line: int | None
    what: str
    accepted: str


class CourseError(ValueError):
    """course.yaml is missing, wrong, or does not hold what was asked of it. The message says what to do."""

    def __init__(self, path: Path, problems: Iterable[Problem]) -> None:
        self.path = path
        self.problems = list(problems)
        first = self.problems[0]
        self.key, self.value, self.line, self.accepted = first.key, first.value, first.line, first.accepted
        super().__init__("\n".join(self._say(problem) for problem in self.problems))

    def _say(self, problem: Problem) -> str:
        where = f"{self.path}:{problem.line}" if problem.line else f"{self.path}"
        subject = problem.key if problem.value is None else f"{problem.key} = {_short(problem.value)}"
        head = f"{where}: {subject} {problem.what}" if subject else f"{where}: {problem.what}"
        return f"{head}\n    accepted: {problem.accepted}" if problem.accepted else head


class NoSuchAssignment(CourseError):
    """An assignment was asked for that course.yaml does not list: nothing is wrong with the file."""

    def _say(self, problem: Problem) -> str:
        listed = f"{self.path.name} lists: {problem.accepted}"
        return f"{_short(problem.value)} {problem.what}\n    {listed}"


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "…"


# ---------------------------------------------------------------------------------------- field types


@dataclass(frozen=True)
class Calendar:
    """What relative dates need; None where the value itself was wrong (that error is already told)."""

    zone: ZoneInfo | None
    start: datetime | None


def _custom(error: DateError) -> PydanticCustomError:
    return PydanticCustomError("date", "{what}", {"what": str(error), "accepted": error.accepted})


def _moment(value: object, info: ValidationInfo) -> datetime:
    calendar = cast(Calendar, info.context)
    if calendar.zone is None or calendar.start is None:
        raise PydanticCustomError("told_elsewhere", "depends on a value that is wrong")
    try:
        return parse_moment(value, calendar.zone, calendar.start)
    except DateError as error:
        raise _custom(error) from None


def _start(value: object, info: ValidationInfo) -> datetime:
    calendar = cast(Calendar, info.context)
    if calendar.zone is None:
        raise PydanticCustomError("told_elsewhere", "depends on a value that is wrong")
    try:
        return parse_moment(value, calendar.zone)
    except DateError as error:
        raise _custom(error) from None


def _length(value: object) -> Duration:
    try:
        duration = parse_duration(value)
    except DateError as error:
        raise _custom(error) from None
    if duration.total < timedelta(0):
        raise _custom(DateError("is negative", DURATION_FORM))
    return duration


def _zone_name(value: object) -> str:
    try:
        return parse_zone(value).key
    except DateError as error:
        raise _custom(error) from None


def _server(value: str) -> str:
    named = re.fullmatch(r"postgresql\+psycopg://(?:[^:@/\s]+@)?[^:@/\s]*(?::\d+)?/[^@\s]+", value)
    if named is None or "password=" in value:
        raise PydanticCustomError("db_url", "no database of a PostgreSQL server is named so")
    return value


Moment = Annotated[datetime, BeforeValidator(_moment)]
Length = Annotated[Duration, BeforeValidator(_length)]
Text = Annotated[str, Field(min_length=1, description="a text")]
FileName = Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]*$")]


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, arbitrary_types_allowed=True)


# ---------------------------------------------------------------------------------------- the file


class CourseInfo(_Model):
    """What the course is."""

    id: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]*$", description="letters, digits, - and _")
    title: Text
    language: Literal["fr"] = Field(description="fr, the only language of the catalogue of messages")
    timezone: Annotated[str, BeforeValidator(_zone_name)]
    hours: int = Field(gt=0, description="whole hours of a student's work, more than 0")
    prerequisites: list[Text] = Field(default=[], description="a list of texts")
    places_to_run: list[Text] = Field(default=[], description="a list of texts")


class Session(_Model):
    """The hands-on session, which every other date may be counted from."""

    title: Text
    teacher: Text
    start: Annotated[datetime, BeforeValidator(_start)]
    duration: Length
    organisation: Text
    campus: Text
    building: Text
    room: Text
    modes: list[Text] = Field(min_length=1, description="a list of texts")
    limited_places: bool = Field(default=False, description="true or false")

    @property
    def end(self) -> datetime:
        """When the session ends."""
        return self.start + self.duration.total


class LaunchSettings(_Model):
    """How one labo.py is launched, and where a launch is stopped."""

    nproc: int = Field(ge=1, le=MAX_RANKS, description=f"a whole number of ranks from 1 to {MAX_RANKS}")
    backend: Literal["gloo", "nccl"] = Field(description="gloo or nccl")
    time_limit_s: float = Field(gt=0, description="seconds for one launch, more than 0")
    copy_limit_s: float = Field(gt=0, description="seconds for all that one copy runs, more than 0")
    output_limit_kib: int = Field(gt=0, description="KiB per rank and stream, more than 0")


class Late(_Model):
    """What happens to a submission that comes after its due date and the grace."""

    policy: Literal["none", "zero", "daily"] = Field(description="none, zero or daily")
    per_day_percent: float = Field(default=0, ge=0, le=100, description="percent lost per day begun, 0–100")
    max_percent: float = Field(default=100, ge=0, le=100, description="percent lost at most, 0–100")
    grace: Length = Duration(0, 0)


class GradebookSettings(_Model):
    """Where nbgrader keeps the marks, where that is not gradebook.db beside course.yaml.

    Students get course.yaml: no password may stand in it. libpq finds one in ~/.pgpass or in PGPASSWORD.
    """

    db_url: Annotated[str, AfterValidator(_server)] | None = Field(
        default=None,
        description="postgresql+psycopg://user@host/database, without a password (put it in ~/.pgpass)",
    )


class Points(_Model):
    """An assignment's totals; its cells own the points, and release checks that they add up to these."""

    auto: int = Field(gt=0, description="a whole number of points more than 0")
    manual: int = Field(default=0, ge=0, description="a whole number of points, 0 or more")

    @property
    def total(self) -> int:
        """All the points of the assignment."""
        return self.auto + self.manual


class Assignment(_Model):
    """One assignment: a notebook source/<id>/<id>.ipynb and what goes with it."""

    id: str = Field(pattern=r"^[a-z0-9][a-z0-9-]*$", description="lower-case letters, digits and -")
    title: Text
    points: Points
    release: Moment
    due: Moment
    files: list[FileName] = Field(
        default=[], description="bare names of the files, besides the notebook, that a student may submit"
    )
    data: list[FileName] = Field(
        default=[],
        description="bare names of the files, besides the notebook, that source/<assignment>/ may hold; "
        "one that also stands in files is given to be changed",
    )
    group: int = Field(
        default=1, ge=1, le=8, description="how many students hand in one copy together, from 1 to 8"
    )
    numbers: Literal["same", "per-student"] = Field(
        default="same", description="same, or per-student: each student's numbers come from their id"
    )

    @property
    def notebook(self) -> str:
        """The notebook's file name."""
        return f"{self.id}.ipynb"


class Course(_Model):
    """The whole of course.yaml. `root` is the folder that holds it."""

    course: CourseInfo
    session: Session
    launch: LaunchSettings
    late: Late
    gradebook: GradebookSettings = GradebookSettings()
    assignments: list[Assignment] = Field(min_length=1, description="a list of at least one assignment")
    pages: list[FileName] = Field(
        default=[], description="bare names of the files of pages/, released beside the assignments"
    )
    _path: Path = PrivateAttr(default=Path(FILE_NAME))

    @property
    def path(self) -> Path:
        """The file this was read from."""
        return self._path

    @property
    def root(self) -> Path:
        """The course's folder."""
        return self._path.parent

    @cached_property
    def zone(self) -> ZoneInfo:
        """The course's time zone."""
        return parse_zone(self.course.timezone)

    def assignment(self, name: str) -> Assignment:
        """The assignment of that id, or NoSuchAssignment with the nearest one."""
        for assignment in self.assignments:
            if assignment.id == name:
                return assignment
        ids = [assignment.id for assignment in self.assignments]
        near = difflib.get_close_matches(name, ids, n=1, cutoff=0.4)
        what = "is no assignment of this course" + (f"; did you mean {near[0]}?" if near else "")
        raise NoSuchAssignment(self.path, [Problem("assignment", name, None, what, ", ".join(ids))])
