"""Headless Chromium and JupyterLab, for the tests that click as people do.

The browser's driver is the one that Debian installs beside it (Selenium's own manager would download one).
Profile and Jupyter's folders are temporary; the port was free a moment before. What is started is our child
and is ended by its id, kernels and renderers with it.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import psutil
import pytest

ROOT = Path(__file__).resolve().parent.parent
WAIT_S = 180.0  # of a condition, not of a machine: a page takes seconds, a busy one many
READY_S = 180.0
STOP_S = 30.0

# JupyterLab as it is, but for what asks the network, what covers the page, and cells that are not in it yet.
LAB_SETTINGS = {
    "apputils-extension/notification": {
        "fetchNews": "false", "checkForUpdates": False, "doNotDisturbMode": True,
    },
    "notebook-extension/tracker": {"windowingMode": "none"},
}  # fmt: skip


def why_not() -> str | None:
    """Why no browser can be driven here."""
    for needed in (("chromium", "chromium-browser"), ("chromedriver",)):
        if not any(map(shutil.which, needed)):
            return f"{needed[0]} is not installed here (Debian: apt-get install chromium chromium-driver)"
    try:
        import selenium  # noqa: F401
    except ImportError:
        return "selenium is not installed here (pip install -e '.[dev]')"
    return None


@contextlib.contextmanager
def chromium(width: int = 1280, height: int = 900, *arguments: str) -> Iterator[Any]:
    """A WebDriver of Debian's Chromium; the test is skipped, with the reason, where there is none."""
    if why := why_not():
        pytest.skip(why)
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    with tempfile.TemporaryDirectory(prefix="chromium-", ignore_cleanup_errors=True) as folder:
        options = webdriver.ChromeOptions()
        options.binary_location = str(shutil.which("chromium") or shutil.which("chromium-browser"))
        for argument in (
            "--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", "--no-first-run",
            "--disable-background-networking", "--disable-component-update", "--disable-sync",
            "--force-color-profile=srgb", "--hide-scrollbars",
            f"--user-data-dir={folder}/profile", f"--window-size={width},{height}", *arguments,
        ):  # fmt: skip
            options.add_argument(argument)
        options.set_capability("goog:loggingPrefs", {"performance": "ALL", "browser": "ALL"})
        service = Service(
            executable_path=str(shutil.which("chromedriver")),  # so that Selenium looks for none
            env={**os.environ, "HOME": folder, "TMPDIR": folder},  # crash reports, caches
        )
        driver = None
        try:
            driver = webdriver.Chrome(options=options, service=service)
            driver.set_page_load_timeout(WAIT_S)
            driver.set_script_timeout(WAIT_S)
            yield driver
        finally:
            family = _family(service.process.pid) if getattr(service, "process", None) else []
            if driver is not None:
                with contextlib.suppress(Exception):
                    driver.quit()
            with contextlib.suppress(Exception):
                service.stop()
            _end(family)


def wait(driver: Any, condition: Callable[[Any], Any], what: str, seconds: float | None = None) -> Any:
    """What `condition(driver)` gives once it is true; an element not there yet is looked for again."""
    from selenium.common import exceptions
    from selenium.webdriver.support.ui import WebDriverWait

    ignored = (
        exceptions.NoSuchElementException, exceptions.StaleElementReferenceException,
        exceptions.ElementNotInteractableException, exceptions.ElementClickInterceptedException,
    )  # fmt: skip
    seconds = WAIT_S if seconds is None else seconds
    patient = WebDriverWait(driver, seconds, poll_frequency=0.1, ignored_exceptions=ignored)
    try:
        return patient.until(condition)
    except exceptions.TimeoutException:
        said = "\n".join(str(entry.get("message")) for entry in driver.get_log("browser")[-8:])
        raise AssertionError(f"not within {seconds:g} s: {what} ({driver.current_url})\n{said}") from None


@dataclass(frozen=True)
class Lab:
    """A JupyterLab that answers: `url("lab/tree/x.ipynb")` is a page of it."""

    root: Path
    address: str
    token: str
    log: Path
    process: subprocess.Popen[bytes]

    def url(self, path: str) -> str:
        return f"{self.address}{path}{'&' if '?' in path else '?'}token={self.token}"


@contextlib.contextmanager
def jupyterlab(root: Path, env: Mapping[str, str] | None = None) -> Iterator[Lab]:
    """JupyterLab started in `root`, as `jupyter lab` typed there; its kernels have `env` too."""
    with tempfile.TemporaryDirectory(prefix="jupyter-", ignore_cleanup_errors=True) as folder:
        own = Path(folder)
        settings = own / "config" / "lab" / "user-settings" / "@jupyterlab"
        for name, values in LAB_SETTINGS.items():
            path = settings / f"{name}.jupyterlab-settings"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(values), encoding="utf-8")
        token = secrets.token_hex(16)
        log = own / "log"
        with log.open("wb") as out:
            process = subprocess.Popen(
                [
                    sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", "--ip=127.0.0.1",
                    f"--port={_free_port()}", "--ServerApp.port_retries=50",
                    f"--IdentityProvider.token={token}", f"--ServerApp.root_dir={root}",
                    "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
                ],
                cwd=root, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT,
                env=_jupyter_environment(own) | dict(env or {}),
            )  # fmt: skip
        try:
            yield Lab(root, _address(process, own / "runtime", log), token, log, process)
        finally:
            family = _family(process.pid)
            process.terminate()  # it ends its kernels, then itself
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(STOP_S)
            _end(family)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(STOP_S)


def _jupyter_environment(own: Path) -> dict[str, str]:
    """Nothing of whoever runs the tests: the virtual environment's extensions, and folders of our own."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(("JUPYTER", "IPYTHON"))}
    env |= {
        "JUPYTER_CONFIG_DIR": str(own / "config"), "JUPYTER_DATA_DIR": str(own / "data"),
        "JUPYTER_RUNTIME_DIR": str(own / "runtime"), "IPYTHONDIR": str(own / "ipython"),
        "PYTHONPATH": str(ROOT), "PYTHONUTF8": "1", "MPLBACKEND": "agg",
        # As an environment that was activated: torchrun, alembic.
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")]),
    }  # fmt: skip
    (own / "runtime").mkdir(mode=0o700)
    return env


def _address(process: subprocess.Popen[bytes], runtime: Path, log: Path) -> str:
    """Where it listens, once it does: it says so in a file, whatever port it had to take."""
    limit = time.monotonic() + READY_S
    while time.monotonic() < limit and process.poll() is None:
        with contextlib.suppress(OSError, ValueError, KeyError):
            told = json.loads((runtime / f"jpserver-{process.pid}.json").read_text(encoding="utf-8"))
            with socket.create_connection(("127.0.0.1", int(told["port"])), timeout=5):
                return str(told["url"])
        time.sleep(0.1)
    raise RuntimeError(f"JupyterLab does not answer:\n{log.read_text(errors='replace')[-3000:]}")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _family(pid: int) -> list[psutil.Process]:
    with contextlib.suppress(psutil.Error):
        process = psutil.Process(pid)
        return [process, *process.children(recursive=True)]
    return []


def _end(family: list[psutil.Process]) -> None:
    """End those that are still there: psutil knows a process by its start, not by its number alone."""
    _, left = psutil.wait_procs(family, timeout=5)
    for process in left:
        with contextlib.suppress(psutil.Error):
            process.kill()
    psutil.wait_procs(left, timeout=5)


def accessibility(driver: Any) -> list[str]:
    """What axe finds wrong on the page that is open: the rule, how grave, and where."""
    rules = resources.files("axe_core_python").joinpath("axe.min.js").read_text(encoding="utf-8")
    driver.execute_script(rules)
    found = driver.execute_async_script("axe.run().then(arguments[arguments.length - 1])")
    assert found["passes"], "axe looked at nothing"
    return [
        f"{one['id']} ({one['impact']}): {node['html'][:200]}"
        for one in found["violations"] for node in one["nodes"][:3]
    ]  # fmt: skip


def requested(driver: Any) -> list[str]:
    """The addresses that the pages opened so far asked for."""
    found = []
    for entry in driver.get_log("performance"):
        message = json.loads(entry["message"])["message"]
        if message["method"] == "Network.requestWillBeSent":
            found.append(message["params"]["request"]["url"])
    return found


def open_file(driver: Any, path: Path) -> None:
    driver.get(path.resolve().as_uri())
