"""The node contract: a node is a plain object that receives messages and returns messages.

A node uses no socket, clock, sleep, print or environment variable; the runner (or the lockstep scheduler, or a test)
calls its methods. Methods yield or return outgoing messages as (name, message) pairs, with names from `publishes`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec

from nodes.framework.messages import Message, PeerClock, Verdict
from nodes.framework.messages.plotting import PlottedValues

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np

    from nodes.framework.plan.launch_plan import Plan, SimPlan

STOPPED = {"guard": "guard stopped", "estop": "emergency stop"}  # {GuardStops.by: first words of a status's `detail`}
WAITS_FOR = "waits for"  # first words of `detail` in the status of a node whose `waits_for` is not empty
Outgoing = Iterable[tuple[str, Message]] | None


class NoParams(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Class of the parameters of a node that has none."""


@dataclass
class Context:
    """Data that the runner passes to a node at its start.

    name     the node's name in the plan
    robot    name of the plan's robot: the namespace of the node's topics
    step_s   time step of the simulation, s
    params   the node's `Params`, filled in from the plan
    random   numpy random generator, the only source of randomness that a node uses; seeded from the plan's seed and the
             node's name. If a seed (a tuple of numbers) is passed instead, the generator is made on first use
    log      (level, line) of each call of `warn` and `info`; the runner shows these lines
    plan     the whole launch plan, shared by all nodes of the process and not to be changed; None if there is none
    plotted  values given to `plot` that the runner has not published yet
    clock    value for the `clock` field of a message that is stamped with the `now` of `on_tick`: the node's name if
             `now` is read from the node's own clock, "" if `now` is simulation time
    """

    name: str
    robot: str
    step_s: float
    params: Any
    random: np.random.Generator
    log: list[tuple[str, str]] = field(default_factory=list)
    plan: Plan | None = None
    clock: str = ""
    plotted: PlottedValues = field(init=False, repr=False, compare=False)

    @property
    def robot_source(self) -> str:
        """Robot of the plan, as `robots.build` accepts it: a robot's name, or "path/to/file.py:function"."""
        return self.robot if self.plan is None else self.plan.sim.robot or self.robot

    @property
    def robot_parameters(self) -> Mapping[str, float | str]:
        """Parameters that the plan gives to its robot."""
        return {} if self.plan is None else self.plan.sim.parameters

    @property
    def sim(self) -> SimPlan:
        """The [sim] table of the plan. Raises ValueError with a one-line message if there is no plan."""
        if self.plan is None:
            raise ValueError(f"node {self.name!r} needs a plan, but has none; start the node in a launch")
        return self.plan.sim

    def __post_init__(self) -> None:
        self.plotted = PlottedValues(self.warn, self.warn)
        if isinstance(self.random, tuple):
            self._seed = list(self.__dict__.pop("random"))

    def __getattr__(self, name: str) -> Any:
        """The numpy generator `random`, made on first use, so that nodes without random numbers need no numpy."""
        if name != "random" or "_seed" not in self.__dict__:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        import numpy

        self.random = numpy.random.default_rng(self._seed)
        return self.random

    def plot(self, name: str, value: float | Sequence[float] | np.ndarray, unit: str = "") -> None:
        """Publish a value under the name `name`, for live plots and recordings.

        A node may call this in every method that the runner calls.

        The values that the node plots in one call of `on_message`, `on_tick` or another method are published together,
        as one `PlotValues` on the topic "<robot>/<node>/plot". Its timestamp is that of the node's other messages: the
        simulation time of the time step. If a name is plotted twice in one call of a method, the later value counts.

        name   1 to 80 printable characters; at most 256 names per node
        value  number, or vector of at most 64 numbers; all values of a name have equal lengths. NaN and infinite
               values are gaps in plots and null in recordings
        unit   unit of the value, shown at the axis, such as "rad"; "" if it has none

        A name or value that breaks these rules is discarded, with a warning line at the launch; the node keeps running.
        """
        self.plotted.add(name, value, unit)

    def warn(self, text: str) -> None:
        """Show the user a warning line in the output of the launch; repeated lines are rate-limited."""
        self.log.append(("warning", text))

    def info(self, text: str) -> None:
        """Show the user an information line in the output of the launch."""
        self.log.append(("info", text))


class Node:
    """Base class of all nodes. Every method is optional; a node that overrides no method does nothing.

    subscribes     {name: message type} of the topics that the node receives
    publishes      {name: message type} of the topics that the node publishes
    services       {request name: one line of help}
    Params         class of the node's parameters: a msgspec.Struct with forbid_unknown_fields=True, in which each field
                   has a default and a comment with the unit
    rate_hz        rate (Hz) of the calls of `on_tick`; None if `on_tick` is never called. The rate counts simulation
                   time in lockstep, wall time otherwise
    lossless       whether the node must receive every message, even of sampled topics, of which other nodes may miss
                   messages; in the modes lockstep and fast the simulation waits for the node
    state_attributes  names of the attributes that hold the node's state, for a node that does not override `snapshot`
                      and `restore`
    stateless      whether each message of the node depends only on the received message and the parameters, so that a
                   recorded run restarts without a `snapshot` of the node
    has_own_clock  whether the node stamps its messages with its own clock, as hardware does; `on_tick` then gets that
                   clock's time, except in lockstep
    """

    subscribes: ClassVar[Mapping[str, type[Message]]] = {}
    publishes: ClassVar[Mapping[str, type[Message]]] = {}
    services: ClassVar[Mapping[str, str]] = {}
    Params: ClassVar[type[msgspec.Struct]] = NoParams
    rate_hz: float | None = None
    lossless: ClassVar[bool] = False
    has_own_clock: ClassVar[bool] = False
    state_attributes: ClassVar[Sequence[str]] = ()
    stateless: ClassVar[bool] = False

    @classmethod
    def check(cls, params: Any, plan: Plan) -> None:
        """Raise ValueError with a one-line message for parameters that cannot work in this plan.

        Called before any process starts and, on a separate thread, before a parameter changes while the node runs.
        """

    @classmethod
    def commands(cls, params: Any, plan: Plan) -> Collection[str] | None:
        """Names of the actuators that the node commands in this plan.

        Returns None if the node may command every actuator; no other node of the plan may then command an actuator.
        """
        return None

    @classmethod
    def rehearsal(cls, params: Any, plan: Plan) -> Callable[[], Any] | None:
        """Function that does the longest work of one turn, for `armswing doctor LAUNCH`, which measures its time.

        Called in a process without a launch. For a class whose `Params` have a field `solve_ms`: the time that this
        work takes in lockstep. None for other nodes.
        """
        return None

    @property
    def figures(self) -> Mapping[str, float]:
        """Measurements of the node's own work, {name with unit: value}, such as {"peak_error_rad": 0.012}.

        They are shown in the node's status and in the summary of the launch.
        """
        return {}

    @property
    def verdict(self) -> Verdict | None:
        """Verdict of a node that judges the run; None for other nodes.

        A launch ends with exit code 1 after the outcome "failed", and with 3 after "not certain".
        """
        return None

    @property
    def waits_for(self) -> str:
        """Resource that the node still waits for and cannot work without, such as a serial port; "" if it waits for
        nothing.

        The node's status shows this text. A launch begins the run when no node waits any more.
        """
        return ""

    @property
    def counters(self) -> Mapping[str, int]:
        """Counters of the node, {name: whole number that never decreases}.

        The node's status shows them together with the runner's counters.
        """
        return {}

    def on_start(self, context: Context) -> Outgoing:
        """Called once, before every other method except `check` and `commands`."""
        return None

    def on_message(self, name: str, message: Message) -> Outgoing:
        """Called for each received message; `name` is the key of the message's topic in `subscribes`."""
        return None

    def on_lost(self, name: str, count: int) -> None:
        """Called if `count` messages of a topic were lost, on the way or because this node did not keep up.

        Called before `on_message` for the next message of the same publisher and topic, or after the publisher's end.
        """

    def on_tick(self, now: float) -> Outgoing:
        """Called at `rate_hz`. `now` (s) is simulation time in lockstep, and the time of the node's clock otherwise."""
        return None

    def on_request(self, name: str, args: dict[str, Any]) -> Any:
        """Called for each request to a service of `services`; returns the response, plain data.

        Raise ValueError with a one-line reason to refuse the request.
        """
        raise ValueError(f"there is no service {name!r}; services are {sorted(self.services)}")

    def on_parameters(self, params: Any) -> Outgoing:
        """Called with the new parameters when one has changed while the node runs."""
        return None

    def clock_ns(self, host_ns: int) -> int:
        """Reading of the node's own clock when the computer's clock reads host_ns; both in ns since the epoch.

        Differs from host_ns only in nodes that emulate a faulty clock. Not called before `on_start`.
        """
        return host_ns

    def on_clock(self, reading: PeerClock) -> Outgoing:
        """Called after each round trip to the clock of a subscribed publisher, at least once a second; not in lockstep.

        `reading` has the four times of the round trip, but no estimate of the clock yet. The runner makes round trips
        only for nodes that override this method.
        """
        return None

    def on_reset(self, time: float) -> Outgoing:
        """Called when the simulation has been set back to the simulation time `time`, seconds."""
        return None

    def snapshot(self) -> Any:
        """State of the node for the snapshots of a recording in lockstep: everything that its next messages depend on.

        Called after the node has processed the messages and the tick of a time step. The state may consist of numbers,
        text, lists, tuples, dicts, sets, deques, numpy arrays, messages, and objects with attributes of these types.
        The runner itself saves parameters, `context.random` and the latched messages. By default, the state consists of
        the attributes in `state_attributes`.
        """
        return {name: getattr(self, name) for name in self.state_attributes}

    def restore(self, state: Any) -> None:
        """Continue from `state`, which `snapshot` returned in a node of the same class with the same parameters.

        Called once, after `on_start` and after the latched messages, and before any other message or tick.
        """
        vars(self).update(state)

    def on_stop(self) -> Outgoing:
        """Called once, at the end."""
        return None
