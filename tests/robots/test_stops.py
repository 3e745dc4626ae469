"""Stops of CHARMIE's arms: they hold joints at their limits, and leave the motion between them as it is."""

from __future__ import annotations

import dataclasses
import warnings

import numpy as np
import pytest

from robots.registry import build
from robots.stops import least_inertias, with_stops
from sim_core.errors import DescriptionWarning, InvalidRequest, StepTooLargeWarning
from sim_core.mechanism import JointStops
from sim_core.monitoring.impacts import impact_rate
from sim_core.simulation import Simulation
from sim_core.system import assemble


def test_an_arm_that_falls_stays_between_its_stops_and_one_without_does_not() -> None:
    furthest = {}
    for limits in ("none", "compliant"):
        mechanism = build("arm_2dof", limits=limits)
        start = dataclasses.replace(mechanism, initial_q=(0.3, 0.2))
        sim = Simulation(assemble(start), step_s=1e-3)
        lower, upper = (np.array([getattr(j, end) for j in mechanism.moving_joints]) for end in ("lower", "upper"))
        beyond = 0.0
        for _ in range(500):
            sim.step(10)
            beyond = max(beyond, float(np.max([lower - sim.state.q, sim.state.q - upper])))
        furthest[limits] = beyond
        assert sim.energy_ledger.largest < 0.01
    assert furthest["none"] > 0.5
    assert furthest["compliant"] < 0.15


def test_between_its_stops_an_arm_moves_as_without_them() -> None:
    sims = [Simulation(assemble(build("arm_6dof", limits=limits)), step_s=1e-3) for limits in ("none", "compliant")]
    for sim in sims:
        sim.reset([0.1, -0.2, 0.3, 0.4, -0.5, 0.6], [0.5] * 6)
        sim.advance(0.1)
    np.testing.assert_allclose(sims[0].state.q, sims[1].state.q, rtol=0, atol=1e-12)


@pytest.mark.parametrize("robot", ["arm_6dof", "charmie"])
def test_a_robot_that_falls_from_anywhere_onto_its_stops_does_not_diverge_at_a_millisecond(robot: str) -> None:
    mechanism = build(robot, limits="compliant")
    sim = Simulation(assemble(mechanism), step_s=1e-3)
    lower, upper = (
        np.array([np.inf * sign if (end := getattr(j, name)) is None else end for j in mechanism.moving_joints])
        for name, sign in (("lower", -1), ("upper", 1))
    )
    start, draw = np.array(mechanism.initial_q), np.random.default_rng(2)
    for _ in range(4):
        sim.reset(np.clip(start + draw.uniform(-0.5, 0.5, len(start)), lower, upper))
        for _ in range(60):
            sim.step(50)
            position = sim.system.joints(0.0, sim.state.q, sim.state.v)[0]
            assert np.max([lower - position, position - upper]) < 0.25
        assert sim.energy_ledger.largest < 0.05


@pytest.mark.parametrize("speed", [0.5, 2.0, 8.0, 18.0])
def test_a_wrist_that_hits_its_stop_keeps_its_energy_at_a_millisecond_and_goes_no_deeper_than_documented(
    speed: float,
) -> None:
    """The energy that is not accounted for stays below 1e-4 of the wrist's; the other joints are locked."""
    arm = build("arm_6dof")
    wrist, (upper, hand) = arm.joints[-1], arm.bodies[-2:]
    assert wrist.parent == upper.name
    alone = dataclasses.replace(
        arm,
        bodies=(hand,),
        joints=(dataclasses.replace(wrist, parent="ground"),),
        actuators=(),
        outputs=(),
        gravity=(0.0, 0.0, 0.0),
        initial_q=(wrist.upper - 0.1,),
        initial_v=(speed,),
    )
    # the wrist's smallest inertia in the arm is smaller than that with all other joints locked
    sim, deepest = Simulation(assemble(with_stops(alone)), step_s=1e-3), 0.0
    for _ in range(round(0.3 / speed / 1e-3) + 200):
        sim.step()
        deepest = max(deepest, float(sim.state.q[0]) - wrist.upper)
    assert sim.state.v[0] < 0.0
    assert 0.5 * 0.031 * speed**0.5 < deepest < 0.031 * speed**0.5
    assert sim.energy_ledger.largest < 1e-4


def test_the_lift_goes_no_deeper_into_its_stop_than_documented() -> None:
    mechanism = build("charmie")
    lift = mechanism.joint("lift")
    assert lift.stops is not None
    least = least_inertias(build("charmie", limits="none"))["lift"]
    for speed in (0.1, 0.5, 1.5):
        assert impact_rate(lift.stops.stiffness, lift.stops.exponent, least, speed) == pytest.approx(
            80.0 * (speed / 0.1) ** 0.5, rel=2e-2
        )
        deepest = (2.0 * least * speed**2 / lift.stops.stiffness) ** 0.25
        assert deepest == pytest.approx(0.0097 * speed**0.5, rel=0.01)


def test_every_limited_joint_of_charmie_and_the_arms_stops_by_default_and_none_without() -> None:
    for robot in ("arm_2dof", "arm_4dof", "arm_6dof", "charmie"):
        for joint in build(robot).moving_joints:
            assert (joint.stops is not None) == (joint.lower is not None)
        assert all(joint.stops is None for joint in build(robot, limits="none").joints)


def test_impacts_on_the_stops_of_charmie_suit_a_step_of_a_millisecond() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", StepTooLargeWarning)
        Simulation(assemble(build("arm_6dof", limits="compliant")), step_s=1e-3)


def test_a_stop_too_stiff_for_the_step_is_named_with_a_step_that_would_do() -> None:
    mechanism = build("arm_2dof", limits="compliant")
    stiff = dataclasses.replace(mechanism.joints[1], stops=JointStops(stiffness=1e9))
    system = assemble(dataclasses.replace(mechanism, joints=(mechanism.joints[0], stiff)))
    with pytest.warns(
        StepTooLargeWarning, match=r"1 rad/s on the stop of joint 'joint_4' .* use a step of at most .* ms"
    ):
        Simulation(system, step_s=1e-3)


def test_the_rate_of_an_impact_is_that_of_a_spring_for_an_exponent_of_one() -> None:
    assert impact_rate(2e4, 1.0, 0.5) == pytest.approx((2e4 / 0.5) ** 0.5, rel=1e-12)


def test_a_start_beyond_a_stop_is_named() -> None:
    mechanism = dataclasses.replace(build("arm_2dof", limits="compliant"), initial_q=(2.2, 0.0))
    with pytest.warns(DescriptionWarning, match=r"starts at 2\.2 rad, beyond its limits .*and a stop pushes the joint"):
        assemble(mechanism)


def test_another_limit_is_another_mechanism_only_with_stops() -> None:
    def moved(limits: str) -> bool:
        mechanism = build("arm_2dof", limits=limits)
        joints = (dataclasses.replace(mechanism.joints[0], upper=1.0), *mechanism.joints[1:])
        return dataclasses.replace(mechanism, joints=joints).canonical_hash != mechanism.canonical_hash

    assert not moved("none")
    assert moved("compliant")


def test_an_unknown_kind_of_limits_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="limits is 'hard'; it must be one of compliant, none"):
        build("arm_2dof", limits="hard")
