"""The joints that a user may command by sliders: mode and range of each, and who commands the robot."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from nodes.framework.messages import ActuatorDescription, Description, JointDescription

TURN, STROKE, EFFORT = math.pi, 1.0, 10.0  # range of a slider without limits: rad, m, N m or N
NOBODY = "no node commands"
WAITING = "the joints appear when a launch is live"
ALONE = "move a slider to command its joint"


class JointRange(NamedTuple):
    """The values that a slider commands.

    mode        "position" if the joint's actuator has a servo, otherwise "effort"
    unit        unit of the values
    low, high   the declared limits, or a default range if there are none
    is_limited  whether the limits are declared
    """

    actuator: str
    joint: str
    mode: str
    unit: str
    low: float
    high: float
    is_limited: bool

    @classmethod
    def of(cls, actuator: ActuatorDescription, joint: JointDescription) -> JointRange:
        """The range of the joint that an actuator drives."""
        if "position" in actuator.modes:
            mode, unit, low, high = "position", joint.unit, joint.lower, joint.upper
            reach = TURN if unit == "rad" else STROKE
        else:
            limit = actuator.effort_limit
            mode, unit, low, high = "effort", actuator.unit, None if limit is None else -limit, limit
            reach = EFFORT
        is_limited = low is not None and high is not None
        low, high = -reach if low is None else low, reach if high is None else high
        return cls(actuator.name, joint.name, mode, unit, low, high, is_limited)

    @property
    def limits(self) -> str:
        """The range as text."""
        return f"{self.low:g} .. {self.high:g} {self.unit}" + ("" if self.is_limited else " (no limit declared)")


def joint_ranges(description: Description) -> list[JointRange]:
    """The ranges of all joints of a robot that an actuator drives alone."""
    joints = {joint.name: joint for joint in description.joints}
    return [JointRange.of(each, joints[each.joint]) for each in description.actuators if each.joint in joints]


def commanded_by_hand(status: Mapping[str, Any], namespace: str) -> set[str]:
    """Names of the actuators that a user commands, from the status of the simulation."""
    return set(_of(status, namespace).get("by_hand", ()))


def commander_text(status: Mapping[str, Any], namespace: str, by_hand: Collection[str]) -> str:
    """Line that says who commands the robot, from the status of the simulation."""
    others = str(_of(status, namespace).get("commanded_by") or "").split(", ")
    nodes = [name for name in others if name and name != "hand"]
    if status.get("mode") != "realtime":
        return f"mode {status.get('mode')}: the sliders command joints in mode realtime only"
    if by_hand:
        rest = f"; {_commanding(nodes)} the others" if nodes else ""
        return f"you command {', '.join(sorted(by_hand))}{rest}"
    return f"{_commanding(nodes) if nodes else NOBODY}; {ALONE}"


def _of(status: Mapping[str, Any], namespace: str) -> Mapping[str, Any]:
    found: Mapping[str, Any] = status.get("simulations", {}).get(namespace, status)
    return found


def _commanding(nodes: Sequence[str]) -> str:
    """Text that says which nodes command the robot, such as "base, body command" for two nodes base and body."""
    return f"{', '.join(nodes)} {'commands' if len(nodes) == 1 else 'command'}"
