"""payload_estimate: the mass of a load and its interval, from the motion of an emulated arm with imperfect motors."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from nodes.framework.hosting.node_state import decode_state, encode_state
from nodes.framework.messages import JointCommand, PayloadEstimate, RobotState
from nodes.framework.messages.codec import decode
from nodes.framework.plan.files.file import load_plan
from nodes.framework.plan.key_checks import PlanError
from nodes.framework.plan.launch_plan import Plan
from nodes.framework.simulation.compose import compose
from nodes.hil.identification.payload import averaged
from nodes.node import Context
from nodes.payload_estimate import PayloadEstimate as Node
from nodes.payload_estimate import PayloadEstimateParams
from robots import registry
from robots.registry import build
from sim_core.inverse import inverse_dynamics
from sim_core.mechanism import Actuator, Body, Joint, Mechanism
from sim_core.mechanism.quantities import value_of
from sim_core.system import System, assemble

LAUNCH = Path(__file__).resolve().parents[2] / "launch/examples/payload.toml"
MASS, LOADED_S, GAIN_ERROR = 0.5, 3.0, 0.05  # kg, s; relative standard deviation


def plan(*changes: str) -> Plan:
    whole = load_plan(LAUNCH, changes)
    return msgspec.structs.replace(whole, nodes=[node for node in whole.nodes if node.name != "recorder"])


def estimates(of: Plan, seconds: float) -> list[PayloadEstimate]:
    found = []

    def carry(topic: str, payload: bytes) -> None:
        if topic.endswith("/payload"):
            found.append(decode(topic, payload, PayloadEstimate))

    with compose(of, carry) as run:
        run.run(seconds)
    return found


def off(seed: int) -> list[str]:
    """Gain errors of the motors, at random."""
    errors = np.random.default_rng(seed).normal(0.0, GAIN_ERROR, 6)
    return [f"seed={seed}", *(f"hardware.gain.joint_{k}={error}" for k, error in enumerate(errors.tolist(), start=1))]


def after(found: list[PayloadEstimate], time: float) -> PayloadEstimate:
    return next(each for each in found if each.timestamp >= time - 1e-9)


def width(of: PayloadEstimate) -> float:
    return (of.upper - of.lower) / MASS


def test_a_load_is_inside_its_interval_two_seconds_after_it_was_taken_up() -> None:
    found = estimates(plan(), LOADED_S + 2.0)
    assert LOADED_S < found[0].timestamp < LOADED_S + 0.1  # none during the calibration
    last = found[-1]
    assert last.lower < MASS < last.upper
    assert width(last) <= 0.15
    assert last.body == "link_12"
    np.testing.assert_allclose(last.center, (0.0, 0.0, 0.1023), rtol=0, atol=0.02)
    assert [each.seq for each in found] == list(range(found[0].seq, found[0].seq + len(found)))


def test_a_load_taken_up_later_is_noticed_and_equal_seeds_give_equal_estimates() -> None:
    later = plan("load.calibrate_s=1.6", "hardware.payload_from_s=2.4")
    found = estimates(later, 3.4)
    without = [each for each in found if each.timestamp < 2.4]
    assert without
    assert all(each.lower < 0.0 < each.upper for each in without[len(without) // 2 :])
    assert all(each.center == [] for each in without[len(without) // 2 :])
    assert found[-1].lower < MASS < found[-1].upper
    assert width(found[-1]) < 0.3
    assert [encode_state(each) for each in estimates(later, 3.4)] == [encode_state(each) for each in found]


@pytest.mark.soak
def test_the_interval_holds_for_random_gain_errors() -> None:
    found = [after(estimates(plan(*off(seed)), LOADED_S + 2.2), LOADED_S + 2.0) for seed in range(20)]
    assert sum(each.lower <= MASS <= each.upper for each in found) >= 18
    assert max(map(width, found)) <= 0.15


def test_a_parabola_through_uneven_samples_has_its_own_velocity_and_acceleration() -> None:
    time = np.array([1.0, 1.02, 1.025, 1.05, 1.08, 1.1])
    x = time[:, None] - 1.05
    motion = averaged(time, 0.3 + 0.5 * x + 2.0 * x * x, np.full((6, 1), 7.0))
    assert motion.v == pytest.approx([0.5])
    assert motion.a == pytest.approx([4.0])
    assert motion.effort == pytest.approx([7.0])


def started(robot: str = "arm_2dof", **params: Any) -> Node:
    node = Node()
    node.on_start(Context("load", robot, 1e-3, PayloadEstimateParams(**params), np.random.default_rng(0)))
    return node


def said(node: Node, state: RobotState) -> list[PayloadEstimate]:
    messages = [message for _, message in node.on_message("measured_state", state) or []]
    return [message for message in messages if isinstance(message, PayloadEstimate)]


def loaded(mass: float) -> System:
    """arm_2dof with a load in the centre of mass of its last body."""
    arm = build("arm_2dof", limits="none")
    *others, last = arm.bodies
    return assemble(
        dataclasses.replace(arm, bodies=(*others, dataclasses.replace(last, mass=value_of(last.mass) + mass)))
    )


def swinging(
    node: Node, begin: float, end: float, factor: float, by_command: bool = False, load: float = 0.0
) -> list[PayloadEstimate]:
    """Estimates of `node` for an arm_2dof that swings with a load, with efforts of `factor` times the model's."""
    system = loaded(load)
    found: list[PayloadEstimate] = []
    for k in range(round(begin / 5e-3), round(end / 5e-3)):
        t = 5e-3 * k
        w = np.array([3.0, 4.0])
        q, v, a = np.sin(w * t), w * np.cos(w * t), -w * w * np.sin(w * t)
        effort = (factor * inverse_dynamics(system, q, v, a)).tolist()
        names = ["joint_2", "joint_4"]
        if by_command:
            node.on_message("applied_command", JointCommand(name=names, value=effort))
        state = RobotState(
            timestamp=t, name=names, position=q.tolist(), velocity=v.tolist(), effort=[] if by_command else effort
        )
        found += said(node, state)
    return found


@pytest.mark.parametrize("by_command", [False, True])
def test_gains_alone_are_no_load(by_command: bool) -> None:
    found = swinging(started(calibrate_s=2.0), 0.0, 4.0, 1.1, by_command)
    assert len(found) == pytest.approx(2.0 / 0.05, abs=2)
    assert all(each.lower < 0.0 < each.upper for each in found)
    assert found[-1].mass == pytest.approx(0.0, abs=0.02)


def test_a_restored_node_goes_on_as_the_one_that_was_saved() -> None:
    whole, restored = started(calibrate_s=2.0), started(calibrate_s=2.0)
    swinging(whole, 0.0, 3.0, 1.1)
    restored.restore(decode_state(encode_state(whole.snapshot(), Node.__module__), Node.__module__))
    assert swinging(restored, 3.0, 4.0, 1.2) == swinging(whole, 3.0, 4.0, 1.2)


def test_a_load_that_is_put_down_is_noticed() -> None:
    node = started(calibrate_s=2.0)
    swinging(node, 0.0, 3.0, 1.1)
    carried = swinging(node, 3.0, 5.0, 1.1, load=0.4)
    assert carried[-1].lower < 0.4 < carried[-1].upper
    assert carried[-1].lower > 0.0
    center = build("arm_2dof", limits="none").bodies[-1].center_of_mass
    np.testing.assert_allclose(carried[-1].center, center, rtol=0, atol=0.02)
    put_down = swinging(node, 5.0, 7.0, 1.1)
    assert put_down[-1].lower < 0.0 < put_down[-1].upper < 0.1
    assert node.counters["load_changes"] >= 2


def test_a_calibration_is_repeated_on_request_and_kept_by_another_forgetting() -> None:
    node = started(calibrate_s=2.0)
    swinging(node, 0.0, 2.5, 1.1)
    node.on_parameters(PayloadEstimateParams(calibrate_s=2.0, forgetting_s=1.0))
    assert swinging(node, 2.5, 3.0, 1.1)[-1].mass == pytest.approx(0.0, abs=0.02)
    node.on_request("calibrate", {})
    found = swinging(node, 3.0, 5.5, 1.3)
    assert len(found) == pytest.approx(0.5 / 0.05, abs=2)  # none in the 2 s of the calibration
    assert found[-1].mass == pytest.approx(0.0, abs=0.02)


def test_a_pause_of_the_measurements_is_bridged_by_no_window() -> None:
    node = started(calibrate_s=2.0)
    swinging(node, 0.0, 3.0, 1.1)
    found = swinging(node, 3.5, 4.0, 1.1)
    assert len(found) == pytest.approx(0.5 / 0.05, abs=2)
    assert found[-1].mass == pytest.approx(0.0, abs=0.02)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ("load.body=link_99", "has no moving link 'link_99'; its links are link_7, link_8"),
        ("load.calibrate_s=0.5", r"calibrate_s is 0.5; with window_s = 0.1 it must be at least 1"),
        ("load.forgetting_s=0.0", "forgetting_s is 0.0; it must be a number above 0"),
        ("load.center=[0.1]", r"center is \[0.1\]; it must be three numbers"),
        ("hardware.payload_body=hand", "payload_body: there is no body 'hand'"),
        ("hardware.payload_mass=-1.0", "payload_mass is -1.0; it must be a number of at least 0"),
    ],
)
def test_impossible_parameters_are_refused_in_one_line(change: str, named: str) -> None:
    with pytest.raises(PlanError, match=named), compose(plan(change)):
        pass


def test_an_even_turn_about_a_vertical_axis_does_not_tell_the_mass(monkeypatch: pytest.MonkeyPatch) -> None:
    wheel = Mechanism(
        name="wheel",
        coordinates="joint",
        bodies=(Body(name="disc", mass=1.0, inertia=(0.02, 0.02, 0.02, 0.0, 0.0, 0.0)),),
        joints=(Joint(name="axle", child="disc"),),
        actuators=(Actuator(name="motor", joint="axle"),),
        initial_q=(0.0,),
        initial_v=(2.0,),
    )
    monkeypatch.setitem(registry.BUILTIN, "wheel", lambda: wheel)
    node = started("wheel", calibrate_s=2.0, heaviest=3.0)
    found: list[PayloadEstimate] = []
    for t in np.arange(0.0, 3.0, 5e-3).tolist():
        state = RobotState(timestamp=t, name=["axle"], position=[2.0 * t], velocity=[2.0], effort=[0.0])
        found += said(node, state)
    assert found[-1].upper == pytest.approx(1.96 * 3.0, rel=1e-3)
    assert found[-1].lower == pytest.approx(-1.96 * 3.0, rel=1e-3)
