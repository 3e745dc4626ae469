"""Linear models: exact derivatives against differences, along the constraints of loops, and of one step."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from robots.registry import build
from sim_core.analysis.discretization import STEPPERS, bound_step_derivatives, step_derivatives
from sim_core.analysis.linearization import closed, linearize, operating_point
from sim_core.analysis.turning import Turning, turnings_of
from sim_core.errors import InvalidRequest, UnknownName
from sim_core.mechanism import Actuator, Body, Distance, Joint, JointFriction, Mechanism, PrescribedMotion, Y
from sim_core.simulation import Simulation
from sim_core.spatial import (
    angular_velocity_of_step,
    conjugate,
    quaternion_of_step,
    quaternion_product,
    rates_of_step,
    step_of_quaternion,
)
from sim_core.state import State
from sim_core.system import System, assemble

Array = np.ndarray
LOOPS = ("crank_slider", "rotary_pendulum", "parallelogram_four_bar", "four_bar_chain")


def differences(function: Callable[[Array], Array], at: Array, size: float = 1e-4) -> Array:
    """Jacobian by central differences of order 4."""
    columns = []
    for k in range(len(at)):
        e = np.zeros(len(at))
        e[k] = size
        near, far = function(at + e) - function(at - e), function(at + 2.0 * e) - function(at - 2.0 * e)
        columns.append((8.0 * near - far) / (12.0 * size))
    return np.array(columns).T if columns else function(at)[:, None][:, :0]


def moving(name: str, **parameters: Any) -> tuple[System, State]:
    """A robot in motion, with efforts."""
    system = assemble(build(name, **parameters))
    sim = Simulation(system)
    sim.step(50)
    return system, dataclasses.replace(sim.snapshot(), u=np.full(system.n_u, 0.01))


def pendulum(**more: Any) -> Mechanism:
    return Mechanism(
        name="pendulum",
        coordinates="joint",
        bodies=(Body(name="rod", mass=2.0, inertia=(0.05, 0.05, 0.05, 0, 0, 0), center_of_mass=(0, 0, -0.5)),),
        joints=(Joint(name="hinge", kind="revolute", child="rod", axis=Y, **more.pop("joint", {})),),
        actuators=(Actuator(name="motor", joint="hinge"), *more.pop("actuators", ())),
        **{"initial_q": (0.0,), "initial_v": (0.0,)} | more,
    )


@pytest.mark.parametrize("name", ["triple_pendulum", "arm_6dof", *LOOPS])
def test_derivatives_of_accelerations_and_multipliers_equal_differences(name: str) -> None:
    system, state = moving(name)
    q, v, u, p = state.q, state.v, state.u, state.p
    found = system.derivatives(0.0, q, v, u, p)

    def both(q: Array, v: Array, u: Array, U: Array | None = None) -> Array:
        return np.concatenate(system.acceleration(0.0, q, v, u, p, U)[:2])

    zero = np.zeros(system.max_rows)
    for numeric, a, lam in (
        (differences(lambda x: both(x, v, u), q), found.a_q, found.lam_q),
        (differences(lambda x: both(q, x, u), v), found.a_v, found.lam_v),
        (differences(lambda x: both(q, v, x), u), found.a_u, found.lam_u),
        (differences(lambda x: both(q, v, u, x), zero), found.a_U, None),
    ):
        scale = max(1.0, np.abs(numeric).max(initial=0.0))
        assert np.abs(numeric[: system.n_q] - a).max(initial=0.0) <= 5e-9 * scale
        if lam is not None:
            assert np.abs(numeric[system.n_q :] - lam).max(initial=0.0) <= 1e-8 * scale


@pytest.mark.parametrize("name", LOOPS)
def test_the_minimal_model_of_a_moving_loop_equals_differences_along_the_constraints(name: str) -> None:
    system, state = moving(name)
    linear = linearize(system, state)
    names, half = system.coordinate_names, len(linear.states) // 2
    places = [names.index(state_name) for state_name in linear.states[:half]]

    def rates(x: Array) -> Array:
        q = state.q.copy()
        q[places] = x[:half]
        q = closed(system, q, linear.states[:half])
        J = system.terms(0.0, q, state.v)[2]
        v = state.v.copy()
        v[places] = x[half:]
        others = [k for k in range(system.n_q) if k not in places]
        v[others] = np.linalg.lstsq(J[:, others], -J[:, places] @ x[half:], rcond=1e-9)[0]
        return np.concatenate([v[places], system.acceleration(0.0, q, v, state.u, state.p)[0][places]])

    at = np.concatenate([state.q[places], state.v[places]])
    numeric = differences(rates, at)
    assert np.abs(linear.A - numeric).max() <= 1e-8 * max(1.0, np.abs(numeric).max())
    assert linear.offset == pytest.approx(rates(at), rel=1e-7, abs=1e-7)


@pytest.mark.parametrize("stepper", STEPPERS)
@pytest.mark.parametrize("stabilizer", ["none", "sampled_fuzzy", "baumgarte"])
@pytest.mark.parametrize("name", ["crank_slider", "arm_2dof"])
@pytest.mark.filterwarnings("ignore:stabilizer 'baumgarte' is stable")
def test_the_discrete_model_is_the_derivative_of_the_step_that_a_simulation_takes(
    name: str, stepper: str, stabilizer: str
) -> None:
    system, state = moving(name)
    h, n = 1e-3, system.n_q
    step = step_derivatives(system, state, h, stepper, stabilizer)
    sim = Simulation(system, step_s=h, stepper=stepper, stabilizer=stabilizer)

    def after(q: Array, v: Array, u: Array) -> Array:
        sim.restore(dataclasses.replace(state, q=q, v=v, u=u, guards=np.zeros(0), ledger=np.zeros(0)))
        sim.step()
        found = sim.snapshot()
        return np.concatenate([found.q, found.v])

    by_x = differences(lambda x: after(x[:n], x[n:], state.u), np.concatenate([state.q, state.v]))
    by_u = differences(lambda u: after(state.q, state.v, u), state.u)
    assert np.abs(by_x - step.by_x).max() <= 1e-9 * np.abs(by_x).max()
    assert np.abs(by_u - step.by_u).max(initial=0.0) <= 1e-9


def tumbling() -> System:
    """A free body with another one on a spherical joint, with damping, and a third one on a hinge with a motor.

    A constraint, which is closed in the first steps, holds the third body at a distance from the ground.
    """
    inertia, center = (0.02, 0.03, 0.04, 0.004, 0.0, 0.0), (0.1, 0.2, 0.3)
    ball = {"parent_point": (0.2, 0.0, 0.1), "damping": 0.05, "quaternion": (0.8, 0.6, 0.0, 0.0)}
    return assemble(
        Mechanism(
            name="tumbling",
            coordinates="joint",
            bodies=tuple(Body(name=name, mass=1.0, inertia=inertia, center_of_mass=center) for name in "abc"),
            joints=(
                Joint(name="base", kind="free", child="a", quaternion=(0.6, 0.0, 0.8, 0.0)),
                Joint(name="ball", kind="spherical", parent="a", child="b", **ball),
                Joint(name="hinge", parent="b", child="c", parent_point=(0.0, 0.3, 0.0)),
            ),
            constraints=(
                Distance(name="rod", body_a="c", point_a=center, body_b="ground", point_b=(0, 0, 0), length=0.7),
            ),
            actuators=(Actuator(name="motor", joint="hinge"),),
            open_start=True,
            initial_q=(0.1, 0.2, 0.3, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.4),
            initial_v=(1.0, -2.0, 0.5, 3.0, -4.0, 5.0, 2.0, -6.0, 1.0, 3.0),
        )
    )


def chart(turnings: list[Turning], of: State, q: Array, v: Array, p: Array) -> Array:
    """Deviations (2 n_q,) of a state q, v, p from the state `of`: rotation coordinates of joints begin there."""
    q, v = q.copy(), v.copy()
    for block, first in turnings:
        before, after = of.p[first : first + 4], p[first : first + 4]
        q[block] = step_of_quaternion(quaternion_product(np.array(conjugate(before.tolist())), after))
        v[block] = rates_of_step(q[block], v[block])
    return np.concatenate([q, v])


@pytest.mark.parametrize("stabilizer", ["none", "sampled_fuzzy", "baumgarte"])
@pytest.mark.parametrize("stepper", STEPPERS)
@pytest.mark.filterwarnings("ignore:stabilizer 'baumgarte' is stable")
def test_the_discrete_model_of_spherical_and_free_joints_is_the_derivative_of_the_step(
    stepper: str, stabilizer: str
) -> None:
    """Deviations are rotation vectors from the orientations of the undisturbed motion, before and after the step."""
    system = tumbling()
    turnings, h, n = turnings_of(system), 2e-3, system.n_q
    closing = Simulation(system)
    closing.step(200)
    state = dataclasses.replace(closing.snapshot(), tick=0, u=np.array([0.3]))
    sim = Simulation(system, step_s=h, stepper=stepper, stabilizer=stabilizer)
    step = step_derivatives(system, state, h, stepper, stabilizer)

    def after(x: Array, u: Array) -> State:
        q, v, p = x[:n].copy(), x[n:].copy(), state.p.copy()
        for block, first in turnings:
            p[first : first + 4] = quaternion_product(state.p[first : first + 4], quaternion_of_step(q[block]))
            v[block] = angular_velocity_of_step(q[block], v[block])
            q[block] = 0.0
        sim.restore(dataclasses.replace(state, q=q, v=v, u=u, p=p, guards=np.zeros(0), ledger=np.zeros(0)))
        sim.step()
        return sim.snapshot()

    start = np.concatenate([state.q, state.v])
    undisturbed = after(start, state.u)

    def deviation(x: Array, u: Array) -> Array:
        found = after(x, u)
        return chart(turnings, undisturbed, found.q, found.v, found.p)

    by_x = differences(lambda x: deviation(x, state.u), start, 2e-3)
    by_u = differences(lambda u: deviation(start, u), state.u, 1e-2)
    assert np.abs(by_x - step.by_x).max() <= 1e-9 * np.abs(by_x).max()
    assert np.abs(by_u - step.by_u).max() <= 1e-9


def test_a_pendulum_has_the_poles_frequency_and_damping_of_its_closed_form() -> None:
    system = assemble(pendulum(joint={"damping": 0.3}))
    found = linearize(system, outputs=["hinge", "hinge.velocity"])
    inertia = 2.0 * 0.25 + 0.05
    assert pytest.approx(np.array([[0.0, 1.0], [-2.0 * 9.81 * 0.5 / inertia, -0.3 / inertia]]), abs=1e-12) == found.A
    assert pytest.approx(np.array([[0.0], [1.0 / inertia]]), abs=1e-12) == found.B
    assert pytest.approx(np.eye(2)) == found.C
    assert not found.D.any()
    assert not found.offset.any()
    assert (found.states, found.inputs) == (("hinge", "hinge.velocity"), ("motor",))
    assert (found.state_units, found.input_units) == (("rad", "rad/s"), ("N m",))
    pole = found.poles()[0]
    frequency = np.sqrt(9.81 / inertia)
    assert (pole.frequency, pole.damping) == pytest.approx((frequency, 0.3 / inertia / 2.0 / frequency), rel=1e-9)
    assert sum(pole.participation.values()) == pytest.approx(1.0)


def test_a_discrete_pole_is_the_continuous_pole_of_its_motion() -> None:
    system = assemble(pendulum())
    slow, fast = linearize(system).poles()[0], linearize(system, step_s=1e-3).poles()[0]
    assert fast.frequency == pytest.approx(slow.frequency, rel=1e-9)  # rk4


def test_the_discrete_poles_of_a_hanging_ball_joint_are_the_continuous_ones_of_its_motion() -> None:
    ball = Joint(name="ball", kind="spherical", child="rod", damping=0.2)
    changed = {"joints": (ball,), "actuators": (), "initial_q": (0.0,) * 3, "initial_v": (0.0,) * 3}
    system = assemble(dataclasses.replace(pendulum(), **changed))
    expected, found = (linearize(system, step_s=step_s).poles() for step_s in (None, 1e-3))
    assert [pole.value for pole in found] == pytest.approx([pole.value for pole in expected], rel=1e-9, abs=1e-9)


def test_an_operating_point_holds_the_robot_and_shows_what_only_stresses_its_loops() -> None:
    system = assemble(build("arm_6dof"))
    found = operating_point(system, {system.coordinate_names[1]: 0.7})
    assert found.q[1] == 0.7
    a = system.acceleration(0.0, found.q, found.v, found.u)[0]
    assert np.abs(a).max() < 1e-9
    assert np.abs(found.residual).max() < 1e-9
    assert found.null_space.shape == (6, 0)
    assert np.abs(linearize(system, found.q, found.u).offset).max() < 1e-9


def test_what_has_no_linear_model_is_refused_by_name() -> None:
    system = assemble(build("crank_slider"))
    start = np.array(system.mechanism.initial_q)
    start[0] += 0.1
    with pytest.raises(InvalidRequest, match=r"off its constraints, by .*operating_point\(system, near\)"):
        linearize(system, start)
    for refused in ({"stepper": "abm4"}, {"stabilizer": "pid"}):
        with pytest.raises(InvalidRequest, match=next(iter(refused.values()))):
            linearize(system, step_s=1e-3, **refused)
    with pytest.raises(UnknownName, match=r"'cranc'; .*did you mean 'crank'"):
        linearize(system, outputs=["cranc"])
    prescribed = pendulum(
        actuators=(Actuator(name="speed"),),
        constraints=(PrescribedMotion(name="drive", joint="hinge", input="speed"),),
    )
    with pytest.raises(InvalidRequest, match="'speed' commands a velocity"):
        linearize(assemble(prescribed))
    with pytest.raises(InvalidRequest, match="'hand_a_z', 'hand_b_z' come from a table"):
        linearize(assemble(build("gibbon")))


def test_a_joint_at_rest_under_friction_is_named() -> None:
    system = assemble(pendulum(joint={"friction": JointFriction(coulomb=0.1)}))
    assert "joint 'hinge' is at rest under friction" in linearize(system).notes[0]
    ball = Joint(name="ball", kind="spherical", child="rod", friction=JointFriction(coulomb=1.0))
    changed = {"joints": (ball,), "actuators": (), "initial_q": (0.0,) * 3, "initial_v": (1.0, 0.0, 2.0)}
    notes = linearize(assemble(dataclasses.replace(pendulum(), **changed))).notes
    assert "joint 'ball' is at rest under friction" in notes[0]


def test_the_casadi_functions_are_the_dynamics() -> None:
    system, state = moving("rotary_pendulum")
    functions = system.casadi()
    inputs = (0.0, state.q, state.v, state.u, state.p)
    for ours, theirs in zip(system.terms(*inputs), functions["dynamics"](*inputs), strict=True):
        assert np.abs(ours - theirs.full().reshape(ours.shape)).max() <= 1e-12 * max(1.0, np.abs(ours).max())
    assert functions["energy"](*inputs).full()[:, 0] == pytest.approx(system.energy(0.0, state.q, state.v, state.p))


def test_bound_derivatives_of_a_step_are_those_of_the_step() -> None:
    system, state = moving("arm_2dof")
    bound = bound_step_derivatives(system, 1e-3, "semi_implicit", "none")
    bound.start[:], bound.u[:] = np.concatenate([state.q, state.v]), state.u
    bound()
    step = step_derivatives(system, state, 1e-3, "semi_implicit", "none")
    assert (bound.by_x == step.by_x).all()
    assert (bound.by_u == step.by_u).all()
    assert bound.x == pytest.approx(step.x, abs=1e-14)
    with pytest.raises(InvalidRequest, match="'implicit_midpoint' has no bound derivatives"):
        bound_step_derivatives(system, 1e-3, "implicit_midpoint")


def test_a_mechanism_and_the_name_of_a_joint_are_refused_in_one_line() -> None:
    mechanism = build("rotary_pendulum")
    for function in (linearize, operating_point):
        with pytest.raises(InvalidRequest, match="is a Mechanism, not a System; pass the result of assemble"):
            function(mechanism)
    with pytest.raises(InvalidRequest, match=r"'pendulum' is a joint.*build the robot with coordinates='joint'"):
        operating_point(assemble(mechanism), {"pendulum": 3.0})


def test_rigid_body_motions_have_poles_of_zero_relative_to_the_other_poles() -> None:
    system = assemble(build("rotary_pendulum", coordinates="joint"))
    for step_s in (None, 1e-3):
        poles = linearize(system, {"pendulum": 0.0}, step_s=step_s).poles()
        assert [pole.value for pole in poles[:2]] == [0.0, 0.0]
        assert min(pole.frequency for pole in poles[2:]) > 10.0
