"""Holes for the messages of another program's file that cannot be read: no JSON object, or with an impossible time."""

from __future__ import annotations

from nodes.framework.recording.integrity.holes import UNREADABLE, Hole

MOST_HOLES = 100  # further unreadable messages of a topic are added to its last hole


class UnreadableMessages:
    """Counts unreadable messages, with one hole for consecutive ones of a topic.

    holes  in the order of the file
    """

    def __init__(self) -> None:
        self.holes: list[Hole] = []
        self._open: dict[str, Hole] = {}
        self._latest: dict[str, Hole] = {}
        self._last_s: dict[str, float] = {}

    def add(self, topic: str, reason: str) -> None:
        """Count an unreadable message."""
        hole = self._open.get(topic)
        if hole is None and len(self.holes) >= MOST_HOLES:
            hole = self._latest.get(topic)
        if hole is None:
            hole = Hole(start_s=self._last_s.get(topic), end_s=None, cause=UNREADABLE, messages={}, reason=reason)
            self.holes.append(hole)
        self._open[topic] = self._latest[topic] = hole
        hole.messages[topic] = hole.messages.get(topic, 0) + 1

    def pass_readable(self, topic: str, time_s: float) -> None:
        """Take the log time (s) of a readable message, at which the hole before it ends."""
        self._last_s[topic] = time_s
        if self._open and (hole := self._open.pop(topic, None)) is not None:
            hole.end_s = time_s
