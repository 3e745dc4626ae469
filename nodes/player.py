"""Republishes a recording with the recorded times between messages, scaled by a speed factor."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Annotated, Any

import msgspec

from nodes.framework.messages import JointCommand, Message
from nodes.framework.messages.topics import ROBOT_TOPICS
from nodes.framework.recording.reader import RecordingError, RecordingFile
from nodes.framework.recording.runs import RunCutter
from nodes.node import Context, Node, Outgoing
from sim_core.tables import Range


class PlayerParams(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Recording to play, speed and looping."""

    file: str  # path of the recording (.mcap)
    speed: Annotated[float, Range(1e-3, 1e3)] = 1.0  # factor on the original pace
    loop: bool = False  # start over at the end

    def __post_init__(self) -> None:
        if not (math.isfinite(self.speed) and self.speed > 0.0):
            raise ValueError(f"speed is {self.speed}; it must be a number above 0")


Line = tuple[float, str, Message]  # recorded seconds after the start of playing, topic name, message


class Player(Node):
    """Republishes the robot topics of a recording, as topics of the plan's robot, in the recorded order.

    Each message keeps its timestamp and gets a new `seq` and `sent_ns`; a command is published without `state_seq`. The
    recorded `status` messages of nodes are not republished, since the recorded nodes do not run now. A truncated
    recording plays up to its last readable message.
    """

    publishes = {name: topic.message for name, topic in ROBOT_TOPICS.items()}
    Params = PlayerParams
    rate_hz = 1000.0
    services = {"playback": "progress of playing: position_s, messages, done"}

    def __init__(self) -> None:
        self._params = PlayerParams(file="")
        self._timed_messages: Iterator[Line] = iter(())
        self._next: Line | None = None
        self._position = 0.0  # recorded seconds played
        self._last: float | None = None  # node time of the latest tick
        self._messages = 0

    @property
    def counters(self) -> Mapping[str, int]:
        """Number of messages republished."""
        return {"messages_played": self._messages}

    def on_start(self, context: Context) -> Outgoing:
        """Open the recording. Playing begins with the first tick."""
        self._params = context.params
        self._warn_of_holes(context)
        self._timed_messages = _timed_messages(self._params)
        self._next = next(self._timed_messages, None)
        if self._next is None:
            raise ValueError(
                f"{self._params.file!r} contains no message of a robot; "
                "give a recording that contains robot topics, such as ROBOT/state"
            )
        return None

    def _warn_of_holes(self, context: Context) -> None:
        """Log a warning if messages are missing in the recording, before the first message is published."""
        try:
            warning = RecordingFile(self._params.file).scan().warning
        except RecordingError as error:
            raise ValueError(str(error)) from None
        if warning:
            context.warn(f"the recording is incomplete: {warning}")

    def on_tick(self, now: float) -> Iterator[tuple[str, Message]]:
        """Publish the messages that are due by now."""
        if self._last is not None:
            self._position += (now - self._last) * self._params.speed
        self._last = now
        while self._next is not None and self._next[0] <= self._position:
            _, name, message = self._next
            self._messages += 1
            yield name, message
            self._next = next(self._timed_messages, None)

    def on_parameters(self, params: PlayerParams) -> Outgoing:
        """Change the speed while playing.

        Raises ValueError if `file` or `loop` changes, because the player reads these at its start.
        """
        for name in ("file", "loop"):
            if getattr(params, name) != getattr(self._params, name):
                raise ValueError(
                    f"a player reads its parameter {name} once, at the start; restart the player to use the new value"
                )
        self._params = params
        return None

    def on_request(self, name: str, args: dict[str, Any]) -> Any:
        """Response of the service `playback`: position in the recording (s), number of messages published so far, and
        whether the playback has ended.
        """
        if name != "playback":
            return super().on_request(name, args)
        return {"position_s": self._position, "messages": self._messages, "done": self._next is None}


def _timed_messages(params: PlayerParams) -> Iterator[Line]:
    """Yield (time in s, name of the topic, message) of the messages to publish, one recorded run after the other.

    The times start at 0, continue from run to run, and never decrease within a run. If `params.loop` is true, the
    iterator is endless.
    """
    base = 0.0
    while True:
        origin: int | None = None
        elapsed = 0.0
        cutter = RunCutter()
        begun = 0
        for recorded in RecordingFile(params.file):
            place = cutter.place(recorded.topic, recorded.time_ns, recorded.payload)
            robot, _, name = recorded.topic.rpartition("/")
            message = recorded.message() if robot and name in ROBOT_TOPICS else None
            if message is None:
                continue
            if isinstance(message, JointCommand):
                message.state_seq = None  # refers to a state of the recorded run
            if len(cutter.runs) > max(begun, 1):
                base, elapsed, origin = base + elapsed, 0.0, None
            begun = len(cutter.runs)
            origin = recorded.time_ns if origin is None else origin
            if place is None or place == max(begun - 1, 0):  # else written late, of the run before
                elapsed = max(elapsed, (recorded.time_ns - origin) / 1e9)
            yield base + elapsed, name, message
        if origin is None or base + elapsed == 0.0 or not params.loop:
            return
        base += elapsed
