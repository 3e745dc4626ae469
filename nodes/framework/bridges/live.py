"""Live messages of a domain, launch after launch, for a bridge to another program."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

from nodes.framework.client import Client, NotLiveError
from nodes.framework.messages import JointCommand, Message, RobotState
from nodes.framework.transport.domain import default_domain
from nodes.framework.transport.registry import RegistryError

QUIET_S = 0.5  # without a message for this long, the launch may have ended
RETRY_S = 0.5


class LiveMessages:
    """Iterates over the messages of all topics of a domain, with the simulation time of each message.

    When a launch ends, the iteration continues with the messages of the next launch.

    on_launch  function called before the first message of each launch, with a client of that launch
    on_end     function called when a launch has ended, or the iteration; the client is still open
    stop       event that ends the iteration
    received   number of messages so far
    """

    def __init__(
        self,
        domain: int | None,
        stop: threading.Event,
        on_launch: Callable[[Client], None] = lambda client: None,
        on_end: Callable[[], None] = lambda: None,
    ) -> None:
        self.domain = default_domain() if domain is None else domain
        self.stop = stop
        self.received = 0
        self._lost_before = 0
        self._client: Client | None = None
        self._on_launch, self._on_end = on_launch, on_end
        self._time = 0.0  # s of simulation time, of the latest state

    @property
    def lost(self) -> int:
        """Number of messages lost on the way to this bridge, counted from gaps in the sequence numbers."""
        return self._lost_before + (0 if self._client is None else self._client.lost)

    def __iter__(self) -> Iterator[tuple[str, Message, float]]:
        """Yield (topic, message, simulation time in s) of every message. When a launch ends, wait for the next launch.

        If another clock than the simulation's stamped a state or command, the yielded time is that of the latest
        simulated state.
        """
        while not self.stop.is_set():
            try:
                with Client(self.domain) as client:
                    self._client = client
                    self._on_launch(client)
                    try:
                        yield from self._of_launch(client)
                    finally:
                        self._on_end()
            except (NotLiveError, RegistryError, OSError):
                pass
            finally:
                if self._client is not None:
                    self._lost_before, self._client = self.lost, None
            self.stop.wait(RETRY_S)

    def _of_launch(self, client: Client) -> Iterator[tuple[str, Message, float]]:
        while client.is_live and not self.stop.is_set():
            for topic, message in client.stream(timeout_s=QUIET_S):
                self.received += 1
                has_own_clock = isinstance(message, RobotState | JointCommand) and bool(message.clock)
                if isinstance(message, RobotState) and not has_own_clock:
                    self._time = message.timestamp
                yield topic, message, self._time if has_own_clock else message.timestamp
                if self.stop.is_set():
                    return
