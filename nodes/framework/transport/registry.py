"""The registry of a domain: its running nodes and their endpoints. Only the registry's own endpoint is fixed.

The registry stores entries, not connections. Connections between nodes therefore survive the end of the registry, and
the nodes register again after a restart of the registry. The registry removes an entry when the node unregisters, the
node's process has ended, or the entry's lease has expired. If a lease expires although the node's process still exists
on the registry's host, as when SIGSTOP halts it, the reply to the call `nodes` still lists the node until the process
ends.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Mapping
from typing import Annotated

import msgspec
import zmq

from nodes.framework.messages.protocol import FIRST, PROTOCOL, mismatch
from nodes.framework.transport import background_threads
from nodes.framework.transport.domain import domain_folder, ipc_endpoint
from nodes.framework.transport.host_config import (
    LOCAL,
    HostConfig,
    calls_endpoint,
    news_endpoint,
    read_host_config,
    remote_registry,
    remove_host_config,
    write_host_config,
)
from nodes.framework.transport.ownership import NOT_GRANTED, Owners, registration_refusal
from nodes.framework.transport.remote_stream import SubscriptionGuard, limit_subscriptions
from nodes.framework.transport.security import authenticator
from nodes.framework.transport.security.peers import Peer
from nodes.framework.transport.security.permissions import (
    PermissionRefused,
    check_registration,
    check_removal,
    is_alive,
)
from nodes.framework.transport.service import (
    Context,
    Request,
    ServiceClient,
    ServiceError,
    ServiceServer,
    ServiceTimeout,
)
from nodes.framework.transport.sockets import (
    AddressError,
    BoundEndpoint,
    check_address,
    lock,
    lock_path,
    make_socket,
    sweep,
)

__all__ = ["Registry", "RegistryClient", "calls_endpoint", "is_alive", "news_endpoint"]

LEASE_S = 5.0
SILENT_S = 2.0
NEWS_S = 0.5
CHECK_MS = 100
TAKE_OVER_S = 5.0  # longest wait for the simulation's grant to publish commands
MOST_ENTRIES = 64  # largest number of entries registered with one key
LARGEST_GENERATION = 2**53
NEWS_TOPIC = b"registry"
NAME_IN_USE = "is taken by the live process"  # in the refusal of a node whose name another live node has


class RegistryError(RuntimeError):
    """Raised if the registry is absent or refuses a call. The only argument is a one-line message for the user."""

    exit_code = 2


class RegistryAbsent(RegistryError):  # noqa: N818  says where the registry is, not what it did wrong
    """Raised if the registry does not reply at its endpoint."""


class NotGranted(RegistryError):  # noqa: N818  it is what happened
    """Raised if the simulation does not allow a node outside of the plan to publish commands."""


class NodeEntry(msgspec.Struct, kw_only=True):
    """Registry entry of one node.

    host              name of the node's host in the plan
    state             state of the node, as in the message `Status`
    endpoints         {"data": ..., "service": ..., "step": ...}
    remote_endpoints  endpoints for other hosts, which are tcp with a key; empty in a launch with one host
    lossless          whether the simulation in mode fast waits for this node, so that the node receives every message
    generation        number set by the registry, which increases each time another process takes the name
    protocol          protocol version; an entry without a version counts as version 1
    silent_s          time since the node renewed its entry (s), in the registry's reply to the call `nodes`; 0 for a
                      node that has renewed it within the last SILENT_S seconds. Nodes renew their entries once a
                      second: a silent node's process stands still, or its connection is broken
    grants            {topic: nodes outside of the plan that may publish commands on it}, in the entry of the simulation
    """

    name: str
    pid: int
    host: str = LOCAL
    state: str = "starting"
    endpoints: dict[str, str] = {}
    publishes: list[str] = []
    subscribes: list[str] = []
    generation: int = 0
    lossless: bool = False
    remote_endpoints: dict[str, str] = {}
    protocol: int = PROTOCOL
    silent_s: float = 0.0
    grants: dict[str, list[str]] = {}

    def reached_from(self, host: str) -> NodeEntry:
        """Return the entry with the endpoints that nodes on `host` have to use.

        On the node's own host these are its `endpoints`, on any other host its `remote_endpoints`.
        """
        return self if self.host == host else msgspec.structs.replace(self, endpoints=self.remote_endpoints)


class News(msgspec.Struct, kw_only=True):
    """The registry's publication: all entries, and the state of the launch.

    instance              id of the registry process, which differs after a restart
    revision              number that increases with each change of the entries
    ending                whether the launch is about to end
    plan                  {part of the launch's plan: digest of this part}; other hosts compare these digests with the
                          digests of their own plan
    rejected_connections  {kind: number of rejected connections} at all sockets of the launch
    refused               number of calls refused because the peer had no permission
    """

    instance: str
    revision: int
    nodes: list[NodeEntry]
    ending: bool = False
    plan: dict[str, str] = {}
    rejected_connections: dict[str, int] = {}
    refused: int = 0


class DomainLock:
    """Lock of a domain. On each host, at most one process holds the lock.

    Raises RegistryError with a one-line message if another process holds the lock.
    """

    def __init__(self, domain: int) -> None:
        self._file = domain_folder(domain) / "registry-owner"
        self.folder = domain_folder(domain)
        descriptor = lock(self._file)
        if descriptor is None:
            pid = lock_path(self._file).read_text().strip()
            raise RegistryError(
                f"domain {domain} is live already (pid {pid}); stop its launch, or choose another domain with --domain"
            )
        os.ftruncate(descriptor, 0)
        os.write(descriptor, f"{os.getpid()}\n".encode())
        self._lock = descriptor

    def release(self) -> None:
        """Release the lock."""
        lock_path(self._file).unlink(missing_ok=True)
        os.close(self._lock)


class Registry:
    """Serves a domain's registry on a thread of its own, as a context manager.

    Raises RegistryError if a registry of the domain already runs.

    host_config  configuration of this computer; if it has an address, the registry also serves other hosts, with CURVE
                 keys
    ending       whether the launch is about to end; the launch sets this attribute
    plan         {part of the launch's plan: digest of this part}, published with the entries
    hosts        {name: host} of the plan's nodes and of the server; a node with such a name may run only on that host
    owners       {topic: names of the nodes that the plan allows to publish it}
    """

    def __init__(
        self,
        domain: int,
        lease_s: float = LEASE_S,
        host_config: HostConfig | None = None,
        owners: Owners | None = None,
    ) -> None:
        self.domain = domain
        self.owners = owners or {}
        self.host_config = host_config or HostConfig()
        self.ending = False
        self.plan: dict[str, str] = {}
        self.hosts: dict[str, str] = {}
        self._lease_s = lease_s
        self._entries: dict[str, NodeEntry] = {}
        self._registrants: dict[str, Peer] = {}
        self._rejected_connections: dict[str, dict[str, int]] = {}  # {node: {kind: rejected connections}}
        self._renewed: dict[str, float] = {}
        self._expired: dict[str, NodeEntry] = {}  # entries of this host without a lease, whose processes exist
        self._generations: dict[str, int] = {}
        self._revision = 0
        self._instance = f"{os.getpid()}-{time.time_ns()}"
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Registry:
        self._domain_lock = DomainLock(self.domain)
        sweep(self._domain_lock.folder)
        self._context: Context = zmq.Context()
        try:
            self._open()
        except AddressError as error:
            self._context.destroy()
            self._domain_lock.release()
            raise RegistryError(str(error)) from None
        write_host_config(self.domain, self.host_config)
        self._thread = threading.Thread(target=self._serve, name="registry", daemon=True)
        self._thread.start()
        return self

    def _open(self) -> None:
        calls, news = remote_registry(self.domain, self.host_config.address) if self.host_config.address else ("", "")
        self._server = ServiceServer(
            self._context, "registry", ipc_endpoint(self.domain, "registry"), remote_endpoint=calls
        )
        self._news = make_socket(self._context, zmq.XPUB)
        self._news.setsockopt(zmq.XPUB_VERBOSE, 1)
        limit_subscriptions(self._news)
        self._subscriptions = SubscriptionGuard(self._context, "registry")
        try:
            self._bound = BoundEndpoint(self._news, ipc_endpoint(self.domain, "registry-news"), news, "registry")
        except AddressError:
            self._news.close()
            self._server.close()
            raise

    @property
    def refused(self) -> int:
        """Number of calls refused for lack of permission, plus connections ended because they exceeded their quota."""
        return self._server.refused.count + self._subscriptions.refused.count

    @property
    def rejected_by_kind(self) -> dict[str, int]:
        """Return {kind: number of connections that the registry's sockets rejected}.

        The kinds are "unknown_key", "no_key" and "no_zmtp" (not a ZeroMQ connection).
        """
        return authenticator.rejected_by_kind(self._context)

    @property
    def rejected_of_launch(self) -> dict[str, int]:
        """Return {kind: number of rejected connections} of the registry and of the plan's nodes.

        A node reports its numbers when it renews its lease.
        """
        reported = list(self._rejected_connections.values())
        return {kind: n + sum(each.get(kind, 0) for each in reported) for kind, n in self.rejected_by_kind.items()}

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop the thread, remove all entries and release the domain."""
        if self._thread is None:
            return
        self._stop.set()
        self._thread.join()
        self._thread = None
        self._server.close()
        self._news.close()
        self._bound.release()
        self._context.term()
        remove_host_config(self.domain)
        self._domain_lock.release()

    def _serve(self) -> None:
        background_threads.defer_this()
        poller = zmq.Poller()
        poller.register(self._server.socket, zmq.POLLIN)
        poller.register(self._news, zmq.POLLIN)
        published, published_ending = 0.0, False
        while not self._stop.is_set():
            poller.poll(CHECK_MS)
            before = self._revision
            while (request := self._server.receive()) is not None:
                self._answer(request)
            self._remove_the_dead()
            if (
                self._subscribed()
                or (self._revision, self.ending) != (before, published_ending)
                or time.monotonic() - published > NEWS_S
            ):
                published, published_ending = time.monotonic(), self.ending
                self._publish()

    def _subscribed(self) -> bool:
        new = False
        while True:
            try:
                parts = self._news.recv_multipart(zmq.NOBLOCK, copy=False)
            except zmq.Again:
                return new
            published = parts[0].bytes
            is_known = len(parts) == 1 and NEWS_TOPIC.startswith(published[1:])
            if not self._subscriptions.passes(parts[-1], is_known):
                continue
            if len(parts) != 1 or not published.startswith((b"\x01", b"\x00")):
                self._server.refusals.refuse("(subscription)", "not a subscription")
            new |= is_known and published.startswith(b"\x01")

    def _publish(self) -> None:
        nodes = list(self._entries.values())
        news = News(instance=self._instance, revision=self._revision, nodes=nodes, ending=self.ending, plan=self.plan)
        news.rejected_connections, news.refused = self.rejected_of_launch, self.refused
        self._news.send_multipart([NEWS_TOPIC, msgspec.msgpack.encode(news)])

    def _answer(self, request: Request) -> None:
        call = request.call
        try:
            if call.call == "nodes":
                self._server.reply(request, msgspec.to_builtins(self._with_silent_nodes()))
            elif call.call == "register":
                if line := mismatch(f"node {str(call.args.get('name'))[:80]!r}", call.args.get("protocol", FIRST)):
                    raise RegistryError(f"{line}; update the older software")
                entry = msgspec.convert(call.args, NodeEntry)
                reported = msgspec.convert(
                    call.args.get("rejected_connections", {}), dict[str, Annotated[int, msgspec.Meta(ge=0)]]
                )
                self._server.reply(request, self._register(entry, request.peer))
                if entry.name in self.hosts:
                    self._rejected_connections[entry.name] = reported
            elif call.call == "unregister":
                self._require_owner(str(call.args.get("name")), request.peer)
                self._unregister(str(call.args.get("name")))
                self._server.reply(request)
            elif call.call == "ready":
                self._require_owner(str(call.args.get("name")), request.peer)
                self._ready(str(call.args.get("name")))
                self._server.reply(request)
            else:
                calls = "nodes, register, ready, unregister"
                self._server.refuse(request, f"the registry has no call {call.call!r}; it has {calls}")
        except RegistryError as error:
            self._server.refuse(request, f"{call.call}: {error}")
        except PermissionRefused as error:
            self._server.not_allowed(request, str(error))
        except (ValueError, TypeError, OverflowError, RecursionError, msgspec.MsgspecError) as error:
            line = f"{call.call}: {error}"
            self._server.refusals.refuse(call.call, f"entry {str(call.args.get('name'))[:80]!r}: {error}")
            self._server.refuse(request, line)

    def _register(self, entry: NodeEntry, peer: Peer) -> int:
        """Add an entry, or renew its lease. Returns the generation of the entry.

        Raises ValueError for invalid values, PermissionRefused if the peer may not register such an entry, and
        RegistryError if the name is taken.
        """
        _check(entry)
        old = self._entries.get(entry.name)
        is_other = old is not None and (
            (old.pid, old.host) != (entry.pid, entry.host) or self._registrants[entry.name].key != peer.key
        )
        try:
            planned = self.hosts.get(entry.name, "")
            check_registration(
                entry.name,
                entry.pid,
                entry.host,
                entry.endpoints,
                entry.remote_endpoints,
                peer,
                self.host_config.host,
                planned,
            )
        except PermissionRefused as error:
            if is_other and old is not None and self._lives(old):
                raise PermissionRefused(f"{self._name_in_use(old)}; {error}") from None
            raise
        if is_other and old is not None and self._lives(old):
            raise RegistryError(self._name_in_use(old))
        sim = self._entries.get("sim")
        others = [each for name, each in self._entries.items() if name != entry.name]
        if line := registration_refusal(entry, self.owners, {} if sim is None else sim.grants, others):
            if line.startswith(NOT_GRANTED):  # the node asks the simulation and comes back, which is no attack
                raise RegistryError(line)
            raise PermissionRefused(line)
        if (
            peer.key
            and old is None
            and [each.key for each in self._registrants.values()].count(peer.key) >= MOST_ENTRIES
        ):
            raise PermissionRefused(
                f"{peer.text} has registered {MOST_ENTRIES} nodes already, which is the limit for the computer with "
                "this key; stop one of these nodes first"
            )
        known = self._generations.get(entry.name, 0)
        moved = old is None or (old.pid, old.host) != (entry.pid, entry.host) or old.endpoints != entry.endpoints
        entry.generation = min(max(known + 1, entry.generation), LARGEST_GENERATION) if moved else known
        self._generations[entry.name] = entry.generation
        self._registrants[entry.name] = peer
        self._renewed[entry.name] = time.monotonic()
        self._expired.pop(entry.name, None)
        entry.silent_s = 0.0
        if entry != old:
            self._entries[entry.name] = entry
            self._revision += 1
        return entry.generation

    def _name_in_use(self, old: NodeEntry) -> str:
        where = f" on host {old.host!r}" if old.host != self.host_config.host else ""
        return f"name {old.name!r} {NAME_IN_USE} {old.pid}{where}"

    def _require_owner(self, name: str, peer: Peer) -> None:
        """Raise PermissionRefused if a registered name belongs to another peer."""
        entry = self._entries.get(name)
        if entry is not None:
            check_removal(name, entry.pid, entry.host, self._registrants[name].key, peer, self.host_config.host)

    def _ready(self, name: str) -> None:
        entry = self._entries.get(name)
        if entry is None:
            raise RegistryError(f"the registry has no node {name!r}; its nodes are {sorted(self._entries)}")
        entry.state = "ready"
        self._revision += 1

    def _with_silent_nodes(self) -> list[NodeEntry]:
        """Entries of all nodes, also of those that are silent, with the times since they were renewed."""
        now = time.monotonic()
        entries = []
        for name, entry in {**self._entries, **self._expired}.items():
            silent_s = now - self._renewed[name]
            entries.append(
                msgspec.structs.replace(entry, silent_s=round(silent_s, 3)) if silent_s > SILENT_S else entry
            )
        return entries

    def _unregister(self, name: str) -> None:
        self._expired.pop(name, None)
        if self._entries.pop(name, None) is not None:
            del self._registrants[name]
            self._revision += 1

    def _remove_the_dead(self) -> None:
        oldest = time.monotonic() - self._lease_s
        for name, entry in list(self._entries.items()):
            lives = self._lives(entry)
            if self._renewed[name] < oldest or not lives:
                self._unregister(name)
                if lives and entry.host == self.host_config.host:
                    self._expired[name] = entry
        for name, entry in list(self._expired.items()):
            if not is_alive(entry.pid):
                del self._expired[name]

    def _lives(self, entry: NodeEntry) -> bool:
        """Whether the node of an entry counts as running.

        A node on this host counts as running if its process runs. A node on another host counts as running if the keys
        of the entry's endpoints are still authorized.
        """
        if entry.host == self.host_config.host:
            return is_alive(entry.pid)
        return all(
            authenticator.is_authorized(self._context, end.partition("#")[2]) for end in entry.remote_endpoints.values()
        )


def _check(entry: NodeEntry) -> None:
    """Raise ValueError with a one-line message if an entry has an invalid generation or endpoint."""
    if not 0 <= entry.generation <= LARGEST_GENERATION:
        raise ValueError(f"the generation of the entry is {entry.generation}; it must be in 0 .. 2**53")
    for use, endpoint in (*entry.endpoints.items(), *entry.remote_endpoints.items()):
        try:
            check_address(endpoint)
        except AddressError as error:
            raise ValueError(f"endpoint {use[:80]!r}: {error}") from None


class RegistryClient:
    """Calls the registry of a domain.

    Raises RegistryError with a one-line message if no registry runs, or if the registry refuses the call.
    """

    def __init__(self, domain: int, timeout_s: float = 2.0) -> None:
        self.domain = domain
        self.timeout_s = timeout_s
        self.host_config = read_host_config(domain)
        try:
            self._client = ServiceClient(calls_endpoint(domain))
        except AddressError as error:
            raise RegistryError(str(error)) from None

    def register(self, entry: NodeEntry, rejected_connections: Mapping[str, int] | None = None) -> int:
        """Register a node, or renew its lease, and return the generation of its entry.

        A lease has to be renewed every few seconds. `RegistryLink` does this for a node.

        rejected_connections  {kind: number of connections rejected by the node's sockets}
        """
        entry.host = self.host_config.host
        args = {**msgspec.to_builtins(entry), "rejected_connections": dict(rejected_connections or {})}
        try:
            generation = self._call("register", args)
        except RegistryError as error:
            if NOT_GRANTED not in str(error):
                raise
            self._take_over(entry)
            generation = self._call("register", args)
        entry.generation = msgspec.convert(generation, int)
        return entry.generation

    def _take_over(self, entry: NodeEntry) -> None:
        """Ask the simulation to allow a node outside of the plan to publish commands.

        Raises NotGranted with the simulation's reason, or RegistryError if there is no simulation.
        """
        sim = next((each for each in self.nodes() if each.name == "sim"), None)
        if sim is None or "service" not in sim.endpoints:
            raise RegistryError(f"node {entry.name!r} cannot publish commands, because no simulation is registered")
        for topic in entry.publishes:
            if topic not in sim.subscribes:
                continue
            try:
                with ServiceClient(sim.endpoints["service"]) as client:
                    client.call("take_over", {"node": entry.name, "topic": topic}, TAKE_OVER_S)
            except (ServiceError, AddressError) as error:
                raise NotGranted(f"the simulation rejects {topic!r}: {error}") from None

    def ready(self, name: str) -> None:
        """Set a node's state to "ready"."""
        self._call("ready", {"name": name})

    def unregister(self, name: str) -> None:
        """Remove a node's entry."""
        self._call("unregister", {"name": name})

    def nodes(self) -> list[NodeEntry]:
        """Entries of all nodes, with the endpoints to be used on this host; `silent_s` tells which do not run."""
        plain = self._call("nodes", {})
        for entry in plain if isinstance(plain, list) else ():
            if line := mismatch("the live launch", entry.get("protocol", FIRST)):
                raise RegistryError(f"{line}; update the older software")
        entries = msgspec.convert(plain, list[NodeEntry])
        return [entry.reached_from(self.host_config.host) for entry in entries]

    def forget_the_dead(self, name: str) -> None:
        """Unregister a node of this host if its process has ended.

        A registry on another host cannot know whether the process has ended.
        """
        for entry in self.nodes():
            if (entry.name, entry.host) == (name, self.host_config.host) and not is_alive(entry.pid):
                self.unregister(name)

    def _call(self, name: str, args: dict[str, object]) -> object:
        try:
            return self._client.call(name, args, self.timeout_s)
        except ServiceTimeout:
            at = self.host_config.calls.partition("#")[0]
            where = f" at {at}; is the launch running there, and this computer's key allowed?" if at else ""
            line = f"no launch is live in domain {self.domain}: its registry does not answer{where}"
            raise RegistryAbsent(line) from None
        except ServiceError as error:
            raise RegistryError(str(error)) from None

    def close(self) -> None:
        """Close the connection."""
        self._client.close()

    def __enter__(self) -> RegistryClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
