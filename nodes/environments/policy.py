"""Node that sends the actions of a learnt policy, for the task that the policy was trained for."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import msgspec
import numpy as np

from nodes.environments.task import Motion, Task
from nodes.framework.messages import JointCommand, Message, RobotState
from nodes.framework.plan.launch_plan import Plan
from nodes.node import Context, Node, Outgoing

WEIGHTS = "weights"  # name of the array in a policy's file
Array = np.ndarray


class PolicyParams(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Parameters of a PolicyNode."""

    file: str = ""  # file with the array `weights`, as numpy.savez writes it
    weights: list[float] = []  # the weights in place of a file


class PolicyNode(Node):
    """Base class of nodes that act on the latest state once per action of the task.

    task   task of the environment in which the policy was trained
    shape  shape of the weights
    A subclass defines `act`. The robot of the launch must have the coordinates of the task's robot.
    """

    subscribes = {"state": RobotState}
    publishes = {"command": JointCommand}
    Params = PolicyParams
    stateless = True
    task: ClassVar[Task]
    shape: ClassVar[tuple[int, ...]]

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        if hasattr(cls, "task"):
            cls.rate_hz = 1.0 / (cls.task.steps * cls.task.step_s)

    @classmethod
    def check(cls, params: Any, plan: Plan) -> None:
        """Raise ValueError unless there are weights of the right shape."""
        weights_of(params, cls.shape)

    def act(self, weights: Array, observation: Array) -> Array:
        """Action (n_u,), -1 to 1, for an observation (k,)."""
        raise NotImplementedError

    def on_start(self, context: Context) -> Outgoing:
        """Read the weights."""
        mechanism = self.task.mechanism
        self._weights = weights_of(context.params, self.shape)
        self._coordinates = [name for joint in mechanism.moving_joints for name in joint.coordinates]
        self._actuators = [actuator.name for actuator in mechanism.actuators]
        self._places: dict[Any, list[int]] = {}  # indices of the actuators of each mode
        for place, name in enumerate(self._actuators):
            self._places.setdefault(self.task.modes.get(name, "effort"), []).append(place)
        self._largest = self.task.largest_of(mechanism)
        self._state: RobotState | None = None
        return None

    def on_message(self, name: str, message: Message) -> Outgoing:
        """Keep the latest state."""
        if isinstance(message, RobotState):
            self._state = message
        return None

    def on_tick(self, now: float) -> Outgoing:
        """Send the action for the latest state."""
        state = self._state
        if state is None:
            return None
        places = [state.name.index(name) for name in self._coordinates]
        q, v = (np.array([[row[place]] for place in places]) for row in (state.position, state.velocity))
        observation = np.asarray(self.task.observe(Motion(q, v, np.array([state.timestamp]))), dtype=float)
        action = np.asarray(self.act(self._weights, observation[:, 0]), dtype=float)
        if action.shape != self._largest.shape or not np.isfinite(action).all():
            raise ValueError(
                f"the action is {action.tolist()}; it must be finite numbers, one per actuator, of shape "
                f"{self._largest.shape}"
            )
        inputs = (np.clip(action, -1.0, 1.0) * self._largest).tolist()
        return [
            ("command", JointCommand(mode=mode, name=names, value=[inputs[k] for k in places], state_seq=state.seq))
            for mode, places in self._places.items()
            if (names := [self._actuators[k] for k in places])
        ]


def weights_of(params: PolicyParams, shape: tuple[int, ...]) -> Array:
    """Weights of a policy from a node's parameters. Raises ValueError with one line for weights that do not fit."""
    if bool(params.file) == bool(params.weights):
        raise ValueError("give either `file` or `weights` of the policy")
    if params.file:
        return read_weights(params.file, shape)
    weights = np.array(params.weights)
    if weights.size != np.prod(shape, dtype=int) or not np.isfinite(weights).all():
        raise ValueError(f"there are {weights.size} weights; they must be {np.prod(shape, dtype=int)} finite numbers")
    return weights.reshape(shape)


def read_weights(file: str | Path, shape: tuple[int, ...]) -> Array:
    """Weights of a policy from a file. Raises ValueError with one line for weights of another shape or not finite."""
    try:
        with np.load(file, allow_pickle=False) as arrays:
            weights = np.asarray(arrays[WEIGHTS], dtype=float)
    except (OSError, KeyError, ValueError) as error:
        reason = f"has no array {WEIGHTS!r}" if isinstance(error, KeyError) else f"cannot be read: {error}"
        raise ValueError(f"file {str(file)!r} {reason}; numpy.savez(file, {WEIGHTS}=...) writes it") from None
    if weights.shape != shape:
        raise ValueError(f"the weights in {str(file)!r} have shape {weights.shape}; it must be {shape}")
    if not np.isfinite(weights).all():
        raise ValueError(f"the weights in {str(file)!r} are not all finite")
    return weights
