"""Decides when to plan a swing and from which state.

The supervisor follows the hands along the cable or bars. It plans a swing while both hands grip, and replans during the
swing.

The supervisor uses what a robot can measure (`Measured`), the planner's model, and the plans that it made earlier. It
handles no messages and reads no clock: it uses the time of the latest measurement.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from nodes.planning.brachiation.line_estimate import HandOnLine, LineEstimate
from nodes.planning.brachiation.planner import Plan, Task, cost_of, folded_elbow, plan_swing, remaining
from nodes.planning.brachiation.rollout import N_POWERS, Roller
from nodes.planning.brachiation.swing_model import BOTH, DROP, ELBOW, PITCH, SLIDE, SWING, TRUNK, PlannerModel

HANDS = ("a", "b")
# first guesses without an earlier plan: durations relative to the pendulum swing of the links; even bumps, rad
FAN_DURATIONS = tuple(float(factor) for factor in np.linspace(0.65, 1.35, 8))
FAN_BUMPS, FAN_TRIED = (-110.0, -70.0, -30.0, 10.0), 4
REPLAN_DURATIONS, REPLAN_STEPS = (1.15, 0.85), 8
GOOD_COST, FAIR_COST = 4.0, 25.0  # a lower cost ends the search, before a swing and in flight
LATE, LATE_COST = 0.4, 2.0  # within LATE s of the end, a plan of lower cost is kept
# highest accepted cost of a plan: START_COST at once, n MOST_COST after waiting n times `patience`
START_COST, MOST_COST = 2.0, 10.0
LONGEST_LEAD = 1.0  # s, longest lead of the first plan of a swing
OVERDUE, ASKED_AGAIN = 0.3, 0.1  # s after its end, a swing counts as missed; s between attempts while no plan is good
STRIKE = 20.0  # N s, typical impulse of a grip on the line
SAME_INSTANT = 1e-6  # s
STATE = ("_measured", "_gripped_since", "_next_plan", "_made", "_first_lead", "none_good", "nearest")  # attributes
LONGEST_GAP = 0.05  # s, longest prediction step of the line estimate


@dataclass(frozen=True)
class Hand:
    """Position (m) and velocity (m/s) of a hand in the world; x points along the cable or bars, z up."""

    x: float
    z: float
    vx: float
    vz: float


@dataclass(frozen=True)
class Measured:
    """Measured state of the robot: joint angles (rad), rates (rad/s), torques (N m), and motion of both hands.

    time    simulation time, s
    pitch   angle of arm a from the hanging position
    elbow   angle of the elbow
    grips   hands that grip: "", "a", "b" or "ab"
    torque  torque of the elbow
    trunk   angle of the trunk relative to arm a; `trunk`, `trunk_rate` and `trunk_torque` are 0 for a robot without a
            trunk
    """

    time: float
    pitch: float
    elbow: float
    pitch_rate: float
    elbow_rate: float
    hands: tuple[Hand, Hand]
    grips: str
    torque: float = 0.0
    trunk: float = 0.0
    trunk_rate: float = 0.0
    trunk_torque: float = 0.0

    def hand(self, name: str) -> Hand:
        """Position and velocity of hand "a" or "b"."""
        return self.hands[HANDS.index(name)]


@dataclass(frozen=True)
class Gait:
    """Parameters of the brachiation along a line, which is a cable or a row of bars.

    step          distance between the two grips of a swing, m
    end           position along the line beyond which no hand shall grip, m
    torque_limit  limit of the elbow torque in plans, N m
    closing       speed of a hand toward the line at arrival, m/s
    lead          time from a measurement to the start of a plan that is made from this measurement during a swing, s;
                  a plan that starts a swing begins after a longer time, at first three times this time
    settle        time for which both hands must have gripped before a plan is made, s
    patience      time unit of waiting, s: while no good plan is found, the robot waits for the line to swing
                  favourably, and accepts plans whose cost may grow with the number of units waited
    period        time between two plans during a swing, s
    last          time before the end of a swing in which no new plan is made, s
    rollout_step  time step of the rollouts, s
    tolerance     position error of the arriving hand along the line (m) that adds as much to the cost of a plan as a
                  height error of GAP_SCALE
    above         height above the line at which the hand's path ends, m
    """

    step: float
    end: float
    torque_limit: float
    closing: float = 0.2
    lead: float = 0.05
    settle: float = 0.15
    patience: float = 1.0
    period: float = 0.05
    last: float = 0.12
    rollout_step: float = 4e-3
    tolerance: float = 2e-3
    above: float = 0.0


@dataclass(frozen=True)
class Swing:
    """A plan of one swing: its start time, its gripping hand and its target.

    hand     hand that grips during the swing
    start    simulation time at which the swing starts, s
    release  whether the other hand releases at the start
    target   position of the next grip along the line (cable or bars), m
    """

    number: int
    hand: str
    start: float
    release: bool
    target: float
    plan: Plan

    @property
    def end(self) -> float:
        """Simulation time at the end of the swing, s."""
        return self.start + self.plan.path.duration


class SwingSupervisor:
    """Takes measurements in order of time, and returns a plan whenever one is due.

    after      earlier supervisor (of another model or gait) from which this supervisor takes over the number of the
               latest plan, `none_good` and `nearest`
    none_good  number of attempts in which no plan was good enough to swing
    nearest    smallest distance (m) between the swinging hand and its target at the end of a planned swing, over the
               best plans of these attempts
    """

    def __init__(self, planner_model: PlannerModel, gait: Gait, after: SwingSupervisor | None = None) -> None:
        self.gait, self._planner_model = gait, planner_model
        self._rollers = {hand: Roller(planner_model, hand) for hand in HANDS}
        for roller in self._rollers.values():
            roller.warm_up()
        self._line: LineEstimate | None = None
        self._measured: Measured | None = None
        self._gripped_since = 0.0
        self._swings: list[Swing] = []
        self._next_plan = -1.0
        self._made: int = 0 if after is None else after._made
        self._begin = -np.inf if planner_model.cable is None else planner_model.cable.origin[0]
        self._first_lead = 3.0 * gait.lead
        self.none_good: int = 0 if after is None else after.none_good
        self.nearest: float = np.inf if after is None else after.nearest

    @property
    def line(self) -> LineEstimate | None:
        """Estimate of the cable's motion; None before the first measurement, and for a robot on rigid bars."""
        return self._line

    def snapshot(self) -> dict[str, Any]:
        """All data that the next plans depend on, for `restore`.

        An earlier plan is included with its elbow path, but without its torques and poses.
        """
        empty = np.zeros(0)
        swings = [replace(swing, plan=replace(swing.plan, torque=empty, poses=empty)) for swing in self._swings]
        return {
            "attributes": {name: getattr(self, name) for name in STATE},
            "swings": swings,
            "line": None if self._line is None else self._line.snapshot(),
            "rollers": {hand: roller.snapshot() for hand, roller in self._rollers.items()},
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from a result of `snapshot`."""
        vars(self).update(state["attributes"])
        self._swings = state["swings"]
        self._line = None
        if (cable := self._planner_model.cable) is not None and state["line"] is not None:
            self._line = LineEstimate(cable, self._planner_model.gravity, [], self._planner_model.grip_width)
            self._line.restore(state["line"])
        for hand, roller in self._rollers.items():
            roller.restore(state["rollers"][hand])

    def add_measurement(self, measured: Measured) -> None:
        """Add a measurement, and update the estimate of the cable's motion."""
        before = self._measured
        if before is None or measured.grips != before.grips:
            self._regripped(before, measured)
        if self._planner_model.cable is not None:
            self._follow_line(before, measured)
        self._measured = measured

    def refused(self, number: int) -> None:
        """Drop a plan that reached the robot too late.

        If the refused plan starts a swing from both hands, later plans that start a swing get a longer lead time.
        """
        late = [swing for swing in self._swings if swing.number == number]
        self._swings = [swing for swing in self._swings if swing.number != number]
        if any(swing.release for swing in late):
            self._first_lead = min(2.0 * self._first_lead, LONGEST_LEAD)

    def plan(self) -> Swing | None:
        """A new plan for the state of the latest measurement.

        Returns None if no plan is due yet, if no hand grips, or if no good plan is found.
        """
        measured = self._measured
        if measured is None or measured.time < self._next_plan - 1e-9 or not measured.grips:
            return None
        swing = self._from_both_hands(measured) if measured.grips == "ab" else self._in_flight(measured)
        if swing is not None:
            self._swings = [*self._swings[-7:], swing]
            on_time = self._next_plan + self.gait.period
            self._next_plan = on_time if on_time > measured.time else measured.time + self.gait.period
        return swing

    def hand_path(self, swing: Swing) -> np.ndarray:
        """Positions of the swinging hand at the instants of the plan, shape (n, 3), in m."""
        return swinging_hand(self._planner_model.ordered_from(swing.hand), swing.plan.poses)

    # -- plans

    def _from_both_hands(self, measured: Measured) -> Swing | None:
        """Plan a swing of the rear hand that starts while both hands grip.

        Returns None if no plan is due, if the swing would end beyond the end of the line, or if no plan is good enough.
        """
        pending = self._swings and measured.time < self._swings[-1].start + self.gait.period
        if pending or measured.time < self._gripped_since + self.gait.settle:
            return None
        hand = max(HANDS, key=lambda name: measured.hand(name).x)
        target = measured.hand(hand).x + self.gait.step
        if target > self.gait.end:
            return None
        start, roller = measured.time + self._first_lead, self._rollers[hand]
        self._place(roller, measured, hand)
        roller.tau[ELBOW] = 0.0
        roller.coast(start - measured.time, self.gait.rollout_step, BOTH)
        plan = self._fan(roller, (float(roller.q[ELBOW]), 0.0, 0.0), target, 1.0)
        waited = (measured.time - self._gripped_since - self.gait.settle) / self.gait.patience
        if plan.cost > (START_COST if waited < 1.0 else MOST_COST * waited):
            self._next_plan = measured.time + ASKED_AGAIN
            self._count_without(plan, target)
            return None
        return self._swing(hand, start, True, target, plan)

    def _in_flight(self, measured: Measured) -> Swing | None:
        """Plan the rest of the present swing again, from the measured state.

        Returns None if the swing ends too soon for a new plan. If there is no present swing, a swing is planned that
        starts with one gripping hand (`_from_one_hand`).
        """
        start = measured.time + self.gait.lead
        ours = [swing for swing in self._swings if swing.hand == measured.grips]
        begun = [swing for swing in ours if swing.start <= measured.time + SAME_INSTANT]
        if not begun or measured.time > begun[-1].end + OVERDUE:
            return self._from_one_hand(measured)
        followed = [begun[-1], *(swing for swing in ours if measured.time < swing.start - SAME_INSTANT <= start)]
        current = followed[-1]
        if current.end - start < self.gait.last:
            return None
        roller = self._rollers[current.hand]
        self._place(roller, measured, current.hand)
        self._follow(roller, followed, measured.time, start)
        begin, guess = remaining(current.plan.path, start - current.start)
        enough = LATE_COST if current.end - start < LATE else 0.0
        plan = self._replanned(roller, begin, guess, self._task(current.target), enough)
        return self._swing(current.hand, start, False, current.target, plan)

    def _follow(self, roller: Roller, swings: list[Swing], since: float, until: float) -> None:
        """Simulate the elbow's motion from time `since` to time `until` (s) along the consecutive plans `swings`.

        Each plan is followed until the next plan starts.
        """
        changes = [since, *(swing.start for swing in swings[1:]), until]
        for swing, t0, t1 in zip(swings, changes[:-1], changes[1:], strict=True):
            path = swing.plan.path
            share, end = ((t - swing.start) / path.duration for t in (t0, t1))
            roller.roll(path.powers, path.duration, end, self.gait.rollout_step, share)

    def _from_one_hand(self, measured: Measured) -> Swing | None:
        """Plan a swing that starts with one gripping hand and the elbow at rest.

        The swing is forward if the free hand is behind the gripping hand, otherwise backward. Returns None if no good
        plan is found, if the target is beyond an end of the line, or if an earlier plan still applies. The robot then
        swings on, and the planner tries again later.
        """
        hand, lead = measured.grips, self._first_lead
        other = HANDS[1 - HANDS.index(hand)]
        sense = 1.0 if measured.hand(other).x < measured.hand(hand).x else -1.0
        target = measured.hand(hand).x + sense * self.gait.step
        self._next_plan = measured.time + ASKED_AGAIN
        if (
            self._swings and self._swings[-1].start > measured.time - OVERDUE
        ) or not self._begin < target < self.gait.end:
            return None
        roller = self._rollers[hand]
        self._place(roller, measured, hand)
        held = float(roller.q[ELBOW])
        roller.roll(np.array([held, *[0.0] * (N_POWERS - 1)]), lead, 1.0, self.gait.rollout_step)
        plan = self._fan(roller, (held, 0.0, 0.0), target, sense)
        if plan.cost >= FAIR_COST:
            self._count_without(plan, target)
            return None
        return self._swing(hand, measured.time + lead, False, target, plan)

    def _count_without(self, best: Plan, target: float) -> None:
        """Count an attempt without a good plan, and update `nearest` with the distance by which the best plan of this
        attempt misses the target.
        """
        self.none_good += 1
        self.nearest = min(self.nearest, math.hypot(best.arrival.gap - self.gait.above, best.arrival.way - target))

    def _replanned(
        self, roller: Roller, begin: tuple[float, float, float], guess: np.ndarray, task: Task, enough: float
    ) -> Plan:
        """The best plan that optimization from one or several initial guesses finds.

        The first guess is `guess`. If the resulting plan is not good enough, guesses with other durations follow.

        begin   angle, rate and acceleration of the elbow at the start of the plan
        guess   (4,) `unknowns` of `elbow_path` that describe the rest of the previous plan
        enough  cost below which the first optimization stops
        """
        q, v = roller.q.copy(), roller.v.copy()
        best = plan_swing(roller, q, v, begin, guess, task, REPLAN_STEPS, enough)
        rollouts = best.rollouts
        for factor in REPLAN_DURATIONS:
            if best.cost < FAIR_COST:
                break
            other = plan_swing(roller, q, v, begin, guess * np.array([1.0, factor, 1.0, 1.0]), task, most=REPLAN_STEPS)
            best, rollouts = min(best, other, key=lambda plan: plan.cost), rollouts + other.rollouts
        return replace(best, rollouts=rollouts)

    def _fan(self, roller: Roller, begin: tuple[float, float, float], target: float, sense: float) -> Plan:
        """The best plan of a search over many initial guesses.

        One rollout rates each guess. Plans are optimized from the FAN_TRIED best guesses, until a plan is good enough.

        begin   angle, rate and acceleration of the elbow at the start of the plan
        target  position along the line (cable or bars) at which the free hand shall grip, m
        sense   1 for a forward swing, -1 for a backward swing
        """
        q, v, task = roller.q.copy(), roller.v.copy(), self._task(target)
        links = self._planner_model.links
        final = -sense * folded_elbow(self.gait.step, (links[0].length, links[1].length))
        pendulum = 4.1 * float(np.sqrt(0.5 * (links[0].length + links[1].length) / self._planner_model.gravity))
        guesses = [
            np.array([final, duration * pendulum, sense * bump, 0.0])
            for bump in FAN_BUMPS
            for duration in FAN_DURATIONS
        ]
        costs = [cost_of(roller, q, v, begin, guess, task) for guess in guesses]
        best, rollouts = None, len(guesses)
        for k in sorted(range(len(guesses)), key=costs.__getitem__)[:FAN_TRIED]:
            plan = plan_swing(roller, q, v, begin, guesses[k], task)
            best, rollouts = plan if best is None or plan.cost < best.cost else best, rollouts + plan.rollouts
            if best.cost < GOOD_COST:
                break
        assert best is not None
        return replace(best, rollouts=rollouts)

    def _task(self, target: float) -> Task:
        gait = self.gait
        return Task(target, gait.closing, gait.torque_limit, gait.rollout_step, gait.tolerance, gait.above)

    def _swing(self, hand: str, start: float, release: bool, target: float, plan: Plan) -> Swing:
        self._made += 1
        return Swing(self._made, hand, start, release, target, plan)

    # -- state of the planner's model

    def _place(self, roller: Roller, measured: Measured, hand: str) -> None:
        """Set the initial state of a rollout: the robot hangs by `hand`, with the measured joint state and the
        estimated cable state.
        """
        n = self._planner_model.n_rigid
        roller.q[:n], roller.v[:n] = rigid(measured, hand, n)
        if self._line is not None:
            roller.q[n:], roller.v[n:] = self._line.amplitude, self._line.rate
            roller.set_tension(self._line.tension_scale)

    def _regripped(self, before: Measured | None, measured: Measured) -> None:
        gained = [hand for hand in measured.grips if before is None or hand not in before.grips]
        if len(measured.grips) == 2:
            self._gripped_since = measured.time if before is not None else measured.time - self.gait.settle
            self._swings, self._next_plan = [], measured.time
        if self._line is not None and gained:  # the arms transmit the impact to the other hand
            for hand in measured.grips:
                self._line.struck(measured.hand(hand).x, STRIKE)

    def _follow_line(self, before: Measured | None, measured: Measured) -> None:
        planner_model, cable = self._planner_model, self._planner_model.cable
        assert cable is not None
        if self._line is None:
            weight = planner_model.gravity * planner_model.mass
            share = weight / max(len(measured.grips), 1)
            hands = [replace(self._on_line(measured.hand(hand)), force=share) for hand in measured.grips]
            self._line = LineEstimate(cable, planner_model.gravity, hands, planner_model.grip_width)
        if before is not None:
            dt = measured.time - before.time
            hands = self._pressing(before, measured)
            parts = max(int(np.ceil(dt / LONGEST_GAP)), 1)
            for _ in range(parts):
                self._line.predict(dt / parts, hands)
        self._line.correct([self._on_line(measured.hand(hand)) for hand in measured.grips])

    def _pressing(self, measured: Measured, after: Measured) -> list[HandOnLine]:
        """The gripping hands, with the downward forces (N) that these hands exert on the cable.

        The forces are computed with the planner's model. The state is that of `measured`; the joint torques are those
        of the next measurement, `after`.
        """
        if not measured.grips:
            return []
        hand = measured.grips[0]
        roller = self._rollers[hand]
        self._place(roller, measured, hand)
        roller.tau[ELBOW] = elbow_of_robot(hand, after.torque)
        roller.tau[TRUNK : self._planner_model.n_rigid] = after.trunk_torque
        hands = BOTH if len(measured.grips) == 2 else SWING
        roller.accelerate[hands]()
        rows, lam = ((0, 2) if hands == BOTH else (0,)), roller.lam
        found = [
            replace(self._on_line(measured.hand(name)), force=-float(lam[row]))
            for name, row in zip(measured.grips, rows, strict=True)
        ]
        roller.tau[ELBOW] = 0.0
        return found

    def _on_line(self, hand: Hand) -> HandOnLine:
        assert self._planner_model.cable is not None
        x, _, z = self._planner_model.cable.origin
        return HandOnLine(hand.x - x, z - hand.z, -hand.vz)


def rigid(measured: Measured, hand: str, size: int = 4) -> tuple[np.ndarray, np.ndarray]:
    """(coordinates, rates) of the planner's model with `hand` gripping, from the measured state, (size,) each.

    The coordinates are the first `size` of slide, drop (m), pitch, elbow, trunk (rad). Slide and drop are the position
    of the gripping hand, and the rate of slide is 0. Full turns are removed from the trunk's angle, so that the trunk
    is within half a turn of the vertical.
    """
    where = measured.hand(hand)
    q, v = np.zeros(5), np.zeros(5)
    q[SLIDE], q[DROP], v[SLIDE], v[DROP] = where.x, -where.z, 0.0, -where.vz
    if hand == "a":
        q[PITCH], q[ELBOW], v[PITCH], v[ELBOW] = (
            measured.pitch,
            measured.elbow,
            measured.pitch_rate,
            measured.elbow_rate,
        )
    else:
        q[PITCH], q[ELBOW] = measured.pitch + measured.elbow - np.pi, -measured.elbow
        v[PITCH], v[ELBOW] = measured.pitch_rate + measured.elbow_rate, -measured.elbow_rate
    leans = math.remainder(measured.pitch + measured.trunk, math.tau)
    q[TRUNK], v[TRUNK] = leans - measured.pitch + (0.0 if hand == "a" else np.pi), measured.trunk_rate
    return q[:size], v[:size]


def elbow_of_robot(hand: str, elbow: float) -> float:
    """Elbow angle, rate or torque in the robot's sign convention.

    hand   hand that grips in the planner's model
    elbow  the same quantity in the planner's model; its sign is reversed if hand b grips
    """
    return elbow if hand == "a" else -elbow


def swinging_hand(planner_model: PlannerModel, poses: np.ndarray) -> np.ndarray:
    """Positions (m) of the swinging hand, shape (n, 3), for coordinates (n, n_q) of the planner's model."""
    upper, lower = (link.length for link in planner_model.links)
    first, second = poses[:, PITCH], poses[:, PITCH] + poses[:, ELBOW]
    x = poses[:, SLIDE] - upper * np.sin(first) - lower * np.sin(second)
    z = -poses[:, DROP] - upper * np.cos(first) - lower * np.cos(second)
    return np.column_stack([x, np.zeros_like(x), z])
