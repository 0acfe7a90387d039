"""Compare a student's plain answer with a number; an answer of another type is wrong, never an error."""

from __future__ import annotations

import math
import numbers
from typing import Any


def close(value: object, expected: Any, rel: float = 1e-6, abs: float = 1e-9) -> bool:
    """`value` is the number `expected`, or a list of as many such numbers; False on any other type.

    A bool is not a number, and the text "3,5" is not one either.
    """
    if isinstance(expected, list | tuple):
        return (
            isinstance(value, list | tuple) and len(value) == len(expected)
            and all(close(one, other, rel, abs) for one, other in zip(value, expected, strict=True))
        )
    number = _number(value)
    return number is not None and math.isclose(number, float(expected), rel_tol=rel, abs_tol=abs)


def within(value: object, low: float, high: float) -> bool:
    """`value` is a number in [low, high]; False on any other type."""
    number = _number(value)
    return number is not None and low <= number <= high


def truth(ok: object) -> bool:
    """Whether `ok` holds. A student's object whose comparison raises, or has no truth value, is wrong."""
    try:
        return bool(ok)
    except Exception:
        return False


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None
