"""The trajectory node: what it says, when it says it, and what it refuses."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from nodes.framework.messages import ActuatorDescription, Description, JointDescription, JointReference, RobotState
from nodes.framework.plan.launch_plan import Plan, SimPlan
from nodes.node import Context
from nodes.trajectory import Trajectory, TrajectoryParams

STEP_S = 1e-3


def references(duration_s: float, **params: Any) -> list[tuple[float, JointReference]]:
    node = started(**params)
    said = []
    for tick in range(round(duration_s / STEP_S) + 1):
        for name, message in node.on_message("state", RobotState(timestamp=tick * STEP_S)) or ():
            assert name == "reference"
            assert isinstance(message, JointReference)
            said.append((tick * STEP_S, message))
    return said


def started(**params: Any) -> Trajectory:
    node = Trajectory()
    filled = msgspec.convert({"joints": ["arm"]} | params, TrajectoryParams)
    node.on_start(Context("trajectory", "robot", STEP_S, filled, np.random.default_rng(0)))
    return node


def said_by(node: Trajectory, time: float, position: float = 0.0) -> JointReference:
    state = RobotState(timestamp=time, name=["arm"], position=[position], velocity=[0.0])
    ((_, message),) = node.on_message("state", state) or ()
    assert isinstance(message, JointReference)
    return message


def test_reference_is_published_at_its_rate_in_simulation_time() -> None:
    times = [t for t, _ in references(1.0, rate_hz=50.0)]
    assert times == pytest.approx(np.arange(51) / 50.0, abs=1e-9)


def test_rate_above_the_states_rate_gives_one_reference_per_state() -> None:
    assert len(references(0.1, rate_hz=1e5)) == 101


def test_pausing_publishes_nothing_and_reset_starts_over() -> None:
    node = Trajectory()
    params = TrajectoryParams(joints=["arm"])
    node.on_start(Context("trajectory", "robot", STEP_S, params, np.random.default_rng(0)))
    assert node.on_message("state", RobotState(timestamp=0.0))
    assert not node.on_message("state", RobotState(timestamp=0.0))
    node.on_reset(0.0)
    assert node.on_message("state", RobotState(timestamp=0.0))


def test_sine_starts_at_its_time_and_reaches_its_amplitude() -> None:
    said = references(3.0, kind="sine", amplitude_deg=30.0, period_s=4.0, start_s=1.0)
    before = [m.position[0] for t, m in said if t < 1.0]
    at_top = [m.position[0] for t, m in said if t == pytest.approx(2.0)]
    assert before == [0.0] * len(before)
    assert at_top == [pytest.approx(math.radians(30.0))]


def test_steps_hold_the_last_waypoint_passed() -> None:
    said = references(3.0, kind="steps", waypoints=[[1.0, 10.0], [2.0, -20.0]])
    degrees = {round(t, 3): math.degrees(m.position[0]) for t, m in said}
    assert [degrees[t] for t in (0.0, 1.0, 1.99, 2.0, 3.0)] == pytest.approx([10.0, 10.0, 10.0, -20.0, -20.0])


def test_each_joint_can_have_its_own_waypoints() -> None:
    said = references(2.0, joints=["arm", "elbow"], kind="minimum_jerk", waypoints=[[0.0, 0.0, 5.0], [1.0, 90.0, -5.0]])
    assert said[-1][1].name == ["arm", "elbow"]
    assert np.degrees(said[-1][1].position) == pytest.approx([90.0, -5.0])


def test_values_come_in_their_joints_units() -> None:
    params = {"joints": ["lift", "tilt"], "units": ["mm", "deg"], "kind": "quintic"}
    said = references(
        2.0, **params, waypoints=[[0.0, 0.0, 0.0], [1.0, 50.0, 90.0]], velocities=[[0.0, 0.0], [10.0, 0.0]]
    )
    at_end = next(m for t, m in said if t == pytest.approx(1.0))
    assert at_end.position == pytest.approx([0.05, math.pi / 2])
    assert at_end.velocity == pytest.approx([0.01, 0.0])


def test_segments_of_acceleration_count_from_where_the_joints_are() -> None:
    segments = [[0.5, -20.0], [0.5, 20.0]]
    node = started(kind="acceleration_segments", segments=segments, relative=True)
    first = said_by(node, 0.0, 0.7)
    assert (first.position, first.acceleration) == ([0.7], [pytest.approx(-math.pi / 9)])
    assert said_by(node, 1.0, 0.1).position == [pytest.approx(0.7 - math.pi / 9 * 0.25)]
    node.on_reset(0.0)
    assert said_by(node, 0.0, 0.3).position == [0.3]


def test_a_file_of_via_points_is_found_in_the_project_and_followed(tmp_path: Path) -> None:
    (tmp_path / "points.csv").write_text("time_s,arm_deg\n0,0\n2,90\n")
    node = Trajectory()
    params = msgspec.convert({"file": "points.csv", "kind": "minimum_jerk"}, TrajectoryParams)
    plan = Plan(name="moves", sim=SimPlan(robot=""), folder=str(tmp_path))
    Trajectory.check(params, plan)
    node.on_start(Context("trajectory", "robot", STEP_S, params, np.random.default_rng(0), plan=plan))
    assert said_by(node, 1.0).position == [pytest.approx(math.pi / 4)]
    (tmp_path / "points.csv").unlink()
    with pytest.raises(ValueError, match=r"points.csv: no such via-point file"):
        Trajectory.check(params, plan)


def test_a_move_too_fast_for_its_limits_is_refused_before_the_start() -> None:
    moves = {"kind": "trapezoidal", "waypoints": [[0.0, 0.0], [1.0, 90.0]]}
    for limits, words in (
        ({}, "acceleration_limit is []; it must have one number above 0"),
        (
            {"acceleration_limit": [300.0]},
            "joint 'arm': the move to waypoint 2 lasts 1 s; the limits require at least 1.095",
        ),
        ({"acceleration_limit": [400.0], "velocity_limit": [100.0]}, "the limits require at least 1.15 s"),
    ):
        params = msgspec.convert({"joints": ["arm"]} | moves | limits, TrajectoryParams)
        with pytest.raises(ValueError, match=re.escape(words)):
            Trajectory.check(params, Plan(name="moves", sim=SimPlan(robot="")))


@pytest.mark.parametrize(
    ("params", "says"),
    [
        ({"joints": ["elbow"]}, "joints: robot 'it' has no joint 'elbow'; known are arm, lift"),
        ({"joints": ["lift"]}, "joints: joint 'lift' has the unit deg; the unit must be m or mm"),
        (
            {"joints": ["arm"], "units": ["mm"], "kind": "steps", "waypoints": [[0.0, 1.0]]},
            "joint 'arm' has the unit mm; the unit must be deg or rad",
        ),
    ],
)
def test_joints_and_units_that_are_not_the_robots_end_the_node(params: dict[str, Any], says: str) -> None:
    joints = [JointDescription(name="arm"), JointDescription(name="lift", kind="prismatic", unit="m")]
    with pytest.raises(ValueError, match=says):
        started(**params).on_message("description", Description(robot="it", joints=joints))
    assert started().on_message("description", Description(robot="it", joints=joints)) is None


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"joints": []}, "key 'joints' is []"),
        ({"joints": ["arm", "arm"]}, "each joint once"),
        ({"rate_hz": 0.0}, "rate_hz is 0.0; it must be a number above 0"),
        ({"period_s": -1.0}, "period_s is -1.0"),
        ({"amplitude_deg": math.nan}, "amplitude_deg is nan"),
        ({"kind": "circle"}, "circle"),
        ({"kind": "steps"}, "in the key waypoints"),
        ({"kind": "sine", "waypoints": [[0.0, 1.0]]}, "does not use waypoints"),
        ({"kind": "sine", "units": ["mm"]}, "an angle"),
        ({"kind": "steps", "velocities": [[1.0]]}, 'which belong to "quintic"'),
        ({"kind": "acceleration_segments"}, "in the key segments"),
        ({"kind": "acceleration_segments", "segments": [[0.0, 1.0]]}, "segment 1 lasts 0.0 s"),
        ({"kind": "quintic", "waypoints": [[0.0, 1.0]], "velocities": [[1.0], [2.0]]}, "2 rows for 1 waypoints"),
        ({"kind": "quintic", "waypoints": [[0.0, 1.0]], "velocities": [[1.0, 3.0]]}, "velocities row 1"),
        ({"kind": "steps", "waypoints": [[0.0, 1.0]], "units": ["deg", "mm"]}, "units has 2 entries"),
        (
            {"kind": "steps", "file": "points.csv"},
            "key 'joints' is ['arm'], but file = 'points.csv' already defines this",
        ),
        (
            {"kind": "steps", "waypoints": [[0.0, 1.0, 2.0]]},
            "waypoint 1 is [0.0, 1.0, 2.0]; every row must have 2 numbers: t and one value",
        ),
        ({"kind": "steps", "waypoints": [[0.0, math.inf]]}, "must be finite"),
        (
            {"kind": "steps", "waypoints": [[1.0, 0.0], [1.0, 2.0]]},
            "waypoint 2 is at 1.0 s; it must be later than waypoint 1, at 1.0 s",
        ),
        ({"amplitude": 3.0}, "amplitude"),
    ],
)
def test_bad_parameters_are_refused_in_one_line(params: dict[str, Any], words: str) -> None:
    with pytest.raises(msgspec.ValidationError) as refusal:
        msgspec.convert({"joints": ["arm"]} | params, TrajectoryParams)
    assert words in str(refusal.value)
    assert "\n" not in str(refusal.value)


PLAN = Plan(name="moves", sim=SimPlan(robot="charmie"))
CLOSED = Plan(name="moves", sim=SimPlan(robot="charmie", parameters={"loops": "closed"}))


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"joints": ["left_amr_2"]}, "joints: robot 'charmie' has no joint 'left_amr_2'; did you mean 'left_arm_2'?"),
        ({"joints": ["lift"], "units": ["deg"]}, "joints: joint 'lift' has the unit deg; the unit must be m or mm"),
        ({"joints": ["tilt"], "units": ["m"]}, "joints: joint 'tilt' has the unit m; the unit must be deg or rad"),
        ({"file": "points.csv"}, "line 2: robot 'charmie' has no joint 'lfit'; did you mean 'lift'?"),
    ],
)
def test_joints_that_the_robot_lacks_are_named_before_it_starts(
    given: dict[str, Any], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "points.csv").write_text("# moves\ntime_s, lfit_mm\n0, 10\n")
    kind = {"kind": "minimum_jerk"} | ({} if "file" in given else {"waypoints": [[0.0, 0.0]]})
    params = msgspec.convert(kind | given, Trajectory.Params)
    with pytest.raises(ValueError, match=re.escape(says)) as refused:
        Trajectory.check(params, PLAN)
    assert "\n" not in str(refused.value)


def test_joints_of_closed_loops_are_known_with_the_robots_parameters() -> None:
    waypoints = {"kind": "minimum_jerk", "joints": ["lift_rod"], "units": ["mm"], "waypoints": [[0.0, 400.0]]}
    params = msgspec.convert(waypoints, Trajectory.Params)
    Trajectory.check(params, CLOSED)
    with pytest.raises(ValueError, match="has no joint 'lift_rod'"):
        Trajectory.check(params, PLAN)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (
            {"file": "points.csv"},
            "points.csv: line 4: lift is 43 m; its limits in 'charmie' are 0 to 0.14 m (set beyond_limits = true",
        ),
        ({"joints": ["lift"], "units": ["mm"], "waypoints": [[0.0, 0.0], [1.0, 400.0]]}, "waypoint 2: lift is 400 mm;"),
        (
            {"kind": "quintic", "joints": ["lift"], "units": ["mm"]}
            | {"waypoints": [[0.0, 130.0], [1.0, 130.0]], "velocities": [[100.0], [-100.0]]},
            "waypoints: at 0.125 s: lift is 1",
        ),
        ({"kind": "sine", "joints": ["tilt"], "amplitude_deg": 170.0}, "sine: at 0."),
        (
            {"kind": "acceleration_segments", "joints": ["lift"], "units": ["m"], "segments": [[2.0, 1.0]]},
            "segments: at 0.562 s: lift is 0.1582 m",
        ),
    ],
)
def test_what_lies_beyond_a_joints_limits_is_refused_before_the_start_unless_it_is_meant(
    given: dict[str, Any], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "points.csv").write_text("# moves\ntime_s, lift_m\n0, 0.043\n1, 43\n")
    wanted = {"kind": "minimum_jerk"} | given
    with pytest.raises(ValueError, match=re.escape(says)) as refused:
        Trajectory.check(msgspec.convert(wanted, TrajectoryParams), PLAN)
    assert "\n" not in str(refused.value)
    for meant in ("beyond_limits", "relative"):
        Trajectory.check(msgspec.convert(wanted | {meant: True}, TrajectoryParams), PLAN)


def test_the_segment_that_is_most_too_fast_for_its_actuator_is_said_in_one_line() -> None:
    waypoints = [[0.0, 0.0], [1.0, 90.0], [1.1, 45.0], [3.0, 45.0]]
    node = started(kind="minimum_jerk", waypoints=waypoints)
    joint = JointDescription(name="arm", lower=-2.0, upper=2.0)
    actuator = ActuatorDescription(name="arm", joint="arm", velocity_limit=2.0)
    node.on_message("description", Description(robot="it", joints=[joint], actuators=[actuator]))
    line = "waypoints: segment 1 to 1.1 s asks arm for 14.7 rad/s; its limit is 2 rad/s"
    assert list(node._context.log) == [("warning", f"{line} (set beyond_limits = true if this is intended)")]
    meant = started(kind="minimum_jerk", waypoints=waypoints, beyond_limits=True)
    meant.on_message("description", Description(robot="it", joints=[joint], actuators=[actuator]))
    assert not meant._context.log
    with pytest.raises(ValueError, match="waypoint 2: arm is 120 deg"):
        node.on_parameters(msgspec.structs.replace(node._params, waypoints=[[0.0, 0.0], [1.0, 120.0]]))


def test_a_joint_that_nothing_drives_is_warned_of() -> None:
    node = started(joints=["lift"], units=["m"], kind="minimum_jerk", waypoints=[[0.0, 0.0], [1.0, 0.1]])
    joints = [JointDescription(name=name, unit="m") for name in ("lift", "lift_rod")]
    rod = ActuatorDescription(name="lift_rod", joint="lift_rod", unit="N")
    node.on_message("description", Description(robot="it", joints=joints, actuators=[rod]))
    assert list(node._context.log) == [("warning", "joints: no actuator of 'it' drives 'lift'; they drive lift_rod")]
