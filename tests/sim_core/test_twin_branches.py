"""Two branches of equal structure share vector instructions, although the parts on them are mounted differently."""

from __future__ import annotations

import math
import tracemalloc

import casadi as ca
import numpy as np
import pytest

from sim_core.derivation.coordinates.tree import tree_of
from sim_core.derivation.equations import Derivation, derive
from sim_core.derivation.symbols import symbols_for
from sim_core.inverse import inverse_dynamics
from sim_core.kernels.bound import BoundKernel
from sim_core.kernels.emit import module_of
from sim_core.kernels.machine_code import native
from sim_core.kernels.order import units_of
from sim_core.kernels.pairing import paired
from sim_core.kernels.program import LIFTED, program_of
from sim_core.mechanism import Body, Joint, Mechanism, X, Y, Z
from sim_core.spatial import rotation_about
from sim_core.system import assemble

COUNTED = {"fadd", "fsub", "fmul"}


def figure(right_hand: float, right_plate: float = 0.0) -> Mechanism:
    """A torso with two arms of two links, each with a plate and a hand, and on the hand a thumb and a finger.

    The joint of the thumb has another axis than that of the finger, and is the first on the left only.

    right_hand, right_plate  angles, rad, by which the right hand and the right plate are turned about the arm
    """
    bodies = [solid("torso", 5.0)]
    joints = [Joint(name="waist", child="torso", axis=Z)]
    for side, sign, hand, plate in (("left", 1, 0.0, 0.0), ("right", -1, right_hand, right_plate)):
        arm, end = f"{side}_upper", f"{side}_lower"
        bodies += [
            solid(arm, 1.0 + 0.1 * sign),
            solid(end, 0.7),
            solid(f"{side}_plate", 0.1),
            solid(f"{side}_hand", 0.3),
        ]
        joints += [
            Joint(name=f"{side}_shoulder", parent="torso", child=arm, parent_point=(0.05, 0.2 * sign, 0.4), axis=X),
            Joint(name=f"{side}_elbow", parent=arm, child=end, parent_point=(0.01, 0.02, -0.3), axis=Y),
            fixed(f"{side}_bolt", end, f"{side}_plate", plate),
            fixed(f"{side}_wrist", end, f"{side}_hand", hand),
        ]
        for finger, axis in (("thumb", Y), ("finger", X))[::sign]:
            bodies.append(solid(f"{side}_{finger}", 0.02))
            joints.append(
                Joint(
                    name=f"{side}_{finger}_joint",
                    parent=f"{side}_hand",
                    child=f"{side}_{finger}",
                    parent_point=(0.0, 0.03, -0.05),
                    axis=axis,
                )
            )
    rest = (0.0,) * 9
    parts = {"bodies": tuple(bodies), "joints": tuple(joints), "initial_q": rest, "initial_v": rest}
    return Mechanism(name="figure", coordinates="joint", **parts)  # type: ignore[arg-type]


def solid(name: str, mass: float) -> Body:
    return Body(
        name=name,
        mass=mass,
        center_of_mass=(0.01, 0.02, -0.1),
        inertia=(0.02 * mass, 0.03 * mass, 0.025 * mass, 1e-3 * mass, 2e-3 * mass, -1e-3 * mass),
    )


def fixed(name: str, parent: str, child: str, angle: float) -> Joint:
    turn = np.array(ca.DM(rotation_about(Z, angle)))
    rows = tuple(tuple(float(value) for value in row) for row in turn)
    return Joint(name=name, kind="fixed", parent=parent, child=child, parent_point=(0, 0, -0.25), rotation=rows)


def shared_part(derivation: Derivation, kernel: str) -> float:
    """Part of a kernel's sums and products that one instruction computes for both branches."""
    program, pairs = paired(program_of(derivation.functions[kernel]), derivation.twins)
    kept = [unit for unit in units_of(program, pairs) if len(unit) == 2 and program.nodes[unit[0]].op in COUNTED]
    return 2 * len(kept) / sum(node.op in COUNTED for node in program.nodes)


CASES = [(0.0, 0.0), (0.0, math.pi), (math.pi, 0.0), (math.pi, math.pi / 2), (3.14159265358, 1.57), (0.3, 0.4)]


@pytest.mark.parametrize(("hand", "plate"), CASES)
def test_all_joints_of_two_arms_are_twins_however_the_hands_are_mounted(hand: float, plate: float) -> None:
    derivation = derive(figure(hand, plate))
    assert sorted(derivation.twins["q"]) == [(1, 5), (2, 6), (3, 8), (4, 7)]
    assert shared_part(derivation, "inverse_dynamics") > 0.6


@pytest.mark.parametrize(("hand", "plate"), CASES)
def test_kernels_with_twins_give_the_numbers_of_kernels_without(hand: float, plate: float) -> None:
    derivation = derive(figure(hand, plate))
    random = np.random.default_rng(5)
    for name in ("inverse_dynamics", "default.forward_dynamics", "default.terms"):
        function = derivation.functions[name]
        given = [k for k in range(function.n_in()) if function.name_in(k) != LIFTED]
        inputs = [random.normal(size=function.numel_in(k)) for k in given]
        plain, shared = (results(name, function, inputs, twins) for twins in ({}, derivation.twins))
        for a, b in zip(plain, shared, strict=True):
            assert np.abs(a - b).max(initial=0.0) <= 1e-12 * max(1.0, np.abs(a).max(initial=0.0))


def results(name: str, function: ca.Function, inputs: list[np.ndarray], twins: dict) -> list[np.ndarray]:  # type: ignore[type-arg]
    symbol = native.symbol_name(*name.split("."))
    library = native.linked(module_of({name: function}, twins), [symbol])
    kept = [k for k in range(function.n_out()) if function.name_out(k) != "lifted_values"]
    out = [np.full(max(function.numel_out(k), 1), np.nan) for k in kept]
    BoundKernel(library.addresses[symbol], inputs, out, library)()
    return [array[: function.numel_out(k)] for k, array in zip(kept, out, strict=True)]


def test_a_hand_turned_by_a_whole_turn_changes_no_motion() -> None:
    """A rotation by 2 pi has the rounding of its sine, 2e-16, in places where the other hand has zeros."""
    straight, turned = (assemble(figure(hand)) for hand in (0.0, 2 * math.pi))
    random = np.random.default_rng(6)
    q, v, a = (random.normal(size=straight.n_q) for _ in range(3))
    efforts = [inverse_dynamics(system, q, v, a).copy() for system in (straight, turned)]
    np.testing.assert_allclose(efforts[1], efforts[0], rtol=0, atol=1e-13)


def serial_chain(n_links: int) -> Mechanism:
    """A chain of links, each with a revolute joint, whose axes alternate."""
    names = [f"link_{k}" for k in range(n_links)]
    joints = [
        Joint(name=f"joint_{k}", parent=parent, child=child, parent_point=(0.0, 0.0, -0.2), axis=(X, Y, Z)[k % 3])
        for k, (parent, child) in enumerate(zip(["ground", *names], names, strict=False))
    ]
    bodies, rest = tuple(solid(name, 0.5) for name in names), (0.0,) * n_links
    return Mechanism(
        name="chain", coordinates="joint", bodies=bodies, joints=tuple(joints), initial_q=rest, initial_v=rest
    )


def test_memory_of_the_search_for_twin_branches_grows_with_the_links_of_a_chain_and_no_faster() -> None:
    peaks = []
    for n_links in (9, 18):  # a description that nests those of the following links doubles per link
        mechanism = serial_chain(n_links)
        symbols = symbols_for(mechanism, n_links)
        tracemalloc.start()
        tree_of(mechanism, symbols)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 3.0 * peaks[0]
