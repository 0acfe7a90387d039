"""One class of hostile copies, graded by the real `autograder grade`: what it said and left, and what was
there before. The courses and the attacks are in hostile_course.py.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import hostile_course
import psutil
import pytest
from hostile_course import HONEST, Attack

from autograder.launch import box

WHOLE_S = 1500   # far more than either class takes: what hangs must not hang the tests too
PRECIOUS = (
    ".netrc", ".ssh/id_ed25519", ".config/token", ".bash_history", ".jupyter/jupyter_server_config.json",
)  # fmt: skip


def runs_here(attack: Attack) -> bool:
    """Without a box only those that do no harm are tried, on the machine itself."""
    return attack.harmless or box.why_not() is None


def skip_without_box(attack: Attack) -> None:
    if not runs_here(attack):
        pytest.skip(f"only tried in a box: {box.why_not()}")


@dataclass
class Class:
    """One class, graded: what `autograder grade` said and left, and what was there before."""

    base: Path
    words: dict[str, str]
    secrets: dict[str, str]
    before: dict[str, str]
    students: set[str]
    code: int = -1
    output: str = ""
    duration_s: float = 0.0
    results: dict[str, dict[str, Any]] = field(default_factory=dict)
    grades: dict[str, dict[str, float | None]] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    reached: list[str] = field(default_factory=list)
    victim: str = ""
    left: list[str] = field(default_factory=list)

    @property
    def root(self) -> Path:
        return self.base / "cours"


def handed_in(assignment: str, request: pytest.FixtureRequest) -> list[Attack]:
    """The attacks that are tried: those that `pytest -k` selects, if it names any."""
    selected = [item.callspec.params for item in request.session.items if hasattr(item, "callspec")]
    named = [params["attack"] for params in selected if "attack" in params]
    whole = [attack for attack in hostile_course.attacks(assignment) if runs_here(attack)]
    return [attack for attack in whole if attack in named] or whole


def graded(assignment: str, request: pytest.FixtureRequest) -> Iterator[Class]:
    token = secrets.token_hex(8)
    # Not in /tmp, which a box replaces anyway: a grader's course lies elsewhere.
    place = "/var/tmp" if os.access("/var/tmp", os.W_OK) else None
    base = Path(tempfile.mkdtemp(prefix=f"classe-{token}-", dir=place))
    base.chmod(0o755)   # nothing but the box keeps an attacker's user out
    sleep = "import time; time.sleep(3600)"
    victim = subprocess.Popen([sys.executable, "-S", "-c", sleep, f"victime-{token}"])
    try:
        with listening(token) as (port, reached):
            one = prepare(assignment, base, token, victim.pid, port, handed_in(assignment, request))
            one.reached = reached
            grade(one, assignment)
            one.victim = psutil.Process(victim.pid).status()
            one.left = [about for about in processes(token) if f"victime-{token}" not in about]
        yield one
    finally:
        victim.kill()
        victim.wait()
        shutil.rmtree(base, ignore_errors=True)


def prepare(
    assignment: str, base: Path, token: str, victim: int, port: int, attacks: list[Attack]
) -> Class:
    hidden = {
        name: f"SECRET-{name}-{secrets.token_hex(8)}"
        for name in ("source", "gradebook", "copy", "home", "environment")
    }
    hidden["key"] = "KEY-" + secrets.token_hex(14)   # 32 bytes, as a key has
    home, outside = base / "maison", base / "dehors"
    words = {
        "ROOT": str(base / "cours"), "HOME": str(home), "OUTSIDE": str(outside), "TOKEN": token,
        "PORT": str(port), "SOCKET": f"grader-{token}", "PARENT": str(victim),
    }  # fmt: skip
    for name in PRECIOUS:
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(hidden["home"] + "\n", encoding="utf-8")
    outside.mkdir()
    outside.chmod(0o777)
    (outside / "précieux.txt").write_text("à garder\n", encoding="utf-8")
    (base / "tmp").mkdir()
    hostile_course.make_course(base / "cours", assignment, hidden)
    for attack in attacks:
        hostile_course.hand_in_attack(base / "cours", attack, words)
    return Class(base, words, hidden, state(base), {*HONEST, *(attack.student for attack in attacks)})


def grade(one: Class, assignment: str) -> None:
    """As a grader does, in a shell of theirs with their own secrets in its environment."""
    env = {
        "PATH": os.environ.get("PATH", os.defpath), "HOME": one.words["HOME"], "LANG": "C.UTF-8",
        "TMPDIR": str(one.base / "tmp"), "CLOUD_TOKEN": one.secrets["environment"],
        "HOSTILE_RUN": one.words["TOKEN"],
    }  # fmt: skip
    option = [] if box.why_not() is None else ["--no-sandbox"]
    started = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "autograder.cli", "grade", assignment, *option], cwd=one.root, env=env,
        stdin=subprocess.DEVNULL, capture_output=True, timeout=WHOLE_S,
    )
    one.duration_s = time.monotonic() - started
    one.code = done.returncode
    one.output = (done.stdout + done.stderr).decode("utf-8", "replace")
    one.results = hostile_course.results(one.root, assignment)
    from nbgrader.api import Gradebook

    with Gradebook(f"sqlite:///{one.root / 'gradebook.db'}", "cours-attaque") as gradebook:
        one.names = {student.id: student.first_name for student in gradebook.students}
        for submission in gradebook.assignment_submissions(assignment):
            one.grades[submission.student.id] = {
                grade.name: None if grade.needs_manual_grade and grade.auto_score is None else grade.score
                for notebook in submission.notebooks for grade in notebook.grades
            }


@contextlib.contextmanager
def listening(token: str) -> Iterator[tuple[int, list[str]]]:
    """Two servers on the grader's machine, which nobody may reach: its TCP port, and who came."""
    reached: list[str] = []
    servers = [socket.create_server(("127.0.0.1", 0))]
    if sys.platform.startswith("linux"):
        servers.append(socket.socket(socket.AF_UNIX))
        servers[1].bind(f"\0grader-{token}")
        servers[1].listen()

    def serve(server: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                server.accept()[0].close()
                reached.append(str(server.getsockname()))

    for server in servers:
        threading.Thread(target=serve, args=(server,), daemon=True).start()
    try:
        yield int(servers[0].getsockname()[1]), reached
    finally:
        for server in servers:
            with contextlib.suppress(OSError):
                server.shutdown(socket.SHUT_RDWR)
            server.close()


def state(base: Path) -> dict[str, str]:
    """What no copy may change: every file beside and in the course that stood there before."""
    found = {}
    for path in sorted(base.rglob("*")):
        name = str(path.relative_to(base))
        if name.startswith("tmp") or path.name == "gradebook.db":
            continue
        if path.is_symlink():
            found[name] = f"-> {os.readlink(path)}"
        elif path.is_file():
            found[name] = hashlib.sha256(path.read_bytes()).hexdigest()
    return found


def processes(token: str) -> list[str]:
    """The processes of this run that are left, by their command, environment or folder."""
    found = []
    for process in psutil.process_iter():
        about = [str(process.pid)]
        for ask in (process.cmdline, process.cwd, process.environ):
            with contextlib.suppress(psutil.Error, OSError):
                about.append(str(ask()))
        if token in " ".join(about) and process.pid != os.getpid():
            found.append(" ".join(about)[:300])
    return found
