"""`autograder check --watch`: check again whenever a file is saved, as fast as this machine can."""

from __future__ import annotations

import contextlib
import json
import os
import stat
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from autograder.commands import OK
from autograder.commands.student import check_json, check_text
from autograder.course import CourseError, find_root
from autograder.launch.warm import client, own
from autograder.messages import number, text
from autograder.notebook import apart
from autograder.notebook.cells import CopyError
from autograder.notebook.check import check, own_servers
from autograder.notebook.result import CopyResult

POLL_S = 0.05
UNREADABLE_S = 1.0   # what a file that is being written gets before it is said to be unreadable
# What a check reads of a folder; an editor's own files have other names.
READ = (".py", ".ipynb", ".txt", ".json", ".csv", ".yaml", ".md")

Seen = dict[str, tuple[int, int, int, int]]


class Files:
    """The files whose change asks for a check: one, or those of a folder; and the course's own."""

    def __init__(self, assignment: str, path: Path, declared: Iterable[str]) -> None:
        self.path, self.declared = path.absolute(), set(declared)
        root = find_root(self.path) or find_root()
        self.others = [] if root is None else [
            root / "course.yaml", *(root / part / assignment / f"{assignment}.ipynb"
                                    for part in ("source", "release"))]

    def seen(self) -> Seen:
        """Each, with what tells one content from the next."""
        found: Seen = {}
        for path in dict.fromkeys(self._paths()):
            with contextlib.suppress(OSError):
                status = path.stat()
                if stat.S_ISREG(status.st_mode):
                    found[str(path)] = (status.st_ino, status.st_mtime_ns, status.st_ctime_ns, status.st_size)
        return found

    def _paths(self) -> Iterator[Path]:
        yield from self.others
        if self.path.suffix == ".py":   # checked alone
            yield self.path
            return
        folder = self.path
        if folder.suffix == ".ipynb":
            yield folder
            folder = folder.parent
        with contextlib.suppress(OSError):
            for name in os.listdir(folder):
                if name in self.declared or (name.endswith(READ) and not name.startswith((".", "#"))):
                    yield folder / name

    def there(self) -> bool:
        return self.path.exists()


class Checking:
    """One check, in a thread of its own, so that a newer save can put an end to it."""

    def __init__(self, work: Callable[[], CopyResult]) -> None:
        self.started = time.monotonic()
        self.result: CopyResult | None = None
        self.error: BaseException | None = None
        self.thread = threading.Thread(target=self._work, args=(work,), name="check")
        self.thread.start()

    def _work(self, work: Callable[[], CopyResult]) -> None:
        try:
            self.result = work()
        except BaseException as error:
            self.error = error

    def ended(self, seconds: float) -> bool:
        self.thread.join(seconds)
        return not self.thread.is_alive()

    def stop(self) -> None:
        """End all that it started, in order."""
        apart.STOP.set()
        try:
            self.thread.join()
        finally:
            apart.STOP.clear()


class Watch:
    def __init__(
        self, assignment: str, path: Path, declared: Iterable[str], as_json: bool, kept: own.Kept | None
    ) -> None:  # fmt: skip
        self.assignment, self.path, self.as_json, self.kept = assignment, path, as_json, kept
        self.files = Files(assignment, path, declared)

    def run(self) -> None:
        """For ever: until KeyboardInterrupt."""
        if not self.as_json:
            self.say(text("watch.start", assignment=self.assignment, path=self.path))
        before: Seen = {}
        while True:
            now = self.settled()
            if not self.files.there():
                self.say(self.head("watch.gone", name=self.path.name))
                while not self.files.there():
                    time.sleep(POLL_S)
                continue
            checked = self.check(before, now)
            if checked:
                before = now
                while self.files.seen() == now:
                    time.sleep(POLL_S)

    def settled(self) -> Seen:
        """The files as they are, once they stay so for a moment: a save may take several steps."""
        now = self.files.seen()
        while True:
            time.sleep(POLL_S)
            then, now = now, self.files.seen()
            if then == now:
                return now

    def check(self, before: Seen, now: Seen) -> bool:
        """Check what is there and tell; False where it changed meanwhile, and has to be checked again."""
        names = sorted({Path(name).name for name in {*before, *now} if before.get(name) != now.get(name)})
        if not self.as_json and before:
            self.say(self.head("watch.changed", names=", ".join(names)))
        until = time.monotonic() + (UNREADABLE_S if before else 0.0)
        while True:
            checking = Checking(self.once)
            try:
                while not checking.ended(POLL_S):
                    if self.files.seen() != now:
                        return False
            finally:
                checking.stop()
            if checking.result is not None:
                self.tell(checking.result, time.monotonic() - checking.started)
                return True
            if not isinstance(checking.error, CopyError | CourseError | OSError):
                raise checking.error or RuntimeError("a check ended without a result")
            if self.files.seen() != now:
                return False
            if time.monotonic() > until:
                if not before:
                    raise checking.error
                self.say(str(checking.error))
                return True
            time.sleep(POLL_S)

    def once(self) -> CopyResult:
        with own_servers(self.kept):
            return check(self.assignment, self.path)

    def tell(self, result: CopyResult, seconds: float) -> None:
        if self.as_json:
            self.say(json.dumps(check_json(result), ensure_ascii=False))
        else:
            took = text("watch.took", seconds=number(seconds, 1))
            self.say(f"{check_text(result, self.path)} {took}\n")

    def head(self, key: str, **values: str) -> str:
        return text(key, time=time.strftime("%H:%M:%S"), **values)

    def say(self, said: str) -> None:
        print(said, flush=True, file=sys.stderr if self.as_json and not said.startswith("{") else sys.stdout)


def watch(assignment: str, path: Path, declared: Iterable[str], *, as_json: bool) -> int:
    """Until Ctrl-C. CopyError or CourseError where there is nothing to check at first."""
    kept = own.Kept() if client.why_not() is None else None
    try:
        Watch(assignment, path, declared, as_json, kept).run()
    except KeyboardInterrupt:
        if not as_json:
            print("\n" + text("watch.stopped"))
    finally:
        if kept is not None:
            kept.close()
    return OK
