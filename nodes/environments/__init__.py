"""Gymnasium environments of robots: many systems on vector lanes, or each as a Simulation.

import gymnasium
env = gymnasium.make_vec("armswing.environments:armswing/rotary_pendulum-v0", num_envs=64)
"""

from typing import Any

import gymnasium

from nodes.environments.environment import Environment, VectorEnvironment
from nodes.environments.policy import PolicyNode
from nodes.environments.task import Motion, Task
from nodes.environments.tasks.rotary_pendulum import TASK as ROTARY_PENDULUM

__all__ = ["ROTARY_PENDULUM", "Environment", "Motion", "PolicyNode", "Task", "VectorEnvironment", "register"]


def register(name: str, task: Task) -> None:
    """Register a task with Gymnasium, so that `gymnasium.make` and `gymnasium.make_vec` find it by its name.

    name  such as "my_project/my_robot-v0"
    """
    points: dict[str, Any] = {"entry_point": Environment, "vector_entry_point": VectorEnvironment}
    gymnasium.register(name, **points, kwargs={"task": task})


register("armswing/rotary_pendulum-v0", ROTARY_PENDULUM)
