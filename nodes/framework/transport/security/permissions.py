"""Permissions of peers: who may register and remove nodes, shut them down, and request lockstep turns (node steps).

A node's name belongs to the key of the node's computer and, on that computer, to the node's process. docs/wire.md has a
table of the permissions.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from nodes.framework.transport.security import allow_list, keys
from nodes.framework.transport.security.peers import Peer, descends_from


class PermissionRefused(RuntimeError):  # noqa: N818  it is what happened
    """Raised if a peer makes a request without permission. The only argument is a one-line message."""


def check_registration(
    name: str,
    pid: int,
    host: str,
    endpoints: Mapping[str, str],
    remote_endpoints: Mapping[str, str],
    peer: Peer,
    registry_host: str,
    planned: str,
) -> None:
    """Raise PermissionRefused unless the peer may register a node with this name, process, host and endpoints.

    name              name of the node
    pid               process id of the node
    host              host that the entry states
    endpoints         endpoints for the node's own host
    remote_endpoints  endpoints for other hosts
    registry_host     the registry's host
    planned           host that the plan gives to this name; "" for a name that is not in the plan
    """
    if planned and host != planned:
        raise PermissionRefused(
            f"host {host!r} may not register node {name!r}, because the plan gives this node to host {planned!r}; "
            "start the node there, or under another name"
        )
    if peer.is_local:
        if host != registry_host:
            raise PermissionRefused(
                f"a process of host {registry_host!r} may not register a node of host {host!r}; register a node from "
                "its own host"
            )
        if not descends_from(pid, peer.pid) and is_alive(pid):
            raise PermissionRefused(
                f"{peer.text} may not register process {pid}; a process may register only itself and its children"
            )
        _check_keys({**endpoints, **remote_endpoints})
        return
    _check_host(host, peer, registry_host)
    for use, end in remote_endpoints.items():
        if not end.startswith("tcp://") or end.partition("#")[2] != peer.key:
            raise PermissionRefused(
                f"endpoint {use[:80]!r} for other hosts has the address {end[:200]!r}; it must be tcp://HOST:PORT#KEY, "
                "where KEY is the public key of the computer that registers the node"
            )


def check_removal(name: str, pid: int, host: str, key: str, peer: Peer, registry_host: str) -> None:
    """Raise PermissionRefused unless the peer may remove a node's entry or set the node's state.

    name           name of the node
    pid            process id of the node
    host           host of the node
    key            key of the peer that registered the node
    registry_host  the registry's host
    """
    if peer.is_local:
        if host == registry_host and (descends_from(pid, peer.pid) or not is_alive(pid)):
            return
        raise PermissionRefused(f"node name {name!r} belongs to process {pid} on host {host!r}, not to {peer.text}")
    if not peer.key or peer.key != key:
        raise PermissionRefused(f"node name {name!r} belongs to host {host!r}, not to {peer.text}")


def shutdown_refusal(peer: Peer, registry: str) -> str:
    """Reason why a peer may not shut down a node of this computer; "" if the peer may do so.

    Only this computer and the computer of the registry may shut down nodes of this computer.

    registry  the registry's endpoint with its key; "" if the registry runs on this computer
    """
    if _is_of_launch(peer, registry):
        return ""
    return "only this computer and the host of the launch's server may end the nodes of this computer"


def turn_refusal(peer: Peer, registry: str) -> str:
    """Reason why a peer may not request a lockstep turn (one step of a node); "" if the peer may do so.

    registry  the registry's endpoint with its key; "" if the registry runs on this computer
    """
    return "" if _is_of_launch(peer, registry) else f"only the host of the simulation may step a node, not {peer.text}"


def _is_of_launch(peer: Peer, registry: str) -> bool:
    """Whether a peer is on this computer, or on the computer of the launch's server and registry."""
    return peer.is_local or (bool(peer.key) and peer.key in {registry.partition("#")[2], _own_public()})


def is_alive(pid: int) -> bool:
    """Whether a process of this computer is running. A zombie process does not count as running."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in ("Z", "X")
    except (OSError, IndexError):
        return False


def _check_host(host: str, peer: Peer, registry_host: str) -> None:
    if not peer.key:
        raise PermissionRefused(
            f"{peer.text} has no key, but only the holder of a key may register a node of another host"
        )
    try:
        known = allow_list.allowed()
    except keys.KeysError as error:
        raise PermissionRefused(f"the registry cannot check the key of the computer: {error}") from None
    if host == registry_host or known.get(host) != peer.key:
        raise PermissionRefused(
            f"{peer.text} may not register a node of host {host!r}, because its key does not have that name in the "
            f"allow-list; start the node on host {host!r}, or name the key {host!r} in the registry's allow-list"
        )


def _check_keys(endpoints: Mapping[str, str]) -> None:
    """Raise PermissionRefused if an endpoint has a key other than the key of this computer."""
    for use, end in endpoints.items():
        key = end.partition("#")[2] if end.startswith("tcp://") else ""
        if key and key != _own_public():
            raise PermissionRefused(f"endpoint {use[:80]!r} has the key of another computer; use this computer's key")


def _own_public() -> str:
    try:
        return keys.own_key().public
    except keys.KeysError:
        return ""
