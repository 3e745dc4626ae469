"""Springs and dampers: closed forms, what damping takes, and one line for what makes no sense."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

from sim_core.errors import InvalidMechanism, UnknownName
from sim_core.mechanism import ORIGIN, Body, Joint, JointOutput, Mechanism, Spring, Tunable, X
from sim_core.simulation import Simulation
from sim_core.system import assemble
from tests.sim_core import reference

MASS, STIFFNESS, REST, STRETCH = 2.0, 50.0, 1.0, 0.3


def slider(damping: float = 0.0) -> Mechanism:
    """A mass on a rail, pulled to the ground by a spring along it."""
    spring = Spring(
        name="spring",
        body_a="ground",
        point_a=ORIGIN,
        body_b="mass",
        point_b=ORIGIN,
        stiffness=Tunable("stiffness", STIFFNESS),
        rest_length=REST,
        damping=Tunable("damping", damping),
    )
    return Mechanism(
        name="slider",
        coordinates="joint",
        bodies=(Body(name="mass", mass=MASS, inertia=(0.0, 0.0, 0.1, 0.0, 0.0, 0.0)),),
        joints=(Joint(name="rail", kind="prismatic", child="mass", axis=X),),
        springs=(spring,),
        outputs=(JointOutput(name="x", joint="rail"),),
        initial_q=(REST + STRETCH,),
        initial_v=(0.0,),
    )


def test_a_mass_on_a_damped_spring_follows_the_closed_form() -> None:
    damping = 3.0
    sim = Simulation(assemble(slider(damping)), step_s=1e-3)
    assert sim.energy() == pytest.approx(0.5 * STIFFNESS * STRETCH**2, rel=1e-14)
    decay = damping / (2 * MASS)
    rate = math.sqrt(STIFFNESS / MASS - decay**2)
    for _ in range(30):
        sim.advance(0.1)
        t = sim.time
        swing = math.cos(rate * t) + decay / rate * math.sin(rate * t)
        assert sim.outputs()["x"] == pytest.approx(REST + STRETCH * math.exp(-decay * t) * swing, abs=1e-10)


def test_a_mass_on_a_spring_with_pretension_swings_about_where_the_spring_stops_pulling() -> None:
    mechanism, pull = slider(), 0.25 * STIFFNESS * REST
    wound = dataclasses.replace(mechanism.springs[0], pretension=pull)
    sim = Simulation(assemble(dataclasses.replace(mechanism, springs=(wound,))), step_s=1e-3)
    start, middle, rate = REST + STRETCH, 0.75 * REST, math.sqrt(STIFFNESS / MASS)
    assert sim.energy() == pytest.approx(pull * start + 0.5 * STIFFNESS * STRETCH**2, rel=1e-14)
    for _ in range(10):
        sim.advance(0.1)
        expected = middle + (start - middle) * math.cos(rate * sim.time)
        assert sim.outputs()["x"] == pytest.approx(expected, abs=1e-9)


def test_what_a_damper_takes_is_what_the_energy_loses() -> None:
    """dE/dt = -c (dl/dt)^2, here by the trapezoidal rule over each step."""
    damping = 3.0
    sim = Simulation(assemble(slider(damping)), step_s=1e-3)
    before = energy = sim.energy()
    speed, lost = 0.0, 0.0
    for _ in range(1000):
        sim.step()
        now = float(sim.state.v[0])
        lost += damping * 0.5e-3 * (speed**2 + now**2)
        speed, energy = now, sim.energy()
    assert before - energy == pytest.approx(lost, abs=1e-6)
    assert lost > 0.5 * before


def test_damping_pulls_alike_in_kernels_and_in_the_reference() -> None:
    """An oblique damper in the plane: its force lies along the line between its ends."""
    mechanism = slider(3.0)
    free = dataclasses.replace(
        mechanism,
        coordinates="absolute",
        joints=(),
        outputs=(),
        springs=(dataclasses.replace(mechanism.springs[0], point_b=(0.2, 0.1, 0.0)),),
        gravity=ORIGIN,
        initial_q=(1.0, 0.5, 0.2),
        initial_v=(0.0,) * 3,
    )
    system, random = assemble(free), np.random.default_rng(4)
    for _ in range(5):
        q, v = random.normal(size=3), random.normal(size=3)
        f = system.terms(0.0, q, v)[1]
        np.testing.assert_allclose(f, reference.terms(free, q, v)[1], rtol=1e-12, atol=1e-12)
        c, s = math.cos(q[2]), math.sin(q[2])
        end = (q[0] + 0.2 * c - 0.1 * s, q[1] + 0.2 * s + 0.1 * c)
        assert abs(end[0] * f[1] - end[1] * f[0]) <= 1e-12 * np.linalg.norm(f)
        slower = f - system.terms(0.0, q, np.zeros(3))[1]
        assert slower @ v < 0.0


def test_a_spring_is_tuned_while_it_swings() -> None:
    sim = Simulation(assemble(slider()), step_s=1e-3, parameters={"stiffness": 2 * STIFFNESS})
    sim.advance(0.5)
    expected = REST + STRETCH * math.cos(math.sqrt(2 * STIFFNESS / MASS) * 0.5)
    assert sim.outputs()["x"] == pytest.approx(expected, abs=1e-9)


def test_a_spring_without_rest_length_pulls_through_the_point_where_its_ends_meet() -> None:
    mechanism = slider()
    spring = dataclasses.replace(mechanism.springs[0], rest_length=0.0, damping=0.0)
    sim = Simulation(assemble(dataclasses.replace(mechanism, springs=(spring,), initial_q=(0.0,), initial_v=(1.0,))))
    rate = math.sqrt(STIFFNESS / MASS)
    for _ in range(10):
        sim.advance(0.2)
        assert sim.outputs()["x"] == pytest.approx(math.sin(rate * sim.time) / rate, abs=1e-10)


def test_springs_and_outputs_between_what_does_not_exist_are_refused() -> None:
    mechanism = slider()
    spring = mechanism.springs[0]
    with pytest.raises(UnknownName, match="no body 'wagon'; its bodies are mass"):
        assemble(dataclasses.replace(mechanism, springs=(dataclasses.replace(spring, body_b="wagon"),)))
    with pytest.raises(UnknownName, match="output 'x' has no moving joint 'track'; its moving joints are rail"):
        assemble(dataclasses.replace(mechanism, outputs=(JointOutput(name="x", joint="track"),)))
    with pytest.raises(InvalidMechanism, match="two spring entries are named 'spring'"):
        assemble(dataclasses.replace(mechanism, springs=(spring, spring)))
    with pytest.raises(InvalidMechanism, match="spring 'spring': stiffness holds nan"):
        assemble(dataclasses.replace(mechanism, springs=(dataclasses.replace(spring, stiffness=float("nan")),)))
