"""What a process that stays must know of what it was started from: shared with the server, hence the
standard library's smallest parts only.
"""

from __future__ import annotations

import os

# Read by Python, the C library or torch while they start or are loaded: a command that has another value than
# the server had is executed. (PYTHON itself, which make and some shells export, is nothing to Python.)
AT_START = (
    "PYTHON?*", "LANG", "LC_*", "TZ", "LD_*", "MALLOC_*", "GLIBC_*", "OMP_*", "GOMP_*", "KMP_*", "MKL_*",
    "OPENBLAS_*", "TORCH*", "PYTORCH_*", "ATEN_*", "KINETO_*", "NPY_*", "NUMPY_*", "LOGLEVEL", "CUDA_*",
)  # fmt: skip
PACKAGES = ("site-packages", "dist-packages")


def of(package: str, path: list[str]) -> list[tuple[str, int, int, int]]:
    """Each file of `package`, and each folder of `path` where packages are installed, with what tells that it
    was changed: another text, another release of torch.
    """
    found = [os.path.join(place, name) for place, _, names in os.walk(package) for name in names
             if not name.endswith(".pyc")]
    found += [place for place in path if os.path.basename(place) in PACKAGES]
    state = []
    for name in sorted(found):
        try:
            status = os.stat(name)
        except OSError:
            state.append((name, -1, -1, -1))
            continue
        size = 0 if os.path.isdir(name) else status.st_size
        state.append((name, status.st_ino, status.st_mtime_ns, size))
    return state
