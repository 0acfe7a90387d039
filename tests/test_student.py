"""The student's cells, run apart: what they leave, and that nothing of them is left."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import psutil
import pytest
from nbformat.v4 import new_code_cell, new_notebook

from autograder.notebook.plain import NotPlain, decode, encode
from autograder.notebook.student import StudentRun, copy_files, read_regular, run_student


def run(*sources: str, names: str = "", folder: Path | None = None, limit_s: float = 60) -> StudentRun:
    cells = [new_code_cell(source, id=f"c{number}") for number, source in enumerate(sources)]
    notebook = new_notebook(cells=cells)
    roles = {cell.id: "plain" for cell in cells}
    return run_student(notebook, roles, names.split(), folder, limit_s=limit_s)


def text_of(outputs: list[dict[str, object]]) -> str:
    return "".join(str(output.get("text", "")) for output in outputs)


def test_outputs_values_and_labo_come_back() -> None:
    ran = run("%%writefile labo.py\nprint(1)", "x = 3.5\nprint('bonjour')\nx + 1", "1 / 0", names="x y")
    assert ran.files == {"labo.py": b"print(1)\n"}
    assert ran.values == {"x": 3.5}
    assert ran.absent == {"y": "undefined"}
    assert text_of(ran.cells["c1"]) == "bonjour\n"
    assert ran.cells["c1"][1]["data"] == {"text/plain": "4.5"}
    assert ran.cells["c2"][0]["ename"] == "ZeroDivisionError"
    assert ran.stopped is None


def test_cells_after_an_error_are_run() -> None:
    assert run("raise SystemExit(3)", "import sys; sys.exit()", "x = 1", names="x").values == {"x": 1}


def test_only_plain_values_cross() -> None:
    source = """
class Toujours(float):
    __eq__ = lambda self, other: True
a = Toujours(3); b = [1, (2.5, 'x'), {'k': None, 2: True}]; c = {10, 2}; d = [Toujours(1)]
e = 'x' * 100_000; f = print; g = []; g.append(g)
"""
    ran = run(source, names="a b c d e f g")
    assert ran.values == {"b": [1, (2.5, "x"), {"k": None, 2: True}], "c": [2, 10]}
    assert ran.absent == {
        "a": "Toujours", "d": "Toujours", "e": "size", "f": "builtin_function_or_method",
        "g": "size",
    }  # fmt: skip


def test_what_is_as_good_as_a_list_crosses_as_one() -> None:
    assert decode(encode({(1, 1), "x"})) == ["x", (1, 1)]   # what has no order of its own: by its text
    assert decode(encode({(2, 0), (0, 0)})) == [(0, 0), (2, 0)]
    assert decode(encode({0: 1}.items())) == [(0, 1)] == decode(encode(zip([0], [1], strict=True)))
    assert decode(encode(range(3))) == [0, 1, 2]
    with pytest.raises(NotPlain):
        encode(range(10**9))
    with pytest.raises(NotPlain):
        encode({print})


def test_numpy_numbers_cross_as_the_numbers_they_hold() -> None:
    numpy = pytest.importorskip("numpy")
    assert decode(encode(numpy.float64(2.5))) == 2.5
    assert decode(encode(numpy.array([[1, 2]]))) == [[1, 2]]
    with pytest.raises(NotPlain):
        encode(numpy.zeros(100_000))


@pytest.mark.parametrize(
    "forged", [{"set": [1]}, {"list": 3}, {"dict": [[{"list": []}, 1]]}, {"a": 1, "b": 2}]
)
def test_a_forged_value_is_refused(forged: object) -> None:
    with pytest.raises(ValueError):
        decode(forged)


def test_an_endless_loop_is_ended_and_what_came_before_is_kept() -> None:
    source = "while True:\n    try:\n        while True: pass\n    except BaseException: pass"
    ran = run("x = 1", source, "y = 2", names="x y", limit_s=10)
    assert ran.values == {"x": 1}
    assert ran.stopped is not None and "10 s" in ran.stopped
    assert "10 s" in text_of(ran.cells["c1"])


def test_a_dead_process_is_told_and_what_came_before_is_kept() -> None:
    ran = run("x = 1", "import os; os._exit(7)", names="x")
    assert ran.values == {"x": 1}
    assert ran.stopped is not None and "7" in ran.stopped


def test_an_endless_printer_is_stopped_and_cut() -> None:
    ran = run(
        "while True:\n    try:\n        print('x' * 1000)\n    except Exception: pass", "y = 1", names="y"
    )
    assert ran.values == {"y": 1}
    assert len(text_of(ran.cells["c0"])) < 80_000


def test_thirty_megabytes_keep_head_and_tail() -> None:
    ran = run("print('début' + 'x' * 1_000_000 + 'fin')")
    shown = text_of(ran.cells["c0"])
    assert shown.startswith("début") and shown.rstrip().endswith("fin") and len(shown) < 70_000


def test_shell_commands_run_but_launches_do_not() -> None:
    run_it = (
        "!echo bonjour\n!torchrun --nproc_per_node=2 labo.py\nsortie = !python -m torch.distributed.run x.py"
    )
    ran = run(run_it, "n = len(sortie)", names="n")
    shown = text_of(ran.cells["c0"])
    assert "bonjour" in shown and "pas exécutée de nouveau" in shown
    assert ran.values == {"n": 1}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_nothing_that_was_started_is_left() -> None:
    mark = f"autograder-left-{os.getpid()}"
    source = f"""
import os, subprocess, sys, time
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)", "{mark}"], start_new_session=True)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.execv(sys.executable, [sys.executable, "-c", "import time; time.sleep(600)", "{mark}"])
    os._exit(0)
"""
    run(source)
    left = [p.info["cmdline"] for p in psutil.process_iter(["cmdline"]) if mark in (p.info["cmdline"] or [])]
    assert left == []


def test_read_only_files_of_a_copy_can_be_rewritten(tmp_path: Path) -> None:
    (tmp_path / "labo.py").write_text("old")
    (tmp_path / "labo.py").chmod(0o444)
    tmp_path.chmod(0o555)
    try:
        ran = run("%%writefile labo.py\nnew", folder=tmp_path)
    finally:
        tmp_path.chmod(0o755)
    assert ran.files == {"labo.py": b"new\n"}
    assert (tmp_path / "labo.py").read_text() == "old"


def test_a_file_of_the_copy_does_not_shadow_a_module(tmp_path: Path) -> None:
    (tmp_path / "json.py").write_text("raise SystemExit('shadow')")
    (tmp_path / "outil.py").write_text("valeur = 5")
    assert run("from outil import valeur", names="valeur", folder=tmp_path).values == {"valeur": 5}


@pytest.mark.skipif(sys.platform == "win32", reason="needs symbolic links and pipes")
def test_only_a_regular_labo_of_a_sane_size_crosses(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("x")
    (tmp_path / "link").symlink_to(secret)
    os.mkfifo(tmp_path / "pipe")
    assert read_regular(tmp_path / "link", 100) is None
    assert read_regular(tmp_path / "pipe", 100) is None
    assert read_regular(tmp_path, 100) is None
    assert read_regular(secret, 0) is None
    assert read_regular(secret, 100) == b"x"
    assert run(f"import os; os.symlink({str(secret)!r}, 'labo.py')").files == {}


@pytest.mark.skipif(sys.platform == "win32", reason="needs symbolic links")
def test_links_notebooks_and_caches_are_not_copied(tmp_path: Path) -> None:
    copy, work = tmp_path / "copy", tmp_path / "work"
    (copy / "sub").mkdir(parents=True)
    work.mkdir()
    for name in ("labo.py", "mini.ipynb", "timestamp.txt", "sub/outil.py"):
        (copy / name).write_text("x")
    (copy / "link").symlink_to("/etc/hosts")
    copy_files(copy, work)
    assert sorted(p.relative_to(work).as_posix() for p in work.rglob("*") if p.is_file()) == [
        "labo.py",
        "sub/outil.py",
    ]


def test_the_student_s_side_sees_no_key_and_no_launch_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RANK", "MCI_SKIP_RANK", "AUTOGRADER_RUNS", "MASTER_PORT"):
        monkeypatch.setenv(name, "1")
    watched = ("AUTOGRADER_K", "AUTOGRADER_R", "MASTER_", "MCI_", "MPL", "RANK")
    source = f"import os; vu = sorted(n for n in os.environ if n.startswith({watched}))"
    assert run(source, names="vu").values == {"vu": ["MPLBACKEND"]}


def test_the_grader_s_temporary_folder_is_not_shown() -> None:
    ran = run("import os; print(os.getcwd()); open('absent.txt')")
    assert "autograder-" not in str(ran.cells)
