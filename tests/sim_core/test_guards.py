"""Guards with conditions, captured numbers and switches, on a block that slides on a rail and can be latched."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from sim_core.errors import InvalidMechanism, InvalidRequest
from sim_core.integrators.steppers import STEPPERS
from sim_core.mechanism import Actuator, Anchored, Body, ConstraintMode, Joint, Mechanism, Tunable, X, Z
from sim_core.mechanism.guards import Aim, Beyond, Commanded, Crossing, Guard, Pushed, Sinking, Window
from sim_core.mechanism.outputs import ForceOutput, HoldingOutput, PointOutput, VelocityOutput
from sim_core.mechanism.quantities import CapturedParameter
from sim_core.servos.loops import Servos
from sim_core.simulation import Simulation
from sim_core.state import State
from sim_core.system import System, assemble

MASS = 2.0
WINDOW = Window(aims=(Aim(constraint="latch", at=1.0, spacing=0.5, count=3),), gap=Tunable("reach", 0.1), speed=2.0)


def rail(**changes: Any) -> Mechanism:
    """Free, then latched near x = 1, 1.5 or 2 while the switch is on; thrown off when the latch pulls with 30 N."""
    described: dict[str, Any] = {
        "name": "rail",
        "coordinates": "joint",
        "bodies": (Body(name="block", mass=MASS, inertia=(0.1, 0.1, 0.1, 0.0, 0.0, 0.0)),),
        "joints": (Joint(name="slide", kind="prismatic", child="block", axis=X),),
        "constraints": (
            Anchored(name="latch", body="block", point=(0.0, 0.0, 0.0), axis=X, at=CapturedParameter("place", 0.0)),
        ),
        "actuators": (
            Actuator(name="push", joint="slide", unit="N"),
            Actuator(name="latch", start=1.0, effort_limit=1.0, unit="1"),
        ),
        "constraint_modes": (
            ConstraintMode(name="free", constraints=()),
            ConstraintMode(name="latched", constraints=("latch",)),
            ConstraintMode(name="out", constraints=()),
        ),
        "guards": (
            Guard(
                name="catch",
                source="free",
                target="latched",
                conditions=(Commanded(actuator="latch", above=0.5), WINDOW),
                captures=("latch",),
                impact="inelastic",
                kind="caught",
                part="block",
            ),
            Guard(name="open", source="latched", target="free", conditions=(Commanded(actuator="latch", upto=0.5),)),
            Guard(
                name="torn",
                source="latched",
                target="free",
                conditions=(Pushed(constraints=("latch",), axis=(-1.0, 0.0, 0.0), force=30.0),),
            ),
            Guard(name="off", source="free", target="out", conditions=(Beyond(body="block", axis=X, level=3.0),)),
        ),
        "outputs": (
            PointOutput(name="block", body="block", axes="x"),
            VelocityOutput(name="block", body="block", axes="x"),
            ForceOutput(name="force", constraints=("latch",), axes="xz"),
            HoldingOutput(name="latched", constraint="latch"),
        ),
        "initial_q": (0.0,),
        "initial_v": (1.0,),
    }
    return Mechanism(**described | changes)


@pytest.fixture(scope="module")
def system() -> System:
    return assemble(rail())


def test_it_is_caught_at_the_nearest_place_when_it_no_longer_nears_it(system: System) -> None:
    """At 1 m/s and 1 ms: within a step of x = 1; all its energy is lost, and it stays exactly there."""
    sim = Simulation(system)
    sim.advance(2.0)
    (event,) = sim.take_events()
    assert (event.kind, event.part, event.source, event.target) == ("caught", "block", "free", "latched")
    assert 0.0 <= event.before[0] - 1.0 <= 1.001e-3
    assert event.energy == pytest.approx(0.5 * MASS)
    np.testing.assert_allclose(event.after, [event.before[0], 0.0], atol=1e-15)
    assert sim.outputs()["block_x"] == pytest.approx(event.before[0], abs=1e-15)
    assert sim.violation() == pytest.approx((0.0, 0.0), abs=1e-14)


def test_what_a_latch_exerts_is_an_output_and_so_is_whether_it_holds(system: System) -> None:
    sim = Simulation(system)
    assert sim.outputs()["latched"] == 0.0
    sim.advance(1.5)
    sim.set_effort({"push": 12.0})
    now = sim.outputs()
    assert (now["latched"], now["block_vx"]) == (1.0, pytest.approx(0.0, abs=1e-15))
    assert (now["force_x"], now["force_z"]) == (pytest.approx(-12.0), 0.0)


def test_a_condition_on_forces_sees_the_multipliers_of_the_step(system: System) -> None:
    sim = Simulation(system)
    sim.advance(1.5)
    sim.take_events()
    sim.set_effort({"push": 29.0})
    sim.advance(0.1)
    assert sim.take_events() == []
    sim.set_effort({"push": -31.0})  # the latch holds that way
    sim.advance(0.1)
    assert sim.take_events() == []
    sim.set_effort({"push": 31.0})
    sim.step(1)
    (event,) = sim.take_events()
    assert event.kind == "torn"


def test_a_condition_that_holds_already_is_noticed_after_the_next_step(system: System) -> None:
    """The switch goes off while it moves freely: it is not caught; off before it is latched, it opens at once."""
    sim = Simulation(system)
    sim.set_effort({"latch": 0.0})
    sim.advance(4.0)
    assert [event.kind for event in sim.take_events()] == ["off"]
    assert sim.constraint_mode == "out"
    latched = Simulation(assemble(rail(start="latched", initial_v=(0.0,))))
    latched.set_effort({"latch": 0.0})
    latched.step(1)
    assert [event.kind for event in latched.take_events()] == ["open"]
    assert latched.time == pytest.approx(1e-3)


def test_too_fast_or_too_far_is_not_caught(system: System) -> None:
    fast = Simulation(system)
    fast.reset([0.0], [2.5])
    fast.advance(1.0)
    assert fast.constraint_mode == "free"
    # between two places, and turning there
    far = Simulation(system, parameters={"reach": 0.1})
    far.reset([1.25], [0.1])
    far.set_effort({"push": -1.0})
    far.advance(0.4)
    assert far.constraint_mode == "free"
    near = Simulation(system, parameters={"reach": 0.3})
    near.reset([1.25], [0.1])
    near.set_effort({"push": -1.0})
    near.advance(0.4)
    assert near.constraint_mode == "latched"


@pytest.mark.parametrize("stepper", [name for name in STEPPERS if STEPPERS[name].order > 1])
def test_every_stepper_catches_it(system: System, stepper: str) -> None:
    sim = Simulation(system, stepper=stepper)
    sim.advance(1.5)
    assert sim.constraint_mode == "latched"
    assert sim.outputs()["block_x"] == pytest.approx(1.0, abs=2e-3)


def test_what_was_captured_is_part_of_a_snapshot(system: System) -> None:
    sim = Simulation(system)
    sim.reset([0.6], [1.0])
    sim.advance(1.0)
    kept = State.from_plain(sim.snapshot().to_plain())
    assert kept.p[system.parameter_names.index("place")] == pytest.approx(1.0, abs=2e-3)
    other = Simulation(system)
    other.restore(kept)
    other.advance(0.5)
    assert other.outputs()["block_x"] == sim.outputs()["block_x"]
    assert other.constraint_mode == "latched"


def test_a_restored_state_brings_its_tunables(system: System) -> None:
    sim = Simulation(system, parameters={"reach": 0.2})
    other = Simulation(system)
    other.restore(sim.snapshot())
    assert other.parameters == {"reach": 0.2}


def test_one_set_of_kernels_serves_all_configurations(system: System) -> None:
    """Rows that do not hold are zero, their multipliers too."""
    for index, (held, a) in enumerate(((0.0, 5.0), (1.0, 0.0), (0.0, 5.0))):
        M, f, J, gamma = system.terms(0.0, [0.0], [0.0], [10.0, 1.0], constraint_mode=index)
        assert (M[0, 0], f[0], J[0, 0], gamma[0]) == (MASS, 10.0, held, 0.0)
        found = system.acceleration(0.0, [0.0], [0.0], [10.0, 1.0], constraint_mode=index)
        assert found[0] == pytest.approx([a], abs=1e-9)
        assert found[1] == pytest.approx([10.0 * held], abs=1e-7)
    np.testing.assert_array_equal(system.default_parameters(1), [0.1, 0.0, 1.0])


def test_a_switch_keeps_its_command_where_actuators_are_made_safe() -> None:
    servos = Servos(rail(), 1e-3)
    np.testing.assert_array_equal(servos.efforts(np.zeros(1), np.zeros(1)), [0.0, 1.0])
    servos.command("effort", ["push", "latch"], [3.0, 0.7], np.zeros(1))
    servos.rest(["push", "latch"])
    np.testing.assert_array_equal(servos.efforts(np.zeros(1), np.zeros(1)), [0.0, 0.7])
    servos.reset()
    np.testing.assert_array_equal(servos.efforts(np.zeros(1), np.zeros(1)), [0.0, 1.0])


def test_a_point_that_rises_is_not_caught_by_what_must_sink() -> None:
    """A ball thrown upwards past a shelf is caught on its way down. Closed form: at 2 v / g."""
    shelf = Anchored(name="shelf", body="ball", point=(0.0, 0.0, 0.0), axis=Z, at=CapturedParameter("height", 0.0))
    window = Window(aims=(Aim(constraint="shelf"),), gap=0.01, speed=10.0)
    sim = Simulation(
        assemble(
            rail(
                name="ball",
                bodies=(Body(name="ball", mass=1.0, inertia=(0.1, 0.1, 0.1, 0.0, 0.0, 0.0)),),
                joints=(Joint(name="fall", kind="prismatic", child="ball", axis=Z),),
                constraints=(shelf,),
                actuators=(),
                constraint_modes=(
                    ConstraintMode(name="flies", constraints=()),
                    ConstraintMode(name="lies", constraints=("shelf",)),
                ),
                guards=(
                    Guard(
                        name="lands",
                        source="flies",
                        target="lies",
                        conditions=(window, Sinking(constraint="shelf")),
                        captures=("shelf",),
                        impact="inelastic",
                    ),
                ),
                outputs=(),
                initial_v=(2.0,),
            )
        )
    )
    sim.advance(1.0)
    (event,) = sim.take_events()
    assert event.time == pytest.approx(2 * 2.0 / 9.81, abs=2e-3)
    assert event.energy == pytest.approx(0.5 * 2.0**2, rel=0.02)


LATCH = rail().guards[0]


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"guards": (dataclasses.replace(LATCH, captures=("lock",)),)}, "no constraint 'lock'"),
        (
            {"guards": (dataclasses.replace(LATCH, conditions=(Commanded(actuator="pull", above=0.5),)),)},
            "no actuator 'pull'",
        ),
        ({"guards": (dataclasses.replace(LATCH, conditions=(Commanded(actuator="latch"),)),)}, "`above` or `upto`"),
        ({"guards": (dataclasses.replace(LATCH, conditions=()),)}, "no conditions"),
        (
            {"guards": (dataclasses.replace(LATCH, conditions=(Beyond(body="bolt", axis=X, level=0.0),)),)},
            "no body 'bolt'",
        ),
        (
            {"guards": (dataclasses.replace(LATCH, conditions=(Pushed(constraints=("lock",), axis=X),)),)},
            "no constraint 'lock'",
        ),
        ({"outputs": (HoldingOutput(name="held", constraint="lock"),)}, "no constraint 'lock'"),
        ({"outputs": (ForceOutput(name="f", constraints=("lock",)),)}, "no constraint 'lock'"),
        ({"start": "locked"}, "no constraint mode 'locked'"),
        (
            {"constraints": (Anchored(name="latch", body="block", point=(0.0, 0.0, 0.0), axis=X, at=0.0),)},
            "constraint 'latch' has no CapturedParameter",
        ),
        (
            {"constraint_modes": (ConstraintMode(name="free", constraints=("lock",)),), "guards": ()},
            "no constraint 'lock'",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_description_that_speaks_of_what_is_not_there_is_refused_in_one_line(
    changes: dict[str, Any], says: str
) -> None:
    with pytest.raises(InvalidRequest, match=says) as caught:
        assemble(rail(**changes))
    assert "\n" not in str(caught.value)


def test_a_switch_has_no_servo() -> None:
    from sim_core.mechanism import Servo

    latch = Actuator(name="latch", servo=Servo(stiffness=1.0, damping=0.0))
    with pytest.raises(InvalidMechanism, match=r"'latch' has a servo but no joint"):
        assemble(rail(actuators=(latch,), guards=()))


def test_a_crossing_is_named_as_before() -> None:
    crossing = Crossing(name="passes", source="free", target="out", body="block", axis=X, level=0.5, impact="none")
    sim = Simulation(assemble(rail(guards=(crossing,))))
    sim.advance(1.0)
    assert [(event.kind, event.part) for event in sim.take_events()] == [("passes", "")]
