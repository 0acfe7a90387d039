"""What students import must be quick, need neither torch nor nbgrader, and exist on every system."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import autograder

ROOT = Path(__file__).resolve().parent.parent

# Where Windows has no such module, importing it raises; a student's import must not meet it.
POSIX_ONLY = ("fcntl", "resource", "pwd", "grp", "termios", "tty", "pty", "posix_spawn", "syslog", "readline")

# Everything that a student's notebook, launch, check, pack and doctor load.
STUDENT_MODULES = (
    "autograder",
    "autograder.cli",
    "autograder.commands.student",
    "autograder.course",
    "autograder.doctor",
    "autograder.messages",
    "autograder.launch",
    "autograder.launch.run",
    "autograder.launch.engine",
    "autograder.launch.store",
    "autograder.verdict.marks",
    "autograder.verdict.diagnosis",
    "autograder.verdict.draw",
    "autograder.verdict.forms",
    "autograder.verdict.gpu_marks",
    "autograder.verdict.members",
    "autograder.verdict.pasted",
    "autograder.verdict.personal",
    "autograder.verdict.raw_output",
    "autograder.verdict.slurm",
    "autograder.notebook.check",
    "autograder.batch.handin",
    "autograder.report.run_view",
    "autograder.report.course_view",
)

# Put before the import: the modules above are refused and the attributes that Windows lacks are taken away,
# but only once what the standard library itself imports on this system is loaded.
_ELSEWHERE = f"""
import sys, os, signal, select, socket, subprocess, tempfile, shutil, asyncio
import multiprocessing, getpass, logging, psutil, nbformat, IPython, pydantic, yaml, rich
for name in {POSIX_ONLY!r}:
    sys.modules[name] = None
for module, names in {{
    os: ("fork", "forkpty", "setsid", "killpg", "getpgid", "getuid", "geteuid", "getgid", "wait4", "mkfifo",
         "sched_getaffinity", "nice", "sysconf", "uname", "statvfs"),
    signal: ("SIGKILL", "SIGHUP", "SIGUSR1", "SIGUSR2", "SIGCHLD", "SIGALRM", "setitimer", "pthread_sigmask"),
    select: ("poll", "epoll"),
    socket: ("AF_UNIX",),
}}.items():
    for name in names:
        if hasattr(module, name):
            delattr(module, name)
"""


def python(code: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env, check=False)


def test_importing_the_package_loads_almost_nothing() -> None:
    answer = python("import sys, autograder; print(' '.join(sys.modules))")
    loaded = set(answer.stdout.split())
    assert not loaded & {"torch", "numpy", "nbgrader", "nbformat", "IPython", "pydantic"}


def test_no_student_module_loads_torch_or_nbgrader() -> None:
    # One process for all, since each costs a second; every module says what was loaded once it was.
    lines = [
        f"import {module}; print({module!r}, *sorted(FORBIDDEN & set(sys.modules)))"
        for module in STUDENT_MODULES
    ]
    forbidden = {"torch", "nbgrader", "nbconvert", "sqlalchemy"}
    answer = python("\n".join(["import sys", f"FORBIDDEN = {forbidden!r}", *lines]))
    assert answer.stdout.split() == list(STUDENT_MODULES), answer.stderr


def test_what_reads_no_notebook_loads_nothing_that_does() -> None:
    """nbformat costs a second where JupyterLab is installed, for the schemas that it brings."""
    modules = ("autograder.batch.handin", "autograder.report.course_view", "autograder.launch.engine",
               "autograder.verdict.diagnosis", "autograder.report.run_view", "autograder.doctor")
    answer = python("\n".join([f"import sys, {', '.join(modules)}", "print('nbformat' in sys.modules)"]))
    assert answer.stdout.split() == ["False"], answer.stderr


def test_names_that_notebooks_use_come_without_torch() -> None:
    names = ", ".join(autograder._HOMES)
    answer = python(
        f"import sys\nfrom autograder import {names}\n"
        "print(callable(launch), 'torch' in sys.modules)"
    )
    assert answer.stdout.split() == ["True", "False"], answer.stderr


def test_reading_a_notebook_compiles_no_grammar() -> None:
    """What a later jsonschema does as it is imported, where Jupyter's packages are: see pyproject.toml."""
    answer = python("import sys, nbformat, autograder.notebook.check\nprint('lark' in sys.modules)")
    assert answer.stdout.split() == ["False"], answer.stderr


def test_importable_where_posix_modules_do_not_exist() -> None:
    lines = [f"import {module}; print({module!r})" for module in STUDENT_MODULES]
    answer = python("\n".join([_ELSEWHERE, *lines]))
    assert answer.stdout.split() == list(STUDENT_MODULES), answer.stderr


@pytest.mark.parametrize("arguments", [["--help"], ["run", "--help"], ["grade", "--help"], ["--version"]])
def test_help_loads_neither_torch_nor_anything_slow(arguments: list[str]) -> None:
    answer = python(
        f"import sys\nfrom autograder.cli import main\ncode = main({arguments!r})\n"
        "print('LOADED', *sys.modules)\nsys.exit(code)"
    )
    assert answer.returncode == 0
    loaded = set(answer.stdout.split("LOADED", 1)[1].split())
    # What costs time is what is loaded, whatever the machine: the standard library and ourselves only.
    assert not loaded & {
        "torch",
        "numpy",
        "nbgrader",
        "pydantic",
        "yaml",
        "IPython",
        "nbformat",
        "rich",
        "psutil",
    }
