"""A node's permanent connection to the registry: keeps the node registered, even if the registry restarts."""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable

import msgspec
import zmq

from nodes.framework.transport.registry import (
    NEWS_TOPIC,
    News,
    NodeEntry,
    RegistryAbsent,
    RegistryClient,
    RegistryError,
    is_alive,
    news_endpoint,
)
from nodes.framework.transport.rejections import RejectionLog
from nodes.framework.transport.service import Context
from nodes.framework.transport.sockets import connect, make_socket

log = logging.getLogger("armswing.wire")

RENEW_S = 1.0
SILENCE_S = 2.0
GRACE_S = 2.0  # after a registry restart: nodes that are not listed yet still count as running
POLL_MS = 100

_news_decoder = msgspec.msgpack.Decoder(News)

OnChange = Callable[[list[NodeEntry]], None]


class RegistryLink:
    """Keeps a node registered and receives the registry's publications, on a thread of its own.

    on_change             function called with the entries of all nodes, on the thread of this object, when a node
                          appears, changes or leaves
    counted               function that returns {kind: number of connections rejected by this node's sockets}
    instance              id of the registry process in its latest publication; "" before the first publication
    ending                whether the registry has announced the end of the launch
    rejected_connections  {kind: number of rejected connections} in the registry's latest publication
    refused               number of refused registry calls in the registry's latest publication

    While the registry is absent, the list of nodes stays unchanged; when the registry is back, the node registers
    again. Only the methods `keep` and `close` wait for the registry.
    """

    def __init__(
        self, domain: int, on_change: OnChange | None = None, counted: Callable[[], dict[str, int]] = dict
    ) -> None:
        self.domain = domain
        self.rejected_connections: dict[str, int] = {}
        self.refused = 0
        self._counted = counted
        self.nodes: list[NodeEntry] = []
        self._on_change = on_change
        self._entry: NodeEntry | None = None
        self._reported: deque[Callable[[], None]] = deque()
        self._stop = threading.Event()
        self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._client = RegistryClient(domain, timeout_s=1.0)
        self._host = self._client.host_config.host
        self._is_remote = bool(self._client.host_config.calls)
        self.refusals = RejectionLog("registry link")
        self.ending = False
        self.instance = ""
        self.plan: dict[str, str] = {}
        self._grace_until = 0.0
        self._received_at = time.monotonic()
        self._thread = threading.Thread(target=self._listen, name="registry link", daemon=True)
        self._thread.start()

    def keep(self, entry: NodeEntry) -> None:
        """Register the entry and keep it registered. Raises RegistryError only if the registry refuses the entry."""
        try:
            if self._is_remote:
                self._client.forget_the_dead(entry.name)
            self._client.register(entry)
        except RegistryAbsent as error:
            log.warning("node %s is not registered: %s; it registers when the registry replies", entry.name, error)
        self._entry = entry

    def set_state(self, state: str) -> None:
        """Report a new node state to the registry, without waiting for it."""
        entry = self._entry
        if entry is not None and entry.state != state:
            self._entry = msgspec.structs.replace(entry, state=state)
            os.eventfd_write(self._wake, 1)

    def announce(self, topic: str) -> None:
        """Report to the registry that the node publishes one more topic, without waiting for it."""
        entry = self._entry
        if entry is not None and topic not in entry.publishes:
            self._entry = msgspec.structs.replace(entry, publishes=[*entry.publishes, topic])
            os.eventfd_write(self._wake, 1)

    def grant(self, topic: str, node: str, done: Callable[[], None]) -> None:
        """Report to the registry that `node` may publish commands on `topic`, without waiting for the registry.

        done  function that is called on the thread of this object when the report has been made
        """
        entry = self._entry
        if entry is not None:
            granted = {*entry.grants.get(topic, ()), node}
            self._entry = msgspec.structs.replace(entry, grants={**entry.grants, topic: sorted(granted)})
            self._reported.append(done)
            os.eventfd_write(self._wake, 1)

    def revoke(self, node: str) -> None:
        """Report to the registry that `node` may no longer publish commands, without waiting for the registry."""
        entry = self._entry
        if entry is not None and any(node in nodes for nodes in entry.grants.values()):
            grants = {topic: [each for each in nodes if each != node] for topic, nodes in entry.grants.items()}
            self._entry = msgspec.structs.replace(entry, grants=grants)
            os.eventfd_write(self._wake, 1)

    def _listen(self) -> None:
        context: Context = zmq.Context.instance()
        socket = make_socket(context, zmq.SUB)
        socket.setsockopt(zmq.SUBSCRIBE, NEWS_TOPIC)
        connect(socket, news_endpoint(self.domain))
        poller = zmq.Poller()
        poller.register(socket, zmq.POLLIN)
        poller.register(self._wake, zmq.POLLIN)
        renewed = time.monotonic()
        while not self._stop.is_set():
            awake = dict(poller.poll(POLL_MS))
            if socket in awake:
                self._receive(socket.recv_multipart())
            if self._wake in awake:
                os.eventfd_read(self._wake)
                self._renew()
                while self._reported:
                    self._reported.popleft()()
            now = time.monotonic()
            if now - renewed > RENEW_S and self.is_connected:
                renewed = now
                self._renew()
        socket.close()

    @property
    def is_connected(self) -> bool:
        """Whether a publication of the registry arrived within the last SILENCE_S seconds."""
        return time.monotonic() - self._received_at < SILENCE_S

    def _receive(self, frames: list[bytes]) -> None:
        try:
            if len(frames) != 2 or frames[0] != NEWS_TOPIC:
                raise msgspec.ValidationError(
                    f"it has {len(frames)} frames and the topic {frames[0][:80]!r}; it must have 2 frames and the "
                    f"topic {NEWS_TOPIC!r}"
                )
            news = _news_decoder.decode(frames[1])
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            self.refusals.refuse("(registry)", f"invalid publication of the registry: {error}")
            return
        self._received_at = time.monotonic()
        if news.instance != self.instance:
            if self.instance:
                self._grace_until = self._received_at + GRACE_S
            self.plan, self.instance = news.plan, news.instance
        self.ending = news.ending
        self.rejected_connections, self.refused = news.rejected_connections, news.refused
        entry = self._entry
        if entry is not None and not any(e.name == entry.name and e.pid == entry.pid for e in news.nodes):
            self._renew()
        nodes = [node.reached_from(self._host) for node in news.nodes]
        if self._received_at < self._grace_until:
            listed = {node.name for node in nodes}
            nodes = [*nodes, *(old for old in self.nodes if old.name not in listed and self._lives(old))]
        if nodes != self.nodes:
            self.nodes = nodes
            if self._on_change is not None:
                self._on_change(nodes)

    @property
    def dead(self) -> set[str]:
        """Names of nodes on this host that are registered although their process has ended."""
        return {entry.name for entry in self.nodes if not self._lives(entry)}

    def _lives(self, entry: NodeEntry) -> bool:
        return entry.host != self._host or is_alive(entry.pid)

    def _renew(self) -> None:
        entry = self._entry
        if entry is None or self._stop.is_set():
            return
        try:
            self._client.register(entry, self._counted())
        except RegistryError as error:
            log.warning("node %s could not renew its registration: %s; the node tries again", entry.name, error)

    def close(self) -> None:
        """Unregister the node and stop the thread."""
        self._stop.set()
        os.eventfd_write(self._wake, 1)
        self._thread.join()
        if self._entry is not None and self.is_connected:
            with contextlib.suppress(RegistryError):
                self._client.unregister(self._entry.name)
        self._client.close()
        os.close(self._wake)
