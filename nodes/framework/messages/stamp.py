"""Sequence numbers and send times of messages: stamping at the publisher, tracking of gaps at the subscriber."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from nodes.framework.messages.structs import UNSTAMPED, Message


def is_stamped(message: Message) -> bool:
    """Whether the timestamp of the message has been set; 0.0 counts as set."""
    return message.timestamp is not UNSTAMPED


class MessageStamper:
    """Stamps the messages of one publisher with sequence number `seq` and send time `sent_ns`.

    The sequence numbers of each topic begin at 1.

    wall_clock  whether to set `sent_ns`; if False, `sent_ns` stays 0
    now_ns      function that returns the time of the clock, ns since the epoch
    """

    def __init__(self, wall_clock: bool = True, now_ns: Callable[[], int] = time.time_ns) -> None:
        self._seq: dict[str, int] = {}
        self._wall_clock = wall_clock
        self._now_ns = now_ns

    @property
    def last(self) -> dict[str, int]:
        """{topic: seq of the latest stamped message}."""
        return dict(self._seq)

    def resume(self, last: Mapping[str, int]) -> None:
        """Continue the sequence numbers of an earlier stamper, whose attribute `last` is given as `last`."""
        self._seq = dict(last)

    def stamp(self, topic: str, message: Message) -> int:
        """Fill in seq and sent_ns of the message; returns the seq."""
        seq = self._seq.get(topic, 0) + 1
        self._seq[topic] = seq
        message.seq = seq
        message.sent_ns = self._now_ns() if self._wall_clock else 0
        return seq

    def take_back(self, topic: str) -> None:
        """Give the seq of the latest stamped message to the next one, because the message is not sent."""
        self._seq[topic] -= 1


class SequenceTracker:
    """Tracks the sequence numbers of messages from one publisher.

    A gap means that messages were lost. A number that is not higher than the last number means a repeated message.

    lost     {topic: number of messages lost so far}
    gap      number of messages lost immediately before the latest new message
    pending  {topic: number of lost messages that no new message has followed}
    """

    def __init__(self) -> None:
        self._last: dict[str, int] = {}
        self.lost: dict[str, int] = {}
        self.gap = 0
        self.pending: dict[str, int] = {}

    def is_new(self, topic: str, seq: int) -> bool:
        """Whether `seq` is higher than all earlier numbers on the topic.

        If so, `seq` is recorded, and the numbers between the previous highest number and `seq` are counted as lost.
        """
        last = self._last.get(topic, seq - 1)
        if seq <= last and topic in self._last:
            return False
        self.gap = max(seq - last - 1, 0)
        if self.gap:
            self.lost[topic] = self.lost.get(topic, 0) + self.gap
        if self.pending:
            self.gap += self.pending.pop(topic, 0)
        self._last[topic] = seq
        return True

    def has_begun(self, topic: str) -> bool:
        """Whether a number of the topic has been recorded."""
        return topic in self._last

    def pass_latest(self, latest: Mapping[str, int]) -> None:
        """Count the messages as lost that the publisher has sent and that have not arrived.

        latest  {topic: seq of the publisher's latest message}, sent by the publisher after these messages. It is where
                the numbers of a topic begin of which no message has arrived yet
        """
        for topic, seq in latest.items():
            last = self._last.get(topic, seq)
            if seq > last:
                self.lost[topic] = self.lost.get(topic, 0) + seq - last
                self.pending[topic] = self.pending.get(topic, 0) + seq - last
            self._last[topic] = max(seq, last)
