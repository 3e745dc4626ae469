"""Converts commands of ROS 2 to commands of a launch. A command that does not fit the robot raises ValueError."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from nodes.framework.messages import Description, JointCommand, Twist
from nodes.framework.ros2.interfaces.geometry_msgs import Twist as RosTwist
from nodes.framework.ros2.interfaces.sensor_msgs import JointState
from sim_core.support.suggestion import did_you_mean

Mode = Literal["effort", "velocity", "position"]
MODES: tuple[Mode, ...] = ("effort", "velocity", "position")
FIELDS: dict[Mode, str] = {"effort": "effort", "velocity": "velocity", "position": "position"}


@dataclass(frozen=True)
class Actuators:
    """The actuators of a robot.

    by_name  {name of an actuator, or of the only joint that it drives: name of the actuator}
    modes    {actuator: modes that it accepts}
    """

    by_name: Mapping[str, str]
    modes: Mapping[str, Sequence[str]]

    @classmethod
    def of(cls, description: Description) -> Actuators:
        """The actuators that a description lists."""
        by_joint = {each.joint: each.name for each in description.actuators if each.joint}
        own = {each.name: each.name for each in description.actuators}
        return cls({**by_joint, **own}, {each.name: each.modes for each in description.actuators})

    def accepting(self, mode: str) -> list[str]:
        """The actuators that accept a mode, in the order of the description."""
        return [name for name, modes in self.modes.items() if mode in modes]

    def of_joint(self, name: str) -> str:
        """Name of the actuator that drives a joint, or of the actuator with this name."""
        found = self.by_name.get(name)
        if found is None:
            known = ", ".join(self.by_name) or "none"
            raise ValueError(
                f"no actuator drives a joint {name[:80]!r}{did_you_mean(name[:80], self.by_name)}; driven are {known}"
            )
        return found


def joint_commands(message: JointState, actuators: Actuators) -> list[JointCommand]:
    """The commands in a joint state: one for each mode, effort, velocity or position.

    The mode of each joint is that of the list in which it has a number. A list may be empty, and NaN is no number, but
    each joint must have exactly one number.
    """
    names = message.name
    if len(set(names)) != len(names) or not names:
        raise ValueError(f"the names are {_shown(names)}; give each joint once")
    values = {mode: getattr(message, FIELDS[mode]) for mode in MODES}
    for mode, given in values.items():
        if given and len(given) != len(names):
            raise ValueError(f"{len(names)} joints have {len(given)} numbers in {mode}; give one for each, or none")
    found: dict[Mode, tuple[list[str], list[float]]] = {}
    for place, name in enumerate(names):
        modes = [mode for mode in MODES if values[mode] and not math.isnan(values[mode][place])]
        if len(modes) != 1:
            among = " and ".join(modes) or "no list"
            raise ValueError(
                f"joint {name[:80]!r} has numbers in {among}; give one of effort, velocity and position, "
                "and NaN or empty lists for the others"
            )
        commanded, numbers = found.setdefault(modes[0], ([], []))
        commanded.append(actuators.of_joint(name))
        numbers.append(_finite(values[modes[0]][place], name))
    return [JointCommand(mode=mode, name=name, value=value) for mode, (name, value) in found.items()]


def array_command(data: Sequence[float], mode: Mode, actuators: Actuators) -> JointCommand:
    """The command in a plain array: one number for each actuator that accepts the mode, in their order."""
    names = actuators.accepting(mode)
    if len(data) != len(names):
        raise ValueError(f"{len(data)} numbers are given; {len(names)} are needed, for {', '.join(names)}")
    values = [_finite(value, name) for name, value in zip(names, data, strict=True)]
    return JointCommand(mode=mode, name=names, value=values)


def base_velocity(message: RosTwist) -> Twist:
    """The velocity of a mobile base, in its own axes."""
    linear, angular = (
        [_finite(value, f"{part}.{axis}") for axis, value in zip("xyz", (v.x, v.y, v.z), strict=True)]
        for part, v in (("linear", message.linear), ("angular", message.angular))
    )
    return Twist(linear=linear, angular=angular)


def _finite(value: float, name: str) -> float:
    if not math.isfinite(value):
        raise ValueError(f"the value of {name[:80]!r} is {value}; give a finite number")
    return value


def _shown(names: Sequence[str]) -> str:
    return repr([name[:40] for name in names[:8]])
