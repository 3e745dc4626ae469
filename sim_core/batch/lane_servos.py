"""Servos in a batch of systems: selection of the actuators' servos, and LLVM IR that computes the servos' efforts.

A batch integrates many systems at once, one per lane of the vector registers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import inf, isfinite

import numpy as np

from sim_core.arguments import as_mapping
from sim_core.errors import InvalidRequest, UnknownName
from sim_core.mechanism.description import Mechanism

MODES = ("effort", "velocity", "position")
Array = np.ndarray


@dataclass(frozen=True)
class LaneServo:
    """The servo of one actuator for a whole run, as defined in `sim_core.servos.loops`.

    actuator, coordinate  index of the actuator, and of the coordinate that it drives
    mode                  "velocity" or "position"
    start                 effort of the actuator before the run, from which the servo continues
    """

    actuator: int
    coordinate: int
    mode: str
    stiffness: float
    damping: float
    effort_limit: float
    velocity_limit: float
    lower: float
    upper: float
    start: float

    @property
    def commands(self) -> tuple[float, float]:
        """Range to which commands are clipped: rad or m in position mode, rad/s or m/s in velocity mode."""
        if self.mode == "position":
            return self.lower, self.upper
        return -self.velocity_limit, self.velocity_limit

    def effort_at(self, q: Array, v: Array, command: float) -> float:
        """Effort in the mode "position" at the state q, v (n_q,), with the commanded position as the servo's target.

        command  commanded position, rad or m, which is clipped to the joint's limits
        """
        least, most = self.commands
        stretch = min(max(command, least), most) - float(q[self.coordinate])
        effort = self.stiffness * stretch - self.damping * float(v[self.coordinate])
        return min(max(effort, -self.effort_limit), self.effort_limit)

    def first_target(self, q: Array, v: Array) -> Array:
        """Targets (n,) of the servo before the first step of n systems at q, v (n, n_q).

        With these targets, the effort of the servo is continuous at the start of the run.
        """
        moving = self.damping * v[:, self.coordinate] if self.mode == "position" else 0.0
        target: Array = q[:, self.coordinate] + (self.start + moving) / self.stiffness
        return target


def lane_servos(
    mechanism: Mechanism, modes: Mapping[str, str], coordinate_names: Sequence[str]
) -> tuple[LaneServo, ...]:
    """The servos of the actuators whose mode is not "effort", in the order of the actuators.

    modes  {actuator: mode}
    Raises InvalidRequest for an unknown actuator or mode, for an actuator without servo gains, and for an actuator of a
    joint whose position is not a coordinate in q.
    """
    names = [actuator.name for actuator in mechanism.actuators]
    for name, mode in as_mapping(repr(mechanism.name), "modes", modes).items():
        if name not in names:
            raise UnknownName(repr(mechanism.name), "actuator", name, names or ["none"])
        if mode not in MODES:
            raise InvalidRequest(f"actuator {name!r}: mode is {mode!r}; it must be one of {', '.join(MODES)}")
    found = []
    for place, actuator in enumerate(mechanism.actuators):
        mode = modes.get(actuator.name, "effort")
        if mode == "effort":
            continue
        if actuator.servo is None:
            raise InvalidRequest(
                f"mode {mode!r}: actuator {actuator.name!r} of {mechanism.name!r} has no servo gains; use mode 'effort'"
            )
        if not mechanism.has_joint_coordinates or actuator.joint not in coordinate_names:
            raise InvalidRequest(
                f"a batch cannot use mode {mode!r} for joint {actuator.joint!r} of {mechanism.name!r}, because the "
                "position of this joint is no coordinate; use a Simulation, or joint coordinates"
            )
        joint, limit, fastest = mechanism.joint(actuator.joint), actuator.effort_limit, actuator.velocity_limit
        found.append(
            LaneServo(
                actuator=place,
                coordinate=list(coordinate_names).index(actuator.joint),
                mode=mode,
                stiffness=actuator.servo.stiffness,
                damping=actuator.servo.damping,
                effort_limit=inf if limit is None else limit,
                velocity_limit=inf if fastest is None else fastest,
                lower=-inf if joint.lower is None else joint.lower,
                upper=inf if joint.upper is None else joint.upper,
                start=actuator.start,
            )
        )
    return tuple(found)


@dataclass(frozen=True)
class ServoWriter:
    """Writes the LLVM IR of servos. The writer of the loop that contains the servos provides these functions:

    op      function (operation, a, b) that writes an operation such as "fadd" and returns the IR value of its result
    pick    function (comparison, a, b) that returns the IR value that equals a if the comparison holds, otherwise b
    number  function that returns the IR constant of a number in all lanes
    """

    op: Callable[[str, str, str], str]
    pick: Callable[[str, str, str], str]
    number: Callable[[float], str]

    def step(self, servo: LaneServo, x: str, v: str, command: str, before: str, h: str) -> tuple[str, str]:
        """Write the code that computes one servo's target and effort for a time step; returns (target, effort).

        Both results, and all arguments except `servo`, are IR values.

        x, v     position and velocity of the joint at the start of the time step
        command  command to the servo
        before   target in the previous time step
        h        size of the time step
        """
        op, number = self.op, self.number
        if servo.mode == "velocity":
            way = op("fmul", command, h)
        else:
            way = op("fsub", command, before)
            if isfinite(servo.velocity_limit):
                reach = op("fmul", number(servo.velocity_limit), h)
                way = self._between(way, op("fmul", number(-servo.velocity_limit), h), reach)
        target = op("fadd", before, way)
        # a target beyond a limit may stay or come back
        if isfinite(servo.lower):
            target = self.pick("ogt", target, self.pick("olt", number(servo.lower), before))
        if isfinite(servo.upper):
            target = self.pick("olt", target, self.pick("ogt", number(servo.upper), before))
        rate = op("fdiv", op("fsub", target, before), h) if servo.mode == "velocity" else number(0.0)
        if isfinite(servo.effort_limit):
            slack = number(servo.effort_limit / servo.stiffness)
            target = self._between(target, op("fsub", x, slack), op("fadd", x, slack))
        pull = op("fmul", number(servo.stiffness), op("fsub", target, x))
        effort = op("fadd", pull, op("fmul", number(servo.damping), op("fsub", rate, v)))
        if isfinite(servo.effort_limit):
            effort = self._between(effort, number(-servo.effort_limit), number(servo.effort_limit))
        return target, effort

    def _between(self, value: str, least: str, most: str) -> str:
        return self.pick("olt", self.pick("ogt", value, least), most)
