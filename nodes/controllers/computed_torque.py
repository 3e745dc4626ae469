"""Computed-torque control: with inverse dynamics, each joint's error behaves like an uncoupled linear oscillator."""

from __future__ import annotations

import math

import msgspec

from nodes.controllers.model import ModelController, ModelParams, for_each
from nodes.controllers.tracking import Vector


class ComputedTorqueParams(ModelParams, frozen=True, kw_only=True):
    """Bandwidth and damping ratio of the error dynamics.

    damping_ratio  damping ratio of each joint's error; 1 is critical damping
    """

    bandwidth: list[float] = msgspec.field(default_factory=lambda: [20.0])  # rad/s, one for all or one per joint
    damping_ratio: float = 1.0


class ComputedTorque(ModelController):
    """Computed-torque control: tau = ID(q, v, a* + 2 zeta w (v* - v) + w^2 (q* - q)), with inverse dynamics ID.

    q*, v* and a* are the reference, w is the bandwidth and zeta the damping ratio. A joint that this controller does
    not drive is assumed to follow the acceleration of its reference. Without a reference, this acceleration is zero.
    """

    Params = ComputedTorqueParams

    def gains(self, params: ComputedTorqueParams, n: int) -> None:
        """Set stiffness w^2 and damping 2 zeta w from the parameters, for n joints."""
        if not (math.isfinite(params.damping_ratio) and params.damping_ratio >= 0.0):
            raise ValueError(f"damping_ratio is {params.damping_ratio}; it must be a number of at least 0")
        w = for_each(params.bandwidth, n, "bandwidth", "rad/s")
        self._stiffness, self._damping = w * w, 2.0 * params.damping_ratio * w

    def _effort(self, position: Vector, velocity: Vector, acceleration: Vector) -> Vector:
        mine = self._model.indices
        a = self._inverse.a
        a[:] = acceleration
        a[mine] += self._stiffness * (position - self._q)[mine] + self._damping * (velocity - self._v)[mine]
        self._inverse()
        return self._inverse.tau
