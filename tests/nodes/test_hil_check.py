"""`armswing hil check`: small motions of an emulated robot tell a right one from one with reversed or dead parts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from nodes.hil_check import CheckFinding, HilCheck, HilCheckParams, duration_s, plan_of_check, servo_joints
from nodes.messages import RobotState
from nodes.plan.launch_plan import NodePlan, Plan, SimPlan
from nodes.simulation.compose import compose

ROOT = Path(__file__).resolve().parents[2]
PARAMS = HilCheckParams(move_s=0.3)


def plan_with(driver: str = "nodes/hardware.py:Hardware", **params: Any) -> Plan:
    nodes = [
        NodePlan(name="trajectory", run="nodes/trajectory.py:Trajectory"),
        NodePlan(name="driver", run=driver, params=params),
        NodePlan(name="recorder", run="nodes/recorder.py:Recorder"),
    ]
    return Plan(name="checked", folder=str(ROOT), sim=SimPlan(robot="arm_2dof", mode="lockstep"), nodes=nodes)


def findings(plan: Plan) -> dict[str, CheckFinding]:
    joints = servo_joints(plan, [])
    checked = plan_of_check(plan, PARAMS, len(joints))
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


REVERSED = """
from nodes.hardware import Hardware as Right
from nodes.messages import RobotState


class {cls}(Right):
    def on_message(self, name, message):
        for topic, found in super().on_message(name, message) or ():
            if isinstance(found, RobotState):
                {fault}
            yield topic, found
"""
FAULTS = {
    "found.position[1] = -found.position[1]": ("motion of joint_4", "its motor or its encoder is reversed"),
    "found.position[1] = 0.1": ("motion of joint_4", "motor off, brake on, or encoder dead"),
    "found.position.reverse()": ("motion of joint_2", "motor off, brake on, or encoder dead"),
    "found.velocity[0] = -found.velocity[0]": ("motion of joint_2", "its measured velocity has the wrong sign"),
    "found.position[0] += 9.0": ("limits of joint_2", "not 9"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_of_the_robot_is_a_no_go_with_its_joint(fault: str, tmp_path: Path) -> None:
    file = tmp_path / "faulty.py"
    file.write_text(REVERSED.format(cls="Faulty", fault=fault))
    subject, text = FAULTS[fault]
    row = findings(plan_with(f"{file}:Faulty"))[subject]
    assert row.result == "no go"
    assert text in row.text


def test_plans_that_cannot_be_checked_are_refused() -> None:
    plan = plan_with()
    plan.nodes = plan.nodes[:1]
    with pytest.raises(ValueError, match="the plan has no driver"):
        plan_of_check(plan, PARAMS, 2)
    with pytest.raises(ValueError, match="no joint 'joint_3' with a servo"):
        servo_joints(plan, ["joint_3"])
    with pytest.raises(ValueError, match="amplitude_deg is 0"):
        HilCheckParams(amplitude_deg=0.0)
    assert RobotState in HilCheck.subscribes.values()
