"""Publishes the messages of a robot on channels of the Foxglove SDK, for the live server and for the MCAP writer."""

from __future__ import annotations

from collections.abc import Iterable

from foxglove import Channel, Context, Schema
from foxglove.channels import FrameTransformsChannel, JointStatesChannel, SceneUpdateChannel

from nodes.framework.bridges.foxglove_scene import has_rows, joints_of, lines_of, scene_of, transforms_of
from nodes.framework.messages import BodyPoses, Description, Message, Polylines, RobotState
from nodes.framework.messages.topics import lookup
from nodes.framework.recording.schema import encode_json, schema_name, schema_of


class FoxgloveChannels:
    """Logs each message as JSON on a Foxglove channel of its topic, and the robot also in Foxglove's own message types.

    Channel "/<robot>/state", for example, carries the message RobotState with the JSON Schema that recordings use.
    Channels "/<robot>/joint_states", "/<robot>/scene" and "/tf" carry message types of Foxglove. Log times are
    simulation times in ns.

    logged  number of messages passed to `log`
    """

    def __init__(self, context: Context) -> None:
        self.logged = 0
        self._context = context
        self._channels: dict[str, Channel] = {}
        self._scenes: dict[str, SceneUpdateChannel] = {}
        self._joints: dict[str, JointStatesChannel] = {}
        self._transforms = FrameTransformsChannel("/tf", context=context)
        self._described: dict[str, Description] = {}
        self._latched: dict[str, dict[str, tuple[Message, float]]] = {}  # {channel: {publisher: (message, time)}}

    def log(self, topic: str, message: Message, time_s: float) -> None:
        """Log one message on its topic's channel, and log robot data also on channels with Foxglove's own schemas."""
        log_time = round(time_s * 1e9)
        row = lookup(topic)
        if row is not None and row.latched:
            self._latched.setdefault(f"/{topic}", {})[getattr(message, "node", "")] = message, time_s
        channel = self._channels.get(topic)
        if channel is None:
            kind = type(message)
            schema = Schema(name=schema_name(kind), encoding="jsonschema", data=schema_of(message))
            channel = Channel(f"/{topic}", schema=schema, message_encoding="json", context=self._context)
            self._channels[topic] = channel
        if channel.has_sinks():
            channel.log(encode_json(message), log_time=log_time)
        self.logged += 1
        self._log_as_foxglove(topic, message, time_s, log_time)

    def _log_as_foxglove(self, topic: str, message: Message, time_s: float, log_time: int) -> None:
        robot, _, leaf = topic.rpartition("/")
        if isinstance(message, RobotState) and has_rows(message):
            name = f"/{robot}/joint_{leaf}s"
            joints = self._joints.get(name) or self._new_joints(name)
            if joints.has_sinks():
                joints.log(joints_of(message, time_s), log_time=log_time)
        elif isinstance(message, Description):
            self._described[robot] = message
            self._scene(f"/{robot}/scene").log(scene_of(message), log_time=log_time)
        elif isinstance(message, BodyPoses) and robot in self._described:
            self._transforms.log(transforms_of(self._described[robot], message, time_s), log_time=log_time)
        elif isinstance(message, Polylines):
            self._scene(f"/{robot}/scene_{leaf}").log(lines_of(topic, message, time_s), log_time=log_time)

    def repeat(self, channels: Iterable[str]) -> None:
        """Log the latched messages of these channels again, for a client that has just subscribed to them."""
        for channel in channels:
            for message, time_s in list(self._latched.get(channel, {}).values()):
                self._channels[channel[1:]].log(encode_json(message), log_time=round(time_s * 1e9))
            robot = channel[1:].removesuffix("/scene")
            if channel in self._scenes and robot in self._described:
                self._scenes[channel].log(scene_of(self._described[robot]), log_time=0)

    def _new_joints(self, name: str) -> JointStatesChannel:
        self._joints[name] = JointStatesChannel(name, context=self._context)
        return self._joints[name]

    def _scene(self, name: str) -> SceneUpdateChannel:
        if name not in self._scenes:
            self._scenes[name] = SceneUpdateChannel(name, context=self._context)
        return self._scenes[name]
