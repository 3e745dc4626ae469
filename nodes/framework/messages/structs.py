"""The message types: one struct each, of plain numbers, strings and arrays.

New fields are added only at the end and with a default; a field whose meaning changes requires a new message type.
Receivers ignore fields that they do not know. Units are SI and radians unless a name says otherwise.
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec

# Timestamp of a message that has none, recognized by identity in `is_stamped`: 0.0 is a valid timestamp.
UNSTAMPED: Final = float("0")
Outcome = Literal["passed", "failed", "not certain"]


class Message(msgspec.Struct, kw_only=True, gc=False):
    """Fields of every message. The program that runs a node fills in these fields, so that the node need not.

    timestamp  time (s), 0 to 9e9: simulation time, unless the message has a field `clock` that names another clock; the
               runner does not overwrite a timestamp that the node has set, not even 0.0
    seq        sequence number, at most 2**53; a publisher counts its messages on each topic, so that a gap means lost
               messages
    sent_ns    the sender's wall clock at sending, ns since the epoch; 0 in lockstep, where no node reads a wall clock
    """

    timestamp: float = UNSTAMPED
    seq: int = 0
    sent_ns: int = 0


class JointDescription(msgspec.Struct, kw_only=True):
    """A declared joint: name, kind, unit of its coordinate, and limits.

    lower  smallest position, rad or m; None if there is no limit
    upper  largest position, rad or m; None if there is no limit
    """

    name: str
    kind: str = "revolute"
    unit: str = "rad"
    lower: float | None = None
    upper: float | None = None


class ActuatorDescription(msgspec.Struct, kw_only=True):
    """An actuator: the joint that it drives, its command modes, and its limits.

    unit            unit of its effort
    effort_limit    largest effort, N m or N; None if there is no limit
    velocity_limit  largest speed (rad/s or m/s) of commanded velocities and of moves to a commanded position; None if
                    there is no limit
    modes           modes of JointCommand that the actuator accepts; commanded positions are clipped to the joint's
                    limits
    stiffness       stiffness of its servo in the modes velocity and position, N m/rad or N/m; 0 if the actuator has no
                    servo
    damping         damping of its servo, N m s/rad or N s/m
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
          "cylinder": size (radius, length), axis z; "mesh": points (3n,), the vertices; faces (3m,), three vertex
          numbers (from 0) for each triangle
    """

    kind: str
    points: list[float] = []
    size: list[float] = []
    position: list[float] = msgspec.field(default_factory=lambda: [0.0, 0.0, 0.0])
    quaternion: list[float] = msgspec.field(default_factory=lambda: [1.0, 0.0, 0.0, 0.0])
    color: str = ""
    faces: list[int] = []


class BodyDescription(msgspec.Struct, kw_only=True):
    """A body: its mass in kg and its shapes."""

    name: str
    mass: float = 0.0
    shapes: list[Shape] = []


class SpringDescription(msgspec.Struct, kw_only=True):
    """A spring between point_a of body_a and point_b of body_b, each in its body's frame, m. A body may be "ground"."""

    name: str
    body_a: str = "ground"
    point_a: list[float] = msgspec.field(default_factory=lambda: [0.0, 0.0, 0.0])
    body_b: str = "ground"
    point_b: list[float] = msgspec.field(default_factory=lambda: [0.0, 0.0, 0.0])


class ForceDescription(msgspec.Struct, kw_only=True):
    """A force on a body. The point at which the force acts is given in the body's frame, m.

    The force vector is the sum over i of output i times axis i.

    outputs  names of the outputs in RobotState that are the components of the force (N)
    axes     (3 n,): for each of the n outputs, the unit vector in the world frame along which the component acts
    """

    name: str
    body: str
    point: list[float] = msgspec.field(default_factory=lambda: [0.0, 0.0, 0.0])
    outputs: list[str] = []
    axes: list[float] = []


class GripperDescription(msgspec.Struct, kw_only=True):
    """A gripper: the body that it belongs to, and its grip point in that body's frame, m.

    outputs  names of outputs that are 1 while a constraint of the grip holds, otherwise 0. The gripper grips if all
             outputs are 1, slides if some are 1, and is open if all are 0
    """

    name: str
    body: str
    point: list[float] = msgspec.field(default_factory=lambda: [0.0, 0.0, 0.0])
    outputs: list[str] = []


class Description(Message, kw_only=True):
    """The robot's description: joints, actuators, bodies and outputs. Published once, latched.

    ground        fixed shapes in the world frame: supports, bars, obstacles
    output_units  unit of each output; "" for an unknown unit
    holds         the robot's grippers
    frames        names of the spherical and free joints, and of planar joints in joint coordinates, in the order of
                  RobotState.frames
    pushable      bodies on which the service `push` lets a force act
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
    frames: list[str] = []
    pushable: list[str] = []


class RobotState(Message, kw_only=True):
    """State of a robot's declared joints and actuators. Joint positions are relative to the parent body and unwrapped,
    whatever coordinates the simulation uses.

    name       the joints in the order of the description, then actuators that belong to no joint
    position   rad or m, one per name, finite
    velocity   rad/s or m/s, one per name, finite
    effort     effort applied over the time step that ended in this state, N m or N; one per name, or empty; finite
    phi        |Phi|_1, position-level constraint violation
    phidot     |Phidot|_1, velocity-level constraint violation
    energy     kinetic plus potential energy, J
    outputs    the robot's named outputs
    clock      name of the node whose own clock gave `timestamp`, as for a robot's measurements; "" for simulation time
    frames     (7n,): 7 numbers for each of the n joints in `Description.frames`. First the position (m) of the joint's
               point on the child relative to the joint's point on the parent, in the parent's axes; then the quaternion
               w x y z of the child's axes relative to the parent's axes
    twists     (6n,): 6 numbers for each of the same joints. First the linear velocity (m/s) in the parent's axes; then
               the angular velocity (rad/s) in the child's axes
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
    frames: list[float] = []
    twists: list[float] = []


class BodyPoses(Message, kw_only=True):
    """World poses of the n bodies in the description's order: p (3n,) in m, quaternion (4n,) as w x y z, finite."""

    p: list[float] = []
    quaternion: list[float] = []


class Polylines(Message, kw_only=True):
    """Polylines in the world frame that belong to no body: deflected beams, or a planned path.

    name    names, one per polyline
    count   number of points of each polyline
    points  x, y, z of each point in m, finite, polyline after polyline; shape (3 sum(count),)
    """

    name: list[str] = []
    count: list[int] = []
    points: list[float] = []


class JointCommand(Message, kw_only=True):
    """A command to actuators. Each actuator is commanded by one node.

    mode     "effort" (N m, N), "velocity" (rad/s, m/s) or "position" (rad, m)
    name     names of actuators; an actuator that is not named keeps its last mode and value
    value    one per name, finite; the actuator's limits apply
    state_seq  seq of the state from which the command was computed; None if there is no such state
    clock    on the topic `applied_command`: name of the node whose own clock gave `timestamp`; "" for simulation time
    """

    mode: Literal["effort", "velocity", "position"] = "effort"
    name: list[str] = []
    value: list[float] = []
    state_seq: int | None = None
    clock: str = ""


class JointReference(Message, kw_only=True):
    """Reference motion of joints: one finite position, velocity and acceleration per name.

    velocity      one per name, or an empty list
    acceleration  one per name, or an empty list
    """

    name: list[str] = []
    position: list[float] = []
    velocity: list[float] = []
    acceleration: list[float] = []


class Twist(Message, kw_only=True):
    """Velocity of a mobile base in its own axes: linear x, y, z in m/s, angular x, y, z in rad/s, finite."""

    linear: list[float] = msgspec.field(default_factory=lambda: [0.0, 0.0, 0.0])
    angular: list[float] = msgspec.field(default_factory=lambda: [0.0, 0.0, 0.0])


class Enable(Message, kw_only=True):
    """State of a switch that a user holds to enable the robot; sent repeatedly while the user holds the switch.

    pressed  whether the switch is pressed, so that the robot may move
    """

    pressed: bool = False


class Encoders(Message, kw_only=True):
    """Counts of incremental encoders, pulses since the start, unwrapped: one count per name."""

    name: list[str] = []
    count: list[int] = []
    pulses_per_turn: int = 0


class Event(Message, kw_only=True):
    """An event of the run: a change of constraint mode (set of active constraints), an action of a user, or a fault.

    kind    what happened. Change of constraint mode: the name of the guard, such as "grip", "release" or "fall" of a
            gibbon. Action of a user: "reset", "restore", "pause", "resume"; "speed" (simulated seconds per second);
            "set" (a parameter); "hand" and "hand_back" (a user commands actuators in place of the nodes, and ends
            this); "push" (external force on the body `part`; `new` contains, as JSON, the force (3,) in N in world
            axes, the point (3,) in m in the body's frame, and duration_s). End of the run: "diverged", or "late" (see
            `overrun_policy`). Event of a node `node` that commands actuators: "refused" (the command was rejected);
            "safe" (the node sent no command in time, and its actuators went to the safe mode); "held" (the node
            disconnected, and its last command stays in force); "cut" (the command was limited to a joint's range;
            published once). Limits of a driver's commands (table `guard` of the node): "guard_clamp" (`part` is the
            joint, `key` the limit, `old` the commanded value, `new` the value passed on); "guard_rejected",
            "guard_stop" and "guard_acknowledged" (`key` is the cause). Other: "take_over" (`node`, which is not
            in the launch file, may command actuators); "clock_step" (the clock of `node` jumped); "step_too_large" (the
            step size is too large for the robot's fastest mode); "energy_departure" (the energy error exceeds 1 % of
            the run's energies, or has doubled since the last such event); "constraint_gap" (a guard switched on a
            violated constraint, new parameters shifted a constraint, or the constraints do not permit a commanded
            velocity); "estop" and "estop_released" (an emergency stop of all actuators begins and ends)
    before  state before a change of constraint mode, coordinates then velocities
    after   state after a change of constraint mode, coordinates then velocities
    energy  energy lost in the change of constraint mode, J
    node    node to which the event belongs: the node whose parameter was set, that sent the command, or whose clock
            jumped
    key     name of the parameter that was set
    old     value of the parameter before, as JSON; for "speed" the previous speed
    new     value of the parameter from then on, as JSON; for "speed" the new speed
    detail  one line for the user
    part    part of the robot whose constraint mode changes, e.g. "hand_a"
    source  constraint mode before the change: its name, or the switched constraints that hold, as "a + b"
    target  constraint mode after the change, written in the same way
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


class Snapshot(Message, kw_only=True):
    """Complete state of a run, from which the run can be restarted.

    Taken after the nodes have processed the messages of a time step, and before the next time step is computed.

    tick  number of time steps taken
    data  the state: MessagePack compressed by zlib, see nodes/framework/simulation/restart/snapshots.py
    """

    tick: int = 0
    data: bytes = b""


class Verdict(msgspec.Struct, frozen=True):
    """Verdict of a node on the run.

    outcome  "passed", "failed" or "not certain"; a launch ends with exit code 1 after "failed", 3 after "not certain"
    reason   one line
    detail   basis of the verdict, such as counts; may be ""
    report   command that prints details, with {recording} in place of the run's recording; may be ""
    """

    outcome: Outcome
    reason: str
    detail: str = ""
    report: str = ""

    def __str__(self) -> str:
        """One line, such as "failed: rms of b is 1.63 deg, at most 1 deg; 6 states compared"."""
        return f"{self.outcome}: {self.reason}" + (f"; {self.detail}" if self.detail else "")


class GuardStops(msgspec.Struct, kw_only=True):
    """Stops of a robot by its driver node: controlled stops by its guard, which checks commands against limits.

    For a driver without a guard, these are the emergency stops.

    count         number of stops
    stopped_s     total duration of the stops so far, s
    first_time    simulation time at which the first stop began, s; None if the node does not know simulation time
    first_reason  one line on the cause of the first stop
    reason        one line on the cause of the stop in force; "" if the robot is not stopped now
    by            "guard" for a controlled stop by a guard, "estop" for an emergency stop of a driver without a guard
    latest_s      duration of the latest stop so far, s
    idle          whether no command was passed on since the latest stop was acknowledged
    latest_time   simulation time at which the latest stop began, s; None if the node does not know simulation time
    """

    count: int = 0
    stopped_s: float = 0.0
    first_time: float | None = None
    first_reason: str = ""
    reason: str = ""
    by: Literal["guard", "estop"] = "guard"
    latest_s: float = 0.0
    idle: bool = False
    latest_time: float | None = None

    @property
    def is_open(self) -> bool:
        """Whether the robot is stopped, or no command was passed on since its latest stop was acknowledged.

        A stop in force that has lasted for 0 s does not count, because it began after the last state of the run.
        """
        return (bool(self.reason) and self.latest_s > 0.0) or self.idle

    def text(self) -> str:
        """Time, duration and cause of the stops, such as "at t = 1.500 s for 3.200 s: no measured state for 100 ms"."""
        at = "once" if self.first_time is None else f"at t = {self.first_time:.3f} s"
        again = f", the first of {self.count} stops, together" if self.count > 1 else ""
        end = ", still stopped at the end" if self.reason else ""
        end = ", acknowledged, but no command was passed on afterwards" if self.idle else end
        last = f"; the latest stop: {self.reason}" if self.reason not in ("", self.first_reason) else ""
        return f"{at}{again} for {self.stopped_s:.3f} s{end}: {self.first_reason}{last}"


class Status(Message, kw_only=True):
    """State, counters and measurements of one node; published at 2 Hz and on change, latched.

    state     "starting" | "ready" | "running" | "paused" | "safe" | "stopping" | "stopped" | "failed"
    counters  {name: whole number that never decreases}, such as the numbers of lost and of refused messages
    timing    durations in seconds that the node measures, e.g. step_p50_s
    detail    one line for the user
    refusal   topic and reason of the latest refused message
    figures   measurements of the node's own work, e.g. a tracking error; each name contains the unit
    verdict   verdict of a node that judges the run; None for other nodes
    guard     stops of the robot by the node; None if there was no stop
    limited   one line about the latest command that the node's guard changed or did not pass on; "" if there was no
              such command
    emergency  reason of the emergency stop in force at this node; "" if there is no emergency stop
    forged     {"TOPIC from NODE": number of messages that this node dropped because the topic does not belong to NODE};
               the counter "refused" includes them
    """

    node: str = ""
    state: str = ""
    counters: dict[str, int] = {}
    timing: dict[str, float] = {}
    detail: str = ""
    refusal: str = ""
    figures: dict[str, float] = {}
    verdict: Verdict | None = None
    guard: GuardStops | None = None
    limited: str = ""
    emergency: str = ""
    forged: dict[str, int] = {}


class Residual(Message, kw_only=True):
    """Measured state minus predicted state at the instant of the measured state, for the joints that both states have.

    name      joints
    position  rad or m, one per name
    velocity  rad/s or m/s, one per name; empty if one of the two states has no velocities
    effort    N m or N, one per name; empty if one of the two states has no efforts
    state_seq  seq of the measured state
    """

    name: list[str] = []
    position: list[float] = []
    velocity: list[float] = []
    effort: list[float] = []
    state_seq: int | None = None


class PayloadEstimate(Message, kw_only=True):
    """Estimate of the load that a body of the robot carries.

    body    body in whose frame `center` is
    mass    kg
    lower   lower end of the 95 % interval of `mass`, kg; may be below 0
    upper   upper end, kg
    center  (3,) centre of the load's mass, m; empty if the interval includes 0
    """

    body: str = ""
    mass: float = 0.0
    lower: float = 0.0
    upper: float = 0.0
    center: list[float] = []


class PlotValues(Message, kw_only=True):
    """Values that a node plots with `context.plot`; one message contains all values of one callback.

    values  {name: number or vector}; the length of a vector stays the same; a number may be NaN or infinite
    units   {name: unit} of the values that have one, as text such as "rad"
    """

    values: dict[str, float | list[float]] = {}
    units: dict[str, str] = {}


class PeerClock(Message, kw_only=True):
    """One round trip to another node's clock, and the estimate of that clock from the latest round trips.

    The asker's clock starts at the wall-clock time of the asker's computer and then runs without jumps. It ignores
    later adjustments of this wall clock. Otherwise, the peer's clock would seem to jump at such an adjustment.

    asker          node that made the round trip
    peer           node whose clock was read
    asked_ns       departure of the request, by the asker's clock
    received_ns    arrival of the request, by the peer's clock
    answered_ns    departure of the reply, by the peer's clock
    heard_ns       arrival of the reply, by the asker's clock
    round_trip_s   sum of the transit times of request and reply; an offset computed from this round trip alone has an
                   error of at most half this sum
    offset_s       peer's clock minus asker's clock at the arrival of the reply; None while round trips are too few
    drift          rate of change of offset_s, s per s
    uncertainty_s  standard deviation of offset_s, including the unknown asymmetry of the transit times
    exchanges      round trips since the peer's clock last jumped
    steps          number of jumps of the peer's clock
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
    """Plan of one swing of a gibbon robot: motion of one hand to its next grip, with elbow motion and torque.

    The line is the cable or the row of bars that the hands grip.

    number    number of the plan, which increases; from its start on, a plan replaces all earlier plans
    hand      hand that grips during the swing, "a" or "b"; the other hand swings
    start     simulation time of the start, s
    duration  time from the start to the arrival of the hand, s
    release   true: the swinging hand releases its grip at the start; false: the hand has released it before
    elbow     coefficients of the planned elbow angle elbow[0] + elbow[1] x + elbow[2] x^2 + ..., rad, with the sign of
              the joint "elbow"; x rises from 0 to 1 over the duration; the elbow is at rest at the end
    torque    elbow torque (N m) at equal time intervals from start to end
    path      x, y, z in m of the swinging hand at equal time intervals from start to end (3n,)
    target    planned grip position along the line, m
    gap       planned distance of the hand from the line at arrival, m
    miss      planned distance of the hand from the target along the line, m
    closing   planned speed of the hand toward the line at arrival, m/s
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
    """Progress of a gibbon's swing plans; published at each change. A field that is UNSET is not sent.

    plan        number of the active plan; UNSET if no plan is active
    refused     number of the latest plan that arrived after its start and was discarded; UNSET if no plan was discarded
    late        number of plans that arrived after their start and were discarded
    hand_overs  number of grips at the end of a swing
    """

    plan: int | msgspec.UnsetType = msgspec.UNSET
    refused: int | msgspec.UnsetType = msgspec.UNSET
    late: int = 0
    hand_overs: int = 0
