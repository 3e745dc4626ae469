"""Nodes of a launch on other hosts, as seen from the server's host, and the registry address of each host."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping

import msgspec

from nodes.framework.launching.display import Display, NodeLine
from nodes.framework.launching.observer import NOT_READY, Observer
from nodes.framework.plan.launch_plan import LOCAL, LinkPlan, NodePlan, Plan
from nodes.framework.transport.host_config import HostConfig, remote_registry
from nodes.framework.transport.security import allow_list, keys

GONE_S = 2.0  # time to wait for other hosts, out of the 5 s in which a launch ends
LISTEN_S = 0.02
MOST_NAMED = 4


def host_config_of(plan: Plan, host: str) -> HostConfig:
    """Configuration of a host of the plan: its name and address, and the registry's endpoints with their keys.

    Raises KeysError with a one-line message if this user has no key or lacks the key of another host.
    """
    if not plan.hosts:
        return HostConfig()
    keys.own_key()
    known = {name: allow_list.key_of_host(name) for name in plan.hosts if name != host}
    address = plan.hosts[host]
    if host == plan.sim.host:
        return HostConfig(host=host, address=address)
    ends = remote_registry(plan.domain, plan.hosts[plan.sim.host])
    calls, news = (f"{end}#{known[plan.sim.host]}" for end in ends)
    return HostConfig(host=host, address=address, calls=calls, news=news)


def digests(plan: Plan) -> dict[str, str]:
    """{part: digest} of the parts of a plan that must be equal on all hosts.

    These are the seed, the names in [hosts], all nodes, and the table [sim] of each simulation.

    The folders of files and the nodes' keys `link` may differ, because the server alone emulates links (the delays and
    losses of messages).
    """
    parts: dict[str, object] = {"seed": plan.seed, "the names in [hosts]": sorted(plan.hosts)}
    for view in plan.views:
        part = f"[sim] of namespace {view.sim.namespace!r}" if view.sim.namespace else "[sim]"
        parts[part] = msgspec.structs.replace(view.sim, robot=_without_folder(view.sim.robot))
    for node in plan.nodes:
        parts[f"node {node.name!r}"] = msgspec.structs.replace(node, run=_without_folder(node.run), link=LinkPlan())
    encode = msgspec.json.Encoder(order="deterministic").encode
    return {part: hashlib.sha256(encode(value)).hexdigest()[:16] for part, value in parts.items()}


def _without_folder(reference: str) -> str:
    """A reference "path/to/file.py:name" without its folder, which may differ between hosts."""
    return reference.rpartition("/")[2]


def difference(plan: Plan, theirs: Mapping[str, str]) -> str:
    """One line that names the parts in which the server's plan differs from this host's; "" if the plans do not differ.

    theirs  digests of the server's plan
    """
    ours = digests(plan)
    parts = [part for part in {**ours, **theirs} if ours.get(part) != theirs.get(part)] if theirs else []
    if not parts:
        return ""
    more = f" and {len(parts) - MOST_NAMED} more" if len(parts) > MOST_NAMED else ""
    return (
        f"the plan here is not that of host {plan.sim.host!r}: {', '.join(parts[:MOST_NAMED])}{more}"
        f" {'differs' if len(parts) == 1 else 'differ'}; give all hosts the same launch file and the same --set"
    )


class RemoteNodes:
    """The nodes of a plan that run on other hosts, with their registration and readiness."""

    def __init__(self, plan: Plan, observer: Observer, display: Display) -> None:
        self._nodes: list[NodePlan] = [node for node in plan.nodes if node.host not in (plan.sim.host, LOCAL)]
        self._observer = observer
        self._display = display
        self._is_registered = dict.fromkeys((node.name for node in self._nodes), False)
        self._reminded: set[str] = set()

    @property
    def ready(self) -> bool:
        """Whether every node on another host has reported ready."""
        return all(self._is_ready(node.name) for node in self._nodes)

    def _is_ready(self, name: str) -> bool:
        entry = self._observer.entry(name)
        return entry is not None and entry.state not in NOT_READY

    def poll(self, is_time: bool) -> None:
        """Report nodes that appear or disappear, and hosts whose nodes are still missing.

        is_time  whether the nodes of this host are ready; missing hosts are reported only then
        """
        for node in self._nodes:
            name, host = node.name, node.host
            is_registered = self._observer.entry(name) is not None
            if is_registered != self._is_registered[name]:
                self._is_registered[name] = is_registered
                self._display.print_line(f"{'registered' if is_registered else 'gone'}, on host {host!r}", name)
            elif is_time and not is_registered and host not in self._reminded:
                self._reminded.add(host)
                self._display.print_line(f"waits for host {host!r}: start 'armswing launch FILE --host {host}' there")

    def lines(self) -> list[NodeLine]:
        """Display line of each node, without the process id, which is valid on the other host only."""
        lines = []
        for node in self._nodes:
            entry, status = self._observer.entry(node.name), self._observer.status.get(node.name)
            state = "absent" if entry is None else status.state if status is not None else entry.state
            lost = status.counters.get("lost", 0) if status is not None else None
            lines.append(NodeLine(node.name, 0, state, lost, f"on host {node.host!r}"))
        return lines

    def wait_until_gone(self) -> None:
        """Wait, for a limited time, until the other hosts have ended their nodes.

        These nodes use the registry of this host, which must not end before them.
        """
        deadline = time.monotonic() + GONE_S
        while time.monotonic() < deadline and any(self._observer.entry(node.name) for node in self._nodes):
            self._observer.receive(LISTEN_S)
