"""External forces on bodies: virtual power, free fall in closed form, the energy ledger, and snapshots."""

from __future__ import annotations

import numpy as np
import pytest

from robots.registry import build
from sim_core.errors import InvalidRequest, UnknownName
from sim_core.mechanism import Body, Joint, Mechanism
from sim_core.mechanism.quantities import push_names
from sim_core.simulation import Simulation
from sim_core.state import State
from sim_core.system import System, assemble

F = np.array([0.3, -0.2, 0.1])
POINT = np.array([0.02, -0.01, -0.05])


def pushed_parameters(system: System, body: str, force: np.ndarray) -> np.ndarray:
    p = system.default_parameters()
    first = system.parameter_names.index(push_names(body)[0])
    p[first : first + 6] = [*force, *POINT]
    return p


@pytest.fixture(scope="module")
def pendulum() -> System:
    return assemble(build("rotary_pendulum", pushable="pendulum"))


def stone(coordinates: str) -> Mechanism:
    """A free body, pushed at its centre of mass."""
    body = Body(
        name="stone",
        mass=2.0,
        inertia=(0.1, 0.2, 0.15, 0.0, 0.0, 0.0),
        orientation="euler_parameters",
    )
    joints = (Joint(name="base", kind="free", child="stone"),) if coordinates == "joint" else ()
    q = [0.0] * 6 if joints else [0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0]
    return Mechanism(
        name=f"stone_{coordinates}",
        coordinates="joint" if joints else "absolute",
        bodies=(body,),
        joints=joints,
        initial_q=tuple(q),
        initial_v=(0.0,) * len(q),
        pushable=("stone",),
    )


def test_its_generalized_force_has_the_power_of_the_force_at_the_point(pendulum: System) -> None:
    rng = np.random.default_rng(1)
    q = np.array(pendulum.mechanism.initial_q) + 0.1 * rng.standard_normal(pendulum.n_q)
    v = rng.standard_normal(pendulum.n_q)
    p = pushed_parameters(pendulum, "pendulum", F)
    pushed = pendulum.terms(0.0, q, v, None, p)[1] - pendulum.terms(0.0, q, v)[1]

    def place(q: np.ndarray) -> np.ndarray:
        positions, R = pendulum.poses(0.0, q, v)
        body = [body.name for body in pendulum.mechanism.bodies].index("pendulum")
        return positions[body] + R[body] @ POINT

    step = 1e-6
    J = np.stack([(place(q + dq) - place(q - dq)) / (2.0 * step) for dq in step * np.eye(pendulum.n_q)], axis=1)
    np.testing.assert_allclose(pushed, J.T @ F, atol=1e-10)


@pytest.mark.parametrize("coordinates", ["joint", "absolute"])
def test_a_free_body_that_is_pushed_at_its_centre_gains_the_impulse(coordinates: str) -> None:
    simulation = Simulation(assemble(stone(coordinates)), step_s=1e-3)
    simulation.push("stone", [3.0, 0.0, -1.0])
    simulation.advance(0.2)
    simulation.push("stone", np.zeros(3))
    simulation.advance(0.1)
    # x = F t^2 / 2 m, then at the constant speed F t / m; z falls
    x = 3.0 * 0.2**2 / 4.0 + 0.1 * 3.0 * 0.2 / 2.0
    z = -1.0 * 0.2**2 / 4.0 - 0.1 * 1.0 * 0.2 / 2.0 - 9.81 * 0.3**2 / 2.0
    np.testing.assert_allclose(simulation.poses()[0][0], [x, 0.0, z], atol=1e-9)


def test_its_work_is_in_the_energy_ledger(pendulum: System) -> None:
    simulation = Simulation(pendulum, step_s=1e-3)
    before = simulation.energy()
    simulation.push("pendulum", [0.1, 0.05, 0.0], POINT)
    simulation.advance(0.3)
    assert abs(simulation.energy() - before) > 1e-3
    assert not simulation.energy_ledger.departed
    assert simulation.energy_ledger.largest < 1e-4


def test_it_is_part_of_the_state_and_ends_with_a_reset(pendulum: System) -> None:
    simulation = Simulation(pendulum, step_s=1e-3)
    simulation.push("pendulum", F, POINT)
    simulation.advance(0.05)
    state = State.from_plain(simulation.snapshot().to_plain())
    simulation.advance(0.1)
    wanted = simulation.state
    other = Simulation(pendulum, step_s=1e-3)
    other.restore(state)
    force, point = other.pushes["pendulum"]
    assert (force.tolist(), point.tolist()) == (F.tolist(), POINT.tolist())
    other.advance(0.1)
    assert other.state.q.tobytes() == wanted.q.tobytes()
    assert other.state.v.tobytes() == wanted.v.tobytes()
    other.reset()
    assert other.pushes == {}


def test_what_cannot_be_pushed_is_refused(pendulum: System) -> None:
    simulation = Simulation(pendulum, step_s=1e-3)
    with pytest.raises(UnknownName, match="has no pushable body 'arm'; its pushable bodies are pendulum"):
        simulation.push("arm", F)
    with pytest.raises(InvalidRequest, match="force of a push has 2 entries; it must have 3"):
        simulation.push("pendulum", [1.0, 2.0])
    with pytest.raises(InvalidRequest, match=r"pendulum\[0\] is nan; it must be a finite number"):
        simulation.push("pendulum", [np.nan, 0.0, 0.0])
    with pytest.raises(UnknownName, match="has no body 'elbow'"):
        build("rotary_pendulum", pushable="elbow")
