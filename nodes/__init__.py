"""Nodes, their framework, and the command line. `armswing` has the names for users.

`nodes.Node`, `nodes.Context`, `nodes.messages` and `nodes.client` are the names of version 0.1, loaded on first use.
"""

from __future__ import annotations

import importlib
import warnings
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nodes.node import Context as Context
    from nodes.node import Node as Node

__all__ = ["Context", "Node", "client", "messages"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"nodes has no {name!r}; it has {', '.join(__all__)}")
    if name in ("client", "messages"):
        return importlib.import_module(f"nodes.{name}")
    warnings.warn(f"nodes.{name} is removed in version 0.3; import it from armswing", FutureWarning, stacklevel=2)
    found = getattr(importlib.import_module("nodes.node"), name)
    return globals().setdefault(name, found)  # an import statement asks twice


def __dir__() -> list[str]:
    return __all__
