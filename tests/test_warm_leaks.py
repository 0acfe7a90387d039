"""What a script finds in a process that a warm server forked: nothing that helps it, and nothing of others.

A forked process has the memory of the server, which has only what everybody has: Python's libraries, torch
and our own code. Some of that can be seen in a forked process and not in a fresh one, by a script that looks
for it (see SECURITY.md); each test here tells a thing that cannot be had that way.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from test_warm import WAYS, Way, started

from autograder.launch import command
from autograder.verdict.tampering import suspicions

pytestmark = [
    pytest.mark.launch,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="elsewhere every launch is a cold one"),
]


@pytest.fixture(scope="module", params=WAYS)
def way(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Way]:
    yield from started(request.param, tmp_path_factory.mktemp(request.param))


LOOK = """\
    import gc, json, os, sys
    first = set(sys.modules)
    holds = []
    for finder in sys.meta_path:   # before anything is hooked
        holds += [name for name in dir(finder) if not name.startswith("__") and name not in (
            "find_spec", "find_module", "find_distributions", "invalidate_caches", "discover", "mro")
            and type(finder).__module__ not in ("_distutils_hack", "_frozen_importlib_external")
            and finder not in sys.meta_path[-3:]]
    import torch, torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel
    ours = ("_warm", "_autograder", "_box", "autograder", "sitecustomize")

    def named(what):
        return str(getattr(what, "__module__", "") or "").startswith(ours)

    def words(path):
        with open(path, "rb") as file:
            return [one.decode() for one in file.read().split(b"\\0") if one]

    print(json.dumps({
        "holds": holds, "first": sorted(first),
        "modules": sorted(name for name in sys.modules if name.startswith(ours)),
        "living": sorted({type(one).__name__ for one in gc.get_objects() if callable(one) and named(one)}),
        "referrers": len([one for one in gc.get_referrers(dist) if type(one).__name__ == "Modules"]),
        "environ": sorted(words("/proc/self/environ")), "exe": os.readlink("/proc/self/exe"),
        "maps": sorted({line.split()[-1] for line in open("/proc/self/maps") if "autograder" in line}),
        "open": sorted(os.listdir("/proc/self/fd")),
        "task": len(os.listdir("/proc/self/task")), "root": os.readlink("/proc/self/cwd") == os.getcwd(),
        "parent": [os.path.basename(os.readlink(f"/proc/{os.getppid()}/exe"))
                   if os.access(f"/proc/{os.getppid()}/exe", os.R_OK) else None],
        "processes": len([one for one in os.listdir("/proc") if one.isdigit()]) < 6,
        "flags": str(sys.flags), "warn": sys.warnoptions, "x": str(sys._xoptions), "uid0": os.getuid() == 0,
        "trace": [str(sys.gettrace()), str(sys.getprofile())], "limits": open("/proc/self/limits").read(),
        "nice": os.getpriority(os.PRIO_PROCESS, 0), "oom": open("/proc/self/oom_score_adj").read(),
    }))
    """


def test_a_script_that_looks_finds_no_more_than_in_a_fresh_process(way: Way, tmp_path: Path) -> None:
    found: list[dict[str, Any]] = []
    for warm in (False, True):
        run = way.run(tmp_path, LOOK, warm=warm, nproc=1)
        assert run.exit_code == 0, run.stderr
        found.append(json.loads(run.stdout))
    cold, forked = found
    # The server's own: nothing of the launch, least of all its seal; in a box, nothing of the grader's.
    before, now = ({one.partition("=")[0] for one in each.pop("environ")} for each in found)
    assert now <= before and not any(name.startswith("AUTOGRADER") for name in now)
    assert forked == cold


def test_no_unhooked_module_is_within_reach(way: Way, tmp_path: Path) -> None:
    """By way of what finds modules: an all_reduce that our recorder does not see."""
    source = """\
        import sys
        raw = []
        for finder in sys.meta_path:
            spec = finder.find_spec("torch.distributed.distributed_c10d", None, None)
            for one in (finder, getattr(spec, "loader", None)):
                for name in dir(one):
                    value = getattr(one, name, None)
                    kept = getattr(value, "kept", None) or value
                    if isinstance(kept, dict) and "torch" in kept or "c10d" in getattr(kept, "__name__", ""):
                        raw.append(name)
        import torch, torch.distributed as dist
        dist.init_process_group("gloo")
        x = torch.ones(2)
        dist.all_reduce(x)
        print("TROUVÉ", raw, x.tolist())
        dist.destroy_process_group()
        """
    run = way.run(tmp_path, source)
    assert "TROUVÉ [] [2.0, 2.0]" in run.stdout, run.stderr
    assert len([one for one in run.collectives if one.source == "mark"]) == 2


def test_asking_what_is_there_changes_nothing(way: Way, tmp_path: Path) -> None:
    source = """\
        import importlib.util, sys
        asked = [importlib.util.find_spec(name) for name in ("torch", "numpy", "absent_module")]
        print([one is not None for one in asked], "torch" in sys.modules)
        print(importlib.util.find_spec("torch.distributed").name, "torch" in sys.modules)
        name = "torch.distributed.fsdp"
        print(importlib.util.find_spec(name).name, name in sys.modules)
        import torch, torch.distributed as dist, torch.distributed.fsdp
        dist.init_process_group("gloo")
        x = torch.ones(2)
        dist.all_reduce(x)
        print(x.tolist(), torch.distributed.fsdp.__spec__.name)
        dist.destroy_process_group()
        """
    cold, warm = (way.run(tmp_path, source, warm=one) for one in (False, True))
    assert warm.stdout == cold.stdout and warm.exit_code == cold.exit_code == 0, warm.stderr
    for run in (cold, warm):
        assert [one.op for one in run.collectives if one.source == "mark"] == ["all_reduce"] * 2
        assert not [one for one in suspicions(run) if one.rank is not None and one.id != "introspection"]


SEARCH = """\
    import hashlib, re
    found = 0
    with open("/proc/self/maps") as maps, open("/proc/self/mem", "rb", 0) as memory:
        for line in maps:
            start, end = (int(one, 16) for one in line.split()[0].split("-"))
            if "r" in line.split()[1] and end - start < 1 << 30:
                try:
                    memory.seek(start)
                    data = memory.read(end - start)
                except (OSError, ValueError):
                    continue
                for one in re.finditer(rb"mot-secret-(LONG)", data):
                    found += hashlib.sha256(one[1]).hexdigest() == "DIGEST"
    print("TROUVÉ", found)
    """


def test_nothing_of_a_launch_is_in_the_memory_of_the_next(way: Way, tmp_path: Path) -> None:
    """Neither its variables nor its seal; and the search does find what is there."""
    secret = os.urandom(16).hex()
    digest = hashlib.sha256(secret.encode()).hexdigest()
    search = SEARCH.replace("LONG", "[0-9a-f]{32}").replace("DIGEST", digest)
    env = {"MCI_MOT": f"mot-secret-{secret}"}
    there = way.run(tmp_path, search, nproc=1, env=env)
    assert "TROUVÉ" in there.stdout and "TROUVÉ 0" not in there.stdout, there.stderr
    assert "TROUVÉ 0" in way.run(tmp_path, search, nproc=1).stdout


def test_the_launcher_s_seal_is_in_no_environment_of_a_rank(
    way: Way, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names: list[str] = []
    real = command.environment

    def environment(*given: Any, **more: Any) -> dict[str, str]:
        env = real(*given, **more)
        names.extend(env["AUTOGRADER_SEAL"].split())
        return env

    monkeypatch.setattr(command, "environment", environment)
    source = """\
        import os, sys
        frame, texts = sys._getframe(), []
        while frame is not None:
            texts += [str(value) for value in list(frame.f_locals.values()) if not hasattr(value, "__file__")]
            frame = frame.f_back
        texts += [open(f"/proc/self/{name}", "rb").read().decode() for name in ("environ", "cmdline")]
        print(" ".join(texts))
        """
    run = way.run(tmp_path, source, nproc=1, output_limit_bytes=8 << 20)
    assert run.exit_code == 0 and names and len(run.stdout) > 100
    assert not [seal for seal in names if seal in run.stdout]


# -- the server ----------------------------------------------------------------------------------------------

JOBS, MOST_BYTES = 250, 3 * 2**19   # of 20 kB that each job left there would be more


def test_the_server_does_not_grow(way: Way, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test of these was seen to fail with a leak put in the server on purpose."""
    (tmp_path / "temp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temp"))
    (tmp_path / "work").mkdir()
    for _ in range(3):
        way.run(tmp_path / "work", "print(1)", launcher=False)
    before = way.told()
    server = psutil.Process(before["server"])
    memory = server.memory_info().rss
    for _ in range(JOBS):
        assert way.told()["threads"] == 1
    for _ in range(3):
        way.run(tmp_path / "work", "print(1)", launcher=False)
    after = way.told()
    assert (after["server"], after["descriptors"]) == (before["server"], before["descriptors"])
    assert server.memory_info().rss < memory + MOST_BYTES
    assert list((tmp_path / "temp").iterdir()) == []
