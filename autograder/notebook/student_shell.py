"""The student's side: run a notebook's code cells in IPython, and say what they printed and which values
they left.

    python -P -m autograder.notebook.student_shell REQUEST RESULT      (in the copy's own folder)

The result is a line of JSON for each thing learnt, added at once, so that what ran before a hang is not lost:
{"running": cell}, {"cells": {cell: outputs}}, {"values": {name: value}}. Nothing here is trusted by the other
side: it reads the result as data.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

from autograder.leftovers import end_with_parent
from autograder.notebook.plain import NotPlain, encode

_LAUNCHER = re.compile(
    r"\btorchrun\b|torch\.distributed\.(?:run|launch)\b|\bautograder\s+(?:run|check|grade|release)\b"
)
CUT = "\n[…]\n"


class OutputLimit(BaseException):
    """The cell printed far more than is kept: stop it. Not an Exception, so that `except Exception` lets it
    through.
    """


class _Capture:
    """A cell's outputs in notebook form, limited in bytes: head and tail of each stream are kept."""

    def __init__(self, limit: int) -> None:
        self.limit, self.written = limit, 0
        self.outputs: list[dict[str, Any]] = []
        self.lock = threading.Lock()

    def stream(self, name: str, content: str) -> None:
        with self.lock:
            self.written += len(content)
            last = self.outputs[-1] if self.outputs else None
            if last is None or last.get("name") != name:
                last = {"output_type": "stream", "name": name, "text": ""}
                self.outputs.append(last)
            last["text"] = shorten(last["text"] + content, self.limit)
        if self.written > 20 * self.limit and threading.current_thread() is threading.main_thread():
            self.written = 0
            raise OutputLimit

    def add(self, output: dict[str, Any]) -> None:
        size = len(json.dumps(output, default=str))
        self.written += size
        if size <= self.limit and sum(len(json.dumps(o)) for o in self.outputs) + size <= 4 * self.limit:
            self.outputs.append(json.loads(json.dumps(output, default=str)))


def shorten(content: str, limit: int) -> str:
    """At most about `limit` characters of `content`: its head and its tail."""
    if len(content) <= limit:
        return content
    half = limit // 2
    return content[:half].removesuffix(CUT) + CUT + content[-(half - len(CUT)) :]


class _Stream:
    """sys.stdout and sys.stderr while cells run."""

    encoding, errors = "utf-8", "replace"

    def __init__(self, shell: Shell, name: str) -> None:
        self.shell, self.name = shell, name

    def write(self, content: str) -> int:
        self.shell.capture.stream(self.name, str(content))
        return len(content)

    def writelines(self, lines: list[str]) -> None:
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        pass

    def isatty(self) -> bool:
        return False

    def fileno(self) -> int:
        raise OSError("a captured stream has no file number")


class Shell:
    """One student's namespace."""

    def __init__(self, request: dict[str, Any]) -> None:
        from IPython.core.displayhook import DisplayHook
        from IPython.core.displaypub import DisplayPublisher
        from IPython.core.interactiveshell import InteractiveShell

        self.limit = int(request["output_limit"])
        self.messages: dict[str, str] = request["messages"]
        self.capture = _Capture(self.limit)
        outer = self

        class Hook(DisplayHook):
            def __call__(self, result: Any = None) -> None:
                if result is not None and not self.quiet():
                    data, metadata = self.shell.display_formatter.format(result)
                    self.update_user_ns(result)
                    value = {"output_type": "execute_result", "execution_count": self.prompt_count}
                    outer.capture.add(value | {"data": data, "metadata": metadata})

        class Publisher(DisplayPublisher):
            def publish(self, data: Any, metadata: Any = None, *args: Any, **kwargs: Any) -> None:
                outer.capture.add({"output_type": "display_data", "data": data, "metadata": metadata or {}})

        class Kernel(InteractiveShell):
            displayhook_class = Hook
            display_pub_class = Publisher

            def system(self, cmd: str) -> None:
                outer.system(self.var_expand(cmd, depth=1))

            system_piped = system_raw = system

            def getoutput(self, cmd: str, split: bool = True, depth: int = 0) -> Any:
                from IPython.utils.text import SList

                content = outer.command(self.var_expand(cmd, depth=depth + 1))
                return SList(content.splitlines()) if split else content

            def _showtraceback(self, etype: Any, evalue: Any, stb: Any) -> None:
                name = getattr(etype, "__name__", str(etype))
                lines = [shorten(str(line), outer.limit // 4) for line in stb]
                error = {"output_type": "error", "ename": name, "evalue": shorten(str(evalue), 2000)}
                outer.capture.add(error | {"traceback": lines[-40:]})

            def showtraceback(self, *args: Any, **kwargs: Any) -> None:
                if isinstance(sys.exc_info()[1], OutputLimit):
                    outer.capture.stream("stderr", outer.messages["output"] + "\n")
                else:
                    super().showtraceback(*args, **kwargs)

        self.ipython = Kernel.instance(colors="NoColor")
        self.ipython.history_manager.enabled = False

    def system(self, cmd: str) -> None:
        print(self.command(cmd), end="")

    def command(self, cmd: str) -> str:
        """What a `!` command prints; a launch of ranks is not made here, where nothing bounds it."""
        if _LAUNCHER.search(cmd):
            return self.messages["launch"] + "\n"
        with tempfile.TemporaryFile() as output:
            done = subprocess.run(
                cmd, shell=True, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT
            )
            self.ipython.user_ns["_exit_code"] = done.returncode
            size = output.tell()
            output.seek(0)
            head = output.read(self.limit).decode("utf-8", errors="replace")
            return head + (CUT if size > self.limit else "")

    def run(self, source: str) -> list[dict[str, Any]]:
        self.capture = _Capture(self.limit)
        streams = sys.stdout, sys.stderr
        sys.stdout, sys.stderr = _Stream(self, "stdout"), _Stream(self, "stderr")
        try:
            self.ipython.run_cell(source, store_history=True)
        except OutputLimit:
            self.capture.stream("stderr", self.messages["output"] + "\n")
        except SystemExit:
            pass
        finally:
            sys.stdout, sys.stderr = streams
        return self.capture.outputs

    def value(self, name: str) -> dict[str, Any]:
        """{"value": …} for a plain value, {"absent": reason} otherwise; the reason "undefined" means no
        such name.
        """
        if name not in self.ipython.user_ns:
            return {"absent": "undefined"}
        try:
            return {"value": encode(self.ipython.user_ns[name])}
        except NotPlain as error:
            return {"absent": str(error)}
        except Exception as error:  # a student's object can raise anything
            return {"absent": type(error).__name__}


def main() -> None:
    end_with_parent()
    request_path, result_path = Path(sys.argv[1]), Path(sys.argv[2])
    request = json.loads(request_path.read_text(encoding="utf-8"))
    os.environ.setdefault("IPYTHONDIR", tempfile.mkdtemp())
    sys.path.insert(0, os.getcwd())
    shell = Shell(request)
    before: dict[str, Any] = {}
    for cell in request["cells"]:
        add(result_path, running=cell["id"])
        outputs = shell.run(cell["source"])
        values = {name: shell.value(name) for name in request["names"]}
        add(result_path, cells={cell["id"]: outputs}, **({"values": values} if values != before else {}))
        before = values
    add(result_path, running=None)


def add(path: Path, **learnt: Any) -> None:
    """Add a line to the result; opened each time, since a cell can close every file that is open."""
    with path.open("a", encoding="utf-8", errors="surrogatepass") as file:
        file.write(json.dumps(learnt) + "\n")


def write(path: Path, result: dict[str, Any]) -> None:
    draft = path.with_suffix(".part")
    draft.write_text(json.dumps(result), encoding="utf-8", errors="surrogatepass")
    draft.replace(path)


if __name__ == "__main__":
    main()
