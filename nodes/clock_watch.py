"""Measures the clocks of all nodes: offset and drift, and jumps where a clock was set forward or back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from nodes.hil.clocks.track import ClockTracks
from nodes.messages import Event, Message, PeerClock, Status
from nodes.node import Context, Node, Outgoing


class ClockWatch(Node):
    """Publishes a `clock` message for each round trip to each node, and an event for each jump of a clock."""

    subscribes = {"/status": Status}
    publishes = {"/clock": PeerClock, "event": Event}
    stateless = True  # in lockstep no round trips are made

    def on_start(self, context: Context) -> Outgoing:
        """Begin without an estimate of any clock."""
        self._context = context
        self._tracks = ClockTracks()
        self._time = 0.0
        return None

    def on_message(self, name: str, message: Message) -> Outgoing:
        """Take the simulation time from the status of the simulation server."""
        if isinstance(message, Status) and message.node == "sim":
            self._time = message.timestamp
        return None

    def on_clock(self, reading: PeerClock) -> Iterator[tuple[str, Message]]:
        """Add a round trip to the estimate of that node's clock; publish it, and an event where the clock jumped."""
        reading.timestamp = self._time
        for outgoing in self._tracks.add(reading):
            if isinstance(outgoing[1], Event):
                self._context.warn(outgoing[1].detail)
            yield outgoing

    @property
    def counters(self) -> Mapping[str, int]:
        """Number of jumps of all clocks together."""
        return {"clock_steps": self._tracks.steps}
