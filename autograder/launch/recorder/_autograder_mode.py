"""Makes tensors say on which simulated GPU they are, follow `to`, `cuda`, `cpu`, and refuse to be mixed.

(See _autograder_cuda.py, and _autograder_place.py for how a tensor carries its place.)
"""

from __future__ import annotations

import _autograder_cuda as stand_in  # type: ignore[import-not-found]
import torch
import torch.utils._device
from _autograder_place import place_of, tag, tensors_in  # type: ignore[import-not-found]
from torch.overrides import TorchFunctionMode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

Tensor = torch.Tensor
PARSE_TO = torch._C._nn._parse_to   # ours: it is what torch hands to a mode
KIND = type(torch.zeros(0).device)   # the type itself, not ours

# Functions that may take tensors of several places.
MIXED = {
    "copy_", "__getitem__", "__setitem__", "index_put_", "index_put", "_pack_padded_sequence", "ctc_loss",
    "backward", "grad", "__set__", "type_as", "_has_compatible_shallow_copy_type", "is_same_size",
    "result_type", "expand_as", "view_as", "reshape_as", "set_", "__deepcopy__", "is_set_to", "pad_sequence",
    "zeros_like", "ones_like", "empty_like", "full_like", "rand_like", "randn_like", "register_hook",
}
# Functions that make the host wait for the GPU.
READS = {
    "item", "tolist", "__bool__", "__float__", "__int__", "__index__", "__complex__", "nonzero", "equal",
    "allclose", "__contains__", "__repr__", "__format__", "masked_select", "unique", "is_nonzero",
}


class Mode(TorchFunctionMode):
    def __init__(self) -> None:
        super().__init__()
        self.special = {
            Tensor.device.__get__: self.device, Tensor.is_cuda.__get__: self.is_cuda,
            Tensor.is_cpu.__get__: self.is_cpu, Tensor.get_device: self.get_device,
            Tensor.grad.__get__: self.like_owner, Tensor.data.__set__: self.set_data,
            Tensor.to: self.to, Tensor.cuda: self.to_cuda, Tensor.cpu: self.to_cpu, Tensor.type: self.type,
            Tensor.numpy: self.numpy, Tensor.__array__: self.numpy, Tensor.__dlpack__: self.unfollowed,
            Tensor.__repr__: self.repr, Tensor.register_hook: self.register_hook,
            Tensor.copy_: self.copy, Tensor.pin_memory: self.same, Tensor.record_stream: self.nothing,
            PARSE_TO: self.as_it_is, KIND: self.as_it_is, torch.device: self.as_it_is,
        }

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        special = self.special.get(func)
        if special is not None:
            return special(func, args, kwargs)
        return self.general(func, args, kwargs)

    def general(self, func: Any, args: Any, kwargs: Any) -> Any:
        name = getattr(func, "__name__", "")
        if name == "__get__":
            result = func(*args, **kwargs)
            if isinstance(result, Tensor):
                tag(result, place_of(args[0]))
            return result
        try:
            place, args, kwargs, touched = self.plan(func, name, args, kwargs)
        except Exception as error:
            if str(error) in stand_in.CUDA.said:
                raise
            stand_in.CUDA.note("cuda_unknown", what=f"{name}: {type(error).__name__}: {error}"[:300])
            return func(*args, **kwargs)
        if touched:
            stand_in.CUDA.synchronize("read") if name in READS else stand_in.CUDA.settle()
        result = func(*args, **kwargs)
        if place is not None and name != "__set__":
            tag(result, place)
        return result

    def plan(self, func: Any, name: str, args: Any, kwargs: Any) -> tuple:
        """Where the result will be, the arguments without their GPU, and whether a GPU's tensor is used."""
        wanted = kwargs.get("device")
        default = torch.utils._device.CURRENT_DEVICE
        if wanted is None and default is not None and func in torch.utils._device._device_constructors():
            wanted = default
        if wanted is None and any(isinstance(item, KIND) for item in args):
            wanted = next(item for item in args if isinstance(item, KIND))
            args = tuple(torch.zeros(0).device if isinstance(item, KIND) and item.type == "cuda" else item
                         for item in args)
        elif wanted is not None:
            kwargs["device"] = self.on_host(wanted)
        found = tensors_in(kwargs, tensors_in(args, []))
        gpus = list(dict.fromkeys(place for one in found if isinstance(place := place_of(one), int)))
        if gpus and name not in MIXED and not name.startswith(("_foreach", "_fused")):
            hosts = [one for one in found if place_of(one) == "cpu" and one.dim() > 0]
            if len(gpus) > 1 or hosts:
                other = f"cuda:{gpus[1]}" if len(gpus) > 1 else "cpu"
                raise stand_in.CUDA.error(RuntimeError, (
                    "Expected all tensors to be on the same device, but found at least two devices, "
                    f"cuda:{gpus[0]} and {other}!"))
        if wanted is not None:
            place = self.place(wanted)
        elif gpus:
            place = gpus[0]
            if name.endswith("_") and isinstance(place_of(found[0]), int):
                place = place_of(found[0])   # in place
        else:
            place = "cpu" if all(place_of(one) == "cpu" for one in found) else stand_in.CUDA.backward
        return place, args, kwargs, bool(gpus)

    # -- devices -------------------------------------------------------------------------------------------

    def place(self, device: Any) -> Any:
        """"cpu", the index of a GPU, or None for another kind of device."""
        if type(device) is not int:
            device = KIND(device) if isinstance(device, str) else device
            if device.type != "cuda":
                return "cpu" if device.type == "cpu" else None
        return stand_in.CUDA.index(device)

    def on_host(self, device: Any) -> Any:
        return device if self.place(device) is None else "cpu"

    def here(self, tensor: Any) -> Any:
        place = place_of(tensor)
        return stand_in.CUDA.backward if place is None else place

    def device(self, func: Any, args: Any, kwargs: Any) -> Any:
        place = self.here(args[0])
        return KIND("cuda", place) if isinstance(place, int) else func(*args, **kwargs)

    def is_cuda(self, func: Any, args: Any, kwargs: Any) -> bool:
        return isinstance(self.here(args[0]), int)

    def is_cpu(self, func: Any, args: Any, kwargs: Any) -> Any:
        return not isinstance(self.here(args[0]), int) and func(*args, **kwargs)

    def get_device(self, func: Any, args: Any, kwargs: Any) -> Any:
        place = self.here(args[0])
        return place if isinstance(place, int) else func(*args, **kwargs)

    def like_owner(self, func: Any, args: Any, kwargs: Any) -> Any:
        result = func(*args, **kwargs)
        tag(result, place_of(args[0]))
        return result

    def set_data(self, func: Any, args: Any, kwargs: Any) -> Any:
        result = func(*args, **kwargs)
        tag(args[0], place_of(args[1]))
        return result

    # -- moves ---------------------------------------------------------------------------------------------

    def moved(self, tensor: Any, place: Any, func: Any, args: Any, kwargs: Any) -> Any:
        before = place_of(tensor)
        if isinstance(before, int):
            # A move to another place waits; to the host, the host waits too.
            host = place == "cpu" and not kwargs.get("non_blocking")
            stand_in.CUDA.synchronize("read") if host else stand_in.CUDA.settle()
        result = func(*args, **kwargs)
        place = before if place is None else place
        if result is tensor and place != ("cpu" if before is None else before):
            with torch._C.DisableTorchFunctionSubclass():
                result = tensor.clone()
        tag(result, place)
        return result

    def to(self, func: Any, args: Any, kwargs: Any) -> Any:
        tensor, *rest = args
        other = kwargs.get("other", rest[0] if rest else None)
        if isinstance(other, Tensor):
            return self.moved(tensor, place_of(other) or "cpu", func, args, kwargs)
        place = None
        if rest and isinstance(rest[0], (str, int, KIND)) and not isinstance(rest[0], bool):
            place, rest[0] = self.place(rest[0]), self.on_host(rest[0])
        elif kwargs.get("device") is not None:
            place, kwargs["device"] = self.place(kwargs["device"]), self.on_host(kwargs["device"])
        return self.moved(tensor, place, func, (tensor, *rest), kwargs)

    def to_cuda(self, func: Any, args: Any, kwargs: Any) -> Any:
        device = args[1] if len(args) > 1 else kwargs.get("device")
        return self.moved(args[0], stand_in.CUDA.index(device), Tensor.to, (args[0], "cpu"), {})

    def to_cpu(self, func: Any, args: Any, kwargs: Any) -> Any:
        return self.moved(args[0], "cpu", func, args, kwargs)

    def type(self, func: Any, args: Any, kwargs: Any) -> Any:
        tensor, kind = args[0], args[1] if len(args) > 1 else kwargs.get("dtype")
        if kind is None:
            name = func(tensor)
            return name.replace("torch.", "torch.cuda.", 1) if self.is_cuda(func, args, kwargs) else name
        place = place_of(tensor)
        if isinstance(kind, str) and kind.startswith("torch.cuda."):
            kind, place = kind.replace("torch.cuda.", "torch.", 1), stand_in.CUDA.index(None)
        return self.moved(tensor, place, func, (tensor, kind), {})

    def copy(self, func: Any, args: Any, kwargs: Any) -> Any:
        stand_in.CUDA.settle()
        return func(*args, **kwargs)

    # -- the rest ------------------------------------------------------------------------------------------

    def numpy(self, func: Any, args: Any, kwargs: Any) -> Any:
        place = place_of(args[0])
        if isinstance(place, int) and not kwargs.get("force"):
            raise stand_in.CUDA.error(TypeError, (
                f"can't convert cuda:{place} device type tensor to numpy. Use Tensor.cpu() to copy the "
                "tensor to host memory first."))
        stand_in.CUDA.settle()
        return func(*args, **kwargs)

    def repr(self, func: Any, args: Any, kwargs: Any) -> str:
        place = place_of(args[0])
        if isinstance(place, int):
            stand_in.CUDA.synchronize("read")
        text = str(func(*args, **kwargs))
        if not isinstance(place, int):
            return text
        words = ", dtype=", ", grad_fn=", ", requires_grad="
        ends = [at for word in words if (at := text.rfind(word)) >= 0]
        at = min(ends) if ends else text.rfind(")")
        return f"{text[:at]}, device='cuda:{place}'{text[at:]}"

    def register_hook(self, func: Any, args: Any, kwargs: Any) -> Any:
        tensor, hook = args[0], args[1] if len(args) > 1 else kwargs["hook"]

        def placed(gradient: Any) -> Any:
            tag(gradient, place_of(tensor))
            return hook(gradient)

        placed.__dict__.update(getattr(hook, "__dict__", {}))
        return func(tensor, placed)

    def as_it_is(self, func: Any, args: Any, kwargs: Any) -> Any:
        return func(*args, **kwargs)

    def same(self, func: Any, args: Any, kwargs: Any) -> Any:
        return args[0]

    def nothing(self, func: Any, args: Any, kwargs: Any) -> None:
        return None

    def unfollowed(self, func: Any, args: Any, kwargs: Any) -> Any:
        if isinstance(place_of(args[0]), int):
            raise stand_in.CUDA.unknown(f"Tensor.{func.__name__}")
        return func(*args, **kwargs)


def install(cuda: Any) -> None:
    """Turn the mode on for this thread, also while gradients flow and where tensors are made without it."""
    mode = cuda.active = Mode()
    mode.__enter__()
    run = torch.autograd._engine_run_backward

    def _engine_run_backward(roots: Any, *args: Any, **kwargs: Any) -> Any:
        before, cuda.backward = cuda.backward, next(
            (place for one in tensors_in(roots, []) if isinstance(place := place_of(one), int)), None)
        try:
            if any(one is mode for one in torch.overrides._get_current_function_mode_stack()):
                return run(roots, *args, **kwargs)
            with mode:   # `Tensor.backward` came through us, and we are not there while we handle a call
                return run(roots, *args, **kwargs)
        finally:
            cuda.backward = before

    torch.autograd._engine_run_backward = _engine_run_backward
    for kind in (torch.nn.Parameter, torch.nn.Buffer):
        kind.__new__ = staticmethod(_same_place(kind.__new__))
    from_numpy = torch.from_numpy

    def placed(array: Any) -> Any:
        result = from_numpy(array)
        tag(result, "cpu")
        return result

    torch.from_numpy = placed
    setattr(torch, "compile", _uncompiled(cuda))  # noqa: B010


def _same_place(new: Any) -> Any:
    def __new__(cls: Any, data: Any = None, *args: Any, **kwargs: Any) -> Any:
        result = new(cls, data, *args, **kwargs)
        if isinstance(data, Tensor):
            tag(result, place_of(data))
        return result

    return __new__


def _uncompiled(cuda: Any) -> Any:
    def compile(model: Any = None, **kwargs: Any) -> Any:
        """Compiled code would run beside us: the model stays as it is, and a person is told."""
        cuda.note("cuda_unknown", what="torch.compile")
        return model if model is not None else lambda function: function

    return compile
