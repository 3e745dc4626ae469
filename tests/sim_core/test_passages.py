"""Bodies that pass through walls, or beyond the middle of a shape, are named with a step that would do."""

from __future__ import annotations

import dataclasses
import re
import warnings

import numpy as np
import pytest

from sim_core import Simulation, assemble
from sim_core.errors import StepTooLargeWarning
from sim_core.mechanism import Body, Joint, Mechanism, SphereContact, X

SHAPES = {
    "wall": {"other_half_sizes": (0.005, 1.0, 1.0)},
    "cube": {"other_half_sizes": (0.03, 0.03, 0.03)},
    "ball": {"other_radius": 0.01},
    "rod": {"other_radius": 0.005, "other_half_axis": (0.0, 0.0, 0.5)},
}


def thrown(
    speed: float, shape: str, kind: str = "prismatic", stiffness: float = 4e6, radius: float = 0.02
) -> Mechanism:
    """A ball of 1 kg that flies along x towards a fixed shape at x = 0.31 m."""
    contact = SphereContact(
        name=shape, body="shot", radius=radius, other_point=(0.31, 0.0, 0.0), stiffness=stiffness, **SHAPES[shape]
    )
    rest = (0.0,) * (1 if kind == "prismatic" else 6)
    return Mechanism(
        name="range",
        coordinates="joint",
        bodies=(Body(name="shot", mass=1.0, inertia=(1e-3, 1e-3, 1e-3, 0.0, 0.0, 0.0)),),
        joints=(Joint(name="flight", kind=kind, child="shot", axis=X),),  # type: ignore[arg-type]
        contacts=(contact,),
        gravity=(0.0, 0.0, 0.0),
        initial_q=rest,
        initial_v=(speed, *rest[1:]),
    )


def passages(mechanism: Mechanism, step_s: float, seconds: float = 0.1, every: int = 0) -> tuple[Simulation, list[str]]:
    """A run, and the lines about passages in it; `every`: ticks per call of `step`."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        simulation = Simulation(assemble(mechanism), step_s=step_s)
        ticks = round(seconds / step_s)
        for _ in range(0, ticks, every or ticks):
            simulation.step(every or ticks)
    return simulation, [notice.line for notice in simulation.take_notices() if "passes the middle" in notice.line]


@pytest.mark.parametrize("kind", ["prismatic", "free"])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("speed", [12.0, 200.0])
def test_a_body_that_flies_through_a_shape_is_named_once_with_its_speed(speed: float, shape: str, kind: str) -> None:
    simulation, lines = passages(thrown(speed, shape, kind, stiffness=1e3), 1e-3)
    assert simulation.coordinates[0] > 0.4
    assert len(lines) == 1
    named = re.search(f"body 'shot' of 'range' .* contact '{shape}' with 'ground' .* at (.*) m/s, which", lines[0])
    assert named
    assert float(named[1]) == pytest.approx(speed, rel=0.02)


def test_the_step_that_is_named_stops_the_body() -> None:
    mechanism = thrown(40.0, "wall", stiffness=4e7)
    simulation, (line,) = passages(mechanism, 2e-3)
    assert simulation.coordinates[0] > 0.4
    step_s = 1e-3 * float(re.search(r"use a step of at most (.*) ms$", line)[1])  # type: ignore[index]
    simulation, lines = passages(mechanism, step_s)
    assert lines == []
    assert simulation.velocities[0] < 0.0


def test_a_contact_that_is_too_soft_for_a_body_is_named_whatever_the_step() -> None:
    _, (line,) = passages(thrown(2.0, "wall", stiffness=1e4), 1e-4, 0.3)
    assert "its stiffness stops at most 0.889 m/s there: use a larger one" in line
    assert "step of at most" not in line


@pytest.mark.parametrize("shape", SHAPES)
def test_a_body_that_bounces_or_misses_is_stepped_in_silence(shape: str) -> None:
    simulation, lines = passages(thrown(1.0, shape, stiffness=1e6), 1e-4, 0.5)
    assert simulation.velocities[0] == pytest.approx(-1.0, rel=1e-3)
    assert lines == []
    beside = thrown(200.0, shape, "free")
    simulation = Simulation(assemble(beside), step_s=1e-3, stepper="semi_implicit")
    simulation.reset((0.0, 0.0 if shape == "rod" else 1.2, 1.2, 0.0, 0.0, 0.0))
    simulation.step(100)
    assert not simulation.take_notices()


def test_a_corner_that_slides_along_a_face_across_its_middle_does_not_pass() -> None:
    mechanism = thrown(1.0, "cube", "free", radius=0.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        simulation = Simulation(assemble(mechanism), step_s=1e-4)
        simulation.reset((0.28, 0.0, 0.0299, 0.0, 0.0, 0.0), (5.0, 0.0, 0.0, 0.0, 0.0, 0.0))
        simulation.step(200)
    assert simulation.coordinates[0] > 0.35
    assert not simulation.take_notices()


def test_passages_are_found_at_the_same_ticks_however_the_steps_are_asked_for() -> None:
    found = [passages(thrown(50.0, "wall"), 1e-3, every=every)[1] for every in (1, 7, 0)]
    assert len(found[0]) == 1
    assert found[0] == found[1] == found[2]


def test_bodies_of_the_mechanism_pass_through_each_other_in_their_own_frames() -> None:
    wall = Body(name="door", mass=5.0, inertia=(1.0, 1.0, 1.0, 0.0, 0.0, 0.0))
    made = thrown(0.0, "wall", "free")
    hinge = Joint(name="hinge", child="door", parent_point=(0.31, 1.0, 0.0), child_point=(0.0, 1.0, 0.0))
    contact = SphereContact(
        name="leaf", body="shot", radius=0.01, other="door", other_half_sizes=(0.005, 1.0, 1.0), stiffness=1e3
    )
    mechanism = Mechanism(
        name="range",
        coordinates="joint",
        bodies=(*made.bodies, wall),
        joints=(*made.joints, hinge),
        contacts=(contact,),
        gravity=(0.0, 0.0, 0.0),
        initial_q=(0.0,) * 7,
        initial_v=(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, -30.0),
    )
    simulation, lines = passages(mechanism, 1e-3, 0.05)
    assert len(lines) == 1
    assert "with 'door'" in lines[0]
    assert np.isfinite(simulation.coordinates).all()


@pytest.mark.parametrize("stiffness", [1e5, 3.7e5, 2.3e6])
@pytest.mark.parametrize("dissipation", [0.0, 0.5, 40.0])
def test_the_step_that_a_warning_about_impacts_names_resolves_them(stiffness: float, dissipation: float) -> None:
    mechanism = thrown(1.0, "wall", stiffness=stiffness)
    contact = dataclasses.replace(mechanism.contacts[0], dissipation=dissipation)
    system = assemble(dataclasses.replace(mechanism, contacts=(contact,)))
    with pytest.warns(StepTooLargeWarning, match="an impact") as told:
        Simulation(system, step_s=0.05)
    step_s = 1e-3 * min(float(ms) for ms in re.findall(r"at most (\S+) ms", str(told[0].message)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Simulation(system, step_s=step_s)
