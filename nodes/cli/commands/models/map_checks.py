"""Checks of the servos and the components of the state that a user names for `armswing robot map`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from nodes.cli.terminal import InputError

JOINT_COORDINATES = "--param coordinates=joint"


def check_servos(mechanism: Any, servos: Mapping[str, float]) -> None:
    """Raise InputError if the user names an actuator that has no servo, or whose servo a map cannot use.

    servos  {actuator: position}, rad or m
    """
    able = [actuator.name for actuator in mechanism.actuators if actuator.servo is not None]
    for actuator in mechanism.actuators:
        if actuator.name not in servos:
            continue
        option = f"--servo {actuator.name}={servos[actuator.name]:g}"
        if actuator.servo is None:
            has = f"the actuators with a servo are {', '.join(able)}" if able else "no actuator of this robot has one"
            raise InputError(
                f"{option}: actuator {actuator.name!r} of {mechanism.name!r} has no servo that could hold a position "
                f"({has}); leave this option out, or map a launch file with a node that commands the actuator"
            )
        if not mechanism.has_joint_coordinates:
            raise InputError(
                f"{option}: a map of a robot in absolute coordinates, such as {mechanism.name!r}, has no servos; add "
                f"{JOINT_COORDINATES} if the robot has this parameter, and leave the option out otherwise"
            )


def check_rows(system: Any, rows: Mapping[str, Iterable[str]], remedy: str) -> None:
    """Raise InputError if the user names a joint whose position is no coordinate of the system.

    Only a system in absolute coordinates has such joints.

    rows    {text of an option: components of the state that the user names in this option}
    remedy  option that selects joint coordinates
    """
    mechanism = system.mechanism
    if mechanism.has_joint_coordinates:
        return
    joints = {joint.name for joint in mechanism.moving_joints} - set(system.coordinate_names)
    for option, names in rows.items():
        for row in names:
            if (joint := row.removesuffix(".velocity")) in joints:
                raise InputError(
                    f"{option} {row}: {mechanism.name!r} has absolute coordinates, such as "
                    f"{system.coordinate_names[0]}, in which the position of joint {joint!r} is no coordinate; if the "
                    f"robot has the parameter, add {remedy}"
                )
