"""External forces that act on bodies during a run: names of their entries in the parameter vector p."""

from __future__ import annotations

FORCE, POINT = ("fx", "fy", "fz"), ("px", "py", "pz")
NUMBERS = len(FORCE) + len(POINT)  # numbers in p of each body that can be pushed


def push_names(body: str) -> tuple[str, ...]:
    """Names of the six entries of p for a body's external force.

    The entries are the force along the world axes (3,), N, then its point of action in the body's frame (3,), m.
    """
    return tuple(f"{body}.push.{part}" for part in (*FORCE, *POINT))
