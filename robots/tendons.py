"""Laws of custom forces: tendons over joints or along points, and constant forces."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from robots.smoothing import DEFAULT
from robots.stops import EXPONENT
from sim_core.mechanism import LawInputs

NOTHING = 1e-15  # m: length of a segment below which its direction is undetermined


@dataclass(frozen=True)
class Pull:
    """Generalized force of a tendon as a function of its length L, m or rad, and its velocity.

    spring   coefficients a, b, c of the force -(a x + b x^2 + c x^3) at the distance x of L from the range `rest`
    damping  coefficients a, b, c of the force -(a v + b v |v| + c v^3)
    friction, smoothing
             dry friction, the force -friction tanh(v / smoothing)
    lower, upper, stiffness, dissipation
             range of the length beyond which a compliant stop acts, as in JointStops
    """

    spring: tuple[float, ...] = (0.0, 0.0, 0.0)
    rest: tuple[float, float] = (0.0, 0.0)
    damping: tuple[float, ...] = (0.0, 0.0, 0.0)
    friction: float = 0.0
    smoothing: float = DEFAULT
    lower: float = -np.inf
    upper: float = np.inf
    stiffness: float = 0.0
    dissipation: float = 0.0

    @property
    def is_linear(self) -> bool:
        """Whether the force is that of one linear spring and damper."""
        higher = any(self.spring[1:]) or any(self.damping[1:])
        return not higher and self.rest[0] == self.rest[1] and self.stiffness == 0.0 and self.friction == 0.0

    def force(self, length: Any, velocity: Any) -> Any:
        """Force that lengthens the tendon, N or N m, as a CasADi expression."""
        import casadi as ca

        x = ca.fmax(length - self.rest[1], 0.0) + ca.fmin(length - self.rest[0], 0.0)
        a, b, c = self.spring
        found = -(a * x + b * x**2 + c * x**3)
        a, b, c = self.damping
        found -= a * velocity + b * velocity * ca.fabs(velocity) + c * velocity**3
        if self.friction > 0.0:
            found -= self.friction * ca.tanh(velocity / self.smoothing)
        for bound, sign in ((self.upper, 1.0), (self.lower, -1.0)):
            if self.stiffness > 0.0 and np.isfinite(bound):
                depth = ca.fmax(sign * (length - bound), 0.0)
                rate = ca.fmax(1.0 + 1.5 * self.dissipation * sign * velocity, 0.0)
                found -= sign * self.stiffness * depth**EXPONENT * rate
        return found


@dataclass(frozen=True)
class OnJoints:
    """Law of a fixed tendon: its length is the sum of factor * position over the joints in `terms`.

    input  (name of the actuator whose command pulls the tendon, force per command) of each such actuator
    """

    pull: Pull
    terms: tuple[tuple[str, float], ...]
    inputs: tuple[tuple[str, float], ...] = ()

    def __call__(self, given: LawInputs) -> Mapping[str, Any]:
        length = sum(factor * given.position[name] for name, factor in self.terms)
        velocity = sum(factor * given.velocity[name] for name, factor in self.terms)
        force = self.pull.force(length, velocity) + sum(factor * given.input[name] for name, factor in self.inputs)
        found: dict[str, Any] = {}
        for name, factor in self.terms:
            found[name] = found.get(name, 0.0) + factor * force
        return found


@dataclass(frozen=True)
class AlongPoints:
    """Law of a spatial tendon: its length is the sum of the distances of the points in `segments`, each divided by its
    divisor.

    segments  (name of a point, name of the next one, divisor)
    inputs    (name of the actuator whose command pulls the tendon, force per command) of each such actuator
    """

    pull: Pull
    segments: tuple[tuple[str, str, float], ...]
    inputs: tuple[tuple[str, float], ...] = ()

    def __call__(self, given: LawInputs) -> Mapping[str, Any]:
        import casadi as ca

        length, velocity, pulls = 0.0, 0.0, dict[str, Any]()
        for a, b, divisor in self.segments:
            along = given.point[b] - given.point[a]
            distance = ca.fmax(ca.norm_2(along), NOTHING)
            unit = along / distance / divisor
            length = length + distance / divisor
            velocity = velocity + ca.dot(unit, given.point_velocity[b] - given.point_velocity[a])
            pulls[a] = pulls.get(a, 0.0) - unit
            pulls[b] = pulls.get(b, 0.0) + unit
        force = self.pull.force(length, velocity) + sum(factor * given.input[name] for name, factor in self.inputs)
        return {name: force * pull for name, pull in pulls.items()}


@dataclass(frozen=True)
class Weights:
    """Law of constant forces along the world's axes, N, each on a point."""

    forces: tuple[tuple[str, tuple[float, float, float]], ...]

    def __call__(self, given: LawInputs) -> Mapping[str, Any]:
        import casadi as ca

        return {name: ca.SX(list(force)) for name, force in self.forces}
