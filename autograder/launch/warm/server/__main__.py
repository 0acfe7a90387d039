"""The warm server: a process of one thread that has everything loaded, and forks for each launch.

Run as `python server/__main__.py SOCKET LIFELINE KIND`, the first two numbers of descriptors: it serves the
listening socket until the other one ends. KIND: `launch` for labo.py, `notebook` for the cells and tests of a
copy. With more arguments (see _warm_own.py) it makes the socket itself, once it is ready. It reads nothing of
a request itself: the process that it forks does, so that nothing of one launch is ever in the memory of
another one's processes.
"""

from __future__ import annotations

import os
import sys
import warnings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

FRESH = set(sys.modules)   # what a Python has that has just started: the three above among them
sys.path[0] = os.path.dirname(os.path.abspath(__file__))

from _warm_modules import Modules, settle  # type: ignore[import-not-found]  # noqa: E402

# What a launch imports sooner or later, torch first.
LOADED = (
    "torch", "torch.distributed.run", "torch.distributed.elastic.rendezvous.static_tcp_rendezvous",
    "torch.distributed.elastic.multiprocessing.subprocess_handler.subprocess_handler", "torch._dynamo",
    "torch.distributed.fsdp", "torch.distributed.checkpoint", "torch.optim", "torch.utils.data",
    "torch.profiler", "runpy", "json", "random", "statistics", "csv", "logging", "threading", "traceback",
    "datetime", "resource", "ctypes", "encodings.idna", "multiprocessing.popen_fork",
    "multiprocessing.queues", "array", "fcntl", "select", "signal", "socket", "struct", "subprocess",
    "weakref", "linecache",
)  # fmt: skip
# What the two sides of a notebook import (see autograder/notebook/): nothing of it is a student's.
NOTEBOOK = (
    "IPython.core.interactiveshell", "IPython.core.displayhook", "IPython.core.displaypub", "psutil",
    "autograder.leftovers", "autograder.notebook.plain", "autograder.notebook.student_shell",
    "autograder.notebook.test_shell", "autograder.launch.store", "autograder.course", "autograder.messages",
    "autograder.verdict.marks", "autograder.verdict.gpu_marks", "autograder.verdict.forms",
    "autograder.verdict.pasted", "autograder.verdict.slurm", "autograder.verdict.personal",
    "autograder.verdict.meeting", "autograder.verdict.members", "autograder.verdict.diagnosis",
    "autograder.verdict.tampering", "autograder.verdict.raw_output", "autograder.verdict.draw",
)  # fmt: skip
# Where the recorder hooks functions that others have copied (see recorder/sitecustomize.py).
HOOKED = (
    "torch", "torch.distributed.distributed_c10d", "torch.nn.parallel.distributed", "torch.cuda.streams",
    "torch.cuda",
)  # fmt: skip


def main() -> None:
    environment = dict(os.environ)   # before a library adds to it
    os.environ["TMPDIR"] = os.getcwd()   # of whoever started us: there torch makes a folder as it is loaded
    launches = sys.argv[3] == "launch"
    alone: Any = None
    if len(sys.argv) > 4:
        import _warm_own  # type: ignore[import-not-found]

        alone = _warm_own.Own(*sys.argv[4:], detached=int(sys.argv[2]) < 0)
    if not launches:
        os.environ["OPENBLAS_NUM_THREADS"] = "1"   # one thread, when we fork; a launch's own variables say so
    modules = Modules(FRESH)
    filters: Any = list(warnings.filters)
    if launches:
        modules.load(LOADED[:1])
        filters = list(warnings.filters)
    modules.load(LOADED if launches else (*NOTEBOOK, *LOADED))
    for name in os.listdir():
        if name.startswith("torchinductor_"):
            try:
                os.rmdir(name)
            except OSError:   # another server's too
                continue
    os.environ.pop("TMPDIR")   # who is forked gets an environment of its own
    os.chdir("/")
    # Those of what a script has not imported are not for it.
    warnings.filters[:] = filters   # type: ignore[index]
    warnings._filters_mutated()   # type: ignore[attr-defined]
    # All of ours: a box does not show them.
    import _warm_agent  # type: ignore[import-not-found]
    import _warm_job  # type: ignore[import-not-found]
    import _warm_parts  # type: ignore[import-not-found]
    import _warm_process  # type: ignore[import-not-found]
    import _warm_script  # type: ignore[import-not-found]
    import _warm_serve  # type: ignore[import-not-found]

    fresh = _warm_process.Fresh(modules, sys.path[1:], _warm_parts.recorder(), environment)
    fresh.agent, fresh.script, fresh.module = _warm_agent.agent, _warm_script.run, _warm_script.run_module
    modules.ready((*NOTEBOOK, *LOADED), HOOKED)
    modules.hide()
    settle()
    if alone is None:
        listening = _warm_serve.socket.socket(fileno=int(sys.argv[1]))
    else:
        listening = alone.listen(_warm_serve)
    connection = _warm_serve.serve(fresh, listening, int(sys.argv[2]), alone)
    if connection is not None:
        _warm_job.work(fresh, connection)
    if alone is not None:
        alone.leave()


if __name__ == "__main__":
    main()
