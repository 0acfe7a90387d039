"""A PostgreSQL server for some tests: in a temporary folder, on a port that was free a moment before.

It is our child, runs as the postgres user where we are root (which it refuses), and is ended by its pid.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

USER = "postgres"  # Debian's package makes it
GRADER = "grader"
READY_S = 60.0
TRIES = 3  # the port may be taken between our look and the server's


def _programs() -> Path | None:
    """The folder of initdb and postgres: the newest of Debian's, or the one that PATH has."""
    found = sorted(
        Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=lambda path: int(path.parts[-3].split(".")[0])
    )
    on_path = shutil.which("postgres")
    return found[-1].parent if found else Path(on_path).resolve().parent if on_path else None


def why_not() -> str | None:
    """Why no server can be started here."""
    if os.name != "posix" or _programs() is None:
        return "PostgreSQL is not installed here (Debian, Ubuntu: apt-get install postgresql)"
    if os.getuid() == 0:
        import pwd

        try:
            pwd.getpwnam(USER)
        except KeyError:
            return f"PostgreSQL refuses to run as root, and there is no user {USER}"
    return None


class Server:
    """Started by `with`; `url(name)` is a new, empty database of it."""

    def __enter__(self) -> Server:
        programs = _programs()
        assert programs is not None
        self.programs = programs
        self.folder = Path(tempfile.mkdtemp(prefix="postgres-"))
        if os.getuid() == 0:
            shutil.chown(self.folder, USER)
        self.process: subprocess.Popen[bytes] | None = None
        try:
            self._run(
                "initdb", "-D", str(self.folder / "data"), "-U", GRADER, "-A", "trust", "-E", "UTF8",
                "--no-locale", "--no-sync",
            )  # fmt: skip
            for _ in range(TRIES):
                if self.start():
                    return self
            raise RuntimeError((self.folder / "log").read_text(errors="replace")[-3000:])
        except BaseException:
            self.__exit__()
            raise

    def __exit__(self, *_: object) -> None:
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _as_postgres(self) -> dict[str, object]:
        return {"user": USER, "group": USER, "extra_groups": []} if os.getuid() == 0 else {}

    def _run(self, program: str, *arguments: str) -> None:
        done = subprocess.run(
            [str(self.programs / program), *arguments], cwd=self.folder, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, errors="replace", env={"PATH": os.defpath, "LC_ALL": "C"},
            **self._as_postgres(),
        )  # fmt: skip
        assert done.returncode == 0, done.stderr

    def start(self) -> bool:
        """Start it on a free port, or on the one it had; whether it is there."""
        if not hasattr(self, "port"):
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", 0))
                self.port = probe.getsockname()[1]
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [
                    str(self.programs / "postgres"), "-D", str(self.folder / "data"), "-h", "127.0.0.1",
                    "-p", str(self.port), "-k", str(self.folder), "-c", "fsync=off",
                ],
                cwd=self.folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                env={"PATH": os.defpath, "LC_ALL": "C"}, **self._as_postgres(),
            )  # fmt: skip
        limit = time.monotonic() + READY_S
        while time.monotonic() < limit and self.process.poll() is None:
            with contextlib.suppress(Exception):
                self.query("SELECT 1")
                return True
            time.sleep(0.1)
        self.stop()
        del self.port
        return False

    def stop(self) -> None:
        """Its fast shutdown: connections are ended, then the server."""
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            try:
                self.process.wait(30)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()

    def query(self, *statements: str, database: str = "postgres") -> None:
        import psycopg

        where = f"host=127.0.0.1 port={self.port} user={GRADER} dbname={database} connect_timeout=5"
        with psycopg.connect(where, autocommit=True) as connection:
            for statement in statements:
                connection.execute(statement)

    def url(self, name: str) -> str:
        self.query(f"CREATE DATABASE {name}")
        return f"postgresql+psycopg://{GRADER}@127.0.0.1:{self.port}/{name}"
