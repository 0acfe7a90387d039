"""A gradebook on a PostgreSQL server: made at once, waited for, its trouble told apart from a copy's own."""

from __future__ import annotations

import re
from typing import Any

from autograder.course import Course
from autograder.notebook.nbconfig import gradebook_url, tools_on_path

CONNECT_S = 15  # a server behind a firewall would be waited for minutes
TABLES = {"alembic_version", "assignment", "student"}
DRIVER = "A gradebook on PostgreSQL needs psycopg: pip install 'autograder[postgres]'."
# The exception's own line in a traceback, as SQLAlchemy words it: (psycopg.errors.DiskFull) could not …
_SAID = re.compile(
    r"^(?:sqlalchemy\.exc|nbgrader\.api)\.\w+: \(psycopg\.(?:errors\.)?(?P<kind>\w+)\) (?P<what>[^\n]*)",
    re.MULTILINE,
)
_NO_DRIVER = re.compile(r"^ModuleNotFoundError: .*\bpsycopg\b", re.MULTILINE)
_RIGHTS = {"InsufficientPrivilege", "ReadOnlySqlTransaction"}
_AWAY = {
    "OperationalError", "InterfaceError", "ConnectionTimeout", "ConnectionException", "ConnectionFailure",
    "SqlclientUnableToEstablishSqlconnection", "AdminShutdown", "CrashShutdown", "CannotConnectNow",
    "TooManyConnections", "InvalidPassword", "InvalidAuthorizationSpecification", "InvalidCatalogName",
    "IdleInTransactionSessionTimeout", "IdleSessionTimeout", "DatabaseDropped", "OutOfMemory",
}  # fmt: skip


def said(report: str, course: Course, waited_s: float) -> str | None:
    """In a sentence, why no copy can be recorded, if that is what this traceback tells; None: of one copy."""
    where = f"The gradebook {gradebook_url(course)}"
    if _NO_DRIVER.search(report):
        return DRIVER
    if (found := _SAID.search(report)) is None:
        return None
    kind, what = found["kind"], found["what"].strip().rstrip(".")
    if kind == "LockNotAvailable":
        return (
            f"{where} is in use: another program has kept a part of it locked for {waited_s:g} s. Close what "
            "writes to it (formgrader, an nbgrader command)."
        )
    if kind == "DiskFull":
        return f"{where}: the server's disk is full ({what}). Make room there."
    if kind in _RIGHTS:
        return f"{where} cannot be written ({what}): this user lacks rights there."
    if kind in ("UndefinedTable", "UndefinedColumn"):
        return f"{where} does not hold nbgrader's tables as they are now ({what}): `nbgrader db upgrade`."
    if kind in _AWAY:
        return f"{where} cannot be reached ({what})."
    return None


def ready(course: Course) -> str | None:
    """Make nbgrader's tables where there are none, in one transaction; what is in the way, in a sentence."""
    from sqlalchemy import create_engine, inspect
    from sqlalchemy import text as sql
    from sqlalchemy.pool import NullPool

    engine = create_engine(gradebook_url(course), poolclass=NullPool)
    with engine.begin() as connection:
        names = set(inspect(connection).get_table_names())
        if not names:
            from nbgrader.api import Base, get_alembic_version

            tools_on_path()
            Base.metadata.create_all(bind=connection)
            connection.execute(sql("CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL)"))
            version = {"version": get_alembic_version()}
            connection.execute(sql("INSERT INTO alembic_version (version_num) VALUES (:version)"), version)
            return None
    if names >= TABLES:
        return None
    return (
        f"The database {gradebook_url(course)} holds other tables ({', '.join(sorted(names)[:3])}…) and not "
        "all of nbgrader's: make an empty one for the gradebook, and name it in course.yaml."
    )


def connecting(dialect: Any, record: Any, arguments: Any, options: dict[str, Any]) -> None:
    """SQLAlchemy's event: an address that does not answer is not waited for for ever."""
    if dialect.name == "postgresql":
        options.setdefault("connect_timeout", CONNECT_S)


def wait(connection: Any, seconds: float) -> None:
    """Let a new connection wait so long for a lock: PostgreSQL's own patience has no end."""
    if type(connection).__module__.split(".")[0] in ("psycopg", "sqlalchemy"):
        with connection.cursor() as cursor:
            cursor.execute(f"SET lock_timeout = {int(seconds * 1000)}")
        connection.commit()
