"""Task of an environment: a robot, what is observed, rewarded and random, and how an episode starts and ends."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

import msgspec
import numpy as np

from nodes.framework.plan.key_checks import PlanError, convert
from nodes.framework.plan.launch_plan import LinkPlan
from robots.registry import build
from sim_core.errors import InvalidRequest, UnknownName
from sim_core.mechanism.description import Mechanism
from sim_core.mechanism.validation import check_range

STATE, COMMAND = "state", "command"
Array = np.ndarray


@dataclass(frozen=True)
class Motion:
    """States of n systems, one system per column.

    q, v   coordinates and velocities (n_q, n)
    time   time since the start of the episode (n,), s
    """

    q: Array
    v: Array
    time: Array


def never(motion: Motion) -> Array:
    """Mask (n,) of no system: no state ends an episode early."""
    return np.zeros(len(motion.time), dtype=bool)


@dataclass(frozen=True, kw_only=True)
class Task:
    """Description of an environment.

    robot        name of a robot, "path/to/file.py:function" or "path/to/robot.urdf", in coordinates of its joints
    parameters   parameters of the robot, as of `build`
    observe      function of the measured Motion: observations (k, n)
    reward       function of the Motion and the actions (n_u, n): rewards (n,)
    start        function of a random generator: coordinates and velocities (n_q,) at the start of an episode; by
                 default those of the robot's description
    fails        function of the Motion: mask (n,) of the systems whose episode ends as terminated
    limits       (k,) largest absolute values of the observations, by default infinite
    step_s       time step, s
    steps        time steps per action
    duration_s   time after which an episode is truncated, s
    largest      (n_u,) inputs of the actuators for the action 1, in N m, N, or the unit of `modes`; by default the
                 effort limits. Actions are from -1 to 1
    modes        {actuator: "velocity" or "position"}: actuators whose inputs are commands to their servos
    stabilizer   "none" or "sampled_fuzzy"
    ranges       {tunable parameter: (smallest, largest)}, drawn uniformly for each episode
    links        {"state" or "command": table `link` of a launch file}: delays of the measured state and of the
                 actuators' inputs. The name of a coordinate instead of "state" gives its position and velocity a link
                 of their own. State messages are sent at every time step; until the first one has arrived, the start is
                 observed and actions have no effect
    noise        {coordinate: (position, velocity)}: standard deviations of the measured values
    node         name of the node that sends the actions; with the seed it determines the random delays
    """

    robot: str
    observe: Callable[[Motion], Array]
    reward: Callable[[Motion, Array], Array]
    start: Callable[[np.random.Generator], tuple[Any, Any]] | None = None
    fails: Callable[[Motion], Array] = never
    parameters: Mapping[str, Any] = field(default_factory=dict)
    limits: Any = None
    step_s: float = 1e-3
    steps: int = 10
    duration_s: float = 10.0
    largest: Any = None
    modes: Mapping[str, str] = field(default_factory=dict)
    stabilizer: str = "none"
    ranges: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    links: Mapping[str, Any] = field(default_factory=dict)
    noise: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    node: str = "policy"

    def changed(self, overrides: Mapping[str, Any]) -> Task:
        """The task with other values of some fields."""
        known = [each.name for each in fields(self)]
        for name in overrides:
            if name not in known:
                raise UnknownName(f"the task of {self.robot!r}", "field", name, known)
        changed = replace(self, **overrides)
        for name in ("step_s", "steps", "duration_s"):
            if not (np.isreal(value := getattr(changed, name)) and 0 < value < np.inf):
                raise InvalidRequest(f"{name} is {value!r}; it must be above 0 and finite")
        if changed.steps != int(changed.steps):
            raise InvalidRequest(f"steps is {changed.steps!r}; it must be a whole number")
        return changed

    @property
    def actions_per_episode(self) -> int:
        """Number of actions after which an episode is truncated."""
        return max(1, round(self.duration_s / (self.steps * self.step_s)))

    @property
    def mechanism(self) -> Mechanism:
        """The robot's description, after checks of the task against it. Raises InvalidRequest with one line."""
        mechanism = build(self.robot, **self.parameters)
        owner = f"robot {mechanism.name!r}"
        if not mechanism.has_joint_coordinates:
            raise InvalidRequest(
                f"{owner} is in absolute coordinates, which an environment does not use; use joint coordinates, "
                'such as parameters={"coordinates": "joint"}'
            )
        tunables = {tunable.name: tunable for tunable in mechanism.tunables}
        for name, bounds in self.ranges.items():
            if name not in tunables:
                raise UnknownName(owner, "tunable", name, list(tunables) or ["none"])
            if not (np.shape(bounds) == (2,) and np.isfinite(bounds).all()):
                raise InvalidRequest(f"the range of {name!r} is {bounds!r}; it must be two finite numbers")
            low, high = (float(bound) for bound in bounds)
            if not low <= high:
                raise InvalidRequest(
                    f"the range of {name!r} is {low:g} to {high:g}; its first number must be the smaller"
                )
            try:
                check_range(mechanism, tunables[name], low, high)
            except InvalidRequest as error:
                raise InvalidRequest(f"the range of {name!r}: {error}") from None
        return mechanism

    def links_of(self, coordinates: list[str]) -> dict[str, LinkPlan]:
        """{signal: link} of the signals with delay, jitter or loss."""
        known = [STATE, COMMAND, *coordinates]
        found = {}
        for name, table in self.links.items():
            if name not in known:
                raise UnknownName(f"the task of {self.robot!r}", "signal", name, known)
            if not isinstance(table, Mapping | LinkPlan):
                raise InvalidRequest(f"links: {name!r} is {table!r}; it must be a table such as {{'delay_ms': 3.0}}")
            try:
                link = convert(msgspec.to_builtins(table), LinkPlan, f"links: {name!r}")
            except PlanError as error:
                raise InvalidRequest(str(error)) from None
            if link != LinkPlan():
                found[name] = link
        return found

    def noise_of(self, coordinates: list[str]) -> tuple[Array, Array] | None:
        """Standard deviations (n_q, 1) of measured positions and velocities; None without noise."""
        deviations = np.zeros((2, len(coordinates), 1))
        for name, pair in self.noise.items():
            if name not in coordinates:
                raise UnknownName(f"the task of {self.robot!r}", "coordinate", name, coordinates)
            if not (np.shape(pair) == (2,) and np.isfinite(pair).all() and min(pair) >= 0.0):
                raise InvalidRequest(f"noise: {name!r} is {pair!r}; it must be two standard deviations of 0 or more")
            deviations[:, coordinates.index(name), 0] = pair
        return (deviations[0], deviations[1]) if deviations.any() else None

    def largest_of(self, mechanism: Mechanism) -> Array:
        """Inputs (n_u,) of the actuators for the action 1."""
        efforts = [np.nan if a.effort_limit is None else a.effort_limit for a in mechanism.actuators]
        given = efforts if self.largest is None else self.largest
        values: Array = np.atleast_1d(np.asarray(given, dtype=np.float64))
        if values.shape != (len(mechanism.actuators),) or not (np.isfinite(values).all() and (values > 0.0).all()):
            raise InvalidRequest(
                f"largest is {given}; it must be {len(mechanism.actuators)} finite numbers above 0, one per actuator "
                f"of {mechanism.name!r}"
            )
        return values
