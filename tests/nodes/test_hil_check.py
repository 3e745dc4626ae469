"""`armswing hil check`: small motions of an emulated robot tell a right one from one with reversed or dead parts."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from nodes.framework.messages import (
    ActuatorDescription,
    Description,
    JointCommand,
    JointDescription,
    PeerClock,
    RobotState,
)
from nodes.framework.messages.codec import decode
from nodes.framework.plan.launch_plan import NodePlan, Plan, SimPlan
from nodes.framework.simulation.compose import compose
from nodes.hil_check import CheckFinding, HilCheck, HilCheckParams, duration_s, plan_of_check, servo_joints
from nodes.node import Context

ROOT = Path(__file__).resolve().parents[2]
PARAMS = HilCheckParams(move_s=0.3)


def plan_with(driver: str = "nodes/hardware.py:Hardware", **params: Any) -> Plan:
    nodes = [
        NodePlan(name="trajectory", run="nodes/trajectory.py:Trajectory"),
        NodePlan(name="driver", run=driver, params=params),
        NodePlan(name="recorder", run="nodes/recorder.py:Recorder"),
    ]
    return Plan(name="checked", folder=str(ROOT), sim=SimPlan(robot="arm_2dof", mode="lockstep"), nodes=nodes)


def findings(plan: Plan, params: HilCheckParams = PARAMS) -> dict[str, CheckFinding]:
    joints = servo_joints(plan, params.joints)
    checked = plan_of_check(plan, params, len(joints))
    assert [node.name for node in checked.nodes] == ["hil_check", "driver"]
    with compose(checked) as run:
        run.run()
        node = run.nodes["hil_check"].node
        assert isinstance(node, HilCheck)
        found = {each.subject: each for each in node.findings()}
        is_go = all(each.result != "no go" for each in found.values())
        assert run.nodes["hil_check"].verdict.outcome == ("passed" if is_go else "failed")  # type: ignore[union-attr]
    return found


def test_a_robot_like_its_model_is_a_go() -> None:
    found = findings(plan_with())
    assert {found[f"motion of {joint}"].result for joint in ("joint_2", "joint_4")} == {"go"}
    assert found["limits of joint_2"].result == "go"
    assert duration_s(2, PARAMS) == pytest.approx(1.0 + 2 * 2 * 0.6 + 0.5)


@pytest.mark.parametrize("amplitude_deg", [1.5, 5.0])
@pytest.mark.parametrize("joint", ["joint_1", "joint_2", "joint_3", "joint_4"])
def test_one_joint_is_checked_while_the_others_are_held(joint: str, amplitude_deg: float) -> None:
    plan = plan_with()
    plan.sim.robot = "arm_4dof"
    found = findings(plan, msgspec.structs.replace(PARAMS, joints=[joint], amplitude_deg=amplitude_deg))
    motions = {subject: each for subject, each in found.items() if subject.startswith("motion of")}
    assert list(motions) == [f"motion of {joint}"]
    assert motions[f"motion of {joint}"].result == "go", motions
    assert 80.0 < float(motions[f"motion of {joint}"].text.split(" %")[0]) < 120.0


def test_a_joint_that_goes_too_far_is_named_with_its_motion_and_not_as_unmoved(tmp_path: Path) -> None:
    file = tmp_path / "gain.py"
    file.write_text(REVERSED.format(cls="Faulty", fault="found.position[0] *= 50.0"))
    found = findings(plan_with(f"{file}:Faulty"))
    assert found["motion of joint_2"].text.endswith("it went too far, and all joints were held")
    assert found["motion of joint_4"].text == "not moved, as joint_2 went too far"


REVERSED = """
from nodes.hardware import Hardware as Right
from nodes.framework.messages import RobotState


class {cls}(Right):
    def on_message(self, name, message):
        for topic, found in super().on_message(name, message) or ():
            if isinstance(found, RobotState):
                {fault}
            yield topic, found
"""
FAULTS = {
    "found.position[1] = -found.position[1]": (
        "motion of joint_4",
        "its encoder is reversed, its measured velocity is not",
    ),
    "found.position[1] = 0.1": ("motion of joint_4", "motor off, brake on, or encoder dead"),
    "found.position.reverse()": ("motion of joint_2", "but joint_4 moved instead: are motors or encoders exchanged?"),
    "found.position[0] *= -1; found.velocity[0] *= -1": ("motion of joint_2", "its motor or its encoder is reversed"),
    "found.position[0] *= -4; found.velocity[0] *= -4": (
        "motion of joint_2",
        "it went too far, and all joints were held: its motor or its encoder is reversed",
    ),
    "found.name[0] = 'joint_22'": ("measured state", "the robot has no joint 'joint_22'; did you mean 'joint_2'?"),
    "found.velocity[0] = -found.velocity[0]": ("motion of joint_2", "its measured velocity has the wrong sign"),
    "if found.timestamp > 1.3: continue": ("motion of joint_2", "not judged, as no measured state came for"),
    "found.position[0] += 9.0": ("limits of joint_2", "not 9"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_of_the_robot_is_a_no_go_with_its_joint(fault: str, tmp_path: Path) -> None:
    file = tmp_path / "dead_motor.py"
    file.write_text(REVERSED.format(cls="Faulty", fault=fault))
    subject, text = FAULTS[fault]
    row = findings(plan_with(f"{file}:Faulty"))[subject]
    assert row.result == "no go"
    assert text in row.text


def test_a_joint_that_does_not_stand_still_at_rest_is_named_before_any_motion() -> None:
    found = findings(plan_with(gain={"joint_2": -0.9999}))
    row = found["motion of joint_2"]
    assert row.result == "no go"
    assert re.fullmatch(r"-0.0\d+ while it was held at rest: motor off or reversed, encoder reversed or .*", row.text)
    assert found["motion of joint_4"].text == "not moved, as joint_2 went too far"


def test_a_wrong_gear_ratio_is_noted(tmp_path: Path) -> None:
    file = tmp_path / "ratio.py"
    file.write_text(REVERSED.format(cls="Faulty", fault="found.position[0] *= 2; found.velocity[0] *= 2"))
    row = findings(plan_with(f"{file}:Faulty"))["motion of joint_2"]
    assert (row.result, row.text.split(": ")[1]) == ("note", "are its gear ratio and the scale of its encoder right?")


def test_a_joint_that_the_driver_does_not_measure_is_noted_and_not_commanded(tmp_path: Path) -> None:
    file = tmp_path / "one.py"
    fault = "for each in (found.name, found.position, found.velocity, found.effort): del each[1:]"
    file.write_text(REVERSED.format(cls="Faulty", fault=fault))
    found, commands = commanded(file)
    assert (found["motion of joint_4"].result, found["motion of joint_2"].result) == ("note", "go")
    assert found["motion of joint_4"].text == "not moved, as it is not measured"
    assert {name for command in commands for name in command.name} == {"joint_2"}


def test_plans_that_cannot_be_checked_are_refused() -> None:
    plan = plan_with()
    plan.nodes = plan.nodes[:1]
    with pytest.raises(ValueError, match="the plan has no driver"):
        plan_of_check(plan, PARAMS, 2)
    with pytest.raises(ValueError, match="no joint 'joint_3' with a servo"):
        servo_joints(plan, ["joint_3"])
    with pytest.raises(ValueError, match="amplitude_deg is 0"):
        HilCheckParams(amplitude_deg=0.0)
    for name in ("amplitude_deg", "amplitude_mm"):
        with pytest.raises(ValueError, match=f"{name} is 200, but the check makes small motions, of (15|50) at most"):
            HilCheckParams(**{name: 200.0})
    assert RobotState in HilCheck.subscribes.values()


def commanded(driver: Path) -> tuple[dict[str, CheckFinding], list[JointCommand]]:
    """The findings of a check, and its commands."""
    found: list[JointCommand] = []

    def carry(topic: str, payload: bytes) -> None:
        if topic.endswith("/command"):
            found.append(decode(topic, payload, JointCommand))

    plan = plan_of_check(plan_with(f"{driver}:Faulty"), PARAMS, 2)
    with compose(plan, carry) as run:
        run.run()
        node = run.nodes["hil_check"].node
        assert isinstance(node, HilCheck)
        return {each.subject: each for each in node.findings()}, found


def test_no_joint_is_commanded_while_one_is_outside_its_limits(tmp_path: Path) -> None:
    file = tmp_path / "dead_motor.py"
    file.write_text(REVERSED.format(cls="Faulty", fault="found.position[0] += 9.0"))
    found, commands = commanded(file)
    assert commands == []
    for joint in ("joint_2", "joint_4"):
        row = found[f"motion of {joint}"]
        assert (row.result, row.text) == ("no go", "not moved, as joint_2 is outside its limits")


def commands_to(limit: float, position: float) -> tuple[set[float], CheckFinding]:
    """The commands to a joint with limits -limit .. limit that never moves (rad), and the finding on its motion."""
    check = HilCheck()
    check.on_start(Context(name="c", robot="r", step_s=1e-3, params=PARAMS, random=None, plan=None))  # type: ignore[arg-type]
    joint = JointDescription(name="turn", lower=-limit, upper=limit)
    servo = ActuatorDescription(name="motor", joint="turn", modes=["position"])
    check.on_message("description", Description(joints=[joint], actuators=[servo]))
    found = set()
    for k in range(2000):
        state = RobotState(timestamp=1e-3 * k, seq=k, name=["turn"], position=[position], velocity=[0.0])
        check.on_message("measured_state", state)
        for _, command in check.on_message("state", state) or ():
            assert isinstance(command, JointCommand)
            found.add(command.value[0])
    return found, {each.subject: each for each in check.findings()}["motion of turn"]


@pytest.mark.parametrize("side", [1.0, -1.0])
def test_a_joint_near_a_limit_moves_away_from_it(side: float) -> None:
    away = {side * each for each in commands_to(1.0, 0.99 * side)[0]}
    assert max(away) == 0.99
    assert min(away) == pytest.approx(0.99 - math.radians(PARAMS.amplitude_deg))


def test_a_joint_without_room_is_held_and_named() -> None:
    commands, row = commands_to(0.01, 0.0)
    assert commands == {0.0}
    assert row.result == "no go"
    assert row.text.startswith("not moved: its limits leave 0.01 rad, the motion needs 0.02618")


def guarded(**guard: Any) -> Plan:
    plan = plan_with()
    plan.nodes[1].guard = guard
    return plan


def test_a_robot_outside_the_limits_of_its_guard_is_a_no_go_with_these_limits() -> None:
    found = findings(guarded(joints={"joint_2": {"lower": 0.5, "upper": 2.0}}))
    row = found["guard's limits of joint_2"]
    assert (row.result, row.text) == ("no go", "not 0 in 0.5 .. 2, the limits of the guard of driver")
    assert found["motion of joint_2"].text == "not moved, as joint_2 is outside its limits"


def test_the_limits_of_a_guard_node_are_checked_too() -> None:
    plan = plan_with()
    limits = {"joints": {"joint_2": {"lower": 0.5, "upper": 2.0}}}
    plan.nodes.append(NodePlan(name="guard", run="nodes/guard/node.py:Guard", params=limits))
    with compose(plan_of_check(plan, PARAMS, 2)) as run:
        run.step(20)
        node = run.nodes["hil_check"].node
        assert isinstance(node, HilCheck)
        row = {each.subject: each for each in node.findings()}["guard's limits of joint_2"]
    assert (row.result, row.text) == ("no go", "not 0 in 0.5 .. 2, the limits of the guard of guard")


def test_a_guard_that_stops_the_robot_is_named_instead_of_a_dead_motor() -> None:
    found = findings(guarded(joints={"joint_2": {"velocity": 1e-4, "velocity_margin": 0.0}}))
    assert found["guard of driver"].result == "no go"
    assert found["guard of driver"].text.startswith("it stopped the robot: joint_2 moves at")
    assert found["motion of joint_4"].text.endswith("the guard of driver stopped the robot")


@pytest.mark.parametrize(("slowest_s", "result"), [(0.004, "go"), (0.05, "note"), (0.15, "no go")])
def test_a_slow_link_is_named_with_its_jitter(slowest_s: float, result: str) -> None:
    check = HilCheck()
    check.on_start(Context(name="c", robot="r", step_s=1e-3, params=PARAMS, random=None, plan=None))  # type: ignore[arg-type]
    check.on_message("description", Description(joints=[JointDescription(name="turn")]))
    check.on_message("measured_state", RobotState(name=["turn"], position=[0.0], velocity=[0.0]))
    check.on_message("state", RobotState(timestamp=1.0, name=["turn"], position=[0.0], velocity=[0.0]))
    for k in range(20):
        trip_s = slowest_s if k % 2 == 0 and k > 9 else 0.002
        ns = [int(1e9 * (0.1 * k + share * trip_s)) for share in (0.0, 0.5, 0.5, 1.0)]
        times = dict(zip(("asked_ns", "received_ns", "answered_ns", "heard_ns"), ns, strict=True))
        check.on_clock(PeerClock(peer="driver", round_trip_s=trip_s, **times))
    row = {each.subject: each for each in check.findings()}["link"]
    assert (row.result, row.text.split(", jitter ")[1]) == (result, f"{1e3 * (slowest_s - 0.002):.2f} ms")


def test_a_driver_that_stood_still_is_named_with_its_times() -> None:
    check = HilCheck()
    check.on_start(Context(name="c", robot="r", step_s=1e-3, params=PARAMS, random=None, plan=None))  # type: ignore[arg-type]
    check.on_message("description", Description(joints=[JointDescription(name="turn")]))
    for k in range(300):
        for name, time in [("state", 0.01 * k), *([] if 100 < k < 250 else [("measured_state", 7e4 + 0.01 * k)])]:
            message = RobotState(timestamp=time, name=["turn"], position=[0.0], velocity=[0.0])
            list(check.on_message(name, message) or ())
    (link,) = [each for each in check.findings() if each.subject == "measured states"]
    assert link.result == "no go"
    missing = "the robot's states are missing from t = 1.000 s to 2.500 s (about 149 states)"
    assert link.text == f"every 10 ms, longest gap 1500 ms: {missing}"
