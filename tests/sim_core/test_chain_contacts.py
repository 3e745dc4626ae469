"""A point that is held at a place of a chain: the same numbers from loops and from straight-line code."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sim_core.mechanism import (
    GROUND,
    Actuator,
    Body,
    ChainContact,
    ConstraintMode,
    Joint,
    JointSpring,
    Mechanism,
    PointOutput,
    X,
    Y,
)
from sim_core.mechanism.guards import Aim, Commanded, Guard, Window
from sim_core.mechanism.outputs import ForceOutput, ForceTorqueOutput, HoldingOutput
from sim_core.mechanism.quantities import CapturedParameter
from sim_core.simulation import Simulation
from sim_core.system import System, assemble

SEGMENT, COUNT = 0.2, 4
SEGMENTS = tuple(f"segment_{k}" for k in range(COUNT))


def held(hands: int = 2) -> Mechanism:
    """Pendulums, each with a hand at its end, on trolleys above a chain, which the hands can hold."""
    bodies, joints, constraints, guards = list[Body](), list[Joint](), list[Any](), list[Guard]()
    for hand in range(hands):
        bodies += [
            Body(name=f"trolley_{hand}", mass=0.3, inertia=(1e-3, 1e-3, 1e-3, 0, 0, 0)),
            Body(name=f"hand_{hand}", mass=0.5, inertia=(2e-3, 3e-3, 2e-3, 0, 0, 0), center_of_mass=(0.0, 0.0, -0.1)),
        ]
        joints += [
            Joint(name=f"slide_{hand}", kind="prismatic", child=f"trolley_{hand}", axis=X),
            Joint(name=f"swing_{hand}", parent=f"trolley_{hand}", child=f"hand_{hand}", axis=Y),
        ]
    for k, name in enumerate(SEGMENTS):
        bodies.append(Body(name=name, mass=0.2, inertia=(0.0, 1e-3, 1e-3, 0, 0, 0), center_of_mass=(SEGMENT / 2, 0, 0)))
        joints.append(
            Joint(
                name=name,
                parent=SEGMENTS[k - 1] if k else GROUND,
                child=name,
                axis=Y,
                parent_point=(SEGMENT, 0.0, 0.0) if k else (0.0, 0.0, -0.3),
                spring=JointSpring(stiffness=5.0),
                damping=0.01,
            )
        )
    for hand in range(hands):
        position = CapturedParameter(f"position_{hand}", 0.25 + 0.3 * hand)
        common: dict[str, Any] = {"body": f"hand_{hand}", "point": (0.0, 0.0, -0.3), "segments": SEGMENTS}
        common |= {"length": SEGMENT, "position": position}
        constraints += [
            ChainContact(name=f"x_{hand}", coordinate="along", at=position, **common),
            ChainContact(name=f"z_{hand}", coordinate="across", at=CapturedParameter(f"offset_{hand}", 0.0), **common),
        ]
        aims = (Aim(constraint=f"x_{hand}", at=None), Aim(constraint=f"z_{hand}"))
        guards.append(
            Guard(
                name=f"catch_{hand}",
                engages=(f"x_{hand}", f"z_{hand}"),
                conditions=(
                    Commanded(actuator="grip", above=0.5),
                    Window(aims=aims, gap=0.05, speed=2.0, margin=0.01),
                ),
                captures=(f"x_{hand}", f"z_{hand}"),
                impact="inelastic",
            )
        )
    n = 2 * hands + COUNT
    return Mechanism(
        name="held",
        coordinates="joint",
        bodies=tuple(bodies),
        joints=tuple(joints),
        constraints=tuple(constraints),
        constraint_modes=(ConstraintMode(name="free", constraints=()), ConstraintMode(name="both")),
        guards=tuple(guards),
        actuators=(Actuator(name="grip"),),
        outputs=(
            PointOutput(name="hand", body="hand_0", point=(0.0, 0.0, -0.3), axes="xz"),
            ForceOutput(name="force", constraints=("x_0", "z_0"), axes="xz"),
            HoldingOutput(name="holds", constraint="z_0"),
            *(ForceTorqueOutput(name=f"load of {joint}", joint=joint) for joint in ("swing_0", "segment_2")),
        ),
        initial_q=(0.25, 0.0, 0.5, 0.0)[: 2 * hands] + (0.0,) * COUNT,
        initial_v=(0.0,) * n,
    )


@pytest.fixture(scope="module")
def systems() -> tuple[System, System]:
    """The system with loops, and that of straight-line code."""
    mechanism = held()
    return assemble(mechanism, rolled=True), assemble(mechanism, rolled=False)


def numbers(system: System, positions: tuple[float, float], seed: int) -> dict[str, Any]:
    random = np.random.default_rng(seed)
    q, v = np.array(system.mechanism.initial_q) + 0.1 * random.normal(size=system.n_q), random.normal(size=system.n_q)
    p, u = system.default_parameters(1), np.array([1.0])
    for hand, position in enumerate(positions):
        p[system.parameter_names.index(f"position_{hand}")] = position
    M, f, J, gamma = system.terms(0.0, q, v, u, p)
    a, lam, factor = system.acceleration(0.0, q, v, u, p)
    captured, guards = np.zeros(4), np.zeros(2)
    system.bind("captures", [np.zeros(1), q, v, u, p], [captured])()
    system.bind("guards", [np.zeros(1), q, v, u, p, lam], [guards])()
    phi, phidot = system.residual(0.0, q, v, p)
    return {
        **{"M": M, "f": f, "J": J, "gamma": gamma, "a": a, "lam": lam, "phi": phi, "phidot": phidot},
        "applied": system.apply(factor, random.normal(size=system.n_q), random.normal(size=4))[0],
        **{"captured": captured, "guards": guards, "outputs": [*system.outputs(0.0, q, v, p, u).values()]},
    }


@pytest.mark.parametrize("positions", [(0.0, 0.799), (0.25, 0.55), (0.05, 0.1), (0.61, 0.399), (0.9, -0.1)])
def test_loops_and_straight_line_code_give_the_same_numbers(
    systems: tuple[System, System], positions: tuple[float, float]
) -> None:
    ours, theirs = (numbers(system, positions, round(1e3 * positions[0])) for system in systems)
    for name, value in theirs.items():
        scale = max(1e-300, np.abs(value).max())
        assert np.abs(np.asarray(ours[name]) - value).max() <= 1e-10 * scale, name


def test_a_hand_grips_the_segment_that_it_meets_and_stays_there(systems: tuple[System, System]) -> None:
    ends = []
    for system in systems:
        simulation = Simulation(system, step_s=5e-4, stabilizer="baumgarte")
        simulation.set_effort([1.0])
        simulation.advance(0.2)
        p = dict(zip(system.parameter_names, simulation.state.p, strict=True))
        assert [0.0 < p[f"position_{hand}"] < SEGMENT * COUNT for hand in range(2)] == [True, True]
        assert np.abs(simulation.violation()[0]).max() < 1e-4
        assert simulation.outputs()["holds"] == 1.0
        ends.append(np.array(simulation.state.q))
    np.testing.assert_allclose(*ends, rtol=0.0, atol=1e-8)
