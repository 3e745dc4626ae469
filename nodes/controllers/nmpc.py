"""Nonlinear model predictive control of any robot whose steps have derivatives."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Annotated, Any

import msgspec
import numpy as np

from nodes.controllers.horizon import EffortPlan, HorizonReference, Predictor, rows_of
from nodes.controllers.model import ModelOfRobot, ModelParams, for_each
from nodes.controllers.take_over import TakeOver
from nodes.controllers.tracking import ExpectedJoints, Targets, Vector
from nodes.framework.messages import Event, JointCommand, JointReference, Message, RobotState
from nodes.framework.plan.key_checks import PlanError, suggestion
from nodes.framework.plan.launch_plan import Plan
from nodes.node import Context, Node, Outgoing
from sim_core.analysis.optimal_control import Costs, Limits, OptimalControl
from sim_core.errors import InvalidRequest
from sim_core.kernels.effort import LIMIT_S, CompilationTooLarge
from sim_core.system import assemble
from sim_core.tables import Range

FIRST_ITERATIONS = 30  # most iterations for the first plan, at the start
CONVERGED = 1e-6  # change of states and efforts at which the first plan is done
SAME_INSTANT = 1e-9  # s


class NmpcParams(ModelParams, frozen=True, kw_only=True):
    """Horizon, weights, limits and reference. Lists have one number for all joints, or one per joint of the model.

    horizon          number of stages
    stage_ms         duration of a stage, over which the efforts are constant
    period_ms        time from one solution to the next; 0 for the duration of a stage
    solve_ms         time that a solution takes: it begins from the state predicted over this time. In lockstep the plan
                     is in use after it, and the next solution does not begin before
    delay_ms         delay of the loop from a measured state to the effect of its command, over which the state is
                     predicted, too; by default that of the node's keys `link` and `compute_ms`
    position_weight  weights of the squared deviations of the positions
    velocity_weight  weights of the squared deviations of the velocities
    effort_weight    weights of the squared deviations of the efforts from those that hold the robot at rest, one per
                     driven joint
    terminal_weight  factor of the weights at the end of the horizon
    waypoints        [[t, value of joint 1, value of joint 2, ...], ...], reached at rest with minimum jerk; without
                     them the topic `reference` is followed
    turning          joints that may reach their reference after any number of whole turns
    position_limit   {joint: [lower, upper]}, in addition to the limits of the robot's joints
    point            point output of the robot that is followed and kept out of the spheres
    point_weight     weight of the squared distance of the point from its reference
    point_waypoints  [[t, x, y, z], ...] of the point, reached at rest with minimum jerk
    spheres          [[x, y, z, radius], ...] that the point stays out of
    clearance        distance from the spheres that the plans keep, as the stages are checked, not the way between them
    """

    horizon: Annotated[int, Range(1, 1000, "stages")] = 50
    stage_ms: Annotated[float, Range(0.1, 1e4, "ms")] = 20.0
    period_ms: Annotated[float, Range(0.0, 1e4, "ms")] = 0.0
    solve_ms: Annotated[float, Range(0.0, 1e4, "ms")] = 0.0
    delay_ms: Annotated[float, Range(0.0, 1e4, "ms")] | None = None
    position_weight: list[float] = msgspec.field(default_factory=lambda: [1.0])  # 1/rad^2 or 1/m^2
    velocity_weight: list[float] = msgspec.field(default_factory=lambda: [0.01])  # s^2/rad^2 or s^2/m^2
    effort_weight: list[float] = msgspec.field(default_factory=lambda: [1.0])  # 1/(N m)^2 or 1/N^2
    terminal_weight: Annotated[float, Range(1e-9, 1e9)] = 1.0
    waypoints: list[list[float]] = []  # s, then degrees or m
    turning: list[str] = []
    position_limit: dict[str, list[float]] = {}  # degrees or m
    point: str = ""
    point_weight: Annotated[float, Range(0.0, 1e9, "1/m^2")] = 1000.0
    point_waypoints: list[list[float]] = []  # s, then m
    spheres: list[list[float]] = []  # m
    clearance: Annotated[float, Range(0.0, 1e3, "m")] = 0.0  # m

    def __post_init__(self) -> None:
        if (self.point_waypoints or self.spheres) and not self.point:
            key = "point_waypoints" if self.point_waypoints else "spheres"
            raise ValueError(f"{key} need a point output of the robot; name it in the key 'point'")
        for sphere in self.spheres:
            if len(sphere) != 4 or not all(map(math.isfinite, sphere)) or sphere[3] <= 0.0:
                raise ValueError(f"sphere {sphere} must be [x, y, z, radius] in m, with a radius above 0")


class Problem:
    """Model, weights and limits that the parameters describe, checked; `OptimalControl` is made by `build`.

    Raises ValueError with a one-line message for parameters that cannot work with the robot.
    """

    def __init__(self, params: NmpcParams, given: Mapping[str, float | str], robot: str) -> None:
        self.params, self.model = params, ModelOfRobot(params, given, robot)
        mechanism, names = self.model.mechanism, self.model.names
        n, joints = len(names), [mechanism.joint(name) for name in names]
        if not self.model.joints:
            raise ValueError(f"robot {mechanism.name!r} has no actuator on a joint; there is nothing to control")
        self.scale = np.array([math.pi / 180.0 if joint.unit == "rad" else 1.0 for joint in joints])
        actuators = [actuator.name for actuator in mechanism.actuators]
        self.driven = [actuators.index(name) for name in self.model.actuators]
        effort = np.zeros(len(actuators))
        effort[self.driven] = for_each(params.effort_weight, len(self.driven), "effort_weight", "1/(N m)^2 or 1/N^2")
        self.costs = Costs(
            for_each(params.position_weight, n, "position_weight", "1/rad^2 or 1/m^2"),
            for_each(params.velocity_weight, n, "velocity_weight", "s^2/rad^2 or s^2/m^2"),
            effort,
            params.point_weight if params.point_waypoints else 0.0,
            params.terminal_weight,
        )
        most = np.zeros(len(actuators))
        most[self.driven] = self.model.effort_limit
        lower = np.array([-np.inf if joint.lower is None else joint.lower for joint in joints])
        upper = np.array([np.inf if joint.upper is None else joint.upper for joint in joints])
        self._limit_positions(lower, upper)
        fastest = {one.joint: one.velocity_limit for one in mechanism.actuators if one.velocity_limit is not None}
        velocity = np.array([fastest.get(name, np.inf) for name in names])
        spheres = np.array(params.spheres, dtype=float).reshape(-1, 4)
        spheres[:, 3] += params.clearance
        self.limits = Limits(most, lower, upper, velocity, spheres)
        for name in params.turning:
            if name not in names:
                raise ValueError(f"turning: robot {mechanism.name!r} has no joint {name!r}{suggestion(name, names)}")
        self.turning = np.array([name in params.turning for name in names])
        self.waypoints = rows_of(params.waypoints, 1 + n, "waypoint", f"t and one value for each of {', '.join(names)}")
        self.waypoints[:, 1:] *= self.scale
        self._check_reach()
        self.point_waypoints = rows_of(params.point_waypoints, 4, "point waypoint", "t, x, y and z")

    def _limit_positions(self, lower: Vector, upper: Vector) -> None:
        for name, pair in self.params.position_limit.items():
            if name not in self.model.names:
                where = f"robot {self.model.mechanism.name!r}"
                raise ValueError(f"position_limit: {where} has no joint {name!r}{suggestion(name, self.model.names)}")
            k = self.model.names.index(name)
            if len(pair) != 2 or not pair[0] < pair[1]:
                raise ValueError(f"position_limit of {name!r} is {pair}; it must be [lower, upper] with lower < upper")
            lower[k], upper[k] = max(lower[k], pair[0] * self.scale[k]), min(upper[k], pair[1] * self.scale[k])
            if not lower[k] < upper[k]:
                raise ValueError(f"position_limit of {name!r} is {pair}, which is outside the limits of the joint")

    def _check_reach(self) -> None:
        limits, scale = self.limits, self.scale
        for row in self.waypoints:
            outside = (row[1:] < limits.lower) | (row[1:] > limits.upper)
            for k in np.flatnonzero(outside & ~self.turning):
                low, high = limits.lower[k] / scale[k], limits.upper[k] / scale[k]
                raise ValueError(
                    f"waypoint at {row[0]:g} s: joint {self.model.names[k]!r} at {row[1 + k] / scale[k]:g} is outside "
                    f"its limits {low:g} .. {high:g}"
                )

    def build(self, limit_s: float = LIMIT_S) -> OptimalControl:
        """The optimal control problem, with compiled kernels. Raises PlanError with a one-line message."""
        params = self.params
        try:
            self.system = assemble(self.model.mechanism, limit_s)
            return OptimalControl(
                self.system, params.horizon, 1e-3 * params.stage_ms, self.costs, self.limits, params.point
            )
        except (CompilationTooLarge, InvalidRequest) as error:
            raise PlanError(str(error)) from error


class Nmpc(Node):
    """Replies to each state with the efforts of the latest plan; plans by real-time iterations.

    A plan begins from the state that the model predicts for the time at which the plan is in use. If a plan has no
    solution or is late, the previous plan goes on, and the counters `failed_plans` and `late_plans` count it. The
    counter `plans_beyond_limits` counts plans that cannot keep the limits of positions and velocities.

    In realtime, a thread solves while the node goes on answering states. In lockstep, the solution is at hand at once,
    and its plan is used after `solve_ms`.
    """

    subscribes = {"state": RobotState, "reference": JointReference, "event": Event}
    publishes = {"command": JointCommand}
    Params = NmpcParams
    state_attributes = ("_take_over", "_targets", "_plan", "_next_plan", "_due", "_counts", "_held", "_has_failed")
    _expected: ExpectedJoints

    @classmethod
    def check(cls, params: Any, plan: Plan) -> None:
        problem = Problem(params, plan.sim.parameters, plan.sim.robot)
        check_differentiable(problem)

    @classmethod
    def commands(cls, params: Any, plan: Plan) -> Collection[str] | None:
        return ModelOfRobot(params, plan.sim.parameters, plan.sim.robot).actuators

    def on_start(self, context: Context) -> Outgoing:
        self._context = context
        self._take_over = TakeOver(context)
        self._running: Future[EffortPlan | None] | None = None
        is_realtime = context.plan is not None and context.plan.sim.mode == "realtime"
        self._thread = ThreadPoolExecutor(1) if is_realtime else None
        return self.on_parameters(context.params)

    def on_stop(self) -> Outgoing:
        if self._thread is not None:
            self._thread.shutdown()
        return None

    def on_parameters(self, params: Any) -> Outgoing:
        self._abandon()
        context = self._context
        self._problem = problem = Problem(params, context.robot_parameters, context.robot_source)
        self._control = problem.build(LIMIT_S if context.plan is None else context.plan.sim.compile_limit_s)
        self._delay_s = delay_in_plan(context) if params.delay_ms is None else 1e-3 * params.delay_ms
        self._solve_s = 1e-3 * params.solve_ms
        self._lead_s = self._solve_s + self._delay_s
        self._period_s = 1e-3 * (params.period_ms or params.stage_ms)
        self._predictor = Predictor(problem.system, self._lead_s)
        self._expected = ExpectedJoints(context, problem.model.names)
        self._begin()
        mechanism = problem.model.mechanism
        self._first_plan(0.0, np.concatenate([mechanism.initial_q, mechanism.initial_v]))
        return None

    def _abandon(self) -> None:
        """Wait for a solution that is under way, and discard it."""
        if self._running is not None:
            self._running.exception()
            self._running = None

    def on_reset(self, time: float) -> Outgoing:
        self._abandon()
        self._take_over.restart(time)
        self._begin()
        return None

    def _begin(self) -> None:
        self._targets = Targets(self._problem.model.names)
        self._reference = HorizonReference(self._problem, self._control)
        self._plan: EffortPlan | None = None
        self._next_plan: EffortPlan | None = None
        self._due, self._held, self._has_failed = -np.inf, False, False
        self._counts = {"plans": 0, "failed_plans": 0, "late_plans": 0, "plans_beyond_limits": 0}

    def on_message(self, name: str, message: Message) -> Outgoing:
        if isinstance(message, JointReference):
            self._take_over.learn(self._targets.add_reference(message))
        elif isinstance(message, RobotState) and self._expected.are_in(message):
            return [("command", self._answer(message))]
        elif isinstance(message, Event):
            self._take_over.process_event(message)
        return None

    def _answer(self, state: RobotState) -> JointCommand:
        order, model, now = self._expected.indices, self._problem.model, state.timestamp
        x = np.array([*(state.position[i] for i in order), *(state.velocity[i] for i in order)])
        if not self._held:
            self._targets.hold(x[: len(order)])
            self._held = True
        if self._plan is None:
            self._first_plan(now, x)
        else:
            self._plan_ahead(now, x)
        if self._next_plan is not None and now >= self._next_plan.ready - SAME_INSTANT:
            self._plan, self._next_plan = self._next_plan, None
        assert self._plan is not None
        effort = self._plan.effort_at(now + self._delay_s)[self._problem.driven]
        given = np.zeros(len(effort))
        if self._take_over.add_state(state) and state.effort:
            given = np.array(state.effort)[list(order)][model.indices]
        effort = self._take_over(now, given, effort)
        return JointCommand(name=model.actuators, value=effort.tolist(), state_seq=state.seq)

    def _first_plan(self, now: float, x: Vector) -> None:
        """Plan from rest at the state, iterated until the plan changes no more."""
        control = self._control
        self._reference.rest_at(x)
        for _ in range(FIRST_ITERATIONS):
            self._reference.update(now, self._targets)
            if not control.iterate(x) or control.change < CONVERGED:
                break
        self._plan = EffortPlan(now, now, control.step_s, control.x.copy(), control.u.copy())
        self._due = now + self._period_s

    def _plan_ahead(self, now: float, x: Vector) -> None:
        """Take the plan that is solved, and begin the next one if it is due."""
        if self._running is not None and self._running.done():
            self._take(self._running.result(), now)
            self._running = None
        if now < self._due - SAME_INSTANT:
            return
        if self._running is not None:
            self._counts["late_plans"] += 1
            self._due += self._period_s
            return
        assert self._plan is not None
        arguments = now, x, self._plan, self._next_plan, copy.deepcopy(self._targets)
        self._due = now + self._period_s
        if self._thread is not None:
            self._running = self._thread.submit(self._solved, *arguments)
            return
        if self._solve_s > self._period_s + SAME_INSTANT:
            self._counts["late_plans"] += 1
            self._due = now + self._solve_s
        self._take(self._solved(*arguments), now)

    def _take(self, plan: EffortPlan | None, now: float) -> None:
        """Use a plan when it is ready, and count it."""
        self._has_failed = plan is None
        if plan is None:
            self._counts["failed_plans"] += 1
            return
        self._counts["plans"] += 1
        self._counts["plans_beyond_limits"] += not self._control.keeps_limits
        self._counts["late_plans"] += now > plan.ready + SAME_INSTANT
        self._next_plan = plan

    def _solved(
        self, now: float, x: Vector, plan: EffortPlan, following: EffortPlan | None, targets: Targets
    ) -> EffortPlan | None:
        """Plan by one real-time iteration from the state at which it will be in use; None if there is no solution."""
        control, start = self._control, now + self._lead_s
        ahead = self._predictor(x, now, plan, following)
        if self._has_failed:
            self._reference.rest_at(ahead)
        else:
            (following or plan).shift_into(control, start)
        self._reference.update(start, targets)
        if not control.iterate(ahead):
            return None
        return EffortPlan(start, now + self._solve_s, control.step_s, control.x.copy(), control.u.copy())

    @property
    def counters(self) -> Mapping[str, int]:
        return self._counts

    @property
    def figures(self) -> Mapping[str, float]:
        return {name: count for name, count in self._counts.items() if count and name != "plans"}

    @classmethod
    def rehearsal(cls, params: Any, plan: Plan) -> Callable[[], Any]:
        node, alone = cls(), msgspec.structs.replace(plan, sim=msgspec.structs.replace(plan.sim, mode="lockstep"))
        random = np.random.default_rng(plan.seed)
        node.on_start(Context("rehearsal", plan.sim.robot, 1e-3 * plan.sim.step_ms, params, random, plan=alone))
        return node._rehearse

    def _rehearse(self) -> None:
        """Make the plan that is due, from a state that follows the plan before."""
        plan = self._next_plan or self._plan
        assert plan is not None
        self._plan, self._next_plan = plan, None
        self._plan_ahead(self._due, plan.state_at(self._due))


def delay_in_plan(context: Context) -> float:
    """Mean delay (s) from a state to the effect of the command that answers it, by the node's `link` and `compute_ms`.

    A message passes the link twice, and has an effect from the next time step on.
    """
    plan = context.plan
    if plan is None:
        return 0.0
    for node in plan.nodes:
        if node.local_name == context.name and plan.robot_of(node.namespace) == context.robot:
            way_ms, step_ms = node.link.delay_ms + 0.5 * node.link.jitter_ms, 1e3 * context.step_s
            ways = (way_ms, node.compute_ms + way_ms)
            return sum(math.ceil(each / step_ms - SAME_INSTANT) * context.step_s for each in ways)
    return 0.0


def check_differentiable(problem: Problem) -> None:
    """Raise ValueError with a one-line message if the model has no derivatives, or not the point that is followed."""
    mechanism, point = problem.model.mechanism, problem.params.point
    if mechanism.constraints:
        raise ValueError(
            f"{mechanism.name!r} has constraints; predictive control takes trees in joint coordinates without them"
        )
    points = [output.name for output in mechanism.outputs if type(output).__name__ == "PointOutput"]
    if point and point not in points:
        raise ValueError(f"point: robot {mechanism.name!r} has no point output {point!r}{suggestion(point, points)}")
