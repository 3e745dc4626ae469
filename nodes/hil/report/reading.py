"""Inputs of a report, read from one or two recordings: the two streams, the model, and the limits of the launch
file.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from nodes.framework.plan.launch_plan import SimPlan
from nodes.framework.recording.reader import Recording, read_recording, require_no_hole
from nodes.framework.recording.sidecar import folders_of
from nodes.hil.alignment.irregularities import old_samples, paused
from nodes.hil.alignment.streams import Floats, Stream, StreamError, stream_of
from nodes.hil.clocks.recorded import ClockNote, place, time_behind
from nodes.hil.prediction.recorded_commands import prediction
from nodes.hil.prediction.short_predictions import predicted as short_predictions
from nodes.hil.report.limits import Limits
from nodes.hil.report.run_notes import guard_actions, run_notes
from robots.files import located_if_there, with_located_corrections

COMPARER = "hil_compare.py:HilCompare"
STEP_KNOWN_S = 0.1  # largest uncertainty of the instant at which another clock jumped


@dataclass(frozen=True)
class TimeIrregularities:
    """Irregularities of the times of a stream; (n,) each, in s.

    time        simulation times of the n samples
    behind_s    times by which the simulation fell behind real time shortly before each sample
    paused_s    total time by which the pauses shortly before each sample were longer than usual
    """

    time: Floats
    behind_s: Floats
    paused_s: Floats

    def at(self, time: Floats) -> tuple[Floats, Floats]:
        """Return (`behind_s`, `paused_s`) at the simulation times `time` (m,), interpolated."""
        return np.interp(time, self.time, self.behind_s), np.interp(time, self.time, self.paused_s)

    def irregular_s(self, time: Floats) -> Floats:
        """Sum (m,) of `behind_s` and `paused_s` at the simulation times `time` (m,)."""
        behind, paused_s = self.at(time)
        return behind + paused_s


@dataclass(frozen=True)
class Source:
    """One of the two compared streams and its origin: file, topic, and the clock that stamped it (None for simulation
    time).

    driven  description of the commands with which the model was simulated again; "" if the states are the recorded ones
    caveat  one line that says why the states may differ for a reason other than the robot; "" if there is no such
            reason
    irregularities  those of the times of the samples; None in lockstep
    """

    file: str
    topic: str
    stream: Stream
    truncated: bool
    clock: ClockNote | None = None
    driven: str = ""
    caveat: str = ""
    irregularities: TimeIrregularities | None = None


@dataclass(frozen=True)
class Case:
    """A measured and a predicted stream to compare, with all that the comparison depends on.

    robot, parameters  robot of the predicting model and its parameters, from the plan in the recording; robot is ""
                       without a plan
    sliding            joints whose positions are in metres
    same_efforts       whether both streams are from one run in which all commands were efforts, so that equal efforts
                       acted on robot and model
    is_timed           whether the simulation times of the measured states are inexact: true if the measured run was in
                       real time, or if another clock than the simulation's stamped the states
    hold_s             time (s) for which an effort is held, the time step of the measured run; infinite if unknown
    limits             limits that the launch file sets for its hil_compare node
    run                notes on the run that affect the comparison, one line each
    held               one line about a guard that held the robot stopped at the end of the measured run; "" if no guard
                       did so
    stiffness          {joint: stiffness of its servo in N m/rad or N/m}
    starts_measured    whether the predicted states start from measured ones, again and again, so that they show no
                       delay and no exchanged channel
    differentiated     whether the measured velocities are derivatives of the positions
    """

    measured: Source
    predicted: Source
    robot: str
    parameters: Mapping[str, Any]
    sliding: frozenset[str]
    same_efforts: bool
    is_timed: bool
    hold_s: float
    limits: Mapping[str, Any]
    run: tuple[str, ...] = ()
    held: str = ""
    stiffness: Mapping[str, float] = field(default_factory=dict)
    starts_measured: bool = False
    differentiated: bool = False


def read_case(
    recording: Path,
    second: Path | None,
    measured_topic: str | None = None,
    predicted_topic: str | None = None,
    *,
    sim: Mapping[str, Any] | None = None,
    start_s: float = 0.0,
) -> Case:
    """The streams to compare, read from one or two recordings.

    A single recording contains both streams: the measured `<robot>/measured_state` and the predicted `<robot>/state`.
    Of two recordings, the first is measured and the second predicted. The measured stream is then
    `<robot>/measured_state` of the first recording, or `<robot>/state` if this recording has no measured states; the
    predicted stream is `<robot>/state` of the second recording. `measured_topic` and `predicted_topic` select other
    topics.

    If a single recording also contains the commands that the robot applied, `<robot>/applied_command`, the predicted
    stream is a new simulation of the recorded plan's model, in which these commands act at the recorded instants. A
    `predicted_topic` prevents this simulation.

    sim      keys of the table [sim] that replace those of the recorded plan, such as another model's
    start_s  simulation time, s, from which on the streams are compared
    Raises StreamError or RecordingError with a one-line message for the user.
    """
    first = read_recording(recording, warn=False)
    other = first if second is None else read_recording(second, warn=False)
    for each in (first, other):
        require_no_hole(each, "reported on: the robot would be blamed for what is missing")
    measured = measured_topic or _topic(first, ("measured_state",) if second is None else ("measured_state", "state"))
    if second is None and predicted_topic is None and first.topic_of_states() is None and _plan(first):
        return _case_without_states(first, measured, sim or {}, start_s)
    predicted = predicted_topic or _topic(other, ("state",))
    if other is first and measured == predicted:
        raise StreamError(
            f"{recording}: topic {measured!r} would be compared with itself; name two topics or two recordings"
        )
    plan = _plan(other)
    sim = {**plan.get("sim", {}), **(sim or {})}
    described = other.description or first.description
    sliding = [joint.name for joint in described.joints if joint.unit == "m"] if described is not None else []
    actuators = described.actuators if described is not None else []
    compared = _compared_with(_plan(first)) or _compared_with(plan)
    start_s = max(start_s, compared.get("settle_s", 0.0))
    recorded = _source(other, predicted)
    if other is first and predicted_topic is None:
        recorded = _driven(first, f"{measured.rpartition('/')[0]}/applied_command", recorded, sim)
    source = _source(first, measured)
    is_realtime = _plan(first).get("sim", {}).get("mode") == "realtime"
    if source.irregularities is None and is_realtime:
        source = replace(source, irregularities=_behind(first, f"{measured.rpartition('/')[0]}/state", source.stream))
    return Case(
        _since(source, start_s),
        _since(recorded, start_s),
        located_if_there(str(sim.get("robot", "")), *folders_of(other.path)),
        with_located_corrections(sim.get("parameters", {}), *folders_of(other.path)),
        frozenset(sliding),
        other is first and _commands_are_efforts(first, predicted),
        source.clock is not None or is_realtime,
        (first.description.step_s if first.description is not None else 0.0) or math.inf,
        {key: value for key, value in compared.items() if key in Limits.__struct_fields__},
        tuple(run_notes(first, predicted, _plan(first), COMPARER)),
        _held(first, f"{measured.rpartition('/')[0]}/state"),
        {actuator.joint: actuator.stiffness for actuator in actuators},
    )


def _case_without_states(recording: Recording, measured: str, changed: Mapping[str, Any], start_s: float) -> Case:
    """Case of a recording with measured states alone, whose predicted states are simulated from the measured ones."""
    sim = {**_plan(recording).get("sim", {}), **changed}
    robot = located_if_there(str(sim.get("robot", "")), *folders_of(recording.path))
    parameters = with_located_corrections(sim.get("parameters", {}), *folders_of(recording.path))
    source = _since(_source(recording, measured), start_s)
    applied = f"{measured.rpartition('/')[0]}/applied_command"
    differentiated = _lacks_velocities(source.stream)
    source = replace(source, stream=_complete(_with_commands(recording, applied, source.stream)))
    try:
        stream = short_predictions(
            source.stream, msgspec.convert({**sim, "robot": robot, "parameters": parameters}, SimPlan)
        )
    except ValueError as error:
        raise StreamError(str(error)) from None
    described = recording.description
    return Case(
        source,
        Source(str(recording.path), f"{measured.rpartition('/')[0]}/state", stream, recording.truncated),
        robot,
        parameters,
        frozenset(joint.name for joint in described.joints if joint.unit == "m") if described else frozenset(),
        same_efforts=False,
        is_timed=False,
        hold_s=0.0,  # the efforts were measured at the stamps
        limits={},
        run=stream.notes,
        starts_measured=True,
        differentiated=differentiated,
    )


def _with_commands(recording: Recording, applied: str, stream: Stream) -> Stream:
    """The stream with commanded efforts for the joints whose efforts were not measured, each until the next command.

    applied  topic of the applied commands
    """
    if stream.effort is None or applied not in recording.topics or recording.description is None:
        return stream
    commands, effort, notes = recording[applied], stream.effort.copy(), list(stream.notes)
    for actuator in recording.description.actuators:
        if actuator.joint not in stream.names or not np.isnan(effort[:, stream.column(actuator.joint)]).all():
            continue
        rows = zip(commands["timestamp"], commands["mode"], commands["name"], commands["value"], strict=True)
        told = [
            (time, value[list(names).index(actuator.name)])
            for time, mode, names, value in rows
            if mode == "effort" and actuator.name in names
        ]
        if told:
            times, values = np.array(told).T
            place = np.searchsorted(times, stream.time, side="right") - 1
            effort[:, stream.column(actuator.joint)] = np.where(place >= 0, values[place], np.nan)
            notes.append(f"the efforts of {actuator.joint} are those that were commanded")
    return replace(stream, effort=effort, notes=tuple(notes))


def _lacks_velocities(stream: Stream) -> bool:
    return stream.velocity is None or bool(np.isnan(stream.velocity).all(axis=0).any())


def _complete(stream: Stream) -> Stream:
    """The samples in which no value is missing; without velocities, with the derivatives of the positions.

    Raises StreamError if fewer than two samples are left.
    """
    notes, velocity = list(stream.notes), stream.velocity
    if velocity is None or _lacks_velocities(stream):
        velocity = np.gradient(stream.position, stream.time, axis=0)
        notes.append("velocities are derivatives of the positions")
    values = [stream.position, velocity, *([] if stream.effort is None else [stream.effort])]
    known = np.logical_and.reduce([np.isfinite(each).all(axis=1) for each in values])
    if known.sum() < 2:
        lacking = [name for k, name in enumerate(stream.names) if any(np.isnan(each[:, k]).all() for each in values)]
        raise StreamError(
            f"the measurement has no sample with all positions and efforts; {', '.join(lacking)} lack some"
        )
    if left_out := int((~known).sum()):
        notes.append(f"{left_out} samples without a position, velocity or effort are left out")
    effort = None if stream.effort is None else stream.effort[known]
    return Stream(stream.time[known], stream.names, stream.position[known], velocity[known], effort, tuple(notes))


def _held(recording: Recording, state: str) -> str:
    actions, last_s = guard_actions(recording, state)
    return "; ".join(actions.lines(last_s)) if actions.is_held(last_s) else ""


def _rises(time: Floats) -> NDArray[np.bool_]:
    """Whether each stamp is kept, (n,) bool. The kept stamps increase within each run.

    A stamp that does not exceed the latest kept stamp is dropped if the difference is at most STEP_KNOWN_S. Such a
    decrease occurs where the clock that made the stamps jumped, because the instant of the jump is known only with
    this uncertainty. After a larger decrease, which is a reset of the simulation, the stamp is kept and begins a run.
    """
    latest, keep = -math.inf, np.ones(len(time), dtype=bool)
    for index, stamp in enumerate(time.tolist()):
        keep[index] = stamp > latest or stamp < latest - STEP_KNOWN_S
        if keep[index]:
            latest = stamp
    return keep


def _commands_are_efforts(recording: Recording, predicted: str) -> bool:
    """Whether all commands to the predicted robot were efforts.

    Servo commands would cause different efforts in the measured and in the predicted robot.
    """
    topic = f"{predicted.rpartition('/')[0]}/command"
    return topic not in recording.topics or bool((recording[topic]["mode"] == "effort").all())


def _behind(recording: Recording, states: str, stream: Stream) -> TimeIrregularities | None:
    """Irregularities of a stream with stamps in simulation time; None if it is unknown when the states were sent.

    states  topic of the simulated states
    """
    if states not in recording.topics or "sent_ns" not in recording[states]:
        return None
    columns = recording[states]
    sent, speed = 1e-9 * (columns["sent_ns"] - columns["sent_ns"][0]), _plan(recording)["sim"].get("speed", 1.0)
    behind_s = time_behind(stream.time, sent, np.asarray(columns["timestamp"], dtype=float), speed)
    return TimeIrregularities(stream.time, behind_s, np.zeros(len(stream.time)))


def _since(source: Source, settle_s: float) -> Source:
    return replace(source, stream=source.stream.since(settle_s))


def _driven(recording: Recording, applied: str, recorded: Source, sim: Mapping[str, Any]) -> Source:
    """Stream predicted by a new simulation of the model with the commands that the robot applied.

    applied   topic of the applied commands
    recorded  predicted stream in the recording. This stream is the result if no applied commands are recorded and, with
              a note on the reason, if the applied commands cannot be used
    sim       table [sim] of the recorded plan
    """
    if applied not in recording.topics:
        return recorded
    try:
        found = prediction(recording, applied, recorded.stream, sim)
    except StreamError as error:
        why = f"{applied} is not used, so that commands which came late count as a lag of the robot: {error}"
        caveat = f"commands that came late may explain it: {error}" if sim.get("mode") == "realtime" else ""
        return replace(recorded, stream=replace(recorded.stream, notes=(*recorded.stream.notes, why)), caveat=caveat)
    stream = replace(found.stream, notes=(*recorded.stream.notes, *filter(None, [found.caveat])))
    return replace(recorded, stream=stream, driven=found.driven, caveat=found.caveat)


def _source(recording: Recording, topic: str) -> Source:
    if topic not in recording.topics:
        raise StreamError(f"{recording.path} has no topic {topic!r}; its topics are {', '.join(recording.topics)}")
    columns = recording[topic]
    if "name" not in columns or "position" not in columns:
        raise StreamError(
            f"{recording.path}: {topic!r} has no joint states, only the fields {', '.join(columns)}; "
            "name a topic with joint states"
        )
    what = f"{recording.path.name} {topic}"
    placed = place(recording, topic, what)
    if placed is None:
        return Source(str(recording.path), topic, stream_of(columns, what), recording.truncated)
    time = placed.time
    old = old_samples(np.asarray(columns["timestamp"], dtype=float))
    known = np.isfinite(time) & ~old
    known[known] = _rises(time[known])
    stream = stream_of({name: column[known] for name, column in {**columns, "timestamp": time}.items()}, what)
    if left_out := int(old.sum()):
        note = f"{what}: {left_out} samples that may be older than their stamps, as they follow a pause, are left out"
        stream = replace(stream, notes=(*stream.notes, note))
    last = int(np.flatnonzero(known)[-len(stream.time)])  # the stream begins after the last reset
    known[:last] = False
    irregularities = TimeIrregularities(time[known], placed.behind_s[known], paused(stream.time))
    return Source(str(recording.path), topic, stream, recording.truncated, placed.note, irregularities=irregularities)


def _topic(recording: Recording, leaves: tuple[str, ...]) -> str:
    """Name of a recorded topic `<robot>/<leaf>`, where <leaf> is one of `leaves`.

    Earlier entries of `leaves` are preferred. For a given leaf, the topic of the robot named in the recording is used;
    without such a topic, the topic of any other robot, if exactly one robot has it. Raises StreamError if no topic is
    found.
    """
    robot = recording.metadata.get("robot", "")
    for leaf in leaves:
        found = [topic for topic in recording.topics if topic.rpartition("/")[2] == leaf]
        if f"{robot}/{leaf}" in found:
            return f"{robot}/{leaf}"
        if len(found) == 1:
            return found[0]
    required = " or ".join(f"'<robot>/{leaf}'" for leaf in leaves)
    present = ", ".join(recording.topics) or "none"
    hint = ""
    if leaves == ("measured_state",):
        hint = "; nothing was measured, so give a second recording to compare with, or name a topic with --measured"
    several = [topic for topic in recording.topics if topic.rpartition("/")[2] in leaves]
    what = f"has {len(several)} topics of the form {required}, not one" if several else f"has no topic {required}"
    raise StreamError(f"{recording.path} {what}; its topics are {present}{hint}")


def _plan(recording: Recording) -> dict[str, Any]:
    try:
        return msgspec.json.decode(recording.metadata.get("plan", "{}"), type=dict[str, Any])
    except msgspec.DecodeError:
        return {}


def _compared_with(plan: Mapping[str, Any]) -> dict[str, Any]:
    """The hil_compare node's parameters in a launch file's plan; {} if the plan has no such node."""
    for node in plan.get("nodes", []):
        if str(node.get("run", "")).endswith(COMPARER):
            found: dict[str, Any] = node.get("params", {})
            return found
    return {}
