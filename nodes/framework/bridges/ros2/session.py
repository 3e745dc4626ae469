"""A zenoh session that declares endpoints as rmw_zenoh does: publishers, subscriptions and services of ROS 2 nodes."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import count
from typing import Any

import zenoh
import zenoh.ext

from nodes.framework.bridges.ros2 import graph
from nodes.framework.bridges.ros2.graph import Attachment, Endpoint, Qos
from nodes.framework.ros2.cdr import CdrError, decode, encode
from nodes.framework.ros2.interface import RosMessage, RosService, type_name
from nodes.framework.ros2.type_hash import type_hash
from nodes.framework.transport.rejections import RejectionLog

ROUTER = "tcp/localhost:7447"  # address of rmw_zenohd, unless it is configured otherwise
START_ROUTER = "start it with 'ros2 run rmw_zenoh_cpp rmw_zenohd', or be the router with --listen"
RETRY_MS, LONGEST_RETRY_MS = 250, 1000  # pauses between two attempts to connect again
MOST_PER_SECOND = 4000  # most messages of a subscription that are decoded per second
WINDOW_S = 0.05  # in which they are counted
MOST_CALLS = 64  # most requests that wait for an answer
CALL_THREADS = 4
HEARTBEAT_S = 0.5
FIND_S = 2.0
LARGEST = 1 << 24  # bytes of a message; larger ones are dropped before they are in memory
PATIENCE_US = 100_000  # a message that cannot be sent for so long is dropped; 1 ms, zenoh's own, is less than a pause

Receive = Callable[[Any, Attachment], None]
Answer = Callable[[Any], RosMessage]


class RouterAbsent(ConnectionError):  # noqa: N818  it is what happened
    """Raised if no router answers at the address, or if the address cannot be used. The text is one line."""


class RosSession:
    """The bridge's session: it connects to one router, or is the router, and knows all endpoints of the domain.

    address   "tcp/HOST:PORT" of the router
    is_router  whether the session is the router itself, which listens at `address`
    domain    ROS domain
    refusals  log that counts what was refused
    apart     number of messages published while no router was connected
    reconnected  number of times that the connection to the router came back
    declared  {topic or service: one of this session's endpoints of this name}

    Raises RouterAbsent.
    """

    def __init__(self, address: str, is_router: bool, domain: int) -> None:
        self.domain = domain
        self.refusals = RejectionLog("ros2 bridge", "%s: refused %d on %s: %s")
        self.apart = self.reconnected = 0
        self.declared: dict[str, Endpoint] = {}
        self._is_router = is_router
        self._numbers = count()
        self._calls = ThreadPoolExecutor(CALL_THREADS, thread_name_prefix="ros2 services")
        self._waiting = threading.BoundedSemaphore(MOST_CALLS)
        try:
            self._zenoh: Any = zenoh.open(_config(address, is_router))
        except zenoh.ZError as error:
            self._calls.shutdown()
            raise RouterAbsent(_absence(address, is_router)) from error
        self.zid = str(self._zenoh.zid())
        self._links = 1
        self._listener = self._zenoh.info.declare_transport_events_listener(self._on_link, history=False)

    @property
    def is_connected(self) -> bool:
        """Whether the session is connected to the router, or is the router itself."""
        return self._is_router or self._links > 0

    def node(self, name: str, blocks: bool = False) -> RosNode:
        """Declare the node with this full name, such as "/left/controller"."""
        return RosNode(self, name, blocks)

    def watch(self, changed: Callable[[Endpoint, bool], None]) -> None:
        """Call `changed` with every endpoint of other sessions in the domain that is there, appears or leaves.

        The second argument is false for an endpoint that leaves. The call is made on a thread of zenoh.
        """

        def on_token(sample: zenoh.Sample) -> None:
            try:
                endpoint = Endpoint.of_token(str(sample.key_expr))
            except ValueError as error:
                self.refusals.refuse("(graph)", str(error))
                return
            if endpoint.zid != self.zid:
                changed(endpoint, sample.kind == zenoh.SampleKind.PUT)

        self._watcher = self._zenoh.liveliness().declare_subscriber(
            graph.graph_key(self.domain), on_token, history=True
        )

    def endpoints(self) -> list[Endpoint]:
        """The endpoints of other sessions in the domain that answer now."""
        found = []
        for reply in self._zenoh.liveliness().get(graph.graph_key(self.domain), timeout=FIND_S):
            with suppress(ValueError):
                if reply.ok is not None:
                    found.append(Endpoint.of_token(str(reply.ok.key_expr)))
        return [each for each in found if each.zid != self.zid]

    def close(self) -> None:
        """Close the session, with all that it declared."""
        self._zenoh.close()
        self._calls.shutdown(cancel_futures=True)

    def _on_link(self, event: zenoh.TransportEvent) -> None:
        appears = event.kind == zenoh.SampleKind.PUT
        self._links += 1 if appears else -1
        self.reconnected += appears and not self._is_router

    # -- what nodes declare

    def _next_number(self) -> int:
        return next(self._numbers)

    def _serve(self, query: Any, respond: Callable[[Any], None], name: str) -> None:
        """Answer a query on another thread; refuse it if too many are waiting."""
        if not self._waiting.acquire(blocking=False):
            self.refusals.refuse(name, f"{MOST_CALLS} requests are waiting for an answer")
            query.drop()
            return

        def run() -> None:
            try:
                respond(query)
            finally:
                self._waiting.release()
                query.drop()  # ends the query for the client

        try:
            self._calls.submit(run)
        except RuntimeError:  # the session is closing
            self._waiting.release()


class RosNode:
    """A node of the ROS graph.

    blocks  whether its publishers wait while the connection is congested, instead of dropping messages
    """

    def __init__(self, session: RosSession, name: str, blocks: bool = False) -> None:
        self.name, self.blocks = name, blocks
        self._session, self._number = session, session._next_number()
        self._declared: list[Any] = [self._token(Endpoint(**self._self(graph.NODE, self._number)))]
        self._subscriptions: list[RosSubscription] = []

    def publisher(self, topic: str, kind: type[RosMessage], qos: Qos = graph.STREAM) -> RosPublisher:
        """Declare a publisher of a topic."""
        endpoint = self._endpoint(graph.PUBLISHER, topic, kind, qos)
        publisher = RosPublisher(self._session, endpoint, qos, self.blocks)
        self._declared += [self._token(endpoint), publisher]
        return publisher

    def subscribe(self, topic: str, kind: type[RosMessage], receive: Receive, qos: Qos = graph.STREAM) -> Endpoint:
        """Subscribe to a topic.

        receive  function that is called with each message and its attachment, on a thread of this subscription. If it
                 raises ValueError, the message counts as refused
        """
        endpoint = self._endpoint(graph.SUBSCRIPTION, topic, kind, qos)
        self._subscriptions.append(RosSubscription(self._session, endpoint, kind, receive, qos))
        self._declared += [self._token(endpoint)]
        return endpoint

    def serve(self, name: str, kind: type[RosService], answer: Answer) -> None:
        """Declare a service.

        answer  function of the request that returns the response, called on threads of the session
        """
        endpoint = self._endpoint(graph.SERVICE, name, kind, graph.STREAM)
        session = self._session

        def respond(query: Any) -> None:
            try:
                attachment = Attachment.of_bytes(bytes(query.attachment or b""))
                request = decode(kind.Request, bytes(query.payload or b""))
                response = encode(answer(request))
            except (ValueError, CdrError) as error:
                session.refusals.refuse(name, str(error))
                return
            sent = Attachment(attachment.number, time.time_ns(), attachment.gid)
            query.reply(endpoint.key, response, attachment=sent.encoded())

        queryable = session._zenoh.declare_queryable(
            endpoint.key, lambda query: session._serve(query, respond, name), complete=True
        )
        self._declared += [self._token(endpoint), queryable]

    @property
    def lost(self) -> int:
        """Number of messages to the node's subscriptions that were lost, counted from gaps in sequence numbers."""
        return sum(each.lost for each in self._subscriptions)

    def refuse(self, name: str, reason: str) -> None:
        """Count a refused message or request."""
        self._session.refusals.refuse(name, reason)

    def close(self) -> None:
        """Undeclare the node and its endpoints."""
        for each in self._subscriptions:
            each.close()
        for declared in reversed(self._declared):
            declared.undeclare()
        self._declared = []

    def _endpoint(self, kind: str, name: str, interface: type[RosMessage] | type[RosService], qos: Qos) -> Endpoint:
        return Endpoint(
            **self._self(kind, self._session._next_number()),
            name=name,
            type=graph.dds_type(type_name(interface)),
            hash=type_hash(interface),  # type: ignore[arg-type]  # a class is hashable
            qos=str(qos),
        )

    def _self(self, kind: str, number: int) -> dict[str, Any]:
        namespace, _, name = self.name.rpartition("/")
        session = self._session
        return {
            **{"domain": session.domain, "zid": session.zid, "node": self._number, "number": number, "kind": kind},
            **{"namespace": namespace or "/", "node_name": name},
        }

    def _token(self, endpoint: Endpoint) -> Any:
        if endpoint.name:
            self._session.declared[endpoint.name] = endpoint
        return self._session._zenoh.liveliness().declare_token(endpoint.token)


class RosPublisher:
    """Publisher of a topic.

    sent  number of messages published
    """

    def __init__(self, session: RosSession, endpoint: Endpoint, qos: Qos, blocks: bool) -> None:
        self.sent = 0
        self._session, self._gid = session, endpoint.gid
        control = zenoh.CongestionControl.BLOCK if blocks else zenoh.CongestionControl.DROP
        options: dict[str, Any] = {"congestion_control": control, "express": True}
        if qos.transient_local:
            self._publisher: Any = zenoh.ext.declare_advanced_publisher(
                session._zenoh,
                endpoint.key,
                **options,
                cache=zenoh.ext.CacheConfig(qos.depth),
                sample_miss_detection=zenoh.ext.MissDetectionConfig(heartbeat=None, sporadic_heartbeat=HEARTBEAT_S),
                publisher_detection=True,
            )
        else:
            self._publisher = session._zenoh.declare_publisher(endpoint.key, **options)

    def publish(self, message: RosMessage) -> None:
        """Publish a message."""
        self.sent += 1
        attachment = Attachment(self.sent, time.time_ns(), self._gid)
        self._publisher.put(encode(message), attachment=attachment.encoded())
        if not self._session.is_connected:
            self._session.apart += 1

    def undeclare(self) -> None:
        """Undeclare the publisher."""
        self._publisher.undeclare()


class RosSubscription:
    """Subscription to a topic, with a thread of its own.

    Messages wait in a ring of `qos.depth` places outside of Python. A publisher that floods thus replaces its own
    messages, which then count as lost, and takes at most MOST_PER_SECOND of them to this process.

    lost  number of messages lost
    """

    def __init__(
        self, session: RosSession, endpoint: Endpoint, kind: type[RosMessage], receive: Receive, qos: Qos
    ) -> None:
        self.lost = 0
        self._latest: dict[bytes, int] = {}
        self._session, self._topic, self._kind, self._receive = session, endpoint.name, kind, receive
        self._subscriber: Any = session._zenoh.declare_subscriber(endpoint.key, zenoh.handlers.RingChannel(qos.depth))
        self._received = self._subscriber.handler
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"ros2 {endpoint.name}", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Unsubscribe."""
        self._closing.set()
        self._subscriber.undeclare()
        self._thread.join(timeout=1.0)

    def _run(self) -> None:
        for sample in self._paced():
            try:
                attachment = Attachment.of_bytes(bytes(sample.attachment or b""))
                self._count(attachment)
                self._receive(decode(self._kind, bytes(sample.payload)), attachment)
            except (ValueError, CdrError) as error:
                self._session.refusals.refuse(self._topic, str(error))

    def _paced(self) -> Iterator[zenoh.Sample]:
        """Yield the received samples, at most MOST_PER_SECOND."""
        most = round(MOST_PER_SECOND * WINDOW_S)
        began, taken = time.monotonic(), 0
        while not self._closing.is_set():
            try:
                sample = self._received.recv()
            except zenoh.ZError:  # undeclared
                return
            now = time.monotonic()
            if now - began > WINDOW_S:
                began, taken = now, 0
            elif taken >= most:
                self._closing.wait(WINDOW_S - (now - began))
                began, taken = time.monotonic(), 0
            taken += 1
            yield sample

    def _count(self, attachment: Attachment) -> None:
        latest = self._latest.pop(attachment.gid, None)
        if latest is not None and attachment.number > latest:
            self.lost += attachment.number - latest - 1
        if len(self._latest) >= MOST_CALLS:  # publishers that left
            self._latest.pop(next(iter(self._latest)))
        self._latest[attachment.gid] = attachment.number


def _config(address: str, is_router: bool) -> zenoh.Config:
    """Configuration of a session with the configured connection only: no scouting, no shared memory."""
    patience = {"drop": {"wait_before_drop": PATIENCE_US}}
    queue = {"queue": {"congestion_control": patience}}
    retry = {"period_init_ms": RETRY_MS, "period_max_ms": LONGEST_RETRY_MS, "period_increase_factor": 2}
    nobody: dict[str, list[str]] = {"router": [], "peer": [], "client": []}
    return zenoh.Config.from_json5(
        json.dumps(
            {
                "mode": "router" if is_router else "client",
                "connect": {"endpoints": [] if is_router else [address], "timeout_ms": 0, "retry": retry},
                "listen": {"endpoints": [address] if is_router else []},
                "scouting": {
                    "multicast": {"enabled": False, "listen": False},
                    "gossip": {"enabled": is_router, "autoconnect": nobody},  # peers of a router find each other by it
                },
                "timestamping": {"enabled": True},  # without it, no message is kept for later subscribers
                "transport": {
                    "shared_memory": {"enabled": False},
                    "link": {"tx": queue, "rx": {"max_message_size": LARGEST}},
                },
                "adminspace": {"enabled": False},
            }
        )
    )


def _absence(address: str, is_router: bool) -> str:
    if is_router:
        return f"--listen: cannot listen at {address}: another router may run there; leave --listen out to use it"
    host = address.removeprefix("tcp/").rpartition(":")[0].strip("[]")
    try:
        socket.getaddrinfo(host, None)
    except OSError:
        return f"no computer has the name or address {host!r}, which is that of the router of ROS 2"
    return f"no router of ROS 2 answers at {address}; {START_ROUTER}"
