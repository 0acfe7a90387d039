"""Plain values across a process boundary: what a student's variable may be, written as JSON and read back
exactly.

Only int, float, str, bool, None, list, tuple and dict pass, by exact type: an object with a method of its
own could answer any comparison with True. Scalars and small arrays of numpy and torch pass as the numbers
they hold; sets, ranges and the views of a dict as lists.
"""

from __future__ import annotations

from itertools import islice
from typing import Any

MAX_ITEMS = 5_000
MAX_TEXT = 20_000
MAX_DEPTH = 8
MAX_INT_BITS = 1_000
_LIBRARIES = ("numpy", "torch")
_LISTS: tuple[type, ...] = (range, zip, type({}.keys()), type({}.values()), type({}.items()))


class NotPlain(Exception):
    """This value does not cross; the message is the name of its type, or "size"."""


def encode(value: Any) -> Any:
    """JSON for a plain value; NotPlain otherwise. Containers become {"list": […]}, {"tuple": …}, {"dict":
    …}.
    """
    return _encode(value, [MAX_ITEMS, MAX_TEXT], 0)


def _encode(value: Any, left: list[int], depth: int) -> Any:
    kind = type(value)
    left[0] -= 1
    if left[0] < 0 or depth > MAX_DEPTH:
        raise NotPlain("size")
    if value is None or kind is bool or kind is float:
        return value
    if kind is int:
        if value.bit_length() > MAX_INT_BITS:
            raise NotPlain("size")
        return value
    if kind is str:
        left[1] -= len(value)
        if left[1] < 0:
            raise NotPlain("size")
        return value
    if kind in (list, tuple):
        return {kind.__name__: [_encode(item, left, depth + 1) for item in value]}
    if kind in (set, frozenset) and len(value) <= MAX_ITEMS:
        return _encode(_in_order(value), left, depth)
    if kind in _LISTS:
        return _encode(list(islice(value, MAX_ITEMS + 1)), left, depth)
    if kind is dict:
        pairs = [[_encode(k, left, depth + 1), _encode(v, left, depth + 1)] for k, v in value.items()]
        return {"dict": pairs}
    return _encode(_from_library(value), left, depth + 1)


def _in_order(value: Any) -> list[Any]:
    """A set's items, in the same order at every grading."""
    try:
        return sorted(value)
    except TypeError:
        return sorted(value, key=repr)


def _from_library(value: Any) -> Any:
    kind = type(value)
    if kind.__module__.split(".")[0] not in _LIBRARIES or not hasattr(value, "tolist"):
        raise NotPlain(kind.__name__[:80])
    size = value.numel() if hasattr(value, "numel") else getattr(value, "size", 1)
    if not isinstance(size, int) or size > MAX_ITEMS:
        raise NotPlain("size")
    return value.tolist()


def decode(data: Any) -> Any:
    """The value that `encode` wrote; ValueError for anything that it cannot have written."""
    return _decode(data, [MAX_ITEMS, MAX_TEXT], 0)


def _decode(data: Any, left: list[int], depth: int) -> Any:
    left[0] -= 1
    left[1] -= len(data) if isinstance(data, str) else 0
    if min(left) < 0 or depth > MAX_DEPTH:
        raise ValueError("too many items")
    if isinstance(data, int) and data.bit_length() > MAX_INT_BITS:
        raise ValueError("too large a number")
    if data is None or isinstance(data, bool | int | float | str):
        return data
    if isinstance(data, dict) and len(data) == 1:
        ((kind, items),) = data.items()
        if isinstance(items, list) and kind in ("list", "tuple"):
            values = [_decode(item, left, depth + 1) for item in items]
            return tuple(values) if kind == "tuple" else values
        if isinstance(items, list) and kind == "dict":
            pairs = [(_decode(k, left, depth + 1), _decode(v, left, depth + 1)) for k, v in items]
            try:
                return dict(pairs)
            except TypeError:
                raise ValueError("a key that cannot be one") from None
    raise ValueError("not a plain value")
