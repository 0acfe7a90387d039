"""What a script does to deceive is evident to a person; honest work never is; no mark changes by it."""

from __future__ import annotations

import dataclasses
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest
import tiny_course
from rich.console import Console
from runs_made import GOOD, a_run, averaging, call, log

from autograder import marks, messages
from autograder.batch.grade import ClassReport, Row
from autograder.batch.record import Recorded
from autograder.commands.student import check_json
from autograder.launch import command, evidence, run_request, untrusted
from autograder.launch.run import Event, Request, Run
from autograder.notebook.examine import examine
from autograder.notebook.result import CopyResult
from autograder.report.table import class_view
from autograder.verdict import marks as module
from autograder.verdict import record_look, script_look, tampering
from autograder.verdict.suspicion import seen

ROOT = Path(__file__).resolve().parent.parent
SAVED = [*sorted((ROOT / "tests" / "runs").glob("*.json")),
         *sorted((ROOT / "tests" / "runs_broken").glob("*.json"))]


# -- honest work -----------------------------------------------------------------------------------

def honest_scripts() -> Iterator[tuple[str, str]]:
    """Every script that the course gives, teaches, or calls right; and the sample class's."""
    for path in sorted([*ROOT.glob("source/*/*.ipynb"), *ROOT.glob("release/*/*.ipynb")]):
        for cell in nbformat.read(path, 4).cells:
            head, _, body = cell.source.partition("\n")
            if cell.cell_type == "code" and re.match(r"%%writefile \S+\.py", head):
                yield f"{path.relative_to(ROOT)}: {head}", body
    for pattern in ("source/*/*.py", "tests/wrong/*/right*", "examples/class/**/*.py"):
        for found in sorted(ROOT.glob(pattern)):
            for path in [found] if found.is_file() else sorted(found.rglob("*.py")):
                yield str(path.relative_to(ROOT)), path.read_text(encoding="utf-8")


def test_no_honest_script_is_suspicious() -> None:
    looked = dict(honest_scripts())
    assert len(looked) > 90
    found = {name: script_look.look(source) for name, source in looked.items()}
    assert {name: one for name, one in found.items() if one} == {}


def test_no_saved_record_is_suspicious() -> None:
    """All of them: right, wrong, hung, killed, with simulated GPUs, of an older recorder."""
    assert len(SAVED) > 500
    found = {path.name: record_look.look(Run.from_json(path.read_text(encoding="utf-8"))) for path in SAVED}
    assert {name: one for name, one in found.items() if one} == {}


@pytest.mark.parametrize("line", [
    "torch.backends.cudnn.benchmark = True",
    "sys.stdout = open('journal.txt', 'w')",
    "lignes = eval(os.environ['MCI_LIGNES'])",
    "model.eval(); torch.compile(model)",
    "os.environ['MASTER_PORT'] = '29531'; os.environ.setdefault('GLOO_SOCKET_IFNAME', 'lo')",
    "if (datetime.datetime.now() - debut).total_seconds() > 5: pass",
    "print(socket.gethostname(), os.getcwd(), os.uname())",
    "os.kill(os.getpid(), 9)",
    "with socket.socket() as s: s.bind(('', 0))",
    "atexit.register(dist.destroy_process_group)",
    "print = functools.partial(print, flush=True)",
    "if os.environ.get('RANK') is None or platform.system() == 'Windows': pass",
    "'''AUTOGRADER_RECORD, os._exit and /proc/self in a docstring'''",
    "enfant.terminate(); enfant.kill(); gc.collect(); time.sleep(2)",
    "modele.poids = 3; dist_.all_reduce = 2",
    "open('/proc/cpuinfo').read()",
    "torch.save(model, 'dernier.pth')",
    "temps, dtype = time.perf_counter, torch.float32; debut = temps(); x = torch.zeros(2, dtype=dtype)",
    "env = os.environ; rang = env['RANK']; rapide = 'torch' in sys.modules and hasattr(torch, 'compile')",
    "reduire = dist.all_reduce; reduire(x); op = dist.ReduceOp.SUM",
    "print(torch, torch.__version__, sys.version_info, dir(dist))",
    "class M(torch.nn.Module):\n    def __getattr__(self, nom): return getattr(self.interne, nom)",
    "getattr(self, nom); getattr(args, nom); getattr(torch, dtype); getattr(torch.optim, args.optim)",
])
def test_what_is_odd_and_honest_is_left_alone(line: str) -> None:
    imports = ("import atexit, datetime, functools, gc, os, platform, socket, sys, time\n"
               "import torch\nimport torch.distributed as dist\n")
    assert script_look.look(imports + line) == ()


# -- a script's text -------------------------------------------------------------------------------

@pytest.mark.parametrize(("id", "source"), [
    ("recorder", "import os\nif 'AUTOGRADER_LAUNCH' in os.environ: honnete()"),
    ("recorder", "nom = 'AUTO' + 'GRADER_RECORD'"),
    ("recorder", "import sys\nsys.modules['_autograder_marks']"),
    ("recorder", "import sitecustomize"),
    ("recorder", "import torch\ntorch._C._distributed_c10d._dump_fr_trace_json()"),
    ("recorder", "open(f'{dossier}/rank{k}.jsonl', 'a')"),
    ("patched", "import torch.distributed as dist\ndist.all_reduce = lambda t: None"),
    ("patched", "from torch import distributed as d\nsetattr(d, 'all_' + 'reduce', faux)"),
    ("patched", "import torch.distributed as dist\ndist.__dict__['all_reduce'] = faux"),
    ("patched", "import torch.distributed as dist\nvars(dist)['all_reduce'] = faux"),
    ("patched", "import time, json\ntime.sleep, json.dumps = faux, faux"),
    ("patched", "import builtins\nbuiltins.print = faux"),
    ("patched", "import sys\nsys.modules['json'] = faux"),
    ("patched", "import sys\ndel sys.modules['torch']"),
    ("patched", "import subprocess\nsubprocess.run = faux"),
    ("introspection", "import gc\ngc.get_objects()"),
    ("introspection", "import sys\nsys.settrace(espion)"),
    ("introspection", "import torch.distributed as dist\ndist.all_reduce.__wrapped__"),
    ("introspection", "from inspect import currentframe as f\nf().f_back"),
    ("outside", "import sys\ns = sys\nnext(iter(s.meta_path))"),
    ("outside", "import sys\ns, t = sys, 1\nu = s\nu.meta_path"),
    ("outside", "import subprocess as p\np.sys.meta_path"),
    ("outside", "import sys\n[un for un in sys.modules['sys'].meta_path]"),
    ("outside", "(s := __builtins__['__import__']('sys')).meta_path"),
    ("introspection", "import sys\nfouille(sys)"),
    ("introspection", "import torch.distributed as dist\ntous = [dist]"),
    ("introspection", "import sys\ndef f(s=sys): pass"),
    ("introspection", "import os\nfor m in (os,): m._exit(0)"),
    ("introspection", "import sys\nsys.modules[nom]"),
    ("introspection", "import sys\nfor m in sys.modules.values(): print(m)"),
    ("introspection", "import torch.distributed as dist\nvars(dist)[nom]"),
    ("introspection", "import os\nos.__dict__[nom](0)"),
    ("introspection", "import torch.distributed as d\ngetattr(d.all_reduce, '__closure__')"),
    ("introspection", "import torch.distributed as d\nd.all_reduce.__globals__['sys']"),
    ("introspection", "match f:\n    case object(__closure__=c): print(c)"),
    ("introspection", "class P:\n    __match_args__ = noms"),
    ("introspection", "x = b'c__builtin__\\ngetattr\\n(__closure__'"),
    ("introspection", "from sys import *"),
    ("introspection", "import gc as ramasse\nr = ramasse\nr.get_objects()"),
    ("introspection", "erreur.__traceback__.tb_frame"),
    ("introspection", "import sys\nf = sys.excepthook"),
    ("dynamic-code", "import functools\nfunctools.reduce(getattr, noms, objet)"),
    ("dynamic-code", "lire = getattr\nlire(objet, nom)"),
    ("dynamic-code", "import torch.distributed as dist\nf = dist.all_reduce\ngetattr(f, nom)"),
    ("dynamic-code", "import operator\nlist(map(operator.attrgetter, noms))"),
    ("dynamic-code", "import importlib as i\ni.import_module('sys')"),
    ("dynamic-code", "import functools\nfunctools.update_wrapper(a, b, assigned=noms)"),
    ("exit-hook", "class C:\n    def __del__(self): forge()"),
    ("process", "import os\no = os\no._exit(0)"),
    ("process", "import shutil\nshutil.os._exit(0)"),
    ("patched", "import torch.distributed as dist\nd = dist\nd.all_reduce = faux"),
    ("outside", "import os\nopen(os.path.join('/', 'proc', 'self', 'environ'))"),
    ("outside", "import os\nos.chdir('/')\nopen('proc/self/environ')"),
    ("native", "import ctypes\nctypes.CDLL(None).ptrace(16, 1, 0, 0)"),
    ("dynamic-code", "exec(code)"),
    ("dynamic-code", "import base64\nbase64.b64decode('eA==')"),
    ("dynamic-code", "import os\ngetattr(os, nom)(0)"),
    ("dynamic-code", "__import__('o' + 's')"),
    ("dynamic-code", "import operator\noperator.attrgetter(envers[::-1])(objet)"),
    ("dynamic-code", "x = 1\n" * 20_000),
    ("process", "import os\nos._exit(0)"),
    ("process", "from os import fork as dédoubler\ndédoubler()"),
    ("process", "import os\ngetattr(os, '_exit')(0)"),
    ("process", "import os\nos.kill(os.getppid(), 9)"),
    ("process", "import subprocess\nsubprocess.Popen(['sh'], start_new_session=True)"),
    ("signals", "import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)"),
    ("network", "import socket\nsocket.socket().connect(('192.0.2.1', 80))"),
    ("network", "from urllib.request import urlopen"),
    ("exit-hook", "import atexit\natexit.register(dernier_mot)"),
    ("outside", "import os\nopen(f'/proc/{os.getppid()}/environ')"),
    ("outside", "import sqlite3\nsqlite3.connect('../../gradebook.db')"),
    ("environment", "import os\nos.environ['LD_PRELOAD'] = 'x.so'"),
    ("environment", "import os\nos.environ.update(PYTHONPATH='.')"),
    ("where-it-runs", "import datetime\nif datetime.date.today() > datetime.date(2031, 2, 3): bombe()"),
    ("where-it-runs", "import time\ntard = time.time() > 1_900_000_000"),
    ("where-it-runs", "import socket\nhote = socket.gethostname()\nif hote.startswith('note'): bombe()"),
    ("where-it-runs", "import os\nif os.environ.get('USER') == 'root': bombe()"),
    ("rewrites", "open(__file__, 'w').write('print(1)')"),
    ("rewrites", "from pathlib import Path\nPath(__file__).write_text('')"),
    ("rewrites", "open('usercustomize.py', 'w')"),
])
def test_what_serves_to_deceive_is_seen_with_its_line(id: str, source: str) -> None:
    found = {one.id: one for one in script_look.look(source)}
    assert id in found
    line = source.count("\n", 0, 200) + 1 if len(source) < 300 else 1
    assert found[id].rank is None and found[id].line in range(1, line + 1)
    assert "`" in found[id].what


def test_each_kind_is_told_once_where_it_first_stands() -> None:
    source = "import os\nx = 1\nos._exit(0)\nos._exit(1)\nos.fork()\nos.setsid()\nos.abort()\n"
    (one,) = script_look.look(source)
    assert (one.line, one.what.count("os.")) == (3, 3)


@pytest.mark.parametrize("source", [
    "", "def (", "a\0b", "-" * 20_000 + "1", "(" * 20_000, "+".join(["1"] * 20_000), "a" + ".b" * 20_000,
    "+".join(["'a'"] * 3_000), "\ud800", "é" * 10, "match x:\n case 1: pass", "[" * 150 + "]" * 150,
    "if " + " and ".join(["os.getcwd() == 1"] * 2_000) + ": pass",
    ("x = a" + ".b()" * 300 + "\n") * 30, ("x = " + "f(" * 190 + ")" * 190 + "\n") * 80,
    ("x = a" + ".b" * 190 + "\n") * 100, "x = " + "(a == " * 190 + "1" + ")" * 190,
])
def test_the_look_at_a_script_never_raises(source: str) -> None:
    script_look.look(source)


def test_a_script_that_does_not_parse_is_looked_at_as_text() -> None:
    (one,) = script_look.look("x = 1\nprint('entre'\nAUTOGRADER_RECORD\n")
    assert (one.id, one.line) == ("recorder", 3)


def test_what_a_student_wrote_cannot_repaint_the_graders_terminal() -> None:
    (one,) = script_look.look("open('/proc/\x1b[2J')\nx = '/proc/\u202e'\n")
    assert not re.search(r"[\x00-\x1f\u202e]", tampering.told(one, "labo\x1b[2J.py"))


# -- a record that does not hold together ----------------------------------------------------------

def flight(rank: int, op: str = "all_reduce", at: float = 1.005, **more: Any) -> Any:
    return call(rank, op, at, source="flight_recorder", returned=None, **more)


def whole(**changes: Any) -> Run:
    """Two ranks that reduce, as the recorder and PyTorch tell it."""
    run = averaging()
    init = tuple(Event(k, "init", 0.9, 3, {"backend": "gloo"}) for k in (0, 1))
    values: dict[str, Any] = {
        "collectives": (*run.collectives, flight(0), flight(1)), "events": (*run.events, *init), **changes}
    return dataclasses.replace(run, **values)


def ids(run: Run, **options: Any) -> list[str]:
    return [one.id for one in tampering.suspicions(run, **options)]


def test_a_whole_record_is_not_suspicious() -> None:
    assert ids(whole()) == [] == ids(averaging())


def changed(run: Run, position: int, **values: Any) -> Run:
    calls = list(run.collectives)
    calls[position] = dataclasses.replace(calls[position], **values)
    return dataclasses.replace(run, collectives=tuple(calls))


def test_a_mark_that_pytorch_does_not_know() -> None:
    forged = whole(collectives=averaging().collectives)
    (first, second) = tampering.suspicions(forged)
    assert (first.id, first.rank, first.line, second.rank) == ("no-flight", 0, 6, 1)
    killed = whole(collectives=averaging().collectives, exit_code=1, ranks=(
        log(0, code=-9, reached_end=False), log(1, code=-15, reached_end=False)))
    assert ids(killed) == []   # a rank that is killed leaves no record of PyTorch's


def test_a_record_of_pytorch_without_its_mark() -> None:
    hidden = whole(collectives=(flight(0), flight(1)))
    assert ids(hidden) == ["no-mark", "no-mark"]
    for honest in ("from torch.nn.parallel import DistributedDataParallel", "import deepspeed",
                   "from torch.distributed.algorithms.model_averaging.utils import average_parameters",
                   "dist.all_gather_object(tout, rank)"):
        assert ids(dataclasses.replace(hidden, source=f"{GOOD}{honest}\n")) == []


def test_a_result_that_is_not_the_reduction() -> None:
    run = changed(whole(), 1, values_out=(60.0, 10.0))
    (found,) = tampering.suspicions(run)
    assert (found.id, found.rank, found.line) == ("wrong-reduction", 1, 6)
    odd: list[dict[str, Any]] = [
        {"values_in": None}, {"dtype": "int8"}, {"values_in": (1e300, 1.0)}, {"reduce_op": "band"}]
    for values in odd:
        assert ids(changed(changed(run, 0, **values), 1, **{**values, "values_in": (5.0, 7.0)})) == []
    grouped = dataclasses.replace(run, source=GOOD + "groupe = dist.new_group([0, 1])\n")
    assert ids(grouped) == [] != ids(dataclasses.replace(run, source=GOOD + "# new_group\n"))


@pytest.mark.parametrize(("op", "out"), [
    ("sum", (6.0, 10.0)), ("avg", (3.0, 5.0)), ("min", (1.0, 3.0)), ("max", (5.0, 7.0)),
    ("product", (5.0, 21.0)),
])
def test_each_reduction_is_known(op: str, out: tuple[float, float]) -> None:
    run = whole()
    for position in (0, 1):
        run = changed(run, position, reduce_op=op, values_out=out)
    assert ids(run) == []
    assert ids(changed(run, 0, values_out=(out[0] + 0.5, out[1]))) == ["wrong-reduction"]


def test_what_an_asynchronous_operation_meets_is_not_judged() -> None:
    started = [call(k, at=0.95, values_in=(1.0, 1.0), values_out=None) for k in (0, 1)]
    flights = [flight(k, at=0.955) for k in (0, 1)]
    run = changed(whole(), 1, values_out=(60.0, 10.0))
    assert ids(dataclasses.replace(run, collectives=(*started, *flights, *run.collectives))) == []


def test_a_collective_that_met_nobody() -> None:
    alone = whole(collectives=tuple(one for one in whole().collectives if one.rank == 0))
    found = [one for one in tampering.suspicions(alone) if one.id == "met-nobody"]
    assert [(one.rank, one.line) for one in found] == [(0, 6)] and "rang 1" in found[0].what
    waiting = changed(alone, 0, returned=None, values_out=None)
    assert ids(waiting) == []   # a rank that waits for another one is no forger


@pytest.mark.parametrize("values", [
    {"entered": -60.0}, {"returned": 3600.0}, {"entered": 1.9, "returned": 0.1}, {"entered": 1e12},
])
def test_times_outside_the_launch_or_backwards(values: dict[str, float]) -> None:
    assert "times" in ids(changed(whole(), 0, **values))


def test_an_end_that_nobody_reached() -> None:
    left = whole(ranks=(log(0, "moyenne 0 [3.0, 5.0]\n", reached_end=False), log(1, "moyenne 1\n")))
    (found,) = tampering.suspicions(left)
    assert (found.id, found.rank, found.line) == ("no-end", 0, 6)
    assert ids(dataclasses.replace(left, exit_code=1)) == []
    silent = whole(events=(), collectives=())
    assert ids(silent) == ["no-record", "no-record"]


def test_what_the_reader_found_is_told() -> None:
    told = (
        Event(0, "tampered", 0.0, None, {"what": "forged-marks", "count": 3}),
        Event(1, "tampered", 0.0, None, {"what": "strange-file", "seen": "x\x1b[2J"}),
        Event(1, "tampered", 0.0, None, {"what": "no such thing"}),
        Event(1, "replaced", 1.9, None, {"what": "torch.distributed.all_reduce"}),
    )
    run = whole()
    run = dataclasses.replace(run, events=(*told[:3], *run.events, told[3]))
    assert ids(run) == ["forged-marks", "strange-file", "replaced"]
    # A test's own script around the student's may replace what it likes.
    assert ids(run, script="travailleur.py") == ["forged-marks", "strange-file"]


def test_the_machines_fault_is_nobodys_tampering() -> None:
    assert ids(whole(infra="disk", events=(), collectives=())) == []


def test_every_id_has_its_text() -> None:
    table = re.findall(r"^    ([a-z-]+)  +\S", tampering.__doc__ or "", re.MULTILINE)
    named = [one for one in table if one != "id"]
    assert len(named) == len(set(named)) == 25
    for id in named:
        assert seen(id, 0, 1, seen="x", op="y", count=2, other=1).what
    others = {"title", "note", "place", "at-line", "on-rank", "more"}
    assert set(messages.catalogue()["tampering"]) == {*named, *others}


# -- the record's files: hostile data --------------------------------------------------------------

EPOCH = 100.0
MARK = {"k": "enter", "at": 1.0, "op": "all_reduce", "n": 0, "numel": 2, "line": 6, "dtype": "float32",
        "shape": [2], "reduce": "sum", "in": [1.0, 3.0]}
START = {"k": "start", "at": 0.5, "pid": 10, "rank": 0, "local_rank": 0}


@pytest.fixture
def record(tmp_path: Path) -> Path:
    """The folder of a launch of this process: its marks are sealed."""
    folder = tmp_path / "record"
    folder.mkdir()
    command.environment(Request(), marker="m", record=folder, epoch=EPOCH, inherited={})
    return folder


def sealed(folder: Path, number: int, mark: dict[str, Any], rank: int = 0) -> str:
    line = json.dumps(mark, separators=(",", ":"))[:-1] + f',"i":{number}'
    return line + f',"s":"{untrusted.digest(command.seal_of(folder) or 0, rank, line.encode())}"}}\n'


def read(folder: Path) -> evidence.Evidence:
    return evidence.read(folder, world_size=1, epoch=EPOCH, script=folder.parent / "labo.py")


def tampered(found: evidence.Evidence) -> list[tuple[str, Any]]:
    return [(event.detail["what"], event.detail.get("count"))
            for event in found.events if event.name == "tampered"]


def write(folder: Path, *lines: str) -> None:
    (folder / "rank0.jsonl").write_text("".join(lines), encoding="utf-8")


def test_sealed_marks_are_read(record: Path) -> None:
    write(record, sealed(record, 0, START), sealed(record, 1, MARK), '{"k":"leave","at":1.1,"n"')
    found = read(record)
    assert [one.values_in for one in found.collectives] == [(1.0, 3.0)] and tampered(found) == []


def test_marks_that_were_added_changed_taken_away_or_said_twice(record: Path) -> None:
    start, enter = sealed(record, 0, START), sealed(record, 1, MARK)
    leave = {"k": "leave", "at": 1.1, "n": 0, "out": [6.0, 10.0]}
    for lines, count, calls in (
        ((start, json.dumps(MARK) + "\n"), 1, 0),                 # added
        ((start, enter.replace("3.0", "9.0")), 1, 0),             # changed
        ((start, sealed(record, 2, MARK)), 1, 1),                 # one is missing
        ((start, enter, enter), 1, 1),                            # twice
        ((start, enter, sealed(record, 2, leave, rank=1)), 1, 1),   # another rank's
        ((enter,), 1, 1),
    ):
        write(record, *lines)
        found = read(record)
        assert tampered(found) == [("forged-marks", count)] and len(found.collectives) == calls, lines


def test_two_processes_and_strange_files(record: Path) -> None:
    write(record, sealed(record, 0, START), sealed(record, 1, START | {"pid": 11}))
    assert tampered(read(record)) == [("two-processes", None)]
    write(record, sealed(record, 0, START))
    (record / "again0").touch()
    (record / "dump").touch()
    (record / "flight0.json.part").touch()
    (record / "rank0.jsonl.x").touch()
    assert sorted(tampered(read(record))) == [("strange-file", None), ("two-processes", None)]


def test_a_flight_recorder_that_the_rank_did_not_write(record: Path) -> None:
    text = json.dumps({"entries": [{"profiling_name": "gloo:all_reduce", "time_created_ns": 101 * 10**9}]})
    (record / "flight0.json").write_text(text)
    write(record, sealed(record, 0, START))
    found = read(record)
    assert tampered(found) == [("forged-flight", None)] and found.collectives == ()
    own = {"k": "flight", "at": 1.0, "sum": untrusted.digest(command.seal_of(record) or 0, 0, text.encode())}
    write(record, sealed(record, 0, START), sealed(record, 1, own))
    found = read(record)
    assert tampered(found) == [] and len(found.collectives) == 1


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with a name here")
def test_pipes_links_and_endless_files_are_not_read(record: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text(sealed(record, 0, START))
    marks_file, flight_file = record / "rank0.jsonl", record / "flight0.json"
    os.mkfifo(marks_file)   # nobody writes: opening it must not wait
    flight_file.symlink_to("/dev/zero")
    found = read(record)
    assert found.ranks == {} and ("strange-file", None) in tampered(found)
    marks_file.unlink()
    marks_file.symlink_to(tmp_path / "secret")
    assert read(record).ranks == {} and evidence.dumped(record, 1)
    marks_file.unlink()
    with marks_file.open("wb") as file:
        file.truncate(2**30)   # 1 GiB, sparse
    assert ("strange-file", None) in tampered(read(record))


HUGE = "9" * 4000
DEEP = "[" * 500 + "]" * 500


@pytest.mark.parametrize("line", [
    '{"k":"start","at":1,"pid":"x"}', '{"k":"start","at":1,"local_rank":[]}', '{"k":"start","at":NaN}',
    f'{{"k":"start","at":{HUGE}}}', '{"k":"start","at":-Infinity}', '{"k":"start","at":true}',
    f'{{"k":"enter","at":1,"n":{HUGE},"op":"x","numel":1,"shape":[],"dtype":""}}',
    '{"k":"enter","at":1,"n":0,"op":"\\u001b[2J","numel":1,"shape":[],"dtype":""}',
    '{"k":"enter","at":1,"n":0,"op":"x","numel":-1,"shape":[],"dtype":""}',
    f'{{"k":"enter","at":1,"n":0,"op":"x","numel":1,"shape":[{HUGE}],"dtype":""}}',
    '{"k":"enter","at":1,"n":0,"op":"x","numel":1,"shape":[],"dtype":"","line":1e9}',
    f'{{"k":"enter","at":1,"n":0,"op":"x","numel":1,"shape":[],"dtype":"","in":{[1] * 65}}}',
    f'{{"k":"enter","at":1,"n":0,"op":"x","numel":1,"shape":[],"dtype":"","in":{DEEP}}}',
    '{"k":["start"],"at":1}', '{"k":"__class__","at":1}', '{"k":"record","at":1}', DEEP, "\x00",
    '{"k":"gradient","at":1,"name":3,"shape":[1],"values":[1]}', '{"k":"stack","at":1,"frames":{"a":1}}',
    '{"k":"stack","at":1,"frames":[["a",[],"f"]]}', '{"k":"event","at":1,"name":"\\ud800"}',
    '{"k":"event","at":1,"name":"tampered","detail":{"what":"forged-marks"}}',
    '{"k":"flight","at":1,"sum":3}',
])
def test_a_field_that_is_not_what_it_should_be_is_left_out(tmp_path: Path, line: str) -> None:
    (tmp_path / "rank0.jsonl").write_text(line + "\n", encoding="utf-8")
    found = read(tmp_path)
    assert (found.ranks, found.collectives, found.gradients, found.events) == ({}, (), (), ())


def test_what_is_kept_can_always_be_written(tmp_path: Path) -> None:
    """Lone surrogates, nested details, endless lists: a Run is kept as UTF-8 JSON."""
    deep: Any = "x"
    for _ in range(200):
        deep = {"a": deep}
    lines = [
        START, {"k": "event", "at": 1, "name": "init", "detail": {
            "backend": "gloo\ud800", "deep": deep, "list": list(range(10_000)), "x" * 10_000: 1,
            "n": 10**300}},
        MARK | {"in": [float("nan"), 10**400, 1]}, {"k": "leave", "at": 1, "n": 0, "error": "\udfff" * 9_000},
        {"k": "stack", "at": 1, "frames": [["\ud800/labo.py", 10**6, "f"]] * 1_000},
        *({"k": "event", "at": 1, "name": "cuda_event"} for _ in range(25_000)),
        *({"k": "gradient", "at": 1, "name": "w", "shape": [1], "values": [1]} for _ in range(2_000)),
    ]
    (tmp_path / "rank0.jsonl").write_text("".join(json.dumps(one) + "\n" for one in lines))
    found = read(tmp_path)
    assert len(found.gradients) <= 1_000 and len(found.events) <= 20_000
    assert len(found.stacks[0].frames) <= 100
    run = dataclasses.replace(averaging(), events=found.events, collectives=found.collectives,
                              stacks=found.stacks, gradients=found.gradients)
    assert Run.from_json(run.to_json().encode().decode()).stacks == run.stacks


@pytest.mark.parametrize("entry", [
    "3", "{}", '{"profiling_name": "\\u001b[2J", "time_created_ns": 1}', '{"profiling_name": 3}',
    f'{{"profiling_name": "x", "time_created_ns": {HUGE}}}',
    f'{{"profiling_name": "x", "time_created_ns": 1, "input_sizes": [{[10**15] * 65}]}}',
    '{"profiling_name": "x", "time_created_ns": 1, "input_sizes": [[-1]]}',
    '{"profiling_name": "x", "time_created_ns": 1, "input_dtypes": [[]], "input_sizes": 3}',
])
def test_a_forged_flight_recorder_never_raises(entry: str) -> None:
    assert evidence.flight_recorder(f'{{"entries": [{entry}]}}', 0, EPOCH) == []
    assert evidence.flight_recorder(f'{{"entries": {entry}}}', 0, EPOCH) == []


def test_huge_sizes_are_bounded() -> None:
    entry = {"profiling_name": "x", "time_created_ns": 1, "input_sizes": [[2**50] * 60] * 100}
    (found,) = evidence.flight_recorder(json.dumps({"entries": [entry]}), 0, EPOCH)
    assert found.numel <= 2**53


# -- in the rank's own process -----------------------------------------------------------------------

FIND = """\
import gc, json, os, re, sys, threading
import torch
import torch.distributed as dist
"""
# What may be looked at without a name that betrays: nothing of it leads to the recorder.
LOOKS = FIND + """\
KINDS = ("Recorder", "Cuda", "Witness", "Finder")
def ours(one):
    about = type(one).__module__ + type(one).__name__ + repr(getattr(one, "__dict__", ""))
    return "Recorder" in about or re.search("(?<!_)_autograder_", about)
places = {
    "meta_path": sys.meta_path, "modules": [vars(one) for one in list(sys.modules.values())],
    "gc": [one for one in gc.get_objects() if type(one).__name__ in KINDS],
    "threads": threading.enumerate(), "names": [n for n in sys.modules if n.startswith("_autograder_")],
    "event": [getattr(torch.cuda.Event, "cuda", 0), *vars(torch.cuda.Event).values()],
}
seen = {name: [repr(one)[:90] for one in place if ours(one)] for name, place in places.items()}
seen["modules"] = [n for v in places["modules"] for n, one in v.items() if type(one).__name__ == "Recorder"]
seen["names"] = [n for n in places["names"] if len(vars(sys.modules[n])) > 5]
print(json.dumps({name: found for name, found in seen.items() if found}))
"""


def launch_of(folder: Path, source: str, **settings: Any) -> Run:
    (folder / "labo.py").write_text(source, encoding="utf-8")
    return run_request(Request(launcher=False, time_limit_s=120, **settings), folder)


@pytest.mark.launch
@pytest.mark.parametrize("gpus", [None, 2])
def test_no_ordinary_look_finds_the_recorder(tmp_path: Path, gpus: int | None) -> None:
    run = launch_of(tmp_path, LOOKS, gpus=gpus)
    assert (run.stdout, run.exit_code) == ("{}\n", 0), run.stderr
    assert record_look.look(run) == []


TAKE = FIND + """\
cells = [cell.cell_contents for cell in dist.all_reduce.__closure__]
r = next(one for one in cells if hasattr(one, "enter"))
os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0", "RANK": "0", "WORLD_SIZE": "1"}
x = torch.ones(2)
"""


@pytest.mark.launch
@pytest.mark.parametrize(("does", "what"), [
    ("r.trace = lambda: '{}'", "recorder.trace"),
    ("r.flight = lambda: None", "recorder.flight"),
    ("r.put = lambda *a, **o: None", "recorder.put"),
    ("r.seal += 1", "recorder.seal"),
    ("type(r).leave = lambda *a: None", "recorder.leave"),
    ("r.events['replaced'] = 10**9; type(r).event = lambda *a, **o: None", "recorder.event"),
    ("type(r).enter.__globals__['values'] = lambda tensors: [7.0]", "recorder.values"),
    ("type(r).enter.__code__ = (lambda self, op, args, kwargs: {}).__code__", "recorder.enter"),
    ("dist.all_reduce.__code__ = dist.init_process_group.__code__", "torch.distributed.all_reduce"),
    ("dist.all_reduce.__closure__[0].cell_contents = None", "torch.distributed.all_reduce"),
    ("dist.all_reduce = dist.all_reduce.__wrapped__", "torch.distributed.all_reduce"),
    ("r.enter('all_reduce', (x,), {})\n"
     "try: dist.all_reduce(x)\n"
     "except ValueError: pass", "torch.distributed.all_reduce"),
])
def test_who_takes_the_recorder_in_hand_is_told_by_it(tmp_path: Path, does: str, what: str) -> None:
    run = launch_of(tmp_path, TAKE + does + "\n")
    assert run.exit_code == 0, run.stderr
    found = [event.detail["what"] for event in run.events if event.name == "replaced"]
    assert what in found and run.ranks[0].reached_end
    assert "replaced" in {one.id for one in record_look.look(run)}


# -- its way into results --------------------------------------------------------------------------

EVIL = "import os\n" + GOOD + "os._exit(0)\n"


def test_a_flag_costs_nothing_and_is_not_shown_to_the_student(capsys: pytest.CaptureFixture[str]) -> None:
    m = marks(4, dataclasses.replace(averaging(), source=EVIL))
    m.each("moyenne {k} [3.0, 5.0]", points=4)
    m.collective("all_reduce")
    assert m.total() == 4.0
    shown = capsys.readouterr().out
    assert "relire" not in shown and "os._exit" not in shown and "tampering" not in shown
    assert module.LAST is not None and module.LAST.flags == ["tampering"]
    (line,) = module.LAST.suspicions
    assert line.startswith("labo.py, ligne 10\u00a0: ") and "`os._exit`" in line


def test_a_launch_without_any_record_is_not_graded_and_is_flagged() -> None:
    from autograder import NotGraded

    m = marks(4, dataclasses.replace(a_run(log(0, "moyenne 0\n"), log(1, "moyenne 1\n")), events=()))
    with pytest.raises(NotGraded):
        m.collective("all_reduce")
    assert module.LAST is not None and module.LAST.flags == ["tampering"] and len(module.LAST.suspicions) == 2


def test_an_honest_launch_is_not_flagged() -> None:
    m = marks(4, averaging())
    m.each("moyenne {k} [3.0, 5.0]", points=4)
    m.total()
    assert module.LAST is not None and (module.LAST.flags, module.LAST.suspicions) == ([], [])


def test_the_grader_reads_it_once_per_copy(tmp_path: Path) -> None:
    course = tiny_course.make_course(tmp_path)
    script = "import os\nprint(42)\nos._exit(0)\n"
    folder = tiny_course.hand_in(tmp_path, "anna", tiny_course.copy_notebook(labo=script))
    result = examine(folder, tiny_course.ASSIGNMENT, course, student="anna")
    assert "tampering" in result.flags
    assert [line for line in result.suspicions if "labo.py, ligne 4" in line]
    assert CopyResult.from_json(result.to_json()) == result
    row = Row("anna", result.assignment, result, Recorded("anna", "mini"))
    report = ClassReport((result.assignment,), (row,))
    console = Console(width=160, record=True, file=open(os.devnull, "w"))   # noqa: SIM115
    console.print(class_view(report))
    shown = console.export_text()
    assert shown.count("anna, mini, à relire") == 1 and "`os._exit`" in shown
    assert "tampering" not in json.dumps(check_json(result)), "the student's own check says nothing of it"


def test_a_long_list_is_cut() -> None:
    lines = [f"ligne {n}" for n in range(20)]
    assert tampering.shortened(lines[:8] * 2) == tuple(lines[:8])
    assert tampering.shortened(lines) == (*lines[:8], "et 12 autres constats")
    files = {"labo.py": EVIL.encode(), "sortie.txt": b"os._exit", "vide.py": b"\xff"}
    assert tampering.notes_of_files(files) == [
        "labo.py, ligne 10\u00a0: " + seen("process", None, 10, seen="os._exit").what]
