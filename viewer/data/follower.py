"""The run of a live domain that a view shows: it begins anew with each launch."""

from __future__ import annotations

import time
from collections.abc import Callable

from nodes.framework.messages import Description, Status
from viewer.data.boundaries import SIMULATION, Boundary, boundary
from viewer.data.live import LiveFeed
from viewer.data.signals import Signals

SILENT_S = 3.0  # a launch from which no message came for this long, not even a status, has ended


class LaunchFollower:
    """Takes the messages of a feed, launch after launch.

    signals      messages of the present run
    state        state of the simulation by its latest status, such as "paused"; "" before the first one
    state_since  time of the monotonic clock at which the simulation entered this state, s
    received_at  time of the monotonic clock of the latest messages, s; None before the first ones
    stops        {node: reason of the emergency stop that its latest status reports}

    began        function that is called when another launch has begun, with its `signals` in place
    status_came  function that is called with each status of a node
    """

    def __init__(
        self,
        feed: LiveFeed,
        signals: Signals,
        began: Callable[[], None],
        status_came: Callable[[Status], None] = lambda status: None,
    ) -> None:
        self.signals = signals
        self.state, self.state_since = "", 0.0
        self.received_at: float | None = None
        self.stops: dict[str, str] = {}
        self._feed, self._began, self._status_came = feed, began, status_came

    @property
    def silence_s(self) -> float:
        """Time since the latest messages, s; 0 before the first ones."""
        return 0.0 if self.received_at is None else time.monotonic() - self.received_at

    @property
    def is_receiving(self) -> bool:
        """Whether messages of the launch are arriving."""
        return self.received_at is not None and self.silence_s <= SILENT_S

    def take(self) -> bool:
        """Take the messages that have arrived since the last call. Returns whether there are any."""
        messages, has_ended = self._feed.take(), self.silence_s > SILENT_S
        first = 0  # of the messages that are not in the store yet
        for place, (topic, message) in enumerate(messages):
            self.received_at, signals = time.monotonic(), self.signals
            found = boundary(topic, message, signals.robot, signals.time, signals.seq, has_ended)
            if found == Boundary.LAUNCH:
                self._begin(None)
                self.state, first = "", place + 1
                continue
            if found == Boundary.ROBOT:
                self._begin(None)
                has_ended = False
            elif found == Boundary.SERVER:
                self._begin(signals.description)
                first = place
            if isinstance(message, Status):
                self._take_status(message)
            self.signals.take(topic, message)
        self.signals.keep(messages[first:])
        return bool(messages)

    def _take_status(self, status: Status) -> None:
        self._status_came(status)
        self.stops.pop(status.node, None)
        if status.emergency:
            self.stops[status.node] = status.emergency
        if status.node == SIMULATION and status.state != self.state:
            self.state, self.state_since = status.state, time.monotonic()

    def _begin(self, description: Description | None) -> None:
        """Forget the launch that was followed.

        description  description of the robot if the new launch has sent it already
        """
        robot, self.signals = self.signals.robot, Signals()
        self.signals.description = description
        if description is not None:
            self.signals.keep([(f"{robot}/description", description)])
        self.stops.clear()
        self._began()
