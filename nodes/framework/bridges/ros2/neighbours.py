"""Warnings about nodes of the ROS graph with which the bridge cannot speak."""

from __future__ import annotations

import threading
from collections.abc import Callable

from nodes.framework.bridges.ros2 import graph
from nodes.framework.bridges.ros2.graph import Endpoint
from nodes.framework.bridges.ros2.session import RosSession
from nodes.framework.transport.rejections import escaped

MOST = 4096  # endpoints whose warning is remembered
HUMBLE = (
    "{node}: its endpoints have no type hashes, as those of ROS 2 Humble; it and this bridge do not receive each "
    "other's messages: use Jazzy or Kilted"
)


class Neighbours:
    """Compares the endpoints of other sessions with those of the bridge.

    session  the bridge's session
    report   function that is called with a line for the user, once for each node or endpoint
    """

    def __init__(self, session: RosSession, report: Callable[[str], None]) -> None:
        self._session, self._report = session, report
        self._warned: set[str] = set()
        self._lock = threading.Lock()

    def changed(self, other: Endpoint, is_there: bool) -> None:
        """Check an endpoint that appeared. May be called from any thread."""
        if not is_there or other.kind == graph.NODE:
            return
        if other.hash == graph.NO_HASH:
            self._warn(other.full_node_name, HUMBLE.format(node=other.full_node_name[:120]))
            return
        own = self._session.declared.get(other.name)
        if own is None or (own.type, own.hash) == (other.type, other.hash):
            return
        if own.type != other.type:
            differs = f"the type {other.type[:120]}, here it is {own.type}"
        else:
            differs = f"the type hash {other.hash[:80]} for {own.type}, here it is {own.hash}"
        line = f"{other.full_node_name[:120]}: {other.name[:120]} has {differs}; neither receives the other's messages"
        self._warn(f"{other.full_node_name} {other.name} {other.hash}", line)

    def _warn(self, key: str, line: str) -> None:
        with self._lock:
            self._session.refusals.count += 1
            if key in self._warned or len(self._warned) >= MOST:
                return
            self._warned.add(key)
        self._report(escaped(line))  # names come from any sender
