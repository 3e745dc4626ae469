"""Publishes reference positions of named joints over simulation time: a sine, segments of constant acceleration, or
waypoints.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from nodes.framework.messages import Description, JointReference, Message, RobotState
from nodes.framework.plan.key_checks import suggestion
from nodes.framework.plan.launch_plan import Plan
from nodes.node import Context, Node, Outgoing
from nodes.planning.profiles import Curve, acceleration_segments, minimum_jerk, quintic, sine, steps, trapezoidal
from nodes.planning.reachability import check_reach, too_fast, undriven
from nodes.planning.via_points import ANGLES, LATEST_S, ROWS, UNITS, ViaPoints, read_via_points
from robots.files import robot_name
from sim_core.tables import Range

Kind = Literal["sine", "steps", "minimum_jerk", "quintic", "trapezoidal", "acceleration_segments"]
OF_KIND = {  # parameter -> the kinds that take it; all other parameters belong to every kind
    "waypoints": ("steps", "minimum_jerk", "quintic", "trapezoidal"),
    "file": ("steps", "minimum_jerk", "quintic", "trapezoidal"),
    "velocities": ("quintic",),
    "accelerations": ("quintic",),
    "velocity_limit": ("trapezoidal",),
    "acceleration_limit": ("trapezoidal",),
    "segments": ("acceleration_segments",),
}


LARGEST = 1e6  # largest value, velocity or acceleration of a waypoint, in its unit


class TrajectoryParams(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """The trajectory to publish. Times are in seconds of simulation time; values are in `units`, by default in degrees.

    waypoints      [[t, value], ...] with one value for all joints, or [[t, value of joint 1, value of joint 2, ...],
                   ...]. The first position is held before the first time, and the last position after the last time
    velocities     velocities at the waypoints for "quintic", one row per waypoint, written like a waypoint without t;
                   zero by default
    accelerations  accelerations at the waypoints for "quintic", with rows like those of `velocities`; zero by default
    segments       motion from rest: [[duration, acceleration], ...] with one acceleration for all joints, or with one
                   acceleration per joint
    file           a via-point file (see nodes/planning/via_points.py), which replaces joints and waypoints. It is
                   searched in the launch file's project folder, then in the folder where the launch was started
    relative       whether values are added to the joint positions of the first state; joint limits are then not checked
    beyond_limits  whether joints may exceed their position and velocity limits. If not, a position beyond a limit is an
                   error before the start, and a velocity beyond a limit causes a warning
    """

    joints: list[str] = []
    kind: Kind = "sine"
    rate_hz: Annotated[float, Range(1e-3, 1e6, "Hz")] = 100.0  # Hz, rate of the published reference
    start_s: Annotated[float, Range(-1e8, 1e8, "s")] = 0.0  # s; before it, the reference is the first point
    units: list[Literal["deg", "rad", "m", "mm"]] = []  # one per joint, or one for all
    relative: bool = False
    amplitude_deg: Annotated[float, Range(-1e6, 1e6, "degrees")] = 30.0  # sine
    period_s: Annotated[float, Range(1e-6, 1e8, "s")] = 5.0  # s, sine
    waypoints: list[list[float]] = []  # s, then values in `units`
    velocities: list[list[float]] = []  # per s
    accelerations: list[list[float]] = []  # per s^2
    velocity_limit: list[float] = []  # per s, one for all or one per joint; empty for no limit
    acceleration_limit: list[float] = []  # per s^2, one for all or one per joint
    segments: list[list[float]] = []  # s, then per s^2
    file: str = ""
    beyond_limits: bool = False

    def __post_init__(self) -> None:
        for name in ("rate_hz", "period_s"):
            if not (math.isfinite(value := getattr(self, name)) and value > 0.0):
                raise ValueError(f"{name} is {value}; it must be a number above 0")
        for name in ("start_s", "amplitude_deg"):
            if not math.isfinite(value := getattr(self, name)):
                raise ValueError(f"{name} is {value}; it must be finite")
        for name, kinds in OF_KIND.items():
            if getattr(self, name) and self.kind not in kinds:
                wanted = " and ".join(f'"{kind}"' for kind in kinds)
                raise ValueError(f'kind "{self.kind}" does not use {name}, which belong to {wanted}; leave them out')
        if self.file:
            self._check_no_more_than_the_file()
        elif not self.joints or len(set(self.joints)) != len(self.joints):
            raise ValueError(f"key 'joints' is {self.joints}; name at least one joint, and each joint once")
        else:
            self._check_values()

    def _check_no_more_than_the_file(self) -> None:
        for name in ("joints", "units", "waypoints", "velocities", "accelerations"):
            if getattr(self, name):
                raise ValueError(
                    f"key {name!r} is {getattr(self, name)}, but file = {self.file!r} already defines this; remove one "
                    "of the two keys"
                )

    def _check_values(self) -> None:
        n = len(self.joints)
        for name in ("units", "velocity_limit", "acceleration_limit"):
            if len(getattr(self, name)) not in (0, 1, n):
                raise ValueError(
                    f"{name} has {len(getattr(self, name))} entries; give one entry for all joints, or {n} entries"
                )
        if self.kind == "sine":
            if any(unit not in ANGLES for unit in self.units):
                raise ValueError(
                    f'key "units" is {self.units}; use "deg" or "rad", because amplitude_deg of kind "sine" is an angle'
                )
            return
        key = "segments" if self.kind == "acceleration_segments" else "waypoints"
        rows: list[list[float]] = getattr(self, key)
        if not rows:
            raise ValueError(f'kind "{self.kind}" needs a list [[t, value], ...] in the key {key}')
        for name in ("waypoints", "segments", "velocities", "accelerations"):
            if (count := len(getattr(self, name))) > ROWS:
                raise ValueError(f"{name} has {count} rows; it can have at most {ROWS}")
        one = "t and one value" if n == 1 else "t and one value for all joints, or t and one per joint"
        _check_rows(rows, key.removesuffix("s"), one, {2, 1 + n})
        for name in ("velocities", "accelerations"):
            if given := getattr(self, name):
                _check_rows(given, f"{name} row", "values alone", {len(rows[0]) - 1})
                if len(given) != len(rows):
                    raise ValueError(
                        f"{name} has {len(given)} rows for {len(rows)} waypoints; give one row per waypoint"
                    )
        for k, (before, after) in enumerate(pairwise(row[0] for row in rows), start=2):
            if key == "waypoints" and after <= before:
                raise ValueError(f"waypoint {k} is at {after} s; it must be later than waypoint {k - 1}, at {before} s")
        for k, row in enumerate(rows, start=1):
            if not 0.0 <= row[0] <= LATEST_S:
                raise ValueError(
                    f"{key.removesuffix('s')} {k} is at {row[0]:g} s; times must be in 0 .. {LATEST_S:g} s"
                )
            _check_values_of(row[1:], f"{key.removesuffix('s')} {k}")
        for name in ("velocities", "accelerations"):
            for k, row in enumerate(getattr(self, name), start=1):
                _check_values_of(row, f"{name} row {k}")
        for k, row in enumerate(rows if key == "segments" else [], start=1):
            if row[0] <= 0.0:
                raise ValueError(f"segment {k} lasts {row[0]} s; its duration must be above 0")


def _check_values_of(row: Sequence[float], what: str) -> None:
    if large := [value for value in row if abs(value) > LARGEST]:
        raise ValueError(f"{what} has the value {large[0]:g}; values must be in {-LARGEST:g} .. {LARGEST:g}")


def _check_rows(rows: list[list[float]], what: str, form: str, widths: set[int]) -> None:
    """Check that all rows are finite and have the same number of entries.

    Raises ValueError with a one-line message otherwise.

    widths  permitted numbers of entries
    """
    for k, row in enumerate(rows, start=1):
        if len(row) not in widths or len(row) != len(rows[0]):
            wanted = " or ".join(str(width) for width in sorted(widths))
            raise ValueError(f"{what} {k} is {row}; every row must have {wanted} numbers: {form}")
        if not all(math.isfinite(number) for number in row):
            raise ValueError(f"{what} {k} is {row}; every number must be finite")


def via_points(params: TrajectoryParams, folder: str) -> ViaPoints:
    """Return the via points in SI units, from the file or from the waypoints of the parameters.

    Raises ValueError with a one-line message for invalid via points.
    """
    if params.file:
        inside = Path(folder) / params.file
        return read_via_points(inside if inside.is_file() else Path(params.file))
    n = len(params.joints)
    units = list(params.units or ["deg"]) * (1 if len(params.units) == n else n)

    def table(rows: list[list[float]]) -> list[list[float]]:
        whole = [row * n if len(row) == 1 else row for row in rows]
        return [[value * UNITS[unit] for value, unit in zip(row, units, strict=True)] for row in whole]

    rows = params.segments or params.waypoints
    rest = [[0.0]] * len(rows)
    times = [row[0] for row in rows]
    moves = params.kind in OF_KIND["waypoints"]
    return ViaPoints(
        joints=list(params.joints),
        units=units,
        times=times,
        positions=table([row[1:] for row in rows]),
        velocities=table(params.velocities or rest),
        accelerations=table(params.accelerations or rest),
        places=[f"waypoint {k}" for k in range(1, len(rows) + 1)] if moves else [],
        whole=params.kind if params.kind == "sine" else "waypoints" if moves else "segments",
        span=times if moves else [0.0, params.period_s] if params.kind == "sine" else [0.0, *accumulate(times)],
    )


def curves(params: TrajectoryParams, via: ViaPoints) -> list[Curve]:
    """Return the motion of each joint as a function of the time (s) after the start of the trajectory.

    Raises ValueError with a one-line message for an impossible motion.
    """
    n, times = len(via.joints), via.times
    if params.kind == "sine":
        return [partial(sine, math.radians(params.amplitude_deg), params.period_s)] * n
    columns = [list(column) for column in zip(*via.positions, strict=True)]
    if params.kind in ("steps", "minimum_jerk"):
        profile = steps if params.kind == "steps" else minimum_jerk
        return [partial(profile, times, column) for column in columns]
    if params.kind == "acceleration_segments":
        return [partial(acceleration_segments, list(zip(times, column, strict=True))) for column in columns]
    if params.kind == "quintic":
        rows = zip(via.positions, via.velocities, via.accelerations, strict=True)
        points = [list(zip(*row, strict=True)) for row in rows]  # per time, (value, rate, acceleration) of each joint
        return [quintic(times, [row[i] for row in points]) for i in range(n)]
    limits = [
        [limit * UNITS[unit] for limit, unit in zip(_for_all(given, n, name), via.units, strict=True)]
        for given, name in (
            (params.acceleration_limit, "acceleration_limit"),
            (params.velocity_limit or [math.inf], "velocity_limit"),
        )
    ]
    return [_trapezoidal(name, times, *rest) for name, *rest in zip(via.joints, columns, *limits, strict=True)]


def _trapezoidal(joint: str, times: list[float], values: list[float], acceleration: float, velocity: float) -> Curve:
    try:
        return trapezoidal(times, values, acceleration, velocity)
    except ValueError as error:
        raise ValueError(f"joint {joint!r}: {error}") from None


def _for_all(values: list[float], n: int, name: str) -> list[float]:
    whole = list(values) * n if len(values) == 1 else list(values)
    if len(whole) != n or not all(value > 0.0 for value in whole):
        raise ValueError(
            f'kind "trapezoidal": {name} is {values}; it must have one number above 0 for all joints, or {n} such '
            "numbers, one per joint"
        )
    return whole


def check_joints(via: ViaPoints, units: Mapping[str, str], robot: str) -> None:
    """Check that the robot has the joints, and that each unit fits its joint.

    Raises ValueError with a one-line message otherwise.

    units  {joint: "rad" or "m"} of the robot's joints
    """
    where = via.named or "joints"
    for joint, unit in zip(via.joints, via.units, strict=True):
        if joint not in units:
            raise ValueError(f"{where}: robot {robot!r} has no joint {joint!r}{suggestion(joint, units)}")
        if (unit in ANGLES) != (units[joint] == "rad"):
            wanted = "deg or rad" if units[joint] == "rad" else "m or mm"
            raise ValueError(f"{where}: joint {joint!r} has the unit {unit}; the unit must be {wanted}")


def _check(params: TrajectoryParams, via: ViaPoints, ways: Sequence[Curve], joints: Sequence[Any], robot: str) -> None:
    """Check that the robot has the joints, and that the motions stay within the joints' limits.

    ways    motion of each joint as a function of time (s)
    joints  joints of the robot, with their limits
    Raises ValueError with a one-line message otherwise.
    """
    check_joints(via, {joint.name: joint.unit for joint in joints}, robot)
    if not (params.relative or params.beyond_limits):
        check_reach(via, ways, joints, robot)


class Trajectory(Node):
    """Publishes messages on the topic `reference` at the rate `Params.rate_hz`, in simulation time.

    The simulation time comes from the timestamps of the states. In every mode, the reference therefore pauses, resets
    and changes speed with the simulation.
    """

    subscribes = {"description": Description, "state": RobotState}
    publishes = {"reference": JointReference}
    Params = TrajectoryParams
    state_attributes = ("_published", "_origin")

    @classmethod
    def check(cls, params: TrajectoryParams, plan: Plan) -> None:
        via = via_points(params, plan.folder)
        ways = curves(params, via)
        if robot := plan.sim.robot:
            from robots.registry import build

            joints = build(robot, **plan.sim.parameters).moving_joints
            _check(params, via, ways, joints, robot_name(robot))

    def on_start(self, context: Context) -> Outgoing:
        self._context = context
        self._description: Description | None = None
        self._half_step_s = context.step_s / 2.0
        self._folder = "." if context.plan is None else context.plan.folder
        self.on_parameters(context.params)
        return self.on_reset(0.0)

    def on_parameters(self, params: TrajectoryParams) -> Outgoing:
        via = via_points(params, self._folder)
        ways = curves(params, via)
        if self._description is not None:
            self._check_described(self._description, params, via, ways)
        self._curves, self._params, self._joints, self._via = ways, params, via.joints, via
        return self.on_reset(0.0)

    def _check_described(
        self, of: Description, params: TrajectoryParams, via: ViaPoints, ways: Sequence[Curve]
    ) -> None:
        """Check the trajectory against the robot's description.

        Raises ValueError for positions beyond joint limits. Warns of joints without an actuator and of excessive
        speeds.
        """
        _check(params, via, ways, of.joints, of.robot)
        if line := undriven(via, of.actuators, of.robot):
            self._context.warn(line)
        if not params.beyond_limits and (line := too_fast(via, ways, of.joints, of.actuators)):
            self._context.warn(line)

    def on_reset(self, time: float) -> Outgoing:
        self._published = -1  # number of the last period in which a reference went out
        self._origin: list[float] | None = None if self._params.relative else [0.0] * len(self._joints)
        return None

    def on_message(self, name: str, message: Message) -> Outgoing:
        if isinstance(message, Description):
            self._description = message
            self._check_described(message, self._params, self._via, self._curves)
            return None
        now = message.timestamp
        # half a step is added: a timestamp may be rounded below the period
        period = math.floor((now + self._half_step_s) * self._params.rate_hz)
        if period == self._published or not isinstance(message, RobotState):
            return None
        self._published = period
        origin = self._origin = self._origin or self._found(message)
        points = [curve(now - self._params.start_s) for curve in self._curves]
        position, velocity, acceleration = ([point[k] for point in points] for k in range(3))
        position = [start + way for start, way in zip(origin, position, strict=True)]
        return [
            (
                "reference",
                JointReference(name=self._joints, position=position, velocity=velocity, acceleration=acceleration),
            )
        ]

    def _found(self, state: RobotState) -> list[float]:
        """Positions (rad or m) of the trajectory's joints in a state, in the order of the trajectory's joints."""
        missing = [joint for joint in self._joints if joint not in state.name]
        if missing:
            raise ValueError(
                f"the reference names joint {missing[0]!r}, which the state does not have; "
                f"the state's joints are {', '.join(state.name[:10])}"
            )
        return [state.position[state.name.index(joint)] for joint in self._joints]
