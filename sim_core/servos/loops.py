"""The actuators' own loops: commands of effort, velocity or position in, efforts out, once per step.

servos = Servos(mechanism, step_s)
position, velocity, _ = simulation.joints()
servos.command("velocity", ["wheel"], [2.0], position)
simulation.set_effort(servos.efforts(position, velocity))     # before each step
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import isfinite
from typing import Any, NamedTuple

import numpy as np

from sim_core.errors import InvalidRequest, UnknownName, require_finite
from sim_core.kernels.bound import BoundKernel
from sim_core.mechanism.description import Mechanism
from sim_core.servos.kernels import EFFORT, POSITION, servo_efforts, take_commands

MODES = ("effort", "velocity", "position")
KEYS = ("mode", "value", "target")
MOST_KNOWN = 64  # lists of names whose places are remembered
ROUNDING = 1e-6  # rad or m


class Known(NamedTuple):
    """Actuators that are named together: their places, between what their commands lie, and how values are taken."""

    places: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    fill: Callable[..., None]  # with the values, as separate arguments, what `take` cuts to the limits and takes
    take: BoundKernel


class Servos:
    """What the actuators of a mechanism were told last, in the order of its actuators.

    In the modes "velocity" and "position" each has a target x*, which moves at the commanded velocity, or goes to the
    commanded position at velocity_limit at most. It begins at x + u/k, in "position" at x + (u + d v)/k, so that the
    effort u goes on as it was; then

        u = k (x* - x) + d (v* - v)        v* = dx*/dt in "velocity", 0 in "position"

    with the gains of the actuator's Servo, within +-effort_limit. x* goes no further than the joint's limits, and stays
    within effort_limit / k of x: an error that saturates the actuator does not grow. Held over a step h, the loop is
    stable while h d and h^2 k stay well below the inertia it moves.
    """

    def __init__(self, mechanism: Mechanism, step_s: float) -> None:
        actuators = mechanism.actuators
        joints = [mechanism.joint(actuator.joint) if actuator.joint else None for actuator in actuators]
        order = [joint.name for joint in mechanism.moving_joints]
        self._robot = mechanism.name
        self.names = tuple(actuator.name for actuator in actuators)
        self._has_servo = [actuator.servo is not None for actuator in actuators]
        self._joint = np.array([order.index(joint.name) if joint else 0 for joint in joints], dtype=int)
        gains = [(0.0, 0.0) if a.servo is None else (a.servo.stiffness, a.servo.damping) for a in actuators]
        self._stiffness = np.array([stiffness for stiffness, _ in gains])
        self._damping = damping = np.array([damping for _, damping in gains])
        effort_limit = _limits([actuator.effort_limit for actuator in actuators])
        velocity_limit = _limits([actuator.velocity_limit for actuator in actuators])
        lower = -_limits([None if joint is None or joint.lower is None else -joint.lower for joint in joints])
        upper = _limits([None if joint is None else joint.upper for joint in joints])
        slack = [limit / k if k > 0.0 else np.inf for limit, k in zip(effort_limit, self._stiffness, strict=True)]
        n = len(actuators)
        self._start = np.array([actuator.start for actuator in actuators], dtype=float)
        self._is_switch = [not actuator.joint for actuator in actuators]
        self._mode, self._value, self._target, self._effort = np.zeros((4, n))
        self._value[:] = self._start
        self._ranges = (-effort_limit, effort_limit), (-velocity_limit, velocity_limit), (lower, upper)
        self._position, self._velocity = np.zeros((2, len(order)))
        where = [np.array([n, step_s], dtype=float), self._joint.astype(float), self._position, self._velocity]
        bounds = [effort_limit, velocity_limit, lower, upper, np.array(slack)]
        buffer = [self._mode, self._value, self._target, self._effort]
        self._given, self._buffer = [*where, self._stiffness, damping, *bounds], buffer
        self._step = BoundKernel(servo_efforts.address, self._given, buffer)
        self._known: dict[tuple[str, ...], Known] = {}
        self.busy = False

    def objection(self, mode: str, names: Any) -> str:
        """Why these actuators do not take commands of this mode, in one line; "" when they do."""
        if mode not in MODES:
            return f"mode {mode!r}: modes are {', '.join(MODES)}"
        for name in names:
            if name not in self.names:
                return str(UnknownName(repr(self._robot), "actuator", name, self.names or ["none"]))
            if mode != "effort" and not self._has_servo[self.names.index(name)]:
                return f"mode {mode!r}: actuator {name!r} of {self._robot!r} has no servo gains; it takes 'effort' only"
        return ""

    def command(
        self, mode: str, names: Sequence[str], values: Sequence[float], position: Any, velocity: Any = None
    ) -> Known:
        """Take commands, held until the next: N m or N, rad/s or m/s, rad or m, cut to the limits.

        `position` (n_joints,) is where the joints are, `velocity` how they move, None for at rest. InvalidRequest for a
        mode or name that is not, or a number that is not finite; then nothing changes. The result serves `again`.
        """
        known = self._known.get((mode, *names)) or self._recognized(mode, names)
        index = known.places
        self._check(mode, len(index), values)
        if mode != "effort":
            moving = mode == "position" and velocity is not None
            begins = index[self._mode[index] == EFFORT]
            self._begin(begins, np.asarray(position), np.asarray(velocity) if moving else None)
        known.fill(*values)
        known.take()
        if mode != "effort" or self.busy:
            self._mode[index] = MODES.index(mode)
            self.busy = bool(self._mode.any())
        return known

    def again(self, mode: str, known: Known, values: Sequence[float]) -> None:
        """New values for actuators whose last command was of this mode too: what `command` does, for less."""
        if len(values) != len(known.places) or not isfinite(sum(values)):
            self._check(mode, len(known.places), values)
        known.fill(*values)
        known.take()

    def beyond(self, known: Known, names: Sequence[str], values: Sequence[float]) -> str:
        """Which position is cut to its joint's limits, in one line, "" where none is; rad or m.

        `known` is what `command` gave back for these names.
        """
        lower, upper = known.lower, known.upper
        wanted = np.array(values, dtype=float)
        off = (wanted < lower - ROUNDING) | (wanted > upper + ROUNDING)
        if not off.any():
            return ""
        k = int(off.argmax())
        limits = f"{lower[k]:.4g} .. {upper[k]:.4g}"
        there = min(max(values[k], lower[k]), upper[k])
        return f"position {values[k]:.4g} of {names[k]!r}, beyond its limits {limits}: it goes to {there:.4g}"

    def _check(self, mode: str, count: int, values: Sequence[float]) -> None:
        if count != len(values):
            raise InvalidRequest(f"{self._robot}: {count} names for {len(values)} values")
        require_finite(self._robot, mode, values)

    def _recognized(self, mode: str, names: Sequence[str]) -> Known:
        """Where the actuators are, and between what their commands lie; a controller names the same again and again."""
        if reason := self.objection(mode, names):
            raise InvalidRequest(reason)
        index = np.array([self.names.index(name) for name in names], dtype=int)
        lower, upper = (np.array(limit[index]) for limit in self._ranges[MODES.index(mode)])
        value, given = np.zeros(len(index)), np.array([len(index)], dtype=float)
        take = BoundKernel(take_commands.address, [given, index.astype(float), lower, upper, value], [self._value])
        # an assignment to the array would look for the shape and the kind of the values first
        fill = partial(struct.Struct(f"{len(index)}d").pack_into, value.data, 0)
        found = Known(index, lower, upper, fill, take)
        if len(self._known) < MOST_KNOWN:
            self._known[mode, *names] = found
        return found

    def rest(self, names: Any, position: Any = None) -> None:
        """Make these actuators safe: no effort; or, given where the joints are, their servos hold them about there.

        An actuator without a servo then goes on with the effort it has. A switch stays as it is.
        """
        for name in names:
            index = self.names.index(name)
            if self._is_switch[index]:
                continue
            if position is None:
                self._mode[index], self._value[index] = EFFORT, 0.0
            elif self._has_servo[index]:
                if self._mode[index] == EFFORT:
                    self._begin(np.array([index]), np.asarray(position))
                self._mode[index], self._value[index] = POSITION, self._target[index]
        self.busy = bool(self._mode.any())

    def _begin(self, index: np.ndarray, position: np.ndarray, velocity: np.ndarray | None = None) -> None:
        """Targets of actuators that gave an effort until now, such that they go on with it."""
        joint, effort = self._joint[index], self._value[index]
        if velocity is not None:
            effort = effort + self._damping[index] * velocity[joint]
        self._target[index] = position[joint] + effort / self._stiffness[index]

    def efforts(self, position: np.ndarray, velocity: np.ndarray) -> np.ndarray:
        """Efforts (n_u,) for the step that begins at these joint positions (unwrapped) and velocities.

        Moves the targets on by one step: call it once per step.
        """
        if not self.busy:
            return self.commanded()
        self._position[:], self._velocity[:] = position, velocity
        self._step()
        return self._effort.copy()

    def bind(self, position: np.ndarray, velocity: np.ndarray, effort: np.ndarray) -> BoundKernel:
        """`efforts` as a kernel: from these positions and velocities of the joints, into this array (n_u,)."""
        given, buffer = [*self._given[:2], position, velocity, *self._given[4:]], [*self._buffer[:3], effort]
        return BoundKernel(servo_efforts.address, given, buffer)

    def commanded(self) -> np.ndarray:
        """The same while no servo is busy: efforts (n_u,) as they were commanded, wherever the joints are."""
        return self._value.copy()

    def reset(self, effort: np.ndarray | None = None) -> None:
        """Every actuator gives this effort (n_u,), by default that of the start."""
        self._mode[:] = EFFORT
        self._value[:] = self._start if effort is None else effort
        self.busy = False

    def to_plain(self) -> dict[str, list[Any]]:
        """What was told last, as numbers and lists: part of a snapshot."""
        return {"mode": self._mode.astype(int).tolist(), "value": self._value.tolist(), "target": self._target.tolist()}

    def from_plain(self, plain: Mapping[str, Any]) -> None:
        """Put back what `to_plain` gave; InvalidRequest for anything else, and then nothing changes."""
        n = len(self.names)
        try:
            values = {key: np.array(plain[key], dtype=float) for key in KEYS}
        except (KeyError, TypeError, ValueError) as error:
            raise InvalidRequest(f"servos need {', '.join(KEYS)}: {error!r}") from None
        for key, array in values.items():
            if array.shape != (n,):
                raise InvalidRequest(f"servos have {array.size} entries in {key}; {self._robot!r} has {n} actuators")
            require_finite("servos", key, array.tolist())
        for name, mode in zip(self.names, values["mode"].tolist(), strict=True):
            if mode not in range(len(MODES)):
                raise InvalidRequest(f"servos have mode {mode:g}; modes are 0 .. {len(MODES) - 1}")
            if reason := self.objection(MODES[int(mode)], [name]):
                raise InvalidRequest(f"servos: {reason}")
        self._mode[:], self._value[:], self._target[:] = (values[key] for key in KEYS)
        given = self._mode == EFFORT
        self._value[given] = _clip(self._value, *self._ranges[EFFORT])[given]
        self.busy = bool(self._mode.any())


def _clip(values: np.ndarray, lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
    """As np.clip, at a third of its price for a handful of numbers."""
    return np.asarray(np.minimum(np.maximum(values, lower), upper))


def _limits(values: list[float | None]) -> np.ndarray:
    return np.array([np.inf if value is None else value for value in values], dtype=float)
