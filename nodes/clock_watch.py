"""Measures the clocks of all nodes: their offset and drift, and jumps when a clock is set forward or back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from nodes.framework.messages import Event, Message, PeerClock, Status
from nodes.hil.clocks.track import ClockTracks
from nodes.node import Context, Node, Outgoing


class ClockWatch(Node):
    """Publishes a `clock` message for each measured round trip to a node, and an event for each clock jump."""

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
        """Store the simulation time from a status message of the simulation server."""
        if isinstance(message, Status) and message.node == "sim":
            self._time = message.timestamp
        return None

    def on_clock(self, reading: PeerClock) -> Iterator[tuple[str, Message]]:
        """Add a round trip to the estimate of a node's clock.

        Yields the round trip as a `clock` message, and an event if the clock jumped.
        """
        reading.timestamp = self._time
        for outgoing in self._tracks.add(reading):
            if isinstance(outgoing[1], Event):
                self._context.warn(outgoing[1].detail)
            yield outgoing

    @property
    def counters(self) -> Mapping[str, int]:
        """Number of clock jumps, summed over all nodes."""
        return {"clock_steps": self._tracks.steps}
