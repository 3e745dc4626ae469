"""Compares the robot's measured states with the model's predictions during a run, and gives a verdict at the end."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from nodes.framework.messages import (
    BodyPoses,
    Description,
    Event,
    JointCommand,
    Message,
    PeerClock,
    Residual,
    RobotState,
    Verdict,
)
from nodes.framework.plan.key_checks import PlanError
from nodes.framework.plan.launch_plan import Plan
from nodes.framework.plan.node_classes import load_class
from nodes.guard.stop_log import GuardActions
from nodes.hil.alignment.comparison import FEWEST_REGULAR, REGULAR_S
from nodes.hil.alignment.irregularities import STARVED, STARVED_S
from nodes.hil.alignment.live import JointSums
from nodes.hil.alignment.missing import MissingStates
from nodes.hil.alignment.stamps import LiveAlignment
from nodes.hil.prediction.measured_poses import MeasuredPoses
from nodes.hil.prediction.predicting import Judged, LivePrediction
from nodes.hil.report.limits import Limits, angle_text, excess_text
from nodes.node import Context, Node, Outgoing
from robots.registry import build

MOST_LEFT_OUT = 0.02  # with a clock that jumped: a larger share of unpaired states makes the verdict "not certain"
PATIENCE_S = 1.0
NOTHING = "nothing was measured: no message on `measured_state` arrived"
# attributes
STATE = ("_clocks", "_sigma_s", "_time", "_warned_lost", "_sums", "_regular", "_starved", "_sliding", "_missing")
REPORT = "armswing hil report {recording}"


class HilCompareParams(Limits, forbid_unknown_fields=True, frozen=True):
    """Limits of the error measures, and parameters of the pairing of measured and predicted states."""

    gap_ms: float = 100.0  # largest time between two predicted states that is interpolated over
    known_delay_ms: float = 0.0  # known and accepted delay of the measurement
    settle_s: float = 0.0  # s of simulation time at the start that are left out of the verdict

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (math.isfinite(self.gap_ms) and self.gap_ms > 0.0):
            raise ValueError(f"gap_ms is {self.gap_ms}; it must be a number above 0")
        for name in ("known_delay_ms", "settle_s"):
            if not (math.isfinite(value := getattr(self, name)) and value >= 0.0):
                raise ValueError(f"{name} is {value}; it must be a number of at least 0")


def _publishes_applied_commands(plan: Plan | None) -> bool:
    """Whether a node of the plan publishes `applied_command`. Nodes whose class cannot be loaded on this computer are
    ignored.
    """
    if plan is None:
        return False
    for node in plan.nodes:
        with suppress(PlanError):
            if "applied_command" in load_class(node.run, plan.folder).publishes:
                return True
    return False


class HilCompare(Node):
    """Publishes the residual, measured minus predicted, at the instant of each measured state, and judges it by limits.

    The topic `state` is the prediction, `measured_state` the robot's measurement. Measured states without a prediction
    for their instant are counted. RMS and maximum are judged without correction of a delay; `armswing hil report`
    corrects the delay and searches for causes.

    If another clock stamped the measurement, the stamps are first converted to simulation time by means of round trips
    to the node with that clock. HilCompare publishes these round trips on the topic "/clock".

    If the robot publishes `applied_command`, the measurement is compared with a model that receives each command at the
    instant at which the robot received it. Network delay then does not count as an error of the robot.

    A guard changes what the robot does, and this comparison shows the changed motion. The verdict therefore names each
    guard that stopped the robot or limited commands. If a guard still keeps the robot stopped at the end of the run,
    the verdict is at best "not certain", because the rest of the commanded motion was not compared. The same holds if
    measured states are missing for more than a second.
    """

    subscribes = {
        "state": RobotState,
        "measured_state": RobotState,
        "applied_command": JointCommand,
        "description": Description,
        "event": Event,
    }
    publishes = {"residual": Residual, "/clock": PeerClock, "event": Event, "measured_body_poses": BodyPoses}
    Params = HilCompareParams

    def on_start(self, context: Context) -> Outgoing:
        """Start without residuals; load the model's compiled functions if the robot publishes `applied_command`."""
        self._context = context
        self._params: HilCompareParams = context.params
        sim = None if context.plan is None else context.plan.sim
        self._is_timed = sim is not None and sim.mode == "realtime"
        self._alignment = LiveAlignment(self._params.gap_ms * 1e-3, sim.speed if sim is not None else 1.0)
        self._clocks: set[str] = set()
        self._sigma_s = 0.0  # standard deviation of the simulation time of a stamp, s
        self._time = 0.0
        times = self._params.gap_ms * 1e-3, self._params.known_delay_ms * 1e-3
        self._prediction = LivePrediction(sim, *times)
        if _publishes_applied_commands(context.plan):
            self._prediction.prepare()  # before the run begins: loading kernels takes 0.2 s, compiling them longer
        self._poses = self._measured_poses(context)
        self._warned_lost = False
        self._patient_until: float | None = None  # time at which a robot that has sent nothing is warned of
        self._hears_robot = self._warned_silent = False
        self._sums: dict[str, JointSums] = {}
        self._regular: dict[str, JointSums] = {}  # of the pairs at regular times only
        self._starved = 0  # pairs while the simulation fell behind the clock, minus other pairs
        self._sliding: set[str] = set()
        self._missing = MissingStates()
        self._guards = GuardActions()
        return None

    def on_parameters(self, params: HilCompareParams) -> Outgoing:
        """Change the limits while running. Changes of the parameters of the pairing have no effect until the next
        start.
        """
        self._params = params
        return None

    def on_message(self, name: str, message: Message) -> Iterator[tuple[str, Message]]:
        """Pair measured and predicted states, and yield the residual of each pair."""
        self._hears_robot = self._hears_robot or name == "measured_state"
        if isinstance(message, Description):
            self._sliding = {joint.name for joint in message.joints if joint.unit == "m"}
        elif isinstance(message, Event):
            self._prediction.process_event(message)
            self._guards.add(message, self._time)
        elif isinstance(message, RobotState) and name == "state":
            self._time = message.timestamp
            self._warn_of_silence()
            if self._poses is not None:
                self._poses.add_state(message)
            yield from self._sum_up(self._prediction.predict(message))
            for placed in self._alignment.predict(message):
                yield from self._process(placed)
        elif isinstance(message, RobotState | JointCommand) and not message.clock:
            yield from self._process(message)
        elif isinstance(message, RobotState | JointCommand):
            if message.clock not in self._clocks:
                self._clocks.add(message.clock)
                self._sigma_s = max(self._sigma_s, self._alignment.uncertainty(message.clock) or 0.0)
            for placed in self._alignment.measure(message):
                yield from self._process(placed)
        if self._prediction.lost and not self._warned_lost:
            self._warned_lost = True
            self._context.warn(
                f"{self._prediction.lost}; measured states are now compared with the states of the running simulation, "
                "so that a late command counts as a lag of the robot"
            )

    def _warn_of_silence(self) -> None:
        """Warn once, if no measured state arrived within PATIENCE_S of simulation time."""
        if self._patient_until is None:
            self._patient_until = self._time + PATIENCE_S
        elif not (self._hears_robot or self._warned_silent) and self._time >= self._patient_until:
            self._warned_silent = True
            self._context.warn(f"{NOTHING} for {PATIENCE_S:g} s; is the robot on, and does its driver publish them?")

    def _measured_poses(self, context: Context) -> MeasuredPoses | None:
        """Source of the measured robot's poses; None, with a warning, if the model cannot be built on this computer."""
        if context.plan is None:
            return None
        try:
            sim = context.plan.sim
            return MeasuredPoses(build(sim.robot, **sim.parameters), sim.poses_hz)
        except (ValueError, LookupError, OSError, ImportError) as error:
            context.warn(
                f"measured_body_poses is not published, because the model cannot be built on this computer: {error}"
            )
            return None

    def _process(self, placed: RobotState | JointCommand) -> Iterator[tuple[str, Message]]:
        """Process a measured state or an applied command whose stamp is simulation time."""
        if isinstance(placed, RobotState) and self._poses is not None:
            poses = self._poses.at(placed)
            if poses is not None:
                yield "measured_body_poses", poses
        yield from self._sum_up(self._prediction.add_message(placed))

    def _sum_up(self, pairs: Judged) -> Iterator[tuple[str, Message]]:
        for residual, rates in pairs:
            self._missing.add(residual.timestamp)
            if residual.timestamp >= self._params.settle_s:
                at = residual.timestamp
                irregular = self._alignment.irregular_s(at) if self._clocks or self._is_timed else 0.0
                self._starved += 1 if irregular > STARVED_S else -1
                for joint, r, v in zip(residual.name, residual.position, rates, strict=True):
                    self._sums.setdefault(joint, JointSums()).add(r, v, self._sigma_s, at, irregular)
                    if irregular <= REGULAR_S and (self._clocks or self._is_timed):
                        self._regular.setdefault(joint, JointSums()).add(r, v, self._sigma_s, at, irregular)
            yield "residual", residual

    def on_clock(self, reading: PeerClock) -> Iterator[tuple[str, Message]]:
        """Add a round trip to the estimate of a node's clock. Yields the round trip, and an event if the clock
        jumped.
        """
        reading.timestamp = self._time
        for outgoing in self._alignment.tracks.add(reading):
            if isinstance(outgoing[1], Event):
                self._context.warn(outgoing[1].detail)
            yield outgoing
        self._alignment.add_round_trip(reading)
        self._sigma_s = max((self._alignment.uncertainty(clock) or 0.0 for clock in self._clocks), default=0.0)

    def snapshot(self) -> Any:
        """Residuals and predictions so far, for `restore`.

        Clock estimates are left out, because in lockstep all stamps are simulation time.
        """
        found = {"own": {name: getattr(self, name) for name in STATE}, "prediction": self._prediction.snapshot()}
        found["guards"] = self._guards.snapshot(self._time)
        return found if self._poses is None else {**found, "poses": self._poses.snapshot()}

    def restore(self, state: Any) -> None:
        """Continue from a result of `snapshot`."""
        vars(self).update(state["own"])
        self._prediction.restore(state["prediction"])
        self._guards.restore(state.get("guards", {}), self._time)
        if self._poses is not None and "poses" in state:
            self._poses.restore(state["poses"])

    def on_reset(self, time: float) -> Outgoing:
        """Drop the measured states that wait for a prediction. The verdict still includes earlier residuals."""
        self._prediction.forget(time)
        self._missing.forget()
        self._guards.reset(self._time, time)
        self._time = time
        return None

    @property
    def counters(self) -> Mapping[str, int]:
        """Numbers of measured states with a prediction, without a prediction, and waiting for one; and of those that
        were left out because they follow a pause of the stamps, and may be as old as the pause.

        If other clocks stamp measured states, the result also has the number of clock jumps.
        """
        found = {"paired": self._prediction.pairs.paired, "unpaired": self._unpaired, "waiting": self._waiting}
        if self._alignment.old:
            found["old"] = self._alignment.old
        return found | ({"clock_steps": self._alignment.tracks.steps} if self._clocks else {})

    @property
    def figures(self) -> Mapping[str, float]:
        """Mean and largest age of the robot's commands (ms), and offset, drift and uncertainty of each clock.

        The age of a command is the time from the state from which the command was computed to the instant at which the
        robot received the command. The offset (s) is the other clock minus this node's clock. The drift is in ppm.
        The uncertainty (ms) is the standard deviation of the simulation times computed from the other clock.
        """
        found: dict[str, float] = {}
        if (ages := self._prediction.ages).count:
            found |= {"command_age_mean_ms": 1e3 * ages.mean, "command_age_max_ms": 1e3 * ages.largest}
        for clock in sorted(self._clocks):
            track, sigma = self._alignment.tracks.get(clock), self._alignment.uncertainty(clock)
            if track is not None and track.clock is not None and sigma is not None:
                found[f"{clock}_clock_offset_s"] = track.latest_offset
                found[f"{clock}_clock_drift_ppm"] = 1e6 * track.clock.drift
                found[f"{clock}_clock_uncertainty_ms"] = 1e3 * sigma
        return found

    @property
    def _unpaired(self) -> int:
        return self._prediction.pairs.unpaired + self._alignment.lost

    @property
    def _waiting(self) -> int:
        return self._prediction.waiting + self._alignment.waiting

    @property
    def verdict(self) -> Verdict:
        """The verdict on the run. Its reason names the first exceeded limit and how many others are exceeded.

        Its outcome is "passed", "failed" or "not certain". It is "not certain" if the uncertainty of the clocks, or the
        time by which the simulation fell behind the clock, may explain the excess, or if it fell behind at most
        instants; if a clock jumped at an unknown instant; if it is unknown which commands the robot applied and when;
        if most measured states have no prediction; if measured states are missing for more than a second; or if a guard
        holds the robot stopped. The reason also names what guards did during the run.
        """
        alone = self._unpaired + self._waiting
        driven = f"; {self._prediction.ages.text}" if self._prediction.retraces else ""
        if driven and self._prediction.commands_lost:
            driven += f" ({self._prediction.commands_lost} of them lost in transmission)"
        count = self._alignment.old
        old = f", {count} after a pause not compared, as they may be older than their stamps" if count else ""
        paired = self._prediction.pairs.paired
        counted = f"{paired} states compared, {alone} without a partner{old}{self._by_clocks()}{driven}"
        guarded = "; ".join(self._guards.lines(self._time))
        missing = self._missing.until(self._time)
        if not self._sums:
            if not self._hears_robot:
                return Verdict("failed", NOTHING)
            if paired:
                first = f"{self._params.settle_s:g} s, where the verdict begins"
                return Verdict("failed", f"all {paired} compared states are from before {first}")
            return Verdict("failed", "no measured state found a partner", counted, REPORT)
        if alone > paired:
            besides = f"; {missing}" if missing else ""
            return Verdict(
                "not certain", f"{alone} states have no partner, more than were compared{besides}", counted, REPORT
            )
        beyond = [each for joint, sums in self._sums.items() for each in self._beyond(joint, sums)]
        regular = {joint: sums for joint, sums in self._regular.items() if sums.n >= FEWEST_REGULAR}
        beyond_regularly = [each for joint, sums in regular.items() for each in self._beyond(joint, sums)]
        certain = [text for text, is_certain in beyond if is_certain]
        certain = certain or [text for text, is_certain in beyond_regularly if is_certain]
        if beyond:
            texts = certain or [text for text, _ in beyond]
            more = f" and {len(texts) - 1} more" if len(texts) > 1 else ""
            if why := self._why_not_certain(bool(certain)):
                return Verdict("not certain", f"{texts[0]}{more}, {why}", counted, REPORT)
            besides = "".join(f"; {text}" for text in (missing, guarded) if text)
            return Verdict("failed", f"{texts[0]}{more}{besides}", counted, REPORT)
        if missing:
            return Verdict("not certain", f"{missing}, and that motion was not compared", counted, REPORT)
        if self._guards.is_held(self._time):
            held = f"the commanded motion was not compared to its end: {guarded}"
            return Verdict("not certain", held, counted, REPORT)
        worst = max(self._sums, key=lambda joint: self._sums[joint].rms / self._limit("rms", joint))
        rms = angle_text(self._sums[worst].rms, worst in self._sliding)
        reason = f"by positions alone, {worst} comes nearest to its limits, with an RMS of {rms}"
        reason += f"; with changes by guards: {guarded}" if guarded else ""
        return Verdict("passed", reason, counted, REPORT)

    def _by_clocks(self) -> str:
        """Text about the uncertainty of each clock, such as "; clock of hardware: known to 0.12 ms"."""
        texts = []
        for clock in sorted(self._clocks):
            sigma = self._alignment.uncertainty(clock)
            known = "not measured by any round trip" if sigma is None else f"known to {1e3 * sigma:.2g} ms"
            texts.append(f"; clock of {clock}: {known}")
        return "".join(texts)

    def _limit(self, figure: str, joint: str) -> float:
        return self._params.of(figure, joint in self._sliding)

    def _why_not_certain(self, is_beyond: bool) -> str:
        """One line that says why it is not certain that a limit is exceeded; "" if it is certain.

        is_beyond  whether an error measure exceeds its limit by more than the measure's uncertainty
        """
        if unsure := self._alignment.unsure:
            steps = "once" if unsure == 1 else f"{unsure} times"
            return f"but a clock was {steps} put forward or back, or may have been, at an unknown instant"
        if lost := self._prediction.commands_lost:
            return f"but {lost} of the commands that the robot applied were lost in transmission"
        if unknown := self._alignment.commands_unknown:
            return f"but {unknown} of the commands that the robot applied acted at unknown instants"
        if self._prediction.lost and self._clocks:
            return f"but commands that came late may explain it, as {self._prediction.lost}"
        if self._starved > 0:
            return f"but {STARVED}"
        left_out = self._unpaired + self._waiting
        if any(self._alignment.tracks[clock].steps for clock in self._clocks if clock in self._alignment.tracks) and (
            left_out > MOST_LEFT_OUT * self._prediction.pairs.paired
        ):
            return f"but a clock jumped and {left_out} states have no partner: this computer is too busy to tell"
        return "" if is_beyond else "which the irregular times of the measurement may explain"

    def _beyond(self, joint: str, sums: JointSums) -> Iterator[tuple[str, bool]]:
        """Yield (text, whether the excess is certain) for each error measure of a joint that exceeds its limit.

        The excess is certain if it is larger than the uncertainty of the error measure.
        """
        uncertainty = sums.uncertainties
        for figure, value in (("bias", sums.bias), ("rms", sums.rms), ("max", sums.largest)):
            limit = self._limit(figure, joint)
            if abs(value) > limit:
                text = excess_text(figure, joint, value, limit, joint in self._sliding)
                yield text, abs(value) - uncertainty[figure] > limit
        delay, most = sums.delay_s, self._params.delay_ms
        if delay is not None and abs(delay) * 1e3 > most:
            is_certain = (abs(delay) - uncertainty["delay"]) * 1e3 > most
            yield excess_text("delay", joint, delay, most * 1e-3, joint in self._sliding), is_certain
