"""Actuator servos: convert effort, velocity and position commands to efforts, once per time step.

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
from sim_core.mechanism.constraints import PrescribedMotion
from sim_core.mechanism.description import Mechanism
from sim_core.servos.kernels import EFFORT, POSITION, servo_efforts, take_commands

MODES = ("effort", "velocity", "position")
KEYS = ("mode", "value", "target")
MOST_KNOWN = 64  # lists of names whose lookup is cached
ROUNDING = 1e-6  # rad or m


class Known(NamedTuple):
    """Result of `Servos.command` for a list of actuators; `Servos.again` sets further values with it.

    A Known contains the indices and the command limits of the actuators, and functions that set their commands.
    """

    places: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    fill: Callable[..., None]  # called with the values as separate arguments, which `store` then clips and stores
    store: BoundKernel


class Servos:
    """Latest command of every actuator, and the servo loops that compute efforts from the commands.

    In the modes "velocity" and "position" an actuator has a target x*. The target moves at the commanded velocity, or
    towards the commanded position at most at velocity_limit. At joint position x and velocity v the effort is

        u = k (x* - x) + d (v* - v)        v* = dx*/dt in "velocity", 0 in "position"

    with stiffness k and damping d of the actuator's Servo, limited to +-effort_limit. After a change from effort mode,
    the target starts at x + u/k ("velocity") or x + (u + d v)/k ("position"), so that u is continuous. Between the
    modes "position" and "velocity" it moves by d v*/k, so that u is continuous there, too. The target
    remains within the joint's limits, and within effort_limit / k of x, so that x* - x does not wind up while the
    actuator saturates. Because u is constant over a time step of size h, the loop is stable only if h d and h^2 k are
    well below the inertia that the actuator moves, see `sim_core.monitoring.servo_loops.unstable_servos`.
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
        prescribed = {each.input for each in mechanism.constraints if isinstance(each, PrescribedMotion)}
        self._is_velocity = [actuator.name in prescribed for actuator in actuators]
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
        """One-line reason why the actuators `names` refuse commands in the mode `mode`; "" if they accept the mode."""
        if mode not in MODES:
            return f"mode {mode!r}: modes are {', '.join(MODES)}"
        for name in names:
            if name not in self.names:
                return str(UnknownName(repr(self._robot), "actuator", name, self.names or ["none"]))
            if mode != "effort" and not self._has_servo[self.names.index(name)]:
                return f"mode {mode!r}: actuator {name!r} of {self._robot!r} has no servo gains; use mode 'effort'"
        twice = sorted({name for name in names if list(names).count(name) > 1})
        if twice:
            return f"actuator {twice[0]!r} is named more than once; give one value for each actuator"
        return ""

    def command(
        self, mode: str, names: Sequence[str], values: Sequence[float], position: Any, velocity: Any = None
    ) -> Known:
        """Set commands for the actuators `names`, clipped to their limits and constant until the next command.

        mode      "effort" (N m or N), "velocity" (rad/s or m/s) or "position" (rad or m)
        position  (n_joints,) joint positions
        velocity  (n_joints,) joint velocities; None: zero
        Raises InvalidRequest, without changing any command, for an unknown mode or name, or a value that is not finite.
        The result can be passed to `again`.
        """
        known = self._known.get((mode, *names)) or self._recognized(mode, names)
        index = known.places
        self._check(mode, len(index), values)
        if mode != "effort":
            moving = mode == "position" and velocity is not None
            begins = index[self._mode[index] == EFFORT]
            self._begin(begins, np.asarray(position), np.asarray(velocity) if moving else None)
            changed = index[(self._mode[index] != EFFORT) & (self._mode[index] != MODES.index(mode))]
            if mode == "position":
                self._target[changed] += self._lag(changed)
        known.fill(*values)
        known.store()
        if mode == "velocity":
            self._target[changed] -= self._lag(changed)
        if mode != "effort" or self.busy:
            self._mode[index] = MODES.index(mode)
            self.busy = bool(self._mode.any())
        return known

    def again(self, mode: str, known: Known, values: Sequence[float]) -> None:
        """Set new values for actuators whose last command had the mode `mode`; faster than `command`.

        known  result of `command` for the same actuators and mode
        """
        if len(values) != len(known.places) or not isfinite(sum(values)):
            self._check(mode, len(known.places), values)
        known.fill(*values)
        known.store()

    def beyond(self, known: Known, names: Sequence[str], values: Sequence[float]) -> str:
        """One-line warning about the first commanded position outside its joint's limits; "" if there is none.

        known   result of `command` for the actuators `names`
        values  commanded positions, rad or m
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
            raise InvalidRequest(
                f"{self._robot}: the command has {count} actuator names for {len(values)} values; "
                "give one value per name"
            )
        require_finite(self._robot, mode, values)

    def _recognized(self, mode: str, names: Sequence[str]) -> Known:
        """The Known of the named actuators in a mode, which is cached: controllers command the same names repeatedly.

        Raises InvalidRequest for an unknown mode or name, and for a mode that an actuator does not accept.
        """
        if reason := self.objection(mode, names):
            raise InvalidRequest(reason)
        index = np.array([self.names.index(name) for name in names], dtype=int)
        lower, upper = (np.array(limit[index]) for limit in self._ranges[MODES.index(mode)])
        value, given = np.zeros(len(index)), np.array([len(index)], dtype=float)
        take = BoundKernel(take_commands.address, [given, index.astype(float), lower, upper, value], [self._value])
        # struct packing is faster than an array assignment, which inspects shape and type of the values
        fill = partial(struct.Struct(f"{len(index)}d").pack_into, value.data, 0)
        found = Known(index, lower, upper, fill, take)
        if len(self._known) < MOST_KNOWN:
            self._known[mode, *names] = found
        return found

    def rest(self, names: Any, position: Any = None) -> None:
        """Bring the actuators `names` to a safe state: without effort, or with the servos holding the joints in place.

        If `position` is None, the efforts become zero. Otherwise each actuator with a servo enters the mode "position"
        and holds its current target; if it was in mode "effort", its target becomes the position at which the effort
        remains the same. An actuator without a servo then keeps its effort. An actuator whose command is the velocity
        of a PrescribedMotion stops, by an impulse. Any other actuator without a joint, such as a gripper, keeps its
        command.

        position  (n_joints,) present joint positions, or None
        """
        for name in names:
            index = self.names.index(name)
            if self._is_velocity[index]:
                self._value[index] = 0.0
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
        """Set the targets of actuators that leave effort mode such that the efforts are continuous.

        index     indices of these actuators
        position  (n_joints,) joint positions
        velocity  (n_joints,) joint velocities, if the actuators enter the mode "position"; None in the mode "velocity"
        """
        joint, effort = self._joint[index], self._value[index]
        if velocity is not None:
            effort = effort + self._damping[index] * velocity[joint]
        self._target[index] = position[joint] + effort / self._stiffness[index]

    def _lag(self, index: np.ndarray) -> np.ndarray:
        """Distances d v*/k by which the mode "position" stays behind a target that moves at the commanded velocities.

        A target at a limit does not move beyond it, whatever the velocity.
        """
        lower, upper = self._ranges[POSITION]
        v, target = self._value[index], self._target[index]
        stays = ((v > 0.0) & (target >= upper[index])) | ((v < 0.0) & (target <= lower[index]))
        return np.where(stays, 0.0, self._damping[index] * v / self._stiffness[index])

    def efforts(self, position: np.ndarray, velocity: np.ndarray) -> np.ndarray:
        """Efforts (n_u,) for the time step that begins at the given joint positions (unwrapped) and velocities.

        Each call also advances the targets by one time step. Call the method exactly once per time step.
        """
        if not self.busy:
            return self.commanded()
        self._position[:], self._velocity[:] = position, velocity
        self._step()
        return self._effort.copy()

    def bind(self, position: np.ndarray, velocity: np.ndarray, effort: np.ndarray) -> BoundKernel:
        """The kernel of `efforts`, bound to the caller's arrays.

        position, velocity  (n_joints,) arrays that the kernel reads
        effort  (n_u,) array that the kernel writes
        """
        given, buffer = [*self._given[:2], position, velocity, *self._given[4:]], [*self._buffer[:3], effort]
        return BoundKernel(servo_efforts.address, given, buffer)

    def commanded(self) -> np.ndarray:
        """Commanded values (n_u,): effort, velocity or position of each actuator, according to the actuator's mode.

        If all actuators are in effort mode, the values are the applied efforts.
        """
        return self._value.copy()

    def reset(self, effort: np.ndarray | None = None) -> None:
        """Set every actuator to effort mode with the efforts `effort` (n_u,), by default those at the start."""
        self._mode[:] = EFFORT
        self._value[:] = self._start if effort is None else effort
        self.busy = False

    def to_plain(self) -> dict[str, list[Any]]:
        """The current commands as {"mode", "value", "target": list}, for a snapshot."""
        return {"mode": self._mode.astype(int).tolist(), "value": self._value.tolist(), "target": self._target.tolist()}

    def from_plain(self, plain: Mapping[str, Any]) -> None:
        """Restore commands that `to_plain` returned.

        Raises InvalidRequest, without changing any command, for invalid data.
        """
        n = len(self.names)
        try:
            values = {key: np.array(plain[key], dtype=float) for key in KEYS}
        except (KeyError, TypeError, ValueError) as error:
            raise InvalidRequest(
                f"the servos of a snapshot need the lists {', '.join(KEYS)}; reading these lists failed with {error!r}"
            ) from None
        for key, array in values.items():
            if array.shape != (n,):
                raise InvalidRequest(f"servos: {key} has {array.size} entries; {self._robot!r} has {n} actuators")
            require_finite("servos", key, array.tolist())
        for name, mode in zip(self.names, values["mode"].tolist(), strict=True):
            if mode not in range(len(MODES)):
                raise InvalidRequest(f"servos: mode is {mode:g}; it must be in 0 .. {len(MODES) - 1}")
            if reason := self.objection(MODES[int(mode)], [name]):
                raise InvalidRequest(f"servos: {reason}")
        self._mode[:], self._value[:], self._target[:] = (values[key] for key in KEYS)
        given = self._mode == EFFORT
        self._value[given] = _clip(self._value, *self._ranges[EFFORT])[given]
        self.busy = bool(self._mode.any())


def _clip(values: np.ndarray, lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
    """`values` clipped to [lower, upper] like np.clip, in a third of the time for small arrays."""
    return np.asarray(np.minimum(np.maximum(values, lower), upper))


def _limits(values: list[float | None]) -> np.ndarray:
    return np.array([np.inf if value is None else value for value in values], dtype=float)
