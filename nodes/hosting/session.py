"""A process's place in its domain: its sockets, its entry at the registry, its status, what stops it."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import zmq

from nodes.messages import Status
from nodes.transport.bus import LAST_WORDS_S, Context, Publisher
from nodes.transport.domain import ipc_endpoint
from nodes.transport.host_config import read_host_config
from nodes.transport.registry import NodeEntry
from nodes.transport.registry_link import OnChange, RegistryLink
from nodes.transport.rejections import RejectionLog
from nodes.transport.security import authenticator as door
from nodes.transport.security.permissions import shutdown_refusal
from nodes.transport.service import ServiceServer

STATUS_PERIOD_S = 0.5
STATUS_TOPIC = "status"


class NodeSession:
    """Binds a node's sockets and enters it at the registry; `open` once the node can be spoken to.

    Its sockets are open to this host by ipc, and where the launch has others to them too, by tcp and with keys.
    Endpoints carry the process id, so that a restarted node is a new publisher and never a silent successor.

    registry    where the registry takes calls on another computer, "" where it runs on this one
    now_ns      the node's clock, in nanoseconds since the epoch
    status_due  by time.monotonic(), when the status is next said even if nothing changed
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
        site = read_host_config(domain)
        self.far, self.registry = site.far, site.calls
        self.publisher = Publisher(context, name, self.endpoint("data"), wall_clock, now_ns, self.far)
        self.service = ServiceServer(context, name, self.endpoint("service"), now_ns, self.far)
        self.service.guards["shutdown"] = partial(shutdown_refusal, registry=site.calls)
        self._link: RegistryLink | None = None
        self._said: tuple[str, str] | None = None
        self.status_due = 0.0

    def endpoint(self, kind: str) -> str:
        """The address of one of this process's sockets."""
        return ipc_endpoint(self.domain, f"{self.name}-{os.getpid()}.{kind}")

    def open(
        self,
        on_change: OnChange,
        publishes: Iterable[str],
        subscribes: Iterable[str],
        lossless: bool = False,
        **more: tuple[str, str],
    ) -> None:
        """Enter the registry; `more` are further endpoints, near and far. RegistryError when the name is taken."""
        ends = {
            "data": (self.publisher.endpoint, self.publisher.far),
            "service": (self.service.endpoint, self.service.far),
            **more,
        }
        self._link = RegistryLink(self.domain, on_change, self._strangers_here)
        self._link.keep(
            NodeEntry(
                name=self.name,
                pid=os.getpid(),
                state=self.status.state,
                endpoints={use: near for use, (near, _) in ends.items()},
                far={use: far for use, (_, far) in ends.items() if far},
                publishes=[*publishes, STATUS_TOPIC],
                subscribes=list(subscribes),
                lossless=lossless,
            )
        )

    @property
    def dead(self) -> set[str]:
        """Nodes of this host whose process has ended, as far as the registry has not said so yet."""
        return set() if self._link is None else self._link.dead

    @property
    def refusals(self) -> list[RejectionLog]:
        """What its sockets refused that every node has."""
        link = [] if self._link is None else [self._link.refusals]
        remote = self.publisher.remote
        streams = [] if remote is None else [remote.refusals, remote.refused]
        return [self.publisher.refusals, self.service.refusals, self.service.refused, *streams, *link]

    @property
    def counters(self) -> dict[str, int]:
        """What its sockets counted that are open to other hosts; empty where none is."""
        return _strangers(self._strangers_here())

    @property
    def launch_counters(self) -> dict[str, Any]:
        """The same of all sockets of the launch, as far as the registry has told; `strangers_here` are its own."""
        here = self._strangers_here()
        if not here or self._link is None:
            return {}
        everywhere = {kind: max(count, self._link.strangers.get(kind, 0)) for kind, count in here.items()}
        return {**_strangers(everywhere), "strangers_here": here, "calls_refused": self._link.refused}

    def _strangers_here(self) -> dict[str, int]:
        return door.strangers_by_kind(self.context) if self.far else {}

    def set_state(self, state: str, detail: str = "") -> None:
        """Say how the node is, at the registry and with the next status."""
        self.status.state = state
        self.status.detail = detail
        if self._link is not None:
            self._link.set_state(state)

    @property
    def status_is_due(self) -> bool:
        """Whether the status changed or half a second has passed."""
        return (self.status.state, self.status.detail) != self._said or time.monotonic() >= self.status_due

    def say_status(self, timestamp: float) -> None:
        """Publish the status with the simulation time it is of, seconds."""
        self._said = (self.status.state, self.status.detail)
        self.status_due = time.monotonic() + STATUS_PERIOD_S
        self.status.timestamp = timestamp
        self.publisher.publish(STATUS_TOPIC, self.status)

    @property
    def status_wait_s(self) -> float:
        """Seconds until the next status is due."""
        return max(self.status_due - time.monotonic(), 0.0)

    def close(self) -> None:
        """Free the sockets and leave the registry, in this order: who hears that it left can have its last messages."""
        self.publisher.close()
        self.service.close()
        if self._link is not None:
            self._link.close()


def _strangers(kinds: dict[str, int]) -> dict[str, int]:
    """Counters of strangers: all, and by what they were."""
    return {"strangers": sum(kinds.values()), **{f"strangers_{kind}": n for kind, n in kinds.items()}} if kinds else {}


def finish(context: Context) -> None:
    """End the context of a process that exits, once its closed publishers' messages are sent or LAST_WORDS_S passed.

    Without this an exit discards what the kernel has not taken yet.
    """
    ending = threading.Thread(target=context.term, name="last words", daemon=True)
    ending.start()
    ending.join(LAST_WORDS_S)


def poller_of(*sources: object) -> zmq.Poller:
    """A poller that waits for these sockets and descriptors to be readable."""
    poller = zmq.Poller()
    for source in sources:
        poller.register(source, zmq.POLLIN)
    return poller
