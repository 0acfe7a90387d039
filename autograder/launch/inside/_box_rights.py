"""Give up, in a process of a box, whatever right it came with, for good."""

from __future__ import annotations

import ctypes
import os
import resource

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

SET_DUMPABLE, CAPBSET_DROP, SET_SECCOMP, SET_NO_NEW_PRIVS = 4, 24, 22, 38   # prctl
CAPABILITIES = 0x2008_0522   # version 3 of capset's structures
NICE = 10   # of the agents: the grader's own work comes first
_ZERO = ctypes.c_ulong(0)


def prctl(option: int, value: Any, third: Any = _ZERO) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(option, value, third, _ZERO, _ZERO) != 0 and option != CAPBSET_DROP:
        raise OSError(ctypes.get_errno(), f"prctl {option}")


def set_limits(limits: dict[str, int]) -> None:
    """What an agent, and all that comes of it, may use."""
    os.nice(NICE)
    for name, most in limits.items():
        resource.setrlimit(getattr(resource, f"RLIMIT_{name}"), (most, most))


def give_up(user: int | None, filter: str) -> None:
    """`user`: the id to take, for root; None for an ordinary user, who has none to choose. `filter`: system
    calls that are refused from here on (see syscalls.py).
    """
    for capability in range(64):
        prctl(CAPBSET_DROP, ctypes.c_ulong(capability))
    if user is not None:
        os.setgroups([])
        os.setresgid(user, user, user)
        os.setresuid(user, user, user)
    libc = ctypes.CDLL(None, use_errno=True)
    # An ordinary user has every capability in the namespace of its own that it entered.
    header, none = (ctypes.c_uint32 * 2)(CAPABILITIES, 0), (ctypes.c_uint32 * 6)()
    if libc.capset(header, none) != 0:
        raise OSError(ctypes.get_errno(), "capset")
    prctl(SET_NO_NEW_PRIVS, ctypes.c_ulong(1))
    prctl(SET_DUMPABLE, _ZERO)   # no agent reads our memory or descriptors, though it has the same uid
    code = bytes.fromhex(filter)
    if code:
        class Program(ctypes.Structure):
            _fields_ = [("len", ctypes.c_ushort), ("filter", ctypes.c_char_p)]

        program = Program(len(code) // 8, code)
        prctl(SET_SECCOMP, ctypes.c_ulong(2), ctypes.byref(program))
    os.umask(0o022)
