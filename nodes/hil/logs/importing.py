"""Import of a log: columns in any unit become measured states and applied commands of a robot, in a recording."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, get_args

import msgspec
import numpy as np

from nodes.framework.messages import Description, JointCommand, RobotState
from nodes.framework.plan.launch_plan import SimPlan
from nodes.framework.recording.writer import RecordingWriter
from nodes.hil.alignment.streams import GAP_FACTOR
from nodes.hil.logs.columns import CHANNELS, Channels, Column, Columns, Coupling, time_factor
from nodes.hil.logs.tables import Floats, LogError, Table, find_column
from nodes.hil.logs.units import UNKNOWN, Channel
from nodes.hil.prediction.measured_poses import MeasuredPoses
from robots.files import is_reference, located_if_there, with_located_corrections
from robots.registry import LOCKED, build
from sim_core.mechanism import Mechanism
from sim_core.support.suggestion import did_you_mean

METADATA = "import"  # key of a recording's metadata: an `ImportNote` as JSON
Mode = Literal["effort", "velocity", "position"]
EPOCH_S = 1e8  # times from here on count from an epoch, and are shifted to begin at 0


class ImportNote(msgspec.Struct, kw_only=True):
    """Origin of an imported recording, in its metadata.

    files           names of the log's files
    columns         the table of columns
    shift_s         time of the log at the recording's time 0, s
    gain_sigma      {joint: standard deviation of its motor constant relative to the constant}
    unknown_effort  joints whose efforts are in an unknown unit
    gaps            {"joint channel": number of samples without a value}
    missing         {channel: joints that the log does not have it for}
    notes           one line about each kind of data that was changed or left out
    """

    files: list[str]
    columns: Columns
    shift_s: float = 0.0
    gain_sigma: dict[str, float] = {}
    unknown_effort: list[str] = []
    gaps: dict[str, int] = {}
    missing: dict[str, list[str]] = {}
    notes: list[str] = []


@dataclass
class ImportedLog:
    """A log in SI units and radians: n samples of the k joints that the robot can move.

    time       (n,) s, not decreasing
    channels   {channel: (n, k)}, NaN where the log has no value; "command" only if the log has commands
    modes      {joint: mode of its commands}
    """

    mechanism: Mechanism
    names: tuple[str, ...]
    time: Floats
    channels: dict[Channel, Floats]
    modes: dict[str, str]
    note: ImportNote = field(default_factory=lambda: ImportNote(files=[], columns=Columns(robot="")))


def mechanism_of(columns: Columns, folders: Iterable[Path] = ()) -> Mechanism:
    """The robot of a table of columns, its locked joints fixed. Raises LogError for a robot that cannot be built.

    folders  folders in which the robot's file and its corrections are searched for, after the working folder
    """
    folders = tuple(folders)
    try:
        parameters = with_located_corrections(parameters_of(columns), *folders)
        return build(located_if_there(columns.robot, *folders), **parameters)
    except ValueError as error:
        raise LogError(str(error)) from None


def parameters_of(columns: Columns) -> dict[str, float | str]:
    """Parameters of the robot, with the locked joints among them."""
    locked = ", ".join(f"{name}={position:.17g}" for name, position in columns.locked.items())
    return {**columns.parameters, **({LOCKED: locked} if locked else {})}


def import_log(tables: Sequence[Table], columns: Columns, folders: Iterable[Path] = ()) -> ImportedLog:
    """The log in SI units and radians. Raises LogError if table of columns, log and robot do not fit."""
    mechanism = mechanism_of(columns, folders)
    joints = {joint.name: joint.unit == "m" for joint in mechanism.moving_joints}
    _check_names(columns, mechanism, joints)
    cut = [line for table in tables for line in table.notes]
    note = ImportNote(files=[table.name for table in tables], columns=columns, notes=cut)
    clock = _Clock(tables, columns, note)
    names = tuple(joints)
    reader = _Reader(tables, clock, note)
    channels: dict[Channel, Floats] = {channel: np.full((len(clock.time), len(names)), np.nan) for channel in CHANNELS}
    modes: dict[str, str] = {}
    driven = {actuator.joint for actuator in mechanism.actuators}
    for joint, given in columns.joints.items():
        for channel, column in given.named().items():
            place = f"[joints.{joint}] {channel}"
            values = reader.values(column, channel, joints[joint], place)
            channels[channel][:, names.index(joint)] = values
            if channel == "command":
                if joint not in driven:
                    raise LogError(f"{place}: joint {joint!r} of robot {columns.robot!r} has no actuator to command")
                modes[joint] = column.mode
            if channel == "effort":
                _note_gain(note, joint, column)
    for coupling in columns.couplings:
        _couple(coupling, columns.motors, joints, reader, channels, note)
    for index, name in enumerate(names):
        if name not in driven and np.isnan(channels["effort"][:, index]).all():
            channels["effort"][:, index] = 0.0  # no motor acts there
    note.gaps = {
        f"{name} {channel}": int(count)
        for channel in CHANNELS
        for name, count in zip(names, np.isnan(channels[channel]).sum(axis=0), strict=True)
        if 0 < count < len(clock.time)
    }
    note.missing = {
        channel: [name for name, column in zip(names, channels[channel].T, strict=True) if np.isnan(column).all()]
        for channel in CHANNELS
    }
    if without := note.missing["position"]:
        raise LogError(
            f"the log has no positions of {', '.join(without)}; give their columns in [joints], or hold them by "
            "[locked] at the position that they had"
        )
    return ImportedLog(mechanism, names, clock.time, channels, modes, note)


def _note_gain(note: ImportNote, joint: str, column: Column) -> None:
    if column.gain_sigma:
        note.gain_sigma[joint] = column.gain_sigma
    if column.unit == UNKNOWN:
        note.unknown_effort.append(joint)


def _check_names(columns: Columns, mechanism: Mechanism, joints: dict[str, bool]) -> None:
    every = [joint.name for joint in mechanism.joints]
    for name in columns.joints:
        if name in columns.locked:
            raise LogError(f"joint {name!r} is both in [joints] and in [locked]; leave it in one of them")
        if name not in joints:
            hint = did_you_mean(name, list(joints))
            raise LogError(f"robot {columns.robot!r} has no joint {name!r}; its joints are {', '.join(joints)}{hint}")
    for coupling in columns.couplings:
        for name in coupling.joints:
            if name not in joints:
                raise LogError(
                    f"[[couplings]]: robot {columns.robot!r} has no joint {name!r}; it has {', '.join(every)}"
                )
        for name in coupling.motors:
            if name not in columns.motors:
                raise LogError(f"[[couplings]]: there is no table [motors.{name}]")


def _couple(
    coupling: Coupling,
    motors: dict[str, Channels],
    joints: dict[str, bool],
    reader: _Reader,
    channels: dict[Channel, Floats],
    note: ImportNote,
) -> None:
    """Set the channels of coupled joints from those of their motors."""
    matrix = np.array(coupling.matrix, dtype=float)
    size = len(coupling.joints)
    if matrix.shape != (size, len(coupling.motors)) or size != len(coupling.motors) or np.linalg.cond(matrix) > 1e9:
        raise LogError(f"[[couplings]]: matrix must be an invertible matrix of {size} rows, one motor for each joint")
    places = [list(joints).index(name) for name in coupling.joints]
    given = {name: motors[name].named() for name in coupling.motors}
    for channel in CHANNELS:
        there = [name for name in coupling.motors if channel in given[name]]
        if not there:
            continue
        if len(there) < size:
            raise LogError(f"[[couplings]]: {channel} is given for {', '.join(there)} alone; give it for every motor")
        slides = joints[coupling.joints[0]]
        values = np.stack(
            [reader.values(given[name][channel], channel, slides, f"[motors.{name}] {channel}") for name in there], 1
        )
        is_effort = channel in ("effort", "command")
        channels[channel][:, places] = values @ (np.linalg.inv(matrix) if is_effort else matrix.T)
        if channel == "effort":
            sigma = max(given[name]["effort"].gain_sigma for name in there)
            note.gain_sigma |= {name: sigma for name in coupling.joints if sigma}
            is_unknown = any(given[name]["effort"].unit == UNKNOWN for name in there)
            note.unknown_effort += coupling.joints if is_unknown else []


class _Clock:
    """Times of the samples: those of the first table with a position, within the ranges of the table of columns.

    time   (n,) s of the recording
    log_s  (n,) s of the log
    """

    def __init__(self, tables: Sequence[Table], columns: Columns, note: ImportNote) -> None:
        self.tables, self._columns = tables, columns
        given = [*columns.joints.values(), *columns.motors.values()]
        first = next((c.named()["position"] for c in given if "position" in c.named()), None)
        if first is None:
            raise LogError("[joints] has no column of positions; give at least one")
        self.master, _ = find_column(tables, first.column)
        every = self.of_table(self.master)
        kept = np.isfinite(every)
        if left := int((~kept).sum()):
            note.notes.append(f"{left} samples without a time are left out")
        if columns.time.ranges:
            inside = [(every >= start) & (every <= end) for start, end in columns.time.ranges]
            kept &= np.logical_or.reduce(inside)
        self.kept = np.flatnonzero(kept)
        if len(self.kept) < 2:
            known = every[np.isfinite(every)]
            span = f"{known.min():g} .. {known.max():g} s" if len(known) else "none"
            raise LogError(f"{len(self.kept)} samples are left, at least 2 are needed; the times of the log are {span}")
        self.log_s = every[self.kept]
        falls = np.flatnonzero(np.diff(self.log_s) < 0.0)
        if len(falls):
            row, before, after = int(self.kept[falls[0] + 1]), self.log_s[falls[0]], self.log_s[falls[0] + 1]
            raise LogError(
                f"time goes back from {before:g} s to {after:g} s at sample {row + 1} of {tables[self.master].name}; "
                "cut the log there, or select a part by [time] ranges"
            )
        start = float(self.log_s[0])
        note.shift_s = start if start < 0.0 or start > EPOCH_S else 0.0
        if note.shift_s:
            note.notes.append(f"time 0 is {start:.3f} s of the log")
        self.time = self.log_s - note.shift_s

    def of_table(self, index: int) -> Floats:
        """Times (s) of the log in all samples of a table."""
        time, table = self._columns.time, self.tables[index]
        if not time.column:
            if not time.rate_hz or not math.isfinite(time.rate_hz):
                raise LogError("[time]: give the column of the time, or rate_hz if the log has none")
            rows = len(next(iter(table.columns.values())))
            return np.arange(rows) / time.rate_hz
        _, values = find_column([table], time.column)
        return values * time_factor(time)


class _Reader:
    """Values of columns at the times of a clock, in SI units and radians."""

    def __init__(self, tables: Sequence[Table], clock: _Clock, note: ImportNote) -> None:
        self._tables, self._clock, self._note = tables, clock, note

    def values(self, column: Column, channel: Channel, slides: bool, place: str) -> Floats:
        """The column (n,) at the joint; values of another table with other times are interpolated."""
        quantity: Channel = channel if channel != "command" or column.mode == "effort" else column.mode
        factor = column.factor(quantity, slides, place)
        try:
            index, values = find_column(self._tables, column.column)
        except LogError as error:
            raise LogError(f"{place}: {error}") from None
        return factor * (self._at_times(index, values) - column.offset)

    def _at_times(self, index: int, values: Floats) -> Floats:
        clock = self._clock
        if index == clock.master:
            return values[clock.kept]
        time = clock.of_table(index)
        if len(time) >= len(clock.kept) and np.array_equal(time[clock.kept.clip(0, len(time) - 1)], clock.log_s):
            return values[clock.kept]
        known = np.isfinite(time) & np.isfinite(values)
        if (np.diff(time[known]) < 0.0).any() or known.sum() < 2:
            raise LogError(f"the times of {self._tables[index].name} go back, or it has fewer than 2 samples")
        line = f"{self._tables[index].name} has other times and is interpolated at those of "
        line += self._tables[clock.master].name
        if line not in self._note.notes:
            self._note.notes.append(line)
        time, values = time[known], values[known]
        found = np.interp(clock.log_s, time, values, left=np.nan, right=np.nan)
        after = np.searchsorted(time, clock.log_s).clip(1, len(time) - 1)
        wide = time[after] - time[after - 1] > GAP_FACTOR * np.median(np.diff(time))
        found[wide & (time[after] != clock.log_s)] = np.nan
        return found


def write_recording(log: ImportedLog, description: Description, path: Path, folders: Iterable[Path] = ()) -> int:
    """Write the log as a recording; returns the number of messages. A recording at `path` is replaced.

    Topics are <robot>/description, <robot>/measured_state, the bodies' poses there, <robot>/measured_body_poses, and,
    for a log with commands, <robot>/applied_command. A value that the log does not have is null.

    description  description of the robot; its name and time are set here
    folders      folders in which the robot's file is searched for, after the working folder
    """
    columns = log.note.columns
    reference = located_if_there(columns.robot, *folders)
    shown = Path(reference).name if is_reference(reference) else reference
    sim = SimPlan(robot=shown, parameters=parameters_of(columns), mode="fast", step_ms=columns.step_ms)
    robot = sim.robot_name
    metadata = {
        "robot": robot,
        "plan": msgspec.json.encode({"sim": msgspec.to_builtins(sim), "nodes": []}).decode(),
        METADATA: msgspec.json.encode(log.note).decode(),
    }
    sidecar = {"robot_file": reference} if is_reference(reference) else {}
    with RecordingWriter(path, metadata, aside=True, sidecar=sidecar) as writer:
        start = float(log.time[0])
        description.robot, description.seq, description.timestamp = robot, 1, start
        writer.write(f"{robot}/description", description, start)
        poses = MeasuredPoses(log.mechanism, sim.poses_hz)
        for leaf, message in _messages(log):
            writer.write(f"{robot}/{leaf}", message, message.timestamp)
            if isinstance(message, RobotState) and (posed := poses.at(message)) is not None:
                writer.write(f"{robot}/measured_body_poses", posed, message.timestamp)
        writer.take_place()
        return writer.messages


def _messages(log: ImportedLog) -> Iterator[tuple[str, RobotState | JointCommand]]:
    """Yield (last part of the topic, message), sample by sample, commands before the state."""
    names, commands = list(log.names), 0
    actuator_of = {actuator.joint: actuator.name for actuator in log.mechanism.actuators}
    position, velocity, effort, values = (log.channels[channel].tolist() for channel in CHANNELS)
    has_velocity = np.isfinite(log.channels["velocity"]).any()
    for row, time in enumerate(log.time.tolist()):
        for mode in get_args(Mode):
            chosen = [
                k for k, name in enumerate(names) if log.modes.get(name) == mode and values[row][k] == values[row][k]
            ]
            if chosen:
                commands += 1
                told, to = [values[row][k] for k in chosen], [actuator_of[names[k]] for k in chosen]
                yield "applied_command", JointCommand(timestamp=time, seq=commands, mode=mode, name=to, value=told)
        rate = velocity[row] if has_velocity else []
        yield (
            "measured_state",
            RobotState(
                timestamp=time, seq=row + 1, name=names, position=position[row], velocity=rate, effort=effort[row]
            ),
        )
