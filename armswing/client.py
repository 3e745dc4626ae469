"""Access to a running launch from outside: its nodes, topics, services and message streams. Also reads recordings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nodes.framework import client as _client

if TYPE_CHECKING:
    from nodes.framework.client import *  # noqa: F403


def __dir__() -> list[str]:
    return sorted(_client.__all__)


def __getattr__(name: str) -> Any:
    return getattr(_client, name)
