"""Numbers and arrays that callers pass to a simulation or to functions of the dynamics, checked and converted."""

from __future__ import annotations

import operator
import sys
from collections.abc import Mapping
from typing import Any

import numpy as np

from sim_core.errors import InvalidRequest, require_finite
from sim_core.support.shown import shown

LARGEST = 1e15  # added to a larger number, a robot's lengths and masses vanish in double precision


def as_number(owner: str, name: str, value: Any) -> float:
    """`value` as a float. Raises InvalidRequest, one line, unless it is one finite number."""
    array = as_array(owner, name, value, "a number")
    if array.ndim:
        raise InvalidRequest(f"{owner}: {name} is {shown(value)}; it must be one number")
    require_finite(owner, name, [float(array)])
    return float(array)


def as_numbers(owner: str, name: str, value: Any) -> np.ndarray:
    """`value` as a new array (n,) of float64. Raises InvalidRequest, one line, unless all entries are finite numbers.

    Arrays of several dimensions are flattened.
    """
    array = np.array(as_array(owner, name, value)).reshape(-1)
    require_finite(owner, name, array.tolist())
    return array


def as_state(owner: str, name: str, value: Any) -> np.ndarray:
    """Coordinates, velocities, accelerations or forces as a new array (n,); raises as `as_numbers`, and for numbers
    beyond +-LARGEST.
    """
    array = as_numbers(owner, name, value)
    if np.abs(array).max(initial=0.0) > LARGEST:
        index = int(np.argmax(np.abs(array)))
        raise InvalidRequest(f"{owner}: {name}[{index}] is {array[index]:g}; numbers must be within +-{LARGEST:g}")
    return array


def as_count(owner: str, name: str, value: Any, most: int) -> int:
    """`value` as an int. Raises InvalidRequest, one line, unless it is a whole number from 0 to `most`."""
    count = as_whole(owner, name, value)
    if not 0 <= count <= most:
        raise InvalidRequest(f"{owner}: {name} is {shown(value)}; it must be a whole number from 0 to {most}")
    return count


def as_whole(owner: str, name: str, value: Any) -> int:
    """`value` as an int. Raises InvalidRequest, one line, unless it is a whole number of an integer type."""
    try:
        return operator.index(value)
    except TypeError:
        raise InvalidRequest(f"{owner}: {name} is {shown(value)}; it must be a whole number") from None


def as_mapping(owner: str, name: str, value: Any) -> Mapping[str, Any]:
    """`value` itself. Raises InvalidRequest, one line, unless it is a mapping such as a dict."""
    if not isinstance(value, Mapping):
        raise InvalidRequest(f"{owner}: {name} is {shown(value)}; it must be a dict {{name: number}}")
    return value


def as_array(owner: str, name: str, value: Any, permitted: str = "an array of numbers") -> np.ndarray:
    """Convert `value` to an array of float64 of the same shape; an array of float64 is returned itself.

    permitted  description of the permitted values, for the error message
    Raises InvalidRequest, one line, unless all entries are real numbers; they need not be finite.
    """
    try:
        plain = np.asarray(value)
        if (
            _is_masked(value)
            or plain.dtype.kind in "USc"
            or (plain.dtype.kind == "O" and any(isinstance(x, str) for x in plain.flat))
        ):
            raise TypeError
        return np.asarray(plain, dtype=float)
    except (TypeError, ValueError, OverflowError):
        raise InvalidRequest(f"{owner}: {name} is {shown(value)}; it must be {permitted}") from None


def _is_masked(value: Any) -> bool:
    """Whether a value is an array with masked entries. numpy.ma is not imported for this, as it takes 15 ms."""
    masked_arrays = sys.modules.get("numpy.ma")
    return masked_arrays is not None and bool(masked_arrays.is_masked(value))
