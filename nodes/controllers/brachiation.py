"""Controller of a gibbon's hands and elbow: follows swing plans, and closes and opens the grippers in time.

The elbow's torque is the plan's feedforward torque plus proportional-derivative (PD) feedback of the deviation from the
planned path. A plan that is received after its start time is counted and discarded; the previous plan stays active. If
the trunk has a motor, a PD law keeps the trunk hanging vertically. The planner's model includes this PD law.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import Any

import msgspec
import numpy as np

from nodes.controllers.take_over import TakeOver
from nodes.framework.messages import Event, JointCommand, Message, RobotState, SwingPlan, SwingProgress
from nodes.framework.plan.launch_plan import Plan
from nodes.node import Context, Node, Outgoing
from nodes.planning.brachiation.limits import check_hanging, check_limit
from robots.registry import build

HANDS = ("a", "b")
ACTUATORS = ["elbow", "grip_a", "grip_b"]
SAME_INSTANT = 1e-6  # s
OVERDUE = 0.3  # s after the end of a swing; a hand that has not gripped by then has missed


class BrachiationParams(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """Gains and torque limit of elbow and trunk, and how long before its planned arrival a hand closes."""

    stiffness: float = 15.0  # N m/rad
    damping: float = 1.0  # N m s/rad
    torque_limit: float = 16.0  # N m
    close_ms: float = 80.0  # time before the planned arrival at which the swinging hand closes
    trunk_stiffness: float = 30.0  # N m/rad, toward hanging, for robots with a trunk motor
    trunk_damping: float = 2.0  # N m s/rad

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            if not (math.isfinite(value := getattr(self, name)) and value >= 0.0):
                raise ValueError(f"{name} is {value}; it must be a number of at least 0")


class Brachiation(Node):
    """Replies to each state with the elbow's torque and the commands of both grippers."""

    subscribes = {"state": RobotState, "swing_plan": SwingPlan, "event": Event}
    publishes = {"command": JointCommand, "swing_status": SwingProgress}
    Params = BrachiationParams
    state_attributes = (
        "_take_over", "_now", "_current", "_waiting", "_flying", "_progress", "_falls", "_regrips", "_misses",
        "_missed", "_gripping", "_peak_torque", "_peak_force", "_peak_error",
    )  # fmt: skip

    @classmethod
    def check(cls, params: Any, plan: Plan) -> None:
        sim = plan.sim
        mechanism = build(sim.robot, **sim.parameters)
        if any(actuator.joint == "elbow" for actuator in mechanism.actuators):
            check_limit(mechanism, params.torque_limit)
            period = 1.0 / (sim.rate_hz or 1e3 / sim.step_ms)
            check_hanging(mechanism, params.trunk_stiffness, params.trunk_damping, period)

    @classmethod
    def commands(cls, params: Any, plan: Plan) -> Collection[str] | None:
        return actuators(plan.sim.parameters)

    def on_start(self, context: Context) -> Outgoing:
        self._context, self._params, self._actuators = context, context.params, actuators(context.robot_parameters)
        self._take_over = TakeOver(context)
        return self._begin(0.0)

    def on_parameters(self, params: BrachiationParams) -> Outgoing:
        self._params = params
        return None

    def on_reset(self, time: float) -> Outgoing:
        self._take_over.restart(time)
        return self._begin(time)

    def snapshot(self) -> Any:
        """State of the controller. Plans are stored without the path of the hand, which the controller does not use."""
        state = super().snapshot()
        waiting = [msgspec.structs.replace(plan, path=[]) for plan in self._waiting]
        current = None if self._current is None else msgspec.structs.replace(self._current, path=[])
        return {**state, "_waiting": waiting, "_current": current}

    def _begin(self, time: float) -> Outgoing:
        self._now = time
        self._current: SwingPlan | None = None
        self._waiting: list[SwingPlan] = []
        self._flying = False
        self._progress = SwingProgress()
        self._falls = self._regrips = self._misses = self._missed = self._gripping = 0
        self._peak_torque = self._peak_force = self._peak_error = 0.0
        return None

    def on_message(self, name: str, message: Message) -> Outgoing:
        if isinstance(message, SwingPlan):
            return self._queue(message)
        if isinstance(message, Event):
            self._falls += message.kind == "fall"
            self._take_over.process_event(message)
            return None
        return self._answer(message) if isinstance(message, RobotState) else None

    def _queue(self, plan: SwingPlan) -> Outgoing:
        """Queue a plan until its start time. A plan that is received after its start time is counted and discarded."""
        if self._now > plan.start + SAME_INSTANT:
            progress = self._progress
            self._progress = msgspec.structs.replace(progress, refused=plan.number, late=progress.late + 1)
            return [("swing_status", self._progress)]
        self._waiting.append(plan)
        return None

    def _answer(self, state: RobotState) -> Outgoing:
        self._now = state.timestamp
        grips = {hand: state.outputs[f"hand_{hand}_grips"] > 0.5 for hand in HANDS}
        self._gripping = sum(grips.values())
        changed = self._activate_due_plan()
        if all(grips.values()):
            if self._flying:
                changed = True
                self._end_swing(state)
        elif self._current is not None:
            self._flying = True
            self._note_miss(self._current)
        torque, closed = self._act(state)
        torque = self._faded(state, torque)
        self._measure(state, torque)
        value = [torque, *(float(closed[hand]) for hand in HANDS)]
        if len(self._actuators) > len(value):
            value.append(self._hanging(state))
        command = JointCommand(name=self._actuators, value=value, state_seq=state.seq)
        outgoing: list[tuple[str, Message]] = [("command", command)]
        if changed:
            outgoing.append(("swing_status", self._progress))
        return outgoing

    def _faded(self, state: RobotState, torque: float) -> float:
        """Elbow torque to command (N m).

        When the controller takes over in the middle of a run, the command fades from the present torque to `torque`.
        """
        self._take_over.add_state(state)
        given = state.effort[state.name.index("elbow")] if state.effort else 0.0
        return float(self._take_over(state.timestamp, np.array([given]), np.array([torque]))[0])

    def _note_miss(self, plan: SwingPlan) -> None:
        """Count the plan as missed, at most once, if its swing should have ended more than OVERDUE seconds ago."""
        if plan.number != self._missed and self._now > plan.start + plan.duration + OVERDUE:
            self._missed = plan.number
            self._misses += 1

    def _end_swing(self, state: RobotState) -> None:
        """End the swing, discard all plans, and count the swing as a hand-over or a regrip.

        The swing is a hand-over if the hand that swung is now in front of the other hand, otherwise a regrip.
        """
        plan, hands = self._current, {hand: state.outputs[f"hand_{hand}_x"] for hand in HANDS}
        ahead = plan is not None and max(hands, key=hands.__getitem__) != plan.hand
        progress, self._flying, self._current, self._waiting = self._progress, False, None, []
        self._regrips += not ahead
        self._progress = msgspec.structs.replace(progress, plan=msgspec.UNSET, hand_overs=progress.hand_overs + ahead)

    def _activate_due_plan(self) -> bool:
        due = [plan for plan in self._waiting if plan.start <= self._now + SAME_INSTANT]
        if not due:
            return False
        self._waiting = [plan for plan in self._waiting if plan not in due]
        self._current = max(due, key=lambda plan: plan.number)
        self._progress = msgspec.structs.replace(self._progress, plan=self._current.number)
        return True

    def _act(self, state: RobotState) -> tuple[float, dict[str, bool]]:
        """Return (torque of the elbow in N m, {hand: whether its gripper is closed}) in reply to a state."""
        plan, params = self._current, self._params
        closed = dict.fromkeys(HANDS, True)
        if plan is None:
            return 0.0, closed
        elapsed = self._now - plan.start
        swinging = "b" if plan.hand == "a" else "a"
        closed[swinging] = elapsed >= plan.duration - 1e-3 * params.close_ms
        joint = state.name.index("elbow")
        angle, rate = path_at(plan, elapsed)
        error = angle - state.position[joint]
        self._peak_error = max(self._peak_error, abs(error))
        torque = torque_at(plan, elapsed) + params.stiffness * error
        torque += params.damping * (rate - state.velocity[joint])
        return min(max(torque, -params.torque_limit), params.torque_limit), closed

    def _hanging(self, state: RobotState) -> float:
        """Torque of the trunk's motor (N m).

        A PD law reduces the angle between the trunk and the vertical to zero.
        """
        pitch, trunk, params = state.name.index("pitch"), state.name.index("trunk"), self._params
        leans = math.remainder(state.position[pitch] + state.position[trunk], math.tau)
        torque = -params.trunk_stiffness * leans
        torque -= params.trunk_damping * (state.velocity[pitch] + state.velocity[trunk])
        return float(min(max(torque, -params.torque_limit), params.torque_limit))

    def _measure(self, state: RobotState, torque: float) -> None:
        self._peak_torque = max(self._peak_torque, abs(torque))
        for hand in HANDS:
            force = math.hypot(*(state.outputs.get(f"hand_{hand}_force_{axis}", 0.0) for axis in "xz"))
            self._peak_force = max(self._peak_force, force)

    @property
    def counters(self) -> Mapping[str, int]:
        return {
            "hand_overs": self._progress.hand_overs,
            "late_plans": self._progress.late,
            "regrips": self._regrips,
            "misses": self._misses,
            "falls": self._falls,
        }

    @property
    def figures(self) -> Mapping[str, float]:
        return {
            "hand_overs": float(self._progress.hand_overs),
            "late_plans": float(self._progress.late),
            "regrips": float(self._regrips),
            "misses": float(self._misses),
            "falls": float(self._falls),
            "hands_that_grip": float(self._gripping),
            "peak_torque_n_m": self._peak_torque,
            "peak_hand_force_n": self._peak_force,
            "peak_elbow_error_rad": self._peak_error,
        }


def actuators(given: Mapping[str, float | str]) -> list[str]:
    """Names of the actuators that the controller commands, for a gibbon with these parameters.

    They include the actuator "trunk" if the gibbon's trunk has a motor.
    """
    has_motor = given.get("links") == 3 and given.get("trunk") == "actuated"
    return [*ACTUATORS, "trunk"] if has_motor else ACTUATORS


def path_at(plan: SwingPlan, elapsed: float) -> tuple[float, float]:
    """Planned angle (rad) and rate (rad/s) of the elbow, `elapsed` seconds after the plan's start.

    After the plan's end, the elbow rests at the final angle.
    """
    s = min(max(elapsed / plan.duration, 0.0), 1.0)
    angle = rate = 0.0
    for power in reversed(plan.elbow):
        rate = rate * s + angle
        angle = angle * s + power
    return angle, rate / plan.duration if elapsed < plan.duration else 0.0


def torque_at(plan: SwingPlan, elapsed: float) -> float:
    """Planned elbow torque (N m), `elapsed` seconds after the plan's start.

    The torque is interpolated linearly between the samples of the plan. After the plan's end, it is the last sample.
    """
    if not plan.torque:
        return 0.0
    place = min(max(elapsed / plan.duration, 0.0), 1.0) * (len(plan.torque) - 1)
    before = min(int(place), len(plan.torque) - 2) if len(plan.torque) > 1 else 0
    after = min(before + 1, len(plan.torque) - 1)
    return plan.torque[before] + (place - before) * (plan.torque[after] - plan.torque[before])
