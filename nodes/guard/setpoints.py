"""Setpoints of position and velocity servos that follow the commands and can always be stopped inside the envelope."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from nodes.guard.limits import Envelope, Vector

HOLD_S = 0.05  # longest time since a setpoint's last motion that counts for its speed, s
EXACT = 1e-9  # relative rounding of speeds


class Setpoints:
    """Position x and velocity v of the setpoint of each of n joints.

    A setpoint may move only so that braking with `deceleration` keeps the setpoint inside the envelope. When it brakes,
    the setpoint stops at

        s = x + v |v| / (2 deceleration)

    and every point q of the box between x and s must satisfy the inequalities A q <= b of the envelope. Braking
    preserves this condition, so a stop is always possible.

    x         (n,) present positions of the setpoints (rad or m)
    v         (n,) present velocities of the setpoints (rad/s or m/s)
    moved_at  (n,) time of the last motion of each setpoint (s)
    """

    def __init__(self, envelope: Envelope) -> None:
        n = len(envelope.joints)
        self._envelope = envelope
        self.x, self.v, self.moved_at = np.zeros(n), np.zeros(n), np.zeros(n)

    def begin(self, index: int, now: float, x: float, v: float) -> None:
        """Start the setpoint of the joint `index` at position x (rad or m) with velocity v (rad/s or m/s), at the time
        `now` (s).
        """
        self.x[index], self.v[index], self.moved_at[index] = x, v, now - HOLD_S

    def towards(
        self,
        now: float,
        period: float,
        goal: Vector,
        rate: Vector,
        by_position: NDArray[np.bool_],
        moving: NDArray[np.bool_],
        within: tuple[Vector, Vector],
    ) -> tuple[Vector, Vector, Vector, dict[int, str]]:
        """Return the setpoints at the time `now` (s), moved towards the goals.

        The result is (x, v, moved_at, {index of joint: exceeded limit}). x, v and moved_at, each (n,), are new values
        for the attributes of the same names.

        period       time since the previous state (s). A setpoint that reaches the commanded position within all limits
                     moves for the time since its last motion; every other setpoint moves for at most `period`
        goal         (n,) goal of each joint: a position (rad or m) or a velocity (rad/s or m/s)
        rate         (n,) rates of change of the commanded positions (rad/s or m/s)
        by_position  (n,) whether the goal is a position
        moving       (n,) whether the setpoint of the joint moves; the other setpoints stay
        within       (lowest, highest) positions (rad or m) of the setpoints that `tracking_error` permits, (n,) each. A
                     setpoint outside this range stops, but does not move back
        """
        limits = self._envelope
        since = np.clip(now - self.moved_at, 1e-9, HOLD_S)
        step = np.minimum(since, period)
        dt = np.where(by_position, since, step)
        aim = np.where(by_position, np.clip(goal, limits.lower, limits.upper), goal)
        need = np.where(by_position, (aim - self.x) / dt, aim)
        low, high = self._speeds(dt, within)
        rounding = EXACT * (1.0 + np.abs(need))
        passes = (need >= low - rounding) & (need <= high + rounding)
        dt = np.where(passes, dt, step)
        brake = np.minimum(limits.acceleration, limits.deceleration)
        rate = np.clip(np.where(aim == goal, rate, 0.0), -limits.velocity, limits.velocity)
        left = aim - rate * dt - self.x
        # the largest v that leaves a braking distance: v dt + v^2 / (2 d) = |left|
        approach = rate + np.sign(left) * brake * (np.sqrt(dt**2 + 2.0 * np.abs(left) / brake) - dt)
        v = np.where(passes, need, np.clip(np.where(by_position, approach, need), *self._speeds(dt, within)))
        x = np.where(passes & by_position, aim, self.x + v * dt)
        causes = {
            k: self._cause(k, float(need[k]), float(dt[k]), within) for k in np.flatnonzero(moving & ~passes).tolist()
        }
        for k in np.flatnonzero(moving & (aim != goal)).tolist():
            causes[k] = "upper" if goal[k] > aim[k] else "lower"
        x, v = np.where(moving, x, self.x), np.where(moving, v, self.v)
        self._keep_in(x, v, dt, moving, causes)
        return x, v, np.where(moving, now, self.moved_at), causes

    def _speeds(self, dt: Vector, within: tuple[Vector, Vector]) -> tuple[Vector, Vector]:
        """Return the (lowest, highest) permitted velocities of the setpoints after the times dt (n,) in s; (n,) each.

        The velocities are limited such that a setpoint that brakes with `deceleration` stops before each position
        limit.

        within  (lowest, highest) positions that `tracking_error` permits, (n,) each
        """
        limits = self._envelope
        d = limits.deceleration
        up, down = (
            np.maximum(d * (np.sqrt(dt**2 + 2.0 * np.maximum(room, 0.0) / d) - dt), sign * self.v - d * dt)
            for sign, room in (
                (1.0, np.minimum(limits.upper, within[1]) - self.x),
                (-1.0, self.x - np.maximum(limits.lower, within[0])),
            )
        )
        low = np.maximum(self.v - limits.acceleration * dt, -np.minimum(limits.velocity, down))
        high = np.minimum(self.v + limits.acceleration * dt, np.minimum(limits.velocity, up))
        return np.minimum(low, limits.velocity), np.maximum(high, -limits.velocity)

    def _cause(self, joint: int, need: float, dt: float, within: tuple[Vector, Vector]) -> str:
        """Name of the limit that a joint with the velocity `need` (rad/s or m/s) after the time dt (s) would exceed."""
        limits = self._envelope
        room = max(within[1][joint] - self.x[joint] if need > 0.0 else self.x[joint] - within[0][joint], 0.0)
        d = limits.deceleration[joint]
        if d * (np.sqrt(dt**2 + 2.0 * room / d) - dt) < min(abs(need), limits.velocity[joint]):
            return "tracking_error"
        if abs(need) > limits.velocity[joint]:
            return "velocity"
        if abs(need - self.v[joint]) > limits.acceleration[joint] * dt:
            return "acceleration"
        return "upper" if need > 0.0 else "lower"

    def _keep_in(self, x: Vector, v: Vector, dt: Vector, moving: NDArray[np.bool_], causes: dict[int, str]) -> None:
        """Reduce the motion of the setpoints in place, so that braking can keep every inequality A q <= b of the
        envelope.

        If braking could no longer keep an inequality, the joints that move towards its bound share the remaining
        distance. If this distance is not enough, all joints of the inequality brake.

        x, v    (n,) new positions and velocities of the setpoints, which are reduced
        dt      (n,) time for which each setpoint moves (s)
        moving  (n,) whether the setpoint may be changed
        causes  {index of joint: limit that reduced its motion}, to which entries are added
        """
        limits = self._envelope
        if not len(limits.b):
            return
        before = self._farthest(self.x, self.v)
        broken = (self._farthest(x, v) > limits.b + EXACT) & (before <= limits.b + EXACT)
        for row in np.flatnonzero(broken).tolist():
            a, d = limits.A[row], limits.deceleration
            joints = moving & (a * v > 0.0)
            room = max(float(limits.b[row] - a @ self.x), 0.0) / max(int(joints.sum()), 1)
            fastest = d * (np.sqrt(dt**2 + 2.0 * room / np.where(joints, np.abs(a), 1.0) / d) - dt)
            slower = np.maximum(fastest, np.sign(v) * self.v - d * dt)
            joints &= slower < np.abs(v)
            v[joints] = (np.sign(v) * slower)[joints]
            x[joints] = (self.x + v * dt)[joints]
            causes |= dict.fromkeys(np.flatnonzero(joints).tolist(), limits.names[row])
        for _ in range(len(limits.b)):  # braking one joint can only lessen what the others reach
            reach = self._farthest(x, v)
            broken = (reach > limits.b + EXACT) & (reach > before + EXACT)
            joints = moving & (limits.A[broken] != 0.0).any(axis=0)
            braked_v = np.sign(self.v) * np.maximum(np.abs(self.v) - limits.deceleration * dt, 0.0)
            braked_x = self.x + braked_v * dt
            if not joints.any() or (np.array_equal(v[joints], braked_v[joints]) and (x == braked_x)[joints].all()):
                return
            for row in np.flatnonzero(broken).tolist():
                for k in np.flatnonzero(joints & (limits.A[row] != 0.0)).tolist():
                    causes[k] = limits.names[row]
            x[joints], v[joints] = braked_x[joints], braked_v[joints]

    def _farthest(self, x: Vector, v: Vector) -> Vector:
        stop = x + v * np.abs(v) / (2.0 * self._envelope.deceleration)
        return self._envelope.farthest(np.minimum(x, stop), np.maximum(x, stop))

    def braked(self, now: float) -> tuple[Vector, Vector, Vector]:
        """Return the setpoints at the time `now` (s) while all joints brake with `deceleration`.

        The result is (x, v, moved_at), arrays of shape (n,). All entries of moved_at are `now`.
        """
        dt = np.clip(now - self.moved_at, 0.0, HOLD_S)
        v = np.sign(self.v) * np.maximum(np.abs(self.v) - self._envelope.deceleration * dt, 0.0)
        return self.x + v * dt, v, np.full_like(self.moved_at, now)
