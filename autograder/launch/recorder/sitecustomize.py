"""Records, inside each rank, what the script does with torch.distributed, and changes nothing of it.

Python imports a module of this name at start-up; the launcher puts this folder on PYTHONPATH. Here: when to
record, and which functions are dressed to tell; _autograder_marks.py beside this file does the writing.

Rules for both: print nothing, raise nothing, import nothing that a student's file could shadow (json.py,
threading.py…: built-in modules only, and what Python has loaded already), keep no tensor alive, and leave to
every function its name and signature.
"""

# ruff: noqa: SIM105  contextlib is not loaded yet, and could be a student's
from __future__ import annotations

import _thread
import atexit
import gc
import os
import sys
from _thread import get_ident
from sys import _getframe

from _autograder_finder import finder, hide  # type: ignore[import-not-found]
from _autograder_guard import guard  # type: ignore[import-not-found]
from _autograder_marks import (  # type: ignore[import-not-found]
    OPS,
    SMALL,
    Recorder,
    argument,
    dress,
    values,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MOST_GRADIENTS = 400   # per rank


# -- hooks: each takes the module that has just been loaded -------------------------------------------------

def _hook_collectives(recorder: Recorder, module: Any) -> None:
    dressed = {op: _recorded(recorder, op, getattr(module, op)) for op in OPS if hasattr(module, op)}
    dressed["init_process_group"] = _recorded_init(recorder, module, module.init_process_group)
    dressed["destroy_process_group"] = _recorded_destroy(
        recorder, module, module.destroy_process_group)
    dressed["new_group"] = _recorded_group(recorder, module.new_group)
    for name, call in dressed.items():
        setattr(module, name, call)
        recorder.place(("torch.distributed", module.__name__), name, call)
    core = "torch._C._distributed_c10d"
    trace = getattr(sys.modules.get(core), "_dump_fr_trace_json", None)
    recorder.place((core,), "_dump_fr_trace_json", trace)


def _recorded(recorder: Recorder, op: str, original: Any) -> Any:
    def call(*args: Any, **kwargs: Any) -> Any:
        # PyTorch's own calls (FSDP, DDP hooks, all_gather_object…) are the Flight Recorder's affair.
        space = _getframe(1).f_globals
        caller = space.get("__name__") or ""
        torchs = caller.startswith("torch.") and caller != "torch.distributed.nn.functional"
        if torchs or get_ident() in recorder.busy:
            # Inside another one: only who holds the recorder gets here, and torch through our simulated GPUs.
            if not torchs and all(space is not own for own in SIMULATION):
                recorder.event("replaced", what=f"torch.distributed.{op}")
            return original(*args, **kwargs)
        if recorder.settle is not None:
            recorder.settle()
        mark = recorder.enter(op, args, kwargs)
        try:
            result = original(*args, **kwargs)
        except BaseException as error:
            recorder.leave(mark, args, kwargs, None, error)
            raise
        recorder.leave(mark, args, kwargs, result)
        return result

    dress(call, original)
    return call


def _recorded_init(recorder: Recorder, module: Any, original: Any) -> Any:
    def init_process_group(*args: Any, **kwargs: Any) -> Any:
        recorder.event("init-enter")
        recorder.afresh()
        recorder.busy[get_ident()] = {}
        try:
            result = original(*args, **kwargs)
        finally:
            recorder.busy.pop(get_ident(), None)
        try:
            recorder.event("init", backend=module.get_backend(), world_size=module.get_world_size(),
                           rank=module.get_rank())
        except Exception:
            pass
        return result

    dress(init_process_group, original)
    return init_process_group


def _recorded_destroy(recorder: Recorder, module: Any, original: Any) -> Any:
    def destroy_process_group(*args: Any, **kwargs: Any) -> Any:
        group = argument(("group", 0), args, kwargs)
        whole = group is None or group is module.GroupMember.WORLD
        recorder.flight(whole)
        result = original(*args, **kwargs)
        recorder.event("destroy" if whole else "destroy_group")
        return result

    dress(destroy_process_group, original)
    return destroy_process_group


def _recorded_group(recorder: Recorder, original: Any) -> Any:
    def new_group(*args: Any, **kwargs: Any) -> Any:
        result = original(*args, **kwargs)
        try:
            ranks = argument(("ranks", 0), args, kwargs)
            recorder.event("new_group", ranks=None if ranks is None else [int(rank) for rank in ranks])
        except Exception:
            pass
        return result

    dress(new_group, original)
    return new_group


def _hook_ddp(recorder: Recorder, module: Any) -> None:
    kind = module.DistributedDataParallel
    original = kind.__init__

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        try:
            named = [(name, value) for name, value in self.module.named_parameters() if value.requires_grad]
            recorder.event("ddp", device_ids=bool(argument(("device_ids", 1), args, kwargs)),
                           parameters=len(named))
            devices = sorted({where for _, value in named if (where := recorder.where(value)) is not None})
            if devices:
                index = sorted({value.device.index for _, value in named})
                recorder.event("cuda_ddp", devices=devices, index=index, device_ids=self.device_ids,
                               output_device=self.output_device)
            for name, value in named[:SMALL]:
                if value.numel() <= SMALL:
                    value.register_hook(_gradient_hook(recorder, name))
        except Exception:
            pass

    dress(__init__, original)
    kind.__init__ = __init__
    recorder.place(("torch.nn.parallel", module.__name__), "DistributedDataParallel", kind)


def _gradient_hook(recorder: Recorder, name: str) -> Any:
    """Runs before the gradient is accumulated, hence before DDP averages it."""
    def hook(gradient: Any) -> None:
        try:
            numbers = values([gradient])
            if numbers is not None and recorder.gradients < MOST_GRADIENTS:
                recorder.gradients += 1
                recorder.put("gradient", name=name, shape=tuple(gradient.shape), values=numbers)
        except Exception:
            pass

    hook.__dict__["__torch_unserializable__"] = True   # torch.save would warn about a hook it cannot keep
    return hook


def _hook_cuda_event(recorder: Recorder, module: Any) -> None:
    kind = module.Event
    original = kind.__new__

    def __new__(cls: Any, *args: Any, **kwargs: Any) -> Any:
        recorder.event("cuda_event")
        return original(cls, *args, **kwargs)

    dress(__new__, original)
    kind.__new__ = staticmethod(__new__)
    if _has_cuda():
        _load("_autograder_witness").Witness(recorder).events(kind)


def _hook_cuda(recorder: Recorder, module: Any) -> None:
    if _has_cuda():
        witness = _load("_autograder_witness").Witness(recorder)
        witness.module(module)
        witness.clocks()


def _has_cuda() -> bool:
    return hasattr(sys.modules.get("torch._C"), "_cuda_getDeviceCount")


HOOKS: dict[str, Any] = {
    "torch.distributed.distributed_c10d": _hook_collectives,
    "torch.nn.parallel.distributed": _hook_ddp,
    "torch.cuda.streams": _hook_cuda_event,
    "torch.cuda": _hook_cuda,
}


# -- simulated GPUs (see _autograder_cuda.py) ---------------------------------------------------------------

SIMULATION: list = []   # the globals of what torch calls in the place of a collective
HERE = os.path.dirname(os.path.abspath(__file__))


def _load(name: str) -> Any:
    """A module of this folder, which is no longer on the path."""
    if name not in sys.modules:
        frozen, external = sys.modules["_frozen_importlib"], sys.modules["_frozen_importlib_external"]
        spec = external.spec_from_file_location(name, os.path.join(HERE, name + ".py"))
        module = sys.modules[name] = frozen.module_from_spec(spec)
        spec.loader.exec_module(module)
    return sys.modules[name]


def _simulate(recorder: Recorder, gpus: int) -> Any:
    cuda = _load("_autograder_cuda").Cuda(recorder, gpus)
    witness = _load("_autograder_witness").Witness(recorder)
    witness.clocks()

    def hook_torch(recorder: Recorder, torch: Any) -> None:
        _load("_autograder_torch_cuda").install(cuda, torch, witness)
        _load("_autograder_place")
        mode = _load("_autograder_mode")
        mode.install(cuda)
        SIMULATION.append(mode.__dict__)

    def hook_collectives(recorder: Recorder, module: Any) -> None:
        _load("_autograder_nccl").hook(cuda, module)
        _hook_collectives(recorder, module)

    def hook_ddp(recorder: Recorder, module: Any) -> None:
        _load("_autograder_nccl").hook_ddp(cuda, module)
        _hook_ddp(recorder, module)

    for name in ("torch.cuda.streams", "torch.cuda"):
        del HOOKS[name]
    HOOKS.update({"torch": hook_torch, "torch.distributed.distributed_c10d": hook_collectives,
                  "torch.nn.parallel.distributed": hook_ddp})
    return cuda


def _start() -> None:
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry) != HERE]
    if not globals().get("ALONE"):   # a warm server has looked
        _next_sitecustomize()
    folder, local_rank = os.environ.get("AUTOGRADER_RECORD"), os.environ.get("LOCAL_RANK", "0")
    plain = os.environ.get("AUTOGRADER_PLAIN") == "1"
    if not folder or ("RANK" not in os.environ and not plain):
        if os.environ.get("AUTOGRADER_BOXED") == "1":
            _close()
        return   # the launcher itself: its ranks inherit the variables
    epoch, delays = float(os.environ["AUTOGRADER_EPOCH"]), os.environ.get("AUTOGRADER_DELAYS", "")
    gpus, seal = (int(os.environ.get("AUTOGRADER_" + name) or 0) for name in ("GPUS", "SEAL"))
    for name in ("AUTOGRADER_RECORD", "AUTOGRADER_PLAIN", "AUTOGRADER_EPOCH", "AUTOGRADER_DELAYS",
                 "AUTOGRADER_GPUS", "AUTOGRADER_SEAL", "AUTOGRADER_BOXED"):
        os.environ.pop(name, None)   # the script and its children see none of this
    kept = [entry for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry]
    kept = [entry for entry in kept if os.path.abspath(entry) != HERE]
    os.environ.pop("PYTHONPATH", None)
    if kept:
        os.environ["PYTHONPATH"] = os.pathsep.join(kept)
    rank = 0 if plain else int(os.environ["RANK"])
    try:
        recorder = Recorder(folder, rank, int(local_rank), epoch, delays, seal)
    except FileExistsError:   # a second process says that it is this rank: that is to be seen
        os.close(os.open(os.path.join(folder, f"again{rank}"), os.O_WRONLY | os.O_CREAT, 0o600))
        return
    cuda = _simulate(recorder, gpus) if gpus else None
    previous = sys.excepthook

    def excepthook(kind: Any, error: Any, trace: Any) -> None:
        if cuda is not None:
            cuda.judge(kind, error, trace)
        recorder.exception(kind, error, trace)
        previous(kind, error, trace)

    sys.excepthook = excepthook
    end = guard(recorder, [globals(), sys.modules["_autograder_marks"].__dict__])
    recorder.place(("time",), "sleep", sys.modules["time"].sleep)
    recorder.place(("builtins",), "print", print)
    atexit.register(end)
    sys.meta_path.insert(0, finder(recorder, HOOKS))
    _thread.start_new_thread(recorder.watch, ())
    if cuda is None:
        hide()
    gc.freeze()   # what lives now is in no list of living objects


def _close() -> None:
    """The launcher's memory and environment are closed to the ranks, which have its uid in a box. Outside we
    would not find it by its environment any more, when it is to be ended.
    """
    import ctypes  # the launcher runs with -P: no student's file is on its path

    zero = ctypes.c_ulong(0)
    ctypes.CDLL(None).prctl(4, zero, zero, zero, zero)   # PR_SET_DUMPABLE


def _next_sitecustomize() -> None:
    """The one that we stand in front of, if this Python has one."""
    try:
        spec = sys.modules["_frozen_importlib_external"].PathFinder.find_spec("sitecustomize")
        if spec is not None and spec.loader is not None:
            spec.loader.exec_module(sys.modules["_frozen_importlib"].module_from_spec(spec))
    except Exception:
        pass


try:
    _start()
except Exception:
    pass
