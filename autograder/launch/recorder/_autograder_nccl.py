"""NCCL, as a script that believes to have GPUs meets it; gloo does the work underneath.

A collective returns before its work is done; a tensor of the host is refused; two ranks of one machine on the
same GPU are refused. (See _autograder_cuda.py.)
"""

from __future__ import annotations

import sys

import _autograder_cuda as stand_in  # type: ignore[import-not-found]
from _autograder_marks import dress  # type: ignore[import-not-found]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

HERE = __file__
NO_BACKEND = "No backend type associated with device type cpu"
OBJECTS = {"all_gather_object", "gather_object", "broadcast_object_list", "scatter_object_list"}


def hook(cuda: Any, module: Any) -> None:
    """Stand in front of torch.distributed.distributed_c10d's functions, behind the recorder's own."""
    for op in cuda.ops:
        if hasattr(module, op) and op not in OBJECTS:
            setattr(module, op, _collective(cuda, module, op, getattr(module, op)))
    module.init_process_group = _init(cuda, module, module.init_process_group)
    module.new_group = _new_group(cuda, module, module.new_group)
    module.get_backend = _get_backend(cuda, module, module.get_backend)
    module.is_nccl_available = lambda: True
    available = module.is_backend_available
    module.is_backend_available = lambda backend: backend.lower() == "nccl" or available(backend)
    destroy = module.destroy_process_group

    def destroy_process_group(*args: Any, **kwargs: Any) -> Any:
        cuda.settle()
        return destroy(*args, **kwargs)

    dress(destroy_process_group, destroy)
    module.destroy_process_group = destroy_process_group


def hook_ddp(cuda: Any, module: Any) -> None:
    kind = module.DistributedDataParallel
    original = kind.__init__

    def __init__(self: Any, module: Any, *args: Any, **kwargs: Any) -> None:
        c10d = sys.modules["torch.distributed.distributed_c10d"]
        if c10d.is_initialized() and _config(cuda, c10d, kwargs.get("process_group")).get("cpu") is None:
            for tensor in list(module.parameters()):
                if tensor.__dict__.get("_autograder_place") == "cpu":
                    raise cuda.error(RuntimeError, NO_BACKEND)
                _claim(cuda, c10d, cuda.where(tensor))
        original(self, module, *args, **kwargs)

    dress(__init__, original)
    kind.__init__ = __init__


def _parse(backend: Any, device: Any) -> dict:
    """{"cpu": backend or None, "cuda": …, "name": what get_backend says}"""
    name = str(backend).lower() if backend is not None else "nccl" if device is not None else "undefined"
    if name in ("nccl", "undefined"):
        return {"cpu": None, "cuda": "nccl", "name": name}
    if ":" in name:
        pairs = dict(pair.split(":", 1) for pair in name.split(",") if ":" in pair)
        return {"cpu": pairs.get("cpu"), "cuda": pairs.get("cuda"), "name": name}
    return {"cpu": name, "cuda": name, "name": name}


def _config(cuda: Any, module: Any, group: Any) -> dict:
    if group is None or group is module._get_default_group():
        return cuda.groups.get(None, {"cpu": "gloo", "cuda": "gloo"})
    return cuda.groups.get(id(group), {"cpu": "gloo", "cuda": "gloo"})


def _bound(original: Any, args: Any, kwargs: Any) -> Any:
    """The call's arguments by name; None when they do not fit (the call itself then says so)."""
    try:
        return sys.modules["inspect"].signature(original).bind(*args, **kwargs)
    except TypeError:
        return None


def _init(cuda: Any, module: Any, original: Any) -> Any:
    def init_process_group(*args: Any, **kwargs: Any) -> Any:
        bound = _bound(original, args, kwargs)
        if bound is None:
            return original(*args, **kwargs)
        asked = bound.arguments
        device = _device_id(cuda, asked.pop("device_id", None))
        config = _parse(asked.get("backend"), device)
        cuda.note("cuda_backend", asked=config["name"], cpu=config["cpu"], cuda=config["cuda"],
                  device_id=None if device is None else cuda.physical(device))
        if "nccl" in (config["cpu"], config["cuda"]):
            asked["backend"] = "gloo"
            if asked.get("timeout") is None:
                asked["timeout"] = module.timedelta(minutes=10)   # NCCL's default
        result = original(*bound.args, **bound.kwargs)
        cuda.groups[None] = config
        if device is not None and config["cuda"] == "nccl":
            _claim(cuda, module, cuda.physical(device))
        return result

    dress(init_process_group, original)
    return init_process_group


def _device_id(cuda: Any, device: Any) -> Any:
    """The index of init_process_group(device_id=…), checked as torch does; None without one."""
    torch = sys.modules["torch"]
    if device is None:
        return None
    device = torch.device("cuda", device) if isinstance(device, int) else torch.device(device)
    if device.type == "cpu":
        return None
    if device.index is None:
        raise cuda.error(ValueError, "Please use a device_id with index.")
    if device.index >= len(cuda.visible()):
        raise cuda.error(ValueError, (
            f"device_id {device} is out of range. Please use a device index less than the number of "
            f"accelerators available: {len(cuda.visible())}."))
    return device.index


def _new_group(cuda: Any, module: Any, original: Any) -> Any:
    def new_group(*args: Any, **kwargs: Any) -> Any:
        bound = _bound(original, args, kwargs)
        if bound is None:
            return original(*args, **kwargs)
        asked = bound.arguments
        asked.pop("device_id", None)
        chosen = asked.get("backend")
        config = _config(cuda, module, None) if chosen is None else _parse(chosen, None)
        if "nccl" in (config.get("cpu"), config.get("cuda")):
            asked["backend"] = "gloo"
        group = original(*bound.args, **bound.kwargs)
        cuda.groups[id(group)] = config
        return group

    dress(new_group, original)
    return new_group


def _get_backend(cuda: Any, module: Any, original: Any) -> Any:
    def get_backend(group: Any = None) -> Any:
        found = original(group)
        name = _config(cuda, module, group).get("name", found)
        return module.Backend(name) if name != found else found

    dress(get_backend, original)
    return get_backend


def _collective(cuda: Any, module: Any, op: str, original: Any) -> Any:
    def call(*args: Any, **kwargs: Any) -> Any:
        bound = None
        if module.is_initialized() and not _from_torch():
            bound = _bound(original, args, kwargs)
        if bound is None:
            return original(*args, **kwargs)
        asked = bound.arguments
        if op == "barrier":   # blocks the host under NCCL too
            cuda.synchronize("barrier")
            asked.pop("device_ids", None)
            return original(*bound.args, **bound.kwargs)
        config = _config(cuda, module, asked.get("group"))
        tensors = _tensors([value for name, value in asked.items() if name != "group"])
        on_host = any(tensor.__dict__.get("_autograder_place") == "cpu" for tensor in tensors)
        if config.get("cuda") != "nccl" or (on_host and config.get("cpu") not in (None, "nccl")):
            cuda.settle()
            return original(*bound.args, **bound.kwargs)
        if on_host:
            raise cuda.error(RuntimeError, NO_BACKEND)
        for tensor in tensors:
            _claim(cuda, module, cuda.where(tensor))
        cuda.settle()
        later = "async_op" in sys.modules["inspect"].signature(original).parameters
        if not later or asked.get("async_op"):
            return original(*bound.args, **bound.kwargs)
        asked["async_op"] = True
        work = original(*bound.args, **bound.kwargs)
        if work is not None:
            cuda.pending.append(stand_in.Pending(cuda, work, (args, kwargs)))
        return None

    dress(call, original)
    return call


def _tensors(values: list) -> list:
    kind = sys.modules["torch"].Tensor
    found: list = []
    for value in values:
        items = value if isinstance(value, (list, tuple)) else [value]
        found += [item for item in items if isinstance(item, kind)]
    return found


def _from_torch() -> bool:
    """Whether torch itself makes this call (DDP, object collectives…): it knows what it has underneath."""
    frame: Any = sys._getframe(2)
    folder = HERE.rsplit("_autograder_nccl", 1)[0]
    while frame is not None and frame.f_code.co_filename.startswith(folder):
        frame = frame.f_back
    name = "" if frame is None else frame.f_globals.get("__name__") or ""
    return name.startswith("torch.") and name != "torch.distributed.nn.functional"


def _claim(cuda: Any, module: Any, index: Any) -> None:
    """Tell the other ranks which GPU this one uses; NCCL refuses two ranks of one machine on the same."""
    if index is None or index in cuda.claimed:
        return
    cuda.claimed.add(index)
    rank, mine = module.get_rank(), f"{cuda.node}:{index}"
    store = module._get_default_store()
    store.set(f"autograder/{mine}/{rank}", "1")
    for other in range(module.get_world_size()):
        if other != rank and store.check([f"autograder/{mine}/{other}"]):
            raise cuda.error(sys.modules["torch.distributed"].DistBackendError, (
                "NCCL error: invalid usage (run with NCCL_DEBUG=WARN for details)\n"
                "ncclInvalidUsage: This usually reflects invalid usage of NCCL library.\nLast error:\n"
                f"Duplicate GPU detected : rank {rank} and rank {other} both on CUDA device {index:x}000"))
