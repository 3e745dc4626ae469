"""The topic table: message type and quality of service of each topic.

Names resolve as in ROS: if a node of the robot "charmie" declares the topic "state", the full name is "charmie/state".
A name with a leading slash ("/status") is used without the slash. The name of a topic of one node contains the node's
name: "charmie/my_controller/plot". Two topics are the same only if their whole names are equal.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from nodes.framework.messages.structs import (
    BodyPoses,
    Description,
    Enable,
    Encoders,
    Event,
    JointCommand,
    JointReference,
    Message,
    PayloadEstimate,
    PeerClock,
    PlotValues,
    Polylines,
    Residual,
    RobotState,
    Snapshot,
    Status,
    SwingPlan,
    SwingProgress,
    Twist,
)


@dataclass(frozen=True)
class Topic:
    """One row of the table: the topic's message type and its quality of service.

    latched  the last message is sent again to each new subscriber, with its seq
    sampled  each message replaces the previous one: a node that runs only on every n-th time step, or that has fallen
             behind, receives only the latest message. Topics that are not sampled are lossless: every message is
             delivered. A topic without a row in the table is lossless, too
    """

    name: str
    message: type[Message]
    latched: bool = False
    sampled: bool = False


ROBOT_TOPICS: dict[str, Topic] = {
    topic.name: topic
    for topic in (
        Topic("description", Description, latched=True),
        Topic("state", RobotState, sampled=True),
        Topic("body_poses", BodyPoses, sampled=True),
        Topic("lines", Polylines, sampled=True),
        Topic("overlay", Polylines, sampled=True),
        Topic("command", JointCommand),
        Topic("raw_command", JointCommand),
        Topic("enable", Enable, sampled=True),
        Topic("reference", JointReference),
        Topic("event", Event),
        Topic("snapshot", Snapshot),
        Topic("cmd_vel", Twist),
        Topic("encoders", Encoders),
        Topic("measured_state", RobotState),
        Topic("measured_body_poses", BodyPoses, sampled=True),
        Topic("measured_encoders", Encoders),
        Topic("applied_command", JointCommand),
        Topic("residual", Residual),
        Topic("payload", PayloadEstimate),
        Topic("swing_plan", SwingPlan),
        Topic("swing_status", SwingProgress),
    )
}
NODE_TOPICS: dict[str, Topic] = {"plot": Topic("plot", PlotValues)}
GLOBAL_TOPICS: dict[str, Topic] = {
    "status": Topic("status", Status, latched=True, sampled=True),
    "clock": Topic("clock", PeerClock),
}


def resolve(name: str, robot: str) -> str:
    """Full name of a topic that a node declares: "state" -> "<robot>/state", "/status" -> "status"."""
    return name[1:] if name.startswith("/") else f"{robot}/{name}"


def node_topic(name: str, robot: str, node: str) -> str:
    """Full name of a topic of NODE_TOPICS that belongs to one node: "<robot>/<node>/plot"."""
    return resolve(f"{node}/{name}", robot)


def known_topics() -> dict[str, Topic]:
    """Rows of the table by the name shown to users: "<robot>/state", "<robot>/<node>/plot", "status"."""
    return {
        **{f"<robot>/{name}": row for name, row in ROBOT_TOPICS.items()},
        **{f"<robot>/<node>/{name}": row for name, row in NODE_TOPICS.items()},
        **GLOBAL_TOPICS,
    }


def lookup(topic: str) -> Topic | None:
    """Row of the topic table for the full name of a topic; None for a topic that is not in the table."""
    if topic in GLOBAL_TOPICS:
        return GLOBAL_TOPICS[topic]
    robot, _, leaf = topic.rpartition("/")
    if "/" in robot and leaf in NODE_TOPICS:
        return NODE_TOPICS[leaf]
    return ROBOT_TOPICS.get(leaf) if robot else None


@lru_cache(maxsize=1024)
def is_sampled(topic: str) -> bool:
    """Whether the topic with this full name is sampled: of several waiting messages, only the latest is delivered."""
    row = lookup(topic)
    return row is not None and row.sampled
