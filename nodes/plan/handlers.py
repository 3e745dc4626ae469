"""Checks that a node's class defines the handlers that it needs: a misspelt handler would silently never be called."""

from __future__ import annotations

from nodes.node import Node
from sim_core.support.suggestion import nearest

HANDLERS = tuple(name for name in vars(Node) if name.startswith("on_"))
SPEAKING = tuple(name for name in HANDLERS if name != "on_stop")


def uncalled(cls: type[Node]) -> str:
    """One-line error about a misspelt or missing handler of a node class; "" if there is no such error."""
    own = [name for base in cls.__mro__ if base not in (Node, object) for name in vars(base)]
    for name in own:
        if name.startswith("_") or hasattr(Node, name) or not callable(getattr(cls, name)):
            continue
        near = nearest(name, HANDLERS, cutoff=0.8)
        if near and near not in own:
            return f"{cls.__name__} has {name!r}, which is never called; did you mean {near!r}?"
    if cls.subscribes and cls.publishes and not set(own) & set(SPEAKING):
        topics = ", ".join(map(repr, cls.subscribes))
        return f"{cls.__name__} subscribes to {topics}, but has no 'on_message' to receive it"
    return ""
