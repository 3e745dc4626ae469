"""Steps too large for the fastest mode: named with the element and the step that would do; all others in silence."""

from __future__ import annotations

import collections
import dataclasses
import math
import re
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import robots
from sim_core.errors import SimulationDiverged, StepTooLargeWarning
from sim_core.integrators.steppers import STEPPERS, stepper_named
from sim_core.mechanism import (
    ORIGIN,
    Body,
    CustomForce,
    Joint,
    JointFriction,
    JointSpring,
    JointStops,
    Mechanism,
    Spring,
    Tunable,
    X,
    Y,
    dissipation_for,
)
from sim_core.monitoring.modes import departure, eigenvalues_below, next_check
from sim_core.simulation import Simulation
from sim_core.system import assemble

FIXED = [name for name, stepper in STEPPERS.items() if not stepper.adaptive]


def rail(stiffness: float = 0.0, damping: float = 0.0, friction: float = 0.0, mass: float = 1.0) -> Mechanism:
    """A mass on a rail between a soft spring and one with that stiffness and damping; the rail brakes too."""
    spring = Spring(name="soft", body_a="ground", point_a=ORIGIN, body_b="mass", point_b=ORIGIN, stiffness=1.0)
    hard = dataclasses.replace(
        spring, name="hard", point_a=(-1.0, 0.0, 0.0), stiffness=stiffness, damping=damping, rest_length=1.0
    )
    return Mechanism(
        name="rail_of_springs",
        coordinates="joint",
        bodies=(Body(name="mass", mass=mass, inertia=(0.1, 0.1, 0.1, 0.0, 0.0, 0.0)),),
        joints=(Joint(name="rail", kind="prismatic", child="mass", axis=X, damping=friction),),
        springs=(spring, hard),
        initial_q=(1e-3,),
        initial_v=(0.0,),
    )


def pendulum(coordinates: str = "joint") -> Mechanism:
    """A pendulum of 1 m that starts level, where gravity gives it no stiffness."""
    body = Body(name="bob", mass=1.0, inertia=(1e-3, 1e-3, 1e-3, 0.0, 0.0, 0.0), orientation="euler_parameters")
    joint = Joint(name="pin", child="bob", axis=Y, child_point=(-1.0, 0.0, 0.0))
    absolute = coordinates == "absolute"
    return Mechanism(
        name="pendulum",
        coordinates="absolute" if absolute else "joint",
        bodies=(body,),
        joints=(joint,),
        initial_q=(1.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0) if absolute else (0.0,),
        initial_v=(0.0,) * (7 if absolute else 1),
    )


def warned(mechanism: Mechanism, step_s: float, steps: int = 0, stepper: str = "rk4") -> list[str]:
    """The lines of all warnings of steps too large."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        sim = Simulation(assemble(mechanism), step_s=step_s, stepper=stepper)
        for _ in range(steps):
            try:
                sim.step()
            except SimulationDiverged:
                break
    return [str(warning.message) for warning in caught if issubclass(warning.category, StepTooLargeWarning)]


def step_that_would_do(line: str) -> float:
    found = re.search(r"use a step of at most ([\d.e+-]+) ms", line)
    assert found, line
    return float(found[1]) * 1e-3


@pytest.mark.parametrize(
    ("mechanism", "element", "rate"),
    [
        (rail(stiffness=1e7), "spring 'hard'", math.sqrt(1e7)),
        (rail(stiffness=4e5), "spring 'hard'", math.sqrt(4e5)),
        (rail(stiffness=1e5, mass=0.01), "spring 'hard'", math.sqrt(1e7)),
        (rail(damping=1e4), "the damper of spring 'hard'", 1e4),
        (rail(friction=1e4), "the damping of joint 'rail'", 1e4),
    ],
    ids=lambda value: str(value) if isinstance(value, str) else "",
)
@pytest.mark.parametrize("stepper", ["rk4", "dopri5", "abm4"])
def test_a_mode_too_fast_is_named_with_its_element_and_the_step_that_would_do(
    mechanism: Mechanism, element: str, rate: float, stepper: str
) -> None:
    (line,) = warned(mechanism, 2e-3, stepper=stepper)
    assert f"by {element}, " in line
    assert float(re.findall(r", ([\d.e+]+) (?:rad|1)/s by", line)[0]) == pytest.approx(rate, rel=1e-2)
    step = step_that_would_do(line)
    assert warned(mechanism, step, stepper=stepper) == []
    assert warned(mechanism, 1.2 * step, stepper=stepper) != []


@pytest.mark.parametrize("coordinates", ["joint", "absolute"])
@pytest.mark.parametrize("step_s", [0.5, 1.0])
def test_a_pendulum_with_steps_of_a_second_is_named_as_it_goes(coordinates: str, step_s: float) -> None:
    lines = warned(pendulum(coordinates), step_s, steps=80)
    assert len(lines) == 1
    assert "pin" in lines[0] or "bob" in lines[0]


def arm(**changes: Any) -> Mechanism:
    """A pendulum of 0.02 kg m2 about its hinge."""
    body = Body(name="arm", mass=1.0, inertia=(0.01, 0.01, 0.01, 0.0, 0.0, 0.0), center_of_mass=(0.1, 0.0, 0.0))
    hinge = {name: changes.pop(name) for name in [*changes] if name not in ("forces", "initial_v")}
    return Mechanism(
        **{
            "name": "arm",
            "coordinates": "joint",
            "bodies": (body,),
            "joints": (Joint(name="hinge", child="arm", **hinge),),
            "gravity": (0.0, -9.81, 0.0),
            "initial_q": (0.1,),
            "initial_v": (1.0,),
            **changes,
        }
    )


def feedback(stiffness: float, damping: float) -> CustomForce:
    return CustomForce(
        name="feedback",
        law=lambda i: {"hinge": -stiffness * i.position["hinge"] - damping * i.velocity["hinge"]},
    )


LAG = CustomForce(
    name="filter",
    law=lambda i: {"z": -1e5 * (i.state["z"] - i.position["hinge"]), "hinge": -i.state["z"]},
    states=(("z", 0.1),),
)


@pytest.mark.parametrize(
    ("mechanism", "says"),
    [
        (lambda: arm(friction=JointFriction(coulomb=10.0)), r"at rest, 5e\+05 1/s by the friction of joint 'hinge'"),
        (
            lambda: arm(friction=JointFriction(coulomb=1.0, bristle_stiffness=1e4, bristle_damping=1e3)),
            "at rest, .* 1/s by the friction of joint 'hinge'",
        ),
        (lambda: arm(forces=(feedback(1e6, 0.0),)), "7071 rad/s by force 'feedback'"),
        (lambda: arm(forces=(feedback(0.0, 1e3),)), r"5e\+04 1/s by force 'feedback'"),
        (lambda: arm(forces=(LAG,)), r"1e\+05 1/s by state 'z' of force 'filter'"),
        (
            lambda: arm(lower=-0.5, upper=0.5, stops=JointStops(stiffness=1e4, dissipation=1e6)),
            "an impact at 1 rad/s on the stop of joint 'hinge' of 'arm' is damped at a rate of .* 1/s",
        ),
    ],
)
def test_a_part_too_fast_for_the_step_is_named_though_the_start_moves(
    mechanism: Callable[[], Mechanism], says: str
) -> None:
    """The arm moves at 1 rad/s, where dry friction is constant and no stop is touched."""
    (line,) = warned(mechanism(), 1e-3)
    assert re.search(says, line), line


def test_friction_and_forces_that_the_step_resolves_are_stepped_in_silence() -> None:
    smooth = JointFriction(coulomb=0.1, smoothing_velocity=0.1)
    made = arm(friction=smooth, forces=(feedback(10.0, 1.0),), initial_v=(0.0,))
    assert warned(made, 1e-3, steps=20) == []
    stop = arm(lower=-0.5, upper=0.5, stops=JointStops(stiffness=100.0, dissipation=dissipation_for(0.5, 1.0)))
    assert warned(stop, 1e-3, steps=20) == []


def test_a_stiffness_that_is_set_is_checked_before_the_next_step() -> None:
    sim = Simulation(assemble(arm(spring=JointSpring(stiffness=Tunable("k", 1.0, 0.0, 1e9)))))
    sim.step(100)
    sim.set_parameters({"k": 2.0})
    sim.step()
    assert sim.step_too_large is None
    sim.set_parameters({"k": 1e7})
    with pytest.warns(StepTooLargeWarning, match="by the spring of joint 'hinge'"):
        sim.step()
    assert [notice.time for notice in sim.take_notices() if notice.kind == "step_too_large"] == [sim.time - 1e-3]


@pytest.mark.parametrize("at_once", [True, False])
def test_an_energy_error_names_the_stop_that_was_hit_between_two_checks(at_once: bool) -> None:
    """The impact is over when the modes are checked again, and the state of the error is one of its last."""
    stops = JointStops(stiffness=1e5, dissipation=50.0)
    joint = Joint(name="rail", kind="prismatic", child="mass", axis=X, upper=1.0, lower=-1.0, stops=stops)
    mechanism = dataclasses.replace(rail(), name="between_stops", joints=(joint,), springs=(), initial_v=(3.0,))
    sim = Simulation(assemble(mechanism), step_s=1e-3)
    steps = [600] if at_once else [1] * 600
    with pytest.warns(StepTooLargeWarning, match="by the stop of joint 'rail'"):
        collections.deque(map(sim.step, steps))
    found = [notice for notice in sim.take_notices() if notice.kind == "energy_departure"]
    assert "by the stop of joint 'rail'" in found[0].line
    assert sim.step_too_large is not None


def test_a_diverged_run_names_the_mode_that_the_step_was_too_large_for() -> None:
    spring = JointSpring(stiffness=1.0, cubic=1e9)
    joint = Joint(name="rail", kind="prismatic", child="mass", axis=X, spring=spring)
    mechanism = dataclasses.replace(rail(), name="hardening", joints=(joint,), springs=(), initial_v=(3.0,))
    sim = Simulation(assemble(mechanism), step_s=1e-2)
    with pytest.raises(SimulationDiverged, match=r"by the spring of joint 'rail', .* with rk4 at 10 ms; use a"):
        sim.step(1000)


@pytest.mark.parametrize("stepper", FIXED)
def test_a_slow_mode_is_stepped_in_silence(stepper: str) -> None:
    assert warned(rail(stiffness=400.0, damping=1.0), 1e-3, steps=10, stepper=stepper) == []


@pytest.mark.parametrize("name", ["implicit_midpoint", "generalized_alpha", "tr_bdf2", "radau5"])
def test_an_implicit_stepper_may_have_any_step(name: str) -> None:
    assert warned(rail(stiffness=1e7, damping=1e3), 1e-3, stepper=name) == []


@pytest.mark.parametrize("name", [name for name in FIXED if not stepper_named(name).is_explicit])
@settings(max_examples=300, deadline=None)
@given(kp=st.floats(-6.0, 18.0), kd=st.floats(-6.0, 12.0), undamped=st.booleans(), stiff=st.booleans())
def test_implicit_steppers_are_stable_at_every_step_size(
    name: str, kp: float, kd: float, undamped: bool, stiff: bool
) -> None:
    stiffness, damping = (10.0**kp if stiff else 0.0), (0.0 if undamped else 10.0**kd)
    assert stepper_named(name).growth(stiffness, damping, 1.0) <= 1.0 + 1e-6


@pytest.mark.parametrize("name", sorted(set(robots.names()) - {"andrews_squeezer"}))
def test_no_robot_is_warned_of_at_its_usual_step(name: str) -> None:
    mechanism = robots.build(name)
    stepper = "implicit_midpoint" if mechanism.beams else "rk4"
    assert warned(mechanism, 1e-3, steps=200, stepper=stepper) == []


def test_the_rate_of_a_mode_in_absolute_coordinates_is_that_of_the_free_motion() -> None:
    sim = Simulation(assemble(pendulum("absolute")), step_s=1.0)
    with pytest.warns(StepTooLargeWarning):
        sim.step(8)
    assert sim.step_too_large is not None
    swing = math.sqrt(9.81 / (1.0 + 1e-3))
    assert 0.3 * swing < sim.step_too_large.rate < 30.0 * swing


def test_a_mechanism_that_cannot_move_has_no_mode() -> None:
    held = pendulum("absolute")
    joint = dataclasses.replace(held.joints[0], kind="fixed")
    assert warned(dataclasses.replace(held, joints=(joint,)), 1.0, 10) == []


def test_the_looks_are_at_the_same_ticks_however_the_steps_are_asked_for() -> None:
    found = []
    for sizes in ([64], [1] * 64, [3, 5, 56]):
        with warnings.catch_warnings(record=True):
            warnings.simplefilter("always")
            sim = Simulation(assemble(pendulum()), step_s=0.3)
            for size in sizes:
                sim.step(size)
        (notice,) = [notice for notice in sim.take_notices() if notice.kind == "step_too_large"]
        found.append((notice, sim.state.q.tobytes(), sim.state.v.tobytes()))
    assert found[0] == found[1] == found[2]


def test_looking_changes_nothing() -> None:
    runs = []
    for looks in (True, False):
        sim = Simulation(assemble(robots.build("four_bar_chain")), step_s=1e-3)
        if not looks:
            sim._checks._checks_modes, sim._checks._next = False, 10**9
        sim.step(300)
        runs.append((sim.state.q.tobytes(), sim.state.v.tobytes(), sim.state.peaks.tobytes()))
    assert runs[0] == runs[1]


def test_a_reset_run_is_looked_at_anew() -> None:
    sim = Simulation(assemble(pendulum()), step_s=0.5)
    with pytest.warns(StepTooLargeWarning):
        sim.step(16)
    assert sim.step_too_large is not None
    sim.reset()
    assert sim.step_too_large is None
    with pytest.warns(StepTooLargeWarning):
        sim.step(16)


def test_the_ticks_of_the_looks() -> None:
    ticks, tick = [], 0
    while tick < 140000:
        tick = next_check(tick)
        ticks.append(tick)
    assert ticks == [*[4**k for k in range(9)], 131072, 196608]


@pytest.mark.parametrize("name", FIXED)
def test_departures_do_not_blame_slow_or_damped_modes(name: str) -> None:
    stepper = stepper_named(name)
    for pole in (1j, -1 + 1j, -1.0, 1.0, 0.0):
        assert departure(stepper, complex(pole), 0.01) <= 1.0
    if stepper.is_explicit:
        assert departure(stepper, 1j, 4.0) == departure(stepper, -1.0, 4.0) == np.inf


@settings(max_examples=200, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), n=st.integers(1, 12), scale=st.floats(-8.0, 8.0))
def test_eigenvalues_that_are_said_to_be_below_a_limit_are_below_it(seed: int, n: int, scale: float) -> None:
    random = np.random.default_rng(seed)
    A = 10.0**scale * random.normal(size=(n, n)) * 10.0 ** random.uniform(-3.0, 3.0, size=(n, 1))
    largest = float(np.abs(np.linalg.eigvals(A)).max())
    assert not eigenvalues_below(A, 0.999 * largest)
    symmetric = A + A.T
    assert eigenvalues_below(symmetric, 1.5 * float(np.abs(np.linalg.eigvalsh(symmetric)).max()))


@pytest.mark.parametrize("A", [np.zeros((3, 3)), np.eye(4, k=1), 1e150 * np.eye(4, k=1)])
def test_a_matrix_whose_powers_vanish_has_no_eigenvalue_above_any_limit(A: np.ndarray) -> None:
    assert eigenvalues_below(A, 1e-9)


def test_a_slow_robot_is_checked_without_computing_eigenvalues(monkeypatch: pytest.MonkeyPatch) -> None:
    sim = Simulation(assemble(robots.build("charmie")), step_s=1e-3, stabilizer="none")

    def computed(*_: object) -> None:
        raise AssertionError("eigenvalues computed")

    monkeypatch.setattr(np.linalg, "eigvals", computed)
    sim.step(20)
    assert sim.step_too_large is None


def test_the_step_that_is_named_resolves_slower_modes_that_fail_too() -> None:
    body = Body(name="damped", mass=1.0, inertia=(0.1, 0.1, 0.1, 0.0, 0.0, 0.0))
    bodies = body, dataclasses.replace(body, name="sprung")
    joint = Joint(name="rail_x", kind="prismatic", child="damped", axis=X, damping=2900.0)
    spring = JointSpring(stiffness=2500.0**2)
    joints = joint, Joint(name="rail_y", kind="prismatic", child="sprung", axis=Y, spring=spring)
    two = Mechanism(
        name="two_rails", coordinates="joint", bodies=bodies, joints=joints, initial_q=(0.0,) * 2, initial_v=(0.0,) * 2
    )
    with pytest.warns(StepTooLargeWarning, match="of 'two_rails', 2900 1/s by the damping of joint 'rail_x'"):
        found = Simulation(assemble(two), step_s=1e-3).step_too_large
    assert found is not None
    assert all(departure(STEPPERS["rk4"], pole, found.step_s) <= 1.0 for pole in (-2900.0 + 0j, 2500j))
