"""Access to a running launch from outside: its nodes, topics, services and message streams. Also reads recordings.

    with Client() as client:
        print(client.sim_status()["time"])
        for topic, state in client.stream("rotary_pendulum/state", timeout_s=2.0):
            print(state.position)

Used by the viewer, the command line and scripts. A client is no node and does not appear in the registry.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import zmq

from nodes.framework.messages import Message
from nodes.framework.messages.protocol import NOTHING_STOPPED
from nodes.framework.messages.topics import lookup
from nodes.framework.transport.bus import BATCH, Subscriber
from nodes.framework.transport.domain import default_domain
from nodes.framework.transport.host_config import calls_endpoint
from nodes.framework.transport.registry import NodeEntry, RegistryClient
from nodes.framework.transport.registry_link import RegistryLink
from nodes.framework.transport.service import ServiceClient, ServiceError, ServiceTimeout
from nodes.framework.transport.sockets import AddressError

if TYPE_CHECKING:
    from nodes.framework.recording.reader import Recording, read_recording

__all__ = [
    "Client",
    "GuardState",
    "NodeEntry",
    "NotLiveError",
    "Recording",
    "Stopped",
    "TopicEntry",
    "UnknownNameError",
    "lost_messages",
    "read_recording",
]

POLL_S = 0.1
CALL_TIMEOUT_S = 5.0
ESTOP_S = 2.0  # longest wait for a node's answer to an emergency stop
GUARD_S = 1.0  # longest wait for the state of a guard
RELEASE_S = 15.0  # longest wait for a node's answer to a release, which has time
ESTOP_AGAIN_S = 0.25  # time after which a node that has not answered is called again
RELEASE_AGAIN_S = 4.0  # the same, at most, for a release: the time is doubled with each further call


class NotLiveError(ConnectionError):
    """Raised if no launch is running in the domain. The only argument is a one-line message for the user."""

    exit_code = 1


class UnknownNameError(LookupError):
    """Raised for an unknown node or topic. The only argument is a one-line message for the user."""

    exit_code = 2


class TopicEntry(msgspec.Struct, kw_only=True):
    """A topic: its name, its message type, and the names of the nodes that publish it and subscribe to it."""

    name: str
    message: str
    publishes: list[str] = []
    subscribes: list[str] = []


class Stopped(msgspec.Struct, frozen=True):
    """A node's answer to an emergency stop.

    node   name of the node
    how    the way in which the node's robot stops, such as "controlled stop"
    ms     time from the call to the answer (ms); a node answers after it has commanded its actuators to a safe state
    error  one-line reason why the node did not stop; "" if it stopped
    """

    node: str
    how: str = ""
    ms: float = 0.0
    error: str = ""


class GuardState(msgspec.Struct, frozen=True):
    """How a node has stopped its robot, and which commands its guard has changed.

    A driver without a guard has a GuardState from its first emergency stop on.

    stopped  one line on why the robot is stopped now; "" if it is not stopped
    stops    number of stops so far
    limited  one line about the latest command that the guard changed or did not pass on; "" if there was none
    clamps   number of values that the guard changed so far
    error    one line on why the node does not answer; "" if it answers
    since    simulation time at which the latest stop began, s; None without a stop, and where it is not known
    """

    stopped: str = ""
    stops: int = 0
    limited: str = ""
    clamps: int = 0
    error: str = ""
    since: float | None = None

    def text(self) -> str:
        """The state as one line, such as "stopped since t = 1.500 s: no command to elbow for 100 ms (stop 2); 0 values
        clamped".
        """
        if self.error:
            return self.error
        since = "" if self.since is None else f" since t = {self.since:.3f} s"
        stopped = f"not stopped, {self.stops} stops"
        if self.stopped:
            stopped = f"stopped{since}: {self.stopped} (stop {self.stops})"
        return f"{stopped}; {self.clamps} values clamped" + (f"; the latest: {self.limited}" if self.limited else "")


def guard_state(status: Mapping[str, Any]) -> GuardState | None:
    """GuardState of a node, from its `status`; None for a node that has no guard and was never stopped."""
    counters, stops = status.get("counters", {}), status.get("guard") or {}
    emergency = status.get("emergency", "")  # of a program in C
    if "clamps" not in counters and not stops and not emergency:
        return None
    return GuardState(
        stopped=stops.get("reason", emergency),
        stops=stops.get("count", counters.get("emergency_stops", 0)),
        limited=status.get("limited", ""),
        clamps=counters.get("clamps", 0),
        since=stops.get("latest_time"),
    )


class Client:
    """Connection to the launch of one domain. Launches in different domains do not affect each other.

    Threads may share a client.

    domain  number of the domain; None for the value of ARMSWING_DOMAIN, or 0 if that variable is not set

    Raises NotLiveError if no launch is running in the domain.
    """

    def __init__(self, domain: int | None = None) -> None:
        self.domain = default_domain() if domain is None else domain
        self._services: dict[str, ServiceClient] = {}
        self._subscribers: list[Subscriber] = []
        if not _is_open(self.domain):
            raise NotLiveError(
                f"no launch is live in domain {self.domain}; start one with 'armswing launch FILE'"
                " or choose another domain with --domain"
            )
        self._registry = RegistryClient(self.domain)
        if self._registry.host_config.calls:
            self._registry.timeout_s = CALL_TIMEOUT_S  # registry on another computer: first packets may be lost

    @property
    def is_live(self) -> bool:
        """Whether a launch runs in the domain. This may stay true for some time after a launch was killed."""
        return _is_open(self.domain)

    def nodes(self) -> list[NodeEntry]:
        """Registry entries of all nodes: the simulation server first, the others by name.

        If a node's process hangs, for example because a signal or a debugger stopped it, `NodeEntry.silent_s` is the
        time (s) since the node last renewed its entry. For all other nodes it is 0.
        """
        return sorted(self._registry.nodes(), key=lambda entry: (entry.name != "sim", entry.name))

    def node(self, name: str) -> NodeEntry:
        """Return the registry entry of one node.

        Raises UnknownNameError, which lists all nodes, for an unknown name.
        """
        entries = self.nodes()
        for entry in entries:
            if entry.name == name:
                return entry
        there = ", ".join(entry.name for entry in entries) or "none"
        raise UnknownNameError(f"no node {name!r} in domain {self.domain}; nodes are {there}")

    def topics(self) -> list[TopicEntry]:
        """All topics that a node publishes or subscribes to, sorted by name.

        A node that subscribes to "*" is listed as a subscriber of every topic.
        """
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
        """Call a service of one node, and return the response as plain data.

        Raises ServiceError with the node's reason if the node refuses the request, ServiceTimeout if no response
        arrives within timeout_s seconds, and UnknownNameError for an unknown node or a node without services.
        """
        endpoint = self.node(node).endpoints.get("service")
        if endpoint is None:
            raise UnknownNameError(f"node {node!r} has no services")
        with ServiceClient(endpoint) as client:
            try:
                return client.call(service, args, timeout_s)
            except ServiceTimeout as error:
                raise ServiceTimeout(f"node {node!r} does not answer: {error}") from None

    def sim_status(self) -> dict[str, Any]:
        """Status of the simulation as a map with time, speed, real_time_factor, overruns, milestones and other keys.

        The key "guards" has the result of `guards` as plain data.
        """
        status: dict[str, Any] = self.call("sim", "status")
        return {**status, "guards": msgspec.to_builtins(self.guards())}

    def guards(self, timeout_s: float = GUARD_S) -> dict[str, GuardState]:
        """States of all guards now, as {name of the node: GuardState}.

        The nodes are the guard nodes, the drivers with a guard of their own, and the drivers that were stopped without
        a guard. All nodes are called at the same time. A node that does not answer within timeout_s seconds raises no
        error; `GuardState.error` has the reason.
        """
        entries = [entry for entry in self.nodes() if entry.name != "sim" and _moves_a_robot(entry)]
        entries = [entry for entry in entries if "service" in entry.endpoints]
        if not entries:
            return {}
        with ThreadPoolExecutor(max_workers=len(entries), thread_name_prefix="guards") as pool:
            states = pool.map(lambda entry: _guard_of(entry, timeout_s), entries)
            return {entry.name: state for entry, state in zip(entries, states, strict=True) if state is not None}

    def stream(
        self, *topics: str, timeout_s: float | None = None, pause_s: float = 0.0
    ) -> Iterator[tuple[str, Message]]:
        """Yield (topic, message) for each message that arrives on one of `topics`; without topics, on any topic.

        The stream ends when no message has arrived for timeout_s seconds. If timeout_s is None, the stream never ends.
        Publishers that start later are included. If the caller processes messages more slowly than they arrive,
        messages are lost, as for every subscriber.

        pause_s  time (s) between two receptions. Messages that arrive in between wait in a queue; those of one
                 publisher stay in order. With 0, messages are received as soon as they arrive. A program that draws
                 pictures can set the time between two pictures, to use less processor time
        """
        subscriber = Subscriber(zmq.Context.instance(), topics or None, "client")
        self._subscribers.append(subscriber)
        link = RegistryLink(self.domain)
        quiet_since = time.monotonic()
        connected: list[NodeEntry] = []
        try:
            while timeout_s is None or time.monotonic() - quiet_since < timeout_s:
                if link.nodes is not connected:  # the link replaces its list at a change
                    connected = link.nodes
                    _follow(subscriber, connected)
                received = subscriber.receive_batch(POLL_S if connected else POLL_S / 10)
                for _, topic, message in received:
                    yield topic, message
                    quiet_since = time.monotonic()
                if pause_s > 0.0 and len(received) < BATCH:  # a full batch: more messages may be waiting
                    time.sleep(pause_s)
        finally:
            link.close()
            subscriber.close()

    def estop(self, reason: str = "", release: bool = False, timeout_s: float | None = None) -> list[Stopped]:
        """Stop the actuators of all robots of the domain until a release; with `release`, release all actuators.

        The simulation server, the drivers and the guards are called at the same time. Each call is repeated until the
        node answers or timeout_s seconds have passed, by default 2 s, and 15 s for a release. A node that does not
        answer raises no error; `Stopped.error` has the reason. A node refuses the release if the emergency stop of
        another caller reaches the node meanwhile.
        """
        entries = [entry for entry in self.nodes() if _moves_a_robot(entry) and "service" in entry.endpoints]
        args = {} if release else {"reason": reason}
        timeout_s = timeout_s or (RELEASE_S if release else ESTOP_S)
        with ThreadPoolExecutor(max_workers=max(len(entries), 1), thread_name_prefix="estop") as pool:
            calls = [
                pool.submit(_until_answered, e, "release" if release else "estop", args, timeout_s) for e in entries
            ]
            return [call.result() for call in calls]

    @property
    def lost(self) -> int:
        """Number of messages that the streams of this client have lost, counted from gaps in the sequence numbers."""
        return sum(subscriber.lost for subscriber in self._subscribers)

    def close(self) -> None:
        """Close the connection to the registry."""
        self._registry.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _follow(subscriber: Subscriber, entries: list[NodeEntry]) -> None:
    """Connect the subscriber to the running nodes that publish its topics, and disconnect it from all other nodes.

    Any node may publish an event when one of its parameters is set, even if the node does not list the topic `event`. A
    subscriber to events is therefore connected to all nodes.
    """
    topics = subscriber.topics
    wants_all = topics is None or any(topic.rpartition("/")[2] == "event" for topic in topics)
    speaking = {
        entry.name: entry
        for entry in entries
        if "data" in entry.endpoints
        and (wants_all or topics is None or not topics.keys().isdisjoint([*entry.publishes, "status"]))
    }
    for name in [name for name in subscriber.connections if name not in speaking]:
        subscriber.disconnect(name)
    for name, entry in speaking.items():
        try:
            subscriber.connect(name, entry.endpoints["data"], entry.publishes)
        except AddressError as error:
            subscriber.refusals.refuse(name, str(error))


def _moves_a_robot(entry: NodeEntry) -> bool:
    """Whether a node receives commands for a robot's actuators.

    Such a node is a simulation server, a driver or a guard.
    """
    if entry.name == "sim":
        return True
    leaves = {topic.rpartition("/")[2] for topic in entry.subscribes}
    publishes = {topic.rpartition("/")[2] for topic in entry.publishes}
    return ("command" in leaves and "measured_state" in publishes) or "raw_command" in leaves


def _guard_of(entry: NodeEntry, timeout_s: float) -> GuardState | None:
    try:
        with ServiceClient(entry.endpoints["service"]) as client:
            return guard_state(client.call("status", {}, timeout_s))
    except (ServiceError, AddressError, zmq.ZMQError) as error:
        return GuardState(error=str(error))


def _until_answered(entry: NodeEntry, service: str, args: dict[str, Any], timeout_s: float) -> Stopped:
    """Call a service of a node until the node answers or timeout_s seconds have passed, and return the result.

    The service is `estop` or `release`.
    """
    began = time.monotonic()
    line, is_repeated, again_s = f"no answer within {timeout_s:g} s", False, ESTOP_AGAIN_S
    try:
        with ServiceClient(entry.endpoints["service"]) as client:
            while (left_s := timeout_s - (time.monotonic() - began)) > 0.0:
                wait_s = min(again_s, left_s)
                if service == "release":  # a busy node may need longer for each reply than the first wait
                    again_s = min(2.0 * again_s, RELEASE_AGAIN_S)
                try:
                    if service == "release" and "after" not in args:
                        args = {"after": _stop_calls(client.call("status", {}, wait_s))}
                    how = client.call(service, args, wait_s)
                except ServiceTimeout:
                    is_repeated = True
                    continue
                if how == NOTHING_STOPPED and is_repeated:  # an earlier call may have ended the stop
                    how = ""
                return Stopped(entry.name, str(how or ""), 1e3 * (time.monotonic() - began))
    except (ServiceError, AddressError, zmq.ZMQError) as error:
        line = str(error)
    return Stopped(entry.name, ms=1e3 * (time.monotonic() - began), error=line)


def _stop_calls(status: Mapping[str, Any]) -> int:
    """Number of calls for an emergency stop that a node has received, from the node's `status`."""
    return int(status.get("counters", status).get("emergency_stops", 0))


def _is_open(domain: int) -> bool:
    endpoint = calls_endpoint(domain)  # a registry on another host is known only while this host's launch runs
    return endpoint.startswith("tcp://") or Path(endpoint.removeprefix("ipc://")).exists()


def lost_messages(status: Mapping[str, Any]) -> int:
    """Number of messages that a node has lost, from its `status`."""
    return int(status.get("counters", status).get("lost", 0))


def __getattr__(name: str) -> Any:
    # Recordings import numpy and mcap, which a script that only calls a service does not need.
    if name in ("read_recording", "Recording"):
        from nodes.framework.recording import reader as recording

        return getattr(recording, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
