"""Launches that showed each cause once: what was launched, and what must be told of what it left behind.

The Runs stand in tests/reproduced/; one that is not there is launched and kept by test_reproduced.py, so that
a case is added by writing it here. The causes of tests/broken are held by test_diagnosis.py.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from autograder.launch.run import Delay, Request
from autograder.verdict.cause import Context

HERE = Path(__file__).parent
GROUP = """\
import datetime, os, sys, time
import torch
import torch.distributed as dist

dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=5))
rank = dist.get_rank()
"""
MODEL = """\
from torch.nn.parallel import DistributedDataParallel as DDP
model = DDP(torch.nn.Linear(2, 1, bias=False))
"""
SOME = "group = dist.new_group([0, 1], timeout=datetime.timedelta(seconds=5))\n"
SKIPS = SOME + "if rank == 0:\n    dist.all_reduce(torch.ones(4), group=group)\n"


@dataclass(frozen=True)
class Case:
    """`id` and `rank` are the diagnosis; `line` where it must be known; `says` stands in its French text.

    `files` lie beside the script; `context` is a test's; `by_hand`: how this launch was brought about, where
    launching it again does not do it.
    """

    id: str
    source: str
    rank: int | None = None
    line: int | None = None
    says: str = ""
    cls: str = "P"
    request: dict[str, Any] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    context: Context | None = None
    by_hand: str = ""

    def asked(self) -> Request:
        return Request(**self.request)


def broken(name: str) -> str:
    return (HERE / "broken" / f"{name}.py").read_text(encoding="utf-8")


DETAIL = {"detail": True}
CASES: dict[str, Case] = {
    "no_launcher": Case("no-launcher", GROUP, 0, 5, "torchrun", request={"launcher": False}),
    "one_process": Case(
        "wrong-world", 'import os\nif os.environ["WORLD_SIZE"] != "2":\n'
        '    raise SystemExit("Ce laboratoire attend WORLD_SIZE=2.")\n', 0, says="ici 1",
        request={"nproc": 1}),
    "after_destroy": Case(
        "no-init", GROUP + "dist.destroy_process_group()\ndist.all_reduce(torch.ones(2))\n", 0, 8,
        "après `destroy_process_group`"),
    "nccl_without_gpu": Case(
        "nccl-no-gpu", 'import torch.distributed as dist\ndist.init_process_group("nccl")\n', None, 2),
    "nccl_refused": Case(
        "nccl-no-gpu", "import os, torch\n"
        'if os.environ.get("MCI_BACKEND") == "nccl" and not torch.cuda.is_available():\n'
        '    raise SystemExit("MCI_BACKEND=nccl demande un GPU visible.")\n',
        request={"env": {"MCI_BACKEND": "nccl"}}),
    "cuda_event": Case(
        "cuda-event-cpu", GROUP + "debut = torch.cuda.Event(enable_timing=True)\ndebut.record()\n", None, 7),
    "device_ids": Case(
        "ddp-device-ids", GROUP + "from torch.nn.parallel import DistributedDataParallel as DDP\n"
        "model = DDP(torch.nn.Linear(2, 1), device_ids=[rank])\n", None, 8),
    "shape_detail": Case("shape", broken("shape"), request=DETAIL, line=9),
    "dtype_detail": Case("dtype", broken("dtype"), request=DETAIL, line=9),
    "order_detail": Case("order", broken("order"), request=DETAIL, line=11),
    "missing_detail": Case("missing-rank", broken("skip_sleeps"), 1, request=DETAIL),
    "group_timed_out": Case(
        "timed-out", GROUP + SKIPS + "else:\n    time.sleep(30)\n", 0, 9, "5000 ms", "S",
        request={"nproc": 3}),
    "group_detail": Case(
        "missing-rank", GROUP + SKIPS + "else:\n    time.sleep(30)\n", 1,
        request={"nproc": 3, "detail": True}),
    "group_closed": Case(
        "closed", GROUP + SKIPS + "elif rank == 1:\n    sys.exit(0)\nelse:\n    time.sleep(30)\n", 0, 9,
        cls="S", request={"nproc": 3}),
    "reset": Case(
        "reset", GROUP + "import threading\nif rank == 1:\n    threading.Timer(1.0, os._exit, [0]).start()\n"
        "t = torch.ones(50_000_000)\nwhile True:\n    dist.all_reduce(t)\n", 0, 12, cls="S"),
    "tab_error": Case("syntax", "if True:\n\tx = 1\n        y = 2\n", line=3, says="Aucun rang"),
    "missing_file": Case("missing-file", "", says="absent.py", request={"script": "absent.py"}),
    "shadow_torch": Case(
        "shadow", "import torch\nimport torch.distributed as dist\n", None, 2, files={"torch.py": "x = 1\n"}),
    "shadow_random": Case(
        "shadow", "import random\nprint(random.random())\n", None, 1,
        files={"random.py": "import random\nprint(random.randint(0, 3))\n"}),
    "missing_module": Case("missing-module", "import seaborn_absent\n", None, 1, "seaborn_absent"),
    "port": Case(
        "port", "import os, time\nimport torch.distributed as dist\n"
        'store = dist.TCPStore("127.0.0.1", {port}, is_master=True, wait_for_workers=False)\n'
        "time.sleep(30)\n",
        line=3),
    "interface": Case(
        "ifname", GROUP, cls="I", request={"env": {"GLOO_SOCKET_IFNAME": "eth99"}}),
    "numpy": Case(
        "numpy", 'import sys\nsys.modules["numpy"] = None\nimport torch\ntorch.ones(2).numpy()\n', None, 4),
    "no_backward": Case(
        "no-backward", GROUP + MODEL + "loss = model(torch.ones(1, 2)).sum()\nif rank == 0:\n"
        "    loss.backward()\nelse:\n    time.sleep(30)\n"
        'print(f"gradient {rank} {model.module.weight.grad.tolist()}")\n', 1),
    "not_waited": Case(
        "async", GROUP + "t = torch.tensor([[1.0, 3.0], [5.0, 7.0]][rank])\nif rank == 1:\n"
        "    time.sleep(1)\ntravail = dist.all_reduce(t, async_op=True)\n"
        'print(f"moyenne {rank} {(t / 2).tolist()}", flush=True)\ntime.sleep(2)\n', 0, 10, "[0.5, 1.5]"),
    "ends_late": Case(
        "exit-hang", 'import os, threading, time\nprint(f"sort {os.environ[\'RANK\']}", flush=True)\n'
        "threading.Thread(target=time.sleep, args=(3600,)).start()\n", cls="N",
        request={"time_limit_s": 15.0}, context=Context(present=("sort 0", "sort 1"))),
    "encoding": Case(
        "stdout-enc", 'import sys\nsys.stdout.reconfigure(encoding="ascii")\nprint("terminé")\n', None, 3),
    "keyboard": Case("stdin", 'nom = input("Votre nom ? ")\n', None, 1),
    "exits": Case(
        "early-exit", "import os, sys\n"
        'print("Il manque un argument", file=sys.stderr, flush=True)\nos._exit(3)\n', 0,
        says="Il manque un argument"),
    "exits_silently": Case(
        "early-exit", "import os\nos._exit(0)\n", 0, context=Context(missing=("moyenne 0 [3.0, 5.0]",))),
    "waits_to_join": Case(
        "init-hang", 'import os, time\nimport torch.distributed as dist\nif os.environ["RANK"] == "1":\n'
        '    time.sleep(3600)\ndist.init_process_group("gloo")\n', 0, 5, request={"time_limit_s": 20.0}),
    "divided_twice": Case(
        "divided-twice", GROUP + "t = torch.tensor([[1.0, 3.0], [5.0, 7.0]][rank]) / 2\ndist.all_reduce(t)\n"
        'print(f"moyenne {rank} {(t / 2).tolist()}", flush=True)\n', 0, 8),
    "seconds": Case(
        "seconds-not-ms", GROUP + "probe = torch.ones(8)\ndebut = time.perf_counter()\n"
        "dist.all_reduce(probe)\nif rank == 0:\n"
        '    print("all_reduce_ms", time.perf_counter() - debut, flush=True)\n', 0, 9,
        request={"delays": (Delay(1, 0.3, numel=8),)}),
    "killed_at_work": Case(
        "killed", GROUP + "t = torch.ones(2)\ndist.all_reduce(t)\nif rank == 1:\n"
        "    os.kill(os.getpid(), 9)\ndist.all_reduce(t)\n", 1, 8, "Il sortait de `all_reduce`"),
    "segfault": Case(
        "crash", "import ctypes, os, time\nif os.environ['RANK'] == '1':\n    ctypes.string_at(0)\n"
        "time.sleep(20)\n", 1, 3, "SIGSEGV"),
    "ends_itself": Case(
        "unknown", "import os, signal, sys, time\nif os.environ['RANK'] == '1':\n"
        '    print("mesure : 12", file=sys.stderr, flush=True)\n    os.kill(os.getpid(), signal.SIGTERM)\n'
        "time.sleep(20)\n", says="mesure : 12"),
    "slow_ddp": Case(
        "slow-step", GROUP + MODEL + "for step in range(6):\n    if rank == 0:\n        time.sleep(0.06)\n"
        "    model(torch.ones(1, 2)).sum().backward()\nprint('fin', rank)\n"
        "del model\ndist.destroy_process_group()\n", 0, cls="-"),
    "slow_and_stopped": Case(
        "slow-step", GROUP + "while True:\n    if rank == 1:\n        time.sleep(1)\n"
        "    dist.all_reduce(torch.ones(8))\n", 1, 10, "Ce n'est pas un blocage",
        request={"time_limit_s": 45.0}),
    "unfinished": Case(
        "unfinished", GROUP + "while True:\n    time.sleep(0.5)\n    dist.all_reduce(torch.ones(8))\n",
        says="Ce n'est pas un blocage", request={"time_limit_s": 45.0}),
    "host_name": Case(
        "hostname", "import socket\nimport torch.distributed as dist\n"
        "dist.init_process_group('gloo', init_method=f'tcp://{socket.gethostname()}:29541', rank=0,\n"
        "                        world_size=1)\n", cls="I", request={"nproc": 1},
        by_hand="with a host name that resolves to nothing: unshare --uts, hostname"),
    "without_torch": Case(
        "no-torch", "import torch\n", cls="I", by_hand="by a Python that has all but torch"),
    "joins_again": Case(
        "init-twice", "import torch\nimport torch.distributed as dist\nfor turn in range(2):\n"
        '    dist.init_process_group("gloo")\n    pair = dist.new_group()\n'
        "    dist.all_reduce(torch.ones(1), group=pair)\n    dist.destroy_process_group(pair)\n"
        "    dist.all_reduce(torch.ones(2))\n    dist.destroy_process_group()\n", None, 4,
        by_hand="launched until it happened"),
}
