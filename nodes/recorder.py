"""Writes everything that is said into one recording."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path, PurePath
from typing import Any

import msgspec

from nodes.runtime.node import Context, Node, Outgoing
from nodes.wire.messages import Message
from nodes.wire.recording_writer import RecordingWriter, keep_unfinished


class RecorderParams(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Where to write and how often to flush."""

    file: str  # path of the recording (.mcap); a finished one that stands there is replaced
    flush_s: float = 0.5  # s between flushes: at most this much is lost to a kill
    compression: str = "none"  # none | lz4 | zstd

    def __post_init__(self) -> None:
        if not self.file:
            raise ValueError("file is empty; give the path of the recording to write")
        if not 0.0 < self.flush_s < float("inf"):
            raise ValueError(f"flush_s is {self.flush_s}; it must be a number above 0")


class Recorder(Node):
    """Records every topic. A full disk is reported and outlived: what waits is written once there is room.

    Log time is simulation time: the message's own timestamp. Flushes follow `on_tick`, so they go by
    simulation time in lockstep (the same bytes on every run) and by the clock otherwise.
    """

    listens = {"*": Message}
    lossless = True
    Params = RecorderParams
    rate_hz = 20.0
    serves = {"recording": "the file, messages and bytes written, and what went wrong last"}

    def __init__(self) -> None:
        self._writer: RecordingWriter | None = None
        self._context: Context | None = None
        self._next_flush = float("-inf")
        self._flush_s = 0.5
        self._failure = ""
        self._frames = self._dropped = self._failures = 0

    @property
    def counters(self) -> Mapping[str, int]:
        """Messages in the file or waiting for it, messages dropped, bytes on the disk, writes that failed."""
        written = 0 if self._writer is None else self._writer.bytes
        return {
            "frames_written": self._frames,
            "frames_dropped": self._dropped,
            "bytes_written": written,
            "write_failures": self._failures,
        }

    def on_start(self, context: Context) -> Outgoing:
        """Open the file; an unfinished recording that stands there is moved aside first."""
        params: RecorderParams = context.params
        self._context = context
        self._flush_s = params.flush_s
        try:
            kept = keep_unfinished(params.file)
            self._writer = RecordingWriter(
                params.file,
                run_metadata(context),
                chunk_s=None,
                compression=params.compression,
                sidecar={"plan_folder": context.plan.get("folder", ""), "node": context.name},
            )
        except OSError as error:
            raise ValueError(f"cannot write {params.file!r}: {error.strerror or error}") from None
        if kept is not None:
            context.info(f"an unfinished recording stood at {params.file}; kept as {kept}")
        return None

    def on_message(self, name: str, message: Message) -> Outgoing:
        """Write one message; `name` is the topic on the wire."""
        if self._writer is None:
            return None
        before = self._writer.messages
        try:
            self._writer.write(name, message, message.timestamp)
        except OSError as error:
            self._report(error)
        except ValueError as error:
            self._warn(str(error))
        kept = self._writer.messages - before
        self._frames += kept
        self._dropped += 1 - kept
        return None

    def on_tick(self, now: float) -> Outgoing:
        """Flush when the next tick would be too late."""
        if now + 1.5 / self.rate_hz >= self._next_flush:
            self._next_flush = now + self._flush_s
            self._flush()
        return None

    def on_reset(self, time: float) -> Outgoing:
        """Time was put back: what was recorded is flushed, and flushing goes on from there."""
        self._next_flush = float("-inf")
        self._flush()
        return None

    def on_request(self, name: str, args: dict[str, Any]) -> Any:
        """The service `recording`."""
        if name != "recording":
            return super().on_request(name, args)
        file = "" if self._writer is None else str(self._writer.path)
        return {"file": file, "failure": self._failure, **self.counters}

    def on_stop(self) -> Outgoing:
        """Close the file."""
        if self._writer is not None:
            try:
                self._writer.close()
            except OSError as error:
                self._report(error)
        return None

    def _flush(self) -> None:
        if self._writer is None:
            return
        try:
            self._writer.flush()
        except OSError as error:
            self._report(error)
        else:
            self._failure = ""

    def _report(self, error: OSError) -> None:
        self._failures += 1
        self._failure = error.strerror or str(error)
        file = "" if self._writer is None else self._writer.path
        self._warn(f"cannot write {file}: {self._failure}; what is not written yet is kept and tried again")

    def _warn(self, line: str) -> None:
        if self._context is not None:
            self._context.warn(line)


def run_metadata(context: Context) -> dict[str, str]:
    """The plan and the robot's parameters as JSON, without what differs between equal runs: paths, domain."""
    plan = msgspec.to_builtins(context.plan)
    if not plan:
        return {"robot": context.robot}
    plan.pop("folder", None)
    plan.pop("domain", None)
    for node in plan.get("nodes", []):
        run, colon, name = str(node.get("run", "")).rpartition(":")
        if PurePath(run).is_absolute():
            node["run"] = Path(run).name + colon + name
        if node.get("name") == context.name:
            node["params"] = {key: value for key, value in node.get("params", {}).items() if key != "file"}
    parameters = plan.get("sim", {}).get("parameters", {})
    encode = msgspec.json.Encoder(order="deterministic").encode
    return {
        "robot": context.robot,
        "plan": encode(plan).decode(),
        "parameters": encode(parameters).decode(),
    }
