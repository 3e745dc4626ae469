"""Scanner: reads every intact message of an MCAP file that may be damaged, and counts the missing messages.

Only data confirmed by a checksum are used: messages come from chunks with the right CRC. The scanner skips from record
to record by the records' lengths. If a length is implausible, the scanner searches, from the end of the last confirmed
record on, for the next intact chunk or the next check record. A check record is an additional record with message
counts (module `checks`). The number of missing messages follows from three sources: the field `sequence` of the
messages, the check records, and the statistics at the end of the file. A file that has only the statistics, or no
message counts at all, can be read too.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from typing import BinaryIO

from mcap.opcode import Opcode
from mcap.writer import MCAP0_MAGIC

from nodes.framework.recording.integrity import checks
from nodes.framework.recording.integrity.channels import FileChannels
from nodes.framework.recording.integrity.checks import HEAD
from nodes.framework.recording.integrity.chunks import MAX_RECORD_BYTES, MESSAGE, RawMessage, decode_chunk
from nodes.framework.recording.integrity.counting import OUT_OF_ORDER, MessageCounter
from nodes.framework.recording.integrity.holes import CUT_OFF, Hole
from nodes.framework.recording.integrity.records import Channel, metadata_of, text_at
from nodes.framework.recording.integrity.search import FileSearch

_KNOWN = frozenset(int(opcode) for opcode in Opcode)
# records that may be outside of chunks
_OUTSIDE = frozenset({Opcode.SCHEMA, Opcode.CHANNEL, Opcode.MESSAGE, Opcode.ATTACHMENT})

ReadMessage = tuple[Channel, int, bytes]  # channel, log time in ns, payload


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
        self._search = FileSearch(file, size)
        self._channels = FileChannels(self._search)
        self._counter = MessageCounter(self._channels, self._note_damage)
        self._frame: tuple[int, int] | None = None  # start of the last chunk; CRC of its head and later records
        self._candidates: list[dict[str, str]] = []  # metadata not confirmed by a checksum
        self._run_crc: int | None = None
        self._is_damaged_before_messages = False
        self._has_ended = False  # whether the record DATA_END was read
        self._has_unknown = False  # whether records of unknown types were skipped

    @property
    def has_checks(self) -> bool:
        """Whether armswing wrote the file: the file has check records, or lost them by damage."""
        return self._channels.has_checks

    @property
    def channels(self) -> dict[str, str]:
        """{topic: schema} of the channels read so far, and of those in the file's summary."""
        return self._channels.schemas

    def holes_so_far(self) -> list[Hole]:
        """The holes (missing messages) in the part of the file that was read so far.

        The attribute `counted` of a hole is false while its number of missing messages is unknown, because that number
        is in a later part of the file.
        """
        return self._counter.holes_so_far()

    def messages(self) -> Iterator[ReadMessage]:
        """(channel, log time in ns, payload) of each intact message, in file order."""
        for batch in self.batches():
            yield from batch

    def batches(self) -> Iterator[Iterator[ReadMessage]]:
        """All messages in batches. A batch has the messages of one chunk, or one message outside of chunks.

        Each batch has to be read to its end before the next one.
        """
        position: int | None = self._begin()
        while position is not None and position < self._search.size:
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
        counter = self._counter
        if counter.is_out_of_order(chunk):
            self._note_damage(OUT_OF_ORDER)
            counter.is_displaced = True
            return
        counter.before_chunk_s = None if counter.last_ns is None else counter.last_ns / 1e9
        for message in chunk:
            if (channel := counter.count(message)) is not None:
                yield channel, message[2], message[3]

    def _begin(self) -> int:
        """Position of the first record, after the magic bytes."""
        if self._search.bytes(0, len(MCAP0_MAGIC)) != MCAP0_MAGIC:
            self._note_damage("its first bytes")
        self._channels.verified = len(MCAP0_MAGIC)
        return self._channels.verified

    def _step(self, position: int, chunk: list[RawMessage]) -> int | None:
        """Process the record at `position`, and return the position of its end; None for a damaged record.

        If the record is a chunk, its messages are appended to `chunk`.
        """
        head = self._search.bytes(position, HEAD.size)
        if len(head) < HEAD.size:
            return None
        opcode: int
        length: int
        opcode, length = HEAD.unpack(head)
        start, end = position + HEAD.size, position + HEAD.size + length
        if length > MAX_RECORD_BYTES or end > self._search.size:
            return None
        content = self._search.bytes(start, length)
        if opcode == Opcode.CHUNK:
            found = decode_chunk(content, self.has_checks)
            if found is None:
                return None
            for kind, definition in found.definitions:
                if kind == Opcode.SCHEMA:
                    self._channels.take_schema(definition)
                else:
                    self._channels.take_channel(definition, self._counter.checked_at)
            chunk += found.messages
            self._frame = position, zlib.crc32(head + content[: checks.chunk_head_bytes(content)])
            self._channels.verified = end
        elif opcode == checks.OPCODE:
            check = checks.decode_check(content)
            if check is None or check[1] != length:
                return None
            self._take_check(check[0])
            self._channels.verified = end
        elif opcode == Opcode.DATA_END:
            if length != 4 or not self._is_end(end):
                return None
            if self.has_checks and any(content):  # this writer leaves DATA_END's checksum at 0
                self._note_damage("its closing index")
            return self._search.size
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
                    if not self.metadata and not self.has_checks:
                        self.metadata = metadata
                return True
            if opcode == Opcode.HEADER:
                self._channels.library, end = text_at(content, text_at(content, 0)[1])
                return position == len(MCAP0_MAGIC) and end == len(content)
            if self.has_checks:
                return False
            # another writer's file: messages outside of chunks, attachments, unknown records
            if opcode == Opcode.SCHEMA:
                self._channels.take_schema(content)
            elif opcode == Opcode.CHANNEL:
                self._channels.take_channel(content, self._counter.checked_at)
            elif opcode == Opcode.MESSAGE:
                channel, sequence, log_time, _ = MESSAGE.unpack_from(content)
                chunk.append((channel, sequence, log_time, content[MESSAGE.size :]))
            if opcode not in _KNOWN and opcode != 0:
                self._has_unknown = True
                return True
            return opcode in _OUTSIDE
        except (struct.error, ValueError):
            return False

    def _take_check(self, check: checks.Check) -> None:
        """Compare the messages and records read with a check record."""
        self._channels.has_checks = True
        self._run_crc = check.run_crc
        if check.metadata is not None:
            self.metadata = check.metadata
            damaged = any(checks.metadata_crc(each) != check.run_crc for each in self._candidates)
            if damaged or not self._candidates:
                self._note_damage("one of the two copies of its run's metadata")
        # offset 0: the recorder wrote the check record without a chunk
        is_own = self._frame == ((check.offset, check.frame_crc) if check.offset else None)
        self._counter.take_check(check, is_own)
        if self._frame is not None and self._frame[0] == check.offset and self._frame[1] != check.frame_crc:
            self._note_damage("the index of a chunk")
        self._frame = None

    def _note_damage(self, what: str) -> None:
        if what not in self.damage:
            self.damage.append(what)

    def _resynchronize(self, position: int) -> int | None:
        """Position from which reading continues after a damaged record; None if nothing readable follows.

        position  position of the damaged record
        """
        search, verified = self._search, self._channels.verified
        anchor = search.next_anchor(verified, self.has_checks)
        if (other := search.next_recording(verified, search.size if anchor is None else anchor[0])) is not None:
            self._note_damage(f"another recording at byte {other}, which is ignored")
            search.end_at(other)
            return position
        if anchor is None and not self._search.is_closed:
            self.cut_off = True
            return None
        self._counter.open_damage()
        self._is_damaged_before_messages |= self._counter.read == 0
        self._frame = None
        if anchor is None:
            return None
        start, check = anchor
        if check is None:
            return start
        found, end = check
        self._take_check(found)
        self._channels.verified = end
        return end

    def _is_end(self, end: int) -> bool:
        """Whether the part of the file that contains messages ends at `end`, where a record DATA_END ends.

        Returns False if an intact chunk or check record follows: the supposed DATA_END is then damaged data.
        """
        summary = self._search.summary()
        if summary is not None and summary.start in (0, end):
            return True
        if self._search.has_summary_from(end):  # bytes before it are missing, or more
            self._note_damage("its closing index")
            return True
        if self._search.next_anchor(end, self.has_checks) is not None:
            return False
        self._has_ended = True
        if not self._search.is_closed:
            self.cut_off = True
        self._note_damage("its closing index")
        return True

    def _finish(self) -> None:
        """Compare the numbers of messages read with the file's statistics, and complete `holes` (missing messages)."""
        summary = self._search.summary()
        if summary is None and not self._search.is_closed:
            self.cut_off = True
        if summary is not None:
            self._counter.settle_by(summary)
        self.holes += self._counter.complete()
        if self._has_unknown and self.has_checks:
            self._note_damage("records that hold no messages")
        if summary is None and not self.cut_off:
            self._note_damage("its closing index")
        elif (
            not self.cut_off
            and self._search.bytes(self._search.size - len(MCAP0_MAGIC), len(MCAP0_MAGIC)) != MCAP0_MAGIC
        ):
            self._note_damage("its last bytes")
        if self.cut_off and not self._has_ended:
            end_s = None if self._counter.last_ns is None else self._counter.last_ns / 1e9
            self.holes.append(Hole(start_s=end_s, end_s=None, counted=False, cause=CUT_OFF))
        self._settle_metadata()

    def _settle_metadata(self) -> None:
        """Choose the copy of the metadata that agrees with the checksum in the check records.

        In a file without check records, the metadata are used as they were read, because there is no checksum.
        """
        if self._run_crc is not None:
            everywhere = [self.metadata, *self._candidates, {}]
            fitting = [each for each in everywhere if checks.metadata_crc(each) == self._run_crc]
            self.metadata = fitting[0] if fitting else {}
            self.metadata_damaged = not fitting
        elif self.has_checks:
            self.metadata, self.metadata_damaged = {}, True
        else:
            self.metadata_damaged = self._is_damaged_before_messages and not self.metadata
