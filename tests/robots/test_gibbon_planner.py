"""Planning a gibbon's swing: the path, the shooting, the estimate of the line."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from nodes.framework.launching.installation import rollout_types
from nodes.planning.brachiation.line_estimate import HandOnLine, LineEstimate
from nodes.planning.brachiation.planner import Task, elbow_path, folded_elbow, plan_swing, remaining
from nodes.planning.brachiation.planner_model import planner_model_of
from nodes.planning.brachiation.rollout import Roller, _roll
from nodes.planning.brachiation.supervisor import Gait, Hand, Measured, SwingSupervisor, elbow_of_robot, rigid
from nodes.planning.brachiation.swing_model import DROP, ELBOW, PITCH, SLIDE, SWING
from robots.registry import build
from sim_core.flexible.elements import contact_model
from sim_core.mechanism import Mechanism
from sim_core.simulation import Simulation
from sim_core.system import assemble

START, UNKNOWNS = (1.2, -0.5, 2.0), np.array([-1.4, 0.9, -30.0, 12.0])


@pytest.fixture(scope="module")
def bars() -> Mechanism:
    return build("gibbon", line="bars")


def measured(simulation: Simulation, time: float = 0.0) -> Measured:
    """What the robot of a simulation measures."""
    out, (position, velocity, effort) = simulation.outputs(), simulation.joints()
    hands = [Hand(*(out[f"hand_{hand}_{what}"] for what in ("x", "z", "vx", "vz"))) for hand in "ab"]
    grips = "".join(hand for hand in "ab" if out[f"hand_{hand}_grips"] > 0.5)
    joints = position[2], position[3], velocity[2], velocity[3]
    trunk = (position[4], velocity[4]) if "trunk" in simulation.system.joint_names else (0.0, 0.0)
    return Measured(time, *joints, (hands[0], hands[1]), grips, effort[3], *trunk)


def test_the_elbows_path_has_the_jets_it_was_asked_for() -> None:
    path = elbow_path(START, UNKNOWNS)
    assert path.at(0.0) == pytest.approx(START)
    assert path.at(0.9) == pytest.approx((-1.4, 0.0, 0.0), abs=1e-12)
    h = 1e-5
    before, now, after = (path.at(0.4 + k * h) for k in (-1, 0, 1))
    assert now[1] == pytest.approx((after[0] - before[0]) / (2 * h), rel=1e-6)
    assert now[2] == pytest.approx((after[1] - before[1]) / (2 * h), rel=1e-6)


def test_the_rest_of_a_path_is_a_path_of_its_own() -> None:
    path = elbow_path(START, UNKNOWNS)
    rest = elbow_path(*remaining(path, 0.35))
    for elapsed in (0.0, 0.2, 0.5):
        assert rest.at(elapsed) == pytest.approx(path.at(0.35 + elapsed), abs=1e-9)


def test_the_folded_elbow_spans_the_step() -> None:
    beta = math.asin(0.9 / 1.2)
    assert folded_elbow(0.9, (0.6, 0.6)) == pytest.approx(math.pi - 2 * beta)
    assert folded_elbow(1.2, (0.6, 0.6)) == pytest.approx(0.0, abs=1e-7)


@pytest.mark.parametrize("hand", ["a", "b"])
def test_a_plan_arrives_where_it_says_with_either_hand_gripping(bars: Mechanism, hand: str) -> None:
    roller = Roller(planner_model_of(bars), hand)
    elbow = folded_elbow(0.34, (0.31401, 0.31401))
    roller.q[:] = 1.0, 0.0, (math.pi - elbow) / 2, elbow
    assert roller.arrival().way == pytest.approx(0.66)
    assert roller.arrival().gap == pytest.approx(0.0, abs=1e-12)
    guess = np.array([-elbow, 0.65, 0.0, 0.0])
    plan = plan_swing(roller, roller.q.copy(), roller.v.copy(), (elbow, 0.0, 0.0), guess, Task(1.34, torque_limit=14.0))
    assert plan.arrival.gap == pytest.approx(0.0, abs=1e-4)
    assert plan.arrival.way == pytest.approx(1.34, abs=1e-4)
    assert plan.arrival.closing == pytest.approx(0.2, abs=0.01)
    assert plan.peak_torque < 2.0


def test_a_plan_ends_as_far_above_the_line_as_it_was_asked_for(bars: Mechanism) -> None:
    roller, elbow = Roller(planner_model_of(bars), "a"), folded_elbow(0.34, (0.31401, 0.31401))
    roller.q[:4] = 1.0, 0.0, (math.pi - elbow) / 2, elbow
    task = Task(1.34, torque_limit=14.0, above=0.015)
    guess = np.array([-elbow, 0.65, 0.0, 0.0])
    plan = plan_swing(roller, roller.q.copy(), roller.v.copy(), (elbow, 0.0, 0.0), guess, task)
    assert plan.arrival.gap == pytest.approx(0.015, abs=1e-4)
    assert plan.arrival.closing == pytest.approx(0.2, abs=0.01)


def test_rollouts_call_their_loop_with_the_types_that_are_installed(bars: Mechanism) -> None:
    roller = Roller(planner_model_of(bars), "a")
    roller.coast(0.01, 0.005)
    roller.roll(np.zeros(8), 0.5, 0.1, 0.005)
    assert set(_roll.signatures) == {rollout_types()["_roll"][1]}


def test_a_torque_limit_makes_a_plan_gentler_and_still_arrive() -> None:
    rigid_line = replace(planner_model_of(build("gibbon", line="cable")), cable=None)
    roller, elbow = Roller(rigid_line, "b"), folded_elbow(0.9, (0.6, 0.6))
    roller.q[:] = 5.0, 0.0, (math.pi - elbow) / 2, elbow
    q, v, guess = roller.q.copy(), roller.v.copy(), np.array([-elbow, 1.0, 0.0, 0.0])
    free, bound = (
        plan_swing(roller, q, v, (elbow, 0.0, 0.0), guess, Task(5.9, torque_limit=limit)) for limit in (30.0, 11.0)
    )
    assert bound.peak_torque < 0.95 * free.peak_torque
    assert bound.arrival.gap == pytest.approx(0.0, abs=1e-4)
    assert bound.arrival.way == pytest.approx(5.9, abs=1e-3)


@pytest.mark.parametrize("trunk", ["", "passive", "actuated"])
@pytest.mark.parametrize("hand", ["a", "b"])
def test_the_planners_model_falls_as_the_robot_does(hand: str, trunk: str) -> None:
    shape: dict[str, Any] = {"line": "bars", **({"links": 3, "trunk": trunk} if trunk else {})}
    simulation = Simulation(assemble(build("gibbon", start=hand, elbow_damping=0.02, **shape)), step_s=1e-3)
    turned = np.array([0.0, 0.0, 0.3, 0.5, -0.4]) if hand == "a" else np.array([0.0, 0.0, 0.0, 0.0, 0.2])
    size = len(simulation.state.q)
    simulation.reset(q=simulation.state.q + turned[:size])
    believed = planner_model_of(build("gibbon", elbow_damping=0.02, **shape), 30.0, 2.0)
    roller = Roller(believed, hand)
    roller.q[:], roller.v[:] = rigid(measured(simulation), hand, size)
    roller.tau[ELBOW] = elbow_of_robot(hand, 0.4)
    for _ in range(300):
        now = measured(simulation)
        law = min(max(-30.0 * (now.pitch + now.trunk) - 2.0 * (now.pitch_rate + now.trunk_rate), -16.0), 16.0)
        simulation.set_effort({"elbow": 0.4, **({"trunk": law} if trunk == "actuated" else {})})
        simulation.step()
    roller.coast(0.3, 1e-3, SWING)
    q, v = rigid(measured(simulation), hand, size)
    exact = 1e-6 if trunk != "actuated" else 1e-2  # the robot's law is held over a step
    assert roller.q[[SLIDE, DROP, ELBOW]] == pytest.approx(q[[SLIDE, DROP, ELBOW]], abs=exact)
    for angle in (PITCH, *range(ELBOW + 1, size)):
        assert math.remainder(roller.q[angle] - q[angle], math.tau) == pytest.approx(0.0, abs=exact)
    assert roller.v == pytest.approx(v, abs=10 * exact)
    if trunk:
        leans = measured(simulation).pitch + measured(simulation).trunk
        assert (abs(leans) < 0.05) == (trunk == "actuated")


@pytest.mark.parametrize("links", [2, 3])
def test_a_rollout_has_the_elbow_follow_its_path_with_the_torque_that_it_says(links: int) -> None:
    """The torque of its first instant, given to the model without a path, bends the elbow as the path does."""
    roller = Roller(planner_model_of(build("gibbon", line="bars", links=links, elbow_damping=0.1)), "b")
    start, path = roller.q.copy(), elbow_path(START, UNKNOWNS)
    start[PITCH] = -0.4
    roller.q[:] = start
    steps = roller.roll(path.powers, path.duration, 0.5, 1e-3)
    assert roller.q[ELBOW] == pytest.approx(path.at(0.45)[0], abs=1e-9)
    assert roller.v[ELBOW] == pytest.approx(path.at(0.45)[1], abs=1e-8)
    roller.tau[ELBOW] = roller.torque[steps]
    roller.accelerate[SWING]()
    assert roller.a[ELBOW] == pytest.approx(path.at(0.45)[2], rel=1e-6)


def test_a_first_plan_that_came_late_is_made_anew_with_twice_the_time(bars: Mechanism) -> None:
    simulation = Simulation(assemble(bars), step_s=1e-3)
    pilot = SwingSupervisor(planner_model_of(bars), Gait(step=0.34, end=8.0, torque_limit=14.0))
    pilot.add_measurement(measured(simulation, 0.2))
    first = pilot.plan()
    assert first is not None
    assert (first.hand, first.release, first.target) == ("b", True, pytest.approx(1.02))
    assert first.start == pytest.approx(0.35)
    pilot.add_measurement(measured(simulation, 0.3))
    assert pilot.plan() is None  # the first is waited for
    pilot.refused(first.number)
    pilot.add_measurement(measured(simulation, 0.36))
    second = pilot.plan()
    assert second is not None
    assert (second.number, second.start) == (first.number + 1, pytest.approx(0.36 + 0.3))


def test_no_hand_is_sent_beyond_the_end_of_the_line(bars: Mechanism) -> None:
    pilot = SwingSupervisor(planner_model_of(bars), Gait(step=0.34, end=1.0, torque_limit=14.0))
    pilot.add_measurement(measured(Simulation(assemble(bars), step_s=1e-3), 0.2))
    assert pilot.plan() is None


def test_the_line_at_rest_tells_its_tension() -> None:
    believed = planner_model_of(build("gibbon", line="cable", tension=5000.0, modes=12))
    assert believed.cable is not None
    there = Simulation(assemble(build("gibbon", line="cable", tension=4500.0, modes=24)), step_s=1e-3)
    pilot = SwingSupervisor(believed, Gait(step=0.9, end=19.5, torque_limit=27.0))
    pilot.add_measurement(measured(there))
    assert pilot.line is not None
    assert pilot.line.tension_scale == pytest.approx(0.9, abs=0.01)


def test_the_estimate_of_the_line_swings_as_its_modes_do() -> None:
    believed = planner_model_of(build("gibbon", line="cable", modes=6))
    assert believed.cable is not None
    line = LineEstimate(believed.cable, 0.0, [], 0.05)
    line.amplitude[1] = 0.01  # no weight, no hands: all else is zero
    w, damping = line.model.frequencies[1], 0.01
    for _ in range(50):
        line.predict(4e-3, [])
    expected = 0.01 * math.exp(-damping * w * 0.2) * math.cos(w * math.sqrt(1 - damping**2) * 0.2)
    assert line.amplitude[1] == pytest.approx(expected, abs=2e-4)
    assert line.amplitude[[0, 2, 3]] == pytest.approx(0.0, abs=1e-12)


def test_the_modes_of_the_estimate_swing_under_the_tension_that_was_found() -> None:
    believed, there = (
        planner_model_of(build("gibbon", line="cable", modes=6, tension=T)).cable for T in (5000.0, 7000.0)
    )
    assert believed is not None
    assert there is not None
    stiffer = contact_model(there, 0.05)
    shape, w = stiffer.shape(8.0), stiffer.frequencies
    hands = [HandOnLine(8.0, float(shape @ (100.0 * shape / w**2)), 0.0, 100.0)]
    line = LineEstimate(believed, 0.0, hands, 0.05)
    assert line.tension_scale == pytest.approx(1.4)
    resting = line.amplitude[5]
    line.amplitude[5] += 0.01
    for _ in range(50):
        line.predict(4e-3, hands)
    decay = 0.01 * line.model.frequencies[5]  # the damping is the believed one
    damped = math.sqrt(w[5] ** 2 - decay**2)
    swinging = math.cos(0.2 * damped) + decay / damped * math.sin(0.2 * damped)
    assert line.amplitude[5] - resting == pytest.approx(0.01 * math.exp(-0.2 * decay) * swinging, abs=1e-6)


def test_the_estimate_follows_hands_that_move_with_the_line() -> None:
    believed = planner_model_of(build("gibbon", line="cable", modes=6))
    assert believed.cable is not None
    resting = [HandOnLine(8.0, 0.2, 0.0, 50.0)]
    line = LineEstimate(believed.cable, 9.81, resting, 0.05)
    line.correct([HandOnLine(8.0, 0.22, 0.3, 50.0)])
    shape = line.model.shape(8.0)
    assert 0.2 < shape @ line.amplitude <= 0.22
    assert 0.0 < shape @ line.rate <= 0.3
