"""Republishes a recording with its original spacing."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Annotated, Any

import msgspec

from nodes.messages import JointCommand, Message
from nodes.messages.topics import ROBOT_TOPICS
from nodes.node import Context, Node, Outgoing
from nodes.recording.reader import RecordingError, RecordingFile
from nodes.recording.runs import RunCutter
from sim_core.tables import Range


class PlayerParams(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """What to play and how fast."""

    file: str  # path of the recording (.mcap)
    speed: Annotated[float, Range(1e-3, 1e3)] = 1.0  # factor on the original pace
    loop: bool = False  # start over at the end

    def __post_init__(self) -> None:
        if not (math.isfinite(self.speed) and self.speed > 0.0):
            raise ValueError(f"speed is {self.speed}; it must be a number above 0")


Line = tuple[float, str, Message]  # seconds after the start of playing, name, message


class Player(Node):
    """Says again what a recording's robot topics said, as the plan's robot, in the recorded order.

    Messages keep their timestamps; seq and sent_ns are new, commands answer no state. What other nodes said of
    themselves ("status") is left out: it would be their word in our mouth. A recording that was cut off plays up
    to the cut.
    """

    publishes = {name: topic.message for name, topic in ROBOT_TOPICS.items()}
    Params = PlayerParams
    rate_hz = 1000.0
    services = {"playback": "how far playing is: position_s, messages, done"}

    def __init__(self) -> None:
        self._params = PlayerParams(file="")
        self._script: Iterator[Line] = iter(())
        self._next: Line | None = None
        self._position = 0.0  # recorded seconds played
        self._last: float | None = None  # node time of the latest tick
        self._messages = 0

    @property
    def counters(self) -> Mapping[str, int]:
        """Messages said again."""
        return {"messages_played": self._messages}

    def on_start(self, context: Context) -> Outgoing:
        """Open the recording; playing begins with the first tick."""
        self._params = context.params
        self._announce(context)
        self._script = _script(self._params)
        self._next = next(self._script, None)
        if self._next is None:
            raise ValueError(f"{self._params.file!r} holds no message of a robot; there is nothing to play")
        return None

    def _announce(self, context: Context) -> None:
        """Warn of what the recording lacks, before anybody listens to it."""
        try:
            warning = RecordingFile(self._params.file).scan().warning
        except RecordingError as error:
            raise ValueError(str(error)) from None
        if warning:
            context.warn(f"what is played lacks something: {warning}")

    def on_tick(self, now: float) -> Iterator[tuple[str, Message]]:
        """Say everything that is due by now."""
        if self._last is not None:
            self._position += (now - self._last) * self._params.speed
        self._last = now
        while self._next is not None and self._next[0] <= self._position:
            _, name, message = self._next
            self._messages += 1
            yield name, message
            self._next = next(self._script, None)

    def on_parameters(self, params: PlayerParams) -> Outgoing:
        """The speed may change while playing. ValueError for what takes a new player."""
        for name in ("file", "loop"):
            if getattr(params, name) != getattr(self._params, name):
                raise ValueError(f"{name} of a player is read at its start; it cannot be set while it runs")
        self._params = params
        return None

    def on_request(self, name: str, args: dict[str, Any]) -> Any:
        """The service `playback`."""
        if name != "playback":
            return super().on_request(name, args)
        return {"position_s": self._position, "messages": self._messages, "done": self._next is None}


def _script(params: PlayerParams) -> Iterator[Line]:
    """What to say and when, endless when looping: runs one after the other. Within one, times never fall."""
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
                message.state_seq = None  # the state it answered was of another run
            if len(cutter.runs) > max(begun, 1):
                base, elapsed, origin = base + elapsed, 0.0, None
            begun = len(cutter.runs)
            origin = recorded.time_ns if origin is None else origin
            if place is None or place == max(begun - 1, 0):  # else it is of the run before, written late
                elapsed = max(elapsed, (recorded.time_ns - origin) / 1e9)
            yield base + elapsed, name, message
        if origin is None or base + elapsed == 0.0 or not params.loop:
            return
        base += elapsed
