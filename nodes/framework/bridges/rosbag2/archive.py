"""A whole recording in ROS messages, from which `armswing import` makes the same recording again.

Each message of the recording is a std_msgs/String with an `ArchivedMessage` in JSON, on the topic "/armswing/" + name.
A `Heading`, the only message on the topic HEADING, describes the recording and its topics.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Annotated, Any

import msgspec

from nodes.framework.bridges.ros2.graph import ros_name
from nodes.framework.messages.codec import LATEST_S

HEADING = "/armswing/recording"
PREFIX = "/armswing/topics/"
FORMAT = 1


class ArchivedTopic(msgspec.Struct):
    """A topic of the recording.

    topic       its name
    schema      name of its messages' type, such as "armswing.RobotState"
    definition  JSON Schema of this type; "" if the recording has none
    ros_topic   topic of the bag that has its messages
    """

    topic: str
    schema: str
    definition: str
    ros_topic: str


class Heading(msgspec.Struct, kw_only=True):
    """Description of the recording.

    format    version of this format
    messages  number of messages in the recording
    metadata  the run's metadata
    topics    the topics, in the order of their first message
    damage    one line on messages that the recording lacks; "" for an intact recording
    sidecar   entries of the recording's sidecar file that name the folders of its files
    """

    format: int = FORMAT
    messages: int
    metadata: dict[str, str] = {}
    topics: list[ArchivedTopic] = []
    damage: str = ""
    sidecar: dict[str, Any] = {}


class ArchivedMessage(msgspec.Struct):
    """A message of the recording: its place in the file from 0 on, its log time in ns, and its JSON."""

    index: Annotated[int, msgspec.Meta(ge=0)]
    log_time_ns: Annotated[int, msgspec.Meta(ge=0, le=round(LATEST_S * 1e9))]
    message: msgspec.Raw


def archived_topics(schemas: dict[str, str], definitions: dict[str, str]) -> list[ArchivedTopic]:
    """The topics of a recording with their names in the bag, each name once.

    schemas      {topic: name of its messages' type}
    definitions  {topic: JSON Schema of its messages' type}
    """
    found: list[ArchivedTopic] = []
    taken: set[str] = set()
    for topic, schema in schemas.items():
        ros_topic = _free(PREFIX + ros_name(topic), taken)
        taken.add(ros_topic)
        found.append(ArchivedTopic(topic, schema, definitions.get(topic, ""), ros_topic))
    return found


def _free(name: str, taken: Collection[str]) -> str:
    number = 1
    while (found := name if number == 1 else f"{name}_{number}") in taken:
        number += 1
    return found
