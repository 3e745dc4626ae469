"""External forces that act on bodies during a run: names of their numbers in p."""

from __future__ import annotations

FORCE, POINT = ("fx", "fy", "fz"), ("px", "py", "pz")
NUMBERS = len(FORCE) + len(POINT)  # numbers in p of each body that can be pushed


def push_names(body: str) -> tuple[str, ...]:
    """Names in p of a body's external force: world force, N, then its point in the body's frame, m; (6,)."""
    return tuple(f"{body}.push.{part}" for part in (*FORCE, *POINT))
