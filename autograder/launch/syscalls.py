"""The system calls that nothing in a box may make, as a filter for the kernel (seccomp).

What a course's script never needs and an escape would: other processes' memory, the grader's keys, namespaces
and mounts of its own, the kernel's own programs. They fail with EPERM, as they do without the right to them.
"""

from __future__ import annotations

import platform
import struct

# name: number on x86_64, on aarch64
DENIED = {
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271),
    "pidfd_getfd": (438, 438), "kcmp": (312, 272),
    "add_key": (248, 217), "request_key": (249, 218), "keyctl": (250, 219),
    "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41), "setns": (308, 268),
    "open_tree": (428, 428), "move_mount": (429, 429), "fsopen": (430, 430), "fsconfig": (431, 431),
    "fsmount": (432, 432), "fspick": (433, 433), "mount_setattr": (442, 442),
    "bpf": (321, 280), "perf_event_open": (298, 241), "userfaultfd": (323, 282),
    "io_uring_setup": (425, 425), "io_uring_enter": (426, 426), "io_uring_register": (427, 427),
}  # fmt: skip
CLONE, UNSHARE, CLONE3 = (56, 220), (272, 97), (435, 435)
NEW_NAMESPACES = 0x7E02_0000 | 0x0000_0080  # every CLONE_NEW… flag
X32 = 0x4000_0000  # x86_64's other numbering
ARCHITECTURES = {"x86_64": 0xC000_003E, "aarch64": 0xC000_00B7}

ALLOW, FAIL = 0x7FFF_0000, 0x0005_0000
EPERM, ENOSYS = 1, 38
LOAD, EQUAL, AT_LEAST, ANY_BIT, RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
NUMBER, ARCHITECTURE, FIRST_ARGUMENT = 0, 4, 16  # offsets in struct seccomp_data


def program(machine: str | None = None) -> bytes:
    """The filter for this machine, b"" for one whose numbers are not known."""
    machine = machine or platform.machine()
    if machine not in ARCHITECTURES:
        return b""
    own = list(ARCHITECTURES).index(machine)
    denied = [numbers[own] for numbers in DENIED.values()]
    steps = [(LOAD, 0, 0, ARCHITECTURE), (EQUAL, 1, 0, ARCHITECTURES[machine]), (RETURN, 0, 0, FAIL | EPERM)]
    steps += [(LOAD, 0, 0, NUMBER)]
    if machine == "x86_64":
        steps += [(AT_LEAST, 0, 1, X32), (RETURN, 0, 0, FAIL | EPERM)]
    for number in denied:
        steps += [(EQUAL, 0, 1, number), (RETURN, 0, 0, FAIL | EPERM)]
    # Its flags stand in memory, where a filter cannot look: the C library then takes `clone`.
    steps += [(EQUAL, 0, 1, CLONE3[own]), (RETURN, 0, 0, FAIL | ENOSYS)]
    steps += [(EQUAL, 1, 0, CLONE[own]), (EQUAL, 0, 3, UNSHARE[own])]
    steps += [(LOAD, 0, 0, FIRST_ARGUMENT), (ANY_BIT, 0, 1, NEW_NAMESPACES), (RETURN, 0, 0, FAIL | EPERM)]
    steps += [(RETURN, 0, 0, ALLOW)]
    return b"".join(struct.pack("=HBBI", code, yes, no, value) for code, yes, no, value in steps)
