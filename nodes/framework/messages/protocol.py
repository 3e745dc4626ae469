"""Version of the wire protocol: the names and meanings of topics, messages, fields and services."""

from __future__ import annotations

PROTOCOL = 2  # incremented when a name or a meaning changes; an added field changes nothing
RELEASED = "released"  # response of the service `release` that ended a stop
NOTHING_STOPPED = "nothing was stopped"  # response of the service `release` without a stop
NOT_LOADED = "was not loaded; the previous code stays in charge"  # in the refusal of `reload`, and in the node's log
FIRST = 1  # version of peers and recordings that carry none


def mismatch(what: str, protocol: object) -> str:
    """One-line error message if the version `protocol` differs from this protocol version; "" if the two are equal.

    what      name of the peer or recording, as the message calls it
    protocol  protocol version of the peer or recording
    """
    if protocol == PROTOCOL:
        return ""
    older = "older" if not isinstance(protocol, int) or protocol < PROTOCOL else "newer"
    return f"{what} uses protocol {protocol}, this armswing protocol {PROTOCOL}: it is of {older} software"
