"""Writes every message of the domain into one recording."""

from __future__ import annotations

import contextlib
import errno
import math
import os
from collections.abc import Mapping
from pathlib import Path, PurePath
from typing import Annotated, Any

import msgspec

from nodes.framework.messages import JointCommand, Message, RobotState, Verdict
from nodes.framework.messages.codec import AnyMessage
from nodes.framework.messages.topics import lookup
from nodes.framework.plan.launch_plan import Plan
from nodes.framework.plan.node_classes import PACKAGE_ROOT, load_class
from nodes.framework.recording.integrity.search import is_replaceable
from nodes.framework.recording.lock import FileInUseError, require_unlocked
from nodes.framework.recording.writer import Missing, RecordingWriter, keep_unfinished
from nodes.node import Context, Node, Outgoing
from robots.files import is_reference, split
from sim_core.tables import Range

# Errors of the disk: the run goes on without its recording, and the launch fails at its end.
DISK_ERRORS = frozenset({errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EBUSY})


LOST = "messages did not reach the recorder, because it was stopped or did not keep up"
NAME_BYTES = 200  # longest file name; files beside the recording have longer names
PATH_LENGTH = 2000


class RecorderParams(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """File to write, times between flushes and between calls of fsync, and compression."""

    file: str  # path of the recording (.mcap); an earlier one is renamed at the first state
    flush_s: Annotated[float, Range(1e-3, 1e6, "s")] = 0.5  # s between flushes: at most this much is lost to a kill
    sync_s: Annotated[float, Range(1e-3, 1e6, "s")] = 5.0  # s between calls of fsync: a power cut loses this much more
    compression: str = "none"  # none | lz4 | zstd

    def __post_init__(self) -> None:
        if not self.file:
            raise ValueError("file is ''; give the path of the recording to write")
        for name in ("flush_s", "sync_s"):
            if not 0.0 < getattr(self, name) < float("inf"):
                raise ValueError(f"{name} is {getattr(self, name)}; it must be a number above 0")


class Recorder(Node):
    """Records every topic. While the disk is full, the recorder keeps the messages, and writes them once there is room.

    If the file is deleted during the run, the recorder begins a new file. If another recorder writes the same file,
    this recorder writes run.NODE.mcap instead of run.mcap. If the file lacks messages, the node's verdict is "failed"
    and states which ones, so that the launch fails.

    A run that never began leaves the recording of an earlier run unchanged: the recorder writes to a temporary name and
    renames the file at the first state. The earlier recording is kept until the next run, as run.before.mcap for
    run.mcap.

    Log time is simulation time: the message's own timestamp, or, for a message stamped by another clock, the time of
    the latest state. The recorder flushes in `on_tick`: by simulation time in lockstep (the same bytes on every run),
    by the node's clock otherwise.
    """

    subscribes = {"*": Message}
    lossless = True
    Params = RecorderParams
    rate_hz = 20.0
    services = {"recording": "the file, messages and bytes written, and the latest failure"}

    @classmethod
    def check(cls, params: RecorderParams, plan: Plan) -> None:
        path = Path(params.file)
        if "\0" in params.file:
            raise ValueError(f"file is {params.file[:80]!r}; a path must not contain a NUL character")
        if any(len(os.fsencode(part)) > NAME_BYTES for part in path.parts) or len(params.file) > PATH_LENGTH:
            most = f"a path may have {PATH_LENGTH} characters, and {NAME_BYTES} bytes between two slashes"
            raise ValueError(f"file is {params.file[:80]!r} ... and has {len(params.file)} characters; {most}")
        folder = path.absolute().parent
        if not folder.is_dir():
            raise ValueError(f"file is {params.file!r}; there is no folder {str(folder)!r}; create it first")
        if path.is_dir():
            raise ValueError(f"file is {params.file!r}, which is a folder; give the path of a file, such as run.mcap")
        if not is_replaceable(path):
            raise ValueError(
                f"file is {params.file!r}, which exists and is no recording; give the path of a recording or a new file"
            )

    def __init__(self) -> None:
        self._writer: RecordingWriter | None = None
        self._context: Context | None = None
        self._opened = RecorderParams(file="none")  # parameters at the start
        self._path = Path()  # path of the recording to write
        self._next_flush = float("-inf")
        self._flush_s = 0.5
        self._failure = ""  # error of the latest write; "" for none
        self._lost = Missing()  # messages in no file
        self._unreceived = Missing()  # messages that did not reach this node
        self._gaps: dict[str, int] = {}  # {topic: messages lost since its latest message}
        self._times: dict[str, float] = {}  # {topic: log time of its latest message}
        self._reasons: dict[str, None] = {}  # reasons of the losses, and of another path, in order
        self._time = 0.0  # simulation time of the latest state
        self._latched: dict[str, Message] = {}
        self._is_worth_keeping = self._is_over = False
        self._frames = self._dropped = self._failures = self._bytes = 0

    @property
    def counters(self) -> Mapping[str, int]:
        """Numbers of messages written or waiting to be written, messages dropped, bytes written, and failed writes."""
        written = self._bytes + (0 if self._writer is None else self._writer.bytes)
        return {
            "frames_written": self._frames,
            "frames_dropped": self._dropped,
            "bytes_written": written,
            "write_failures": self._failures,
        }

    @property
    def missing(self) -> Missing:
        """Messages that are in no file, including those that did not reach this node.

        While the disk refuses writes, these include the messages that wait to be written.
        """
        found = Missing()
        found.merge(self._lost)
        found.merge(self._unreceived)
        if self._writer is not None:
            found.merge(self._writer.missing if self._failure or self._is_over else self._writer.dropped)
        return found

    @property
    def verdict(self) -> Verdict | None:
        """Verdict "failed" with the reason if messages are missing or are in another file; None otherwise."""
        now = [self._failure, "" if self._writer is None else self._writer.sync_failure]
        missing, reasons = self.missing, list(self._reasons | {reason: None for reason in now if reason})
        if not self._is_worth_keeping or not (missing.messages or reasons):
            return None
        wanted, why = self._opened.file, " and ".join(reasons)
        total = self._published
        if not missing.messages:
            return Verdict("failed", f"{wanted}: {why}, no message is missing: {self._rest_text()}")
        start, end = missing.start_s or 0.0, missing.end_s or 0.0
        count = f"all {total}" if missing.messages >= total else f"{missing.messages} of {total}"
        span = f"t = {start:.3f} .. {end:.3f} s ({count} messages)"
        return Verdict("failed", f"{wanted} lacks {span}: {why}, {self._rest_text()}")

    @property
    def _published(self) -> int:
        """Number of messages that reached this node or are known to be lost."""
        return self._frames + self._dropped + self._unreceived.messages

    def _rest_text(self) -> str:
        """Text for the verdict that names the file with the recorded messages, or says that nothing was recorded."""
        if self._writer is None or self._writer.is_aside or self.missing.messages >= self._published:
            return "nothing of this run is recorded"
        return f"the rest is in {self._writer.path}"

    def on_start(self, context: Context) -> Outgoing:
        """Open the file under a temporary name, so that an earlier recording stays until the first state is written."""
        self._context = context
        self._opened = context.params
        self._flush_s = self._opened.flush_s
        self._path = Path(self._opened.file)
        if other := _recorder_before(context):
            self._use_other_path(f"node {other!r} writes it too")
        try:
            self._open()
        except OSError as error:
            if error.errno not in DISK_ERRORS:
                raise ValueError(f"cannot write {str(self._path)!r}: {error.strerror or error}") from None
            self._report(error)
        return None

    def _open(self) -> None:
        """Create the file and write the latched messages. Raises OSError if the disk does not allow it."""
        assert self._context is not None
        metadata, sidecar = run_metadata(self._context), run_sidecar(self._context)
        for _ in range(2):
            try:
                self._writer = RecordingWriter(
                    self._path,
                    metadata,
                    aside=True,
                    chunk_s=None,
                    sync_s=self._opened.sync_s,
                    compression=self._opened.compression,
                    sidecar=sidecar,
                )
                break
            except FileInUseError as error:
                self._use_other_path(str(error.strerror))
        if self._writer is None:
            raise OSError(errno.EBUSY, "other recorders write to this file", str(self._path))
        for topic, message in self._latched.items():
            self._writer.write(topic, message, self._time)
        self._failure = ""

    def _use_other_path(self, why: str) -> None:
        """Change the path from run.mcap to run.NODE.mcap and log `why`, the reason why run.mcap cannot be used."""
        assert self._context is not None
        self._reasons[why] = None
        self._path = self._path.with_name(f"{self._path.stem}.{self._context.name}{self._path.suffix}")
        self._warn(f"{self._opened.file}: {why}; this recording will be {self._path}")

    def on_lost(self, name: str, count: int) -> None:
        """Keep the number of lost messages until the next message of the topic, or the end, is written."""
        self._gaps[name] = self._gaps.get(name, 0) + count

    def _write_lost(self, name: str, message: Message, time: float) -> None:
        """Write how many messages of a topic did not reach this node before `message`, which has the log time `time`
        (s).
        """
        count = self._gaps.pop(name, 0)
        if not count:
            return
        self._reasons[LOST] = None
        self._unreceived.add(self._times.get(name, time), count)
        self._unreceived.add(time, 0)
        if self._writer is not None:
            self._writer.lose(name, message, count)

    def on_message(self, name: str, message: Message) -> Outgoing:
        """Write one message; `name` is the full topic name."""
        time, kind = message.timestamp, type(message)
        is_state = kind is RobotState
        if (is_state or kind is JointCommand) and message.clock:  # type: ignore[attr-defined]
            time = self._time
        elif is_state:
            self._time = time
        elif (row := lookup(name)) is not None and row.latched:
            self._latched[name] = message
        if self._gaps:
            self._write_lost(name, message, time)
        self._times[name] = time
        begins = is_state and not self._is_worth_keeping
        if begins:
            self._is_worth_keeping = True
        if (writer := self._writer) is None:
            self._count_lost(name, time)
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
            self._reasons[str(error)] = None
            self._warn(str(error))
        kept = writer.messages - before
        self._frames += kept
        self._dropped += 1 - kept
        return None

    def _count_lost(self, name: str, time: float) -> None:
        """Count a message as lost if no file is open. A latched message is kept for the next file instead."""
        self._reasons[self._failure] = None
        if name not in self._latched:
            self._dropped += 1
            if math.isfinite(time):
                self._lost.add(time)

    def on_tick(self, now: float) -> Outgoing:
        """Flush if a flush is due now or within the next 1.5 tick periods."""
        if now + 1.5 / self.rate_hz >= self._next_flush:
            self._next_flush = now + self._flush_s
            self._flush()
        return None

    def on_reset(self, time: float) -> Outgoing:
        """Flush at once, because simulation time was set back. The next tick flushes again."""
        self._next_flush = float("-inf")
        self._flush()
        return None

    def on_parameters(self, params: RecorderParams) -> Outgoing:
        """Change the time between flushes.

        Raises ValueError if another parameter changes, because the recorder reads these at its start.
        """
        assert self._context is not None
        file = "" if self._writer is None else str(self._writer.path)
        for name in ("file", "sync_s", "compression"):
            if getattr(params, name) == getattr(self._opened, name):
                continue
            raise ValueError(
                f"a recorder reads its parameter {name} once, at the start; restart the recorder to use the new value "
                f"(present file: {file})"
            )
        self._flush_s = params.flush_s
        return None

    def on_request(self, name: str, args: dict[str, Any]) -> Any:
        """Response of the service `recording`: file, whether the file has its final name, latest failure, counters."""
        if name != "recording":
            return super().on_request(name, args)
        file = "" if self._writer is None else str(self._writer.path)
        kept = self._writer is not None and not self._writer.is_aside
        return {"file": file, "kept": kept, "failure": self._failure, **self.counters}

    def on_stop(self) -> Outgoing:
        """Close the file; a file without any state is removed."""
        for name in list(self._gaps):
            row = lookup(name)
            self._write_lost(name, AnyMessage() if row is None else row.message(), self._time)
        if self._is_worth_keeping:
            self._flush()
        writer = self._writer
        self._is_over = True
        if writer is None:
            return None
        if not self._is_worth_keeping and writer.is_aside and self._context is not None:
            there = "is unchanged" if writer.path.exists() else "is not written"
            self._context.info(f"no robot state was received, so nothing is recorded; {writer.path} {there}")
        try:
            if self._is_worth_keeping and writer.is_aside and writer.missing.messages < writer.messages:
                self._take_place(writer, flush=False)  # the disk is full: what was written is kept
            writer.close()
        except OSError as error:
            self._report(error)
        return None

    def _take_place(self, writer: RecordingWriter, *, flush: bool = True) -> None:
        """Rename the file to the recording's path.

        If a truncated recording is at this path, that recording is first renamed, so that it is kept.

        flush  whether to flush before the file is renamed
        """
        try:
            require_unlocked(writer.path)
        except FileInUseError as error:
            self._use_other_path(str(error.strerror))
            writer.retarget(self._path)
        kept = keep_unfinished(writer.path)
        if kept is not None and self._context is not None:
            self._context.info(f"an unfinished recording was found at {writer.path}; it is kept as {kept}")
        writer.take_place(flush=flush)

    def _flush(self) -> None:
        try:
            if self._writer is not None and not self._writer.stands:
                self._reopen(self._writer)
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

    def _reopen(self, writer: RecordingWriter) -> None:
        """Open a new file because the present one was deleted, moved, replaced or truncated by somebody else."""
        assert self._context is not None
        moved = writer.now_at
        what = "deleted, replaced or cut" if moved is None else f"moved to {moved}, which holds the messages so far,"
        why = f"{writer.path} was {what} at t = {self._time:.3f} s while it was recorded"
        self._reasons[why] = None
        self._warn(f"{why}; a new recording is started")
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
        kept = "unwritten messages are kept and written later"
        if self._writer is None:
            kept = "nothing is recorded until the file can be opened"
        self._warn(f"cannot write {self._path}: {self._failure}; {kept}")

    def _warn(self, line: str) -> None:
        if self._context is not None:
            self._context.warn(line)


def _recorder_before(context: Context) -> str:
    """Name of a node that precedes this node in the plan and records to the same file on the same host; "" if there is
    none.
    """
    plan = context.plan
    if plan is None:
        return ""
    for node in plan.nodes:
        if node.name == context.name:
            return ""
        file = node.params.get("file")
        same = isinstance(file, str) and Path(file).resolve() == Path(context.params.file).resolve()
        if same and node.host == _host(plan, context.name) and "*" in load_class(node.run, plan.folder).subscribes:
            return node.name
    return ""


def _host(plan: Plan, name: str) -> str:
    return next((node.host for node in plan.nodes if node.name == name), "")


def without_recorders(plan: Plan) -> Plan:
    """The plan, and the plans of its simulations, without their recorders."""

    def kept(view: Plan) -> Plan:
        nodes = [node for node in view.nodes if not issubclass(load_class(node.run, plan.folder), Recorder)]
        return msgspec.structs.replace(view, nodes=nodes)

    return msgspec.structs.replace(
        kept(plan), simulations={name: kept(view) for name, view in plan.simulations.items()}
    )


def run_metadata(context: Context) -> dict[str, str]:
    """The plan and the robot's parameters as JSON, without paths and domain number, because these differ between
    otherwise equal runs.

    A recorder that is not in the plan was started by a user during the launch; the metadata then contain the entry
    "recorded_by".
    """
    plan: dict[str, Any] = msgspec.to_builtins(context.plan) or {}
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
        node["run"] = _portable_or_name(run, folder)
        if node.get("name") == context.name:
            node["params"] = {key: value for key, value in node.get("params", {}).items() if key != "file"}
    sim = plan.get("sim", {})
    if is_reference(sim.get("robot", "")):
        sim["robot"] = _portable_or_name(sim["robot"], folder)
    parameters = sim.get("parameters", {})
    encode = msgspec.json.Encoder(order="deterministic").encode
    return {**found, "plan": encode(plan).decode(), "parameters": encode(parameters).decode()}


def run_sidecar(context: Context) -> dict[str, Any]:
    """Machine-specific data of the run: the folder of the launch plan, and the node and robot files outside this
    folder.
    """
    plan = context.plan
    folder = "" if plan is None else plan.folder
    nodes = [] if plan is None else plan.nodes
    elsewhere = {node.name: node.run for node in nodes if _portable(node.run, folder) is None}
    found = {"plan_folder": folder, "node": context.name, "nodes_elsewhere": elsewhere}
    robot = "" if plan is None else plan.sim.robot
    return found | {"robot_file": robot} if is_reference(robot) and _portable(robot, folder) is None else found


def _portable_or_name(run: str, folder: str) -> str:
    """A node's key `run` ("FILE:CLASS") with FILE relative to the plan's folder or the package.

    If FILE is outside both, the result has the name of FILE without its folder.
    """
    return _portable(run, folder) or run.rpartition("/")[2]


def _portable(run: str, folder: str) -> str | None:
    """A node's key `run` ("FILE:CLASS") with FILE relative to the plan's folder or the package; None if FILE is outside
    both.
    """
    file, name = split(run)
    colon, path = ":" if name else "", PurePath(file)
    if not path.is_absolute():
        return run
    for root in (folder, PACKAGE_ROOT):
        if root and path.is_relative_to(root):
            return f"{path.relative_to(root)}{colon}{name}"
    return None
