"""torch.cuda and torch.accelerator as the stand-in answers for them (see _autograder_cuda.py)."""

from __future__ import annotations

import sys

import _autograder_cuda as stand_in  # type: ignore[import-not-found]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# Functions of torch.cuda that need no GPU, or that ours below make right.
AS_THEY_ARE = {
    "amp", "check_error", "cudaStatus", "device", "device_of", "get_device_index", "init", "is_initialized",
    "memory", "nccl", "nvtx", "profiler", "random", "sparse", "streams", "graphs", "jiterator", "tunable",
    "default_generators", "has_half", "has_magma", "CudaError", "DeferredCudaCallError",
}


def install(cuda: Any, torch: Any, witness: Any) -> None:
    """Put the stand-in in the place of torch's own functions."""
    stand_in.CUDA = cuda
    stand_in.Stream.event = stand_in.Event
    ours = _functions(cuda, torch)
    module = torch.cuda
    for name in module.__all__:
        if name in ours or name in AS_THEY_ARE or not callable(getattr(module, name, None)):
            continue
        if not isinstance(getattr(module, name), type):
            setattr(module, name, _unfollowed(cuda, f"torch.cuda.{name}"))
    for name, given in ours.items():
        function = _own(given, getattr(module, name, None))
        setattr(module, name, function)
        for home in ("memory", "random", "streams"):
            inside = getattr(module, home, None)
            if inside is not None and hasattr(inside, name):
                setattr(inside, name, function)
    for name in ("CUDAGraph", "graph"):
        setattr(module, name, _unfollowed(cuda, f"torch.cuda.{name}"))
    module._lazy_init = _lazy_init(cuda)
    module._exchange_device = lambda index: cuda.exchange(index)
    module._maybe_exchange_device = lambda index: cuda.exchange(index)
    torch.backends.cuda.is_built = lambda: True
    witness.module(module)
    witness.events(stand_in.Event)
    _accelerator(cuda, torch)
    torch.Event, torch.Stream = GenericEvent, stand_in.Stream
    _devices(torch)


def _functions(cuda: Any, torch: Any) -> dict:
    def properties(device: Any = None) -> Any:
        cuda.index(device)
        return sys.modules["types"].SimpleNamespace(
            name=stand_in.NAME, major=8, minor=6, total_memory=stand_in.MEMORY, multi_processor_count=82,
            is_integrated=0, is_multi_gpu_board=0, warp_size=32, uuid="")

    def get_device_name(device: Any = None) -> str:
        cuda.index(device)
        return stand_in.NAME

    def capability(device: Any = None) -> tuple:
        cuda.index(device)
        return 8, 6

    def synchronize(device: Any = None) -> None:
        cuda.index(device)
        cuda.synchronize()

    def nothing(*args: Any, **kwargs: Any) -> None:
        """There is nothing to do on a GPU that is not there."""

    def zero(*args: Any, **kwargs: Any) -> int:
        return 0

    def stream(device: Any = None) -> Any:
        return stand_in.Stream(device)

    functions: dict = {
        "is_available": lambda: bool(cuda.visible()), "device_count": lambda: len(cuda.visible()),
        "current_device": lambda: cuda.index(None), "set_device": cuda.set_device,
        "get_device_name": get_device_name, "get_device_properties": properties,
        "get_device_capability": capability, "synchronize": synchronize,
        "is_initialized": lambda: True, "init": nothing, "_is_in_bad_fork": lambda: False,
        "can_device_access_peer": lambda *_: True, "is_bf16_supported": lambda *_, **__: True,
        "is_tf32_supported": lambda: True, "is_current_stream_capturing": lambda: False,
        "get_arch_list": lambda: ["sm_86"], "initial_seed": torch.initial_seed,
        "mem_get_info": lambda device=None: (stand_in.MEMORY, stand_in.MEMORY),
        "memory_summary": lambda *_, **__: "", "memory_stats": lambda *_, **__: {},
        "current_stream": stream, "default_stream": stream, "stream": lambda item: item or Nothing(),
        "StreamContext": lambda item: item or Nothing(), "set_stream": nothing,
        "Stream": stand_in.Stream, "Event": stand_in.Event,
        "get_rng_state": lambda *_: torch.get_rng_state(), "get_rng_state_all": lambda: [],
    }
    for name in ("empty_cache", "ipc_collect", "manual_seed", "manual_seed_all", "seed", "seed_all",
                 "set_rng_state", "set_rng_state_all", "reset_peak_memory_stats",
                 "reset_max_memory_allocated", "reset_accumulated_memory_stats",
                 "set_per_process_memory_fraction"):
        functions[name] = nothing
    for name in ("memory_allocated", "max_memory_allocated", "memory_reserved", "max_memory_reserved",
                 "utilization", "memory_usage", "get_sync_debug_mode"):
        functions[name] = zero
    return functions


class Nothing:
    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: Any) -> None:
        pass


def _own(function: Any, original: Any) -> Any:
    """A function of its own for each name: torch._dynamo takes two names of one function for a mistake."""
    if isinstance(function, type):
        return function

    def call(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    for name in ("__module__", "__name__", "__qualname__", "__doc__"):
        setattr(call, name, getattr(original, name, None) or getattr(function, name, None))
    return call


class GenericEvent(stand_in.Event):
    """torch.Event: its first argument is a device."""

    def __init__(self, device: Any = None, *, enable_timing: bool = False, **others: Any) -> None:
        super().__init__(enable_timing, **others)


class Guard(stand_in.Followed):
    """torch.accelerator.device_index"""

    def __init__(self, device: Any) -> None:
        self.idx, self.before = (-1 if device is None else stand_in.CUDA.index(device)), -1

    def __enter__(self) -> None:
        self.before = stand_in.CUDA.exchange(self.idx)

    def __exit__(self, *_: Any) -> None:
        stand_in.CUDA.exchange(self.before)


def _unfollowed(cuda: Any, name: str) -> Any:
    def call(*args: Any, **kwargs: Any) -> Any:
        raise cuda.unknown(name)

    return call


def _lazy_init(cuda: Any) -> Any:
    """Called by torch, also by its C++, whenever something really wants a GPU: we missed it."""
    def _lazy_init() -> None:
        caller = sys._getframe(1)
        home = caller.f_globals.get("__name__") or ""
        known = home.startswith("torch.")
        raise cuda.unknown(f"{home}.{caller.f_code.co_name}" if known else "un tenseur sur cuda")

    return _lazy_init


def _accelerator(cuda: Any, torch: Any) -> None:
    module = torch.accelerator
    names = {
        "is_available": "is_available", "device_count": "device_count",
        "current_device_index": "current_device", "current_device_idx": "current_device",
        "set_device_index": "set_device",
        "set_device_idx": "set_device", "synchronize": "synchronize", "current_stream": "current_stream",
        "set_stream": "set_stream", "empty_cache": "empty_cache", "memory_allocated": "memory_allocated",
        "max_memory_allocated": "max_memory_allocated", "memory_reserved": "memory_reserved",
        "max_memory_reserved": "max_memory_reserved", "reset_peak_memory_stats": "empty_cache",
        "get_memory_info": "mem_get_info", "memory_stats": "memory_stats",
    }
    for name, same in names.items():
        if hasattr(module, name):
            setattr(module, name, _own(getattr(torch.cuda, same), getattr(module, name)))
    module.device_index = Guard
    there = torch.device("cuda")
    module.current_accelerator = lambda check_available=False: there if cuda.visible() else None
    torch._C._get_accelerator = lambda check=None: there if cuda.visible() else torch.device("cpu")


def _devices(torch: Any) -> None:
    """`torch.device(1)` and `module.to(1)` mean a GPU where there is one."""
    kind = torch.device

    class Kind(type):
        def __instancecheck__(cls, item: Any) -> bool:
            return isinstance(item, kind)

        def __call__(cls, *args: Any, **kwargs: Any) -> Any:
            if len(args) == 1 and type(args[0]) is int and not kwargs:
                return kind("cuda", args[0])
            return kind(*args, **kwargs)

        def __getattr__(cls, name: str) -> Any:
            return getattr(kind, name)

    named = {"__module__": "torch", "__qualname__": "device", "__doc__": kind.__doc__}
    torch.device = Kind("device", (), named)
    parse = torch._C._nn._parse_to

    def _parse_to(*args: Any, **kwargs: Any) -> Any:
        args = tuple(kind("cuda", item) if type(item) is int else item for item in args)
        if type(kwargs.get("device")) is int:
            kwargs["device"] = kind("cuda", kwargs["device"])
        return parse(*args, **kwargs)

    torch._C._nn._parse_to = _parse_to
