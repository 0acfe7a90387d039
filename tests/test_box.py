"""The sandbox: what a student's code sees and can use in it, what comes back, and how it ends.

Scripts run without torchrun where that is enough: such a launch takes half a second.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest
from nbformat.v4 import new_code_cell, new_notebook

from autograder.launch import Request, Run, box, command, processes, run_request, syscalls, view
from autograder.notebook.student import StudentRun, run_student

needs_box = pytest.mark.skipif(box.why_not() is not None, reason=str(box.why_not()))
launched = pytest.mark.launch


@pytest.fixture(autouse=True)
def _boxed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(box.VARIABLE, "1")


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "élève n°1 (copie)"
    folder.mkdir()
    return folder


def plain(folder: Path, source: str, **settings: Any) -> Run:
    """Run a script in a box, without torchrun."""
    (folder / "labo.py").write_text(textwrap.dedent(source), encoding="utf-8")
    return run_request(Request(launcher=False, **settings), folder)


def alive(word: str) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter():
        try:
            if word in " ".join(process.cmdline()) and process.pid != os.getpid():
                found.append(process)
        except psutil.Error:
            continue
    return [process for process in found if process.status() != psutil.STATUS_ZOMBIE]


def gone(word: str, seconds: float = 20) -> bool:
    deadline = time.monotonic() + seconds
    while alive(word) and time.monotonic() < deadline:
        time.sleep(0.05)
    return not alive(word)


# -- what can be seen and reached ----------------------------------------------------------------------------

LOOK = """\
    import ctypes, json, os, socket, sys
    seen = {}
    def tries(name, call):
        try:
            seen[name] = call() or "done"
        except Exception as error:
            seen[name] = type(error).__name__
    for path in @PATHS@:
        tries(path, lambda: os.listdir(path) if os.path.isdir(path) else open(path, "rb").read(100).decode())
    for path in ("/x", "/etc/x", "/usr/x", "/dev/x", os.path.join(sys.prefix, "lib", "x")):
        tries("write " + path, lambda: open(path, "w").close())
    for path in ("/proc/1/environ", "/proc/1/mem", "/proc/1/fd/1", "/proc/1/root"):
        tries(path, lambda: os.listdir(path) if path.endswith("root") else open(path, "rb").read(1))
    tries("server", lambda: socket.create_connection(("127.0.0.1", @PORT@), 2).close())
    tries("abstract", lambda: socket.socket(socket.AF_UNIX).connect("\\0@ABSTRACT@"))
    tries("outside", lambda: socket.create_connection(("192.0.2.1", 80), 2).close())
    libc = ctypes.CDLL(None, use_errno=True)
    seen["ptrace"] = [libc.ptrace(16, 1, 0, 0), ctypes.get_errno()]
    seen["unshare"] = [libc.unshare(0x10000000), ctypes.get_errno()]
    for number in range(1, 32):
        try: os.kill(1, number)
        except OSError: pass
    status = dict(line.split(":\\t") for line in open("/proc/self/status").read().splitlines())
    seen["caps"] = [status[name] for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")]
    seen |= {"ids": [os.getuid(), os.getgid(), os.getgroups()], "host": socket.gethostname(),
             "env": dict(os.environ), "processes": [int(p) for p in os.listdir("/proc") if p.isdigit()]}
    with open("a la place", "w") as file: file.write("x")
    print(json.dumps(seen))
    """


@pytest.fixture(scope="module")
def look(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[dict[str, Any], dict[str, str]]]:
    """What a script saw from its box, and the paths that it tried."""
    course = tmp_path_factory.mktemp("cours")
    paths = {
        "source": course / "source", "gradebook": course / "gradebook.db", "key": course / ".autograder",
        "other": course / "submitted" / "bob" / "labo.py", "course": course, "home": Path.home(),
        "package": Path(box.__file__).parents[2] / "course.yaml", "shadow": Path("/etc/shadow"),
        "here": Path(f"/proc/{os.getpid()}"),
    }  # fmt: skip
    for name in ("source", "key"):
        paths[name].mkdir()
    paths["other"].parent.mkdir(parents=True)
    for name in ("gradebook", "other"):
        paths[name].write_text("secret", encoding="utf-8")
    folder = course / "submitted" / "anna"
    folder.mkdir()
    listed = {name: str(path) for name, path in paths.items()}
    with pytest.MonkeyPatch.context() as patch, socket.create_server(("127.0.0.1", 0)) as server:
        abstract = socket.socket(socket.AF_UNIX)
        abstract.bind(f"\0autograder-{os.getpid()}")
        abstract.listen()
        patch.setenv(box.VARIABLE, "1")
        patch.setenv("API_TOKEN", "un secret")
        script = LOOK.replace("@PATHS@", repr([*listed.values(), "/", "/home", "/tmp"]))
        script = script.replace("@PORT@", str(server.getsockname()[1]))
        run = plain(folder, script.replace("@ABSTRACT@", f"autograder-{os.getpid()}"))
        abstract.close()
    assert run.exit_code == 0, run
    assert [path.name for path in folder.iterdir()] == ["labo.py"]   # nothing is written outside
    yield json.loads(run.stdout), listed


@needs_box
def test_nothing_of_the_grader_can_be_seen(look: tuple[dict[str, Any], dict[str, str]]) -> None:
    seen, paths = look
    hidden = ("source", "gradebook", "key", "other", "package", "shadow", "here")
    assert {name: seen[paths[name]] for name in hidden} == dict.fromkeys(hidden, "FileNotFoundError")
    assert seen[paths["course"]] == ["submitted"] and seen["/home"] in ("FileNotFoundError", ["done"])
    # Where Python itself lies under the home: the way to it, and nothing beside it.
    python = {Path(path).relative_to(Path.home()).parts[0] for path in view.read_only()
              if Path(path).is_relative_to(Path.home())}
    assert seen[paths["home"]] == (sorted(python) or "FileNotFoundError")
    assert "API_TOKEN" not in seen["env"] and "un secret" not in json.dumps(seen)
    assert seen["env"]["HOME"] == "/tmp"


@needs_box
def test_another_user_without_any_right(look: tuple[dict[str, Any], dict[str, str]]) -> None:
    seen, _ = look
    uid, gid, groups = seen["ids"]
    assert uid == gid >= box.FIRST_USER and groups == []
    assert {int(caps, 16) for caps in seen["caps"]} == {0}
    assert {seen[name] for name in seen if name.startswith("write ")} == {"OSError"}
    assert seen["ptrace"] == seen["unshare"] == [-1, 1]


@needs_box
def test_its_own_processes_and_a_first_one_that_is_closed(
    look: tuple[dict[str, Any], dict[str, str]],
) -> None:
    seen, _ = look
    assert 1 in seen["processes"] and len(seen["processes"]) == 2
    assert {seen[f"/proc/1/{name}"] for name in ("environ", "mem", "fd/1", "root")} == {"PermissionError"}


@needs_box
def test_its_own_network_and_host_name(look: tuple[dict[str, Any], dict[str, str]]) -> None:
    seen, _ = look
    assert seen["server"] == seen["abstract"] == "ConnectionRefusedError"
    assert seen["outside"] in ("OSError", "TimeoutError")
    assert seen["host"] == view.HOST != socket.gethostname()


@needs_box
def test_two_boxes_at_once_have_the_same_port(tmp_path: Path) -> None:
    def run(name: str) -> Run:
        folder = tmp_path / name
        folder.mkdir()
        return plain(folder, f"""\
            import socket, time
            with socket.create_server(("127.0.0.1", {command.COURSE_PORT})) as server:
                time.sleep(1.5)
                other = socket.create_connection(server.getsockname())
                other.sendall(b"{name}")
                print(server.accept()[0].recv(10).decode())
            """)

    with ThreadPoolExecutor(2) as pool:
        assert [one.stdout for one in pool.map(run, "ab")] == ["a\n", "b\n"]


# -- limits --------------------------------------------------------------------------------------------------

@needs_box
@pytest.mark.parametrize(("script", "said"), [
    ("import threading, time\n"
     "n = 0\n"
     "try:\n"
     "    while n < 5000:\n"
     "        threading.Thread(target=time.sleep, args=(60,), daemon=True).start(); n += 1\n"
     "except RuntimeError:\n"
     "    print('threads', 100 < n < 1000)\n", "threads True"),
    ("try:\n"
     "    bytearray(64 << 30)\n"
     "except MemoryError:\n"
     "    print('memory')\n", "memory"),
    ("try:\n"
     "    with open('long', 'wb') as file:\n"
     "        file.truncate(129 << 20)\n"
     "except OSError as error:\n"
     "    print(error.errno)\n", "27"),
    ("import os\n"
     "for top in ('.', '/tmp', '/dev/shm'):\n"
     "    try:\n"
     "        for n in range(20):\n"
     "            with open(f'{top}/{n}', 'wb') as file:\n"
     "                os.posix_fallocate(file.fileno(), 0, 100 << 20)\n"
     "    except OSError as error:\n"
     "        print(error.errno)\n", "28\n28\n28"),
    ("import os\n"
     "kept = []\n"
     "try:\n"
     "    while True: kept.append(os.open('/dev/null', 0))\n"
     "except OSError as error:\n"
     "    print(error.errno, len(kept) < 1100)\n", "24 True"),
])  # fmt: skip
def test_what_one_process_may_have(work: Path, script: str, said: str) -> None:
    run = plain(work, script, time_limit_s=30)
    assert run.stdout.strip() == said, run


@needs_box
def test_a_fork_bomb_ends_with_its_box(work: Path) -> None:
    run = plain(work, """\
        import os
        first = os.getpid()
        while True:
            try: os.fork()
            except OSError:
                if os.getpid() == first: break
        print("plein")
        """)
    assert run.exit_code == 0 and run.left_over > 50 and run.stdout == "plein\n"


@needs_box
@pytest.mark.parametrize("script", [
    "import os\nfor _ in range(3): os.fork()\nkept = b'x' * (60 << 20)\nimport time\ntime.sleep(60)\n",
    "for n in range(10**9): open(f'/tmp/{n}', 'w').close()\n",
])  # fmt: skip
def test_what_a_box_may_have_as_a_whole(work: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(box, "_memory", lambda: 200 * box.MIB)
    started = time.monotonic()
    run = plain(work, script, time_limit_s=50)
    assert run.exit_code == -9 and not run.timed_out and time.monotonic() - started < 40
    assert [log.exit_code for log in run.ranks] == [-9]


@needs_box
def test_an_endless_printer_is_stopped(work: Path) -> None:
    run = plain(work, 'while True: print("x" * 100)\n', output_limit_bytes=20_000, time_limit_s=50)
    assert run.output_limited and not run.timed_out and len(run.stdout) < 21_000 and run.ranks[0].truncated


BURN = """\
    import os, signal
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)   # what its children computed is counted nowhere
    for _ in range(3):
        if os.fork() == 0:
            os.setsid()
            while True: pass
    while True: pass
    """


@needs_box
def test_what_a_box_may_compute_as_a_whole(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(box, "_cpu_of_all", lambda *_: 1.0)
    assert ended_by(work, BURN) == ("cpu", [-signal.SIGKILL])
    run = plain(work, BURN, time_limit_s=300)
    assert run.exit_code == -9 and not run.timed_out and [log.exit_code for log in run.ranks] == [-9]


@needs_box
@pytest.mark.parametrize("end", ["os._exit(0)", "os.kill(os.getpid(), 9)"])
def test_what_its_ended_processes_computed_counts_too(
    work: Path, end: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many that live shortly: each alone is far below the limit."""
    monkeypatch.setattr(box, "_cpu_of_all", lambda *_: 2.0)
    assert ended_by(work, f"""\
        import os, time
        while True:
            if os.fork() == 0:
                while time.process_time() < 0.3: pass
                {end}
            os.wait()
        """) == ("cpu", [-signal.SIGKILL])


@needs_box
def test_what_one_process_may_compute(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(box, "_cpu_of_one", lambda *_: 1)
    assert ended_by(work, "while True: pass\n") == (None, [-signal.SIGKILL])   # by the kernel
    assert ended_by(work, "import resource; print(resource.getrlimit(resource.RLIMIT_CPU))\n") == (None, [0])


def ended_by(folder: Path, source: str) -> tuple[str | None, list[int | None]]:
    """The limit that a script in a box exceeded, and its exit code."""
    (folder / "labo.py").write_text(textwrap.dedent(source), encoding="utf-8")
    with tempfile.TemporaryDirectory() as name:
        temp = Path(name)
        job = processes.Job(
            [[sys.executable, "labo.py"]], folder, view.environment(), [(temp / "out", temp / "err")], temp,
            box=box.Box(rooms=(folder,), copies=(folder,)))
        running = processes.start(job)
        assert isinstance(running, processes.Boxed) and running.wait(300)
        ended = running.ended()
    return ended.limit, ended.exit_codes


def test_what_a_launch_may_compute_follows_what_it_starts() -> None:
    def seconds(*options: str, agents: int = 1, **env: str) -> float:
        return box._cpu_of_all(10.0, [(["python", *options], False)] * agents, env) - box.CPU_SLACK_S

    cores = os.cpu_count() or 1
    assert seconds() == 10.0 * cores and seconds(OMP_NUM_THREADS="1") == 10.0
    assert seconds("--nproc-per-node", "2", OMP_NUM_THREADS="1") == 30.0
    assert seconds("--nproc-per-node", "1", agents=2, OMP_NUM_THREADS="1") == 40.0


@needs_box
def test_the_graders_own_work_comes_first(work: Path) -> None:
    """Its processes give way; where far more want a core than any launch has use for, to every other one."""
    assert plain(work, "import os; print(os.nice(0))\n").stdout == f"{min(19, os.nice(0) + 10)}\n"
    crowd = 4 * (os.cpu_count() or 1) + 40
    run = plain(work, f"""\
        import os
        for _ in range({crowd}):
            if os.fork() == 0:
                while True: pass
        while os.sched_getscheduler(0) != os.SCHED_IDLE: pass
        print("idle")
        """, time_limit_s=300)
    assert run.stdout == "idle\n" and run.left_over == crowd


@needs_box
def test_a_crowd_takes_turns_and_nobody_may_call_it_together(work: Path) -> None:
    """Each of many has its time, one after the other; who has the others go on ends the box."""
    many = 40
    run = plain(work, f"""\
        import os, time
        for _ in range({many}):
            if os.fork() == 0:
                while time.process_time() < 0.05: pass
                os._exit(0)
        print(sum(os.wait()[1] == 0 for _ in range({many})))
        """, time_limit_s=300)
    assert (run.stdout, run.exit_code, run.left_over) == (f"{many}\n", 0, 0)
    assert ended_by(work, f"""\
        import os, signal
        for _ in range({many}):
            if os.fork() == 0:
                while True: pass
        while True: os.kill(-1, signal.SIGCONT)
        """) == ("processes", [-signal.SIGKILL])


ORDINARY = 1_899_999_999   # an id that nobody has, and no box either
AS_ORDINARY = """\
import os, sys
if os.geteuid() == 0:
    os.setgroups([])
    os.setresgid(*[int(sys.argv[2])] * 3)
    os.setresuid(*[int(sys.argv[2])] * 3)
from pathlib import Path
from autograder.launch import Request, box, run_request
why = box.why_not()
if why is not None:
    sys.exit("no box: " + why)
run = run_request(Request(launcher=False, time_limit_s=120), Path(sys.argv[1]))
sys.stdout.write(run.stdout or repr(run))
"""


@launched
@needs_box
def test_an_ordinary_user_makes_a_box() -> None:
    """Where we are root, a child of ours becomes one first."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as name:   # pytest's own folder is closed to others
        base = Path(name)
        folder = base / "copie"
        folder.mkdir()
        (folder / "labo.py").write_text(
            "import os\nprint(os.getuid(), len([p for p in os.listdir('/proc') if p.isdigit()]))\n")
        (base / "tmp").mkdir()
        ordinary = os.geteuid() if os.geteuid() != 0 else ORDINARY
        for path in (base, folder, base / "tmp"):
            path.chmod(0o755)
            os.chown(path, ordinary, -1)
        python, paths = readable_by(ordinary, base / "site-packages")
        env = {"PATH": os.defpath, "TMPDIR": str(base / "tmp"), "HOME": str(base), box.VARIABLE: "1",
               "PYTHONPATH": os.pathsep.join(paths), "PYTHONDONTWRITEBYTECODE": "1"}
        done = subprocess.run(
            [python, "-c", AS_ORDINARY, str(folder), str(ordinary)], env=env, cwd=base,
            capture_output=True, text=True, timeout=300)
    if done.stderr.startswith("no box: "):
        pytest.skip(f"an ordinary user here: {done.stderr.strip()}")
    assert (done.returncode, done.stdout) == (0, f"{box.FIRST_USER} 2\n"), done.stderr


def readable_by(user: int, packages: Path) -> tuple[str, list[str]]:
    """A Python that this user can start and that finds what a launch needs, and what to put on its path:
    nothing for our own; for the system's, of the same version, `packages`, a copy of that.
    """
    for module in (box.__file__, psutil.__file__):
        top = next(one for one in Path(module).parents if one.name in ("autograder", "psutil"))
        shutil.copytree(top, packages / top.name, ignore=shutil.ignore_patterns("__pycache__", "tests"))
    for path in (packages, *packages.rglob("*")):
        path.chmod(path.stat().st_mode | (0o555 if path.is_dir() else 0o444))
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    code = (f"import os\nif os.geteuid() == 0: os.setgroups([]); os.setresgid({user}, {user}, {user}); "
            f"os.setresuid({user}, {user}, {user})\n"
            "import subprocess, sys; import autograder.launch.engine; "
            "subprocess.run([sys.executable, '-c', ''], check=True)")
    for python, paths in ((sys.executable, []), (f"/usr/bin/{version}", [str(packages)])):
        if not os.access(python, os.X_OK):
            continue
        env = {"PATH": os.defpath, "PYTHONPATH": os.pathsep.join(paths), "PYTHONDONTWRITEBYTECODE": "1"}
        tried = subprocess.run([python, "-c", code], env=env, cwd="/", capture_output=True, timeout=120)
        if tried.returncode == 0:
            return python, paths
    pytest.skip(f"no Python that another user can read: {sys.executable} lies in a closed folder")


# -- how it ends ---------------------------------------------------------------------------------------------

DAEMON = """\
    import os, signal, sys, time
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.execve(sys.executable, [sys.executable, "-c", "import time; time.sleep(600)  # @WORD@"], {})
        os._exit(0)
    os.wait()
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    print("pret", flush=True)
    """
WAITS = DAEMON.rstrip(" ") + "    while True: time.sleep(1)\n"


@needs_box
def test_a_daemon_does_not_outlive_its_script(work: Path) -> None:
    word = f"demon-{os.getpid()}"
    run = plain(work, DAEMON.replace("@WORD@", word))
    assert run.exit_code == 0 and run.left_over == 1 and gone(word, 0)


@needs_box
def test_at_the_deadline_the_stack_is_taken_and_what_ignores_sigterm_is_ended(work: Path) -> None:
    word = f"demon-{os.getpid()}-b"
    run = plain(work, WAITS.replace("@WORD@", word), time_limit_s=6)
    assert run.timed_out and run.stdout == "pret\n" and run.left_over == 1 and gone(word, 0)
    assert run.stacks[0].frames[-1].code == "while True: time.sleep(1)"


@needs_box
def test_a_box_ends_with_who_made_it(work: Path, tmp_path: Path) -> None:
    word = f"demon-{os.getpid()}-c"
    (work / "labo.py").write_text(textwrap.dedent(WAITS.replace("@WORD@", word)), encoding="utf-8")
    code = ("import sys; from pathlib import Path; from autograder.launch import Request, run_request; "
            "run_request(Request(launcher=False, time_limit_s=120), Path(sys.argv[1]))")  # fmt: skip
    env = os.environ | {"TMPDIR": str(tmp_path)}
    parent = subprocess.Popen([sys.executable, "-c", code, str(work)], env=env)
    deadline = time.monotonic() + 60
    while not alive(word) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert alive(word) and alive(str(tmp_path))   # the second: bwrap itself
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    assert gone(word) and gone(str(tmp_path))


# -- what comes back -----------------------------------------------------------------------------------------

@needs_box
def test_only_regular_files_come_back_and_only_where_they_were_asked_for(work: Path) -> None:
    run = plain(work, f"""\
        import glob, os
        (record,) = glob.glob({tempfile.gettempdir() + "/*/record"!r})
        os.symlink("/etc/passwd", record + "/flight0.json")
        os.mkfifo(record + "/rank7.jsonl")
        os.mkdir(record + "/ferme")
        os.chmod(record + "/ferme", 0)
        for n in range(10): open(record + f"/\\x1b[2J\\n{{n}}", "w").write("x")
        os.symlink("/", record + "/racine")
        print("fin")
        """)
    assert run.stdout == "fin\n" and run.exit_code == 0 and "root:" not in run.to_json()


def test_a_path_that_was_not_asked_for_is_refused(tmp_path: Path) -> None:
    boxed = processes.Boxed.__new__(processes.Boxed)
    boxed.job = processes.Job([], tmp_path, {}, [(tmp_path / "out", tmp_path / "err")], tmp_path)
    boxed.box = box.Box(back=(tmp_path / "record",))
    for path in (tmp_path / "x", tmp_path / "record" / ".." / "x", Path("/etc/x"), Path("record/x")):
        with pytest.raises(ValueError, match="not asked for"):
            boxed._put(path, 0, io.BytesIO())
    assert not list(tmp_path.iterdir())


def cells(*sources: str, folder: Path | None = None, names: tuple[str, ...] = (), **more: Any) -> StudentRun:
    notebook = new_notebook(cells=[new_code_cell(source, id=f"c{n}") for n, source in enumerate(sources)])
    roles = {cell.id: "plain" for cell in notebook.cells}
    return run_student(notebook, roles, names, folder, sandbox=True, **more)


@needs_box
def test_a_notebooks_cells_run_in_a_box_and_give_back_data_and_declared_files(work: Path) -> None:
    (work / "labo.py").write_text("ancien", encoding="utf-8")
    (work / "lien.txt").write_text("ancien", encoding="utf-8")
    ran = cells(
        "import os, socket\nx = {'a': [1, 2.5]}\nhere = socket.gethostname()",
        "print(os.getcwd(), open('labo.py').read())",
        "%%writefile labo.py\nprint(42)",
        "os.unlink('lien.txt'); os.symlink('/etc/passwd', 'lien.txt'); 1 / 0",
        "!id -u; hostname",
        folder=work, names=("x", "here"), files=("labo.py", "lien.txt", "absent.txt"),
    )  # fmt: skip
    assert ran.stopped is None and ran.values == {"x": {"a": [1, 2.5]}, "here": view.HOST}
    assert ran.files == {"labo.py": b"print(42)\n"}
    assert ran.cells["c1"][0]["text"] == ". ancien\n"
    assert ran.cells["c3"][-1]["ename"] == "ZeroDivisionError"
    assert int(ran.cells["c4"][0]["text"].split()[0]) >= box.FIRST_USER
    assert (work / "labo.py").read_text(encoding="utf-8") == "ancien"


@needs_box
def test_cells_that_do_not_end_or_die_keep_what_came_before() -> None:
    word = f"demon-{os.getpid()}-d"
    fork = (
        "import subprocess, sys, time\n"
        f"subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)', '{word}'])"
    )
    ran = cells("x = 1", fork, "time.sleep(600)", names=("x",), limit_s=10)
    assert ran.stopped is not None and ran.values == {"x": 1} and gone(word, 0)
    ran = cells("x = 1", "import os; os._exit(3)", names=("x",))
    assert ran.stopped is not None and "3" in ran.stopped and ran.values == {"x": 1}


@needs_box
def test_a_result_without_a_box_is_not_kept_where_one_is_asked_for(tmp_path: Path) -> None:
    from tiny_course import ASSIGNMENT, copy_notebook, hand_in, make_course

    from autograder.notebook.exam import in_box, prepare, still_good
    from autograder.notebook.examine import examine

    course = make_course(tmp_path)
    folder = hand_in(tmp_path, "anna", copy_notebook())
    exam = prepare(ASSIGNMENT, course)
    without = examine(folder, ASSIGNMENT, course, student="anna", exam=exam)
    boxed = examine(folder, ASSIGNMENT, course, student="anna", exam=in_box(exam, True))
    assert (without.sandbox, boxed.sandbox) == (False, True) and without.graded and boxed.graded
    same = {"sandbox": False, "duration_s": 0.0}
    assert replace(without, **same) == replace(boxed, **same)
    assert still_good(without, exam, folder) and not still_good(without, in_box(exam, True), folder)
    assert still_good(boxed, exam, folder) and still_good(boxed, in_box(exam, True), folder)


# -- the same launches ---------------------------------------------------------------------------------------

TWO = """\
import os, sys, torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
rank = int(os.environ["RANK"])
dist.init_process_group("gloo", init_method="tcp://127.0.0.1:29531", world_size=2, rank=rank)
rows = torch.tensor([[1.0, 3.0], [5.0, 7.0]][rank])
dist.all_reduce(rows)
model = DDP(torch.nn.Linear(2, 1, bias=False))
model(torch.tensor([[[1.0, 0.0]], [[0.0, 3.0]]][rank])).sum().backward()
print("é", rank, rows.tolist(), model.module.weight.grad.tolist(), flush=True)
closed = []
for name in ("environ", "mem"):
    try: open(f"/proc/{os.getppid()}/{name}", "rb")
    except PermissionError: closed.append(name)
print(closed, flush=True)
del model
dist.destroy_process_group()
"""


@launched
@needs_box
def test_two_ranks_in_a_box_are_judged_as_two_ranks_outside(
    work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (work / "labo.py").write_text(TWO, encoding="utf-8")
    inside = run_request(Request(), work)
    monkeypatch.delenv(box.VARIABLE)
    outside = run_request(Request(), work)
    assert "é 0 [6.0, 10.0] [[0.5, 1.5]]" in inside.stdout and "['environ', 'mem']" in inside.stdout
    assert facts(inside) == facts(outside)
    assert "hostname" not in inside.stderr + inside.launcher_stderr and inside.infra is None


def facts(run: Run) -> dict[str, Any]:
    """What a verdict can rest on, without times, process numbers, and what TWO says of its parent."""
    logs = [replace(log, stdout=log.stdout.split("\n")[0]) for log in run.ranks]
    return {
        "logs": logs, "exit": run.exit_code, "left": run.left_over, "infra": run.infra,
        "gradients": [one.values for one in run.gradients],
        "calls": [replace(one, entered=0.0, returned=one.returned and 1.0) for one in run.collectives],
        "events": [(event.rank, event.name, event.line, event.detail) for event in run.events],
        "launcher": run.launcher_stderr, "flags": (run.timed_out, run.per_rank),
    }  # fmt: skip


# -- whether it can be made ----------------------------------------------------------------------------------

@pytest.fixture
def ask(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Callable[[str | None], str | None]]:
    """why_not(), on a machine whose bwrap is this script (None: there is none)."""
    def ask(script: str | None) -> str | None:
        if script is not None:
            (tmp_path / "bwrap").write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
            (tmp_path / "bwrap").chmod(0o755)
        monkeypatch.setenv("PATH", str(tmp_path))
        return box.why_not()

    for cached in (box.why_not, box.bwrap_version):
        cached.cache_clear()
    yield ask
    for cached in (box.why_not, box.bwrap_version):
        cached.cache_clear()


REFUSES = """\
if [ "$1" = --version ]; then echo bubblewrap 0.8.0; exit; fi
echo "bwrap: setting up uid map: nope" >&2
exit 1"""
on_linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="bubblewrap is Linux's")


@on_linux
def test_without_bubblewrap_one_sentence_says_what_to_install(
    ask: Callable[[str | None], str | None],
) -> None:
    said = ask(None)
    assert said is not None and "apt install bubblewrap" in said and "\n" not in said


@on_linux
@pytest.mark.parametrize(("script", "words"), [
    ("echo bubblewrap 0.6.1", ["0.6.1 is too old", "0.7"]),
    ("echo nonsense", ["another program"]),
    (REFUSES, ["setting up uid map: nope", ": "]),
])  # fmt: skip
def test_a_bubblewrap_that_cannot_says_why(
    ask: Callable[[str | None], str | None], script: str, words: list[str]
) -> None:
    said = ask(script)
    assert said is not None and "\n" not in said and all(word in said for word in words)


@pytest.mark.parametrize(("settings", "advice"), [
    ({"kernel/apparmor_restrict_unprivileged_userns": "1"}, "AppArmor profile"),
    ({"kernel/unprivileged_userns_clone": "0"}, "sysctl kernel.unprivileged_userns_clone=1"),
    ({"user/max_user_namespaces": "0"}, "sysctl user.max_user_namespaces=15000"),
    ({}, "virtual machine"),
])  # fmt: skip
def test_the_administrator_is_told_what_to_change(
    settings: dict[str, str], advice: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000, raising=False)
    monkeypatch.setattr(box, "_setting", lambda name: settings.get(name, ""))
    assert advice in box._advice()


def test_there_is_none_on_another_system(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    box.why_not.cache_clear()
    assert "needs Linux" in str(box.why_not())
    box.why_not.cache_clear()


@on_linux
def test_a_box_that_cannot_be_made_is_the_machines_fault(
    ask: Callable[[str | None], str | None], work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from autograder.launch import engine
    from autograder.notebook.apart import NoBox

    monkeypatch.setattr(engine, "RETRY_S", 0)
    ask(REFUSES)
    run = plain(work, "print(1)")
    assert run.infra == "sandbox" and "nope" in run.launcher_stderr and run.stdout == ""
    with pytest.raises(NoBox, match="nope"):
        cells("x = 1")


# -- what it is made of --------------------------------------------------------------------------------------

def test_a_virtual_environment_in_the_courses_folder_does_not_show_the_course(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = tmp_path / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}"
    (library / "site-packages").mkdir(parents=True)
    (tmp_path / "bin").mkdir()
    (tmp_path / "source").mkdir()
    (tmp_path / "bin" / "python").symlink_to(sys.executable)
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "bin" / "python"))
    view.read_only.cache_clear()
    try:
        shown = [Path(path) for path in view.read_only()]
    finally:
        view.read_only.cache_clear()
    assert tmp_path / "bin" in shown and tmp_path / "lib" in shown
    assert not any((tmp_path / "source").is_relative_to(path) for path in shown)


def test_packages_from_elsewhere_are_shown_and_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    added = tmp_path / "modules" / "site-packages"
    added.mkdir(parents=True)
    monkeypatch.setattr(sys, "path", [*sys.path, str(added), str(tmp_path)])
    view.read_only.cache_clear()
    try:
        assert str(added) in view.read_only() and str(tmp_path) not in view.read_only()
        assert str(added) in view.environment()["PYTHONPATH"].split(os.pathsep)
    finally:
        view.read_only.cache_clear()


NEW_USER, THREAD = 0x1000_0000, 0x3D0F00


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_the_kernels_filter_refuses_these_calls_and_no_other(machine: str) -> None:
    own = list(syscalls.ARCHITECTURES).index(machine)
    here, elsewhere = (syscalls.ARCHITECTURES[name] for name in (machine, ["aarch64", "x86_64"][own]))
    refused, unknown = syscalls.FAIL | 1, syscalls.FAIL | 38
    for numbers in syscalls.DENIED.values():
        assert verdict(machine, here, numbers[own]) == refused
    clone, unshare, clone3 = (call[own] for call in (syscalls.CLONE, syscalls.UNSHARE, syscalls.CLONE3))
    assert verdict(machine, here, clone, THREAD) == syscalls.ALLOW == verdict(machine, here, clone, 17)
    assert verdict(machine, here, clone, NEW_USER | 17) == refused
    assert verdict(machine, here, unshare, 0x0002_0000) == refused
    assert verdict(machine, here, clone3) == unknown
    assert verdict(machine, elsewhere, 0) == refused
    listed = {numbers[own] for numbers in syscalls.DENIED.values()} | {clone3}
    for number in set(range(460)) - listed:
        assert verdict(machine, here, number) == syscalls.ALLOW
    assert machine != "x86_64" or verdict(machine, here, syscalls.X32 | 39) == refused
    assert syscalls.program("riscv64") == b""


def verdict(machine: str, architecture: int, number: int, argument: int = 0) -> int:
    """What the filter says of one call: the few instructions that it is made of."""
    data = struct.pack("=IIQQ", number, architecture, 0, argument)
    steps = list(struct.iter_unpack("=HBBI", syscalls.program(machine)))
    at, held = 0, 0
    while True:
        code, yes, no, value = steps[at]
        at += 1
        if code == syscalls.RETURN:
            return int(value)
        if code == syscalls.LOAD:
            held = struct.unpack_from("=I", data, value)[0]
            continue
        taken = {syscalls.EQUAL: held == value, syscalls.AT_LEAST: held >= value,
                 syscalls.ANY_BIT: bool(held & value)}[code]  # fmt: skip
        at += yes if taken else no


@pytest.mark.parametrize(("asked", "why_not", "boxed"), [
    ("auto", None, True), ("auto", "it is away", False), ("yes", None, True), ("no", None, False),
])  # fmt: skip
def test_stock_nbgrader_takes_a_box_where_it_can(
    asked: str, why_not: str | None, boxed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tiny_course import ASSIGNMENT, make_course

    from autograder.notebook.exam import prepare
    from autograder.notebook.plugins import ExecuteApart

    monkeypatch.setattr(box, "why_not", lambda: why_not)
    exam = ExecuteApart(sandbox=asked)._boxed(prepare(ASSIGNMENT, make_course(tmp_path)))
    assert exam.sandbox is exam.trusted.sandbox is boxed
    assert (exam.trusted.environment().get(box.VARIABLE) == "1") is boxed
    if why_not is not None:
        with pytest.raises(RuntimeError, match=why_not):
            ExecuteApart(sandbox="yes")._boxed(exam)
