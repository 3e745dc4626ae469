"""Records the range of each joint's motion, to report afterwards which joints left their limits."""

from __future__ import annotations

from typing import Any

import numpy as np

from sim_core.kernels.bound import BoundKernel
from sim_core.mechanism import Mechanism
from sim_core.servos.kernels import widen

TOLERANCE = 0.01  # fraction of a joint's range: a servo that holds a joint at its limit oscillates about the limit


class JointLimitMonitor:
    """Smallest and largest position of each joint, rad or m, over the states since the last reset or restore.

    position  array of the present joint positions
    update    kernel that updates the ranges from `position`
    """

    def __init__(self, mechanism: Mechanism, position: np.ndarray) -> None:
        self._joints = mechanism.moving_joints
        n = len(self._joints)
        self._lowest, self._highest = np.zeros((2, n))
        given = [np.array([n], dtype=float), position]
        self.update = BoundKernel(widen.address, given, [self._lowest, self._highest])
        self.clear()

    def clear(self) -> None:
        """Empty the recorded ranges of all joints."""
        self._lowest[:], self._highest[:] = np.inf, -np.inf

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
