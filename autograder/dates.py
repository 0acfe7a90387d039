"""Dates and durations of course.yaml: ISO 8601, and nothing that has to be guessed.

A lenient reader is dangerous here: nbgrader's reads ``+0100`` as one hundred seconds, an unknown zone as UTC
and ``01/02/2031`` as the second of January, and each of these moves a deadline without a word.
"""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

LOCAL_FORM = "YYYY-MM-DDTHH:MM[:SS] (the course's time zone), the same with Z or an offset such as +01:00"
DURATION_FORM = "an ISO 8601 duration in weeks, days, hours, minutes and seconds: P14D, PT1H, P1DT12H"
MOMENT_FORM = f"{LOCAL_FORM}; or an ISO 8601 duration after session.start, or before it: P14D, PT1H, -P21D"

_MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d)?(?P<offset>Z|[+-]\d\d:\d\d)?", re.ASCII)
_DURATION = re.compile(
    r"(?P<sign>[+-]?)P(?!$)(?:(?P<weeks>\d+)W)?(?:(?P<days>\d+)D)?"
    r"(?:T(?!$)(?:(?P<hours>\d+)H)?(?:(?P<minutes>\d+)M)?(?:(?P<seconds>\d+)S)?)?",
    re.ASCII,
)
_MONTHS_OR_YEARS = re.compile(r"[+-]?P[^T]*\d+[YM]")


class DateError(ValueError):
    """A date, duration or zone that cannot be read: the message says why, `accepted` what can be."""

    def __init__(self, why: str, accepted: str) -> None:
        super().__init__(why)
        self.accepted = accepted


@dataclass(frozen=True)
class Duration:
    """Calendar days (in a time zone a day may have 23 or 25 hours) and then elapsed seconds."""

    days: int
    seconds: int

    def after(self, start: datetime, zone: ZoneInfo) -> datetime:
        """The moment this long after `start`: days keep the hour on the wall clock of `zone`."""
        # Through UTC twice: an hour that the clocks skip becomes a real one, and seconds are elapsed ones.
        wall = start.astimezone(zone).replace(tzinfo=None) + timedelta(days=self.days)
        moment = wall.replace(tzinfo=zone).astimezone(UTC) + timedelta(seconds=self.seconds)
        return moment.astimezone(zone)

    @property
    def total(self) -> timedelta:
        """The length with days of 24 hours, for a duration that is not counted from a date."""
        return timedelta(days=self.days, seconds=self.seconds)


def parse_zone(name: object) -> ZoneInfo:
    """The named IANA zone, or DateError with the nearest names."""
    accepted = "an IANA time zone name, such as Europe/Paris"
    if not isinstance(name, str):
        raise DateError("is not the name of a time zone", accepted)
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        known = available_timezones()
    if not known:
        raise DateError("cannot be looked up: this system has no time zones", "pip install tzdata")
    near = difflib.get_close_matches(name, sorted(known), n=3)
    hint = f"; did you mean {' or '.join(near)}?" if near else ""
    raise DateError("is an unknown time zone" + hint, accepted)


def parse_duration(text: object, accepted: str = DURATION_FORM) -> Duration:
    """An ISO 8601 duration. Months and years are refused: they have no length of their own."""
    found = _DURATION.fullmatch(text) if isinstance(text, str) else None
    if found is None:
        if isinstance(text, str) and _MONTHS_OR_YEARS.match(text):
            raise DateError("counts in months or years, whose length varies", accepted)
        raise DateError("is not an ISO 8601 duration", accepted)
    part = {name: int(value or 0) for name, value in found.groupdict().items() if name != "sign"}
    sign = -1 if found["sign"] == "-" else 1
    days = part["weeks"] * 7 + part["days"]
    seconds = part["hours"] * 3600 + part["minutes"] * 60 + part["seconds"]
    if days > 36600 or seconds > 36600 * 86400:
        raise DateError("is longer than a century", accepted)
    return Duration(sign * days, sign * seconds)


def parse_moment(text: object, zone: ZoneInfo, start: datetime | None = None) -> datetime:
    """The aware datetime, in `zone`, that `text` names.

    `text` is a date and time, on the wall clock of `zone` unless it gives an offset; or, where `start` is
    given, a duration counted from it.
    """
    accepted = LOCAL_FORM if start is None else MOMENT_FORM
    if not isinstance(text, str):
        raise DateError("is not a date and time", accepted)
    if start is not None and text[:2].lstrip("+-").startswith("P"):
        return parse_duration(text, accepted).after(start, zone)
    found = _MOMENT.fullmatch(text)
    if found is None:
        raise DateError("is not an ISO 8601 date and time" + _what_is_odd(text), accepted)
    try:
        moment = datetime.fromisoformat(text)
        return moment.astimezone(zone) if found["offset"] else _local(moment, zone, accepted)
    except (ValueError, OverflowError) as error:
        if isinstance(error, DateError):
            raise
        raise DateError(f"is not a date of the calendar ({error})", accepted) from None


def _local(moment: datetime, zone: ZoneInfo, accepted: str) -> datetime:
    """`moment` on the wall clock of `zone`; an hour that the clocks skip there, or repeat, is refused."""
    first = moment.replace(tzinfo=zone, fold=0)
    second = moment.replace(tzinfo=zone, fold=1)
    if first.astimezone(UTC).astimezone(zone).replace(tzinfo=None) != moment:
        raise DateError(f"does not exist in {zone.key}: the clocks skip that hour", accepted)
    if first.utcoffset() != second.utcoffset():
        raise DateError(
            f"exists twice in {zone.key}, where the clocks go back: give the offset, "
            f"{first.isoformat()} or {second.isoformat()}",
            accepted,
        )
    return first


def _what_is_odd(text: str) -> str:
    if "/" in text:
        return " (day and month cannot be told apart)"
    if re.fullmatch(r"\d{4}-\d\d-\d\d", text):
        return " (the hour is missing)"
    if re.search(r"[+-]\d{4}$", text) and ":" in text:
        return " (the offset needs a colon, and T stands between date and hour)"
    if re.match(r"\d{4}-\d\d-\d\d \d", text):
        return " (T stands between date and hour)"
    return ""
