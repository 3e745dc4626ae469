"""Position commands: references go on to the actuators' servos, and what has none stays where it was."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from nodes.controllers.position import JointPosition, JointPositionParams
from nodes.framework.messages import Description, JointCommand, JointDescription, JointReference, RobotState
from nodes.framework.plan.launch_plan import Plan, SimPlan
from nodes.node import Context


def started(joints: list[str]) -> JointPosition:
    node = JointPosition()
    filled = msgspec.convert({"joints": joints}, JointPositionParams)
    node.on_start(Context("position", "robot", 1e-3, filled, np.random.default_rng(0)))
    return node


def told(node: JointPosition, position: list[float], seq: int = 7, timestamp: float = 0.0) -> list[float]:
    state = RobotState(timestamp=timestamp, seq=seq, name=["a", "b"], position=position, velocity=[9.0, 9.0])
    ((_, command),) = node.on_message("state", state) or ()
    assert isinstance(command, JointCommand)
    assert (command.mode, command.state_seq) == ("position", seq)
    return command.value


def test_a_joint_goes_where_its_reference_says_and_others_stay_where_they_were_first() -> None:
    node = started(["b", "a"])
    assert told(node, [1.0, 2.0]) == [2.0, 1.0]
    node.on_message("reference", JointReference(name=["b"], position=[5.0]))
    assert told(node, [1.5, 2.5], seq=8) == [5.0, 1.0]
    node.on_message("reference", JointReference(timestamp=0.1, name=["b"], position=[5.0], velocity=[2.0]))
    assert told(node, [1.5, 2.5], timestamp=0.15) == pytest.approx([5.1, 1.0])
    node.on_reset(0.0)
    assert told(node, [1.5, 2.5]) == [2.5, 1.5]


def test_it_says_how_far_joints_with_a_reference_were_from_it_in_their_units() -> None:
    node = started(["b", "a"])
    described = [JointDescription(name="a"), JointDescription(name="b", kind="prismatic", unit="m")]
    node.on_message("description", Description(joints=described))
    told(node, [1.0, 2.0])
    assert node.figures == {}
    node.on_message("reference", JointReference(name=["b"], position=[2.25]))
    told(node, [1.0, 2.0])
    told(node, [7.0, 2.25])
    assert node.figures == pytest.approx({"peak_error_m": 0.25, "rms_error_m": 0.25 / 2**0.5})


def test_no_joint_and_a_joint_that_the_state_lacks_are_refused() -> None:
    with pytest.raises(msgspec.ValidationError, match="key 'joints' is empty"):
        started([])
    with pytest.raises(ValueError, match=r"position needs joint 'c'"):
        told(started(["c"]), [0.0, 0.0])


def test_a_joint_without_a_servo_is_refused_before_the_start() -> None:
    params = JointPosition.Params(joints=["arm"])
    with pytest.raises(ValueError, match="actuator 'arm' of 'rotary_pendulum' has no servo") as refused:
        JointPosition.check(params, Plan(name="position", sim=SimPlan(robot="rotary_pendulum")))
    assert "\n" not in str(refused.value)
    JointPosition.check(JointPosition.Params(joints=["lift"]), Plan(name="position", sim=SimPlan(robot="charmie")))
