"""Makes a recording again from a bag that `armswing export --rosbag2` has written."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
from rosbags.highlevel import AnyReader
from rosbags.typesys import Stores, get_typestore

from nodes.framework.bridges.rosbag2.archive import FORMAT, HEADING, ArchivedMessage, ArchivedTopic, Heading
from nodes.framework.messages.topics import lookup
from nodes.framework.recording.schema import json_schema, schema_name
from nodes.framework.recording.writer import JsonSchema, RecordingWriter
from nodes.framework.ros2.cdr import CdrError, decode
from nodes.framework.ros2.interface import type_name
from nodes.framework.ros2.interfaces.std_msgs import String

DAMAGE = "damage"  # key of the metadata: what the exported recording lacked
MOST_WAITING = 100_000  # messages that are read before one that belongs before them
SHOWN_EVERY = 500

_heading = msgspec.json.Decoder(Heading)
_message = msgspec.json.Decoder(ArchivedMessage)


class BagError(ValueError):
    """A bag from which no recording can be made. The text is one line for the user."""

    exit_code = 2


@dataclass
class Restored:
    """Result: numbers of messages that were written and that the bag lacks, and what the exported recording lacked."""

    messages: int
    missing: int
    damage: str


def has_archive(bag: str | os.PathLike[str]) -> bool:
    """Whether a bag contains a whole recording. Raises BagError for a file or folder that is no bag."""
    with _Bag(Path(bag)) as found:
        return found.has_archive


def restore(
    bag: str | os.PathLike[str],
    target: str | os.PathLike[str],
    progress: Callable[[int, int], None] = lambda done, of: None,
) -> Restored:
    """Write the recording that a bag contains to `target`; a recording at `target` is kept as for a new run.

    progress  function that is called with the numbers of messages written and to be written

    Messages that were removed from the bag, for example by `ros2 bag convert`, are missing in the recording and
    counted. Raises BagError for a damaged bag, and OSError if the recording cannot be written.
    """
    with _Bag(Path(bag)) as found:
        heading = found.heading()
        metadata = heading.metadata | ({DAMAGE: heading.damage} if heading.damage else {})
        with RecordingWriter(target, metadata, aside=True, sidecar=heading.sidecar) as writer:
            schemas = {each.ros_topic: JsonSchema(each.schema, _definition(each)) for each in heading.topics}
            topics = {each.ros_topic: each.topic for each in heading.topics}
            for ros_topic, message in _in_order(found.archived(topics)):
                if writer.messages % SHOWN_EVERY == 0:
                    progress(writer.messages, heading.messages)
                writer.copy(topics[ros_topic], schemas[ros_topic], bytes(message.message), message.log_time_ns)
            progress(heading.messages, heading.messages)
            writer.take_place()
            return Restored(writer.messages, heading.messages - writer.messages, heading.damage)


def _definition(topic: ArchivedTopic) -> bytes:
    row = lookup(topic.topic)
    if not topic.definition and row is not None and schema_name(row.message) == topic.schema:
        return json_schema(row.message)
    return topic.definition.encode()


def _in_order(messages: Iterator[tuple[str, ArchivedMessage]]) -> Iterator[tuple[str, ArchivedMessage]]:
    """The messages in the order of the recording. In a bag, they are in the order of their times."""
    waiting: dict[int, tuple[str, ArchivedMessage]] = {}
    due = 0
    for each in messages:
        waiting[each[1].index] = each
        while due in waiting:
            yield waiting.pop(due)
            due += 1
        if len(waiting) > MOST_WAITING:
            due = min(waiting)
    yield from (waiting[index] for index in sorted(waiting))


class _Bag:
    """A bag that is open for reading."""

    def __init__(self, path: Path) -> None:
        self._path = path
        # for bags that have no definitions of their messages
        self._reader = self._guarded(lambda: AnyReader([path], default_typestore=get_typestore(Stores.LATEST)))

    def __enter__(self) -> _Bag:
        self._guarded(self._reader.open)
        return self

    def __exit__(self, *_: object) -> None:
        self._reader.close()

    @property
    def has_archive(self) -> bool:
        """Whether the bag contains a whole recording."""
        return any(each.topic == HEADING and each.msgtype == type_name(String) for each in self._reader.connections)

    def heading(self) -> Heading:
        """The heading of the archive. Raises BagError if it is damaged, or of a later version."""
        texts = [text for _, text in self._texts({HEADING})]
        if not texts:
            raise BagError(f"{str(self._path)!r} has no message on {HEADING}, which describes the recording")
        try:
            version = msgspec.json.decode(texts[0], type=dict[str, Any]).get("format")
            if version != FORMAT:
                raise BagError(f"{str(self._path)!r} has format {version} of a later version; this one reads {FORMAT}")
            return _heading.decode(texts[0])
        except msgspec.MsgspecError as error:
            raise BagError(f"{str(self._path)!r}: the message on {HEADING} cannot be read: {error}") from None

    def archived(self, topics: Collection[str]) -> Iterator[tuple[str, ArchivedMessage]]:
        """Yield (topic of the bag, message of the recording) in the order of the bag."""
        for topic, text in self._texts(topics):
            try:
                yield topic, _message.decode(text)
            except msgspec.MsgspecError as error:
                raise BagError(f"{str(self._path)!r}: a message on {topic} cannot be read: {error}") from None

    def _texts(self, topics: Collection[str]) -> Iterator[tuple[str, bytes]]:
        """Yield (topic, text) of the messages on some topics."""
        chosen = [each for each in self._reader.connections if each.topic in topics]
        if not chosen:
            return
        messages = self._reader.messages(chosen)
        while (found := self._guarded(lambda: next(messages, None))) is not None:
            connection, _, data = found
            try:
                yield connection.topic, decode(String, data).data.encode()
            except CdrError as error:
                raise BagError(f"{str(self._path)!r}: a message on {connection.topic} is damaged: {error}") from None

    def _guarded(self, call: Callable[[], Any]) -> Any:
        try:
            return call()
        except Exception as error:  # a damaged file may cause any error of the library, the database or the compression
            text = str(error).partition("\n")[0] or type(error).__name__
            raise BagError(f"{str(self._path)!r} cannot be read as a bag of ROS: {text}") from None
