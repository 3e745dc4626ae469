"""Boundaries between runs in the stream of live messages: a reset of the simulation, or a new launch."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from typing import TYPE_CHECKING

from nodes.framework.messages import Message, RobotState

if TYPE_CHECKING:
    from nodes.framework.client import NodeEntry

SIMULATION = "sim"  # name of the simulation server in its namespace
Servers = frozenset[tuple[str, str, int]]


class LaunchBegan(Message):
    """Marks the beginning of another launch among the received messages. It is not published; its topic is ""."""


class Boundary(enum.Enum):
    """Relation of a live message to the run that is shown."""

    NONE = "the message belongs to the run"
    LAUNCH = "another launch begins after this message"
    ROBOT = "the message is the first state of the next launch, which has another robot"
    SERVER = "the message is the first state of another server of the same robot, whose description came before"


def servers_of(nodes: Iterable[NodeEntry]) -> Servers:
    """(name, host, process id) of each simulation server among the nodes of a launch."""
    return frozenset((node.name, node.host, node.pid) for node in nodes if node.name.rpartition("/")[2] == SIMULATION)


def is_other_launch(servers: Servers, before: Servers) -> bool:
    """Whether none of the simulation servers of an earlier launch is left, and others have come."""
    return bool(servers and before and servers.isdisjoint(before))


def is_set_back(state: RobotState, time: float) -> bool:
    """Whether a state is from before `time` (s), the time of the latest state.

    The simulation was then reset or restored, or another server has started.
    """
    return state.timestamp < time


def boundary(topic: str, message: Message, robot: str, time: float, seq: int, has_ended: bool) -> Boundary:
    """Relation of a live message to the run that is shown.

    robot      robot of the run; "" before its first message
    time, seq  time (s) and sequence number of the robot's latest state; seq is 0 before the first state
    has_ended  whether the launch of the run has ended, because no message came for a long time
    """
    if isinstance(message, LaunchBegan):
        return Boundary.LAUNCH
    if not isinstance(message, RobotState):
        return Boundary.NONE
    if topic.rpartition("/")[0] != robot:
        return Boundary.ROBOT if has_ended else Boundary.NONE
    is_other_server = is_set_back(message, time) and 0 < message.seq <= seq
    return Boundary.SERVER if is_other_server else Boundary.NONE
