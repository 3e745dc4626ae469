"""Learns to swing up the rotary pendulum, and is the controller that does it, in simulation and on the robot.

    python launch/examples/learnt_swing_up.py --seed 1 --file swing_up.npz
    armswing launch learnt_swing_up

The policy weighs a few features of the observation: pumping of energy, and deviations from upright rest. The weights
are found by the cross-entropy method: each generation tries random weights, one set per environment, and the next one
draws them around the best.
"""

import argparse
import time

import numpy as np

from armswing.environments import ROTARY_PENDULUM, PolicyNode, VectorEnvironment

SIZE = 7  # weights
TRIED, BEST, STARTS = 96, 12, 4
SECONDS = 5.0  # of an episode
NATURAL = 10.7  # rad/s, of the pendulum


def features(observation):
    """Features (SIZE, n) of the observations (5, n)."""
    arm, cosine, sine, arm_speed, speed = observation
    near = 1.0 / (1.0 + np.exp(-30.0 * (cosine - 0.9)))  # 1 near upright, 0 elsewhere
    missing = 1.0 - 0.5 * (speed / NATURAL) ** 2 - cosine  # energy up to upright rest, in units of the weight's moment
    pump = missing * np.tanh(-2.0 * cosine * speed)
    far = 1.0 - near
    return np.stack(
        [
            far * pump,
            far * arm,
            far * 0.1 * arm_speed,
            near * arm,
            near * 4.0 * sine,
            near * 0.3 * arm_speed,
            near * 0.4 * speed,
        ]
    )


def act(weights, observation):
    """Actions (1, n) of n policies with the weights (SIZE, n) for the observations (5, n)."""
    return np.tanh((weights * features(observation)).sum(axis=0, keepdims=True))


class Policy(PolicyNode):
    """Torque of the arm by the learnt weights."""

    task = ROTARY_PENDULUM
    shape = (SIZE,)

    def act(self, weights, observation):
        return act(weights[:, None], observation[:, None])[:, 0]


def either(random):
    """Start of an episode of training: near upright, or hanging."""
    angle = np.pi + random.uniform(-0.25, 0.25) if random.random() < 0.5 else random.uniform(-0.1, 0.1)
    return np.array([random.uniform(-0.3, 0.3), angle]), random.uniform(-0.5, 0.5, 2)


def returns(env, weights, seeds):
    """Sum of rewards (n,) of an episode of each policy, and whether its pendulum stood for the last second (n,)."""
    observation, _ = env.reset(seed=seeds)
    total, alive, stood = np.zeros(env.num_envs), np.ones(env.num_envs, dtype=bool), np.zeros(env.num_envs, dtype=int)
    for _ in range(env.task.actions_per_episode):
        observation, reward, terminated, _, _ = env.step(act(weights, observation.T).T)
        total += np.where(alive, reward, 0.0)
        alive &= ~terminated
        stood = np.where(alive & (observation[:, 1] > 0.98), stood + 1, 0)
    return total, stood >= 100


def train(seed, generations=200, say=print):
    """Weights (SIZE,) with which the pendulum stands after ten starts out of ten, or the best after all generations."""
    random = np.random.default_rng(seed)
    env = VectorEnvironment(ROTARY_PENDULUM, TRIED * STARTS, duration_s=SECONDS, start=either)
    judge = VectorEnvironment(ROTARY_PENDULUM, 10, duration_s=SECONDS)
    mean, spread, began = np.zeros(SIZE), np.full(SIZE, 2.0), time.process_time()
    for generation in range(1, generations + 1):
        weights = mean[:, None] + spread[:, None] * random.standard_normal((SIZE, TRIED))
        seeds = np.repeat(random.integers(2**31, size=STARTS), TRIED).tolist()
        total = returns(env, np.tile(weights, STARTS), seeds)[0].reshape(STARTS, TRIED).mean(axis=0)
        best = weights[:, np.argsort(total)[-BEST:]]
        mean, spread = best.mean(axis=1), 0.5 * spread + 0.5 * (best.std(axis=1) + 0.1)
        judged, stands = returns(judge, np.tile(mean[:, None], 10), list(range(10)))
        spent = time.process_time() - began
        say(f"generation {generation}: return {judged.mean():.1f}, {stands.sum()} of 10 stand, {spent:.1f} s")
        if stands.all():
            break
    return mean


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--file", default="swing_up.npz")
    options = parser.parse_args()
    np.savez(options.file, weights=train(options.seed))
