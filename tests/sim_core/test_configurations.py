"""A system with two constraint modes goes through the general contract: guards, impacts, events, snapshots."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from sim_core.errors import InvalidRequest
from sim_core.integrators.steppers import STEPPERS
from sim_core.mechanism import Body, Coincidence, ConstraintMode, Crossing, Mechanism, PointOutput
from sim_core.simulation import Simulation
from sim_core.system import System, assemble

HEIGHT = 2.0


@pytest.fixture(scope="module")
def catcher() -> System:
    """A rod falls flat; when its left end reaches y = 0 that end is gripped and the rod swings on."""
    rod = Body(name="rod", mass=1.0, inertia=(0.0, 0.0, 1 / 12, 0.0, 0.0, 0.0))
    grip = Coincidence(
        name="grip",
        body_a="rod",
        point_a=(-0.5, 0.0, 0.0),
        body_b="ground",
        point_b=(0.0, 0.0, 0.0),
        directions=((1.0, 0.0, 0.0), (0.0, 1.0, 0.0)),
    )
    return assemble(
        Mechanism(
            name="catcher",
            coordinates="absolute",
            bodies=(rod,),
            constraints=(grip,),
            constraint_modes=(ConstraintMode(name="free", constraints=()), ConstraintMode(name="gripping")),
            guards=(
                Crossing(name="grip", source="free", target="gripping", body="rod", point=(-0.5, 0, 0), direction=-1),
            ),
            outputs=(PointOutput(name="end", body="rod", point=(-0.5, 0.0, 0.0), axes="xy"),),
            gravity=(0.0, -9.81, 0.0),
            initial_q=(0.5, HEIGHT, 0.0),
            initial_v=(0.0, 0.0, 0.0),
        )
    )


def test_a_grip_is_an_event_with_an_inelastic_impact(catcher: System) -> None:
    sim = Simulation(catcher, step_s=1e-3)
    assert sim.constraint_mode == "free"
    sim.advance(1.0)
    (event,) = sim.take_events()
    assert sim.take_events() == []
    assert event.kind == "grip"
    assert sim.constraint_mode == "gripping"
    fall = np.sqrt(2 * HEIGHT / 9.81)
    assert 0.0 <= event.time - fall <= 1e-3
    # closed form: about the gripped end angular momentum is kept, m v l / 2 = J_end w
    speed = -event.before[4]
    assert speed == pytest.approx(9.81 * event.time, rel=1e-9)
    w = -1.5 * speed
    np.testing.assert_allclose(event.after[3:], [0.0, w / 2, w], atol=1e-12)
    assert event.energy == pytest.approx(speed**2 / 8, rel=1e-9)
    np.testing.assert_array_equal(event.before[:3], event.after[:3])


@pytest.mark.parametrize("stepper", STEPPERS)
def test_every_stepper_honours_the_guard_and_goes_on_from_the_impact(catcher: System, stepper: str) -> None:
    sim, usual = (Simulation(catcher, step_s=1e-3, stepper=name, stabilizer="none") for name in (stepper, "rk4"))
    for each in (sim, usual):
        each.advance(1.0)
    (event,), (due,) = sim.take_events(), usual.take_events()
    assert event.time == pytest.approx(due.time, abs=1.5e-3)
    assert sim.constraint_mode == "gripping"
    accuracy = {1: 2e-2, 2: 1e-4}.get(STEPPERS[stepper].order, 1e-5)
    np.testing.assert_allclose(event.after, due.after, atol=accuracy)
    np.testing.assert_allclose(sim.state.q, usual.state.q, atol=accuracy)


def test_after_the_grip_the_end_stays_where_it_is_put(catcher: System) -> None:
    sim = Simulation(catcher, step_s=1e-3)
    sim.advance(3.0)
    # the end crossed the line by up to one step's fall; the stabilizer takes that out
    assert sim.violation()[0] <= 1e-9
    assert abs(sim.outputs()["end_y"]) <= 1e-9
    after = sim.energy()
    sim.advance(1.0)
    assert sim.energy() == pytest.approx(after, abs=1e-6)


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"q": np.full(3, np.nan)}, r"state: q\[0\] is nan"),
        ({"v": np.array([0.0, np.inf, 0.0])}, r"state: v\[1\] is inf"),
        ({"tick": -1}, "tick is -1; it must be a whole number from 0 to 9007199254740992"),
        ({"tick": 2**63}, "tick is 9223372036854775808; it must be a whole number from 0 to"),
    ],
)
def test_a_state_that_cannot_be_is_refused_and_changes_nothing(
    catcher: System, wrong: dict[str, Any], says: str
) -> None:
    sim = Simulation(catcher, step_s=1e-3)
    sim.step(3)
    before = sim.snapshot()
    with pytest.raises(InvalidRequest, match=says):
        sim.restore(replace(before, **wrong))
    assert sim.snapshot().to_plain() == before.to_plain()


def test_a_snapshot_on_either_side_of_the_event_restarts_it(catcher: System) -> None:
    sim = Simulation(catcher, step_s=1e-3)
    sim.advance(0.6)
    before = sim.snapshot()
    sim.advance(0.6)
    end = sim.snapshot().to_plain()
    after = Simulation(catcher, step_s=1e-3)
    after.restore(before)
    assert after.constraint_mode == "free"
    after.advance(0.6)
    assert after.snapshot().to_plain() == end
    assert len(after.take_events()) == 1
