"""Numbers of systems that vector kernels evaluate at once."""

from __future__ import annotations

from sim_core.errors import InvalidRequest

LANES = (2, 4, 8, 16, 32)


def check_lanes(lanes: int, permitted: tuple[int, ...] = (1, *LANES)) -> None:
    """Raise InvalidRequest for a number of lanes that kernels cannot have.

    LLVM stores a vector of another number of lanes in the memory of the next power of two, beyond the caller's arrays.
    """
    if not isinstance(lanes, int) or lanes not in permitted:
        raise InvalidRequest(f"lanes is {lanes}; it must be one of {', '.join(map(str, permitted))}")
