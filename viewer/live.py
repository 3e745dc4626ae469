"""Listening to a live domain from a thread of its own, so that a slow window never holds up the stream."""

from __future__ import annotations

import threading
from collections import deque

from nodes.client import Client, NotLiveError
from nodes.wire.messages import Message
from nodes.wire.registry import RegistryError

QUEUE_MOST = 100_000  # messages kept for a window that is not drawing; older ones are dropped
QUIET_S = 0.5
RETRY_S = 0.5


class LiveFeed:
    """Messages of every topic of a domain. It waits for a launch, and again for the next when one has ended."""

    def __init__(self, domain: int | None) -> None:
        self._domain = domain
        self._queue: deque[tuple[str, Message]] = deque(maxlen=QUEUE_MOST)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._listen, name="viewer-feed", daemon=True)
        self._thread.start()

    def take(self) -> list[tuple[str, Message]]:
        """Everything that came since the last call, in order."""
        taken = []
        while self._queue:
            taken.append(self._queue.popleft())
        return taken

    def close(self) -> None:
        """Stop listening."""
        self._stop.set()
        self._thread.join(timeout=2.0 * QUIET_S + RETRY_S)

    def _listen(self) -> None:
        while not self._stop.is_set():
            try:
                with Client(self._domain) as client:
                    self._follow(client)
            except (NotLiveError, RegistryError, OSError):
                self._stop.wait(RETRY_S)

    def _follow(self, client: Client) -> None:
        """Pass on what is said until nothing came for a while: the launch may be gone."""
        for heard in client.stream(timeout_s=QUIET_S):
            self._queue.append(heard)
            if self._stop.is_set():
                return
