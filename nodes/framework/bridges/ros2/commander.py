"""Publishes the commands of ROS 2 in a launch, as a node of its own: owner's rule and guard apply as to any node."""

from __future__ import annotations

import os
import queue
import threading
import time
from contextlib import suppress

import zmq

from nodes.framework.client import Client
from nodes.framework.messages import Message
from nodes.framework.messages.codec import WireError
from nodes.framework.transport.bus import Publisher
from nodes.framework.transport.domain import ipc_endpoint
from nodes.framework.transport.host_config import read_host_config
from nodes.framework.transport.registry import NodeEntry, RegistryError
from nodes.framework.transport.registry_link import RegistryLink
from nodes.framework.transport.rejections import RejectionLog

NODE = "ros2"  # name of the node in the launch
MOST_WAITING = 256
SERVE_S = 0.05
AGAIN_S = 1.0  # after a refusal, further commands on the topic are refused for this time without a new request


class Commander:
    """A node outside of the plan that publishes what `put` receives. It registers when the first message arrives.

    A topic `ROBOT/command` needs a grant of the simulation, which the registry requests. If a guard subscribes to
    `ROBOT/raw_command`, the commands go to the guard.

    refusals  log of the messages that were not published
    sent      number of messages published
    """

    def __init__(self, client: Client, refusals: RejectionLog) -> None:
        self.sent = 0
        self._client, self._refusals = client, refusals
        self._queue: queue.Queue[tuple[str, Message]] = queue.Queue(MOST_WAITING)
        self._publisher: Publisher | None = None
        self._link: RegistryLink | None = None
        self._topics: list[str] = []
        self._refused: dict[str, tuple[float, str]] = {}  # {topic: time, reason} of refused registrations
        self._subscribed: set[str] = set()
        self._listed_at = -AGAIN_S
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="ros2 commands", daemon=True)
        self._thread.start()

    def put(self, topic: str, message: Message) -> None:
        """Publish a message soon, on another thread. Raises ValueError if too many messages wait."""
        try:
            self._queue.put_nowait((topic, message))
        except queue.Full:
            raise ValueError(f"{MOST_WAITING} commands are waiting to be published") from None

    def routed(self, topic: str) -> str:
        """The topic on which commands for `topic` are published: that of the guard, if a node subscribes to it.

        Raises ValueError with a one-line message if no node subscribes to it.
        """
        raw = topic.removesuffix("command") + "raw_command"
        found = raw if topic.endswith("/command") and self.has_subscriber(raw) else topic
        if not self.has_subscriber(found):
            raise ValueError(f"no node of the launch subscribes to {topic!r}")
        return found

    def has_subscriber(self, topic: str) -> bool:
        """Whether a node of the launch subscribes to a topic. The list of nodes may be AGAIN_S seconds old."""
        now = time.monotonic()
        if now - self._listed_at > AGAIN_S:
            self._listed_at = now
            with suppress(RegistryError):
                self._subscribed = {name for entry in self._client.nodes() for name in entry.subscribes}
        return topic in self._subscribed

    def close(self) -> None:
        """Leave the launch."""
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                with suppress(queue.Empty):
                    topic, message = self._queue.get(timeout=SERVE_S)
                    self._publish(topic, message)
                if self._publisher is not None and (self._queue.empty() or self.sent % MOST_WAITING == 0):
                    self._publisher.serve_subscriptions()
        finally:
            if self._link is not None:
                self._link.close()
            if self._publisher is not None:
                self._publisher.close()

    def _publish(self, topic: str, message: Message) -> None:
        if topic not in self._topics and (reason := self._register(topic)):
            self._refusals.refuse(topic, reason)
            return
        assert self._publisher is not None
        try:
            self._publisher.publish(topic, message)
            self.sent += 1
        except WireError as error:
            self._refusals.refuse(topic, error.reason)

    def _register(self, topic: str) -> str:
        """Register the node as a publisher of one more topic. Returns the reason of a refusal, or ""."""
        at, reason = self._refused.get(topic, (0.0, ""))
        if time.monotonic() - at < AGAIN_S:
            return reason
        domain = self._client.domain
        if self._publisher is None or self._link is None:
            remote = read_host_config(domain).remote_endpoint
            self._publisher = Publisher(
                zmq.Context.instance(), NODE, ipc_endpoint(domain, f"{NODE}.data"), remote_endpoint=remote
            )
            self._link = RegistryLink(domain)
        publisher = self._publisher
        entry = NodeEntry(
            name=NODE,
            pid=os.getpid(),
            state="ready",
            endpoints={"data": publisher.endpoint},
            remote_endpoints={"data": publisher.remote_endpoint} if publisher.remote_endpoint else {},
            publishes=[*self._topics, topic],
        )
        try:
            self._link.keep(entry)
        except RegistryError as error:
            self._refused[topic] = time.monotonic(), str(error)
            return str(error)
        self._topics.append(topic)
        deadline = time.monotonic() + AGAIN_S  # once a subscriber has connected, no message is lost
        while topic not in publisher.subscribed and time.monotonic() < deadline:
            publisher.socket.poll(round(1e3 * SERVE_S))
            publisher.serve_subscriptions()
        return ""
