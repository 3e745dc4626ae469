"""Records the range of each joint's motion, to report afterwards which joints left their limits or were too fast."""

from __future__ import annotations

from typing import Any

import numpy as np

from sim_core.kernels.bound import BoundKernel
from sim_core.mechanism import Mechanism
from sim_core.servos.kernels import widen

TOLERANCE = 0.01  # fraction of a joint's range: a servo that holds a joint at its limit oscillates about the limit
OVERSHOOT = 0.1  # fraction of a velocity limit: a servo that moves at the limit overshoots it


class JointLimitMonitor:
    """Smallest and largest position and velocity of each joint over the states since the last reset or restore.

    position, velocity  arrays of the present joint positions (rad or m) and velocities (rad/s or m/s)
    update              kernel that updates the ranges from `position` and `velocity`
    """

    def __init__(self, mechanism: Mechanism, position: np.ndarray, velocity: np.ndarray) -> None:
        self._joints = mechanism.moving_joints
        self._velocity_limits = {a.joint: a.velocity_limit for a in mechanism.actuators if a.velocity_limit is not None}
        n = len(self._joints)
        self._lowest, self._highest, self._backward, self._forward = np.zeros((4, n))
        size = np.array([n], dtype=float)
        positions = BoundKernel(widen.address, [size, position], [self._lowest, self._highest])
        velocities = BoundKernel(widen.address, [size, velocity], [self._backward, self._forward])
        self.update = BoundKernel.in_turn([positions, velocities]) if self._velocity_limits else positions
        self.clear()

    def clear(self) -> None:
        """Empty the recorded ranges of all joints."""
        self._lowest[:], self._highest[:] = np.inf, -np.inf
        self._backward[:], self._forward[:] = 0.0, 0.0

    def to_plain(self) -> dict[str, dict[str, Any]]:
        """{joint: table} of the joints that left their limits.

        A table has the joint's farthest position beyond a limit, both limits (None: no limit) and the unit.
        """
        found: dict[str, dict[str, Any]] = {}
        for joint, lowest, highest in zip(self._joints, self._lowest.tolist(), self._highest.tolist(), strict=True):
            lower, upper = joint.lower, joint.upper
            spread = 1.0 if lower is None or upper is None else upper - lower
            below = -np.inf if lower is None else lower - lowest
            above = -np.inf if upper is None else highest - upper
            if max(below, above) > TOLERANCE * spread:
                farthest = highest if above > below else lowest
                found[joint.name] = {"position": farthest, "lower": lower, "upper": upper, "unit": joint.unit}
        return found

    def too_fast(self) -> dict[str, dict[str, Any]]:
        """{joint: table} of the joints that moved faster than the velocity limit of an actuator.

        A table has the joint's largest speed, the velocity limit and the unit. Speeds up to OVERSHOOT above the limit
        are left out.
        """
        found: dict[str, dict[str, Any]] = {}
        for joint, backward, forward in zip(self._joints, self._backward.tolist(), self._forward.tolist(), strict=True):
            speed, limit = max(-backward, forward), self._velocity_limits.get(joint.name)
            if limit is not None and speed > (1.0 + OVERSHOOT) * limit:
                found[joint.name] = {"speed": speed, "limit": limit, "unit": f"{joint.unit}/s"}
        return found
