"""Model of a robot with tunable masses, the model's inverse dynamics along a motion, and the sensitivities of the
model's efforts.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from nodes.hil.alignment.streams import Floats
from robots.registry import build, with_joint_coordinates
from robots.smoothing import without_bristles
from sim_core.mechanism import Body, Mechanism, Tunable
from sim_core.mechanism.quantities import value_of
from sim_core.system import System, assemble

INERTIA = ("ixx", "iyy", "izz", "ixy", "ixz", "iyz")
MASS_STEP = 1e-3  # relative step of a mass for finite differences; the efforts are linear in it
ANGLE_STEP = 1e-5  # rad or m, for central differences over positions


class NoModelError(ValueError):
    """Raised if a model's efforts along a measured motion cannot be computed, with a one-line reason."""


def model_of(robot: str, parameters: Mapping[str, Any]) -> Mechanism:
    """Mechanism of a robot in joint coordinates.

    Raises NoModelError for an unknown robot, and for a robot with loops or with joints of several coordinates.
    """
    try:
        chosen = {key: value for key, value in parameters.items() if key != "coordinates"}
        mechanism = build(robot, **with_joint_coordinates(robot, chosen))
    except ValueError as error:
        raise NoModelError(str(error)) from None
    if not mechanism.has_joint_coordinates:
        raise NoModelError(
            f"robot {robot!r} has absolute coordinates; the efforts along its joints can be computed only for a robot "
            "in joint coordinates"
        )
    if mechanism.constraints:
        raise NoModelError(
            f"robot {robot!r} has closed loops, through which a report explains no efforts; a fit does: armswing hil "
            "fit RECORDING --params inertia,friction,zero,gain,delay"
        )
    for joint in mechanism.joints:
        if len(joint.coordinates) > 1:
            raise NoModelError(
                f"robot {robot!r}: joint {joint.name!r} is {joint.kind} and has {len(joint.coordinates)} coordinates; "
                "efforts along a motion are compared only for robots whose joints have one coordinate each"
            )
    return without_bristles(mechanism)


def with_open_mass(body: Body, share: float = 1.0) -> Body:
    """A copy of a body whose mass and inertia are the tunables "<body>/mass", "<body>/ixx" and so on.

    share  factor on mass and inertia
    """
    inertia: Any = tuple(
        Tunable(f"{body.name}/{axis}", share * value_of(number))
        for axis, number in zip(INERTIA, body.inertia, strict=True)
    )
    return dataclasses.replace(body, mass=Tunable(f"{body.name}/mass", share * value_of(body.mass)), inertia=inertia)


class Efforts:
    """Inverse dynamics of a model over many samples, and the sensitivities of the efforts by finite differences.

    Samples are q, v, a (n, k): positions in rad or m and their first and second derivatives. Efforts (n, k) along the
    joints are in N m or N.
    """

    def __init__(self, mechanism: Mechanism) -> None:
        self.mechanism = mechanism
        bodies = tuple(with_open_mass(body) for body in mechanism.bodies)
        self.system: System = assemble(dataclasses.replace(mechanism, bodies=bodies))
        self._q, self._v, self._a, self._tau = (np.zeros(self.system.n_q) for _ in range(4))
        self._p = self.system.default_parameters()
        inputs = [np.zeros(1), self._q, self._v, self._a, self._p]
        self._kernel = self.system.bind("inverse_dynamics", inputs, [self._tau])

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the joints, in the order of the columns of q, v, a."""
        return self.system.joint_names

    @property
    def bodies(self) -> list[str]:
        """Names of the bodies with mass."""
        return [body.name for body in self.mechanism.bodies if value_of(body.mass) > 0.0]

    def along(self, q: Floats, v: Floats, a: Floats) -> Floats:
        """Efforts (n, k) along the joints (N m or N) for the motion q, v, a."""
        found = np.empty_like(q)
        for row in range(len(q)):
            self._q[:], self._v[:], self._a[:] = q[row], v[row], a[row]
            self._kernel()
            found[row] = self._tau
        return found

    def per_mass(self, body: str, q: Floats, v: Floats, a: Floats) -> Floats:
        """Derivative (n, k) of the efforts with respect to the relative mass of a body, in N m or N.

        The body's inertia changes in proportion to the mass; the centre of mass is fixed in the body.
        """
        names = self.system.tunable_names
        places = [names.index(f"{body}/{each}") for each in ("mass", *INERTIA)]
        before = self.along(q, v, a)
        kept = self._p.copy()
        self._p[places] *= 1.0 + MASS_STEP
        try:
            return (self.along(q, v, a) - before) / MASS_STEP
        finally:
            self._p[:] = kept

    def per_position(self, joint: int, q: Floats, v: Floats, a: Floats) -> Floats:
        """Derivative (n, k) of the efforts with respect to the position of one joint.

        Velocities and accelerations are unchanged.

        This is the effect of an offset of the joint's encoder.
        """
        step = np.zeros(q.shape[1])
        step[joint] = ANGLE_STEP
        return (self.along(q + step, v, a) - self.along(q - step, v, a)) / (2.0 * ANGLE_STEP)


def actuated(mechanism: Mechanism, names: Sequence[str]) -> list[int]:
    """Indices of the joints that have an actuator."""
    driven = {actuator.joint for actuator in mechanism.actuators}
    return [index for index, name in enumerate(names) if name in driven]
