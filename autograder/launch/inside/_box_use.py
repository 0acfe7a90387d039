"""What the processes of a box use."""

from __future__ import annotations

import os
import resource


def own_memory(pid: int) -> int:
    """What a process holds that is no file's: pages that it shares with those that it was forked from too."""
    with open(f"/proc/{pid}/statm", encoding="ascii") as file:
        fields = file.read().split()
    return (int(fields[1]) - int(fields[2])) * resource.getpagesize()


def held() -> int:
    """What they hold together, each page once; slower to tell."""
    total = 0
    for pid in others():
        try:
            try:
                with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as file:
                    told = dict(line.split(":", 1) for line in file.read().splitlines()[1:])
                total += 1024 * sum(int(told[name].split()[0]) for name in ("Pss_Anon", "Pss_Shmem"))
            except (PermissionError, KeyError):   # one that closed itself to us, an old kernel
                total += own_memory(pid)
        except (OSError, ValueError, IndexError):
            continue
    return total


def others() -> list[int]:
    """The processes of the box that run, but for this one."""
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit() and entry != "1":
            try:
                with open(f"/proc/{entry}/stat", encoding="utf-8", errors="replace") as file:
                    if file.read().rpartition(")")[2].split()[0] not in "ZX":
                        found.append(int(entry))
            except (OSError, IndexError):
                continue
    return found
