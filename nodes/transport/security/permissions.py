"""Who may do what: a name belongs to its computer's key, and there to its process. docs/wire.md has the table."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from nodes.transport.security import keys
from nodes.transport.security.peers import Peer, descends_from


class PermissionRefused(RuntimeError):  # noqa: N818  it is what happened
    """A peer asked for what is not its to ask; the only argument is one line."""


def check_registration(
    name: str, pid: int, host: str, ends: Mapping[str, str], far: Mapping[str, str], peer: Peer, here: str, planned: str
) -> None:
    """Raise PermissionRefused unless a peer may enter a node of this name, process, host and addresses.

    here     the registry's host
    planned  the host that the plan has for the name, "" for a name that is not in it
    """
    if planned and host != planned:
        raise PermissionRefused(f"name {name!r} is that of host {planned!r} in the plan, not of host {host!r}")
    if peer.is_local:
        if host != here:
            raise PermissionRefused(f"a process of host {here!r} cannot enter a node of host {host!r}")
        if not descends_from(pid, peer.pid) and is_alive(pid):
            raise PermissionRefused(
                f"process {pid} is not {peer.text}: a node enters itself, or a process its children"
            )
        _check_keys({**ends, **far})
        return
    _check_host(host, peer, here)
    for use, end in far.items():
        if not end.startswith("tcp://") or end.partition("#")[2] != peer.key:
            raise PermissionRefused(f"endpoint {use[:80]!r} for other hosts does not have the registrant's key")


def check_removal(name: str, pid: int, host: str, key: str, peer: Peer, here: str) -> None:
    """Raise PermissionRefused unless a peer may take out a node, or set its state; `key` is its registrant's."""
    if peer.is_local:
        if host == here and (descends_from(pid, peer.pid) or not is_alive(pid)):
            return
        raise PermissionRefused(f"name {name!r} is that of process {pid} on host {host!r}, not of {peer.text}")
    if not peer.key or peer.key != key:
        raise PermissionRefused(f"name {name!r} is that of host {host!r}, not of {peer.text}")


def shutdown_refusal(peer: Peer, registry: str) -> str:
    """Why a peer may not end a node of this computer, "" where it may.

    registry  where this host reaches the registry of the launch, with its key; "" where that runs here: nobody else
              than the launch's own host may end what another host runs
    """
    if _is_of_launch(peer, registry):
        return ""
    return "only this computer and the host of the launch's server may end its nodes"


def turn_refusal(peer: Peer, registry: str) -> str:
    """Why a peer may not ask a node of this computer for a lockstep turn, "" where it may; as `shutdown_refusal`."""
    return "" if _is_of_launch(peer, registry) else f"{peer.text} is not the host of the simulation"


def _is_of_launch(peer: Peer, registry: str) -> bool:
    """Whether a peer is this computer, or the one where the launch's server and registry run."""
    return peer.is_local or (bool(peer.key) and peer.key in {registry.partition("#")[2], _own_public()})


def is_alive(pid: int) -> bool:
    """Whether a process of this host runs; one that ended and was not waited for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in ("Z", "X")
    except (OSError, IndexError):
        return False


def _check_host(host: str, peer: Peer, here: str) -> None:
    if not peer.key:
        raise PermissionRefused(f"{peer.text} has no key")
    try:
        known = keys.allowed()
    except keys.KeysError as error:
        raise PermissionRefused(f"no key can be looked up: {error}") from None
    if host == here or known.get(host) != peer.key:
        raise PermissionRefused(f"host {host!r} is not that of {peer.text}")


def _check_keys(ends: Mapping[str, str]) -> None:
    """Raise PermissionRefused where an address carries another key than this computer's."""
    for use, end in ends.items():
        key = end.partition("#")[2] if end.startswith("tcp://") else ""
        if key and key != _own_public():
            raise PermissionRefused(f"endpoint {use[:80]!r} has a key that is not this computer's")


def _own_public() -> str:
    try:
        return keys.own_key().public
    except keys.KeysError:
        return ""
