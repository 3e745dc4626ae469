"""Scanner: reads every intact message of an MCAP file that may be damaged, and counts the missing messages.

Only data confirmed by a checksum are used: messages come from chunks with the right CRC. The scanner skips from record
to record by the records' lengths. If a length is implausible, the scanner searches, from the end of the last confirmed
record on, for the next intact chunk or the next check record. A check record is an additional record with message
counts (module `checks`). The number of missing messages follows from three sources: the field `sequence` of the
messages, the check records, and the statistics at the end of the file. A file that has only the statistics, or no
message counts at all, can be read too.
"""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

import msgspec
from mcap.exceptions import McapError, UnsupportedCompressionError
from mcap.opcode import Opcode
from mcap.writer import MCAP0_MAGIC

from nodes.recording.integrity import checks as checks
from nodes.recording.integrity.holes import CUT_OFF, DAMAGED, LOST, NOT_WRITTEN, Hole
from nodes.recording.integrity.records import Channel, channel_of, has_schema, metadata_of, schema_of, text_at
from nodes.recording.integrity.summary import Summary, is_closed_by, read_summary

MAX_RECORD_BYTES = 256 << 20
MAX_INFLATED_BYTES = 64 << 20  # of a compressed chunk, whose size in the file is no limit
WINDOW_BYTES = 1 << 20  # length of file searched at a time
BEGINNING_BYTES = 256 << 10  # searched for a check record where the first bytes of the file are damaged
OUT_OF_ORDER = "messages that are repeated or out of order, which are ignored"
HEAD = checks.HEAD
LIBRARY = "armswing"
_BEGINNING = MCAP0_MAGIC + bytes([Opcode.HEADER])  # of any MCAP file
_MESSAGE = struct.Struct("<HIQQ")  # channel, sequence, log time, publish time
_CHUNK = checks.CHUNK
_LONGEST_CHUNK_HEAD = HEAD.size + _CHUNK.size + 4 + 8
_CHUNK_HEAD = re.compile(rb"\x06.{36}(?:\x00\x00\x00\x00|\x04\x00\x00\x00zstd|\x03\x00\x00\x00lz4)", re.DOTALL)
_KNOWN = frozenset(int(opcode) for opcode in Opcode)
# records that may be outside of chunks
_OUTSIDE = frozenset({Opcode.SCHEMA, Opcode.CHANNEL, Opcode.MESSAGE, Opcode.ATTACHMENT})

RawMessage = tuple[int, int, int, bytes]  # channel, sequence, log time in ns, payload
ReadMessage = tuple[Channel, int, bytes]  # channel, log time in ns, payload


@dataclass(slots=True)
class _FoundHole:
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


class Scanner:
    """One pass over a file: iterate over `messages`. The attributes are complete after the iteration.

    holes             missing messages, in file order
    damage            short descriptions of damage that removed no message
    cut_off           whether the file ends before its writer closed it
    metadata          the run's metadata; {} if no copy is intact
    metadata_damaged  whether the file had metadata of which no copy is intact
    position          end of the part of the file that was read so far, bytes
    """

    def __init__(self, file: BinaryIO, size: int) -> None:
        self.holes: list[Hole] = []
        self.damage: list[str] = []
        self.cut_off = False
        self.metadata: dict[str, str] = {}
        self.metadata_damaged = False
        self.position = 0
        self._file, self._size = file, size
        self._has_checks = False
        self._library = ""  # program that wrote the file, by its first record
        self._schemas: dict[int, str] = {0: ""}
        self._channels: dict[int, Channel] = {}
        self._found_holes: list[_FoundHole] = []
        self._checked_at = 0  # number of messages read up to the last check record, which names all channels
        self._verified = 0  # end of the last confirmed record
        self._read = 0
        self._unconfirmed: list[_FoundHole] = []  # holes found since the last check record, with the cause NOT_WRITTEN
        self._last_ns: int | None = None
        self._before_chunk_s: float | None = None
        self._frame: tuple[int, int] | None = None  # start of the last chunk; CRC of its head and later records
        self._candidates: list[dict[str, str]] = []  # metadata not confirmed by a checksum
        self._run_crc: int | None = None
        self._is_damaged_before_messages = False
        self._has_ended = False  # whether the record DATA_END was read
        self._has_unknown = False  # whether records of unknown types were skipped
        self._is_displaced = False  # whether chunks or check records since the last confirmed one are in a wrong place
        self._no_check_from: int | None = None
        self._summary_read = False
        self._summary_found: Summary | None = None

    @property
    def has_checks(self) -> bool:
        """Whether armswing wrote the file: the file has check records, or lost them by damage."""
        return self._has_checks

    @property
    def channels(self) -> dict[str, str]:
        """{topic: schema} of the channels read so far, and of those in the file's summary."""
        summary = self._summary()
        listed = [] if summary is None else summary.channels.values()
        return {channel.topic: channel.schema for channel in [*self._channels.values(), *listed] if channel.topic}

    # -- the pass

    def messages(self) -> Iterator[ReadMessage]:
        """(channel, log time in ns, payload) of each intact message, in file order."""
        for batch in self.batches():
            yield from batch

    def batches(self) -> Iterator[Iterator[ReadMessage]]:
        """All messages in batches. A batch has the messages of one chunk, or one message outside of chunks.

        Each batch has to be read to its end before the next one.
        """
        position: int | None = self._begin()
        while position is not None and position < self._size:
            chunk: list[RawMessage] = []
            end = self._step(position, chunk)
            if end is None:
                position = self._resynchronize(position)
                continue
            self.position = end
            if chunk:
                yield self._counted(chunk)
            position = end
        self._finish()

    def _counted(self, chunk: list[RawMessage]) -> Iterator[ReadMessage]:
        """Count the messages of a chunk, and yield (channel, log time in ns, payload) of each.

        Nothing is yielded for a chunk that is in the file twice or out of order.
        """
        if self._is_out_of_order(chunk):
            self._note_damage(OUT_OF_ORDER)
            self._is_displaced = True
            return
        self._before_chunk_s = None if self._last_ns is None else self._last_ns / 1e9
        for message in chunk:
            if (channel := self._count(message)) is not None:
                yield channel, message[2], message[3]

    def _is_out_of_order(self, chunk: list[RawMessage]) -> bool:
        """Whether messages of the chunk were read before, or were counted as missing before."""
        first = {number: sequence for number, sequence, _, _ in reversed(chunk)}
        return any(
            (channel := self._channels.get(number)) is not None
            and channel.counted
            and (sequence - channel.expected) & 0xFFFFFFFF >= 1 << 31
            for number, sequence in first.items()
        )

    def holes_so_far(self) -> list[Hole]:
        """The holes (missing messages) in the part of the file that was read so far.

        The attribute `counted` of a hole is false while its number of missing messages is unknown, because that number
        is in a later part of the file.
        """
        return [
            msgspec.structs.replace(
                place.hole, messages=dict(place.hole.messages), counted=place.settled or place.hole.cause != DAMAGED
            )
            for place in self._found_holes
            if place.hole.messages or not place.settled
        ]

    def _bytes(self, start: int, length: int) -> bytes:
        self._file.seek(start)
        return self._file.read(min(length, self._size - start))

    @property
    def is_recording(self) -> bool:
        """Whether the file is MCAP. A file whose first bytes are damaged or missing is recognized by its check records,
        its summary or its last bytes."""
        if self._bytes(0, len(MCAP0_MAGIC)) == MCAP0_MAGIC[: self._size]:
            return True
        if checks.MAGIC in self._bytes(0, BEGINNING_BYTES) or self._summary() is not None:
            return True
        return is_closed_by(self._bytes, self._size)

    def _begin(self) -> int:
        """Position of the first record, after the magic bytes."""
        if self._bytes(0, len(MCAP0_MAGIC)) != MCAP0_MAGIC:
            self._note_damage("its first bytes")
        self._verified = len(MCAP0_MAGIC)
        return self._verified

    def _step(self, position: int, chunk: list[RawMessage]) -> int | None:
        """Process the record at `position`, and return the position of its end; None for a damaged record.

        If the record is a chunk, its messages are appended to `chunk`.
        """
        head = self._bytes(position, HEAD.size)
        if len(head) < HEAD.size:
            return None
        opcode: int
        length: int
        opcode, length = HEAD.unpack(head)
        start, end = position + HEAD.size, position + HEAD.size + length
        if length > MAX_RECORD_BYTES or end > self._size:
            return None
        content = self._bytes(start, length)
        if opcode == Opcode.CHUNK:
            found = self._chunk(content)
            if found is None:
                return None
            chunk += found
            self._frame = position, zlib.crc32(head + content[: checks.chunk_head_bytes(content)])
            self._verified = end
        elif opcode == checks.OPCODE:
            check = checks.decode_check(content)
            if check is None or check[1] != length:
                return None
            self._take_check(check[0])
            self._verified = end
        elif opcode == Opcode.DATA_END:
            if length != 4 or not self._is_end(end):
                return None
            if self._has_checks and any(content):  # this writer leaves DATA_END's checksum at 0
                self._note_damage("its closing index")
            return self._size
        elif not self._passes(opcode, content, position, chunk):
            return None
        elif self._frame is not None:
            self._frame = self._frame[0], zlib.crc32(content, zlib.crc32(head, self._frame[1]))
        return end

    def _passes(self, opcode: int, content: bytes, position: int, chunk: list[RawMessage]) -> bool:
        """Process a record that has no checksum, if the lengths inside its content are consistent.

        Returns whether the lengths are consistent.

        position  position of the record in the file
        chunk     list to which the record's message is appended, if the record is a message
        """
        try:
            if opcode == Opcode.MESSAGE_INDEX:
                return len(content) >= 6 and struct.unpack_from("<I", content, 2)[0] == len(content) - 6
            if opcode == Opcode.METADATA:
                name, metadata = metadata_of(content)
                if name == "armswing":
                    self._candidates.append(metadata)
                    if not self.metadata and not self._has_checks:
                        self.metadata = metadata
                return True
            if opcode == Opcode.HEADER:
                self._library, end = text_at(content, text_at(content, 0)[1])
                return position == len(MCAP0_MAGIC) and end == len(content)
            if self._has_checks:
                return False
            # another writer's file: messages outside of chunks, attachments, unknown records
            if opcode == Opcode.SCHEMA:
                self._take_schema(content)
            elif opcode == Opcode.CHANNEL:
                self._take_channel(content)
            elif opcode == Opcode.MESSAGE:
                channel, sequence, log_time, _ = _MESSAGE.unpack_from(content)
                chunk.append((channel, sequence, log_time, content[_MESSAGE.size :]))
            if opcode not in _KNOWN and opcode != 0:
                self._has_unknown = True
                return True
            return opcode in _OUTSIDE
        except (struct.error, ValueError):
            return False

    def _chunk(self, content: bytes) -> list[RawMessage] | None:
        """Messages of a chunk record; None for a damaged chunk."""
        try:
            size_of_head = checks.chunk_head_bytes(content)
            _, _, size, crc, _ = _CHUNK.unpack_from(content)
            compression = content[_CHUNK.size : size_of_head - 8].decode()
            (length,) = struct.unpack_from("<Q", content, size_of_head - 8)
            if length != len(content) - size_of_head or size > (
                MAX_INFLATED_BYTES if compression else MAX_RECORD_BYTES
            ):
                return None
            if compression not in ("", "lz4", "zstd"):
                raise UnsupportedCompressionError(compression)
            data = content[size_of_head:]
            if compression:
                data = _decompressed(compression, data, size)
            if (crc or self._has_checks) and zlib.crc32(data) != crc:
                return None
            return list(self._records(data))
        except UnsupportedCompressionError:
            if self._is_plausible_compression(content):
                raise
            return None
        except (struct.error, ValueError, RuntimeError, MemoryError, EOFError, McapError, OSError):
            return None
        except Exception as error:  # exceptions of the decompressors have no common base class
            if type(error).__module__.partition(".")[0] in ("zstandard", "lz4"):
                return None
            raise

    @staticmethod
    def _is_plausible_compression(content: bytes) -> bool:
        return content[_CHUNK.size : checks.chunk_head_bytes(content) - 8] in (b"lz4", b"zstd")

    def _records(self, data: bytes) -> Iterator[RawMessage]:
        """Messages of a decompressed chunk. The schemas and channels in the chunk are added to `_schemas` and
        `_channels`.
        """
        position, size = 0, len(data)
        while position < size:
            opcode, length = HEAD.unpack_from(data, position)
            start = position + HEAD.size
            position = start + length
            if position > size:
                raise ValueError(
                    f"damaged chunk: the record at byte {start} of {size} has {length} bytes and exceeds the chunk"
                )
            if opcode == Opcode.MESSAGE:
                channel, sequence, log_time, _ = _MESSAGE.unpack_from(data, start)
                yield channel, sequence, log_time, data[start + _MESSAGE.size : position]
            elif opcode == Opcode.SCHEMA:
                self._take_schema(data[start:position])
            elif opcode == Opcode.CHANNEL:
                self._take_channel(data[start:position])

    # -- channels

    def _take_schema(self, content: bytes) -> None:
        number, self._schemas[number] = schema_of(content)

    def _take_channel(self, content: bytes) -> None:
        number, channel = channel_of(content, self._schemas)
        if not channel.schema and (there := self._channel_elsewhere(number)) is not None:
            channel.schema = there.schema
        if not channel.schema and has_schema(content):  # what its messages mean is lost: they are missing
            channel.topic = ""
        known = self._channels.get(number)
        if known is None:
            channel.counted_at = self._checked_at
            self._channels[number] = channel
        else:
            known.topic, known.schema, known.counted = channel.topic, channel.schema or known.schema, channel.counted
        if channel.counted and not self._has_checks:
            self._has_checks = not self._is_rewritten()

    def _is_rewritten(self) -> bool:
        """Whether another program copied the messages of a recording into a file of its own.

        Such a file is closed, names the other program, and has no check record at all.
        """
        return self._library not in ("", LIBRARY) and self._summary() is not None and self._next_check(0) is None

    def _known_channel(self, number: int) -> Channel:
        """The channel with this number.

        If no channel record with this number was read, the channel comes from the file's summary or from the next check
        record. If these do not contain the channel either, the result has an empty topic.
        """
        channel = self._channels.get(number)
        if channel is not None:
            return channel
        channel = self._channels[number] = self._channel_elsewhere(number) or Channel("", "", False)
        return channel

    def _channel_elsewhere(self, number: int) -> Channel | None:
        """The channel with this number from the file's summary, or otherwise from the next check record.

        Returns None if neither the summary nor the check record contains the channel.
        """
        summary = self._summary()
        if summary is not None and number in summary.channels:
            there = summary.channels[number]
            return Channel(there.topic, there.schema, there.counted)
        if (check := self._next_check(self._verified)) is not None:
            for row in check[0].channels:
                if row.id == number:
                    return Channel(row.topic, row.schema, True)
        return None

    # -- counting

    def _count(self, message: RawMessage) -> Channel | None:
        """Count a message and return its channel; None for a message that is not used.

        A message is not used if its channel is unknown, or if its sequence number was passed before (out of order).
        """
        number, sequence, log_time, _ = message
        channel = self._channels.get(number) or self._known_channel(number)
        if channel.counted:
            ahead = (sequence - channel.expected) & 0xFFFFFFFF
            if ahead >= 1 << 31:
                self._note_damage(OUT_OF_ORDER)
                return None
            if ahead:
                place = self._count_missing(channel, ahead)
                if place.hole.cause != DAMAGED:
                    _extend(place.hole, channel.last_s, log_time / 1e9)
            channel.expected += ahead + 1
        if not channel.topic:
            self._count_missing(Channel(f"(channel {number})", "", False, counted_at=self._read), 1)
            return None
        self._read += 1
        channel.read, channel.last_s = channel.read + 1, log_time / 1e9
        channel.counted_at = self._read
        if self._found_holes and self._found_holes[-1].hole.end_s is None:
            for place in self._found_holes:
                if place.hole.end_s is None:
                    place.hole.end_s = log_time / 1e9
        self._last_ns = log_time
        return channel

    def _count_missing(self, channel: Channel, count: int, span_s: tuple[float, float] | None = None) -> _FoundHole:
        """Count `count` missing messages of a channel, and return the hole to which they are added.

        The messages are added to a hole that was found since the channel was last known to be complete: since a message
        of the channel was read, or a check record showed that none was missing. If there is no such hole, a new hole is
        opened. If there are several, the messages are added to the one that contains their log times. If these times
        are unknown, the messages may be missing in any of the holes; the last one is then extended to the first one.

        span_s  first and last log time of the missing messages, s
        """
        since = [place for place in self._found_holes if place.opened_at >= channel.counted_at]
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

    def _open(self, cause: str) -> _FoundHole:
        start_s = None if self._last_ns is None else self._last_ns / 1e9
        place = _FoundHole(
            Hole(start_s=start_s, end_s=None, messages={}, cause=cause), self._read, self._before_chunk_s
        )
        self._found_holes.append(place)
        return place

    def _take_check(self, check: checks.Check) -> None:
        """Compare the numbers of messages read with the numbers in a check record, and count the missing messages."""
        self._has_checks = True
        self._run_crc = check.run_crc
        if check.metadata is not None:
            self.metadata = check.metadata
            damaged = any(checks.metadata_crc(each) != check.run_crc for each in self._candidates)
            if damaged or not self._candidates:
                self._note_damage("one of the two copies of its run's metadata")
        # whether the check record follows its own chunk; offset 0: the recorder wrote it without a chunk
        is_own = self._frame == ((check.offset, check.frame_crc) if check.offset else None)
        # messages from behind the check record may have been read before it, where chunks were moved; the check record
        # then says nothing about the messages between
        read = {number: channel.expected for number, channel in self._channels.items() if channel.counted}
        is_passed = any(read.get(row.id, 0) > row.total for row in check.channels)
        lost, count, is_of_chunk = [], 0, True
        unfollowed: list[tuple[Channel, int]] = []  # lost messages that no message of the chunk followed
        for row in check.channels:
            channel = self._channels.setdefault(row.id, Channel(row.topic, row.schema, True))
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
                channel.counted_at = self._read
            is_own = is_own and channel.expected == row.total
        if lost:
            place = self._found_holes[-1]
            self._set_times(place, lost, is_of_chunk and sum(place.hole.messages.values()) == count)
        if not is_own or self._is_displaced:
            self._attribute_to_damage()
        if unfollowed:
            place = self._open(LOST)
            for channel, missing in unfollowed:
                place.hole.messages[channel.topic] = missing
                _extend(place.hole, channel.last_s, None)
        self._is_displaced = not is_own or is_passed
        unreceived = {row.topic for row in check.channels if row.lost}
        for place in self._unconfirmed:
            if place.hole.messages.keys() <= unreceived:
                place.hole.cause = LOST
        self._unconfirmed.clear()
        if not is_passed:
            self._checked_at = self._read
            for place in self._found_holes:
                place.settled = True
        if self._frame is not None and self._frame[0] == check.offset and self._frame[1] != check.frame_crc:
            self._note_damage("the index of a chunk")
        self._frame = None

    def _attribute_to_damage(self) -> None:
        """Set the cause of the holes since the last check record to "damaged", because chunks were removed or moved."""
        channels = {channel.topic: channel for channel in self._channels.values()}
        for place in self._unconfirmed:
            place.hole.cause, place.hole.start_s = DAMAGED, place.before_s
            for topic, count in place.hole.messages.items():
                if topic in channels:
                    channels[topic].damaged += count
        self._unconfirmed.clear()

    def _set_times(self, place: _FoundHole, lost: list[checks.ChannelCheck], is_of_chunk: bool) -> None:
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

    # -- damage

    def _note_damage(self, what: str) -> None:
        if what not in self.damage:
            self.damage.append(what)

    def _resynchronize(self, position: int) -> int | None:
        """Position from which reading continues after a damaged record; None if nothing readable follows.

        position  position of the damaged record
        """
        anchor = self._next_anchor(self._verified)
        if (other := self._next_recording(self._size if anchor is None else anchor[0])) is not None:
            self._note_damage(f"another recording at byte {other}, which is ignored")
            self._size, self._summary_read, self._no_check_from = other, False, None
            return position
        if anchor is None and not is_closed_by(self._bytes, self._size):
            self.cut_off = True
            return None
        self._attribute_to_damage()
        self._is_damaged_before_messages |= self._read == 0
        if (
            not self._found_holes
            or self._found_holes[-1].opened_at < self._read
            or self._found_holes[-1].hole.cause != DAMAGED
        ):
            self._open(DAMAGED)
        else:
            self._found_holes[-1].settled, self._found_holes[-1].last_s = False, None
        self._frame = None
        if anchor is None:
            return None
        start, check = anchor
        if check is None:
            return start
        found, end = check
        self._take_check(found)
        self._verified = end
        return end

    def _next_recording(self, until: int) -> int | None:
        """Position at which another recording begins between the last confirmed record and `until`; None if none does.

        Another recording begins there if two files were concatenated; it is ignored.
        """
        start = self._verified
        while start < until:
            window = self._bytes(start, min(WINDOW_BYTES, until - start) + len(_BEGINNING))
            if (place := window.find(_BEGINNING)) >= 0:
                return start + place
            start += WINDOW_BYTES
        return None

    def _next_anchor(self, start: int) -> tuple[int, tuple[checks.Check, int] | None] | None:
        """Find the next intact chunk or check record from position `start` on; None if there is neither.

        For a chunk, the result is (position of the chunk, None). For a check record that ends at position p, the result
        is (p, (content of the check record, p)): the end of the record, twice.
        """
        check = self._next_check(start)
        until = self._size if check is None else check[1]
        chunk = self._next_chunk(start, until)
        if chunk is not None:
            return chunk, None
        return None if check is None else (check[1], check)

    def _next_check(self, start: int) -> tuple[checks.Check, int] | None:
        """(next intact check record from position `start` on, position of its end); None if there is none."""
        if self._no_check_from is not None and start >= self._no_check_from:
            return None
        searched = start
        while start < self._size:
            window = self._bytes(start, WINDOW_BYTES + len(checks.MAGIC))
            place = window.find(checks.MAGIC)
            if place < 0:
                start += WINDOW_BYTES
                continue
            length = checks.LARGEST_BYTES + 64
            found = checks.decode_check(self._bytes(start + place, length))
            if found is not None:
                return found[0], start + place + found[1]
            start += place + 1
        self._no_check_from = searched  # a file without check records is searched only once
        return None

    def _next_chunk(self, start: int, until: int) -> int | None:
        """Position of the next intact chunk between `start` and `until`; None if there is no such chunk."""
        while start < until:
            window = self._bytes(start, WINDOW_BYTES + _LONGEST_CHUNK_HEAD)
            place = 0
            while (match := _CHUNK_HEAD.search(window, place)) is not None:
                place = match.start() + 1
                found = start + match.start()
                if match.start() < WINDOW_BYTES and found < until and self._is_chunk(found):
                    return found
            start += WINDOW_BYTES
        return None

    def _is_chunk(self, position: int) -> bool:
        head = self._bytes(position, _LONGEST_CHUNK_HEAD)
        _, length = HEAD.unpack_from(head)
        size_of_head = checks.chunk_head_bytes(head[HEAD.size :])
        if len(head) < HEAD.size + size_of_head or position + HEAD.size + length > self._size:
            return False
        (size,) = struct.unpack_from("<Q", head, HEAD.size + size_of_head - 8)
        if size + size_of_head != length:
            return False
        schemas, channels = dict(self._schemas), dict(self._channels)
        has_checks = self._has_checks
        found = self._chunk(self._bytes(position + HEAD.size, length))
        self._schemas, self._channels, self._has_checks = schemas, channels, has_checks
        return found is not None

    # -- the end of the file

    def _summary(self) -> Summary | None:
        """The summary section of the file; None if the section is missing or damaged."""
        if not self._summary_read:
            self._summary_read = True
            self._summary_found = read_summary(self._bytes, self._size)
        return self._summary_found

    def _is_end(self, end: int) -> bool:
        """Whether the part of the file that contains messages ends at `end`, where a record DATA_END ends.

        Returns False if an intact chunk or check record follows: the supposed DATA_END is then damaged data.
        """
        summary = self._summary()
        if summary is not None and summary.start in (0, end):
            return True
        if (moved := read_summary(self._bytes, self._size, end)) is not None:  # bytes before it are missing, or more
            self._summary_found = moved
            self._note_damage("its closing index")
            return True
        if self._next_anchor(end) is not None:
            return False
        self._has_ended = True
        if not is_closed_by(self._bytes, self._size):
            self.cut_off = True
        self._note_damage("its closing index")
        return True

    def _finish(self) -> None:
        """Compare the numbers of messages read with the file's statistics, and complete `holes` (missing messages)."""
        summary = self._summary()
        is_open = [place for place in self._found_holes if place.hole.cause == DAMAGED]
        if summary is None and not is_closed_by(self._bytes, self._size):
            self.cut_off = True
        if summary is not None and summary.counts is not None:
            self._settle_by(summary, is_open)
        end_s = None if self._last_ns is None else self._last_ns / 1e9
        for place in self._found_holes:
            hole = place.hole
            if hole.cause == DAMAGED and not place.settled:
                hole.counted = False
            if hole.end_s is None and place.last_s is not None:
                hole.end_s = place.last_s if end_s is None else max(place.last_s, end_s)
            if hole.messages or not hole.counted:
                self.holes.append(hole)
            else:
                self._note_damage("records that hold no messages")
        if self._has_unknown and self._has_checks:
            self._note_damage("records that hold no messages")
        if summary is None and not self.cut_off:
            self._note_damage("its closing index")
        elif self._bytes(self._size - len(MCAP0_MAGIC), len(MCAP0_MAGIC)) != MCAP0_MAGIC and not self.cut_off:
            self._note_damage("its last bytes")
        if self.cut_off and not self._has_ended:
            self.holes.append(Hole(start_s=end_s, end_s=None, counted=False, cause=CUT_OFF))
        self._settle_metadata()

    def _settle_by(self, summary: Summary, is_open: list[_FoundHole]) -> None:
        """Compare the numbers of messages read with the file's statistics, and assign missing messages to a hole.

        Missing messages that no hole counts yet are assigned to the one hole in `is_open` whose number of missing
        messages is still unknown. If this number is unknown for several holes, the messages are not assigned. If it is
        known for all holes, the messages are missing after the last message read, and are assigned to a hole there; if
        there is no hole at this place, one is added.

        is_open  holes with the cause "damaged", in file order
        """
        assert summary.counts is not None
        missing: dict[str, int] = {}
        for number, count in summary.counts.items():
            channel = self._channels.get(number) or self._known_channel(number)
            if count > channel.read + channel.damaged:
                topic = channel.topic or f"(channel {number})"
                missing[topic] = missing.get(topic, 0) + count - channel.read - channel.damaged
        at_end = [place for place in is_open[-1:] if place.opened_at == self._read]
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

    def _settle_metadata(self) -> None:
        """Choose the copy of the metadata that agrees with the checksum in the check records.

        In a file without check records, the metadata are used as they were read, because there is no checksum.
        """
        if self._run_crc is not None:
            everywhere = [self.metadata, *self._candidates, {}]
            fitting = [each for each in everywhere if checks.metadata_crc(each) == self._run_crc]
            self.metadata = fitting[0] if fitting else {}
            self.metadata_damaged = not fitting
        elif self._has_checks:
            self.metadata, self.metadata_damaged = {}, True
        else:
            self.metadata_damaged = self._is_damaged_before_messages and not self.metadata


def _decompressed(compression: str, data: bytes, size: int) -> bytes:
    """Content of a compressed chunk; at most size + 1 bytes of it, because the stated size may be wrong.

    The function of the MCAP library has no limit.
    """
    if compression == "lz4":
        import lz4.frame

        return bytes(lz4.frame.LZ4FrameDecompressor().decompress(data, max_length=size + 1))
    import zstandard

    return zstandard.ZstdDecompressor().stream_reader(data).read(size + 1)


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
