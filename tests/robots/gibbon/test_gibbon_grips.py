"""Grips, releases and falls: what they keep, what they take, when they happen."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from robots.registry import build
from sim_core.simulation import Simulation
from sim_core.state import State, Transition
from sim_core.system import assemble
from tests.sim_core import reference

Hang = Callable[..., Simulation]
Until = Callable[..., Transition]
LINES = ("bars", "cable")
VARIANTS: list[dict[str, Any]] = [{"line": "bars"}, {"line": "cable"}, {"line": "cable", "links": 3, "modes": 12}]


def names_of(variant: dict[str, Any]) -> str:
    return "-".join(map(str, variant.values()))


@pytest.mark.parametrize("variant", VARIANTS, ids=names_of)
def test_a_grip_is_an_impulse_on_all_that_has_mass(
    about_to_grip: Hang, step_until: Until, variant: dict[str, Any]
) -> None:
    """v and energy after it from M and J of the numpy reference: M (v+ - v-) = -J' y, J v+ = 0."""
    sim = about_to_grip(off=0.05, rate=-1.0, **variant)
    sim.set_effort({"grip_a": 1.0, "grip_b": 1.0})
    event = step_until(sim, "grip")
    assert (event.part, event.source, event.target) == ("hand_b", "a", "both")
    n = sim.system.n_q
    q, v, after = event.before[:n], event.before[n:], event.after[n:]
    np.testing.assert_array_equal(event.after[:n], q)
    M, _, J, _, _ = reference.terms(build("gibbon", **variant), q, v)
    assert len(J) == 4
    inverse = np.linalg.inv(M)
    y = np.linalg.solve(J @ inverse @ J.T, J @ v)
    expected = v - inverse @ J.T @ y
    assert np.abs(J[2:] @ v).max() > 0.1
    np.testing.assert_allclose(after, expected, atol=1e-9 * np.abs(v).max())
    # the impulse's work at the mean of the velocities before and after
    lost = 0.5 * v @ M @ v - 0.5 * after @ M @ after
    assert lost > 1e-3
    assert event.energy == pytest.approx(lost, rel=1e-9)
    assert event.energy == pytest.approx(y @ J @ (v + after) / 2, rel=1e-9)
    # nothing changes the momentum along motions that the grips leave free
    free = np.linalg.svd(J)[2][4:]
    np.testing.assert_allclose(free @ M @ (after - v), 0.0, atol=1e-9)
    if variant["line"] == "cable":
        assert np.abs(after - v)[-12:].max() > 1e-3  # the cable's modes take part


@pytest.mark.parametrize("line", LINES)
def test_what_a_hand_holds_is_where_it_closed_and_puts_no_energy_in(
    about_to_grip: Hang, step_until: Until, line: str
) -> None:
    sim = about_to_grip(off=0.05, rate=-1.0, line=line)
    sim.set_effort({"grip_a": 1.0, "grip_b": 1.0})
    event = step_until(sim, "grip")
    n = sim.system.n_q
    assert sim.violation()[0] <= 1e-14
    energy, kept = sim.energy(), sim.outputs()
    sim.advance(0.2)
    assert -1.0 < sim.energy() - energy <= 1e-9  # the cable's damping takes some
    now = sim.outputs()
    assert now["hand_b_x"] == pytest.approx(kept["hand_b_x"], abs=1e-9)
    if line == "bars":
        assert now["hand_b_z"] == pytest.approx(kept["hand_b_z"], abs=1e-9)
        bar = np.array([0.68, 0.0])
        assert 1e-3 < np.hypot(*(np.array([now["hand_b_x"], now["hand_b_z"]]) - bar)) <= 0.03
    assert event.before[n:].any()


@pytest.mark.parametrize("line", LINES)
def test_a_release_changes_nothing_but_what_holds(hang: Hang, step_until: Until, line: str) -> None:
    sim = hang(line=line)
    sim.advance(0.01)
    sim.set_effort({"grip_a": 0.0})
    event = step_until(sim, "release")
    assert (event.part, event.source, event.target) == ("hand_a", "both", "b")
    assert event.time == pytest.approx(0.011)
    assert event.energy == pytest.approx(0.0, abs=1e-12)
    np.testing.assert_array_equal(event.before, event.after)
    assert sim.outputs()["hand_a_grips"] == 0.0
    assert sim.outputs()["hand_b_grips"] == 1.0
    assert sim.outputs()["hand_a_force_z"] == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("line", LINES)
def test_who_lets_go_of_everything_falls_and_the_run_goes_on(hang: Hang, step_until: Until, line: str) -> None:
    sim = hang(line=line)
    sim.set_effort({"grip_a": 0.0, "grip_b": 0.0})
    sim.step()
    releases = sim.take_events()
    assert [(event.kind, event.part, event.source, event.target) for event in releases] == [
        ("release", "hand_a", "both", "b"),
        ("release", "hand_b", "b", "none"),
    ]
    fall = step_until(sim, "fall")
    assert (fall.source, fall.target) == ("none", "fallen")
    assert fall.energy == pytest.approx(0.0, abs=1e-9)
    assert sim.constraint_mode == "fallen"
    sim.set_effort({"grip_a": 1.0, "grip_b": 1.0})
    sim.advance(10.0)
    assert sim.constraint_mode == "fallen"
    # closed form: the centre of mass of what fell for 10 s more
    mass = sum(value for name, value in sim.parameters.items() if name.endswith("_mass"))
    assert mass > 1.0
    assert -sim.outputs()["hand_a_z"] > 0.5 * 9.81 * 10.0**2
    assert np.isfinite(sim.state.q).all()


@pytest.mark.parametrize("line", LINES)
def test_a_hand_in_the_air_can_be_caught_before_it_fell(hang: Hang, step_until: Until, line: str) -> None:
    sim = hang(line=line, start="a")
    sim.set_effort({"grip_a": 0.0})
    step_until(sim, "release")
    sim.set_effort({"grip_a": 1.0})
    event = step_until(sim, "grip", longest=0.05)
    assert (event.source, event.target) == ("none", "a")


def closed(sim: Simulation, **tunables: float) -> list[str]:
    """Events of half a second with both grippers closed."""
    sim.set_effort({"grip_a": 1.0, "grip_b": 1.0})
    sim.set_parameters(tunables)
    sim.advance(0.5)
    return [event.kind for event in sim.take_events()]


@pytest.mark.parametrize("line", LINES)
def test_a_gripper_catches_only_what_is_near_slow_and_when_it_is_closed(about_to_grip: Hang, line: str) -> None:
    assert closed(about_to_grip(line=line)) == ["grip"]
    open_hand = about_to_grip(line=line)
    open_hand.set_effort({"grip_a": 1.0})
    open_hand.advance(0.5)
    assert open_hand.take_events() == []
    assert closed(about_to_grip(line=line), closing_speed=0.05) == []
    # 0.2 rad short and going back
    assert closed(about_to_grip(line=line, off=0.3, rate=2.0)) == []
    assert closed(about_to_grip(line=line, off=0.3, rate=2.0), reach=0.5) == ["grip"]


def test_bars_are_caught_where_there_are_bars(about_to_grip: Hang) -> None:
    assert closed(about_to_grip(line="bars", bars=3)) == ["grip"]
    nowhere = about_to_grip(line="bars", bars=24)
    state = nowhere.state
    state.q[0] += 0.17
    state.p[list(nowhere.system.parameter_names).index("anchor_a_x")] += 0.17
    nowhere.restore(state)
    assert closed(nowhere) == []


@pytest.mark.parametrize("line", LINES)
@pytest.mark.parametrize("at", [0, 25, 400, 700])
def test_a_snapshot_at_any_instant_goes_on_to_the_same_bytes(about_to_grip: Hang, line: str, at: int) -> None:
    """Over a grip, a release and a fall: what is held is in the state."""

    def run(sim: Simulation, first: int, last: int) -> None:
        for tick in range(first, last):
            hands = {0: (1.0, 1.0), 300: (0.0, 1.0), 600: (0.0, 0.0)}.get(tick)
            if hands is not None:
                sim.set_effort(dict(zip(("grip_a", "grip_b"), hands, strict=True)))
            sim.step()

    sim = about_to_grip(line=line)
    run(sim, 0, at)
    kept = State.from_plain(sim.snapshot().to_plain())
    run(sim, at, 1500)
    assert sim.constraint_mode == "fallen"
    other = about_to_grip(line=line)
    other.step(3)
    other.restore(kept)
    run(other, at, 1500)
    assert other.snapshot().to_plain() == sim.snapshot().to_plain()


def test_a_reset_puts_the_hands_back(hang: Hang) -> None:
    sim = hang()
    before = sim.snapshot().to_plain()
    sim.set_effort({"grip_a": 0.0, "elbow": 5.0})
    sim.advance(0.5)
    assert sim.constraint_mode == "b"
    sim.reset()
    assert sim.snapshot().to_plain() == before
    sim.advance(0.1)
    assert sim.constraint_mode == "both"


@pytest.mark.parametrize("line", LINES)
def test_a_hook_lets_go_where_the_line_would_push_it_down(hang: Hang, step_until: Until, line: str) -> None:
    """Spun about hand a, the robot is thrown upwards: a gripper holds on, a hook lets go as the force reverses."""
    thrown = {}
    for hook in (False, True):
        sim = hang(line=line, start="a", hook=hook)
        q, v = np.array(sim.system.mechanism.initial_q), np.zeros(sim.system.n_q)
        v[2] = -12.0
        sim.reset(q, v)
        forces = []
        for _ in range(400):
            forces.append(sim.outputs()["hand_a_force_z"])
            sim.step()
            if sim.constraint_mode != "a":
                break
        thrown[hook] = sim.constraint_mode, min(forces)
    assert thrown[False][0] == "a"
    assert thrown[False][1] < -1.0
    assert thrown[True][0] == "none"
    # noticed within the step in which it reversed
    assert thrown[True][1] > -0.02 * abs(thrown[False][1]) - 5.0


def test_a_hand_that_slides_keeps_the_cable_and_its_energy(hang: Hang, step_until: Until) -> None:
    """Without friction: on a cable without damping nothing is lost, and it slides down the sag."""
    sim = hang(start="a", damping_ratio=0.0)
    energy = sim.energy()
    sim.set_effort({"grip_a": 0.4})
    event = step_until(sim, "slide")
    assert (event.source, event.target, event.energy) == ("a", "a_slides", pytest.approx(0.0, abs=1e-12))
    sim.advance(0.999)
    now = sim.outputs()
    assert (now["hand_a_grips"], now["hand_a_holds"]) == (0.0, 1.0)
    assert now["hand_a_x"] > 5.05
    assert sim.energy() == pytest.approx(energy, abs=2e-5)
    assert sim.peak_violation()[0] <= 1e-9
    sim.set_effort({"grip_a": 1.0})
    held = step_until(sim, "grip")
    assert held.target == "a"
    assert held.energy > 0.0
    here = sim.outputs()["hand_a_x"]
    sim.advance(0.5)
    assert sim.outputs()["hand_a_x"] == pytest.approx(here, abs=1e-9)


def test_a_hand_that_slides_to_the_end_of_the_cable_lets_go(hang: Hang, step_until: Until) -> None:
    sim = hang(start="a", start_x=19.5)
    sim.set_effort({"grip_a": 0.4})
    step_until(sim, "slide")
    state = sim.state
    state.v[0] = 4.0
    sim.restore(state)
    assert step_until(sim, "release").target == "none"
    assert sim.outputs()["hand_a_x"] == pytest.approx(19.95, abs=0.01)
    step_until(sim, "fall")


@pytest.mark.parametrize("line", LINES)
def test_the_energy_of_a_run_is_what_the_elbow_did_less_what_every_event_took(line: str) -> None:
    """Grips of either hand, with the other holding or in the air, slides, releases, a fall: nothing is unaccounted."""
    damping = {"damping_ratio": 0.0} if line == "cable" else {}
    sim = Simulation(assemble(build("gibbon", line=line, **damping)), step_s=1e-4)
    elbow = [joint.name for joint in sim.system.mechanism.moving_joints].index("elbow")
    random = np.random.default_rng(7)
    sim.set_parameters({"reach": 0.5, "closing_speed": 50.0})
    start, work, efforts = sim.energy(), 0.0, (2.0 if line == "bars" else 15.0)
    events: list[Transition] = []
    for _ in range(60):
        torque = float(random.uniform(-efforts, efforts))
        grips = random.choice([0.0, 0.4, 1.0] if line == "cable" else [0.0, 1.0], size=2)
        grips[random.integers(2)] = 1.0  # one hand at least tries to hold
        sim.set_effort({"elbow": torque, "grip_a": float(grips[0]), "grip_b": float(grips[1])})
        before = sim.state.q[elbow]
        sim.advance(0.05)
        work += torque * (sim.state.q[elbow] - before)
        events += sim.take_events()
    sim.set_effort({"elbow": 0.0, "grip_a": 0.0, "grip_b": 0.0})
    sim.advance(2.0)
    events += sim.take_events()
    kinds = {event.kind for event in events}
    assert kinds == ({"grip", "release", "fall", "slide"} if line == "cable" else {"grip", "release", "fall"})
    assert {(event.part, event.source) for event in events if event.kind == "grip"} >= {
        ("hand_a", "b"),
        ("hand_b", "a"),
    }
    lost = sum(event.energy for event in events)
    assert lost > 1.0
    assert min(event.energy for event in events) > -1e-9  # none puts energy in
    assert sim.energy() - start == pytest.approx(work - lost, abs=1e-5 * lost)
