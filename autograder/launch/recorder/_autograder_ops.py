"""The collectives that are recorded, and where their arguments stand (rules: see sitecustomize.py)."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# The collectives, with the name and position of the tensor that goes in, and of what comes out.
OPS = {
    "all_reduce": (("tensor", 0), ("tensor", 0)),
    "broadcast": (("tensor", 0), ("tensor", 0)),
    "reduce": (("tensor", 0), ("tensor", 0)),
    "all_gather": (("tensor", 1), ("tensor_list", 0)),
    "all_gather_into_tensor": (("input_tensor", 1), ("output_tensor", 0)),
    "all_gather_single": (("input_tensor", 1), ("output_tensor", 0)),
    "reduce_scatter": (("input_list", 1), ("output", 0)),
    "reduce_scatter_tensor": (("input", 1), ("output", 0)),
    "reduce_scatter_single": (("input", 1), ("output", 0)),
    "gather": (("tensor", 0), ("gather_list", 1)),
    "scatter": (("scatter_list", 1), ("tensor", 0)),
    "all_to_all": (("input_tensor_list", 1), ("output_tensor_list", 0)),
    "all_to_all_single": (("input", 1), ("output", 0)),
    "send": (("tensor", 0), None),
    "isend": (("tensor", 0), None),
    "recv": (("tensor", 0), ("tensor", 0)),
    "irecv": (("tensor", 0), None),
    "barrier": (None, None),
    "monitored_barrier": (None, None),
    "all_gather_object": (None, None),
    "gather_object": (None, None),
    "broadcast_object_list": (None, None),
    "scatter_object_list": (None, None),
}
REDUCTIONS = {"all_reduce": 1, "reduce": 2, "reduce_scatter": 2, "reduce_scatter_tensor": 2,
              "reduce_scatter_single": 2}   # position of `op`


def argument(where: tuple | None, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if where is None:
        return None
    name, position = where
    return kwargs[name] if name in kwargs else args[position] if len(args) > position else None


def reduction(op: Any) -> str:
    return "sum" if op is None else str(getattr(op, "name", None) or str(op).rsplit(".", 1)[-1]).lower()
