"""The pendulums of the paper on stability measures have the paper's equations."""

from __future__ import annotations

import dataclasses
from math import cos, sin

import numpy as np
import pytest

from robots.registry import build
from sim_core.errors import InvalidMechanism, InvalidRequest
from sim_core.mechanism import Joint
from sim_core.mechanism.validation import validate
from sim_core.system import assemble


def test_the_single_pendulum_is_that_of_the_paper() -> None:
    """phi'' = -sin(phi). [Schiehlen1993, eq. 51]"""
    system = assemble(build("single_pendulum"))
    for angle in (0.3, -2.0, 7.0):
        assert system.acceleration(0.0, [angle], [0.4])[0] == pytest.approx([-sin(angle)], abs=1e-15)


@pytest.mark.parametrize("seed", range(5))
def test_the_double_pendulum_is_that_of_the_paper(seed: int) -> None:
    """M and f over m2 l2^2 with gravity = l2. [Schiehlen1993, eq. 57], with the powers and signs that it misses"""
    random = np.random.default_rng(seed)
    lambda_1, lambda_2, length, mass = random.uniform(0.3, 3.0, 4)
    system = assemble(
        build("double_pendulum", length_1=lambda_2 * length, length_2=length, mass_1=lambda_1 * mass, mass_2=mass,
              gravity=length)
    )  # fmt: skip
    assert system.coordinate_names == ("upper.angle", "lower.angle")
    (a, b), (da, db) = q, v = random.uniform(-3, 3, (2, 2))
    M, f, _, _ = system.terms(0.0, q, v)
    c, s = cos(a - b), sin(a - b)
    unit = mass * length**2
    np.testing.assert_allclose(
        M / unit, [[(1 + lambda_1) * lambda_2**2, lambda_2 * c], [lambda_2 * c, 1.0]], atol=1e-13
    )
    expected = [
        -(1 + lambda_1) * lambda_2 * sin(a) - lambda_2 * s * db**2,
        -sin(b) + lambda_2 * s * da**2,
    ]
    np.testing.assert_allclose(f / unit, expected, atol=1e-12)


def test_absolute_angles_and_joint_coordinates_are_one_motion() -> None:
    absolute, joint = (assemble(build("double_pendulum", coordinates=kind)) for kind in ("absolute_angle", "joint"))
    q, v = np.array([0.7, -1.1]), np.array([0.3, 0.9])
    position, velocity = absolute.joints(0.0, q, v)
    np.testing.assert_allclose(position, [0.7, -1.8])
    np.testing.assert_allclose(velocity, [0.3, 0.6])
    a, b = absolute.acceleration(0.0, q, v)[0], joint.acceleration(0.0, position, velocity)[0]
    np.testing.assert_allclose(a, [b[0], b[0] + b[1]], rtol=1e-13)
    assert absolute.energy(0.0, q, v) == pytest.approx(joint.energy(0.0, position, velocity), rel=1e-13)
    np.testing.assert_allclose(absolute.poses(0.0, q, v)[1], joint.poses(0.0, position, velocity)[1], atol=1e-15)


def test_absolute_angles_are_refused_in_one_line_where_the_axes_differ() -> None:
    plain = build("double_pendulum")
    tilted = dataclasses.replace(plain.joints[1], axis=(0.0, 1.0, 0.0))
    with pytest.raises(InvalidMechanism, match="about one axis, and no beams, but joint 'elbow' has the axis"):
        validate(dataclasses.replace(plain, joints=(plain.joints[0], tilted)))
    sliding = Joint(name="elbow", kind="prismatic", parent="upper", child="lower")
    with pytest.raises(InvalidMechanism, match="joint 'elbow' is prismatic"):
        validate(dataclasses.replace(plain, joints=(plain.joints[0], sliding)))


def test_exports_of_absolute_angles_are_refused_in_one_line() -> None:
    from robots.export import export

    with pytest.raises(
        InvalidRequest, match="'double_pendulum' is in absolute angles; a tree can be exported only from"
    ):
        export(build("double_pendulum"), "urdf")
