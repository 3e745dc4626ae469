"""Excitation trajectories for a robot and its guard: limits, via-point file, and rehearsal in the simulator."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from nodes.framework.messages import Event, RobotState
from nodes.framework.messages.codec import decode
from nodes.framework.plan.key_checks import convert
from nodes.framework.plan.launch_plan import NodePlan, Plan, SimPlan
from nodes.framework.simulation.compose import compose
from nodes.guard.limits import GuardParams
from nodes.guard.worst_case import table_of, unsupported, weak_joints, worst_case
from nodes.trajectory import TrajectoryParams, curves, via_points
from robots.registry import build
from sim_core.identification.excitation import FINE, Array, ExcitedRobot, FourierMotion, MotionLimits, excite

if TYPE_CHECKING:
    from sim_core.mechanism import Mechanism

VIA_POINTS = 16  # per period of the highest harmonic; quintic polynomials between them differ from the series by 1e-6
REST_S = 0.5  # time at rest at the end of a rehearsal
RATE_HZ = 1000.0  # of the states in a rehearsal
KEYS = {"velocity": "velocity", "acceleration": "acceleration"}  # of interventions; all others are of positions
SHARE = 0.99  # of the limits of velocity and acceleration; at the limit itself the guard clamps rounding errors
ROUNDS, REFINED = 6, 30  # most rehearsals; least iterations of a search after the first one
TIGHTER = 0.95  # factor of a limit for the next search, beyond the factor by which it was exceeded
APPROACH = 0.5  # share of the limits of velocity and acceleration for the move to the start of the motion
SAMPLED_S = 0.01  # period of the samples of another trajectory
TRAJECTORY = "nodes/trajectory.py:Trajectory"


class ExcitationError(ValueError):
    """An excitation that cannot be computed; the message is one line for the user."""


def joints_of(mechanism: Mechanism, chosen: Sequence[str] = ()) -> list[str]:
    """Names of the joints with a servo, or those that are chosen among them.

    Raises ExcitationError for a robot whose joints are no tree, and for a joint that cannot follow positions.
    """
    if (reason := unsupported(mechanism)) or mechanism.constraints:
        reason = reason or f"the constraint {mechanism.constraints[0].name!r} couples its joints"
        raise ExcitationError(f"robot {mechanism.name!r} has no excitation: {reason}")
    actuators = {each.joint: each for each in mechanism.actuators if each.joint}
    names = [joint.name for joint in mechanism.moving_joints]
    for name in chosen:
        if name not in names:
            raise ExcitationError(f"robot {mechanism.name!r} has no joint {name!r}; its joints are {', '.join(names)}")
    moving = [name for name in names if name in chosen or not chosen]
    for name in names:
        if name not in actuators:
            raise ExcitationError(f"robot {mechanism.name!r}: no actuator drives joint {name!r}")
        if actuators[name].servo is None:
            raise ExcitationError(
                f"robot {mechanism.name!r}: the actuator of joint {name!r} has no servo; for a URDF or MJCF file give "
                "--param servos=stiff"
            )
        if actuators[name].name != name:
            raise ExcitationError(
                f"robot {mechanism.name!r}: the actuator of joint {name!r} is {actuators[name].name!r}; position "
                "commands need an actuator with the name of the joint"
            )
    return moving


def check_start(mechanism: Mechanism, joints: Sequence[str], start: Mapping[str, float]) -> None:
    """Raise ExcitationError for a start position of a joint that does not move."""
    for name in start:
        if name not in joints:
            raise ExcitationError(
                f"robot {mechanism.name!r}: joint {name!r} of --start is none of the joints that move: "
                f"{', '.join(joints)}"
            )


def guard_of(mechanism: Mechanism, joints: Sequence[str], delay_ms: float) -> GuardParams:
    """Limits of the joints by `armswing robot guard`.

    Raises ExcitationError if the worst case cannot be computed, or if the effort of a joint does not hold gravity.
    """
    try:
        worst = worst_case(mechanism, 1e-3 * delay_ms)
    except ValueError as error:
        raise ExcitationError(str(error)) from error
    if weak := [line for name, line in weak_joints(worst) if name in joints]:
        raise ExcitationError("; ".join(weak))
    tables = {name: table for name, table in table_of(worst).items() if name in joints}
    return msgspec.convert({"delay_ms": delay_ms, "joints": tables}, GuardParams)


def limits_of(
    mechanism: Mechanism,
    joints: Sequence[str],
    guard: GuardParams,
    share: float = 1.0,
    effort_share: float = 1.0,
    speeds: Mapping[str, float] | None = None,
) -> MotionLimits:
    """The stricter ones of the limits of the guard, of the robot, and of the speeds.

    share         share of the limits of velocity and acceleration that the motion may use
    effort_share  share of the effort limits that the motion may use
    speeds        {joint: largest speed}
    """
    speeds = speeds or {}
    rows = []
    for name in joints:
        joint, kept = mechanism.joint(name), guard.joints[name]
        actuator = next(each for each in mechanism.actuators if each.joint == name)
        speed = _least([actuator.velocity_limit, kept.velocity])
        efforts = [actuator.effort_limit, kept.effort]
        rows.append(
            (
                -_least([None if each is None else -each for each in (joint.lower, kept.lower)]),
                _least([joint.upper, kept.upper]),
                min(share * speed, speeds.get(name, np.inf)),
                share * _least([kept.acceleration]),
                effort_share * _least(efforts),
            )
        )
    return MotionLimits(*np.array(rows, dtype=float).T)


def _least(values: Sequence[float | None]) -> float:
    return min([each for each in values if each is not None], default=np.inf)


def approach_s(begin: Array, start: Array, limits: MotionLimits) -> float:
    """Duration of a minimum-jerk move between two positions (n_q,) at APPROACH of the limits; 0 if they are equal."""
    way = np.abs(start - begin)
    if not way.any():
        return 0.0
    speeds, accelerations = 1.875 * way / limits.velocity, np.sqrt(5.774 * way / limits.acceleration)
    return math.ceil(10.0 * float(np.maximum(speeds, accelerations).max()) / APPROACH) / 10.0


def via_point_text(
    motion: FourierMotion, begin: Array, lead_s: float, mechanism: Mechanism, joints: Sequence[str], about: str
) -> str:
    """CSV of a motion, with positions, velocities and accelerations.

    begin   (n_q,) positions from which the robot moves to the start of the motion
    lead_s  duration of this move, s; 0 if the motion starts at `begin`
    about   comment in the first line of the file
    """
    units = {name: "m" if mechanism.joint(name).is_length else "rad" for name in joints}
    names = [f"{name}_{units[name]}{per}" for per in ("", "_s", "_s2") for name in joints]
    t = motion.times(VIA_POINTS)
    rows = np.column_stack([t + lead_s, *motion(t)])
    if lead_s > 0.0:
        rows = np.vstack([np.concatenate([[0.0], begin, np.zeros(2 * len(begin))]), rows])
    lines = [", ".join([f"{row[0]:.6f}", *(f"{value + 0.0:.9f}" for value in row[1:])]) for row in rows]
    return "\n".join([f"# {about}", '# Read it with kind = "quintic".', ", ".join(["time_s", *names]), *lines, ""])


@dataclass(frozen=True)
class Rehearsal:
    """Largest values of each joint in a run with the guard, arrays (n_q,), and the guard's interventions.

    lower, upper      least and largest position, rad or m
    velocity, effort  largest absolute values
    lag               largest distance from the reference
    interventions     events of the guard
    """

    lower: Array
    upper: Array
    velocity: Array
    effort: Array
    lag: Array
    interventions: tuple[Event, ...]


def rehearse(
    robot: str, parameters: Mapping[str, Any], joints: Sequence[str], guard: GuardParams, file: Path, lead_s: float
) -> Rehearsal:
    """Run of the robot on its servos, in lockstep in this process, with the trajectory of a file and a guard.

    lead_s  time, s, before which the robot moves to the start of the motion; what happens then does not count
    The reference has the rate of the states: extrapolated references of a lower rate have larger accelerations.
    """
    params = TrajectoryParams(file=str(file.resolve()), kind="quintic", rate_hz=RATE_HZ)
    via = via_points(params, "")
    driven = [each.name for each in build(robot, **parameters).actuators if each.joint]
    plan = Plan(
        name="rehearsal",
        sim=SimPlan(robot=robot, parameters=dict(parameters), mode="lockstep", safe_mode="hold", rate_hz=RATE_HZ),
        nodes=[
            NodePlan(name="trajectory", run=TRAJECTORY, params=msgspec.to_builtins(params)),
            NodePlan(
                name="controller",
                run="nodes/controllers/position.py:JointPosition",
                params={"joints": driven},
                remap={"command": "raw_command"},
            ),
            NodePlan(name="guard", run="nodes/guard/node.py:Guard", params=msgspec.to_builtins(guard)),
        ],
        duration_s=via.times[-1] + REST_S,
    )
    states: list[RobotState] = []
    events: list[Event] = []

    def carry(topic: str, payload: bytes) -> None:
        leaf = topic.rpartition("/")[2]
        if leaf == "state":
            states.append(decode(topic, payload, RobotState))
        elif leaf == "event" and _is_intervention(event := decode(topic, payload, Event), joints, lead_s):
            events.append(event)

    with compose(plan, carry) as run:
        run.run()
    states = [state for state in states if state.timestamp >= lead_s]
    index = [states[0].name.index(name) for name in joints]
    q, v, u = (
        np.array([getattr(state, field) for state in states])[:, index] for field in ("position", "velocity", "effort")
    )
    ways = curves(params, via)
    reference = np.array([[way(state.timestamp)[0] for way in ways] for state in states])
    speed, effort, lag = (np.abs(each).max(axis=0) for each in (v, u, q - reference))
    return Rehearsal(q.min(axis=0), q.max(axis=0), speed, effort, lag, tuple(events))


def _is_intervention(event: Event, joints: Sequence[str], since_s: float) -> bool:
    is_late = event.kind.startswith("guard_") and event.timestamp >= since_s
    return is_late and (event.part in joints or event.kind == "guard_stop")


@dataclass(frozen=True)
class Rehearsed:
    """Excitation that kept all limits in a rehearsal.

    motion, first  the excitation, and the random motion at which the search started
    limits         limits of the references
    text           via-point file of the motion
    seconds        duration of the file
    rehearsal      run of the robot with this file
    """

    motion: FourierMotion
    first: FourierMotion
    limits: MotionLimits
    text: str
    seconds: float
    rehearsal: Rehearsal


class Exciter:
    """Search for an excitation of a robot, and its rehearsal.

    robot, parameters  name and parameters of the robot, as in a launch file
    mechanism          this robot
    joints             joints that move
    guard              limits of the guard
    limits             limits of the references
    about              comment in the first line of the file
    start              {joint: position, rad or m} at both ends of the motion; by default the robot's start
    """

    def __init__(
        self,
        robot: str,
        parameters: Mapping[str, Any],
        mechanism: Mechanism,
        joints: Sequence[str],
        guard: GuardParams,
        limits: MotionLimits,
        about: str,
        start: Mapping[str, float],
    ) -> None:
        self._robot, self._parameters, self.mechanism = robot, parameters, mechanism
        self.joints, self._guard, self._limits, self._about = joints, guard, limits, about
        self.excited = ExcitedRobot(mechanism, joints, start)
        self.hard = limits_of(mechanism, joints, guard)

    def run(
        self, seconds: float, harmonics: int, seed: int, iterations: int, progress: Callable[[str, int, int], None]
    ) -> Rehearsed:
        """Search and rehearse in turn; limits that a rehearsal did not keep are tightened for the next search.

        progress  function that is called with the kind of work and its numbers of done and of all steps

        Raises ExcitationError if the limits are not kept after ROUNDS rehearsals.
        """
        limits, motion, first = self._limits, None, None
        begin = self.excited.own_start
        lead_s = approach_s(begin, self.excited.start, limits)
        with tempfile.TemporaryDirectory(prefix="armswing") as folder:
            file = Path(folder) / "excitation.csv"
            for number in range(ROUNDS):
                most = iterations if number == 0 else max(REFINED, iterations // ROUNDS)
                what = "searching" if number == 0 else "refining"

                def watch(done: int, _bound: float, what: str = what, most: int = most) -> None:
                    progress(what, done, most)

                found = excite(self.excited, limits, seconds, harmonics, seed, most, watch, motion)
                motion, first = found.motion, first or found.first
                file.write_text(text := via_point_text(motion, begin, lead_s, self.mechanism, self.joints, self._about))
                progress("rehearsing", number, ROUNDS)
                rehearsal = rehearse(self._robot, self._parameters, self.joints, self._guard, file, lead_s)
                tighter = self._tightened(limits, rehearsal)
                if tighter is None:
                    progress("rehearsing", ROUNDS, ROUNDS)
                    return Rehearsed(motion, first, self._limits, text, lead_s + seconds, rehearsal)
                limits = tighter
        raise ExcitationError(f"the robot does not keep its limits on its servos: {self._excess(rehearsal)}")

    def _excess(self, run: Rehearsal) -> str:
        """Joint that exceeds a limit by the largest factor, as text."""
        if run.interventions:
            return f"the guard intervened: {run.interventions[0].detail}"
        name, k, factor = max(
            ((name, int(f.argmax()), float(f.max())) for name, f in self._factors(run).items()),
            key=lambda each: each[2],
        )
        return f"{name} of {self.joints[k]} is {factor:.3g} times its limit"

    def _factors(self, run: Rehearsal) -> dict[str, Array]:
        """{quantity: (n_q,) largest values of a rehearsal as shares of the limits}."""
        hard, start = self.hard, self.excited.start
        off = np.maximum((run.upper - start) / (hard.upper - start), (start - run.lower) / (start - hard.lower))
        return {"position": off, "velocity": run.velocity / hard.velocity, "effort": run.effort / hard.effort}

    def _tightened(self, limits: MotionLimits, run: Rehearsal) -> MotionLimits | None:
        """Limits for the next search; None if the rehearsal kept all limits."""
        factors = self._factors(run)
        touched = {key: self._touched(run, key) for key in ("position", "velocity", "acceleration")}
        if not run.interventions and all(each.max() <= 1.0 for each in factors.values()):
            return None
        share = {
            name: np.where(each > 1.0, TIGHTER / np.maximum(each, 1.0), touched.get(name, 1.0))
            for name, each in factors.items()
        }
        start, position = self.excited.start, share["position"]
        return MotionLimits(
            start + position * (limits.lower - start),
            start + position * (limits.upper - start),
            share["velocity"] * limits.velocity,
            touched["acceleration"] * limits.acceleration,
            share["effort"] * limits.effort,
        )

    def _touched(self, run: Rehearsal, quantity: str) -> Array:
        """(n_q,) factors for the limits of a quantity, TIGHTER for a joint at which the guard intervened for it."""
        found = {event.part for event in run.interventions if KEYS.get(event.key, "position") == quantity}
        return np.array([TIGHTER if name in found else 1.0 for name in self.joints])


def trajectory_of(plan: Plan, robot: str, joints: Sequence[str]) -> tuple[Array, Array, Array]:
    """Positions, velocities and accelerations, (n, n_q) each, of the joints in the plan's trajectory.

    robot  name of the robot to which the joints belong
    Raises ExcitationError for a plan of another robot, or without a trajectory of these joints.
    """
    if plan.sim.robot != robot:
        raise ExcitationError(f"the robot of launch {plan.name!r} is {plan.sim.robot!r}; give a launch with {robot!r}")
    for node in plan.nodes:
        if node.run != TRAJECTORY:
            continue
        params = convert(node.params, TrajectoryParams, f"node {node.name!r}")
        via = via_points(params, plan.folder)
        if not set(joints) <= set(via.joints):
            continue
        ways = [curves(params, via)[via.joints.index(name)] for name in joints]
        t = np.arange(via.span[0], via.span[-1], SAMPLED_S)
        points = np.array([[way(time) for way in ways] for time in t.tolist()])
        return points[..., 0], points[..., 1], points[..., 2]
    raise ExcitationError(f"launch {plan.name!r} has no trajectory of the joints {', '.join(joints)}")


def conditions(
    robot: ExcitedRobot, found: Rehearsed, other: tuple[Array, Array, Array] | None = None
) -> dict[str, float]:
    """Condition numbers at the start of the search, after it, and of another trajectory if there is one."""
    motions = {"start": found.first, "after": found.motion}
    numbers = {name: robot.condition(*motion(motion.times(FINE))) for name, motion in motions.items()}
    return numbers if other is None else {**numbers, "compared": robot.condition(*other)}


def peaks(exciter: Exciter, found: Rehearsed) -> list[dict[str, Any]]:
    """Largest values of each joint beside the limits: of the rehearsal, and speeds and accelerations of the
    reference.
    """
    limits, run, motion = exciter.hard, found.rehearsal, found.motion
    _, speed, acceleration = (np.abs(each).max(axis=0) for each in motion(motion.times(FINE)))
    columns = {
        "lower": run.lower,
        "upper": run.upper,
        "lower_limit": limits.lower,
        "upper_limit": limits.upper,
        "velocity": run.velocity,
        "velocity_limit": limits.velocity,
        "reference_velocity": speed,
        "acceleration": acceleration,
        "acceleration_limit": limits.acceleration,
        "effort": run.effort,
        "effort_limit": limits.effort,
        "lag": run.lag,
    }
    return [
        {
            "name": name,
            "unit": "m" if exciter.mechanism.joint(name).is_length else "rad",
            **{key: float(column[k]) for key, column in columns.items()},
        }
        for k, name in enumerate(exciter.joints)
    ]
