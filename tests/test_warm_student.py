"""The student's loop: warm servers that start by themselves, are this user's alone, and end by themselves;
`autograder check --watch`. Few of these tests start a server; those that do share it where they can.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import queue
import shutil
import signal
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
import tiny_course

from autograder import launch as launches
from autograder.commands.watch import Files
from autograder.launch import box, command, engine, processes, store
from autograder.launch.warm import client, own, state
from autograder.leftovers import TOKEN
from autograder.notebook.apart import clean_environment

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="elsewhere every launch is a cold one")
PACKAGE = Path(own.autograder.__file__).parent
PATIENCE_S = 240.0   # for a server to be ready on a busy machine
LAUNCH = {"launch": command.base_environment()}


@pytest.fixture(autouse=True)
def runtime(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder for this test's sockets, which is empty afterwards."""
    folder = Path(request.getfixturevalue("tmp_path_factory").mktemp("run"))
    folder.chmod(0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(folder))
    monkeypatch.setattr(client, "why_not", lambda: None)   # whatever GPUs are here: none is used
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    yield folder
    for server in servers(folder):   # of a test that failed
        server.kill()


def until(found: Callable[[], Any], seconds: float = PATIENCE_S) -> Any:
    deadline = time.monotonic() + seconds
    while not (value := found()):
        assert time.monotonic() < deadline, "it never came"
        time.sleep(0.05)
    return value


def sockets(folder: Path) -> list[Path]:
    return [path for path in folder.glob("autograder/*") if stat.S_ISSOCK(path.lstat().st_mode)]


def servers(folder: Path) -> list[psutil.Process]:
    """The living ones whose files are in this folder."""
    found = []
    for path in folder.glob("autograder/*" + own.LOCK):
        with contextlib.suppress(OSError, ValueError, psutil.Error):
            found.append(psutil.Process(int(path.read_text())))
    return found


# -- whose, and for what -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name, value", [
    (client.VARIABLE, "0"), (TOKEN, "1.2.3.x"), ("NBGRADER_EXECUTION", "autograde"), (box.VARIABLE, "1"),
])
def test_what_grades_has_no_server_of_its_own(
    name: str, value: str, runtime: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert own.wanted()
    monkeypatch.setenv(name, value)
    assert not own.wanted()
    with own.using(LAUNCH) as found:
        assert found == client.COLD
    assert not list(runtime.iterdir())


def test_without_a_folder_of_this_user_alone_the_cold_path_serves(
    runtime: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(own.tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(own, "_start", lambda *_: pytest.fail("started in a strange folder"))

    def refused() -> bool:
        with own.using(LAUNCH) as found:
            assert found == client.COLD
        try:
            with own._place():
                return False
        except OSError:
            return True

    strange = runtime / "autograder"
    strange.mkdir(0o755)
    assert refused()   # others can enter it
    strange.chmod(0o770)
    assert refused()
    strange.rmdir()
    strange.symlink_to(tmp_path, target_is_directory=True)
    assert refused()   # somebody's link
    strange.unlink()
    runtime.chmod(0o777)   # not private: the temporary folder instead, where others can have been before
    strange = tmp_path / f"autograder-user-{os.getuid()}"
    strange.mkdir(0o755)
    assert refused()
    runtime.chmod(0o700)


@pytest.mark.skipif(os.name == "posix" and os.getuid() != 0, reason="only root can give a folder away")
def test_another_user_s_folder_is_not_followed(runtime: Path) -> None:
    strange = runtime / "autograder"
    strange.mkdir(0o700)
    os.chown(strange, 1, 1)
    with pytest.raises(PermissionError), own._place():
        pass


def test_a_strange_listener_is_not_spoken_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "socket"
    with client.socket.socket(client.socket.AF_UNIX) as listening:
        listening.bind(str(path))
        listening.listen()
        connection = client.connect({"CUDA_VISIBLE_DEVICES": ""}, str(path))
        assert connection is not None
        connection.close()
        uid = os.getuid()
        monkeypatch.setattr(client.os, "getuid", lambda: uid + 1)
        assert client.connect({"CUDA_VISIBLE_DEVICES": ""}, str(path)) is None


def test_a_server_is_known_by_all_that_a_start_depends_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def key(**more: str) -> str:
        return own._key("launch", command.base_environment({**os.environ, **more}))

    first = key()
    assert key() == key(MCI_X="1", EDITOR="vi") == first
    assert key(PYTHONPATH="/elsewhere") != first != key(MALLOC_ARENA_MAX="321")
    assert own._key("notebook", command.base_environment()) != first
    for module, name, value in (
        (own.sys, "executable", "/other/python"), (state, "of", lambda *_: [("changed", 1, 2, 3)]),
        (own.os, "getgroups", lambda: [12345]), (own.os, "sched_getaffinity", lambda _: {77}),
    ):  # fmt: skip
        with monkeypatch.context() as patch:
            patch.setattr(module, name, value)
            assert key() != first, name
    assert key() == first


def test_a_changed_package_is_seen(tmp_path: Path) -> None:
    (tmp_path / "site-packages").mkdir()
    (tmp_path / "a.py").write_text("1")
    path = [str(tmp_path / "site-packages"), "/absent"]
    before = state.of(str(tmp_path), path)
    assert state.of(str(tmp_path), path) == before
    (tmp_path / "site-packages" / "torch-9").mkdir()   # as pip does
    after = state.of(str(tmp_path), path)
    assert after != before
    (tmp_path / "a.py").write_text("12")
    assert state.of(str(tmp_path), path) != after


def test_when_a_server_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec: Any = importlib.util.spec_from_file_location("own_server", own.SERVER.with_name("_warm_own.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    package = tmp_path / "package"
    (package / "launch" / "warm").mkdir(parents=True)
    shutil.copy(state.__file__, package / "launch" / "warm" / "state.py")
    place = tmp_path / "place"
    place.mkdir()
    (place / "name").touch()
    folder, lock = os.open(place, os.O_RDONLY), os.open(place / "name.lock", os.O_RDWR | os.O_CREAT)
    now = [100.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(module.time, "sleep", lambda seconds: now.__setitem__(0, now[0] + seconds))

    def server() -> Any:
        one = module.Own(str(folder), str(lock), "name", "60", str(package), detached=False)
        one.last = one.looked = now[0]
        return one

    one = server()
    assert (place / "name.lock").read_text() == str(os.getpid())
    assert not one.over(False) and 0 < one.patience(False) <= module.LOOK_S
    now[0] += 59
    assert not one.over(True)   # a job runs
    now[0] += 59
    assert not one.over(False) and one.patience(False) <= 1
    now[0] += 2
    assert one.over(False)
    one = server()
    one._ask()
    assert one.over(True)
    one = server()
    (package / "more.py").write_text("changed")
    assert not one.over(False)   # not looked at each time
    now[0] += module.LOOK_S
    assert one.over(True)
    one = server()
    (place / "name").unlink()   # nobody can come any more
    now[0] += module.LOOK_S
    assert one.over(False)
    os.close(folder), os.close(lock)


# -- with servers --------------------------------------------------------------------------------------------

SCRIPT = """\
import os
here = open("here.txt").read()
print(here, os.environ.get("PERSO"), os.environ.get("MCI_X"), os.environ.get("RANK"), "WORD")
"""


@pytest.fixture
def ways(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """How each launch of this test was made."""
    noted: list[str] = []
    start = processes.start

    def spy(job: processes.Job) -> Any:
        started = start(job)
        noted.append(type(started).__name__)
        return started

    monkeypatch.setattr(engine.processes, "start", spy)
    return noted


@pytest.mark.launch
@pytest.mark.timeout(900)
def test_the_second_launch_of_a_notebook_is_warm(
    runtime: Path, tmp_path: Path, ways: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(own, "in_kernel", lambda: True)
    labo = tmp_path / "labo.py"

    (tmp_path / "here.txt").write_text("ici", encoding="utf-8")

    def run(word: str, **env: str) -> Any:
        store.forget()
        labo.write_text(SCRIPT.replace("WORD", word), encoding="utf-8")
        done = launches.launch(labo, nproc=2, env=env)
        assert done.exit_code == 0
        assert all(f"{log.rank} {word}" in log.stdout for log in done.ranks) and len(done.ranks) == 2
        return done

    run("un")
    assert ways == ["Supervised"]
    until(lambda: sockets(runtime))
    (server,) = servers(runtime)
    folder = (runtime / "autograder").lstat()
    assert folder.st_uid == os.getuid() and stat.S_IMODE(folder.st_mode) == 0o700
    assert stat.S_IMODE(sockets(runtime)[0].lstat().st_mode) == 0o600
    assert server.pid not in [child.pid for child in psutil.Process().children()]
    # What stands there now, and what we have and are given now.
    (tmp_path / "here.txt").write_text("là", encoding="utf-8")
    assert "là None None 0 deux" in run("deux").stdout
    monkeypatch.setenv("MCI_X", "x")   # which a launch does not inherit
    monkeypatch.setenv("PERSO", "p")
    assert "là p None 1 trois" in run("trois").stdout
    assert "là p donné 1 quatre" in run("quatre", MCI_X="donné").stdout
    assert ways[1:] == ["Forked"] * 3
    # Two at once.
    other = tmp_path / "autre"
    other.mkdir()
    (other / "here.txt").write_text("ailleurs", encoding="utf-8")
    (other / "labo.py").write_text(SCRIPT.replace("WORD", "autre"), encoding="utf-8")
    told: list[Any] = []
    thread = threading.Thread(target=lambda: told.append(launches.launch(other / "labo.py")))
    thread.start()
    run("cinq")
    thread.join()
    assert told[0].exit_code == 0 and "ailleurs p None 1 autre" in told[0].stdout
    assert ways[4:] == ["Forked"] * 2
    # What Python reads at its start is another server's matter; meanwhile the cold path serves.
    with monkeypatch.context() as patch:
        patch.setattr(own, "_start", lambda *_: None)
        (tmp_path / "lib").mkdir()
        (tmp_path / "lib" / "mine.py").write_text("print('mine')", encoding="utf-8")
        patch.setenv("PYTHONPATH", str(tmp_path / "lib"))
        labo.write_text("import mine", encoding="utf-8")
        assert launches.launch(labo).stdout == "mine\n" * 2
    assert ways[6:] == ["Supervised"]
    # It is killed: nothing is to be seen of it.
    server.kill()
    server.wait(60)
    assert sockets(runtime)   # which leads nowhere
    (lock,) = runtime.glob("autograder/*" + own.LOCK)
    os.utime(lock, (time.time() + 3600,) * 2)   # started a moment ago: not again so soon
    run("six")
    assert ways[7:] == ["Supervised"] and not servers(runtime)
    os.utime(lock, (1, 1))
    monkeypatch.setenv(own.IDLE_VARIABLE, "0.5")
    run("sept")
    assert ways[8:] == ["Supervised"] and len(servers(runtime)) == 1
    # With nothing to do it ends, and leaves nothing.
    until(lambda: not (runtime / "autograder").exists())
    assert not list(runtime.iterdir())


@pytest.mark.launch
@pytest.mark.timeout(900)
def test_two_starts_make_one_server(runtime: Path) -> None:
    for _ in range(3):
        with own.using(LAUNCH):
            pass
    assert len(list(runtime.glob("autograder/*" + own.LOCK))) == 1
    (server,) = until(lambda: servers(runtime))
    assert not sockets(runtime)   # while it loads, nobody waits for it
    server.kill()
    until(lambda: not psutil.pid_exists(server.pid))
    with own._place() as place:
        own._clear(place)
    assert not (runtime / "autograder").exists()


class Watching:
    """`autograder check --watch` in a process, and what it prints."""

    def __init__(self, root: Path, *arguments: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "autograder.cli", "check", *arguments, "--watch"], cwd=root,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, encoding="utf-8",
            start_new_session=True)   # fmt: skip
        self.lines: queue.Queue[str] = queue.Queue()
        self.said = ""
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.put(line.replace("\u00a0", " "))
        self.lines.put("")

    def wait_for(self, *texts: str) -> str:
        """What is printed up to the line that has one of these."""
        read = ""
        deadline = time.monotonic() + PATIENCE_S
        while not any(text in read for text in texts):
            line = self.lines.get(timeout=max(0.1, deadline - time.monotonic()))
            assert line, f"it ended: {self.said}"
            read, self.said = read + line, self.said + line
        return read


def write_copy(folder: Path, **answers: str) -> str:
    """A student's notebook, and what it holds."""
    text = json.dumps(tiny_course.copy_notebook(**answers))
    (folder / "mini.ipynb").write_text(text, encoding="utf-8")
    return text


@pytest.mark.launch
@pytest.mark.timeout(900)
def test_watch(runtime: Path, tmp_path: Path) -> None:
    root = tmp_path / "cours"
    tiny_course.make_course(root)
    folder = root / "mini"
    folder.mkdir()
    write_copy(folder, answer="moyenne = 2.0\nunite = 'ms'")
    watching = Watching(root, "mini")
    try:
        first = watching.wait_for(" s)")
        assert "Ctrl-C pour arrêter" in first and "mini : 4 / 6" in first
        until(lambda: {path.suffix for path in sockets(runtime)} == {".launch", ".notebook"})
        started = servers(runtime)
        whole = write_copy(folder)
        assert "6 / 6" in watching.wait_for(" s)")
        assert "mini.ipynb" in watching.said
        # Half of it is written, then the rest: one verdict.
        (folder / "mini.ipynb").write_text(whole[: len(whole) // 2], encoding="utf-8")
        time.sleep(0.3)
        (folder / "mini.ipynb").write_text(whole.replace("print(42)", "print(41)"), encoding="utf-8")
        assert "4 / 6" in watching.wait_for(" s)")
        # An editor that replaces the file; one that removes it first.
        (folder / "new~").write_text(whole, encoding="utf-8")
        os.replace(folder / "new~", folder / "mini.ipynb")
        assert "6 / 6" in watching.wait_for(" s)")
        shutil.rmtree(folder)
        watching.wait_for("j'attends")
        folder.mkdir()
        write_copy(folder, labo="print(40)")
        assert "4 / 6" in watching.wait_for(" s)")
        # A cell that hangs: the next save does not wait for its time limit.
        write_copy(folder, answer="import time\ntime.sleep(600)")
        watching.wait_for("mini.ipynb")
        time.sleep(1)
        write_copy(folder)
        assert "6 / 6" in watching.wait_for(" s)")
        assert servers(runtime) == started
        watching.process.send_signal(signal.SIGINT)
        watching.wait_for("Arrêté")
        assert watching.process.wait(60) == 0
        assert not any(process.is_running() for process in started)
        assert not list(runtime.iterdir())
    finally:
        if watching.process.poll() is None:
            watching.process.send_signal(signal.SIGINT)
            watching.process.wait(60)


def test_what_is_watched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)   # where no course is found
    folder = tmp_path / "ex"
    folder.mkdir()
    for name in ("ex.ipynb", "labo.py", "notes", ".labo.py.swp", "labo.py~", "4913", ".#labo.py"):
        (folder / name).write_text(name, encoding="utf-8")
    names = {Path(name).name for name in Files("ex", folder, ["groupe"]).seen()}
    assert names == {"ex.ipynb", "labo.py"}
    assert [Path(name).name for name in Files("ex", folder / "labo.py", []).seen()] == ["labo.py"]
    assert len(Files("ex", folder / "ex.ipynb", []).seen()) == 2
    assert not Files("ex", folder / "absent.py", []).there()


def test_a_check_and_a_notebook_share_the_server_of_launches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nothing is set that only a notebook's own launches see; of what has no part in how Python
    starts, a shell may export what it likes.
    """
    for name in own.start_environment("launch", dict(os.environ)).keys() - clean_environment().keys():
        monkeypatch.delenv(name)
    for name in ("PYTHON", "MAKEFLAGS", "PS1"):
        monkeypatch.setenv(name, "python3")
    clean, whole = command.base_environment(clean_environment()), command.base_environment()
    assert own.start_environment("launch", clean) == own.start_environment("launch", whole)
    monkeypatch.setenv("PYTHONHASHSEED", "1")
    whole = command.base_environment()
    assert own.start_environment("launch", clean) != own.start_environment("launch", whole)
    assert own.start_environment("notebook", clean_environment())["HOME"] == os.devnull
