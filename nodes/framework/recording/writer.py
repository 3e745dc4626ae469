"""Writing recordings: MCAP with JSON messages, readable up to the last flush even if the writer is killed.

The file does not depend on machine or wall-clock time: log time is simulation time, chunks are cut by simulation time,
and versions, host, paths and wall-clock times go to a sidecar file. Two runs that write the same messages in the same
order give the same bytes, unless a run flushes by the wall clock.
"""

from __future__ import annotations

import errno
import os
import platform
import stat
import time
import zlib
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

from mcap.writer import CompressionType, Writer

from nodes.framework.messages import Message
from nodes.framework.messages.codec import LATEST_S
from nodes.framework.messages.protocol import PROTOCOL
from nodes.framework.recording.integrity.checks import (
    COUNTED,
    HEAD,
    ChannelCheck,
    Check,
    chunk_head_bytes,
    encode_check,
    metadata_crc,
)
from nodes.framework.recording.integrity.search import is_replaceable
from nodes.framework.recording.lock import lock, require_unlocked
from nodes.framework.recording.places import is_closed, keep_before, part_path
from nodes.framework.recording.places import sidecar_path as sidecar_path
from nodes.framework.recording.schema import encode_json, schema_name, schema_of
from nodes.framework.recording.sidecar import encode_sidecar

METADATA_NAME = "armswing"
MAX_CHUNK_BYTES = 4 << 20
MAX_BACKLOG_BYTES = 64 << 20
Payload = bytes  # a message as JSON
_COMPRESSIONS = {"none": CompressionType.NONE, "lz4": CompressionType.LZ4, "zstd": CompressionType.ZSTD}


class BacklogFile:
    """A file that queues all data in memory, and writes the queue to the disk at each `hand_over`.

    Data that the disk refuses stay in the queue. A disk that is full for a while therefore costs no message.
    """

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            lock(self._descriptor, path)  # before the present content is truncated
            if self._is_regular:
                os.ftruncate(self._descriptor, 0)
        except OSError:
            os.close(self._descriptor)
            raise
        self._pending = bytearray()
        self.on_disk = 0

    @property
    def backlog(self) -> int:
        """Number of bytes not yet on the disk."""
        return len(self._pending)

    @property
    def _is_regular(self) -> bool:
        return stat.S_ISREG(os.fstat(self._descriptor).st_mode)

    def stands_at(self, path: Path) -> bool:
        """Whether the open file is still at `path`; false if the file was deleted, moved, replaced or truncated."""
        try:
            there = os.stat(path)
        except OSError:
            return False
        here = os.fstat(self._descriptor)
        is_whole = here.st_size >= self.on_disk or not self._is_regular
        return is_whole and (here.st_dev, here.st_ino) == (there.st_dev, there.st_ino)

    @property
    def now_at(self) -> Path | None:
        """Present path of the open file; None if the file was deleted or truncated."""
        try:
            found = Path(os.readlink(f"/proc/self/fd/{self._descriptor}"))
        except OSError:
            return None
        return found if self.stands_at(found) else None

    def write(self, data: bytes) -> int:
        """Queue `data`; nothing reaches the disk before `hand_over`. Returns the number of bytes."""
        self._pending += data
        return len(data)

    def tell(self) -> int:
        """Position in the file at which the next queued byte will be written."""
        return self.on_disk + len(self._pending)

    def flush(self) -> None:
        """Does nothing. The MCAP writer calls `flush` at the end of each chunk, but only `hand_over` writes to the
        disk.
        """

    def since(self, start: int) -> memoryview:
        """The queued bytes from position `start` of the file to the end of the queue."""
        return memoryview(self._pending)[start - self.on_disk :]

    def hand_over(self) -> None:
        """Write all queued bytes to the disk.

        Raises OSError if the disk refuses the bytes; bytes that were not written stay queued.
        """
        while self._pending:
            written = os.write(self._descriptor, self._pending)
            self.on_disk += written
            del self._pending[:written]

    def sync(self) -> None:
        """Wait until the disk holds what `hand_over` has written, so that a power cut cannot take it."""
        if self._is_regular:
            os.fsync(self._descriptor)

    def close(self) -> None:
        """Close the file; queued bytes are lost."""
        os.close(self._descriptor)


@dataclass
class Missing:
    """Number and time span of messages that are not in a file.

    messages  number of messages
    start_s   smallest log time, s; None if there are no messages
    end_s     largest log time, s; None if there are no messages
    """

    messages: int = 0
    start_s: float | None = None
    end_s: float | None = None

    def add(self, time_s: float, messages: int = 1) -> None:
        """Count `messages` more messages, which have the log time `time_s` (s)."""
        self.messages += messages
        self.start_s = time_s if self.start_s is None else min(self.start_s, time_s)
        self.end_s = time_s if self.end_s is None else max(self.end_s, time_s)

    def merge(self, other: Missing) -> None:
        """Add the messages that another `Missing` counts."""
        if other.start_s is not None and other.end_s is not None:
            self.add(other.start_s, other.messages)
            self.add(other.end_s, 0)


class JsonSchema(NamedTuple):
    """JSON Schema of a message type: name of the type, and text of the schema; both are empty if there is none."""

    name: str
    text: bytes


class RecordingWriter:
    """Writes messages of any topic to one file.

    path         path of the file, in an existing folder; a file there is replaced
    metadata     strings that describe the run (plan, parameters), stored in the file
    aside        whether to write to `part_path(path)` until `take_place` renames the file to `path`; `close` deletes a
                 file that was not renamed
    chunk_s      simulation seconds per chunk; each chunk is flushed when it is complete. None: a chunk ends at a call
                 of `flush` or when it reaches MAX_CHUNK_BYTES
    flush_s      wall-clock seconds between flushes, checked at each write; None: no flushes by the wall clock, which
                 keeps files reproducible
    sync_s       wall-clock seconds between calls of fsync, made at flushes and at the end; None: no such calls
    compression  "none", "lz4" or "zstd"
    sidecar      further entries for `<path>.sidecar.json`, such as the plan's path; None if no sidecar file is written
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        metadata: Mapping[str, str],
        *,
        aside: bool = False,
        chunk_s: float | None = 0.5,
        flush_s: float | None = None,
        sync_s: float | None = None,
        compression: str = "none",
        sidecar: Mapping[str, Any] | None = {},
    ) -> None:
        if compression not in _COMPRESSIONS:
            raise ValueError(f"compression {compression!r} is unknown; choose one of {sorted(_COMPRESSIONS)}")
        for name, value in (("chunk_s", chunk_s), ("flush_s", flush_s), ("sync_s", sync_s)):
            if value is not None and not value > 0.0:
                raise ValueError(f"{name} is {value}; it must be a positive number of seconds, or None")
        self.path = Path(path)
        self.messages = 0
        self._chunk_ns = None if chunk_s is None else max(1, round(chunk_s * 1e9))
        self._chunk = -1
        self._flush_s = flush_s
        self._flush_due = time.monotonic() + (flush_s or 0.0)
        self._sync_s = sync_s
        self._sync_due = time.monotonic() + (sync_s or 0.0)
        self._is_folder_synced = False  # whether a power cut leaves the file's name
        self.sync_failure = ""
        self._channels: dict[tuple[str, type[Message] | JsonSchema], ChannelCheck] = {}
        self._schemas: dict[JsonSchema, int] = {}
        self._target = Path(os.path.realpath(path))  # of a symbolic link the target is replaced, not the link
        self._all, self._dropped, self._has_dropped = Missing(), Missing(), False
        self._messages_before = 0  # messages before the chunk in progress
        self._chunks: deque[tuple[int, Missing]] = deque()  # (end, messages) of chunks not on the disk
        _require_replaceable(self._target)
        self._part = part_path(self._target) if aside and _replaceable(self._target) else None
        self._file: BacklogFile | None = BacklogFile(self._part or self._target)
        self._sidecar = None if sidecar is None else _sidecar_start(sidecar)
        self._writer = Writer(
            self._file,  # type: ignore[arg-type,unused-ignore]
            chunk_size=2 * MAX_CHUNK_BYTES,  # never reached: chunks are cut here, each with its check record
            compression=_COMPRESSIONS[compression],
        )
        self._writer.start(profile="", library="armswing")
        metadata = {"protocol": str(PROTOCOL), **metadata}
        self._writer.add_metadata(METADATA_NAME, metadata)
        self._run_crc = metadata_crc(metadata)
        self._file.write(encode_check(Check(run_crc=self._run_crc, metadata=metadata)))
        self._chunk_bytes = 0
        if self._part is None:
            self._write_sidecar()
        self._try_flush()

    def _sync(self) -> None:
        """Wait until the disk holds the file and its name.

        A disk that fails here may have lost messages that were written before; `sync_failure` then has the reason.
        """
        file = self._open_file()
        self._sync_due = time.monotonic() + (self._sync_s or 0.0)
        try:
            file.sync()
            if not self._is_folder_synced and self._part is None:
                folder = os.open(self._target.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
                try:
                    os.fsync(folder)
                finally:
                    os.close(folder)
                self._is_folder_synced = True
        except OSError as error:
            self.sync_failure = f"fsync reported {error.strerror or error}, so that written messages may be lost"

    @property
    def is_aside(self) -> bool:
        """Whether the recording still has its temporary name, because `take_place` was not called yet."""
        return self._part is not None

    @property
    def bytes(self) -> int:
        """Number of bytes on the disk so far."""
        return 0 if self._file is None else self._file.on_disk

    @property
    def stands(self) -> bool:
        """Whether the file is still at its path; false if another program deleted, moved, replaced or truncated it."""
        return self._file is None or self._file.stands_at(self._part or self._target)

    @property
    def now_at(self) -> Path | None:
        """Present path of the recording; None if the recording was deleted or truncated."""
        return None if self._file is None else self._file.now_at

    @property
    def written(self) -> Missing:
        """Number and time span of all messages written so far, even if the file was moved or deleted since."""
        found = Missing()
        found.merge(self._all)
        found.merge(self._in_chunk())
        return found

    @property
    def dropped(self) -> Missing:
        """Number and time span of the messages dropped because the queue was full."""
        return self._dropped

    def abandon(self) -> None:
        """Close the file without writing anything more."""
        if self._file is not None:
            self._file.close()
            self._file = None

    @property
    def missing(self) -> Missing:
        """Number and time span of the messages that are not on the disk.

        These messages are still queued, or were dropped because the queue was full.
        """
        if self._file is not None:
            while self._chunks and self._chunks[0][0] <= self._file.on_disk:
                self._chunks.popleft()
        found = Missing()
        for each in (self._dropped, *(messages for _, messages in self._chunks), self._in_chunk()):
            found.merge(each)
        return found

    def lose(self, topic: str, message: Message, count: int) -> None:
        """Count `count` messages of a topic as lost before they reached this writer; readers of the file name them.

        message  message of the same type, such as the next message of the topic
        """
        self._open_file()
        channel = self._channel(topic, message)
        channel.before, channel.lost = channel.before + count, channel.lost + count
        self._has_dropped = True

    def write(self, topic: str, message: Message, log_time_s: float) -> None:
        """Add one message. Raises ValueError for a time or a content that cannot be recorded, and OSError if the disk
        is full.

        An OSError does not lose the message while at most MAX_BACKLOG_BYTES are queued: the message stays in the queue,
        which the next flush tries to write again. If more bytes are queued, `write` first tries to write the queue; if
        this fails, `write` drops the new message and raises OSError. The attribute `messages` counts the messages that
        were not dropped. Readers of the file detect that the dropped messages are missing.
        """
        if not 0.0 <= log_time_s <= LATEST_S:
            raise ValueError(f"{topic}: time {log_time_s} s cannot be recorded; it must be in 0 .. {LATEST_S:g} s")
        channel = self._channel(topic, message)
        failure = self._begin_message(channel, round(log_time_s * 1e9))
        try:
            data = encode_json(message)
        except (TypeError, ValueError, RecursionError) as error:
            self._drop(channel, log_time_s)
            raise ValueError(f"{topic}: a message cannot be recorded as JSON: {error}") from None
        self._add(channel, round(log_time_s * 1e9), data, failure)

    def copy(self, topic: str, schema: JsonSchema, payload: Payload, log_time_ns: int) -> None:
        """Add a message of another recording, unchanged: its JSON `payload`. Raises OSError as `write` does."""
        channel = self._channel_of(topic, schema)
        self._add(channel, log_time_ns, payload, self._begin_message(channel, log_time_ns))

    def _begin_message(self, channel: ChannelCheck, log_time: int) -> OSError | None:
        """Make room for a message, and end the chunk where the message belongs to the next one.

        Returns the error of the flush at the end of the chunk. Raises OSError if there is no room; the message is then
        dropped.
        """
        file = self._open_file()
        if file.backlog > MAX_BACKLOG_BYTES:
            try:
                file.hand_over()
            except OSError:
                self._drop(channel, log_time / 1e9)
                raise
        if self._chunk_ns is not None and (chunk := log_time // self._chunk_ns) != self._chunk:
            self._chunk, first = chunk, self._chunk < 0
            return None if first else self._try_flush()
        return None

    def _add(self, channel: ChannelCheck, log_time: int, data: Payload, failure: OSError | None) -> None:
        self._writer.add_message(
            channel_id=channel.id,
            log_time=log_time,
            data=data,
            publish_time=log_time,
            sequence=channel.total & 0xFFFFFFFF,
        )
        if channel.count == 0:
            channel.first_ns = log_time
        channel.count += 1
        channel.last_ns = log_time
        self.messages += 1
        self._chunk_bytes += len(data)
        if self._flush_s is not None and time.monotonic() >= self._flush_due:
            failure = self._try_flush()
        elif self._chunk_bytes > MAX_CHUNK_BYTES:
            self._cut_chunk()
        if failure is not None:
            raise failure

    def flush(self) -> None:
        """End the chunk and write all queued bytes to the operating system.

        Raises OSError if the disk refuses; the bytes that were not written stay queued.
        """
        if (failure := self._try_flush()) is not None:
            raise failure

    def retarget(self, path: str | os.PathLike[str]) -> None:
        """Change the final path to `path` in the same folder. Call it before `take_place`."""
        self.path, self._target = Path(path), Path(os.path.realpath(path))

    def take_place(self, *, flush: bool = True) -> None:
        """Flush, then rename the file to `path`; a recording already at `path` is renamed to `before_path(path)`.

        Does nothing if the file already has its final name. May be called again after an OSError.

        flush  False: rename without flushing
        """
        if self._part is None:
            return
        _require_replaceable(self._target)
        if flush:
            self.flush()
        keep_before(self._target, sidecar_path(self.path))
        self._part.replace(self._target)
        self._part = None
        self._write_sidecar()

    def close(self) -> None:
        """Write the index for random access, and close the file. Raises OSError if the disk is full.

        If `take_place` was not called, the file still has its temporary name, and is deleted instead.
        """
        if self._file is None:
            return
        file = self._file
        if self._part is not None:
            self._file = None
            file.close()
            self._part.unlink(missing_ok=True)
            return
        try:
            self._cut_chunk()
            self._writer.finish()
            file.hand_over()
            if self._sync_s is not None:
                self._sync()
        finally:
            _ = self.missing  # updated while the file is still open
            self._file = None
            file.close()
            self._write_sidecar(ended=datetime.now(UTC).isoformat())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _drop(self, channel: ChannelCheck, time_s: float) -> None:
        channel.before += 1  # the sequence counts it, so that readers see the hole
        self._dropped.add(time_s)
        self._has_dropped = True

    def _open_file(self) -> BacklogFile:
        if self._file is None:
            raise ValueError(f"{self.path} is closed; open a new RecordingWriter to write more")
        return self._file

    def _in_chunk(self) -> Missing:
        """Number and time span of the messages in the chunk in progress."""
        rows = [row for row in self._channels.values() if row.count]
        if not rows:
            return Missing()
        first, last = min(row.first_ns for row in rows), max(row.last_ns for row in rows)
        return Missing(self.messages - self._messages_before, first / 1e9, last / 1e9)

    def _try_flush(self) -> OSError | None:
        self._flush_due = time.monotonic() + (self._flush_s or 0.0)
        file = self._open_file()
        self._cut_chunk()
        try:
            file.hand_over()
        except OSError as error:
            return error
        if self._sync_s is not None and time.monotonic() >= self._sync_due:
            self._sync()
        return None

    def _cut_chunk(self) -> None:
        """End the chunk in progress and write its check record.

        Does nothing if no message was written, dropped or lost since the previous check record.
        """
        file = self._open_file()
        if not (self._has_dropped or self.messages > self._messages_before):
            return
        rows = list(self._channels.values())
        in_chunk = self._in_chunk()
        start = file.tell()
        self._writer.flush()
        written = file.since(start)
        has_chunk = len(written) > 0  # no chunk where all messages were dropped
        check = Check(
            offset=start if has_chunk else 0,
            length=len(written),
            frame_crc=_frame_crc(written) if has_chunk else 0,
            channels=rows,
            run_crc=self._run_crc,
        )
        written.release()  # the buffer cannot grow while a view of it exists
        file.write(encode_check(check))
        self._chunks.append((file.tell(), in_chunk))
        self._all.merge(in_chunk)
        self._messages_before, self._has_dropped = self.messages, False
        for row in rows:
            row.before, row.count, row.first_ns, row.last_ns, row.lost = row.total, 0, 0, 0, 0
        self._chunk_bytes = 0

    def _channel(self, topic: str, message: Message) -> ChannelCheck:
        kind = type(message)
        channel = self._channels.get((topic, kind))
        if channel is None:
            schema = JsonSchema(schema_name(kind), schema_of(message))
            channel = self._channels[topic, kind] = self._register(topic, schema)
        return channel

    def _channel_of(self, topic: str, schema: JsonSchema) -> ChannelCheck:
        channel = self._channels.get((topic, schema))
        if channel is None:
            channel = self._channels[topic, schema] = self._register(topic, schema)
        return channel

    def _register(self, topic: str, schema: JsonSchema) -> ChannelCheck:
        number = self._schemas.get(schema, 0)  # 0: no schema
        if not number and any(schema):
            number = self._schemas[schema] = self._writer.register_schema(schema.name, "jsonschema", schema.text)
        return ChannelCheck(self._writer.register_channel(topic, "json", number, COUNTED), topic, schema.name)

    def _write_sidecar(self, **more: Any) -> None:
        if self._sidecar is None:
            return
        self._sidecar.update(more)
        try:
            sidecar_path(self.path).write_bytes(encode_sidecar(self._sidecar))
        except OSError:
            self._sidecar = None  # the recording goes on without a sidecar


def _frame_crc(written: memoryview) -> int:
    """CRC-32 of a chunk record without its messages, and of the records that follow it.

    written  bytes of the file from the beginning of the chunk record on
    """
    head = HEAD.size + chunk_head_bytes(bytes(written[HEAD.size : HEAD.size + 64]))
    (_, length) = HEAD.unpack_from(written)
    return zlib.crc32(written[HEAD.size + length :], zlib.crc32(written[:head]))


def _require_replaceable(path: Path) -> None:
    """Raise OSError for a path at which another recorder writes, or a file that is no recording."""
    require_unlocked(path)
    if not is_replaceable(path):
        raise OSError(errno.EEXIST, "the file is no recording, and is kept", str(path))


def _replaceable(path: Path) -> bool:
    """Whether a new file can be renamed to `path`, replacing a file there; false for a device or a pipe at `path`.

    Raises PermissionError for a file without write permission.
    """
    if path.is_file() and not os.access(path, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
    return path.is_file() or not path.exists()


def is_complete(path: str | os.PathLike[str]) -> bool:
    """Whether a recording was closed by its writer."""
    return is_closed(path)


def keep_unfinished(path: str | os.PathLike[str]) -> Path | None:
    """Rename a truncated recording at `path`, so that a new recording does not overwrite it.

    Returns the new path of the truncated recording, or None if there is no truncated recording at `path`. A recorder
    that is restarted after a crash must not overwrite the file of the crashed recorder.
    """
    old = Path(path)
    if not old.is_file() or old.stat().st_size == 0 or is_complete(old) or not is_replaceable(old):
        return None
    number = 1
    while (kept := old.with_name(f"{old.stem}.cut-{number}{old.suffix}")).exists():
        number += 1
    old.rename(kept)
    if sidecar_path(old).is_file():
        sidecar_path(old).rename(sidecar_path(kept))
    return kept


def _sidecar_start(more: Mapping[str, Any]) -> dict[str, Any]:
    versions = {name: metadata.version(name) for name in ("armswing", "mcap", "msgspec", "numpy")}
    return {
        "started": datetime.now(UTC).isoformat(),
        "ended": None,
        "host": platform.node(),
        "platform": platform.platform(),
        "python": platform.python_version(),
        "versions": versions,
        **more,
    }
