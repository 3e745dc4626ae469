"""Checks whether the measured motion can still be stopped inside the envelope."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from nodes.guard.limits import Envelope, Vector


def violation(
    envelope: Envelope,
    delay_s: float,
    position: Vector,
    velocity: Vector,
    by_effort: NDArray[np.bool_],
    free: NDArray[np.bool_],
) -> tuple[str, str]:
    """Find a limit that a stop begun now would exceed by more than its margin.

    Returns (name of the limit, line of text), or ("", "") if the stop would exceed no limit. First the velocities are
    checked: the result names the first joint that is faster than its limit. Then the inequalities A p <= b of the
    envelope are checked at the positions p that the stop can reach: the result names the inequality that is exceeded
    most.

    A joint with the position q and the velocity v first moves on for the delay T with the acceleration a, and then
    brakes with its deceleration d. In mode effort a is the joint's free acceleration, otherwise 0. In the positive
    direction it reaches at most

        q + max(v, 0) T + a T^2 / 2 + max(v + a T, 0)^2 / (2 d)

    A joint that nobody has commanded yet may fall until the stop takes effect. It is therefore stopped at its limit of
    the velocity, and at half of its margin of the position: the rest of its margins is left for the fall.

    envelope            limits, decelerations and free accelerations of the joints
    delay_s             delay T, s, before a stop begins
    position, velocity  (n,) measured motion of the joints
    by_effort           (n,) whether the joint is commanded by efforts
    free                (n,) whether the joint was not commanded yet
    """
    a = np.where(by_effort, envelope.free_acceleration, 0.0)
    drift = 0.5 * a * delay_s**2
    brake = 2.0 * envelope.deceleration
    up = np.maximum(velocity, 0.0) * delay_s + drift + np.maximum(velocity + a * delay_s, 0.0) ** 2 / brake
    down = np.maximum(-velocity, 0.0) * delay_s + drift + np.maximum(a * delay_s - velocity, 0.0) ** 2 / brake
    fast = np.abs(velocity) + a * delay_s > envelope.velocity + np.where(free, 0.0, envelope.velocity_margin)
    if fast.any():
        k = int(fast.argmax())
        line = f"{envelope.joints[k]} moves at {velocity[k]:.4g}, limit {envelope.velocity[k]:.4g}"
        return f"velocity of {envelope.joints[k]}", line
    reach = envelope.farthest(position - down, position + up)
    slack = np.abs(envelope.A) @ np.where(free, 0.5 * envelope.margin, envelope.margin)
    excess = reach - envelope.b - slack
    if (excess > 0.0).any():
        row = int(excess.argmax())
        now, end, limit = (
            envelope.value_text(row, value)
            for value in (float(envelope.A[row] @ position), reach[row], envelope.b[row])
        )
        return envelope.names[row], f"{envelope.names[row]}: a stop from {now} would reach {end}, limit {limit}"
    return "", ""
