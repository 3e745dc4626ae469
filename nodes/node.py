"""The node contract: a node is a plain object. Messages in, messages out.

A node has no socket, clock, sleep, print or environment inside; the runner (or the lockstep scheduler, or a test)
calls it. Messages out are yielded or returned as (name, message) pairs, with the names of `publishes`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import msgspec
import numpy as np

from nodes.messages import Message, PeerClock, Verdict

WAITS_FOR = "waits for"  # begins the status's detail of a node that lacks something
Outgoing = Iterable[tuple[str, Message]] | None


class NoParams(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Parameters of a node that has none."""


@dataclass
class Context:
    """What a node is told at its start.

    name    the node's name in the plan
    robot   the robot it works on: the namespace of its topics
    step_s  the simulation step, seconds
    params  the node's `Params`, filled in from the plan
    random  a generator seeded from the plan's seed and the node's name: no other randomness in a node
    plan    the whole plan as plain data, for the record; empty where there is none
    clock   for the `clock` of a message stamped with on_tick's `now`: the node's name where that is its own clock,
            else "": simulation time
    """

    name: str
    robot: str
    step_s: float
    params: Any
    random: np.random.Generator
    log: list[tuple[str, str]] = field(default_factory=list)
    plan: Mapping[str, Any] = field(default_factory=dict)
    clock: str = ""

    def warn(self, text: str) -> None:
        """Say a line to the person at the launch; the runner shows it and rate-limits repeats."""
        self.log.append(("warning", text))

    def info(self, text: str) -> None:
        """Say a line to the person at the launch."""
        self.log.append(("info", text))


class Node:
    """Base of all nodes. Every method is optional, but a node that overrides none does nothing.

    subscribes  {name: message type} what it hears
    publishes  {name: message type} what it says
    services  {request name: one line of help}
    Params   a msgspec.Struct with forbid_unknown_fields=True, defaults, and the unit in a comment
    rate_hz  how often `on_tick` is called, None for never; simulation time in lockstep, wall time otherwise
    lossless  it receives every message, of sampled topics too; in lockstep and in fast the simulation waits for it
    has_own_clock  it stamps with its computer's clock, as hardware does: outside of lockstep `on_tick` is told that one
    """

    subscribes: ClassVar[Mapping[str, type[Message]]] = {}
    publishes: ClassVar[Mapping[str, type[Message]]] = {}
    services: ClassVar[Mapping[str, str]] = {}
    Params: ClassVar[type[msgspec.Struct]] = NoParams
    rate_hz: float | None = None
    lossless: ClassVar[bool] = False
    has_own_clock: ClassVar[bool] = False

    @classmethod
    def check(cls, params: Any, plan: Mapping[str, Any]) -> None:
        """Raise ValueError, one line, for parameters that cannot work in this plan.

        Asked before any process starts, and, on a thread of its own, before parameters change while the node runs.
        `plan` is the whole plan as plain data, as in the context.
        """

    @classmethod
    def commands(cls, params: Any, plan: Mapping[str, Any]) -> Collection[str] | None:
        """The actuators that it commands in this plan; None: any, so that no other node may command."""
        return None

    @property
    def figures(self) -> Mapping[str, float]:
        """What it measured of its work, in the node's status and the launch's summary; the unit is in the name."""
        return {}

    @property
    def verdict(self) -> Verdict | None:
        """The judgement of a node that judges the run, None of any other.

        A launch ends with exit code 1 by "failed", with 3 by "not certain".
        """
        return None

    @property
    def waits_for(self) -> str:
        """What it cannot do its work without and does not have, such as a port; "" where it has all. In its status.

        A launch begins when nobody waits any more.
        """
        return ""

    @property
    def counters(self) -> Mapping[str, int]:
        """Whole numbers that only grow, shown in the node's status beside the runner's own."""
        return {}

    def on_start(self, context: Context) -> Outgoing:
        """Called once before anything else."""
        return None

    def on_message(self, name: str, message: Message) -> Outgoing:
        """Called for each message of `subscribes`, with the name as `subscribes` spells it."""
        return None

    def on_tick(self, now: float) -> Outgoing:
        """Called at `rate_hz`; now in seconds of simulation time in lockstep, of the node's clock otherwise."""
        return None

    def on_request(self, name: str, args: dict[str, Any]) -> Any:
        """Called for each service of `services`; the answer is plain data. Raise ValueError to refuse with a line."""
        raise ValueError(f"no service {name!r}; services are {sorted(self.services)}")

    def on_parameters(self, params: Any) -> Outgoing:
        """Called when parameters changed while running."""
        return None

    def clock_ns(self, host_ns: int) -> int:
        """What its own clock shows when its computer's shows `host_ns`; nanoseconds since the epoch.

        Another time only where a clock with a fault is emulated. Not asked before `on_start`.
        """
        return host_ns

    def on_clock(self, reading: PeerClock) -> Outgoing:
        """Called after each round trip to the clock of a node it listens to, once or more in a second; not in lockstep.

        The reading has the four times, and nothing estimated yet. Nodes without this method ask no one.
        """
        return None

    def on_reset(self, time: float) -> Outgoing:
        """Called when the simulation was put back to `time`."""
        return None

    def on_stop(self) -> Outgoing:
        """Called once at the end."""
        return None
