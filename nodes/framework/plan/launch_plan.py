"""The launch plan: everything that the processes of a launch need to know.

Every error is a `PlanError`: one line that names the file, the node and the key, and the correct form.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec

from nodes.framework.plan.key_checks import PlanError
from robots.files import robot_name
from sim_core.tables import Range

if TYPE_CHECKING:
    from sim_core.mechanism import Mechanism

Mode = Literal["realtime", "fast", "lockstep"]
SPEED_MIN, SPEED_MAX = 1e-3, 1e3  # range of simulated seconds per wall second
WATCHDOG_S = 0.1  # default in realtime
PLAN_FILE = "plan.json"  # plan of a live launch, in its domain's folder
PLAIN_KEYS = ("seed", "domain", "duration_s", "name", "timing_from")  # keys of a launch file outside its tables
NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
NAME_LENGTH = 64  # longest name, because paths of sockets and logs contain the names of nodes
DEPTH = 16  # deepest nesting of tables and lists
Duration = Annotated[float, Range(1e-6, 1e8, "s")]
Rate = Annotated[float, Range(1e-3, 1e6, "Hz")]
LOCAL = "localhost"  # name of the only host of a launch without [hosts]


def joined(*parts: str) -> str:
    """Namespaces and names joined with "/", without empty ones."""
    return "/".join(filter(None, parts))


class SimPlan(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """The table [sim]: the simulation server.

    robot              a name from `armswing robot list`, a function of your own, "path/to/file.py:function", or a URDF
                       or MJCF file, "path/to/robot.urdf"; the file is searched in the folder above launch/, the working
                       folder and the launch file's folder
    parameters         parameters of the robot, as `armswing robot show` lists them
    mode               realtime: time steps are paced by the clock; fast: as fast as possible; lockstep: each time step
                       waits for every node, and the run is reproducible
    step_ms            step size of the integration, ms
    stepper            integration method, a name or a table of name and parameters
    stabilizer         method that keeps constraint violations small, a name or a table of name and parameters
    watchdog_ms        time (ms) after which the actuators of a node go to the safe mode if the node sends no command;
                       simulation time or wall time counts, whichever passes faster; by default 100 in realtime and
                       never in other modes; 0 or false: never
    safe_mode          behaviour of the actuators when their commanding node is silent; with "hold", servos keep their
                       joints where they are, and other actuators keep their effort
    speed              simulated seconds per wall second in realtime, 0.001 .. 1000
    rate_hz            rate at which the state is published, Hz of simulation time; by default at every time step
    poses_hz           rate at which the body poses are published, Hz of simulation time
    snapshot_s         simulated seconds between two snapshots of the state; a recorded run can be restarted from each
                       snapshot; 0: no snapshots
    deadline_ms        longest wait for one node's reply in lockstep, ms
    host               the computer that runs the server, by its name in [hosts]. On this computer `armswing launch` is
                       called without --host
    overrun_policy     what the server does in realtime if it is late by a time step or more: skip the missed deadlines,
                       catch up by taking the missed time steps at once, or stop the run
    cpu                core on which the server's loop runs; by default any core
    realtime_priority  whether the server's loop runs under SCHED_FIFO; if this is not permitted, a warning is shown
    compile_limit_s    longest estimated time (s) of the compilation of the robot's kernels; a robot that needs more, or
                       by default more than 2 GB of memory, is refused
    rolled             whether the robot's kernels are loops over its links or straight-line code; by default the choice
                       that `sim_core.assemble` makes
    assemble_start     whether the run starts at the state that satisfies the constraints and is nearest to the robot's
                       own start
    reactions          joints whose reaction force and torque become outputs, as reaction_JOINT_fx; true: all joints
    namespace          set by an include: first part of the robot's topics, as in "left/charmie/state"
    """

    robot: str
    parameters: dict[str, float | str] = {}
    mode: Mode = "realtime"
    step_ms: Annotated[float, Range(1e-3, 1e4, "ms")] = 1.0
    stepper: str | dict[str, Any] = "rk4"
    stabilizer: str | dict[str, Any] = "sampled_fuzzy"
    watchdog_ms: Annotated[float, Range(0.0, 1e7, "ms")] | bool | None = None
    safe_mode: Literal["zero_effort", "hold"] = "zero_effort"
    speed: Annotated[float, Range(SPEED_MIN, SPEED_MAX)] = 1.0
    rate_hz: Rate | None = None
    poses_hz: Rate = 60.0
    snapshot_s: Annotated[float, Range(0.0, 1e8, "s")] = 2.0
    deadline_ms: Annotated[float, Range(1e-3, 1e7, "ms")] = 1000.0
    host: str = LOCAL
    overrun_policy: Literal["skip", "catch_up", "stop"] = "skip"
    cpu: Annotated[int, Range(0, 4095)] | None = None
    realtime_priority: bool = False
    compile_limit_s: Annotated[float, Range(0.0, 1e7, "s")] = 60.0
    rolled: bool | None = None
    assemble_start: bool = False
    reactions: bool | list[str] = False
    namespace: str = ""

    @property
    def robot_name(self) -> str:
        """First part of the robot's topic names: the namespace and the robot's name.

        The name of a robot that a Python function builds is the function's name.
        """
        return joined(self.namespace, robot_name(self.robot))

    def make_mechanism(self, **differences: float | str) -> Mechanism:
        """The robot with its parameters, and with the outputs that `reactions` asks for.

        differences  parameters that differ from `parameters`
        """
        from robots.registry import build
        from sim_core.mechanism import with_reactions

        mechanism = build(self.robot, **{**self.parameters, **differences})
        if not self.reactions:
            return mechanism
        return with_reactions(mechanism, None if self.reactions is True else self.reactions)

    @property
    def step_s(self) -> float:
        """Time step of the simulation, s."""
        return self.step_ms * 1e-3

    def method_text(self) -> str:
        """Stepper, stabilizer and step size as text for the user."""
        return f"{_method_text(self.stepper)}, {_method_text(self.stabilizer)}, steps of {self.step_ms:g} ms"

    def make_stepper(self) -> Any:
        """The configured stepper. Raises InvalidRequest for an unknown stepper."""
        from sim_core.integrators.steppers import stepper_named

        return _made(stepper_named, self.stepper)

    def make_stabilizer(self) -> Any:
        """The configured stabilizer. Raises InvalidRequest for an unknown stabilizer."""
        from sim_core.stabilization.registry import stabilizer_named

        return _made(stabilizer_named, self.stabilizer)

    @property
    def watchdog_s(self) -> float | None:
        """Longest time (s) without a command, after which actuators go to the safe mode; None if there is no such
        limit.
        """
        if self.watchdog_ms is None:
            return WATCHDOG_S if self.mode == "realtime" else None
        return self.watchdog_ms * 1e-3 or None


def _method_text(given: str | dict[str, Any]) -> str:
    """Method with its parameters, such as "baumgarte (alpha = 5, beta = 12)"."""
    if isinstance(given, str):
        return given
    rest = ", ".join(f"{key} = {value}" for key, value in given.items() if key != "name")
    return f"{given['name']} ({rest})" if rest else str(given["name"])


def _made(named: Callable[..., Any], given: str | dict[str, Any]) -> Any:
    table = {"name": given} if isinstance(given, str) else dict(given)
    return named(str(table.pop("name")), **table)


class LinkPlan(msgspec.Struct, kw_only=True, forbid_unknown_fields=True, frozen=True):
    """A table [nodes.link]: simulated network between a node and all other nodes, in lockstep.

    In the launch file, the table follows the table [[nodes]] of its node.

    delay_ms   simulation time that each message to or from the node takes, ms
    jitter_ms  largest additional time, ms, drawn uniformly for each message; the order of messages is kept
    loss       probability that a message is lost, 0 .. 1; descriptions, status and events always arrive
    """

    delay_ms: Annotated[float, Range(0.0, 1e7, "ms")] = 0.0
    jitter_ms: Annotated[float, Range(0.0, 1e7, "ms")] = 0.0
    loss: Annotated[float, Range(0.0, 1.0)] = 0.0


class NodePlan(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A table [[nodes]]: one node and its process.

    name               name of the node, unique in the plan
    run                "path/to/file.py:ClassName", or the path of a program, such as one in C; the folders searched are
                       the folder above launch/, the working folder and the launch file's folder
    decimation         number of time steps after which the node runs again in lockstep
    restart            whether the node's process is restarted when it ends; never in lockstep
    max_restarts       largest number of restarts
    params             parameters of the node, the fields of its class `Params`
    host               name in [hosts] of the computer on which the node runs; by default the server's
    cpu                core on which the node's loop runs; by default any core
    realtime_priority  whether the node's loop runs under SCHED_FIFO; if this is not permitted, a warning is shown
    required           false: if the node fails and is not restarted, the run continues, and the launch ends with exit
                       code 1; no effect in lockstep
    namespace          namespace of an included simulation that the node belongs to
    remap              other names for the node's topics, such as { state = "measured_state", reference = "/left/goal" }
    link               delay, jitter and loss of the node's messages in lockstep, see [nodes.link]
    compute_ms         simulation time (ms) that the node takes for its work of each time step in lockstep; the node
                       publishes its messages of the time step afterwards
    guard              limits of the commands that a driver receives: the parameters of `nodes/guard`, which applies
                       them in the driver's process
    """

    name: str
    run: str
    decimation: Annotated[int, Range(1, 10**6, "steps")] = 1
    restart: Literal["never", "on-failure", "always"] = "never"
    max_restarts: Annotated[int, Range(0, 10**6)] = 3
    params: dict[str, Any] = {}
    host: str = LOCAL
    cpu: Annotated[int, Range(0, 4095)] | None = None
    realtime_priority: bool = False
    required: bool = True
    namespace: str = ""
    remap: dict[str, str] = {}
    link: LinkPlan = LinkPlan()
    compute_ms: Annotated[float, Range(0.0, 1e7, "ms")] = 0.0
    guard: dict[str, Any] | None = None

    @property
    def local_name(self) -> str:
        """The name without the namespace."""
        return self.name.removeprefix(f"{self.namespace}/")


class Milestone(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A table [[milestones]]: a goal of the run, reached when a joint has stayed near an angle for some time.

    name           name of the milestone, unique in the plan
    joint          joint whose position is watched
    target_deg     target position, degrees modulo 360
    tolerance_deg  largest distance from the target, degrees
    hold_s         simulation time for which the joint has to stay within the tolerance, s
    required       whether the launch ends with exit code 1 if the milestone is not reached
    after          name of another milestone that has to be reached first
    """

    name: str
    joint: str
    target_deg: Annotated[float, Range(-1e6, 1e6, "degrees")]
    tolerance_deg: Annotated[float, Range(1e-6, 360.0, "degrees")] = 10.0
    hold_s: Annotated[float, Range(0.0, 1e8, "s")] = 1.0
    required: bool = True
    after: str = ""


class Plan(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A whole launch, with the keys of a launch file that stand outside of its tables.

    name        name of the plan; by default the file's
    seed        seed of all random numbers of the nodes
    domain      number of the launch, 0 .. 232, different for each launch on a computer; --domain overrides it
    hosts       a table of computers, name = "address"; each computer needs the public keys of the others
    duration_s  simulated seconds until the run ends; without it, Ctrl-C ends the run; --duration overrides it; the
                launched file's value overrides those of the included files
    timing_from  recording of a run in realtime; in lockstep, the messages of nodes without a key `link` get the delay,
                 jitter and loss measured in that run; --timing-from overrides it
    folder      folder from which relative paths of `run` are resolved first
    simulations plans of included simulations, by namespace
    commanders  {actuator of the robot: node that commands it}, set by the check of the plan
    """

    name: str
    sim: SimPlan
    nodes: list[NodePlan] = []
    milestones: list[Milestone] = []
    seed: Annotated[int, Range(0, 2**63 - 1)] = 0
    domain: Annotated[int, Range(0, 232)] = 0
    duration_s: Duration | None = None
    timing_from: str = ""
    folder: str = "."
    hosts: dict[str, str] = {}
    simulations: dict[str, Plan] = {}
    commanders: dict[str, str] = {}

    @property
    def views(self) -> list[Plan]:
        """The plan of each simulation: this plan first, if it has a simulation, then the plans of the namespaces."""
        return [*([] if self.sim.namespace in self.simulations else [self]), *self.simulations.values()]

    def view(self, namespace: str) -> Plan:
        """Plan of the simulation in a namespace; this plan if `simulations` does not have the namespace."""
        return self.simulations.get(namespace, self)

    def robot_of(self, namespace: str) -> str:
        """First part of the topic names of the robot in a namespace, such as "left/charmie".

        Returns "" if no simulation runs in the namespace.
        """
        sim = self.view(namespace).sim
        return sim.robot_name if sim.namespace == namespace else ""

    @property
    def all_milestones(self) -> dict[str, Milestone]:
        """The milestones of all simulations, {name with namespace: milestone}."""
        return {joined(view.sim.namespace, each.name): each for view in self.views for each in view.milestones}

    def nodes_on(self, host: str) -> list[NodePlan]:
        """Nodes that run on a host."""
        return [node for node in self.nodes if node.host == host]

    def node(self, name: str) -> NodePlan:
        """Node with this name. Raises PlanError, which lists the nodes of the plan, for an unknown name."""
        for node in self.nodes:
            if node.name == name:
                return node
        raise PlanError(f"plan {self.name!r} has no node {name!r}; its nodes are {[n.name for n in self.nodes]}")


def save_plan(plan: Plan, path: Path) -> None:
    """Write the plan as JSON for the processes of a launch."""
    path.write_bytes(msgspec.json.format(msgspec.json.encode(plan)))


def read_plan(path: str | Path) -> Plan:
    """The plan in a file that `save_plan` wrote. The file is checked against the schema only."""
    try:
        return msgspec.json.decode(Path(path).read_bytes(), type=Plan)
    except (OSError, msgspec.MsgspecError) as error:
        raise PlanError(f"{path}: this is not a saved plan: {error}") from None
