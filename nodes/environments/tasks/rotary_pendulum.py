"""Swing-up of the rotary pendulum: the task of the environment armswing/rotary_pendulum-v0."""

from __future__ import annotations

import numpy as np

from nodes.environments.task import Motion, Task

MOST_TURN = 2.0 * np.pi  # rad, of the arm
MOST_SPEED = 100.0  # rad/s, of both joints
Array = np.ndarray


def observe(motion: Motion) -> Array:
    """Angle of the arm, cosine and sine of the pendulum's angle from upright, and both velocities: (5, n)."""
    arm, pendulum = motion.q
    return np.stack([arm, -np.cos(pendulum), -np.sin(pendulum), *motion.v])


def reward(motion: Motion, actions: Array) -> Array:
    """1 upright at rest with the arm at 0, less for every deviation and effort: (n,)."""
    arm, pendulum = motion.q
    upright = 0.5 - 0.5 * np.cos(pendulum)
    cost = 0.02 * arm**2 + 1e-3 * motion.v[0] ** 2 + 4e-3 * motion.v[1] ** 2 * upright**2 + 0.01 * actions[0] ** 2
    return np.asarray(upright - cost)


def start(random: np.random.Generator) -> tuple[Array, Array]:
    """Hanging, at rest, up to 0.1 rad away from the zero position."""
    return random.uniform(-0.1, 0.1, 2), np.zeros(2)


def fails(motion: Motion) -> Array:
    """Whether the arm is beyond one turn, or a joint is too fast: (n,)."""
    fast = np.abs(motion.v) > MOST_SPEED
    return np.asarray((np.abs(motion.q[0]) > MOST_TURN) | fast[0] | fast[1])


TASK = Task(
    robot="rotary_pendulum",
    parameters={"coordinates": "joint", "start_deg": 0.0, "torque_limit": 0.05},
    observe=observe,
    reward=reward,
    start=start,
    fails=fails,
    limits=(10.0, 1.0, 1.0, 1e3, 1e3),
    duration_s=8.0,
)
