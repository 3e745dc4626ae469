"""A recording as an MCAP file for Foxglove, with the scene, transforms and joint states in Foxglove's own schemas."""

from __future__ import annotations

import os

import foxglove
from foxglove import Channel, Context

from nodes.framework.bridges.foxglove_channels import FoxgloveChannels
from nodes.framework.recording.new_file import new_file
from nodes.framework.recording.places import is_closed
from nodes.framework.recording.reader import RecordingFile


def export_foxglove(source: str | os.PathLike[str], target: str | os.PathLike[str]) -> int:
    """Write the recording `source` to the MCAP file `target`, and return the number of messages.

    The file also has the scene, transforms and joint states that the live Foxglove bridge sends. Messages of a user's
    own types are copied as JSON without a schema. Every message keeps its recorded log time.
    """
    context = Context()
    channels = FoxgloveChannels(context)
    others: dict[str, Channel] = {}
    count = 0
    with (
        new_file(target, is_closed) as part,
        foxglove.open_mcap(os.fspath(part), allow_overwrite=True, context=context),
    ):
        for recorded in RecordingFile(source):
            count += 1
            message = recorded.message()
            if message is not None:
                channels.log(recorded.topic, message, recorded.time_ns / 1e9)
                continue
            if recorded.topic not in others:
                others[recorded.topic] = Channel(f"/{recorded.topic}", message_encoding="json", context=context)
            others[recorded.topic].log(recorded.payload, log_time=recorded.time_ns)
    return count
