"""Enter the namespaces of another process."""

from __future__ import annotations

import ctypes
import fcntl
import os

NEW_USER = 0x1000_0000
FLAGS = {
    "ipc": 0x0800_0000, "uts": 0x0400_0000, "net": 0x4000_0000, "cgroup": 0x0200_0000, "pid": 0x2000_0000,
    "mnt": 0x0002_0000,
}  # fmt: skip
GET_OWNER = 0xB701   # ioctl NS_GET_USERNS: the user namespace that a namespace belongs to


def enter(pid: int) -> None:
    """All those of process `pid`; our children will be in its process namespace, not we.

    An ordinary user's come with a user namespace that owns them, to be entered first, and another one within
    it, the last, that can make no more of them (bubblewrap's --disable-userns).
    """
    libc = ctypes.CDLL(None, use_errno=True)

    def join(number: int, kind: int) -> None:
        if libc.setns(number, kind) != 0:
            raise OSError(ctypes.get_errno(), "setns")

    found = {name: os.open(f"/proc/{pid}/ns/{name}", os.O_RDONLY | os.O_CLOEXEC) for name in (*FLAGS, "user")}
    found["owner"] = fcntl.ioctl(found["mnt"], GET_OWNER)
    place = os.stat("/proc/self/ns/user").st_ino
    for name in ("owner", *FLAGS, "user"):
        if name not in ("owner", "user"):
            join(found[name], FLAGS[name])
        elif os.fstat(found[name]).st_ino != place:
            join(found[name], NEW_USER)
            place = os.fstat(found[name]).st_ino
    for number in found.values():
        os.close(number)
