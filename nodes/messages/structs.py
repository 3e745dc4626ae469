"""The messages of the wire: one struct each, plain numbers, strings and arrays.

Fields are only ever added, at the end, with a default; a changed meaning is a new message. Receivers tolerate
fields they do not know. Units are SI and radians unless a name says otherwise.
"""

from __future__ import annotations

from typing import Literal

import msgspec

Outcome = Literal["passed", "failed", "not certain"]


class Message(msgspec.Struct, kw_only=True, gc=False):
    """What every message carries; the runner stamps it, a node need not.

    timestamp  seconds of `clock` (default: simulation time), in 0 .. 9e9
    seq        counts up by one per publisher and topic, to 2**53; a gap is a loss
    sent_ns    wall clock at the sender, nanoseconds since the epoch; 0 in lockstep
    """

    timestamp: float = 0.0
    seq: int = 0
    sent_ns: int = 0


class JointDescription(msgspec.Struct, kw_only=True):
    """One declared joint. Limits are None where the joint has none."""

    name: str
    kind: str = "revolute"
    unit: str = "rad"
    lower: float | None = None
    upper: float | None = None


class ActuatorDescription(msgspec.Struct, kw_only=True):
    """One actuator: the joint it drives, the modes it takes, and its limits, None where it has none.

    effort_limit    N m or N
    velocity_limit  rad/s or m/s, of commanded velocities and of the way to a commanded position
    modes           of JointCommand; positions are limited by the joint's lower and upper
    stiffness       of its servo, which follows velocities and positions, N m/rad or N/m; 0 without one
    damping         of its servo, N m s/rad or N s/m
    """

    name: str
    joint: str
    unit: str = "N m"
    effort_limit: float | None = None
    velocity_limit: float | None = None
    modes: list[str] = msgspec.field(default_factory=lambda: ["effort"])
    stiffness: float = 0.0
    damping: float = 0.0


class Shape(msgspec.Struct, kw_only=True):
    """A drawable part of a body, in the body's frame.

    kind  "line": points (3n,) joined in order; "box": size (x, y, z); "sphere": size (radius,);
          "cylinder": size (radius, length), axis z
    """

    kind: str
    points: list[float] = []
    size: list[float] = []
    position: list[float] = msgspec.field(default_factory=lambda: [0.0, 0.0, 0.0])
    quaternion: list[float] = msgspec.field(default_factory=lambda: [1.0, 0.0, 0.0, 0.0])
    color: str = ""


class BodyDescription(msgspec.Struct, kw_only=True):
    """One body: mass in kg and its shapes."""

    name: str
    mass: float = 0.0
    shapes: list[Shape] = []


class SpringDescription(msgspec.Struct, kw_only=True):
    """A spring between a point of a and a point of b, bodies or "ground", each in its own frame, m."""

    name: str
    body_a: str = "ground"
    point_a: list[float] = msgspec.field(default_factory=lambda: [0.0, 0.0, 0.0])
    body_b: str = "ground"
    point_b: list[float] = msgspec.field(default_factory=lambda: [0.0, 0.0, 0.0])


class ForceDescription(msgspec.Struct, kw_only=True):
    """A force on a body at a point of it, N: the sum of outputs of the state, each along its unit vector in the world.

    outputs  names of outputs, N
    axes     (3 per output,)
    """

    name: str
    body: str
    point: list[float] = msgspec.field(default_factory=lambda: [0.0, 0.0, 0.0])
    outputs: list[str] = []
    axes: list[float] = []


class GripperDescription(msgspec.Struct, kw_only=True):
    """What a body takes hold with, at a point of it, m: a gripper.

    outputs  names of outputs that are 1 while a part of the hold acts, else 0: with all of them it grips, with some it
             slides, with none it is open
    """

    name: str
    body: str
    point: list[float] = msgspec.field(default_factory=lambda: [0.0, 0.0, 0.0])
    outputs: list[str] = []


class Description(Message, kw_only=True):
    """What the robot is; published once, latched.

    ground        shapes that stand still, in the world's frame: supports, bars, obstacles
    output_units  one per output, "" where none is known
    """

    robot: str = ""
    joints: list[JointDescription] = []
    actuators: list[ActuatorDescription] = []
    bodies: list[BodyDescription] = []
    parameters: dict[str, float] = {}
    outputs: list[str] = []
    step_s: float = 0.0
    gravity: list[float] = msgspec.field(default_factory=lambda: [0.0, 0.0, -9.81])
    code_hash: str = ""
    ground: list[Shape] = []
    springs: list[SpringDescription] = []
    forces: list[ForceDescription] = []
    output_units: list[str] = []
    holds: list[GripperDescription] = []


class RobotState(Message, kw_only=True):
    """The declared joints and actuators, relative and unwrapped, whatever the coordinates.

    name       the joints of the description, in its order, then any actuator that is no joint
    position   rad or m, one per name, finite
    velocity   rad/s or m/s, one per name, finite
    effort     N m or N, the effort applied over the step that led here; one per name or none, finite
    phi        |Phi|_1, position-level constraint violation
    phidot     |Phidot|_1, velocity-level constraint violation
    energy     kinetic plus potential, J
    outputs    the robot's named outputs
    clock      the node whose own clock `timestamp` is of, as a robot's computer stamps what it measures; "" for
               simulation time
    """

    name: list[str] = []
    position: list[float] = []
    velocity: list[float] = []
    effort: list[float] = []
    phi: float = 0.0
    phidot: float = 0.0
    energy: float = 0.0
    outputs: dict[str, float] = {}
    clock: str = ""


class BodyPoses(Message, kw_only=True):
    """World poses of the bodies in the order of the description: p (3n,) in m, quaternion (4n,) as w x y z, finite."""

    p: list[float] = []
    quaternion: list[float] = []


class Polylines(Message, kw_only=True):
    """Lines in the world that no body carries: beams as they are deflected now, or what somebody plans.

    name    one per line
    count   how many points each has
    points  (3 sum(count),) m, finite, line after line
    """

    name: list[str] = []
    count: list[int] = []
    points: list[float] = []


class JointCommand(Message, kw_only=True):
    """What the actuators shall do; each is commanded by one node.

    mode     "effort" (N m, N), "velocity" (rad/s, m/s) or "position" (rad, m)
    name     actuators; those not named keep their last mode and value
    value    one per name, finite; the actuator's limits apply
    state_seq  seq of the state this answers, None when it answers none
    clock    of a command that a robot took: the node whose own clock `timestamp` is of, "" for simulation time
    """

    mode: Literal["effort", "velocity", "position"] = "effort"
    name: list[str] = []
    value: list[float] = []
    state_seq: int | None = None
    clock: str = ""


class JointReference(Message, kw_only=True):
    """Where the joints shall be: position, velocity and acceleration per name, finite; rates may be left empty."""

    name: list[str] = []
    position: list[float] = []
    velocity: list[float] = []
    acceleration: list[float] = []


class Twist(Message, kw_only=True):
    """A velocity for a mobile base, in the base's own axes: linear x, y, z in m/s, angular x, y, z in rad/s, finite."""

    linear: list[float] = msgspec.field(default_factory=lambda: [0.0, 0.0, 0.0])
    angular: list[float] = msgspec.field(default_factory=lambda: [0.0, 0.0, 0.0])


class Encoders(Message, kw_only=True):
    """What incremental encoders count, whole pulses since the start, unwrapped: one count per name."""

    name: list[str] = []
    count: list[int] = []
    pulses_per_turn: int = 0


class Event(Message, kw_only=True):
    """Something that happened: a change of constraint mode, or what somebody did to the run.

    kind    of a change of constraint mode ("grip", "release", "fall" of a gibbon), or its guard's name; "reset",
            "restore"; "pause" and "resume" by a person, "speed" (simulated seconds per second); "set" of a parameter;
            what ends the run: "diverged", "late" (`overrun_policy`); of one who commands "refused", "safe" (silent:
            the actuators were made safe), "held" (gone: its last command holds) or "cut" (to a joint's limits, said
            once); "clock_step": the clock of `node` was put forward or back; "step_too_large": for the fastest mode;
            "energy_departure": of what work and events explain, by 1 % of the run's energies, and each doubling
    before  of a change of constraint mode the state, coordinates then velocities; `after` likewise
    energy  lost in the change, J
    node    whose parameter was set, or who commanded
    key     the parameter; `old` and `new` its values as JSON, or those of the speed
    detail  one line for a person
    part    of the robot that a change of constraint mode is about, e.g. "hand_a"
    source  constraint mode before, and `target` after: its name, or the switched constraints that hold, as "a + b"
    """

    kind: str = ""
    before: list[float] = []
    after: list[float] = []
    energy: float = 0.0
    node: str = ""
    key: str = ""
    old: str = ""
    new: str = ""
    detail: str = ""
    part: str = ""
    source: str = ""
    target: str = ""


class Verdict(msgspec.Struct, frozen=True):
    """How a node judges the run.

    outcome  a launch ends with exit code 1 by "failed", with 3 by "not certain"
    reason   one line
    detail   what the judgement rests on, such as counts; "" where nothing is counted
    report   command that says more, with {recording} in place of the run's recording; "" where there is none
    """

    outcome: Outcome
    reason: str
    detail: str = ""
    report: str = ""

    def __str__(self) -> str:
        """ "failed: rms of b is 1.63 deg, at most 1 deg; 6 states compared"."""
        return f"{self.outcome}: {self.reason}" + (f"; {self.detail}" if self.detail else "")


class Status(Message, kw_only=True):
    """How a node is: 2 Hz and on change, latched.

    state     "starting" | "ready" | "running" | "paused" | "safe" | "stopping" | "stopped" | "failed"
    counters  whole numbers that only grow: refused, lost, overruns, frames ...
    timing    seconds: what the node measured of itself, e.g. step_p50_s
    detail    one line for a person
    refusal   topic and reason of what it refused last
    figures   what the node measured of its work, e.g. a tracking error; the unit is in the name
    verdict   of a node that judges the run; None of all others
    """

    node: str = ""
    state: str = ""
    counters: dict[str, int] = {}
    timing: dict[str, float] = {}
    detail: str = ""
    refusal: str = ""
    figures: dict[str, float] = {}
    verdict: Verdict | None = None


class Residual(Message, kw_only=True):
    """Measured less predicted at the instant of one measured state, the joints that both have.

    name      joints
    position  rad or m, one per name
    velocity  rad/s or m/s, effort in N m or N: one per name, or none where one of the two says none
    state_seq  seq of the measured state
    """

    name: list[str] = []
    position: list[float] = []
    velocity: list[float] = []
    effort: list[float] = []
    state_seq: int | None = None


class PeerClock(Message, kw_only=True):
    """One round trip to another node's clock, and what the last of them say of it.

    Theirs is `peer`'s clock, ours that of `asker`: its host's, as it was set when the node started, so that no step of
    it is taken for a step of theirs.

    asked_ns .. heard_ns  the request left (ours) and arrived (theirs), the answer left (theirs) and arrived (ours)
    round_trip_s          time on the way, there and back; a single round trip is wrong by at most half of it
    offset_s              theirs less ours when the answer arrived; None while round trips are too few
    drift                 s per s
    uncertainty_s         standard deviation of offset_s, the ways' unknown asymmetry included
    exchanges             round trips since their clock was stepped last
    steps                 how often it was put forward or back
    """

    asker: str = ""
    peer: str = ""
    asked_ns: int = 0
    received_ns: int = 0
    answered_ns: int = 0
    heard_ns: int = 0
    round_trip_s: float = 0.0
    offset_s: float | None = None
    drift: float | None = None
    uncertainty_s: float | None = None
    exchanges: int = 0
    steps: int = 0


class SwingPlan(Message, kw_only=True):
    """How one hand swings to its next place on the line while the other grips, and what the elbow does for it.

    number    counts the plans up; a later plan takes the place of an earlier one from its start on
    hand      that grips meanwhile, "a" or "b"; the other swings
    start     s of simulation time; duration s from there to the arrival
    release   whether the swinging hand lets go at the start; otherwise it has already
    elbow     rad, as measured: sum of elbow[k] s^k, s from 0 to 1 over the duration; at rest at the end
    torque    N m of the elbow at equal times from start to end
    path      x, y, z in m of the swinging hand at equal times from start to end (3n,)
    target    m along the line, where it shall grip
    gap       m that the plan misses the line by, and `miss` m along it
    closing   m/s at which the hand comes up to the line
    """

    number: int = 0
    hand: str = ""
    start: float = 0.0
    duration: float = 0.0
    release: bool = False
    elbow: list[float] = []
    torque: list[float] = []
    path: list[float] = []
    target: float = 0.0
    gap: float = 0.0
    miss: float = 0.0
    closing: float = 0.0


class SwingProgress(Message, kw_only=True):
    """What became of the plans, said whenever it changes.

    plan        number of the plan that is followed, 0 for none
    refused     number of the last plan that came after its start and is not followed, 0 for none
    late        how many came so
    hand_overs  hands that gripped after a swing
    """

    plan: int = 0
    refused: int = 0
    late: int = 0
    hand_overs: int = 0
