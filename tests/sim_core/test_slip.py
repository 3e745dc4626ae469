"""Wheels whose friction is limited: they slip and roll again, against closed forms and own equations of motion."""

from __future__ import annotations

import dataclasses
import math
import warnings
from functools import cache

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from robots.registry import build
from sim_core.derivatives import DerivativeKernels
from sim_core.errors import InvalidMechanism, InvalidRequest, StepTooLargeWarning, UnknownName
from sim_core.mechanism import Actuator, Body, Joint, Mechanism, Rolling, SlipOutput, Touching, Y, with_reactions
from sim_core.mechanism.beams import ContactForceOutput
from sim_core.simulation import Simulation
from sim_core.system import System, assemble

G = 9.81

# -- bowling ball -----------------------------------------------------------------------------------------------------

SPEED, FRICTION, RADIUS, MASS = 3.0, 0.2, 0.1, 2.0
ROLLS_AT = 2.0 * SPEED / (7.0 * FRICTION * G)


@cache
def ball() -> System:
    """A ball that is thrown along the floor without spin."""
    at, inertia = {"body": "ball", "radius": RADIUS}, 0.4 * MASS * RADIUS**2
    return assemble(
        Mechanism(
            name="bowling",
            coordinates="joint",
            bodies=(Body(name="ball", mass=MASS, inertia=(inertia, inertia, inertia, 0.0, 0.0, 0.0)),),
            joints=(Joint(name="base", kind="free", child="ball"),),
            constraints=(Touching(name="floor", **at), Rolling(name="grip", friction=FRICTION, **at)),
            outputs=(SlipOutput(name="slip", constraint="grip"), ContactForceOutput(name="load", contact="floor")),
            initial_q=(0.0, 0.0, RADIUS, 0.0, 0.0, 0.0),
            initial_v=(0.8 * SPEED, 0.6 * SPEED, 0.0, 0.0, 0.0, 0.0),
        )
    )


def test_a_ball_slides_and_then_rolls_at_five_sevenths_of_its_speed() -> None:
    simulation, along = Simulation(ball(), step_s=1e-3), np.array([0.8, 0.6])
    np.testing.assert_allclose(list(simulation.outputs().values()), [0.8 * SPEED, 0.6 * SPEED, MASS * G], rtol=1e-12)
    simulation.advance(0.2)
    np.testing.assert_allclose(simulation.velocities[:2], (SPEED - FRICTION * G * 0.2) * along, atol=1e-10)
    assert simulation.take_events() == []
    simulation.advance(1.0)
    (event,) = simulation.take_events()
    assert event.kind == "grip.rolls"
    assert ROLLS_AT <= event.time <= ROLLS_AT + 1e-3
    np.testing.assert_allclose(simulation.velocities[:2], 5.0 / 7.0 * SPEED * along, atol=1e-9)
    way = SPEED * ROLLS_AT - FRICTION * G * ROLLS_AT**2 / 2 + 5.0 / 7.0 * SPEED * (1.2 - ROLLS_AT)
    np.testing.assert_allclose(simulation.coordinates[:2], way * along, atol=1e-7)
    assert simulation.peak_violation()[1] < 1e-9
    assert simulation.take_notices() == []  # the energy that friction takes is accounted for


def test_a_snapshot_of_a_slipping_ball_goes_on_to_the_same_bits() -> None:
    simulation = Simulation(ball())
    simulation.step(200)
    kept = simulation.snapshot()
    simulation.step(400)
    other = Simulation(ball())
    other.restore(kept)
    other.step(400)
    assert other.snapshot().to_plain() == simulation.snapshot().to_plain()


# -- braked wheel -----------------------------------------------------------------------------------------------------

CART, RIM, SPIN = 5.0, 0.1, 0.02  # mass with the wheel, kg; radius, m; inertia of the wheel about its axle, kg m2
LOAD, MU = 50.0, 0.4


def wheel(offset: float = 0.0, **start: tuple[float, ...]) -> Mechanism:
    """A cart on a planar joint, carried by one wheel with the axle y, which bears a given load."""
    bodies = (
        Body(name="cart", mass=CART - 1.0, inertia=(0.2, 0.2, 0.3, 0.0, 0.0, 0.0)),
        Body(name="wheel", mass=1.0, inertia=(SPIN / 2, SPIN, SPIN / 2, 0.0, 0.0, 0.0)),
    )
    axle = Joint(name="axle", parent="cart", child="wheel", parent_point=(offset, 0.0, RIM), axis=Y)
    rim = Rolling(name="rim", body="wheel", axis=Y, radius=RIM, friction=MU, load=LOAD)
    fields = {"initial_q": (0.0,) * 4, "initial_v": (0.0,) * 4} | start
    return Mechanism(
        name="braked_wheel",
        coordinates="joint",
        bodies=bodies,
        joints=(Joint(name="base", kind="planar", child="cart"), axle),
        constraints=(rim,),
        actuators=(Actuator(name="axle", joint="axle"),),
        outputs=(SlipOutput(name="slip", constraint="rim"),),
        **fields,  # type: ignore[arg-type]
    )


def test_a_braked_wheel_slips_at_the_cone_and_rolls_again() -> None:
    v = 4.0
    simulation = Simulation(assemble(with_reactions(wheel(initial_v=(v, 0.0, 0.0, v / RIM)), ["axle"])))
    most = MU * LOAD * (RIM + SPIN / (CART * RIM))  # torque at which the force along the floor is mu N
    simulation.set_effort([-0.99 * most])
    simulation.advance(0.1)
    v -= 0.1 * 0.99 * MU * LOAD / CART
    assert simulation.take_events() == []
    assert simulation.velocities[0] == pytest.approx(v, rel=1e-9)
    simulation.set_effort([-3.0 * most])
    simulation.advance(0.1)
    (slips,) = simulation.take_events()
    assert slips.kind == "rim.slips"
    # the step before the event took the whole torque
    first, rest = slips.time - 0.1, 0.2 - slips.time
    v -= MU * LOAD / CART * (3.0 * first + rest)
    assert simulation.velocities[0] == pytest.approx(v, rel=1e-9)
    pushed = [simulation.outputs()[f"reaction_axle_f{axis}"] for axis in "xz"]  # in the axes of the turning wheel
    assert math.hypot(*pushed) == pytest.approx(math.hypot((CART - 1.0) * MU * LOAD / CART, 1.0 * G), rel=1e-9)
    simulation.set_effort([0.0])
    simulation.advance(0.5)
    (rolls,) = simulation.take_events()
    assert rolls.kind == "rim.rolls"
    np.testing.assert_allclose(list(simulation.outputs().values())[:2], 0.0, atol=1e-9)
    assert simulation.take_notices() == []


def test_a_skidding_cart_turns_as_its_four_equations_say() -> None:
    """The slip turns by more than a right angle against the cart, so that its captured direction follows."""
    offset, start = 0.2, (3.0, 0.5, 6.0, 10.0)
    turning = 0.3 + SPIN / 2 + 1.0 * offset**2

    def rates(_: float, state: np.ndarray) -> np.ndarray:
        theta, (x, y, turn, spin) = state[2], state[4:]
        t, s = np.array([math.cos(theta), math.sin(theta)]), np.array([-math.sin(theta), math.cos(theta)])
        slip = (t @ [x, y] - RIM * spin) * t + (s @ [x, y] + offset * turn) * s
        force = -MU * LOAD * slip / np.linalg.norm(slip)
        M = np.array([[CART, 0.0, *(offset * s[:1])], [0.0, CART, *(offset * s[1:])], [*(offset * s), turning]])
        right = [*(force + offset * turn**2 * t), offset * (s @ force)]
        return np.concatenate([state[4:], np.linalg.solve(M, right), [-RIM * (t @ force) / SPIN]])

    end = 0.4
    found = solve_ivp(rates, (0.0, end), [0.0] * 4 + list(start), method="DOP853", rtol=1e-12, atol=1e-13)
    expected = found.y[:, -1]
    simulation = Simulation(assemble(wheel(offset, initial_v=start)), step_s=1e-4)
    simulation.advance(end)
    np.testing.assert_allclose(simulation.coordinates, expected[:4], atol=1e-8)
    np.testing.assert_allclose(simulation.velocities, expected[4:], atol=1e-8)
    assert {event.kind for event in simulation.take_events()} == {"rim.turns"}


# -- load transfer ----------------------------------------------------------------------------------------------------


def test_a_braked_front_wheel_carries_the_load_that_braking_puts_on_it() -> None:
    """N = m g b / (L - mu h): the friction raises the load, which raises the friction."""
    mass, base, height, behind = 10.0, 1.0, 0.4, 0.5
    rims = [
        {"body": "cart", "center": (x, y, -height), "radius": 0.0}
        for x, y in ((behind, 0.0), (-behind, 0.3), (-behind, -0.3))
    ]
    rows = [Touching(name=f"floor_{k}", **at) for k, at in enumerate(rims)]
    cart = Mechanism(
        name="braked_cart",
        coordinates="joint",
        bodies=(Body(name="cart", mass=mass, inertia=(0.3, 0.5, 0.6, 0.0, 0.0, 0.0)),),
        joints=(Joint(name="base", kind="free", child="cart"),),
        constraints=(*rows, Rolling(name="front", friction=MU, **rims[0])),
        outputs=(ContactForceOutput(name="load", contact="floor_0"),),
        initial_q=(0.0, 0.0, height, 0.0, 0.0, 0.0),
        initial_v=(5.0, 0.0, 0.0, 0.0, 0.0, 0.0),
    )
    simulation = Simulation(assemble(cart))
    load = mass * G * behind / (base - MU * height)
    assert simulation.outputs()["load"] == pytest.approx(load, rel=1e-9)
    simulation.advance(0.5)
    assert simulation.velocities[0] == pytest.approx(5.0 - 0.5 * MU * load / mass, rel=1e-9)


# -- bad input --------------------------------------------------------------------------------------------------------


def test_bad_input_ends_with_one_line() -> None:
    plain = wheel()
    (rim,) = plain.constraints
    for changes, kind, line in (
        ({"load": None}, InvalidMechanism, "friction is 0.4, but the wheel's load is unknown; add a Touching"),
        ({"friction": 0.0}, InvalidMechanism, "friction is 0; it must be above 0"),
        ({"load": -1.0}, InvalidMechanism, "load is -1 N; it must be above 0"),
    ):
        with pytest.raises(kind, match=line):
            assemble(dataclasses.replace(plain, constraints=(dataclasses.replace(rim, **changes),)))
    with pytest.raises(UnknownName, match="has no rolling wheel 'rin'"):
        assemble(dataclasses.replace(plain, outputs=(SlipOutput(name="slip", constraint="rin"),)))


def test_a_wheel_that_may_slip_has_no_linear_model() -> None:
    with pytest.raises(InvalidRequest, match="linearize the robot without `friction` of its wheels"):
        DerivativeKernels(ball())
    with pytest.raises(InvalidRequest, match="has no term for the friction of the slipping wheels 'grip'"):
        ball().casadi()


def test_two_wheels_on_one_axle_that_slip_and_roll_in_turns_are_warned_of_once() -> None:
    """Which of them holds the axle is not determined, and the motion depends on the step."""
    simulation = Simulation(assemble(build("differential_drive", friction=0.2)), step_s=1e-3)
    simulation.set_effort([0.4, 0.4])
    with warnings.catch_warnings():
        warnings.simplefilter("error", StepTooLargeWarning)
        simulation.advance(0.6)  # both spin, as they are driven alike
    simulation.reset()
    simulation.set_effort([0.4, 0.1])
    with pytest.warns(StepTooLargeWarning, match=r"'right_rim.slips' occurs 10 times within \d+ steps") as warned:
        simulation.advance(1.0)
    assert len(warned) == 1
    assert [notice.kind for notice in simulation.take_notices()] == ["step_too_large"]
