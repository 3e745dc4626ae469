"""Version of the wire protocol: the names and meanings of topics, messages, fields and services."""

from __future__ import annotations

PROTOCOL = 3  # incremented when a name or a meaning changes; an added field changes nothing
FIRST = 1  # version of peers and recordings that carry none


def mismatch(what: str, protocol: object) -> str:
    """One-line message for a different protocol version, "" for this one.

    what  the peer or recording, for the message
    """
    if protocol == PROTOCOL:
        return ""
    older = "older" if not isinstance(protocol, int) or protocol < PROTOCOL else "newer"
    return f"{what} uses protocol {protocol}, this armswing protocol {PROTOCOL}: it is of {older} software"
