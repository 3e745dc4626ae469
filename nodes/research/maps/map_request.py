"""A stability map as the user requests it, with its checks and warnings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from sim_core.errors import InvalidRequest
from sim_core.mechanism.quantities import value_of

MOST_CELLS = 25_000_000
FAR = 0.5  # rad or m: an equilibrium farther from the values of --near is warned of
JOINT_COORDINATES = "--param coordinates=joint"


@dataclass(frozen=True)
class Request:
    """A stability map that the user requests.

    axes    {component of the state: its values} of the two axes
    start   {component of the state: its value} for components of the initial state that are on no axis
    near    {coordinate: value} of the goal of a launch, or of the start of the search for a robot's equilibrium
    servos  {actuator: position}, rad or m
    rows    components of the state by which distances are measured; None for all
    """

    axes: Mapping[str, Any]
    start: Mapping[str, float]
    near: Mapping[str, float]
    servos: Mapping[str, float]
    rows: list[str] | None
    seconds: float
    step_ms: float | None
    time_unit_s: float | None
    lanes: int | None
    threads: int | None

    @property
    def step_s(self) -> float | None:
        """Step size in s; None for the default."""
        return None if self.step_ms is None else self.step_ms / 1e3


def parse_axes(text: str) -> dict[str, Any]:
    """Return {component of the state: its values} for the two axes in the text of `--over`.

    Raises InvalidRequest for an invalid axis.
    """
    found: dict[str, Any] = {}
    for part in text.split(","):
        row, _, span = part.partition("=")
        pieces = span.split(":")
        try:
            low, high, count = float(pieces[0]), float(pieces[1]), int(pieces[2])
        except (ValueError, IndexError):
            raise InvalidRequest(f"--over {part!r}: expected ROW=FROM:TO:NUMBER, such as elbow=-3:3:400") from None
        if len(pieces) != 3 or not -np.inf < low < high < np.inf or count < 2:
            raise InvalidRequest(f"--over {part!r}: FROM must be below TO, and NUMBER must be at least 2")
        if row in found:
            raise InvalidRequest(f"--over {text!r}: {row!r} is named twice; name two different rows")
        found[row] = np.linspace(low, high, count)
    if len(found) != 2:
        raise InvalidRequest(f"--over {text!r}: a map has two axes, not {len(found)}")
    cells = len(next(iter(found.values()))) * len([*found.values()][1])
    if cells > MOST_CELLS:
        raise InvalidRequest(
            f"--over {text!r}: the grid has {cells} motions, but a map can have {MOST_CELLS} at most; lower the "
            "NUMBER of an axis"
        )
    return found


def check_servos(mechanism: Any, servos: Mapping[str, float]) -> None:
    """Raise InvalidRequest if the user names an actuator that has no servo, or whose servo a map cannot use.

    servos  {actuator: position}, rad or m
    """
    able = [actuator.name for actuator in mechanism.actuators if actuator.servo is not None]
    for actuator in mechanism.actuators:
        if actuator.name not in servos:
            continue
        option = f"--servo {actuator.name}={servos[actuator.name]:g}"
        if actuator.servo is None:
            has = f"the actuators with a servo are {', '.join(able)}" if able else "no actuator of this robot has one"
            raise InvalidRequest(
                f"{option}: actuator {actuator.name!r} of {mechanism.name!r} has no servo that could hold a position "
                f"({has}); leave this option out, or map a launch file with a node that commands the actuator"
            )
        if not mechanism.has_joint_coordinates:
            raise InvalidRequest(
                f"{option}: a map of a robot in absolute coordinates, such as {mechanism.name!r}, has no servos; add "
                f"{JOINT_COORDINATES} if the robot has this parameter, and leave the option out otherwise"
            )


def check_rows(system: Any, request: Request, remedy: str) -> None:
    """Raise InvalidRequest if the user names a joint whose position is no coordinate of the system.

    Only a system in absolute coordinates has such joints.

    remedy  option that selects joint coordinates
    """
    mechanism = system.mechanism
    if mechanism.has_joint_coordinates:
        return
    joints = {joint.name for joint in mechanism.moving_joints} - set(system.coordinate_names)
    rows = {"--over": request.axes, "--start": request.start, "--near": request.near, "--rows": request.rows or []}
    for option, names in rows.items():
        for row in names:
            if (joint := row.removesuffix(".velocity")) in joints:
                raise InvalidRequest(
                    f"{option} {row}: {mechanism.name!r} has absolute coordinates, such as "
                    f"{system.coordinate_names[0]}, in which the position of joint {joint!r} is no coordinate; if the "
                    f"robot has the parameter, add {remedy}"
                )


def moved_from(near: Mapping[str, float], found: Mapping[str, float]) -> Iterator[str]:
    """A line for each coordinate of the equilibrium that is farther than FAR from the value given by --near."""
    for name, value in near.items():
        if name in found and abs(found[name] - value) > FAR:
            yield f"the equilibrium that was found has {name} = {found[name]:g}, not {value:g} as in --near"


def beyond_stops(mechanism: Any, axes: Mapping[str, Any]) -> Iterator[str]:
    """A line for each joint with stops, of whose positions on an axis of the map some lie beyond the stops."""
    for joint in mechanism.moving_joints:
        if joint.stops is None or joint.name not in axes:
            continue
        lower, upper = (None if limit is None else value_of(limit) for limit in (joint.lower, joint.upper))
        values = axes[joint.name]
        count = sum((lower is not None and x < lower) or (upper is not None and x > upper) for x in values)
        if count:
            limits = " .. ".join("none" if limit is None else f"{limit:g}" for limit in (lower, upper))
            yield (
                f"{count} of {len(values)} positions of {joint.name!r} lie beyond its stops at {limits}, which push it "
                "back from there; map within them, or without stops: --param limits=none, where the robot has it"
            )
