"""The launch's connection to its nodes: readiness from the registry, statuses, service calls, and the first state."""

from __future__ import annotations

import logging
import time
from typing import Any

import zmq

from nodes.framework.messages import Status
from nodes.framework.transport.bus import Subscriber
from nodes.framework.transport.domain import domain_folder
from nodes.framework.transport.registry import NodeEntry
from nodes.framework.transport.registry_link import RegistryLink
from nodes.framework.transport.service import ServiceClient, ServiceError
from nodes.framework.transport.sockets import AddressError

log = logging.getLogger("armswing.node")

NOT_READY = ("starting", "failed")
SUBSCRIBED_DEADLINE_S = 1.0
LISTEN_S = 0.01
SILENT_S = 5  # ten periods of the status
ASK_TIMEOUT_S = 1.0


class Observer:
    """Receives the status of every node of a domain, and the first message of the robot's state.

    folder          folder of the domain
    status          {node: latest Status of the node}
    first_state_at  time.monotonic() at the first state after the simulation was resumed; None before
    """

    def __init__(self, domain: int) -> None:
        self.folder = domain_folder(domain)
        self.status: dict[str, Status] = {}
        self._received_at: dict[str, float] = {}  # {node: time.monotonic() of its latest status}
        self.first_state_at: float | None = None
        self._link = RegistryLink(domain)
        self._subscriber = Subscriber(zmq.Context.instance(), ["status"], "launch")
        self._first: Subscriber | None = None
        self._deaf_to: dict[str, str] = {}  # {node: its address that could not be connected to}

    @property
    def registry_instance(self) -> str:
        """Instance id of the registry whose publication arrived last; "" before the first publication."""
        return self._link.instance

    @property
    def remote_plan(self) -> dict[str, str]:
        """Digests of the launch's plan in the registry's latest publication: {part: digest}."""
        return self._link.plan

    @property
    def is_connected(self) -> bool:
        """Whether a publication of the registry arrived recently."""
        return self._link.is_connected

    @property
    def ending(self) -> bool:
        """Whether the registry has announced the end of the launch."""
        return self._link.ending

    def entry(self, name: str) -> NodeEntry | None:
        """Registry entry of a node; None if the registry has no entry of this name."""
        return next((entry for entry in self._link.nodes if entry.name == name), None)

    def is_ready(self, name: str, pid: int) -> bool:
        """Whether a node's process with the id `pid` has reported ready."""
        entry = self.entry(name)
        return entry is not None and entry.pid == pid and entry.state not in NOT_READY

    @property
    def time(self) -> float:
        """Simulation time of the server's last status, s."""
        status = self.status.get("sim")
        return status.timestamp if status is not None else 0.0

    def state(self, name: str) -> str:
        """State in a node's latest status; "silent for N s" if this status is older than SILENT_S, "" without any.

        N is a multiple of SILENT_S, so that the text seldom changes.
        """
        status = self.status.get(name)
        if status is None:
            return ""
        steps = int((time.monotonic() - self._received_at[name]) / SILENT_S)
        return f"silent for {steps * SILENT_S} s" if steps and status.state in ("ready", "running") else status.state

    def call(
        self, name: str, service: str, timeout_s: float = ASK_TIMEOUT_S, args: dict[str, Any] | None = None
    ) -> Any:
        """Response of a node to a service call.

        Raises ServiceError if the node refuses the call, does not reply in time or is not registered.
        """
        entry = self.entry(name)
        if entry is None or "service" not in entry.endpoints:
            raise ServiceError(f"node {name!r} is not registered")
        try:
            client = ServiceClient(entry.endpoints["service"])
        except AddressError as error:
            raise ServiceError(f"node {name!r} cannot be reached: {error}") from None
        with client:
            return client.call(service, args, timeout_s=timeout_s)

    def expect_state(self, topic: str) -> None:
        """Subscribe to the robot's state until the first state arrives.

        Returns before that state: as soon as the server has received the subscription, or after a time limit.
        """
        entry = self.entry("sim")
        if entry is None or "data" not in entry.endpoints:
            return
        first = Subscriber(zmq.Context.instance(), [topic], "launch")
        if not self._listen(first, entry):
            return
        self._first = first
        deadline = time.monotonic() + SUBSCRIBED_DEADLINE_S
        while not self._first.ready and time.monotonic() < deadline:
            self._first.receive(LISTEN_S)

    def receive(self, wait_s: float) -> None:
        """Receive and process messages, waiting up to `wait_s` for the first one."""
        for entry in self._link.nodes:
            if "data" in entry.endpoints:
                self._listen(self._subscriber, entry)
        if self._first is not None:
            self._await_first_state(self._first)
            wait_s = 0.0
        while (received := self._subscriber.receive(wait_s)) is not None:
            if isinstance(received[2], Status):
                self.status[received[2].node] = received[2]
                self._received_at[received[2].node] = time.monotonic()
            wait_s = 0.0

    def _listen(self, subscriber: Subscriber, entry: NodeEntry) -> bool:
        """Connect to a node. Returns False for an invalid address, which is logged once."""
        endpoint = entry.endpoints["data"]
        try:
            subscriber.connect(entry.name, endpoint, entry.publishes)
        except AddressError as error:
            if self._deaf_to.get(entry.name) != endpoint:
                self._deaf_to[entry.name] = endpoint
                log.warning("launch: cannot subscribe to node %r: %s", entry.name[:80], error)
            return False
        return True

    def _await_first_state(self, subscriber: Subscriber) -> None:
        received = subscriber.receive(LISTEN_S)
        # The latched state at time zero comes from a server that is still paused.
        if received is not None and received[2].timestamp > 0.0:
            self.first_state_at = time.monotonic()
            subscriber.close()
            self._first = None

    def close(self) -> None:
        """Close all subscriptions."""
        self._link.close()
        self._subscriber.close()
        if self._first is not None:
            self._first.close()
