"""Checks of a node's class: its tables of topics and services, and that it defines the handlers that it needs.

A misspelt handler would silently never be called.
"""

from __future__ import annotations

from collections.abc import Mapping

from nodes.messages import Message
from nodes.node import Node
from sim_core.support.shown import shown
from sim_core.support.suggestion import nearest

HANDLERS = tuple(name for name in vars(Node) if name.startswith("on_"))
EXAMPLE = '{"state": RobotState}'
SPEAKING = tuple(name for name in HANDLERS if name != "on_stop")


def misdeclared(cls: type[Node]) -> str:
    """One-line error about `subscribes`, `publishes` or `services` of a node class; "" if all three are valid."""
    for field in ("subscribes", "publishes"):
        table = getattr(cls, field)
        if not isinstance(table, Mapping):
            return f"{cls.__name__}.{field} is {shown(table)}; write {{topic: message type}}, such as {EXAMPLE}"
        for name, message in table.items():
            if not isinstance(name, str) or not (isinstance(message, type) and issubclass(message, Message)):
                entry = f"{shown(name)}: {shown(message)}"
                return f"{cls.__name__}.{field} has the entry {entry}; write topic: message type, as in {EXAMPLE}"
    if not isinstance(cls.services, Mapping) or not all(isinstance(word, str) for word in cls.services):
        return f"{cls.__name__}.services is {shown(cls.services)}; write {{name: one line of help}}"
    return ""


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
