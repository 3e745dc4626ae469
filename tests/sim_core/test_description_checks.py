"""What a description cannot mean is refused with names and values; what it hardly means is a warning; starts close."""

from __future__ import annotations

import dataclasses
import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from robots.registry import build, names
from sim_core.assembly import consistent_start
from sim_core.derivation.start import checked_rows
from sim_core.errors import DescriptionWarning, InvalidRequest, SimulationDiverged, StartWarning
from sim_core.mechanism import (
    IDENTITY,
    ORIGIN,
    Actuator,
    Anchored,
    Body,
    CapturedParameter,
    Coincidence,
    Crossing,
    Distance,
    Joint,
    JointOutput,
    Mechanism,
    Perpendicular,
    PointOutput,
    PrescribedMotion,
    Shape,
    Slider,
    SpinRelation,
    Spring,
    Tunable,
    X,
    Y,
    Z,
)
from sim_core.mechanism.checks.plausibility import implausibilities
from sim_core.mechanism.outputs import ForceOutput
from sim_core.mechanism.validation import validate
from sim_core.simulation import Simulation
from sim_core.solve import least_pivots
from sim_core.system import assemble

BALL = (0.1, 0.1, 0.1, 0.0, 0.0, 0.0)
PIN = Joint(name="pin", child="bar", child_point=(-0.5, 0.0, 0.0))
STARTS: dict[str, tuple[float, ...]] = {
    "planar": (0.5, 0.0, 0.0),
    "zxz": (0.5, 0.0, 0.0, 0.0, 1.0, 0.0),
    "euler_parameters": (0.5, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0),
}


def pendulum(orientation: str = "planar", pin: dict[str, Any] | None = None, **changes: Any) -> Mechanism:
    """A bar on a pin, in absolute coordinates."""
    q = STARTS[orientation]
    bar = Body(name="bar", mass=1.0, inertia=BALL, orientation=orientation)  # type: ignore[arg-type]
    parts: dict[str, Any] = {
        "bodies": (bar,),
        "joints": (dataclasses.replace(PIN, **(pin or {})),),
        "gravity": (0.0, -9.81, 0.0),
        "initial_q": q,
        "initial_v": (0.0,) * len(q),
    }
    return Mechanism(name="pendulum", coordinates="absolute", **parts | changes)


def cart(**changes: Any) -> Mechanism:
    """A cart on a rail along x with a pole that turns about z, in joint coordinates."""
    parts: dict[str, Any] = {
        "bodies": (
            Body(name="cart", mass=1.0, inertia=BALL),
            Body(name="pole", mass=0.1, inertia=BALL, center_of_mass=(0.2, 0.0, 0.0)),
        ),
        "joints": (
            Joint(name="rail", kind="prismatic", child="cart", axis=X),
            Joint(name="hinge", parent="cart", child="pole"),
        ),
        "gravity": (0.0, -9.81, 0.0),
        "initial_q": (0.0, 0.0),
        "initial_v": (0.0, 0.0),
    }
    return Mechanism(name="cart", coordinates="joint", **parts | changes)


def with_bar(**changes: Any) -> dict[str, Any]:
    return {"bodies": (dataclasses.replace(pendulum().bodies[0], **changes),)}


def with_pole(**changes: Any) -> dict[str, Any]:
    first, pole = cart().bodies
    return {"bodies": (first, dataclasses.replace(pole, **changes))}


def with_rail(**changes: Any) -> dict[str, Any]:
    rail, hinge = cart().joints
    return {"joints": (dataclasses.replace(rail, **changes), hinge)}


def closing(**changes: Any) -> dict[str, Any]:
    ends = {"body_a": "pole", "point_a": (0.3, 0.0, 0.0), "body_b": "ground", "point_b": (0.3, 0.0, 0.0)}
    return {"constraints": (Coincidence(name="closing", **ends | changes),)}


def perpendicular(body: str) -> dict[str, Any]:
    return {"constraints": (Perpendicular(name="square", body_a=body, axis_a=Z, body_b="ground", axis_b=Z),)}


COIL = {"name": "coil", "point_a": (-0.5, 0.0, 0.0), "body_b": "ground", "point_b": ORIGIN, "stiffness": 1.0}
ROD = {"name": "rod", "point_a": ORIGIN, "body_b": "ground", "point_b": ORIGIN}
REFLECTED = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, -1.0))
PLANAR = {"initial_q": (0.0,) * 4, "initial_v": (0.0,) * 4}


@pytest.mark.parametrize(
    ("made", "says"),
    [
        # planar bodies: obeyed in their plane, refused across it
        (lambda: pendulum(pin={"axis": X}), r"joint 'pin': axis is \(1.0, 0.0, 0.0\); body 'bar' is planar"),
        (lambda: pendulum(pin={"axis": (0.0, 0.6, 0.8)}), r"axis is \(0.0, 0.6, 0.8\); body 'bar' is planar"),
        (lambda: pendulum(pin={"kind": "prismatic"}), r"axis is \(0.0, 0.0, 1.0\), .* perpendicular to z"),
        (lambda: pendulum(pin={"kind": "planar", "axis": Y}), r"axis is \(0.0, 1.0, 0.0\)"),
        (
            lambda: pendulum(pin={"rotation": (X, (0, 0, -1), (0, 1, 0))}),
            "rotation is .* it must be a rotation about z",
        ),
        (lambda: pendulum(pin={"child_point": (-0.5, 0.0, 0.5)}), "joint 'pin' cannot hold: .* -0.5 m"),
        (lambda: pendulum(gravity=(0.0, 0.0, -9.81)), r"gravity is .* write gravity=\(0, -9.81, 0\), or \(0, 0, 0\)"),
        (lambda: pendulum(gravity=(0.0, -5.0, -5.0)), r"write gravity=\(0, -5, 0\)"),
        (
            lambda: pendulum(constraints=(SpinRelation(name="mesh", terms=(("bar", X, 1.0),)),)),
            "constraint 'mesh': the axis on body 'bar' is .* the body is planar",
        ),
        (
            lambda: pendulum(guards=(Crossing(name="floor", source="default", target="default", body="bar", axis=Z),)),
            "guard 'floor' can never fire: no coordinate moves its point on 'bar' along",
        ),
        # rows that no coordinate moves
        (lambda: pendulum(**perpendicular("bar")), "constraint 'square' cannot hold: one of its rows is 1 wherever"),
        (lambda: cart(**perpendicular("pole")), "constraint 'square' cannot hold: one of its rows is 1 wherever"),
        (lambda: cart(**closing(point_a=(0.3, 0.0, 0.5))), "constraint 'closing' cannot hold: .* 0.5 m"),
        (
            lambda: pendulum(constraints=(Distance(body_a="bar", length=0.0, **ROD),)),
            "length is 0 m; it must be above",
        ),
        (
            lambda: pendulum(
                constraints=(
                    Slider(name="s", body_a="bar", point_a=ORIGIN, axis_a=ORIGIN, body_b="ground", point_b=ORIGIN),
                )
            ),
            "constraint 's': axis_a is .* it must have length 1",
        ),
        (
            lambda: pendulum(constraints=(Anchored(name="a", body="bar", point=ORIGIN, axis=Z, at=0.3),)),
            "constraint 'a' cannot hold: one of its rows is -0.3 m",
        ),
        (
            lambda: pendulum(
                constraints=(Anchored(name="a", body="bar", point=ORIGIN, axis=Z, at=CapturedParameter("z", 0.3)),)
            ),
            "constraint 'a' cannot hold at the start: its captured position is 0.3 m",
        ),
        (
            lambda: pendulum(constraints=(Anchored(name="a", body="bar", point=ORIGIN, axis=Z, at=Tunable("z", 0.0)),)),
            "constraint 'a' cannot have the Tunable 'z' as its position, because no coordinate moves",
        ),
        (
            lambda: pendulum(
                constraints=(Anchored(name="a", body="bar", point=ORIGIN, axis=Z, at=0.0),),
                outputs=(ForceOutput(name="f", constraints=("a",)),),
            ),
            "output 'f': constraint 'a' has no force",
        ),
        (
            lambda: pendulum(
                **with_bar(free=("y",)),
                pin={"kind": "prismatic", "axis": X},
                initial_q=(0.0,),
                initial_v=(0.0,),
            ),
            "joint 'pin' cannot move: none of the free coordinates of 'ground' and 'bar' moves the joint",
        ),
        # motions that are none
        (
            lambda: pendulum(constraints=(PrescribedMotion(name="m", body="bar", axis=Z, motion=lambda t: 0.1 * t),)),
            r"constraint 'm' prescribes the motion of the point .* of body 'bar' along \(0.0, 0.0, 1.0\), which no",
        ),
        (
            lambda: pendulum(
                constraints=(PrescribedMotion(name="m", body="bar", axis=Z, input="drive"),),
                actuators=(Actuator(name="drive"),),
            ),
            "constraint 'm' prescribes the motion of the point .* which no coordinate moves",
        ),
        (
            lambda: pendulum(constraints=(PrescribedMotion(name="m", joint="pin", motion=lambda t: 1 / 0),)),
            "constraint 'm': the motion fails in .*: ZeroDivisionError: division by zero",
        ),
        (
            lambda: pendulum(constraints=(PrescribedMotion(name="m", joint="pin", motion=lambda: 0.0),)),  # type: ignore[arg-type,misc]
            "constraint 'm': the motion fails.*: TypeError",
        ),
        (
            lambda: pendulum(constraints=(PrescribedMotion(name="m", joint="pin", motion=lambda t: t if t else 0.0),)),
            "constraint 'm': the motion decides by an expression .* write casadi.if_else",
        ),
        (
            lambda: pendulum(constraints=(PrescribedMotion(name="m", joint="pin", motion=math.sin),)),
            "constraint 'm': the expression that motion returns contains NaN",
        ),
        # rotations, inertias
        (lambda: cart(**with_rail(rotation=(X, (0.0, 2.0, 0.0), Z))), "rotation is .* not a rotation matrix"),
        (lambda: cart(**with_rail(rotation=REFLECTED)), "a reflection; its determinant is -1"),
        (lambda: cart(**with_pole(inertia=(0.1, 0.1, 0.1, 0.5, 0.0, 0.0))), r"principal moments \(-0.4, 0.1, 0.6\)"),
        (lambda: cart(**with_pole(inertia=(0.1, 0.1, 0.0, 0.0, 0.0, 0.0), center_of_mass=ORIGIN)), "'hinge' moves no"),
        (lambda: pendulum("zxz", **with_bar(orientation="zxz", inertia=(0.1, 0.1, 0, 0, 0, 0))), "'bar.psi' moves no"),
        (
            lambda: pendulum(**with_bar(shapes=(Shape(kind="box", size=(1, 1, 1), quaternion=(0, 0, 0, 0)),))),
            "quaternion is .* of norm 0; its norm must be 1",
        ),
        (
            lambda: pendulum("euler_parameters", initial_q=(0.5, *[0.0] * 6)),
            r"its Euler parameters are \(0.0, 0.0, 0.0, 0.0\) of norm 0",
        ),
        (
            lambda: pendulum(
                **with_bar(orientation="euler_parameters", free=("x", "e3")), initial_q=(0.5, 0.0), initial_v=(0.0, 0.0)
            ),
            "body 'bar': of its Euler parameters only 'e3' is free, and their norm of 1 determines it",
        ),
        (lambda: pendulum("zxz", initial_q=(0.5, *[0.0] * 5)), "body 'bar' starts at theta = 0 rad, where its ZXZ"),
        # names, types, bounds
        (
            lambda: cart(actuators=(Actuator(name="m", joint="rail", start=5.0, effort_limit=1.0),)),
            "start is 5.0; .*1.0",
        ),
        (
            lambda: cart(
                joints=(
                    Joint(name="p", kind="planar", child="cart"),
                    Joint(name="p.theta", parent="cart", child="pole"),
                ),
                **PLANAR,
            ),
            "two coordinates are named 'p.theta'",
        ),
        (lambda: cart(**with_pole(mass=Tunable("m", 1.0, 2.0, 3.0))), "tunable 'm' is 1; .* its own bounds, 2 to 3"),
        (
            lambda: cart(outputs=(PointOutput(name="a", body="pole"), PointOutput(name="a", body="cart"))),
            "two outputs .* 'a_x'",
        ),
        (lambda: cart(outputs=(JointOutput(name="a", joint=""),)), "output 'a' has no moving joint ''"),
        (lambda: cart(**with_pole(mass=True)), "body 'pole': mass is True; it must be a number"),
        (lambda: cart(**with_pole(mass=10**400)), "mass holds 1000"),
        (lambda: cart(**with_pole(mass=1e300)), r"mass holds 1e\+300; numbers must be within"),
        (lambda: cart(bodies=3), "bodies is 3; it must be a tuple"),
        (lambda: Mechanism(name="none", coordinates="joint", bodies=()), "no part of the mechanism can move"),
        (
            lambda: pendulum(springs=(Spring(body_a="bar", rest_length=0.1, **COIL),)),
            "the ends of spring 'coil' coincide at the start",
        ),
        # starts
        (lambda: pendulum(initial_q=(1.5, 0.0, 0.0)), "the start of 'pendulum' violates 'pin' by 1 m; .* are refused"),
        (lambda: pendulum(initial_v=(0.0, 0.0, 3.0)), "violates 'pin' by 1.5 m/s; .* are refused"),
    ],
)
def test_what_cannot_be_meant_is_refused_in_one_line_with_names_and_values(
    made: Callable[[], Mechanism], says: str
) -> None:
    with pytest.raises(InvalidRequest, match=says) as caught:
        Simulation(assemble(made()))
    assert "\n" not in str(caught.value)


def test_an_axis_against_z_turns_a_planar_body_the_other_way() -> None:
    """The angle, its rate, the load and the actuator all follow the axis."""
    found = []
    for axis in (Z, (0.0, 0.0, -1.0)):
        made = pendulum(
            pin={"axis": axis, "load": 0.5, "damping": 0.2},
            gravity=ORIGIN,
            actuators=(Actuator(name="motor", joint="pin", start=0.25),),
            outputs=(JointOutput(name="angle", joint="pin"),),
        )
        sim = Simulation(assemble(made))
        sim.advance(0.2)
        found.append((sim.state.q[2], *(float(part[0]) for part in sim.joints()), sim.outputs()["angle"]))
    (theta, *forward), (turned, *backward) = found
    assert theta > 0.01
    assert turned == pytest.approx(-theta, rel=1e-12)
    assert backward == pytest.approx(forward, rel=1e-12)


def test_lists_and_arrays_of_numpy_make_the_same_mechanism() -> None:
    plain = pendulum()
    arrays = pendulum(
        **with_bar(inertia=np.array(BALL), center_of_mass=np.zeros(3), mass=np.float32(1.0)),
        pin={"child_point": np.array([-0.5, 0.0, 0.0]), "axis": np.array([0, 0, 1]), "rotation": np.eye(3)},
        gravity=np.array([0.0, -9.81, 0.0]),
        initial_q=np.array(plain.initial_q),
        initial_v=[0.0, 0.0, 0.0],
    )
    assert arrays == plain
    assert hash(arrays) == hash(plain)
    assert arrays.canonical_hash == plain.canonical_hash
    validate(arrays)


@pytest.mark.parametrize(
    ("made", "says"),
    [
        (lambda: cart(**with_pole(inertia=(0.1, 0.1, 0.5, 0.0, 0.0, 0.0))), r"body 'pole': .* \(0.1, 0.1, 0.5\) kg m2"),
        (
            lambda: cart(
                joints=(Joint(name="p", kind="planar", child="cart", damping=0.3), cart().joints[1]), **PLANAR
            ),
            "joint 'p' is planar, and its damping of 0.3 N m s acts on its angle alone",
        ),
        (lambda: cart(**with_rail(lower=0.1, upper=1.0)), "joint 'rail' starts at 0 m, beyond its limits 0.1 to 1"),
        (lambda: cart(**closing(directions=(Z,))), "constraint 'closing' restrains nothing"),
    ],
)
def test_what_is_hardly_meant_is_a_warning_with_names_and_values(made: Callable[[], Mechanism], says: str) -> None:
    for _ in range(2):  # from the cache too
        with pytest.warns(DescriptionWarning, match=says) as caught:
            assemble(made())
        assert len(caught) == 1


def test_a_body_that_turns_about_one_axis_may_give_its_moment_about_that_one_alone() -> None:
    moment = (0.0, 0.0, 0.1, 0.0, 0.0, 0.0)
    assert implausibilities(pendulum(**with_bar(inertia=moment))) == []
    assert implausibilities(cart(**with_pole(inertia=moment))) == []
    tilted = Joint(name="hinge", parent="cart", child="pole", axis=Y)
    assert len(implausibilities(cart(**with_pole(inertia=moment), joints=(cart().joints[0], tilted)))) == 1


@pytest.mark.parametrize("formulation", ["schur", "augmented"])
def test_a_row_given_twice_starts_at_every_orientation_of_euler_parameters(formulation: str) -> None:
    """At e = (1, 0, 0, 0) the mass matrix has a zero on its diagonal."""
    for half in (0.0, 0.1):
        q = (0.5 * math.cos(2 * half), 0.5 * math.sin(2 * half), 0.0, math.cos(half), 0.0, 0.0, math.sin(half))
        twice = pendulum(
            "euler_parameters",
            **with_bar(orientation="euler_parameters"),
            joints=(PIN, dataclasses.replace(PIN, name="again")),
            formulation=formulation,
            initial_q=q,
        )
        system = assemble(twice)
        assert np.all(np.isfinite(least_pivots(system, system.default_parameters())))
        sim = Simulation(system)
        sim.advance(0.2)
        assert sim.energy() == pytest.approx(9.81 * q[1], abs=1e-9)


@pytest.mark.parametrize("name", names())
def test_our_robots_raise_no_doubts(name: str) -> None:
    mechanism = build(name)
    assert implausibilities(mechanism, checked_rows(mechanism)) == []


def test_a_row_that_is_constant_but_for_rounding_is_checked_too() -> None:
    """A hinge in a turned plane: the row across it has derivatives of 1e-17."""
    c, s = math.cos(0.7), math.sin(0.7)
    turned = ((c, 0.0, s), (0.0, 1.0, 0.0), (-s, 0.0, c))
    joints = {
        "joints": (
            Joint(name="rail", kind="prismatic", child="cart", axis=(c, 0.0, -s), rotation=turned),
            cart().joints[1],
        )
    }
    off = closing(point_a=(0.1, 0.2, 0.3), point_b=ORIGIN, directions=((s, 0.0, c),))
    with pytest.raises(InvalidRequest, match=r"constraint .closing. cannot hold: one of its rows is 0\.3 m"):
        assemble(cart(**joints, **off))


# -- starts -----------------------------------------------------------------------------------------------------------


def test_a_start_that_is_rounded_is_a_warning_and_one_that_is_meant_too() -> None:
    with pytest.warns(StartWarning, match="violates 'pin' by 0.0001 m"):
        Simulation(assemble(pendulum(initial_q=(0.5001, 0.0, 0.0))))
    with pytest.warns(StartWarning, match="violates 'pin' by 1 m"):
        Simulation(assemble(pendulum(initial_q=(1.5, 0.0, 0.0), open_start=True)))


def test_a_state_given_to_reset_is_refused_where_it_is_far_off_and_changes_nothing() -> None:
    sim = Simulation(assemble(pendulum()))
    sim.step(3)
    before = sim.snapshot()
    with pytest.raises(InvalidRequest, match="violates 'pin' by 2 m"):
        sim.reset(q=np.array([2.5, 0.0, 0.0]))
    np.testing.assert_array_equal(sim.snapshot().q, before.q)
    assert sim.tick == 3


@pytest.mark.parametrize(
    "made",
    [
        lambda: pendulum(initial_q=(1.5, 0.3, 0.2), initial_v=(0.0, 0.0, 3.0)),
        lambda: pendulum("euler_parameters", initial_q=(0.9, 0.2, 0.1, 1.3, 0.4, 0.0, 0.2), gravity=(0.0, 0.0, -9.81)),
        lambda: _shaken("parallelogram_four_bar"),
        lambda: _shaken("four_bar_chain"),
        lambda: build("crank_slider", start="printed"),
        lambda: build("triple_pendulum", shift=0.2),
    ],
)
def test_a_start_is_assembled_by_the_solver_the_same_each_time(made: Callable[[], Mechanism]) -> None:
    mechanism = made()
    with warnings.catch_warnings():
        warnings.simplefilter("error", StartWarning)
        sims = [Simulation(assemble(mechanism), assemble_start=True) for _ in range(2)]
    for sim in sims:
        phi, phidot = sim.violation()
        assert phi <= 1e-11
        assert phidot <= 1e-10
    np.testing.assert_array_equal(sims[0].state.q, sims[1].state.q)
    start = sims[0].state.q
    sims[0].step(5)
    sims[0].reset()
    np.testing.assert_array_equal(sims[0].state.q, start)


def _shaken(name: str) -> Mechanism:
    """A robot whose start was moved at random."""
    plain, draw = build(name), np.random.default_rng(4)
    q = np.array(plain.initial_q) + draw.uniform(-0.05, 0.05, len(plain.initial_q))
    return dataclasses.replace(
        plain, initial_q=q, initial_v=np.array(plain.initial_v) + draw.uniform(-0.5, 0.5, len(q))
    )


def test_velocities_are_changed_least_in_the_metric_of_the_masses() -> None:
    """M dv is a combination of the rows: an impulse of the constraints, as in an inelastic impact."""
    system = assemble(build("crank_slider", start="printed"))
    q, v = np.array(system.mechanism.initial_q), np.array(system.mechanism.initial_v)
    _, found = consistent_start(system, q, v)
    M, _, J, _ = system.terms(0.0, q, v)
    change = M @ (found - v)
    lam = np.linalg.lstsq(J.T, change, rcond=None)[0]
    np.testing.assert_allclose(J.T @ lam, change, atol=1e-10)


def test_parts_that_cannot_meet_are_named_with_what_stays_open() -> None:
    rods = [
        Distance(body_a="bar", length=1.0, **ROD),
        Distance(body_a="bar", length=1.0, **{**ROD, "name": "far", "point_b": (5.0, 0.0, 0.0)}),
    ]
    with pytest.raises(InvalidRequest, match=r"found no initial state of 'pendulum' .* 'far' by 2\.\d+ m"):
        Simulation(assemble(pendulum(joints=(), constraints=tuple(rods))), assemble_start=True)


def test_euler_angles_at_their_singularity_are_named_before_and_after() -> None:
    near = pendulum("zxz", initial_q=(0.5, 0.0, 0.0, 0.0, 1e-3, 0.0), gravity=(0.0, 0.0, -9.81))
    with pytest.warns(StartWarning, match=r"body .bar. of .pendulum. is at theta = 0\.001 rad, near the singularity"):
        sim = Simulation(assemble(near))
    with pytest.raises(SimulationDiverged, match=r"body .bar. came to .* near the singularity of its ZXZ angles"):
        sim.advance(0.1)


def test_the_identity_is_a_rotation() -> None:
    validate(cart(**with_rail(rotation=IDENTITY)))
