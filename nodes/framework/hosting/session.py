"""Session of a process in its domain: sockets, registry entry, status publication and stop request."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import zmq

from nodes.framework.messages import Status
from nodes.framework.transport.bus import LAST_WORDS_S, Context, Publisher
from nodes.framework.transport.domain import ipc_endpoint
from nodes.framework.transport.host_config import read_host_config
from nodes.framework.transport.registry import NodeEntry
from nodes.framework.transport.registry_link import OnChange, RegistryLink
from nodes.framework.transport.rejections import RejectionLog
from nodes.framework.transport.security import authenticator
from nodes.framework.transport.security.permissions import shutdown_refusal
from nodes.framework.transport.service import ServiceServer

STATUS_PERIOD_S = 0.5
STATUS_TOPIC = "status"


class NodeSession:
    """Owns a node's sockets, registry entry and status publication.

    Sockets are bound to ipc, and in a launch with several hosts also to tcp with CURVE keys. Endpoints contain the
    process id, so that a restarted node counts as a new publisher. Call `open` once the node can receive requests.

    registry         endpoint of the registry on another computer; "" if the registry is on this computer
    remote_endpoint  endpoint for other hosts, to which the sockets are also bound; "" in a launch with one host
    now_ns           function that returns the reading of the node's clock, ns since the epoch
    stop             event that is set when the node has to stop
    status           the node's status message
    status_due       time (s, by time.monotonic) at which the status is published again, even without a change
    """

    def __init__(
        self,
        domain: int,
        name: str,
        context: Context,
        wall_clock: bool = True,
        now_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        self.domain = domain
        self.name = name
        self.context = context
        self.stop = threading.Event()
        self.status = Status(node=name, state="starting")
        config = read_host_config(domain)
        self.remote_endpoint, self.registry = config.remote_endpoint, config.calls
        self.publisher = Publisher(context, name, self.endpoint("data"), wall_clock, now_ns, self.remote_endpoint)
        self.service = ServiceServer(context, name, self.endpoint("service"), now_ns, self.remote_endpoint)
        self.service.guards["shutdown"] = partial(shutdown_refusal, registry=config.calls)
        self._link: RegistryLink | None = None
        self._published: tuple[str, ...] | None = None
        self.status_due = 0.0

    def endpoint(self, kind: str) -> str:
        """ipc endpoint of this process's socket for one purpose: "data", "service" or "step"."""
        return ipc_endpoint(self.domain, f"{self.name.replace('/', '.')}-{os.getpid()}.{kind}")

    def open(
        self,
        on_change: OnChange,
        publishes: Iterable[str],
        subscribes: Iterable[str],
        lossless: bool = False,
        **more: tuple[str, str],
    ) -> None:
        """Register the node. Raises RegistryError if another node has its name.

        on_change   function that is called with all nodes when the registry's list changes
        publishes   full names of the topics that the node publishes
        subscribes  full names of the topics that the node subscribes to
        lossless    whether the simulation in mode fast waits for the node, so that the node receives every message
        more        {use: (endpoint, endpoint for other hosts)} of further sockets
        """
        ends = {
            "data": (self.publisher.endpoint, self.publisher.remote_endpoint),
            "service": (self.service.endpoint, self.service.remote_endpoint),
            **more,
        }
        self._link = RegistryLink(self.domain, on_change, self._rejected_connections)
        self._link.keep(
            NodeEntry(
                name=self.name,
                pid=os.getpid(),
                state=self.status.state,
                endpoints={use: near for use, (near, _) in ends.items()},
                remote_endpoints={use: remote for use, (_, remote) in ends.items() if remote},
                publishes=[*publishes, STATUS_TOPIC],
                subscribes=list(subscribes),
                lossless=lossless,
            )
        )

    @property
    def dead(self) -> set[str]:
        """Names of the registered nodes on this host whose processes have ended."""
        return set() if self._link is None else self._link.dead

    @property
    def is_connected(self) -> bool:
        """Whether a publication of the registry arrived recently."""
        return self._link is None or self._link.is_connected

    @property
    def refusals(self) -> list[RejectionLog]:
        """Logs of the messages, requests and subscriptions that this node's own sockets refused."""
        link = [] if self._link is None else [self._link.refusals]
        remote = self.publisher.remote
        streams = [] if remote is None else [remote.refusals, remote.refused]
        return [self.publisher.refusals, self.service.refusals, self.service.refused, *streams, *link]

    @property
    def counters(self) -> dict[str, int]:
        """Numbers of connections rejected at this node's sockets for other hosts, in total and by kind.

        The result is {} if the node has no sockets for other hosts.
        """
        return _rejection_counters(self._rejected_connections())

    @property
    def launch_counters(self) -> dict[str, Any]:
        """Numbers of connections and calls rejected in the whole launch, as the registry counts them.

        The entry "rejected_here" has the numbers of connections rejected by this node's sockets alone. The result is {}
        if this node has no socket for other hosts, or no connection to the registry.
        """
        own = self._rejected_connections()
        if not own or self._link is None:
            return {}
        everywhere = {kind: max(count, self._link.rejected_connections.get(kind, 0)) for kind, count in own.items()}
        return {**_rejection_counters(everywhere), "rejected_here": own, "calls_refused": self._link.refused}

    def _rejected_connections(self) -> dict[str, int]:
        return authenticator.rejected_by_kind(self.context) if self.remote_endpoint else {}

    def set_state(self, state: str, detail: str = "") -> None:
        """Set the node's state, and a line with details about the state.

        The node's next published status contains both. The registry receives only the state.
        """
        self.status.state = state
        self.status.detail = detail
        if self._link is not None:
            self._link.set_state(state)

    def announce(self, topic: str) -> None:
        """Tell the registry that the node also publishes the topic `topic`."""
        if self._link is not None:
            self._link.announce(topic)

    def grant(self, topic: str, node: str, done: Callable[[], None]) -> None:
        """Tell the registry that a node outside of the plan may publish commands on `topic`.

        done  function that is called, on another thread, when the registry knows it
        """
        if self._link is not None:
            self._link.grant(topic, node, done)

    def revoke(self, node: str) -> None:
        """Tell the registry that a node outside of the plan may no longer publish commands."""
        if self._link is not None:
            self._link.revoke(node)

    @property
    def status_is_due(self) -> bool:
        """Whether the status changed, or half a second has passed since its last publication."""
        return self._shown != self._published or time.monotonic() >= self.status_due

    @property
    def _shown(self) -> tuple[str, ...]:
        """Parts of the status whose change is published at once."""
        return self.status.state, self.status.detail, self.status.emergency

    def publish_status(self, timestamp: float) -> None:
        """Publish the node's status.

        timestamp  simulation time (s)
        """
        self._published = self._shown
        self.status_due = time.monotonic() + STATUS_PERIOD_S
        self.status.timestamp = timestamp
        self.publisher.publish(STATUS_TOPIC, self.status)

    @property
    def status_wait_s(self) -> float:
        """Time until the next status is due (s)."""
        return max(self.status_due - time.monotonic(), 0.0)

    def close(self) -> None:
        """Close the sockets first and then remove the registry entry.

        In this order, subscribers still receive the last messages.
        """
        self.publisher.close()
        self.service.close()
        if self._link is not None:
            self._link.close()


def _rejection_counters(kinds: dict[str, int]) -> dict[str, int]:
    """Counters of rejected connections, in total and by kind; {} if `kinds` is empty."""
    return (
        {
            "rejected_connections": sum(kinds.values()),
            **{f"rejected_connections_{kind}": n for kind, n in kinds.items()},
        }
        if kinds
        else {}
    )


def finish(context: Context) -> None:
    """Terminate the ZeroMQ context of a process that exits, once its last messages are sent or LAST_WORDS_S have
    passed.

    Without this call, messages that the kernel has not accepted yet would be lost on exit.
    """
    ending = threading.Thread(target=context.term, name="last words", daemon=True)
    ending.start()
    ending.join(LAST_WORDS_S)


def poller_of(*sources: object) -> zmq.Poller:
    """A zmq.Poller that polls these sockets and descriptors for reading."""
    poller = zmq.Poller()
    for source in sources:
        poller.register(source, zmq.POLLIN)
    return poller
