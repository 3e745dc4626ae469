"""Writes everything that is said into one recording."""

from __future__ import annotations

import contextlib
import errno
import math
import os
from collections.abc import Mapping
from pathlib import Path, PurePath
from typing import Annotated, Any

import msgspec

from nodes.messages import JointCommand, Message, RobotState, Verdict
from nodes.messages.topics import lookup
from nodes.node import Context, Node, Outgoing
from nodes.plan.loading import PACKAGE_ROOT, load_class
from nodes.recording.lock import FileInUseError, require_unlocked
from nodes.recording.writer import Missing, RecordingWriter, keep_unfinished
from sim_core.tables import Range

# Of a disk: the run is worth more than its recording, so it goes on, and the launch fails at its end.
DISK_ERRORS = frozenset({errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EBUSY})


NAME_BYTES = 200  # of a file's name at most: names of files beside it are longer
PATH_LENGTH = 2000


class RecorderParams(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Where to write and how often to flush."""

    file: str  # path of the recording (.mcap); with the first state one that stands there is renamed
    flush_s: Annotated[float, Range(1e-3, 1e6, "s")] = 0.5  # s between flushes: at most this much is lost to a kill
    compression: str = "none"  # none | lz4 | zstd

    def __post_init__(self) -> None:
        if not self.file:
            raise ValueError("file is empty; give the path of the recording to write")
        if not 0.0 < self.flush_s < float("inf"):
            raise ValueError(f"flush_s is {self.flush_s}; it must be a number above 0")


class Recorder(Node):
    """Records every topic. A full disk is reported and outlived: what waits is written once there is room.

    A recording that is deleted meanwhile begins anew, one that another recorder writes is left to it, and this one's
    stands beside it, run.NODE.mcap of run.mcap. What the file lacks at the end is the node's verdict: the launch fails.

    A run that never began leaves the recording of an earlier one alone: the file is written aside, and takes its
    place with the first state. The earlier one is kept beside it, run.before.mcap of run.mcap, until the next run.

    Log time is simulation time: the message's own timestamp, or, of a stamp by another clock, when it was heard.
    Flushes follow `on_tick`, so they go by simulation time in lockstep (the same bytes on every run) and by the clock
    otherwise.
    """

    subscribes = {"*": Message}
    lossless = True
    Params = RecorderParams
    rate_hz = 20.0
    services = {"recording": "the file, messages and bytes written, and what went wrong last"}

    @classmethod
    def check(cls, params: RecorderParams, plan: Mapping[str, Any]) -> None:
        path = Path(params.file)
        if "\0" in params.file:
            raise ValueError(f"file is {params.file[:80]!r}; a path has no NUL character")
        if any(len(os.fsencode(part)) > NAME_BYTES for part in path.parts) or len(params.file) > PATH_LENGTH:
            most = f"a path has at most {PATH_LENGTH} characters, and {NAME_BYTES} bytes between two slashes"
            raise ValueError(f"file is {params.file[:80]!r} ..., {len(params.file)} characters; {most}")
        folder = path.absolute().parent
        if not folder.is_dir():
            raise ValueError(f"file is {params.file!r}; there is no folder {str(folder)!r}")
        if path.is_dir():
            raise ValueError(f"file is {params.file!r}, which is a folder; give the path of a file, as run.mcap")

    def __init__(self) -> None:
        self._writer: RecordingWriter | None = None
        self._context: Context | None = None
        self._opened = RecorderParams(file="none")  # the parameters at the start
        self._path = Path()  # where the recording is to stand
        self._next_flush = float("-inf")
        self._flush_s = 0.5
        self._failure = ""  # of the latest write
        self._lost = Missing()  # that no file holds any more
        self._reasons: dict[str, None] = {}  # why they are lost, or stand elsewhere, in order
        self._time = 0.0  # simulation time of the latest state
        self._latched: dict[str, Message] = {}
        self._is_worth_keeping = self._is_over = False
        self._frames = self._dropped = self._failures = self._bytes = 0

    @property
    def counters(self) -> Mapping[str, int]:
        """Messages in the file or waiting for it, messages dropped, bytes written, writes that failed."""
        written = self._bytes + (0 if self._writer is None else self._writer.bytes)
        return {
            "frames_written": self._frames,
            "frames_dropped": self._dropped,
            "bytes_written": written,
            "write_failures": self._failures,
        }

    @property
    def missing(self) -> Missing:
        """What was heard and is in no file; while it waits for a disk that takes nothing too."""
        found = Missing()
        found.merge(self._lost)
        if self._writer is not None:
            found.merge(self._writer.missing if self._failure or self._is_over else self._writer.dropped)
        return found

    @property
    def verdict(self) -> Verdict | None:
        """ "failed", for "run.mcap lacks ...", where messages are missing or stand elsewhere; None otherwise."""
        missing, reasons = (
            self.missing,
            list(self._reasons | ({self._failure: None} if self._failure else {})),
        )
        if not self._is_worth_keeping or not (missing.messages or reasons):
            return None
        wanted, why = self._opened.file, " and ".join(reasons)
        heard = self._frames + self._dropped
        if not missing.messages:
            return Verdict("failed", f"{wanted}: {why}, no message is missing: {self._rest()}")
        start, end = missing.start_s or 0.0, missing.end_s or 0.0
        count = f"all {heard}" if missing.messages >= heard else f"{missing.messages} of {heard}"
        span = f"t = {start:.3f} .. {end:.3f} s ({count} messages)"
        return Verdict("failed", f"{wanted} lacks {span}: {why}, {self._rest()}")

    def _rest(self) -> str:
        """Where the messages are that are not missing."""
        if self._writer is None or self._writer.is_aside or self.missing.messages >= self._frames + self._dropped:
            return "nothing of this run is recorded"
        return f"the rest lies in {self._writer.path}"

    def on_start(self, context: Context) -> Outgoing:
        """Open the file, aside from what stands in its place."""
        self._context = context
        self._opened = context.params
        self._flush_s = self._opened.flush_s
        self._path = Path(self._opened.file)
        if other := _recorder_before(context):
            self._give_way(f"node {other!r} writes it too")
        try:
            self._open()
        except OSError as error:
            if error.errno not in DISK_ERRORS:
                raise ValueError(f"cannot write {str(self._path)!r}: {error.strerror or error}") from None
            self._report(error)
        return None

    def _open(self) -> None:
        """Begin a file, with what is said once for all who come later. OSError where the disk does not let it."""
        assert self._context is not None
        metadata, sidecar = run_metadata(self._context), run_sidecar(self._context)
        for _ in range(2):
            try:
                self._writer = RecordingWriter(
                    self._path,
                    metadata,
                    aside=True,
                    chunk_s=None,
                    compression=self._opened.compression,
                    sidecar=sidecar,
                )
                break
            except FileInUseError as error:
                self._give_way(str(error.strerror))
        if self._writer is None:
            raise OSError(errno.EBUSY, "other recorders write it", str(self._path))
        for topic, message in self._latched.items():
            self._writer.write(topic, message, self._time)
        self._failure = ""

    def _give_way(self, why: str) -> None:
        """Another recorder has the file: this one's stands beside it."""
        assert self._context is not None
        self._reasons[why] = None
        self._path = self._path.with_name(f"{self._path.stem}.{self._context.name}{self._path.suffix}")
        self._warn(f"{self._opened.file}: {why}; this recording will be {self._path}")

    def on_message(self, name: str, message: Message) -> Outgoing:
        """Write one message; `name` is the topic on the wire."""
        time, kind = message.timestamp, type(message)
        is_state = kind is RobotState
        if (is_state or kind is JointCommand) and message.clock:  # type: ignore[attr-defined]
            time = self._time
        elif is_state:
            self._time = time
        elif (row := lookup(name)) is not None and row.latched:
            self._latched[name] = message
        begins = is_state and not self._is_worth_keeping
        if begins:
            self._is_worth_keeping = True
        if (writer := self._writer) is None:
            self._lose(name, time)
            return None
        before = writer.messages
        try:
            writer.write(name, message, time)
            if begins and writer.is_aside:
                self._flush()
        except OSError as error:
            self._report(error)
            if writer.messages == before:
                self._reasons[self._failure] = None
        except ValueError as error:
            self._warn(str(error))
        kept = writer.messages - before
        self._frames += kept
        self._dropped += 1 - kept
        return None

    def _lose(self, name: str, time: float) -> None:
        """Count a message for which there is no file; what is latched is kept, and written once there is one."""
        self._reasons[self._failure] = None
        if name not in self._latched:
            self._dropped += 1
            if math.isfinite(time):
                self._lost.add(time)

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

    def on_parameters(self, params: RecorderParams) -> Outgoing:
        """The time between flushes may change while it records. ValueError for what takes a new recorder."""
        assert self._context is not None
        file = "" if self._writer is None else str(self._writer.path)
        if params.file != self._opened.file or params.compression != self._opened.compression:
            name = "file" if params.file != self._opened.file else "compression"
            raise ValueError(f"{name} of a recorder is read at its start; it cannot be set while it records {file}")
        self._flush_s = params.flush_s
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
        if self._is_worth_keeping:
            self._flush()
        writer = self._writer
        self._is_over = True
        if writer is None:
            return None
        if not self._is_worth_keeping and writer.is_aside and self._context is not None:
            there = "is as it was" if writer.path.exists() else "is not written"
            self._context.info(f"no state was heard, so nothing is kept: {writer.path} {there}")
        try:
            if self._is_worth_keeping and writer.is_aside and writer.missing.messages < writer.messages:
                self._take_place(writer, flush=False)  # a full disk: what it took is kept
            writer.close()
        except OSError as error:
            self._report(error)
        return None

    def _take_place(self, writer: RecordingWriter, *, flush: bool = True) -> None:
        """Stand where the file is to be; one that was cut off there is the only trace of a crash, and is kept."""
        try:
            require_unlocked(writer.path)
        except FileInUseError as error:
            self._give_way(str(error.strerror))
            writer.retarget(self._path)
        kept = keep_unfinished(writer.path)
        if kept is not None and self._context is not None:
            self._context.info(f"an unfinished recording stood at {writer.path}; kept as {kept}")
        writer.take_place(flush=flush)

    def _flush(self) -> None:
        try:
            if self._writer is not None and not self._writer.stands:
                self._begin_anew(self._writer)
            if self._writer is None:
                self._open()
            if self._writer is None:
                return
            self._writer.flush()
            if self._is_worth_keeping and self._writer.is_aside:
                self._take_place(self._writer)
        except OSError as error:
            self._report(error)
        else:
            self._failure = ""

    def _begin_anew(self, writer: RecordingWriter) -> None:
        """The file was deleted, moved, replaced or cut: what is in it is not where it is looked for."""
        assert self._context is not None
        moved = writer.now_at
        what = "deleted, replaced or cut" if moved is None else f"moved to {moved}, which holds what came before,"
        why = f"{writer.path} was {what} at t = {self._time:.3f} s while it was recorded"
        self._reasons[why] = None
        self._warn(f"{why}; the recording begins anew")
        self._writer = None
        self._bytes += writer.bytes
        if moved is None:
            self._lost.merge(writer.written)
            writer.abandon()
        else:
            with contextlib.suppress(OSError):
                writer.close()
            self._lost.merge(writer.missing)
        if self._path.exists():
            self._path = self._path.with_name(f"{self._path.stem}.{self._context.name}{self._path.suffix}")

    def _report(self, error: OSError) -> None:
        self._failures += 1
        self._failure = error.strerror or str(error)
        kept = "what is not written yet is kept and tried again"
        if self._writer is None:
            kept = "nothing is recorded until it can be"
        self._warn(f"cannot write {self._path}: {self._failure}; {kept}")

    def _warn(self, line: str) -> None:
        if self._context is not None:
            self._context.warn(line)


def _recorder_before(context: Context) -> str:
    """The node that comes before in the plan and records to the same file; "" for none."""
    plan = context.plan
    for node in plan.get("nodes", []):
        if node.get("name") == context.name:
            return ""
        file = node.get("params", {}).get("file")
        same = isinstance(file, str) and Path(file).resolve() == Path(context.params.file).resolve()
        if (
            same
            and node.get("host", "") == _host(context)
            and "*" in load_class(node["run"], plan["folder"]).subscribes
        ):
            return str(node["name"])
    return ""


def _host(context: Context) -> str:
    nodes = context.plan.get("nodes", [])
    return next((str(node.get("host", "")) for node in nodes if node.get("name") == context.name), "")


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
