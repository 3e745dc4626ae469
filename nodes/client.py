"""A live domain from outside: who is there, what they say, what they can be asked. Recordings too.

    with Client() as client:
        print(client.sim_status()["time"])
        for topic, state in client.stream("rotary_pendulum/state", timeout_s=2.0):
            print(state.position)

Used by the viewer, the command line and scripts; it is no node and enters no registry.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import zmq

from nodes.messages import Message
from nodes.messages.topics import lookup
from nodes.transport.bus import Subscriber
from nodes.transport.domain import default_domain
from nodes.transport.host_config import calls_endpoint
from nodes.transport.registry import NodeEntry, RegistryClient
from nodes.transport.registry_link import RegistryLink
from nodes.transport.service import ServiceClient
from nodes.transport.sockets import AddressError

if TYPE_CHECKING:
    from nodes.recording.reader import Recording, read_recording

__all__ = [
    "Client",
    "NodeEntry",
    "NotLiveError",
    "Recording",
    "TopicEntry",
    "UnknownNameError",
    "lost_messages",
    "read_recording",
]

POLL_S = 0.1
CALL_TIMEOUT_S = 5.0


class NotLiveError(ConnectionError):
    """No launch is live in the domain; the only argument is one line for a person."""


class UnknownNameError(LookupError):
    """No such node or topic; the only argument is one line that names those there are."""


class TopicEntry(msgspec.Struct, kw_only=True):
    """A topic: its message type, and the names of the nodes that speak and listen on it."""

    name: str
    message: str
    publishes: list[str] = []
    subscribes: list[str] = []


class Client:
    """A connection to one domain; None is ARMSWING_DOMAIN, or 0. Safe to share between threads.

    NotLiveError when no launch is live there.
    """

    def __init__(self, domain: int | None = None) -> None:
        self.domain = default_domain() if domain is None else domain
        self._services: dict[str, ServiceClient] = {}
        if not _is_open(self.domain):
            raise NotLiveError(
                f"no launch is live in domain {self.domain}; start one with 'armswing launch FILE'"
                " or choose another with --domain"
            )
        self._registry = RegistryClient(self.domain)
        if self._registry.site.calls:
            self._registry.timeout_s = CALL_TIMEOUT_S  # on another computer: the link may lose the first packets

    @property
    def is_live(self) -> bool:
        """Whether the domain is still open; where its launch was killed, this is found out late."""
        return _is_open(self.domain)

    def nodes(self) -> list[NodeEntry]:
        """All nodes there are now, the simulation server first."""
        return sorted(self._registry.nodes(), key=lambda entry: (entry.name != "sim", entry.name))

    def node(self, name: str) -> NodeEntry:
        """The entry of one node; UnknownNameError names those there are."""
        entries = self.nodes()
        for entry in entries:
            if entry.name == name:
                return entry
        there = ", ".join(entry.name for entry in entries) or "none"
        raise UnknownNameError(f"no node {name!r} in domain {self.domain}; nodes are {there}")

    def topics(self) -> list[TopicEntry]:
        """All topics somebody speaks or listens on, by name. A node that listens to "*" hears all."""
        entries = self.nodes()
        names = {name for entry in entries for name in (*entry.publishes, *entry.subscribes)} - {"*"}
        topics = []
        for name in sorted(names):
            row = lookup(name)
            topics.append(
                TopicEntry(
                    name=name,
                    message=row.message.__name__ if row is not None else "unknown",
                    publishes=[entry.name for entry in entries if name in entry.publishes],
                    subscribes=[entry.name for entry in entries if not {name, "*"}.isdisjoint(entry.subscribes)],
                )
            )
        return topics

    def call(self, node: str, service: str, *, timeout_s: float = CALL_TIMEOUT_S, **args: Any) -> Any:
        """Ask a node; plain data. ServiceError carries its refusal, ServiceTimeout says it kept silent."""
        endpoint = self.node(node).endpoints.get("service")
        if endpoint is None:
            raise UnknownNameError(f"node {node!r} serves nothing")
        with ServiceClient(endpoint) as client:
            return client.call(service, args, timeout_s)

    def sim_status(self) -> dict[str, Any]:
        """How the simulation runs: time, speed, real_time_factor, overruns, peak_phi, milestones, ..."""
        status: dict[str, Any] = self.call("sim", "status")
        return status

    def stream(self, *topics: str, timeout_s: float | None = None) -> Iterator[tuple[str, Message]]:
        """(topic, message) of these topics as they come, of all topics when none is named.

        Ends when nothing came for timeout_s (None: never). Publishers that appear later are heard too. A
        caller slower than the stream loses messages, as any listener does.
        """
        subscriber = Subscriber(zmq.Context.instance(), topics or None, "client")
        link = RegistryLink(self.domain)
        quiet_since = time.monotonic()
        connected: list[NodeEntry] = []
        try:
            while timeout_s is None or time.monotonic() - quiet_since < timeout_s:
                if link.nodes != connected:
                    connected = link.nodes
                    _follow(subscriber, connected)
                heard = subscriber.receive(POLL_S if connected else POLL_S / 10)
                if heard is not None:
                    yield heard[1], heard[2]
                    quiet_since = time.monotonic()
        finally:
            link.close()
            subscriber.close()

    def close(self) -> None:
        """Let go of the domain."""
        self._registry.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _follow(subscriber: Subscriber, entries: list[NodeEntry]) -> None:
    """Listen to exactly the publishers there are, as far as they say anything wanted.

    Any node may say an event, of a parameter that was set: no table names it.
    """
    topics = subscriber.topics
    wants_all = topics is None or any(topic.rpartition("/")[2] == "event" for topic in topics)
    speaking = {
        entry.name: entry.endpoints["data"]
        for entry in entries
        if "data" in entry.endpoints
        and (wants_all or topics is None or not topics.keys().isdisjoint([*entry.publishes, "status"]))
    }
    for name in [name for name in subscriber.feeds if name not in speaking]:
        subscriber.disconnect(name)
    for name, endpoint in speaking.items():
        try:
            subscriber.connect(name, endpoint)
        except AddressError as error:
            subscriber.refusals.refuse(name, str(error))


def _is_open(domain: int) -> bool:
    endpoint = calls_endpoint(domain)  # one on another host is known only while the launch of this one lives
    return endpoint.startswith("tcp://") or Path(endpoint.removeprefix("ipc://")).exists()


def lost_messages(status: Mapping[str, Any]) -> int:
    """Messages a node says it lost, from its `status`."""
    return int(status.get("counters", status).get("lost", 0))


def __getattr__(name: str) -> Any:
    # Recordings bring numpy and mcap, which a script that only asks a service does not need.
    if name in ("read_recording", "Recording"):
        from nodes.recording import reader as recording

        return getattr(recording, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
