"""Plans the swings of a gibbon robot from measured quantities alone: joints, hand positions and grips.

The planner estimates the shape of the line that the hands grip, which is a cable or a row of bars. It plans each swing
while both hands grip, and plans the swing again in flight from the measured state. A plan starts `lead_ms` after the
state from which it is made; this is the time allowed for planning.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np

from nodes.framework.messages import Message, RobotState, SwingPlan, SwingProgress
from nodes.framework.plan.launch_plan import Plan
from nodes.node import Context, Node, Outgoing
from nodes.planning.brachiation.limits import check_gait, check_hanging, check_limit, check_line, end_of_line
from nodes.planning.brachiation.planner_model import limit_of, planner_model_of
from nodes.planning.brachiation.supervisor import HANDS, Gait, Hand, Measured, Swing, SwingSupervisor, elbow_of_robot
from robots.registry import build
from sim_core.mechanism import Mechanism

OUTPUTS = tuple(f"hand_{hand}_{what}" for hand in HANDS for what in ("x", "z", "vx", "vz", "grips"))
BODIES = ("trolley", "hand_a", "arm_a", "arm_b", "hand_b")
PATH_POINTS = 40
MAY_BE_ZERO = ("settle_ms", "above_mm", "trunk_stiffness", "trunk_damping")


class SwingPlannerParams(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """The planner's model, and the parameters of the swings.

    robot       robot of the planner's model, written like `robot` in a launch file; "" means the simulated robot
    parameters  parameters of the model's robot, which override the parameters of the simulated robot
    step        distance between the hands (m); None means the model's spacing of the bars, or of the hands on a cable
    """

    robot: str = ""
    parameters: dict[str, float | str] = {}
    step: float | None = None
    closing: float = 0.2  # speed at which a hand approaches the line, m/s
    above_mm: float = 0.0  # height above the line at which the hand's path ends; the hand grips on crossing the line
    torque_limit: float = 14.0  # N m, limit in a plan; below the motor's limit, to leave torque for the controller
    tolerance_mm: float = 2.0  # miss along the line that costs as much as a gap of 2 mm to the line
    period_ms: float = 50.0  # time between plans in flight
    lead_ms: float = 50.0  # time from a state to the start of the plan made from it
    settle_ms: float = 150.0  # time for which both hands grip before a swing is planned
    last_ms: float = 200.0  # time before the end of a swing from which on no new plan is made
    rollout_step_ms: float = 4.0
    estimate_ms: float = 4.0  # time between updates of the line estimate
    trunk_stiffness: float = 30.0  # N m/rad, of the controller's trunk spring (robots with a trunk motor)
    trunk_damping: float = 2.0  # N m s/rad, of the controller's trunk damper

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if name in ("robot", "parameters") or value is None:
                continue
            if not (math.isfinite(value) and (value > 0.0 or (value == 0.0 and name in MAY_BE_ZERO))):
                least = "of at least 0" if name in MAY_BE_ZERO else "above 0"
                raise ValueError(f"{name} is {value}; it must be a number {least}")


class SwingPlanner(Node):
    """Publishes swing plans: before each swing, and again during the swing."""

    subscribes = {"state": RobotState, "swing_status": SwingProgress}
    publishes = {"swing_plan": SwingPlan}
    Params = SwingPlannerParams
    _supervisor: SwingSupervisor

    @classmethod
    def check(cls, params: Any, plan: Plan) -> None:
        if plan.sim.mode == "fast":
            raise ValueError('mode \'fast\' does not wait for swing plans; use mode "lockstep" or "realtime"')
        mechanism = planner_mechanism(params, plan.sim.parameters, plan.sim.robot)
        robot = build(plan.sim.robot, **plan.sim.parameters)
        check_line(mechanism, robot)
        period = 1e-3 * params.rollout_step_ms
        check_limit(mechanism, params.torque_limit, limit_of(mechanism, "elbow"))
        check_gait(mechanism, step_of(params, mechanism), params.closing, period)
        check_hanging(mechanism, params.trunk_stiffness, params.trunk_damping, period)
        if "trunk" in joints_of(mechanism) and "trunk" not in joints_of(robot):
            raise ValueError(
                f"the planner's model has a trunk, but the robot has only the joints {', '.join(joints_of(robot))}; "
                "use a model without a trunk"
            )

    def on_start(self, context: Context) -> Outgoing:
        self._context = context
        self._build_model(context.params)
        return self.on_reset(0.0)

    def on_parameters(self, params: SwingPlannerParams) -> Outgoing:
        self._build_model(params)
        # the former supervisor, so that plans continue to be numbered
        self._supervisor = SwingSupervisor(self._planner_model, self._gait(), self._supervisor)
        self._measured_at, self._grips = -math.inf, ""
        return None

    def on_reset(self, time: float) -> Outgoing:
        self._supervisor = SwingSupervisor(self._planner_model, self._gait())
        self._measured_at, self._grips = -math.inf, ""
        self._refused: int | msgspec.UnsetType = msgspec.UNSET  # number of the latest late plan
        self._plans = self._rollouts = 0
        return None

    def snapshot(self) -> Any:
        counts = self._measured_at, self._grips, self._refused, self._plans, self._rollouts
        return {"counts": counts, "supervisor": self._supervisor.snapshot()}

    def restore(self, state: Any) -> None:
        self._measured_at, self._grips, self._refused, self._plans, self._rollouts = state["counts"]
        self._supervisor.restore(state["supervisor"])

    def _build_model(self, params: SwingPlannerParams) -> None:
        self._params = params
        mechanism = planner_mechanism(params, self._context.robot_parameters, self._context.robot_source)
        self._planner_model = planner_model_of(mechanism, params.trunk_stiffness, params.trunk_damping)
        self._end, self._step = end_of_line(mechanism), step_of(params, mechanism)

    def _gait(self) -> Gait:
        params = self._params
        return Gait(
            step=self._step,
            end=self._end,
            torque_limit=params.torque_limit,
            closing=params.closing,
            lead=1e-3 * params.lead_ms,
            settle=1e-3 * params.settle_ms,
            period=1e-3 * params.period_ms,
            last=1e-3 * params.last_ms,
            rollout_step=1e-3 * params.rollout_step_ms,
            tolerance=1e-3 * params.tolerance_mm,
            above=1e-3 * params.above_mm,
        )

    def on_message(self, name: str, message: Message) -> Outgoing:
        if isinstance(message, SwingProgress):
            if message.refused is not msgspec.UNSET and message.refused != self._refused:
                self._refused = message.refused
                self._supervisor.refused(message.refused)
            return None
        if not isinstance(message, RobotState):
            return None
        if missing := [output for output in OUTPUTS if output not in message.outputs]:
            raise ValueError(
                f"node {self._context.name} needs the robot's output {missing[0]!r}, but the robot has only the "
                f"outputs {list(message.outputs)}; use a gibbon robot"
            )
        measured = measurement(message)
        due = message.timestamp >= self._measured_at + 1e-3 * self._params.estimate_ms - 1e-9
        if not due and measured.grips == self._grips:
            return None
        self._measured_at, self._grips = message.timestamp, measured.grips
        self._supervisor.add_measurement(measured)
        swing = self._supervisor.plan()
        if swing is None:
            return None
        self._plans += 1
        self._rollouts += swing.plan.rollouts
        return [("swing_plan", plan_message(swing, self._supervisor.hand_path(swing)))]

    @property
    def figures(self) -> Mapping[str, float]:
        line, none = self._supervisor.line, self._supervisor.none_good
        return {
            "plans": float(self._plans),
            "rollouts_per_plan": self._rollouts / max(self._plans, 1),
            **(
                {"times_without_a_plan": float(none), "nearest_miss_mm": 1e3 * self._supervisor.nearest} if none else {}
            ),
            **({} if line is None else {"tension_over_believed": line.tension_scale}),
        }


def planner_mechanism(params: SwingPlannerParams, given: Mapping[str, float | str], robot: str) -> Mechanism:
    """Build the mechanism that the planner uses as its model. Raises ValueError if the robot is not a gibbon.

    given  parameters of the simulated robot, used if `params` names no robot
    robot  the simulated robot
    """
    given = {} if params.robot else given
    mechanism = build(params.robot or robot, **{**given, **params.parameters})
    names = [body.name for body in mechanism.bodies]
    if missing := [body for body in BODIES if body not in names]:
        raise ValueError(
            f"the model {mechanism.name!r} is no gibbon: it has no body {missing[0]!r}; use a gibbon robot as the model"
        )
    return mechanism


def step_of(params: SwingPlannerParams, mechanism: Mechanism) -> float:
    """Distance between the hands (m): the parameter `step`, or the model's spacing if `step` is None."""
    return mechanism.parameters["spacing"] if params.step is None else params.step


def joints_of(mechanism: Mechanism) -> list[str]:
    """Names of the joints that are not fixed."""
    return [joint.name for joint in mechanism.joints if not joint.is_fixed]


def measurement(state: RobotState) -> Measured:
    """Extract from a state the quantities that a real gibbon robot can measure."""
    out = state.outputs
    pitch, elbow = state.name.index("pitch"), state.name.index("elbow")
    trunk = state.name.index("trunk") if "trunk" in state.name else -1
    hands = [Hand(*(out[f"hand_{hand}_{what}"] for what in ("x", "z", "vx", "vz"))) for hand in HANDS]
    return Measured(
        time=state.timestamp,
        pitch=state.position[pitch],
        elbow=state.position[elbow],
        pitch_rate=state.velocity[pitch],
        elbow_rate=state.velocity[elbow],
        hands=(hands[0], hands[1]),
        grips="".join(hand for hand in HANDS if out[f"hand_{hand}_grips"] > 0.5),
        torque=state.effort[elbow] if state.effort else 0.0,
        trunk=state.position[trunk] if trunk >= 0 else 0.0,
        trunk_rate=state.velocity[trunk] if trunk >= 0 else 0.0,
        trunk_torque=state.effort[trunk] if trunk >= 0 and state.effort else 0.0,
    )


def plan_message(swing: Swing, path: np.ndarray) -> SwingPlan:
    """Message of a planned swing.

    path  path of the swinging hand (m), shape (n, 3)
    """
    plan, arrival = swing.plan, swing.plan.arrival
    every = max(len(path) // PATH_POINTS, 1)
    return SwingPlan(
        number=swing.number,
        hand=swing.hand,
        start=swing.start,
        duration=plan.path.duration,
        release=swing.release,
        elbow=[elbow_of_robot(swing.hand, float(power)) for power in plan.path.powers],
        torque=[elbow_of_robot(swing.hand, float(torque)) for torque in plan.torque],
        path=path[::-1][::every][::-1].ravel().tolist(),
        target=swing.target,
        gap=arrival.gap,
        miss=arrival.way - swing.target,
        closing=arrival.closing,
    )
