"""nbgrader's exchange, seen from the grader: where students' copies arrive, and who really left each there.

A folder there is named "student+assignment+date+random" by the program that its sender ran, and several of
one student are several attempts: `collect` keeps the last one in place and the others aside, by their dates.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from autograder.batch.whose import EXCHANGED
from autograder.course import Course


class ExchangeError(ValueError):
    """The exchange cannot be read: the message says where it was looked for and what to do."""


def inbound(course: Course) -> Path:
    """The folder in which this course's copies arrive; ExchangeError where there is none to read."""
    from nbgrader.apps.baseapp import NbGrader
    from nbgrader.exchange import ExchangeFactory
    from nbgrader.exchange.default import ExchangeCollect

    app: Any = NbGrader()
    app.load_config_file()
    collector: Any = ExchangeFactory(config=app.config).collect
    if not issubclass(collector, ExchangeCollect):
        raise ExchangeError(
            f"This course's exchange is {collector.__module__}.{collector.__name__}, which only nbgrader "
            "reads: nbgrader collect ASSIGNMENT fills submitted/ too"
        )
    folder = Path(collector(config=app.config).root) / course.course.id / "inbound"
    try:
        os.listdir(folder)
    except OSError as error:
        raise ExchangeError(
            f"{folder}: {error.strerror}. Its first part is c.Exchange.root in nbgrader_config.py, the "
            f"second the course's id in {course.path}; copies come there once an assignment is released "
            "with nbgrader release_assignment"
        ) from None
    return folder


def impostors(source: Path) -> dict[str, str]:
    """The folders of an inbound folder that belong to another account than the student of their name, with
    what to say. A copy of the exchange that the grader, or root, has made says nothing of who left what.
    """
    if os.name != "posix" or not source.is_dir():
        return {}
    import pwd

    found = {}
    with os.scandir(source) as entries:
        for entry in entries:
            name = EXCHANGED.fullmatch(entry.name)
            uid = entry.stat(follow_symlinks=False).st_uid if name else 0
            if name is None or uid in (0, os.getuid()):
                continue
            try:
                owner = pwd.getpwuid(uid).pw_name
            except KeyError:
                owner = f"the account number {uid}"
            if owner != name["student"]:
                found[entry.name] = (
                    f"handed in as {name['student']!r} by {owner}: nothing of it was placed; find out whose "
                    "it is, then collect that folder alone, under a name of the form <assignment>-<student>"
                )
    return found
