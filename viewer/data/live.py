"""Subscription to a live domain in its own thread, so that a slow window never delays the stream."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable

from nodes.framework.client import Client, NotLiveError, UnknownNameError
from nodes.framework.messages import Description, Message, RobotState
from nodes.framework.transport.domain import default_domain
from nodes.framework.transport.registry import RegistryError
from viewer.data.boundaries import LaunchBegan, Servers, is_other_launch, servers_of
from viewer.data.signals import Signals, diverged_text

QUEUE_MOST = 100_000  # most messages queued for a window that is not drawing; older ones are dropped
QUIET_S = 0.5
PAUSE_S = 0.02  # pause between receptions, shorter than a frame: waking for each message would slow the simulation
RETRY_S = 0.5
FIRST_STATE_S = 10.0  # longest wait for the first state when a picture of a live domain is asked for
GATHER_S = 3.0  # time of motion that a picture of a live domain records after its first state
UNDESCRIBED_S = 1.0  # states without a description for this long: subscribe anew; the time doubles with each attempt


class LiveFeed:
    """Receives the messages of all topics of a domain.

    The feed waits for a launch and, when that launch has ended, for the next one. A LaunchBegan separates the messages
    of two launches.
    """

    def __init__(self, domain: int | None) -> None:
        self.domain = default_domain() if domain is None else domain
        self.live = False  # whether a launch is running
        self._queue: deque[tuple[str, Message]] = deque(maxlen=QUEUE_MOST)
        self._servers: Servers = frozenset()  # of the present launch
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._listen, name="viewer-feed", daemon=True)
        self._thread.start()

    def take(self) -> list[tuple[str, Message]]:
        """All messages received since the last call, in order."""
        taken = []
        while self._queue:
            taken.append(self._queue.popleft())
        return taken

    def close(self) -> None:
        """Stop the subscribing thread."""
        self._stop.set()
        self._thread.join(timeout=2.0 * QUIET_S + RETRY_S)

    @property
    def waiting(self) -> str:
        """Reason for which there is no state to show yet, as one line."""
        if self.live:
            return f"a launch is live on domain {self.domain}, but no state of a robot has come yet ..."
        return (
            f"no launch is live on domain {self.domain}: start one with 'armswing launch FILE'"
            " or choose another with --domain; waiting ..."
        )

    def _listen(self) -> None:
        patience_s = UNDESCRIBED_S
        while not self._stop.is_set():
            try:
                with Client(self.domain) as client:
                    self.live = True
                    patience_s = self._follow(client, patience_s)
            except (NotLiveError, RegistryError, OSError):
                self.live = False
                self._stop.wait(RETRY_S)

    def _follow(self, client: Client, patience_s: float) -> float:
        """Queue the messages of one subscription until no message arrives for QUIET_S, or `close` is called.

        Also ends the subscription if states arrive for longer than `patience_s` (s) without a description of the robot,
        because the description can be lost when many messages are sent at the start. At the next subscription, the
        publisher sends the description again. Returns `patience_s` for the next subscription.
        """
        undescribed_since: float | None = None
        described = compared = False
        for received in client.stream(timeout_s=QUIET_S, pause_s=PAUSE_S):
            if not compared or isinstance(received[1], Description):  # a launch that follows at once has another server
                compared = self._compare(client)
            self._queue.append(received)
            described = described or isinstance(received[1], Description)
            if not described and isinstance(received[1], RobotState):
                undescribed_since = undescribed_since or time.monotonic()
                if time.monotonic() - undescribed_since > patience_s:
                    return 2.0 * patience_s
            if self._stop.is_set():
                break
        return UNDESCRIBED_S

    def _compare(self, client: Client) -> bool:
        """Queue a LaunchBegan if the simulation servers differ from those of the latest messages.

        Returns False if no simulation server is registered yet.
        """
        try:
            servers = servers_of(client.nodes())
        except (RegistryError, UnknownNameError):
            return False
        if is_other_launch(servers, self._servers):
            self._queue.append(("", LaunchBegan()))
        self._servers = servers or self._servers
        return bool(servers)


def gathered(domain: int | None, is_stopped: Callable[[], bool]) -> tuple[Signals, str, str]:
    """Returns (signals, subtitle, text to show while no state has arrived) for a live domain.

    Messages are gathered for GATHER_S seconds after the first state.
    """
    feed, signals = LiveFeed(domain), Signals()
    deadline, first = time.monotonic() + FIRST_STATE_S, True
    try:
        while time.monotonic() < deadline and not is_stopped():
            signals.add(feed.take())
            if first and signals.states:
                first, deadline = False, time.monotonic() + GATHER_S
            time.sleep(0.01)
        return signals, f"live, domain {feed.domain}{diverged_text(signals)}", feed.waiting
    finally:
        feed.close()
