"""Nodes, messages, transport and command line. `nodes.Node`, `nodes.messages` and `nodes.client` load on first use."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nodes import client as client
    from nodes import messages as messages
    from nodes.node import Context as Context
    from nodes.node import Node as Node

_HOMES = {"Context": "nodes.node", "Node": "nodes.node"}
_MODULES = {"messages": "nodes.messages", "client": "nodes.client"}
__all__ = sorted([*_HOMES, *_MODULES])


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(_MODULES[name])
    if name not in _HOMES:
        raise AttributeError(f"nodes has no {name!r}; it has {', '.join(__all__)}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return __all__
