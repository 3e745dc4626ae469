"""Channels of a file that may be damaged, from its channel records, its check records and its summary."""

from __future__ import annotations

from nodes.framework.recording.integrity.records import Channel, channel_of, has_schema, schema_of
from nodes.framework.recording.integrity.search import FileSearch

LIBRARY = "armswing"


class FileChannels:
    """The channels of a file, by number.

    read        {number: channel} of the channels known so far
    has_checks  whether armswing wrote the file: the file has check records, or lost them by damage
    library     program that wrote the file, by its first record
    verified    end of the last confirmed record, bytes
    """

    def __init__(self, search: FileSearch) -> None:
        self.read: dict[int, Channel] = {}
        self.has_checks = False
        self.library = ""
        self.verified = 0
        self._search = search
        self._schemas: dict[int, str] = {0: ""}

    @property
    def schemas(self) -> dict[str, str]:
        """{topic: schema} of the channels read so far, and of those in the file's summary."""
        summary = self._search.summary()
        listed = [] if summary is None else summary.channels.values()
        return {channel.topic: channel.schema for channel in [*self.read.values(), *listed] if channel.topic}

    def take_schema(self, content: bytes) -> None:
        """Add the schema of a schema record."""
        number, self._schemas[number] = schema_of(content)

    def take_channel(self, content: bytes, counted_at: int) -> None:
        """Add the channel of a channel record, or update it.

        counted_at  number of messages read up to the last check record, which names all channels
        """
        number, channel = channel_of(content, self._schemas)
        if not channel.schema and (there := self._elsewhere(number)) is not None:
            channel.schema = there.schema
        if not channel.schema and has_schema(content):  # what its messages mean is lost: they are missing
            channel.topic = ""
        known = self.read.get(number)
        if known is None:
            channel.counted_at = counted_at
            self.read[number] = channel
        else:
            known.topic, known.schema, known.counted = channel.topic, channel.schema or known.schema, channel.counted
        if channel.counted and not self.has_checks:
            self.has_checks = not self._is_rewritten()

    def _is_rewritten(self) -> bool:
        """Whether another program copied the messages of a recording into a file of its own.

        Such a file is closed, names the other program, and has no check record at all.
        """
        return (
            self.library not in ("", LIBRARY)
            and self._search.summary() is not None
            and self._search.next_check(0) is None
        )

    def known(self, number: int) -> Channel:
        """The channel with this number.

        If no channel record with this number was read, the channel comes from the file's summary or from the next check
        record. If these do not contain the channel either, the result has an empty topic.
        """
        channel = self.read.get(number)
        if channel is not None:
            return channel
        channel = self.read[number] = self._elsewhere(number) or Channel("", "", False)
        return channel

    def _elsewhere(self, number: int) -> Channel | None:
        """The channel with this number from the file's summary, or otherwise from the next check record.

        Returns None if neither the summary nor the check record contains the channel.
        """
        summary = self._search.summary()
        if summary is not None and number in summary.channels:
            there = summary.channels[number]
            return Channel(there.topic, there.schema, there.counted)
        if (check := self._search.next_check(self.verified)) is not None:
            for row in check[0].channels:
                if row.id == number:
                    return Channel(row.topic, row.schema, True)
        return None
