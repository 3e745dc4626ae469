"""Checks a robot before its first run: joint limits, signs of motors and encoders, latency of its connection, and its
clock.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from nodes.framework.messages import Description, Event, JointCommand, Message, PeerClock, RobotState, Verdict
from nodes.framework.plan.key_checks import convert, suggestion
from nodes.framework.plan.launch_plan import NodePlan
from nodes.framework.plan.node_classes import load_class
from nodes.guard.limits import GuardParams
from nodes.hil.alignment.missing import LONGEST_S, missing_states
from nodes.hil.alignment.streams import Gap
from nodes.hil.clocks.track import ClockTracks
from nodes.node import Context, Node, Outgoing
from robots.registry import build
from sim_core.support.suggestion import did_you_mean

if TYPE_CHECKING:
    from nodes.framework.plan.launch_plan import Plan

SETTLE_S = 1.0  # time at rest before the first motion
HOLD_S = 0.3  # time at rest at the end of each motion
LEAST, MOST = 0.3, 3.0  # measured motion as a share of the commanded one
LEAST_SURE, MOST_SURE = 0.7, 1.4  # the same, without a note
OLDEST_S = 0.15  # largest age of the measured state by which a motion is judged
OTHERS = 0.5  # largest motion of a joint that should stand still, as a share of its amplitude
SLOW_S, TOO_SLOW_S = 0.02, 0.1  # round trip to the driver, 99 % of all
UNSURE_S = 2e-3  # uncertainty of the driver's clock
SILENT = "is the driver running, and its connection good?"
REVERSED = "its motor or its encoder is reversed"
AT_REST = "motor off or reversed, encoder reversed or its zero elsewhere than the servo's, or commands late"
LARGEST = {"amplitude_deg": 15.0, "amplitude_mm": 50.0}


class HilCheckParams(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Size and duration of the check's motions, the joints to move, and the file for the result.

    joints         joints to move; empty for all joints with a servo. The other joints with a servo are held.
    amplitude_deg  amplitude of a rotating joint, degrees, at most 15
    amplitude_mm   amplitude of a sliding joint, mm, at most 50
    move_s         duration of each motion (s)
    file           JSON file that the findings are written to; "" if they are not written to a file
    """

    joints: list[str] = []
    amplitude_deg: float = 1.5
    amplitude_mm: float = 5.0
    move_s: float = 0.8
    file: str = ""

    def __post_init__(self) -> None:
        for name in ("amplitude_deg", "amplitude_mm", "move_s"):
            if not 0.0 < getattr(self, name) < math.inf:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be a number above 0")
        for name, most in LARGEST.items():
            if getattr(self, name) > most:
                raise ValueError(
                    f"{name} is {getattr(self, name):g}, but the check makes small motions, of {most:g} at most"
                )


class CheckFinding(msgspec.Struct, frozen=True):
    """One row of the table of results. `result` is "go", "no go", or "note" for a result to be examined."""

    subject: str
    result: str
    text: str


def duration_s(n_joints: int, params: HilCheckParams) -> float:
    """Duration (s) of a check that moves `n_joints` joints."""
    return SETTLE_S + n_joints * 2.0 * (params.move_s + HOLD_S) + 0.5


class HilCheck(Node):
    """Moves the joints back and forth by a small amount, one after the other, and compares measured with commanded
    motion.
    """

    subscribes = {"description": Description, "state": RobotState, "measured_state": RobotState, "event": Event}
    publishes = {"command": JointCommand}
    Params = HilCheckParams
    stateless = True

    def on_start(self, context: Context) -> Outgoing:
        self._context, self._params = context, context.params
        self._description = Description()
        self._place: dict[str, tuple[float, float]] = {}
        self._start: dict[str, float] = {}
        self._servos: dict[str, str] = {}  # {actuator: joint} of all commanded joints
        self._sizes: dict[str, float] = {}  # {commanded joint: amplitude}
        self._moves: dict[str, float] = {}  # {joint to move: amplitude with its sign}; 0 if its limits leave no room
        self._unmoved: dict[str, str] = {}  # {joint: reason why it is not moved}
        self._motions: dict[str, dict[str, float]] = {}  # {moved joint: {joint: motion at its end}}
        self._work: dict[str, float] = {}  # {joint: sum of measured velocity times measured motion}
        self._stamps: list[float] = []
        self._arrivals: list[float] = []  # simulation times at which they arrived, s
        self._measured_at = 0.0  # simulation time at which the last measured state arrived, s
        self._ages: dict[str, float] = {}  # {moved joint: age of the measured state at the motion's end, s}
        self._failed = ""  # joint that went too far
        self._fell: dict[str, float] = {}  # {joint that went too far while it was held at rest: its motion}
        self._tracks = ClockTracks()
        self._clocks: dict[str, PeerClock] = {}
        self._trips: list[float] = []
        self._is_over, self._now = False, 0.0
        self._stops: dict[str, str] = {}  # {node whose guard stopped the robot: cause}
        self._guards: dict[str, GuardParams] = {}  # {driver with a guard, or guard node: limits}
        plan = context.plan
        for node in () if plan is None else plan.nodes:
            table = node.guard
            if plan is not None and table is None and load_class(node.run, plan.folder).Params is GuardParams:
                table = node.params
            if table is not None:
                self._guards[node.local_name] = convert(table, GuardParams, f"node {node.name!r}: guard")
        return None

    def on_message(self, name: str, message: Message) -> Outgoing:
        if isinstance(message, Description):
            self._description = message
        elif isinstance(message, Event):
            if message.kind == "guard_stop":
                self._stops.setdefault(message.node, message.detail)
        elif name == "measured_state" and isinstance(message, RobotState):
            self._measure(message)
        elif isinstance(message, RobotState) and self._start:
            self._now = message.timestamp
            return self._command(message.timestamp, message.seq)
        return None

    def on_clock(self, reading: PeerClock) -> Outgoing:
        if reading.peer == "sim":
            return None
        if self._now > 0.5 * SETTLE_S:  # not while processes start
            self._trips.append(reading.round_trip_s)
        for _, message in self._tracks.add(reading):
            if isinstance(message, PeerClock):
                self._clocks[message.peer] = message
        return None

    def _measure(self, state: RobotState) -> None:
        self._stamps.append(state.timestamp)
        self._arrivals.append(self._now)
        self._measured_at = self._now
        place = {n: (q, v) for n, q, v in zip(state.name, state.position, state.velocity, strict=False)}
        for joint, (position, velocity) in place.items():
            if joint in self._place:
                moved = position - self._place[joint][0]
                self._work[joint] = self._work.get(joint, 0.0) + velocity * moved
        self._place = place
        if not self._start and self._description.joints:
            self._start = {joint: position for joint, (position, _) in place.items()}
            self._plan_moves()

    def _plan_moves(self) -> None:
        """Choose the joints to move, and for each joint a direction in which it stays within its limits.

        All other joints with a servo are held where they are, since a joint without a command is limp and swings. While
        any joint is outside its limits, no joint is commanded.
        """
        joints = {joint.name: joint for joint in self._description.joints}
        room = {
            name: (
                math.inf if joint.upper is None else joint.upper - self._start[name],
                math.inf if joint.lower is None else self._start[name] - joint.lower,
            )
            for name, joint in joints.items()
            if name in self._start
        }
        for _, name, lower, upper in self._guard_limits():
            above, below = room[name]
            room[name] = min(above, upper - self._start[name]), min(below, self._start[name] - lower)
        outside = [name for name, rooms in room.items() if min(rooms) < 0.0]
        obstacle = f"{outside[0]} is outside its limits" if outside else ""
        if unknown := self._unknown_joints():
            obstacle = f"the measured states have a joint {unknown[0]!r}, which the robot does not have"
        for actuator in self._description.actuators:
            joint = joints.get(actuator.joint)
            if joint is None or joint.name not in self._start or "position" not in actuator.modes:
                continue
            size = math.radians(self._params.amplitude_deg) if joint.unit == "rad" else 1e-3 * self._params.amplitude_mm
            above, below = room[joint.name]
            chosen = not self._params.joints or joint.name in self._params.joints
            if obstacle:
                if chosen:
                    self._unmoved[joint.name] = f"not moved, as {obstacle}"
                continue
            self._servos[actuator.name], self._sizes[joint.name] = joint.name, size
            if not chosen:
                continue
            self._moves[joint.name] = size if above >= size else -size if below >= size else 0.0
            if self._moves[joint.name] == 0.0:
                self._unmoved[joint.name] = (
                    f"not moved: its limits leave {max(above, below):.4g} {joint.unit}, the motion needs {size:.4g}; "
                    "give a smaller amplitude, or bring it away from its limits"
                )

    def _unknown_joints(self) -> list[str]:
        """Names in the measured states that are no joints of the robot."""
        known = {joint.name for joint in self._description.joints}
        return [name for name in self._start if name not in known]

    def _guard_limits(self) -> Iterator[tuple[str, str, float, float]]:
        """Yield (node with a guard, joint, lower limit, upper limit) for each joint position that a guard limits."""
        for driver, guard in self._guards.items():
            for joint, limits in guard.joints.items():
                lower, upper = limits.lower, limits.upper
                if joint in self._start and (lower is not None or upper is not None):
                    yield driver, joint, -math.inf if lower is None else lower, math.inf if upper is None else upper

    def _command(self, now: float, seq: int) -> Iterator[tuple[str, Message]]:
        """Yield one command for all joints with a servo: one joint moves back and forth, the others are held.

        now  timestamp (s) of the measured state from which the command is computed
        seq  sequence number of this state
        """
        if not self._moves:
            self._is_over = True
            return
        goal = {joint: self._start[joint] for joint in self._servos.values()}
        one_s = self._params.move_s + HOLD_S
        number, part_s = divmod(max(now - SETTLE_S, 0.0), 2.0 * one_s)
        joints = list(self._moves)
        self._is_over = number >= len(joints)
        if not self._is_over and not self._failed:
            joint, size = joints[int(number)], self._moves[joints[int(number)]]
            share = min(part_s / self._params.move_s, 1.0)
            if part_s > one_s:
                share = 1.0 - min((part_s - one_s) / self._params.move_s, 1.0)
            if now < SETTLE_S:
                self._look_at_rest()
            goal[joint] += size * share**3 * (10.0 - 15.0 * share + 6.0 * share**2)
            moved = {
                other: place[0] - self._start[other] for other, place in self._place.items() if other in self._start
            }
            if self._params.move_s < part_s <= one_s:
                self._motions[joint], self._ages[joint] = moved, now - self._measured_at
            if size and abs(moved.get(joint, 0.0)) > MOST * abs(size):
                self._failed, self._motions[joint] = joint, moved
        value = [goal[joint] for joint in self._servos.values()]
        yield "command", JointCommand(mode="position", name=list(self._servos), value=value, state_seq=seq)

    def _look_at_rest(self) -> None:
        """End the check of the motions if a joint moves too far although no motion has begun, and note this joint."""
        for joint, size in self._sizes.items():
            moved = self._place.get(joint, (self._start[joint],))[0] - self._start[joint]
            if abs(moved) > MOST * size and not self._failed:
                self._failed, self._fell[joint] = joint, moved

    # -- findings

    def findings(self) -> list[CheckFinding]:
        """Rows of the table of results: joint limits, motions, connection to the driver, and the driver's clock."""
        return [*self._of_limits(), *self._of_motions(), *self._of_link(), *self._of_clock()]

    def _of_limits(self) -> Iterator[CheckFinding]:
        if not self._start:
            yield CheckFinding("measured state", "no go", "none came: is the robot on, and its driver connected?")
        names = [joint.name for joint in self._description.joints]
        for name in self._unknown_joints():
            text = f"the robot has no joint {name!r}{suggestion(name, names)}"
            yield CheckFinding("measured state", "no go", text)
        for joint in self._description.joints:
            if joint.name not in self._start:
                continue
            here, unit = self._start[joint.name], joint.unit
            lower, upper = joint.lower, joint.upper
            if lower is None or upper is None:
                yield CheckFinding(f"limits of {joint.name}", "note", f"it has none; it is at {here:.4g} {unit}")
                continue
            text = f"{here:.4g} {unit} in {lower:.4g} .. {upper:.4g}"
            inside = lower <= here <= upper
            yield CheckFinding(
                f"limits of {joint.name}", "go" if inside else "no go", text if inside else f"not {text}"
            )

        for driver, name, least, most in self._guard_limits():
            position = self._start[name]
            text = f"{position:.4g} in {least:.4g} .. {most:.4g}, the limits of the guard of {driver}"
            inside = least <= position <= most
            yield CheckFinding(
                f"guard's limits of {name}", "go" if inside else "no go", text if inside else f"not {text}"
            )
        for node, why in self._stops.items():
            yield CheckFinding(f"guard of {node}", "no go", f"it stopped the robot: {why}")

    def _of_motions(self) -> Iterator[CheckFinding]:
        if self._start and not self._moves and not self._unmoved:
            yield CheckFinding("motions", "note", "no measured joint has a servo: signs are not checked")
        for actuator in self._description.actuators if self._start else ():
            if actuator.joint and actuator.joint not in self._start and "position" in actuator.modes:
                yield CheckFinding(f"motion of {actuator.joint}", "note", "not moved, as it is not measured")
        for joint, why in self._unmoved.items():
            yield CheckFinding(f"motion of {joint}", "no go", why)
        for joint, far_moved in self._fell.items():
            where = f"{far_moved:+.4g} while it was held at rest"
            why = f"the guard of {', '.join(self._stops)} stopped the robot" if self._stops else AT_REST
            yield CheckFinding(f"motion of {joint}", "no go", f"{where}: {why}")
        for joint, size in self._moves.items():
            subject, moved = f"motion of {joint}", self._motions.get(joint)
            if joint in self._unmoved or joint in self._fell:
                continue
            if moved is None:
                why = (
                    f"not moved, as {self._failed} went too far"
                    if self._failed
                    else "not moved: the check was too short"
                )
                yield CheckFinding(subject, "no go", why)
                continue
            share = moved.get(joint, 0.0) / size
            text = f"{100 * share:.0f} % of {size:+.4g}"
            far = [k for k, held in self._sizes.items() if k != joint and abs(moved.get(k, 0.0)) > OTHERS * held]
            if (age := self._ages.get(joint, 0.0)) > OLDEST_S:
                yield CheckFinding(subject, "no go", f"not judged, as no measured state came for {age:.2g} s: {SILENT}")
            elif self._stops and share < LEAST:
                yield CheckFinding(subject, "no go", f"{text}: the guard of {', '.join(self._stops)} stopped the robot")
            elif joint == self._failed or share > MOST:
                way = f": {REVERSED}" if share < 0.0 else ""
                yield CheckFinding(subject, "no go", f"{text}: it went too far, and all joints were held{way}")
            elif share < -LEAST:
                backwards = self._work.get(joint, 0.0) < 0.0
                what = "its encoder is reversed, its measured velocity is not" if backwards else REVERSED
                yield CheckFinding(subject, "no go", f"{text}: {what}")
            elif share < LEAST and far:
                there = ", ".join(far)
                yield CheckFinding(
                    subject, "no go", f"{text}, but {there} moved instead: are motors or encoders exchanged?"
                )
            elif share < LEAST:
                yield CheckFinding(subject, "no go", f"{text}: motor off, brake on, or encoder dead")
            elif far:
                there = ", ".join(far)
                yield CheckFinding(
                    subject, "no go", f"{text}, but {there} moved, too: are motors or encoders exchanged?"
                )
            elif not LEAST_SURE <= share <= MOST_SURE and self._work.get(joint, 0.0) >= 0.0:
                yield CheckFinding(subject, "note", f"{text}: are its gear ratio and the scale of its encoder right?")
            elif self._work.get(joint, 0.0) < 0.0:
                yield CheckFinding(subject, "no go", f"{text}, but its measured velocity has the wrong sign")
            else:
                yield CheckFinding(subject, "go", text)

    def _of_link(self) -> Iterator[CheckFinding]:
        if len(self._stamps) > 2:
            gaps = np.diff(self._stamps)
            middle, longest = float(np.median(gaps)), float(gaps.max())
            rate = f"every {1e3 * middle:.3g} ms, longest gap {1e3 * longest:.4g} ms"
            if longest > LONGEST_S:
                before = int(gaps.argmax())
                arrived = Gap(*self._arrivals[before : before + 2])
                rate += f": {missing_states([arrived], middle) or 'its driver stood still'}"
            result = "go" if longest <= 5.0 * middle + 1e-3 else "note" if longest <= LONGEST_S else "no go"
            yield CheckFinding("measured states", result, rate)
        if not self._trips:
            yield CheckFinding("link", "note", "not measured: round trips are made in mode realtime")
            return
        middle, slow = np.quantile(self._trips, [0.5, 0.99]).tolist()
        result = "go" if slow <= SLOW_S else "note" if slow <= TOO_SLOW_S else "no go"
        text = f"round trip p50 {1e3 * middle:.2f} ms, p99 {1e3 * slow:.2f} ms, jitter {1e3 * (slow - middle):.2f} ms"
        yield CheckFinding("link", result, text)

    def _of_clock(self) -> Iterator[CheckFinding]:
        for peer, clock in self._clocks.items():
            if clock.offset_s is None or clock.uncertainty_s is None:
                yield CheckFinding(
                    f"clock of {peer}",
                    "note",
                    f"its offset is unknown after {clock.exchanges} round trips, and that of its time stamps too",
                )
                continue
            sure = clock.uncertainty_s <= UNSURE_S and not clock.steps
            drift = 0.0 if clock.drift is None else 1e6 * clock.drift
            text = f"offset {1e3 * clock.offset_s:.2f} ms +- {1e3 * clock.uncertainty_s:.2f} ms, drift {drift:.1f} ppm"
            text += f", {clock.steps} steps" if clock.steps else ""
            yield CheckFinding(f"clock of {peer}", "go" if sure else "note", text)

    @property
    def verdict(self) -> Verdict:
        """The verdict: "passed" for go, "failed" for no go, "not certain" if the check did not end."""
        if not self._is_over:
            return Verdict("not certain", "the check did not come to its end")
        wrong = [each for each in self.findings() if each.result == "no go"]
        if wrong:
            return Verdict("failed", f"no go: {wrong[0].subject}: {wrong[0].text}")
        return Verdict("passed", "go")

    @property
    def counters(self) -> Mapping[str, int]:
        """Number of measured states received."""
        return {"samples": len(self._stamps)}

    def on_stop(self) -> Outgoing:
        if self._params.file:
            Path(self._params.file).write_bytes(msgspec.json.encode(self.findings()))
        return None


def plan_of_check(plan: Plan, params: HilCheckParams, n_joints: int) -> Plan:
    """Plan of a check: the drivers of a plan and the nodes that emulate their robots, with HilCheck as the only source
    of commands.

    A driver is a node that receives commands and publishes measured states. Raises ValueError with a one-line message
    for a plan without a driver, with several robots, or on several computers.
    """
    if plan.simulations:
        raise ValueError("a check supports one robot, and the plan has several; give a launch file with one robot")
    if len({plan.sim.host, *(node.host for node in plan.nodes)}) > 1:
        raise ValueError("a check runs on the robot's computer alone; give a launch file without other hosts")
    kept, guarded, drivers = [], False, 0
    for node in plan.nodes:
        cls = load_class(node.run, plan.folder)
        is_guard = "raw_command" in cls.subscribes
        published = {node.remap.get(name, name) for name in cls.publishes} & {
            "command",
            "raw_command",
            "reference",
            "residual",
        }
        if "*" in cls.subscribes or (published and not is_guard):
            continue
        kept.append(node)
        guarded |= is_guard
        drivers += cls.subscribes.get("command") is JointCommand and RobotState in cls.publishes.values()
    if not drivers:
        raise ValueError(
            "the plan has no driver; give a launch file with a node that subscribes to 'command' and publishes "
            "'measured_state'"
        )
    run = f"{Path(__file__).resolve()}:HilCheck"
    plain = msgspec.to_builtins(params)
    check = NodePlan(name="hil_check", run=run, params=plain, host=plan.sim.host)
    check.remap = {"command": "raw_command"} if guarded else {}
    nodes = [check, *kept]
    return msgspec.structs.replace(plan, nodes=nodes, milestones=[], duration_s=duration_s(n_joints, params))


def servo_joints(plan: Plan, requested: Sequence[str]) -> list[str]:
    """Names of the joints with a servo of the plan's robot.

    requested  names of joints to return; empty for all joints with a servo
    Raises ValueError if `requested` has a joint without a servo.
    """
    actuators = build(plan.sim.robot, **plan.sim.parameters).actuators
    found = [each.joint for each in actuators if each.joint and each.servo is not None]
    for joint in requested:
        if joint not in found:
            raise ValueError(
                f"there is no joint {joint!r} with a servo; the joints with a servo are "
                f"{', '.join(found)}{did_you_mean(joint, found)}"
            )
    return list(requested) or found
