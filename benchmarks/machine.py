"""What every figure depends on: said before each table."""

from __future__ import annotations

import importlib.metadata
import os
import platform
from pathlib import Path


def describe(*packages: str) -> str:
    """Processor, cores, load, Python, and the versions of `packages`."""
    names = {"autograder": "autograder", **{name: name for name in packages}}
    versions = [f"{name} {_version(package)}" for name, package in names.items()]
    load = f", load {os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else ""
    return (
        f"{_processor()}, {os.cpu_count()} cores{load}; {platform.system()} {platform.release()}; "
        f"Python {platform.python_version()}; {', '.join(versions)}"
    )


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "absent"


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    """Columns as wide as they need, the first one to the left."""
    widths = [max(len(row[column]) for row in [head, *rows]) for column in range(len(head))]
    lines = [
        "  ".join(cell.ljust(width) if n == 0 else cell.rjust(width)
                  for n, (cell, width) in enumerate(zip(row, widths, strict=True)))
        for row in [head, *rows]
    ]  # fmt: skip
    return "\n".join([lines[0], "  ".join("-" * width for width in widths), *lines[1:]])
