"""External forces on bodies, requested by the service `push`; each force acts for a given duration."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from nodes.framework.messages import Event
from sim_core.simulation import Simulation

DURATION_S = 0.1  # default duration of a push, s
MOST_S = 3600.0  # longest duration of a push, s


class Pushes:
    """The external forces that act on a simulation, and the ticks at which they end."""

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation
        self._ends: dict[str, int] = {}  # {body: tick at which the push on this body ends}
        self._next = math.inf  # smallest tick in `_ends`

    @property
    def next_end(self) -> float:
        """Tick at which the next push ends; infinite if no push acts."""
        return self._next

    def push(self, body: Any = None, force: Any = None, point: Any = None, duration_s: Any = DURATION_S) -> Event:
        """Apply a force to a body from the next time step on; returns the event that logs the push.

        force       (3,) force along the world axes, N; zero ends the push on the body
        point       (3,) point at which the force acts, in the body's frame, m; by default the body's center of mass
        duration_s  duration (s), rounded to a whole number of time steps, at least one

        Raises ValueError with a one-line message for a wrong argument.
        """
        simulation = self._simulation
        if not isinstance(body, str):
            raise ValueError(f"push: body is {body!r}; it must be one of {_listed(simulation)}")
        force = _vector("force", force)
        if isinstance(duration_s, bool) or not isinstance(duration_s, int | float) or not 0.0 < duration_s <= MOST_S:
            raise ValueError(f"push: duration_s is {duration_s!r}; it must be a number above 0 and at most {MOST_S:g}")
        bodies = {each.name: each for each in simulation.system.mechanism.bodies}
        if point is None:
            point = list(bodies[body].center_of_mass) if body in bodies else [0.0, 0.0, 0.0]
        point = _vector("point", point)
        simulation.push(body, force, point)
        steps = max(round(duration_s / simulation.step_s), 1)
        if any(force):
            self._ends[body] = simulation.tick + steps
        else:
            self._ends.pop(body, None)
            steps = 0
        self._next = min(self._ends.values(), default=math.inf)
        newton, duration = math.hypot(*force), steps * simulation.step_s
        new = json.dumps({"force": force, "point": point, "duration_s": duration})
        detail = f"{newton:.4g} N on {body} for {duration:g} s" if steps else f"the push on {body} was ended"
        return Event(kind="push", part=body, key="force", new=new, detail=detail)

    def end_due(self) -> None:
        """End the pushes whose time is over. Call this method before each time step."""
        if self._simulation.tick < self._next:
            return
        for body, tick in list(self._ends.items()):
            if self._simulation.tick >= tick:
                self._simulation.push(body, np.zeros(3))
                del self._ends[body]
        self._next = min(self._ends.values(), default=math.inf)

    def to_plain(self) -> dict[str, int]:
        """{body: tick at which the push on this body ends}, for a snapshot.

        The forces of the pushes are not included, because the simulation's State contains them.
        """
        return dict(self._ends)

    def restore(self, plain: Mapping[str, int] | None = None) -> None:
        """Set the ticks at which the pushes end, after a reset or restore of the simulation.

        A force that acts in the restored state, but for which `plain` has no tick, ends before the next time step.

        plain  result of `to_plain` from a snapshot; None after a reset
        """
        self._ends = dict.fromkeys(self._simulation.pushes, 0) | dict(plain or {})
        self._next = min(self._ends.values(), default=math.inf)


def _vector(name: str, value: Any) -> list[float]:
    """`value` as three floats. Raises ValueError with a one-line message unless `value` is three finite numbers."""
    numbers = list(value) if isinstance(value, list | tuple) else []
    if len(numbers) != 3 or not all(
        isinstance(each, int | float) and not isinstance(each, bool) and math.isfinite(each) for each in numbers
    ):
        raise ValueError(f"push: {name} is {value!r}; it must be three finite numbers")
    return [float(each) for each in numbers]


def _listed(simulation: Simulation) -> str:
    mechanism = simulation.system.mechanism
    return ", ".join(mechanism.pushable) or f"the pushable bodies, but {mechanism.name!r} has none"
