"""Writes everything that is said into one recording."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path, PurePath
from typing import Any

import msgspec

from nodes.runtime.loading import PACKAGE_ROOT
from nodes.runtime.node import Context, Node, Outgoing
from nodes.wire.messages import JointCommand, Message, RobotState
from nodes.wire.recording_writer import RecordingWriter, keep_unfinished


class RecorderParams(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Where to write and how often to flush."""

    file: str  # path of the recording (.mcap); with the first state one that stands there is renamed
    flush_s: float = 0.5  # s between flushes: at most this much is lost to a kill
    compression: str = "none"  # none | lz4 | zstd

    def __post_init__(self) -> None:
        if not self.file:
            raise ValueError("file is empty; give the path of the recording to write")
        if not 0.0 < self.flush_s < float("inf"):
            raise ValueError(f"flush_s is {self.flush_s}; it must be a number above 0")


class Recorder(Node):
    """Records every topic. A full disk is reported and outlived: what waits is written once there is room.

    A run that never began leaves the recording of an earlier one alone: the file is written aside, and takes its
    place with the first state. The earlier one is kept beside it, run.before.mcap of run.mcap, until the next run.

    Log time is simulation time: the message's own timestamp, or, of a stamp by another clock, when it was heard.
    Flushes follow `on_tick`, so they go by simulation time in lockstep (the same bytes on every run) and by the clock
    otherwise.
    """

    listens = {"*": Message}
    lossless = True
    Params = RecorderParams
    rate_hz = 20.0
    serves = {"recording": "the file, messages and bytes written, and what went wrong last"}

    @classmethod
    def check(cls, params: RecorderParams, plan: Mapping[str, Any]) -> None:
        folder = Path(params.file).absolute().parent
        if not folder.is_dir():
            raise ValueError(f"file is {params.file!r}; there is no folder {str(folder)!r}")

    def __init__(self) -> None:
        self._writer: RecordingWriter | None = None
        self._context: Context | None = None
        self._next_flush = float("-inf")
        self._flush_s = 0.5
        self._failure = ""
        self._time = 0.0  # simulation time of the latest state
        self._is_worth_keeping = False
        self._frames = self._dropped = self._failures = 0

    @property
    def counters(self) -> Mapping[str, int]:
        """Messages in the file or waiting for it, messages dropped, bytes written, writes that failed."""
        written = 0 if self._writer is None else self._writer.bytes
        return {
            "frames_written": self._frames,
            "frames_dropped": self._dropped,
            "bytes_written": written,
            "write_failures": self._failures,
        }

    def on_start(self, context: Context) -> Outgoing:
        """Open the file, aside from what stands in its place."""
        params: RecorderParams = context.params
        self._context = context
        self._flush_s = params.flush_s
        try:
            self._writer = RecordingWriter(
                params.file,
                run_metadata(context),
                aside=True,
                chunk_s=None,
                compression=params.compression,
                sidecar=run_sidecar(context),
            )
        except OSError as error:
            raise ValueError(f"cannot write {params.file!r}: {error.strerror or error}") from None
        return None

    def on_message(self, name: str, message: Message) -> Outgoing:
        """Write one message; `name` is the topic on the wire."""
        if self._writer is None:
            return None
        before = self._writer.messages
        time = message.timestamp
        if isinstance(message, RobotState | JointCommand) and message.clock:
            time = self._time
        elif type(message) is RobotState:
            self._time = time
        try:
            self._writer.write(name, message, time)
            if type(message) is RobotState and self._writer.is_aside and not self._is_worth_keeping:
                self._is_worth_keeping = True
                self._flush()
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
        kept = self._writer is not None and not self._writer.is_aside
        return {"file": file, "kept": kept, "failure": self._failure, **self.counters}

    def on_stop(self) -> Outgoing:
        """Close the file; without a state in it there is none."""
        if self._writer is None:
            return None
        if self._is_worth_keeping:
            self._flush()
        elif self._writer.is_aside and self._context is not None:
            there = "is as it was" if self._writer.path.exists() else "is not written"
            self._context.info(f"no state was heard, so nothing is kept: {self._writer.path} {there}")
        try:
            self._writer.close()
        except OSError as error:
            self._report(error)
        return None

    def _take_place(self, writer: RecordingWriter) -> None:
        """Stand where the file is to be; one that was cut off there is the only trace of a crash, and is kept."""
        kept = keep_unfinished(writer.path)
        if kept is not None and self._context is not None:
            self._context.info(f"an unfinished recording stood at {writer.path}; kept as {kept}")
        writer.take_place()

    def _flush(self) -> None:
        if self._writer is None:
            return
        try:
            self._writer.flush()
            if self._is_worth_keeping and self._writer.is_aside:
                self._take_place(self._writer)
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
    """The plan and the robot's parameters as JSON, without what differs between equal runs: paths, domain.

    A recorder that the plan does not have was started by hand beside it, and that is said.
    """
    plan = msgspec.to_builtins(context.plan)
    folder = plan.pop("folder", "")
    plan.pop("domain", None)
    nodes = plan.get("nodes", [])
    found = {"robot": context.robot}
    if all(node.get("name") != context.name for node in nodes):
        found["recorded_by"] = f"hand, node {context.name!r} beside the launch"
    if not plan:
        return found
    for node in nodes:
        run = str(node.get("run", ""))
        node["run"] = _portable(run, folder) or run.rpartition("/")[2]
        if node.get("name") == context.name:
            node["params"] = {key: value for key, value in node.get("params", {}).items() if key != "file"}
    parameters = plan.get("sim", {}).get("parameters", {})
    encode = msgspec.json.Encoder(order="deterministic").encode
    return {**found, "plan": encode(plan).decode(), "parameters": encode(parameters).decode()}


def run_sidecar(context: Context) -> dict[str, Any]:
    """Where the run stood on this machine: the plan's folder, and the nodes that are not found from there."""
    plan = context.plan
    folder = str(plan.get("folder", ""))
    nodes = plan.get("nodes", [])
    elsewhere = {node["name"]: node["run"] for node in nodes if _portable(node["run"], folder) is None}
    return {"plan_folder": folder, "node": context.name, "nodes_elsewhere": elsewhere}


def _portable(run: str, folder: str) -> str | None:
    """`run` as a launch file of that folder may say it, None for a file that is not found from there."""
    file, colon, name = run.rpartition(":")
    path = PurePath(file)
    if not path.is_absolute():
        return run
    for root in (folder, PACKAGE_ROOT):
        if root and path.is_relative_to(root):
            return f"{path.relative_to(root)}{colon}{name}"
    return None
