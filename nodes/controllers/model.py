"""Base of controllers that contain a model of the robot, which is built from the robot's name and parameters."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from typing import Any, ClassVar

import msgspec
import numpy as np

from nodes.controllers.take_over import TakeOver
from nodes.controllers.tracking import ExpectedJoints, Targets, TrackingError, Vector
from nodes.framework.messages import Event, JointCommand, JointReference, Message, RobotState
from nodes.framework.plan.key_checks import PlanError, suggestion
from nodes.framework.plan.launch_plan import Plan
from nodes.node import Context, Node, Outgoing
from robots.registry import build, with_joint_coordinates
from robots.smoothing import without_bristles
from sim_core.inverse import DrivenDynamics
from sim_core.kernels.effort import LIMIT_S, CompilationTooLarge
from sim_core.mechanism import Mechanism, SurfaceForceOutput
from sim_core.system import assemble


class ModelParams(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """Parameters of every controller with a model.

    joints        driven joints; an empty list means all joints of the model that have an actuator
    robot         robot of the model, written like `robot` in a launch file; "" means the robot of the plan
    parameters    parameters of the model, which override the parameters of the plan's robot. If the robot has a
                  parameter for the choice of coordinates, the model uses joint coordinates
    effort_limit  limits of the efforts (N m or N), one number for all joints or one per joint, in addition to the
                  limits of the actuators; empty if there are no such limits
    """

    joints: list[str] = []
    robot: str = ""
    parameters: dict[str, float | str] = {}
    effort_limit: list[float] = []  # N m or N


def for_each(values: Sequence[float], n: int, name: str, unit: str, least: float = 0.0) -> Vector:
    """Return `values` as an array (n,); `values` has n numbers, or a single number that is used n times.

    Raises ValueError with a one-line message if `values` has another length, or if a number is below `least` or not
    finite.

    name, unit  name and unit of the values, for the message
    """
    array = np.array(list(values) * n if len(values) == 1 else list(values), dtype=float)
    if array.shape != (n,) or not np.all(array >= least) or not np.all(np.isfinite(array)):
        takes = f"one number of at least {least:g} {unit} for all, or {n} such numbers"
        raise ValueError(f"{name} is {list(values)}; it must have {takes}")
    return array


class ModelOfRobot:
    """Model of a robot in joint coordinates, and the joints and actuators that a controller commands."""

    def __init__(self, params: ModelParams, given: Mapping[str, float | str], robot: str) -> None:
        """Build the model of the robot that `params` names or, if `params` names no robot, of the plan's robot.

        given  parameters of the plan's robot, used if `params` names no robot; `params.parameters` overrides them
        robot  the plan's robot: its name, or its file and function
        """
        name = params.robot or robot
        given = {key: value for key, value in given.items() if key != "coordinates" and not params.robot}
        chosen = with_joint_coordinates(name, {**given, **params.parameters})
        self.mechanism = without_touch(build(name, **chosen))
        name, moving = self.mechanism.name, self.mechanism.moving_joints
        if not self.mechanism.has_joint_coordinates:
            raise ValueError(
                f"the model {name!r} is not in joint coordinates; choose joint coordinates with the model's "
                "parameters, or use another robot"
            )
        if several := [joint for joint in self.mechanism.joints if len(joint.coordinates) > 1]:
            which = ", ".join(f"{joint.name!r} ({joint.kind})" for joint in several)
            raise ValueError(
                f"the model {name!r} has joints with more than one coordinate: {which}; this controller holds robots "
                'whose joints have one coordinate each, such as one with a fixed base (base = "fixed" for an imported '
                "robot)"
            )
        self.names = [joint.name for joint in moving]
        driven = {actuator.joint: actuator for actuator in self.mechanism.actuators if actuator.joint}
        self.joints = list(params.joints or [joint for joint in self.names if joint in driven])
        for joint in self.joints:
            if joint not in driven:
                raise ValueError(
                    f"joints: robot {name!r} has no actuator on joint {joint!r}{suggestion(joint, driven)}"
                )
        if len(set(self.joints)) < len(self.joints):
            raise ValueError(f"key 'joints' is {self.joints}, which repeats a joint; name each joint once")
        self.actuators = [driven[joint].name for joint in self.joints]
        self.indices = np.array([self.names.index(joint) for joint in self.joints])
        limits = [driven[joint].effort_limit for joint in self.joints]
        self.effort_limit = np.array([np.inf if limit is None else limit for limit in limits])
        if params.effort_limit:
            requested = for_each(params.effort_limit, len(self.joints), "effort_limit", "N m or N")
            self.effort_limit = np.minimum(self.effort_limit, requested)


def without_touch(mechanism: Mechanism) -> Mechanism:
    """Return the mechanism without joint stops, contacts and outputs of contact forces.

    With stops, a controller's inverse dynamics would include the effort with which a stop pushes a joint back. Friction
    with bristles becomes friction that is smooth near rest, as no sensor measures the bristles.
    """
    mechanism = without_bristles(mechanism)
    joints = tuple(dataclasses.replace(joint, stops=None) for joint in mechanism.joints)
    outputs = tuple(output for output in mechanism.outputs if not isinstance(output, SurfaceForceOutput))
    return dataclasses.replace(mechanism, joints=joints, contacts=(), outputs=outputs)


class ModelController(Node, ABC):
    """Base of controllers that reply to each state with efforts of their joints, computed with a model of the robot.

    The joints follow the topic `reference`; before the first reference they hold their position. A subclass implements
    `_effort`, which computes the efforts from the targets of all joints and from the arrays `_q` and `_v`, the
    positions and velocities of all joints of the model. `self._inverse` computes inverse dynamics: calling it reads its
    arrays q, v and a, and writes its array tau. The actuators hold an effort until the reply to the next state, so the
    measured q and v are extrapolated to the middle of that interval. When a node is started in the middle of a run, its
    efforts fade in from the actuators' present efforts.
    """

    subscribes = {"state": RobotState, "reference": JointReference, "event": Event}
    publishes = {"command": JointCommand}
    services = {"tracking": "peak and rms tracking error of each joint since the start or the last reset"}
    Params: ClassVar[type[ModelParams]] = ModelParams
    state_attributes = ("_take_over", "_given", "_targets", "_error", "_is_target_set")
    _expected: ExpectedJoints

    @classmethod
    def check(cls, params: Any, plan: Plan) -> None:
        cls().gains(params, len(ModelOfRobot(params, plan.sim.parameters, plan.sim.robot).joints))

    @classmethod
    def commands(cls, params: Any, plan: Plan) -> Collection[str] | None:
        return ModelOfRobot(params, plan.sim.parameters, plan.sim.robot).actuators

    @abstractmethod
    def gains(self, params: Any, n: int) -> None:
        """Set the gains of n joints from the parameters.

        Raises ValueError with a one-line message for invalid gains.
        """

    @abstractmethod
    def _effort(self, position: Vector, velocity: Vector, acceleration: Vector) -> Vector:
        """Efforts (n,) of all joints, before limits, for target positions, velocities and accelerations (n,)."""

    def on_start(self, context: Context) -> Outgoing:
        self._context = context
        self._prepare(context.params)
        self._forget_run()
        self._warm_up()
        self._forget_run()
        return None

    def _forget_run(self) -> None:
        """Reset the controller to the state before any run."""
        self._take_over = TakeOver(self._context)
        self._given = np.zeros(0)  # efforts at the take-over
        self._begin()

    def _warm_up(self) -> None:
        """Compute a reply to the initial state without publishing it.

        This makes the first published reply as fast as the later ones.
        """
        names = self._model.names
        start = RobotState(name=names, position=list(self._model.mechanism.initial_q), velocity=[0.0] * len(names))
        self._answer(start, range(len(names)))

    def on_parameters(self, params: Any) -> Outgoing:
        self._prepare(params)
        self._begin()
        return None

    def _prepare(self, params: Any) -> None:
        """Build the model and its inverse dynamics from the parameters."""
        model = self._model_of(params)
        self.gains(params, len(model.joints))
        self._model = model
        plan = self._context.plan
        try:
            self._system = system = assemble(model.mechanism, LIMIT_S if plan is None else plan.sim.compile_limit_s)
        except CompilationTooLarge as error:
            raise PlanError(str(error)) from error
        self._inverse = DrivenDynamics(system)
        self._q, self._v = self._inverse.q, self._inverse.v
        self._expected = ExpectedJoints(self._context, model.names)
        rate_hz = None if self._context.plan is None else self._context.plan.sim.rate_hz
        self._lead_s = max(self._context.step_s, 1.0 / rate_hz if rate_hz else 0.0) / 2.0

    def _model_of(self, params: Any) -> ModelOfRobot:
        """Model of the robot that the parameters name; of the plan's robot if they name none.

        A subclass may add outputs to the mechanism of the model.
        """
        return ModelOfRobot(params, self._context.robot_parameters, self._context.robot_source)

    def on_reset(self, time: float) -> Outgoing:
        self._take_over.restart(time)
        self._begin()
        return None

    def _begin(self) -> None:
        """Discard the reference, so that the joints hold the position of the next state."""
        model = self._model
        self._targets = Targets(model.names)
        self._error = TrackingError(model.joints, [model.mechanism.joint(joint).unit for joint in model.joints])
        self._is_target_set = False

    def on_message(self, name: str, message: Message) -> Outgoing:
        if isinstance(message, JointReference):
            self._take_over.learn(self._targets.add_reference(message))
        elif isinstance(message, RobotState) and self._expected.are_in(message):
            return [("command", self._answer(message, self._expected.indices))]
        elif isinstance(message, Event):
            self._take_over.process_event(message)
        return None

    def _answer(self, state: RobotState, order: Sequence[int]) -> JointCommand:
        """Return the command in reply to a state.

        order  for each joint of the model, its index in the lists of the state
        """
        model = self._model
        self._q[:] = [state.position[i] for i in order]
        self._v[:] = [state.velocity[i] for i in order]
        if not self._is_target_set:
            self._targets.hold(self._q)
            self._is_target_set = True
        now, lead = self._targets.at(state.timestamp), self._lead_s
        self._error.add_error((now[0] - self._q)[model.indices], self._targets.has_reference[model.indices])
        targets = self._targets.at(state.timestamp + lead)
        self._q += lead * self._v + lead * lead / 2.0 * targets[2]
        self._v += lead * targets[2]
        effort = self._effort(*targets)[model.indices]
        effort = np.minimum(np.maximum(effort, -model.effort_limit), model.effort_limit)
        if self._take_over.add_state(state):
            self._given = np.array(state.effort or np.zeros(len(state.name)))[list(order)][model.indices]
        effort = self._take_over(state.timestamp, self._given, effort)
        return JointCommand(name=model.actuators, value=effort.tolist(), state_seq=state.seq)

    @property
    def figures(self) -> Mapping[str, float]:
        return self._error.figures

    def on_request(self, name: str, args: dict[str, Any]) -> Any:
        return self._error.of_each()
