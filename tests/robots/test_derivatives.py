"""Derivatives of the forward dynamics are those of pinocchio: random trees and all robots that are trees."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from robots.registry import build, builder, names
from sim_core.mechanism import Actuator, Mechanism
from sim_core.system import assemble

RELATIVE = 1e-10  # of the largest entry
ZERO = 1e-3  # largest entry up to which a matrix may be 0 but for rounding
TREES, STATES = 60, 100
SAMPLED_TREES, SAMPLED_STATES = 6, 5


def bare(mechanism: Mechanism) -> Mechanism:
    """The mechanism with an actuator on every joint, and nothing else that pinocchio leaves out."""
    plain = {"damping": 0.0, "load": 0.0, "armature": 0.0, "spring": None, "friction": None, "stops": None}
    joints = tuple(dataclasses.replace(joint, **plain) for joint in mechanism.joints)
    actuators = tuple(Actuator(name=joint.name, joint=joint.name) for joint in mechanism.moving_joints)
    n = len(mechanism.coordinate_names) - len(mechanism.first_order_states)
    q, v = mechanism.initial_q[:n], mechanism.initial_v[:n]
    without = {"springs": (), "contacts": (), "forces": (), "outputs": (), "guards": ()}
    return dataclasses.replace(mechanism, joints=joints, actuators=actuators, initial_q=q, initial_v=v, **without)


def trees() -> Iterator[tuple[str, Mechanism]]:
    """Yield (name, mechanism without other forces) of each robot that URDF can express in joint coordinates."""
    for name in names():
        choice = {"coordinates": "joint"} if "coordinates" in builder(name).__annotations__ else {}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            mechanism = bare(build(name, **choice))
        if mechanism.constraints or mechanism.beams or not mechanism.has_joint_coordinates:
            continue
        yield name, mechanism


ROBOTS = dict(trees())


def test_several_robots_are_trees() -> None:
    assert {"arm_6dof", "charmie", "rotary_pendulum", "triple_pendulum"} <= ROBOTS.keys()


def worst_miss(mechanism: Mechanism, in_pinocchio: Any, states: int) -> float:
    """Largest difference from pinocchio in random states, relative to the largest entry of each matrix."""
    system = assemble(mechanism)
    theirs = in_pinocchio(system)
    pin, places = theirs.pin, np.ix_(theirs.at_v, theirs.at_v)
    worst, random = 0.0, np.random.default_rng(21)
    for q, v, u in random.normal(scale=(3.0, 2.0, 5.0), size=(states, system.n_q, 3)).transpose(0, 2, 1):
        u = u[: system.n_u]
        found = system.derivatives(0.0, q, v, u)
        tau = found.f_u @ u
        pin.computeABADerivatives(theirs.model, theirs.data, theirs.position(q), theirs.given(v), theirs.given(tau))
        upper = np.triu(theirs.data.Minv)
        by_effort = (upper + np.triu(upper, 1).T)[places]
        pairs = (
            (found.a, theirs.data.ddq[theirs.at_v]),
            (found.a_q, theirs.data.ddq_dq[places]),
            (found.a_v, theirs.data.ddq_dv[places]),
            (found.a_u, by_effort @ found.f_u),
        )
        worst = max(worst, *(float(np.abs(a - b).max() / max(np.abs(b).max(), ZERO)) for a, b in pairs))
    return worst


@pytest.mark.parametrize("seed", range(SAMPLED_TREES))
def test_the_derivatives_of_random_trees_are_those_of_pinocchio(
    seed: int, random_tree: Callable[[int], Mechanism], in_pinocchio: Any
) -> None:
    assert worst_miss(bare(random_tree(seed)), in_pinocchio, SAMPLED_STATES) < RELATIVE


@pytest.mark.parametrize("name", ROBOTS)
def test_the_derivatives_of_robots_are_those_of_pinocchio(name: str, in_pinocchio: Any) -> None:
    assert worst_miss(ROBOTS[name], in_pinocchio, SAMPLED_STATES) < RELATIVE


@pytest.mark.soak
def test_the_derivatives_of_many_trees_and_all_robots_are_those_of_pinocchio(
    random_tree: Callable[[int], Mechanism], in_pinocchio: Any
) -> None:
    made = {f"tree {seed}": bare(random_tree(seed)) for seed in range(TREES)} | ROBOTS
    misses = {name: worst_miss(mechanism, in_pinocchio, STATES) for name, mechanism in made.items()}
    print(f"largest difference from pinocchio: {max(misses.values()):.1e}, of {max(misses, key=misses.__getitem__)}")
    assert max(misses.values()) < RELATIVE
