"""What a box shows of this machine: paths, environment, and the few files of its /etc. Nothing else can be
seen in it.
"""

from __future__ import annotations

import functools
import importlib.metadata
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import autograder

HOST = "box"
SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store", "/gnu/store")
OPTIONAL = ("/etc/ld.so.cache", "/etc/alternatives", "/sys/devices/system/cpu", "/sys/devices/system/node")
# Parts of Python's prefix, never the whole: a virtual environment can be made in the course's own folder.
PYTHON_PARTS = ("bin", "lib", "lib32", "lib64", "pyvenv.cfg")
PACKAGES = ("site-packages", "dist-packages")
GPUS = re.compile(r"nvidia(\d+|ctl|-uvm|-uvm-tools|-modeset|-caps)")


def environment() -> dict[str, str]:
    """What a process of the box has in its environment: nothing of ours but where Python looks."""
    kept = {
        "PATH": os.pathsep.join([os.path.dirname(sys.executable), "/usr/local/bin", "/usr/bin", "/bin"]),
        "HOME": "/tmp", "USER": "labo", "LOGNAME": "labo", "LANG": "C.UTF-8",
    }  # fmt: skip
    libraries = os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep)
    libraries = [one for one in libraries if one and _under(one, read_only())]
    if libraries:
        kept["LD_LIBRARY_PATH"] = os.pathsep.join(libraries)
    added = [*_added_packages(), *([] if _installed() else [str(_package().parent)])]
    if added:
        kept["PYTHONPATH"] = os.pathsep.join(added)
    return kept


@functools.cache
def read_only() -> tuple[str, ...]:
    """The folders and files that are seen as they are: the system's and Python's."""
    found = [path for path in SYSTEM if os.path.isdir(path)]
    for path in [*_python(), *_added_packages(), str(_package())]:
        for shown in dict.fromkeys([path, os.path.realpath(path)]):
            if os.path.exists(shown) and not _under(shown, found):
                found.append(shown)
    return tuple(found)


def _under(path: str, tops: list[str] | tuple[str, ...]) -> bool:
    return any(Path(path).is_relative_to(top) for top in tops)


def _python() -> Iterator[str]:
    """This Python's parts: those of its prefixes, and whatever its executable's links pass through."""
    prefixes = {sys.prefix, sys.exec_prefix, sys.base_prefix, sys.base_exec_prefix}
    path = sys.executable
    for _ in range(40):
        prefix = os.path.dirname(os.path.dirname(path))
        library = Path(prefix, "lib", f"python{sys.version_info.major}.{sys.version_info.minor}")
        if library.is_dir():
            prefixes.add(prefix)
        else:
            yield path   # `~/bin/python`: not the rest of ~/bin
        if not os.path.islink(path):
            break
        path = os.path.normpath(os.path.join(os.path.dirname(path), os.readlink(path)))
    for prefix in sorted(prefixes):
        yield from (os.path.join(prefix, part) for part in PYTHON_PARTS)


def _added_packages() -> list[str]:
    """Folders of packages that this Python has from elsewhere (`pip install --user`, a cluster's modules)."""
    own = [*(path for path in SYSTEM if os.path.isdir(path)), *_python()]
    return [
        path for path in dict.fromkeys(sys.path)
        if Path(path).name in PACKAGES and os.path.isdir(path) and not _under(path, own)
    ]  # fmt: skip


def _package() -> Path:
    return Path(autograder.__file__).parent


def _installed() -> bool:
    """Whether Python finds us without help: in the box a checkout shows this package only."""
    return any(
        Path(str(found.locate_file(""))).name in PACKAGES
        for found in importlib.metadata.distributions(name="autograder")
    )


def gpus() -> list[str]:
    """The device files of this machine's NVIDIA GPUs."""
    return sorted(f"/dev/{name}" for name in os.listdir("/dev") if GPUS.fullmatch(name))


def write_etc(folder: Path, user: int) -> None:
    """The box's own /etc: its host name has an address, its user a name."""
    files = {
        "hosts": f"127.0.0.1 localhost {HOST}\n::1 localhost {HOST}\n",
        "nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
        "passwd": f"root:x:0:0::/:/bin/sh\nlabo:x:{user}:{user}::/tmp:/bin/sh\n",
        "group": f"root:x:0:\nlabo:x:{user}:\n",
    }
    folder.mkdir()
    for name, content in files.items():
        (folder / name).write_text(content, encoding="ascii")
        (folder / name).chmod(0o644)
