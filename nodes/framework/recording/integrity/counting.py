"""Counts of the messages of a file that were read, and of those that are missing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from nodes.framework.recording.integrity import checks
from nodes.framework.recording.integrity.channels import FileChannels
from nodes.framework.recording.integrity.chunks import RawMessage
from nodes.framework.recording.integrity.holes import DAMAGED, LOST, NOT_WRITTEN, Hole
from nodes.framework.recording.integrity.records import Channel
from nodes.framework.recording.integrity.summary import Summary

OUT_OF_ORDER = "messages that are repeated or out of order, which are ignored"


@dataclass(slots=True)
class FoundHole:
    """A hole, with the state of the scan when the hole was found.

    opened_at  number of messages read before the hole
    before_s   log time of the message before the chunk in which the hole was found, s; None if there is none
    settled    whether a later check record, or the file's statistics, has determined the number of missing messages
    last_s     log time of the last missing message, s; None if no check record contains this time
    """

    hole: Hole
    opened_at: int
    before_s: float | None = None
    settled: bool = False
    last_s: float | None = None


class MessageCounter:
    """Counts read messages, and finds holes (missing messages) from sequence numbers, check records and statistics.

    read           number of messages read
    last_ns        log time of the latest message, ns; None before the first message
    before_chunk_s log time of the message before the chunk that is being read, s
    is_displaced   whether chunks or check records since the last confirmed one are in a wrong place
    checked_at     number of messages read up to the last check record, which names all channels
    """

    def __init__(self, channels: FileChannels, note: Callable[[str], None]) -> None:
        self.read = 0
        self.last_ns: int | None = None
        self.before_chunk_s: float | None = None
        self.is_displaced = False
        self.checked_at = 0
        self._channels, self._note = channels, note
        self._holes: list[FoundHole] = []
        self._unconfirmed: list[FoundHole] = []  # holes found since the last check record, with the cause NOT_WRITTEN

    def is_out_of_order(self, chunk: list[RawMessage]) -> bool:
        """Whether messages of the chunk were read before, or were counted as missing before."""
        first = {number: sequence for number, sequence, _, _ in reversed(chunk)}
        return any(
            (channel := self._channels.read.get(number)) is not None
            and channel.counted
            and (sequence - channel.expected) & 0xFFFFFFFF >= 1 << 31
            for number, sequence in first.items()
        )

    def count(self, message: RawMessage) -> Channel | None:
        """Count a message and return its channel; None for a message that is not used.

        A message is not used if its channel is unknown, or if its sequence number was passed before (out of order).
        """
        number, sequence, log_time, _ = message
        channel = self._channels.read.get(number) or self._channels.known(number)
        if channel.counted:
            ahead = (sequence - channel.expected) & 0xFFFFFFFF
            if ahead >= 1 << 31:
                self._note(OUT_OF_ORDER)
                return None
            if ahead:
                place = self._count_missing(channel, ahead)
                if place.hole.cause != DAMAGED:
                    _extend(place.hole, channel.last_s, log_time / 1e9)
            channel.expected += ahead + 1
        if not channel.topic:
            self._count_missing(Channel(f"(channel {number})", "", False, counted_at=self.read), 1)
            return None
        self.read += 1
        channel.read, channel.last_s = channel.read + 1, log_time / 1e9
        channel.counted_at = self.read
        if self._holes and self._holes[-1].hole.end_s is None:
            for place in self._holes:
                if place.hole.end_s is None:
                    place.hole.end_s = log_time / 1e9
        self.last_ns = log_time
        return channel

    def _count_missing(self, channel: Channel, count: int, span_s: tuple[float, float] | None = None) -> FoundHole:
        """Count `count` missing messages of a channel, and return the hole to which they are added.

        The messages are added to a hole that was found since the channel was last known to be complete: since a message
        of the channel was read, or a check record showed that none was missing. If there is no such hole, a new hole is
        opened. If there are several, the messages are added to the one that contains their log times. If these times
        are unknown, the messages may be missing in any of the holes; the last one is then extended to the first one.

        span_s  first and last log time of the missing messages, s
        """
        since = [place for place in self._holes if place.opened_at >= channel.counted_at]
        if not since:
            place = self._open(NOT_WRITTEN)
            place.settled = True
            self._unconfirmed.append(place)
        elif len(since) == 1:
            (place,) = since
        elif span_s is not None and (around := [place for place in since if _contains(place.hole, span_s)]):
            place = around[0]
        else:
            place = since[-1]
            place.hole.start_s = since[0].hole.start_s
        if place.hole.cause == DAMAGED:
            channel.damaged += count
        place.hole.messages[channel.topic] = place.hole.messages.get(channel.topic, 0) + count
        return place

    def _open(self, cause: str) -> FoundHole:
        start_s = None if self.last_ns is None else self.last_ns / 1e9
        place = FoundHole(Hole(start_s=start_s, end_s=None, messages={}, cause=cause), self.read, self.before_chunk_s)
        self._holes.append(place)
        return place

    def take_check(self, check: checks.Check, is_own: bool) -> None:
        """Compare the numbers of messages read with the numbers in a check record, and count the missing messages.

        is_own  whether the check record follows its own chunk
        """
        # messages from behind the check record may have been read before it, where chunks were moved; the check record
        # then says nothing about the messages between
        read = {number: channel.expected for number, channel in self._channels.read.items() if channel.counted}
        is_passed = any(read.get(row.id, 0) > row.total for row in check.channels)
        lost, count, is_of_chunk = [], 0, True
        unfollowed: list[tuple[Channel, int]] = []  # lost messages that no message of the chunk followed
        for row in check.channels:
            channel = self._channels.read.setdefault(row.id, Channel(row.topic, row.schema, True))
            if not channel.topic:
                channel.topic, channel.schema, channel.counted = row.topic, row.schema, True
            if channel.expected < row.total and row.count == 0 and row.total - channel.expected <= row.lost:
                unfollowed.append((channel, row.total - channel.expected))
                channel.expected = row.total
            elif channel.expected < row.total:
                are_in_chunk = row.total - channel.expected <= row.count
                span_s = (row.first_ns / 1e9, row.last_ns / 1e9) if are_in_chunk else None
                place = self._count_missing(channel, row.total - channel.expected, span_s)
                if place.hole.cause != DAMAGED:
                    _extend(place.hole, channel.last_s, None)
                is_of_chunk = is_of_chunk and are_in_chunk
                count += row.total - channel.expected
                channel.expected = row.total
                lost.append(row)
            if not is_passed:
                channel.counted_at = self.read
            is_own = is_own and channel.expected == row.total
        if lost:
            place = self._holes[-1]
            self._set_times(place, lost, is_of_chunk and sum(place.hole.messages.values()) == count)
        if not is_own or self.is_displaced:
            self.attribute_to_damage()
        if unfollowed:
            place = self._open(LOST)
            for channel, missing in unfollowed:
                place.hole.messages[channel.topic] = missing
                _extend(place.hole, channel.last_s, None)
        self.is_displaced = not is_own or is_passed
        unreceived = {row.topic for row in check.channels if row.lost}
        for place in self._unconfirmed:
            if place.hole.messages.keys() <= unreceived:
                place.hole.cause = LOST
        self._unconfirmed.clear()
        if not is_passed:
            self.checked_at = self.read
            for place in self._holes:
                place.settled = True

    def attribute_to_damage(self) -> None:
        """Set the cause of the holes since the last check record to "damaged", because chunks were removed or moved."""
        channels = {channel.topic: channel for channel in self._channels.read.values()}
        for place in self._unconfirmed:
            place.hole.cause, place.hole.start_s = DAMAGED, place.before_s
            for topic, count in place.hole.messages.items():
                if topic in channels:
                    channels[topic].damaged += count
        self._unconfirmed.clear()

    def _set_times(self, place: FoundHole, lost: list[checks.ChannelCheck], is_of_chunk: bool) -> None:
        """Set the times of a hole from a check record, because the missing messages themselves cannot be read.

        If no message precedes the hole, its start time is set to the log time of the first missing message. `last_s` is
        set to the log time of the last missing message, for use if no message follows the hole.

        lost         rows of the check record for the channels with missing messages
        is_of_chunk  whether all missing messages of the hole were in the chunk before the check record; only then does
                     the record contain the log time of the first one
        """
        counted = [row for row in lost if row.count]
        if not counted:
            return
        if place.hole.start_s is None and is_of_chunk:
            place.hole.start_s = min(row.first_ns for row in counted) / 1e9
        place.last_s = max(row.last_ns for row in counted) / 1e9

    def settle_by(self, summary: Summary) -> None:
        """Compare the numbers of messages read with the file's statistics, and assign missing messages to a hole.

        Missing messages that no hole counts yet are assigned to the one damaged part whose number of missing
        messages is still unknown. If this number is unknown for several holes, the messages are not assigned. If it is
        known for all holes, the messages are missing after the last message read, and are assigned to a hole there; if
        there is no hole at this place, one is added.
        """
        if summary.counts is None:
            return
        is_open = [place for place in self._holes if place.hole.cause == DAMAGED]
        missing: dict[str, int] = {}
        for number, count in summary.counts.items():
            channel = self._channels.read.get(number) or self._channels.known(number)
            if count > channel.read + channel.damaged:
                topic = channel.topic or f"(channel {number})"
                missing[topic] = missing.get(topic, 0) + count - channel.read - channel.damaged
        at_end = [place for place in is_open[-1:] if place.opened_at == self.read]
        unsettled = [place for place in is_open if not place.settled] or at_end
        if not missing:
            for place in is_open:
                place.settled = True
        elif len(unsettled) == 1:
            (place,) = unsettled
            place.settled, place.last_s = True, None
            for topic, count in missing.items():
                place.hole.messages[topic] = place.hole.messages.get(topic, 0) + count
        elif not unsettled:
            place = self._open(DAMAGED)
            place.hole.messages, place.settled = missing, True

    def holes_so_far(self) -> list[Hole]:
        """The holes (missing messages) in the part of the file that was read so far.

        The attribute `counted` of a hole is false while its number of missing messages is unknown, because that number
        is in a later part of the file.
        """
        return [
            msgspec.structs.replace(
                place.hole, messages=dict(place.hole.messages), counted=place.settled or place.hole.cause != DAMAGED
            )
            for place in self._holes
            if place.hole.messages or not place.settled
        ]

    def open_damage(self) -> None:
        """Open a hole at a damaged part of the file, or extend the hole that was opened there."""
        self.attribute_to_damage()
        last = self._holes[-1] if self._holes else None
        if last is None or last.opened_at < self.read or last.hole.cause != DAMAGED:
            self._open(DAMAGED)
        else:
            last.settled, last.last_s = False, None

    def complete(self) -> list[Hole]:
        """All holes, after the whole file was read and `settle_by` was called."""
        found = []
        end_s = None if self.last_ns is None else self.last_ns / 1e9
        for place in self._holes:
            hole = place.hole
            if hole.cause == DAMAGED and not place.settled:
                hole.counted = False
            if hole.end_s is None and place.last_s is not None:
                hole.end_s = place.last_s if end_s is None else max(place.last_s, end_s)
            if hole.messages or not hole.counted:
                found.append(hole)
            else:
                self._note("records that hold no messages")
        return found


def _extend(hole: Hole, start_s: float | None, end_s: float | None) -> None:
    """Extend a hole in which messages of one topic are missing.

    start_s  log time of this topic's message before the hole, s; None if there is none
    end_s    log time of this topic's message after the hole, s; None if it is not known yet
    """
    hole.start_s = None if start_s is None or hole.start_s is None else min(hole.start_s, start_s)
    if end_s is not None:
        hole.end_s = end_s if hole.end_s is None else max(hole.end_s, end_s)


def _contains(hole: Hole, span_s: tuple[float, float]) -> bool:
    """Whether a time span lies within a hole (missing messages).

    A hole at the beginning or at the end of the file has no bound on that side.

    span_s  first and last time of the span, s
    """
    first, last = span_s
    return (hole.start_s is None or hole.start_s <= first) and (hole.end_s is None or last <= hole.end_s)
