"""The version of the names on the wire: topics, messages, fields and calls."""

from __future__ import annotations

PROTOCOL = 3  # counts up when a name or a meaning changes; fields that are only added do not count
FIRST = 1  # of peers and recordings that carry no version


def mismatch(what: str, protocol: object) -> str:
    """One line that says which versions meet; "" where they are the same."""
    if protocol == PROTOCOL:
        return ""
    older = "older" if not isinstance(protocol, int) or protocol < PROTOCOL else "newer"
    return f"{what} uses protocol {protocol}, this armswing protocol {PROTOCOL}: it is of {older} software"
