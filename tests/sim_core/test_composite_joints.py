"""Joints of several coordinates, and a free body: closed forms."""

from __future__ import annotations

import dataclasses
import math
from typing import Any, cast

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.spatial.transform import Rotation
from scipy.special import ellipj

from sim_core.errors import InvalidMechanism
from sim_core.mechanism import (
    Body,
    Coincidence,
    Joint,
    Mechanism,
    X,
    Y,
    Z,
    cylindrical_joint,
    screw_joint,
    universal_joint,
)
from sim_core.mechanism.joints import FREEDOMS, Freedom
from sim_core.simulation import Simulation
from sim_core.system import assemble

MASS, INERTIA, GRAVITY = 0.5, 1e-4, 9.81


def nut(pitch: float | None) -> Mechanism:
    made = cylindrical_joint("nut", "ground", "nut") if pitch is None else screw_joint("nut", "ground", "nut", pitch)
    body = Body(name="nut", mass=MASS, inertia=(INERTIA, INERTIA, INERTIA, 0, 0, 0))
    return Mechanism(
        name="lead",
        coordinates="joint",
        bodies=(*made.bodies, body),
        joints=made.joints,
        constraints=made.constraints,
        initial_q=(0.0, 0.0),
        initial_v=(0.0, 3.0 if pitch is None else 0.0),
    )


def test_a_nut_runs_down_a_screw_with_the_acceleration_of_its_pitch() -> None:
    pitch = 0.01
    sim = Simulation(assemble(nut(pitch)), step_s=1e-3)
    sim.advance(1.0)
    slide, turn = sim.readings.motion()[0]
    assert turn == pytest.approx(-0.5 * MASS * GRAVITY * pitch / (INERTIA + MASS * pitch**2), rel=1e-9)
    assert slide == pytest.approx(pitch * turn, rel=1e-9)
    assert abs(sim.energy_ledger.departure) < 1e-9


def test_an_entry_of_the_table_of_kinds_is_a_joint(monkeypatch: pytest.MonkeyPatch) -> None:
    freedom = Freedom(slides=lambda axis: (axis,), turns=True, endings=("slide", "turn"))
    monkeypatch.setitem(FREEDOMS, cast(Any, "cylindrical"), freedom)
    joint = Joint(name="nut", kind=cast(Any, "cylindrical"), child="nut")
    alone = dataclasses.replace(nut(None), bodies=nut(None).bodies[-1:], joints=(joint,))
    object.__setattr__(alone, "is_valid", True)  # `kind` is annotated with the shipped kinds
    composed, entry = assemble(nut(None)), assemble(alone)
    assert entry.coordinate_names == ("nut.slide", "nut.turn")
    for one, other in zip(
        entry.terms(0.0, [0.3, 0.4], [1.0, 2.0]), composed.terms(0.0, [0.3, 0.4], [1.0, 2.0]), strict=True
    ):
        assert one == pytest.approx(other, abs=1e-12)


def test_a_cylindrical_joint_falls_and_turns_independently() -> None:
    sim = Simulation(assemble(nut(None)), step_s=1e-3)
    sim.advance(0.5)
    assert sim.readings.motion()[0] == pytest.approx([-0.5 * GRAVITY * 0.25, 1.5], rel=1e-10)


def test_a_universal_joint_has_the_unequal_speeds_of_hooke() -> None:
    """Shafts at an angle beta, the driven fork across the plane of both: tan b = tan a / cos beta for the angles."""
    beta, speed = 0.5, 2.0
    along = (math.sin(beta), 0.0, math.cos(beta))
    tilt = Rotation.from_rotvec([0.0, beta, 0.0])
    drive = Body(name="drive", mass=1.0, inertia=(1e3, 1e3, 1e3, 0, 0, 0))  # a flywheel
    driven = Body(name="driven", mass=0.1, inertia=(1e-6, 1e-6, 1e-6, 0, 0, 0))
    joint = universal_joint("hooke", "drive", "driven", axes=(X, Y))
    e1, e2 = tilt.apply(X), tilt.apply(Y)
    guide = Coincidence(
        name="bearing",
        body_a="driven",
        point_a=(0.0, 0.0, 1.0),
        body_b="ground",
        point_b=along,
        directions=(tuple(e1 / np.linalg.norm(e1)), tuple(e2)),
    )
    mechanism = Mechanism(
        name="shafts",
        coordinates="joint",
        bodies=(drive, *joint.bodies, driven),
        joints=(Joint(name="shaft", child="drive", axis=Z), *joint.joints),
        constraints=(guide,),
        gravity=(0.0, 0.0, 0.0),
        initial_q=(0.0, 0.0, beta),
        initial_v=(speed, 0.0, 0.0),
    )
    sim = Simulation(assemble(mechanism), step_s=1e-3, assemble_start=True)
    for _ in range(10):
        sim.advance(0.1)
        _, turned = sim.system.poses(sim.time, sim.state.q, sim.state.v)
        # the second axis is fixed to the driven shaft; its angle about that shaft, from the position at the start
        fork = tilt.inv().apply(turned[2] @ Y)
        driven_angle = math.atan2(-fork[0], fork[1])
        a = float(sim.state.q[0])
        assert math.tan(driven_angle) == pytest.approx(math.tan(a) / math.cos(beta), rel=1e-8)


def test_a_free_body_turns_as_eulers_top_for_a_minute() -> None:
    """Elliptic functions for the angular velocity, quadrature for the precession about the angular momentum."""
    I1, I2, I3 = 1.0, 2.0, 2.6
    w0 = np.array([1.2, 0.0, 1.6])  # 2 rad/s
    momentum0 = np.array([I1, I2, I3]) * w0
    L2, E2 = float(momentum0 @ momentum0), float(momentum0 @ w0)
    L = math.sqrt(L2)
    assert L2 > E2 * I2
    pace = math.sqrt((I3 - I2) * (L2 - E2 * I1) / (I1 * I2 * I3))
    m = (I2 - I1) * (E2 * I3 - L2) / ((I3 - I2) * (L2 - E2 * I1))
    second = math.sqrt((E2 * I3 - L2) / (I2 * (I3 - I2)))

    def velocity(t: float) -> np.ndarray:
        sn, cn, dn, _ = ellipj(pace * t, m)
        return np.array([w0[0] * cn, second * sn, w0[2] * dn])

    def precession(t: float) -> float:
        w = velocity(t)
        a, b = I1 * w[0], I2 * w[1]
        return L * (w[0] * a + w[1] * b) / (a * a + b * b)

    def attitude(t: float, phi: float) -> Rotation:
        """World z along the angular momentum."""
        a, b, c = np.array([I1, I2, I3]) * velocity(t) / L
        return Rotation.from_euler("ZXZ", [phi, math.acos(c), math.atan2(a, b)])

    x, y, z, s = attitude(0.0, 0.0).as_quat()
    e = np.array([s, x, y, z])
    rate = 0.5 * np.array([-e[1:] @ w0, *(e[0] * w0 + np.cross(e[1:], w0))])
    top = Body(name="top", mass=1.0, inertia=(I1, I2, I3, 0, 0, 0), orientation="euler_parameters")
    mechanism = Mechanism(
        name="top",
        coordinates="absolute",
        bodies=(top,),
        gravity=(0.0, 0.0, 0.0),
        initial_q=(0.0, 0.0, 0.0, *e),
        initial_v=(0.0, 0.0, 0.0, *rate),
    )
    sim = Simulation(assemble(mechanism), step_s=1e-3)
    before = sim.energy()
    sim.advance(60.0)
    phi = sum(quad(precession, k, k + 1.0, epsabs=1e-13, epsrel=1e-13)[0] for k in range(60))
    found = Rotation.from_matrix(sim.system.poses(sim.time, sim.state.q, sim.state.v)[1][0])
    assert (found.inv() * attitude(60.0, phi)).magnitude() < 1e-8
    assert sim.energy() / before == pytest.approx(1.0, abs=1e-9)
    assert np.linalg.norm(sim.state.q[3:]) == pytest.approx(1.0, abs=1e-12)


def test_a_universal_joint_with_axes_that_are_not_perpendicular_is_refused() -> None:
    with pytest.raises(InvalidMechanism, match=r"universal joint 'hooke': its axes .* are not perpendicular"):
        universal_joint("hooke", "drive", "driven", axes=(X, (0.6, 0.8, 0.0)))
