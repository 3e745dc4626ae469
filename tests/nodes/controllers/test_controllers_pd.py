"""Joint PD control: a driven joint follows its reference, and bad parameters are refused."""

from __future__ import annotations

import math
from typing import Any

import msgspec
import numpy as np
import pytest

from nodes.controllers.pd import JointPD, JointPDParams
from nodes.framework.messages import JointCommand, JointReference, RobotState
from nodes.node import Context

GOOD: dict[str, Any] = {"joints": ["b"], "stiffness": [4.0], "damping": [0.5]}


def started(**params: Any) -> JointPD:
    node = JointPD()
    filled = msgspec.convert(GOOD | params, JointPDParams)
    node.on_start(Context("pd", "robot", 1e-3, filled, np.random.default_rng(0)))
    return node


def effort(node: JointPD, position: float, velocity: float) -> float:
    state = RobotState(seq=7, name=["a", "b"], position=[9.0, position], velocity=[9.0, velocity])
    ((_, command),) = node.on_message("state", state) or ()
    assert isinstance(command, JointCommand)
    assert (command.mode, command.name, command.state_seq) == ("effort", ["b"], 7)
    return command.value[0]


def test_effort_is_proportional_to_error_and_its_rate() -> None:
    node = started()
    assert effort(node, 0.5, 1.0) == pytest.approx(-0.5 * 1.0)  # held where it was in the first state
    assert effort(node, 0.7, 1.0) == pytest.approx(-4.0 * 0.2 - 0.5 * 1.0)
    node.on_message("reference", JointReference(name=["b"], position=[1.0], velocity=[2.0]))
    assert effort(node, 0.5, 1.0) == pytest.approx(4.0 * 0.5 + 0.5 * 1.0)


def test_effort_stays_within_its_limit() -> None:
    node = started(effort_limit=[0.3])
    assert effort(node, 0.0, 0.0) == 0.0
    assert effort(node, -5.0, 0.0) == 0.3
    assert effort(node, 5.0, 0.0) == -0.3


def test_a_reference_without_rates_is_at_rest_and_reset_forgets_it() -> None:
    node = started()
    node.on_message("reference", JointReference(name=["b"], position=[1.0]))
    assert effort(node, 1.0, 0.0) == 0.0
    node.on_reset(0.0)
    assert effort(node, 2.0, 0.0) == 0.0
    assert effort(node, 3.0, 0.0) == -4.0


def test_a_joint_that_the_state_lacks_is_named() -> None:
    with pytest.raises(ValueError, match=r"pd needs joint 'b'; the state has \['a'\]"):
        started().on_message("state", RobotState(name=["a"], position=[0.0], velocity=[0.0]))


def test_a_state_that_is_of_no_robot_is_not_answered_and_ends_nothing() -> None:
    node = started()
    assert node.on_message("state", RobotState()) is None
    effort(node, 0.0, 0.0)
    assert node.on_message("state", RobotState(name=["a"], position=[0.0], velocity=[0.0])) is None
    assert effort(node, 1.0, 0.0) == -4.0


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"joints": []}, "name at least one joint"),
        ({"stiffness": []}, "stiffness has 0 values for 1 joints"),
        ({"damping": [1.0, 2.0]}, "damping has 2 values for 1 joints"),
        ({"effort_limit": [-1.0]}, "effort_limit is [-1.0]"),
        ({"stiffness": [math.inf]}, "stiffness is [inf]"),
    ],
)
def test_bad_parameters_are_refused_in_one_line(params: dict[str, Any], words: str) -> None:
    with pytest.raises(msgspec.ValidationError) as refusal:
        msgspec.convert(GOOD | params, JointPDParams)
    assert words in str(refusal.value)
