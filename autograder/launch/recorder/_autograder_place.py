"""How a tensor carries its place: "cpu", the index of a simulated GPU, or nothing.

Nothing, where torch's C++ made the tensor and we saw nothing of it: such a tensor is never blamed.
"""

from __future__ import annotations

import torch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

PLACE = "_autograder_place"
Tensor = torch.Tensor


def place_of(tensor: Any) -> Any:
    return tensor.__dict__.get(PLACE)


def tag(value: Any, place: Any, depth: int = 3) -> None:
    """Say where the tensors of a result are."""
    for tensor in tensors_in(value, [], depth):
        tensor.__dict__[PLACE] = place


def tensors_in(value: Any, found: list, depth: int = 3) -> list:
    if isinstance(value, Tensor):
        found.append(value)
    elif depth and isinstance(value, (list, tuple)):
        for item in value:
            tensors_in(item, found, depth - 1)
    elif depth and isinstance(value, dict):
        for item in value.values():
            tensors_in(item, found, depth - 1)
    return found
