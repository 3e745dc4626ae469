"""What a report needs of one or two recordings: the two streams, the model, the limits of the launch file."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from nodes.hil.alignment.streams import Floats, Stream, StreamError, stream_of
from nodes.hil.clocks.recorded import ClockNote, simulation_time
from nodes.hil.prediction.recorded_commands import prediction
from nodes.hil.report.limits import Limits
from nodes.hil.report.run_notes import run_notes
from nodes.recording.reader import Recording, read_recording, require_no_hole
from nodes.recording.sidecar import folders_of
from robots.files import located_if_there

COMPARER = "hil_compare.py:HilCompare"
STEP_KNOWN_S = 0.1  # a step of another clock is known to that at least


@dataclass(frozen=True)
class Source:
    """Where a stream was read: file, topic, and the clock that stamped it; None: simulation time.

    driven  in words: which commands the model had that predicts anew; "" for states as they were recorded
    doubt   one line why the states may differ for a reason that is not the robot's, "" for none
    """

    file: str
    topic: str
    stream: Stream
    truncated: bool
    clock: ClockNote | None = None
    driven: str = ""
    doubt: str = ""


@dataclass(frozen=True)
class Case:
    """Two streams to compare.

    robot, parameters  of the model that predicted, from its plan; robot is "" where none was recorded
    sliding            joints whose positions are metres
    same_efforts       both streams are of one run whose commands were efforts: what acted on one acted on the other
    is_timed           the measurement's simulation time was found while time ran, in real time or by clocks
    hold_s             how long an effort is held, the step of the measured run; infinite where it is not known
    limits             what the launch file's hil_compare node was given, as far as it says
    run                what bears on the comparison in how the run went, one line each
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


def read_case(
    recording: Path, second: Path | None, measured_topic: str | None = None, predicted_topic: str | None = None
) -> Case:
    """The streams of a comparison. StreamError and RecordingError are one line for a person.

    One recording holds both: `<robot>/measured_state` and `<robot>/state`. With two, the first is measured (its
    `<robot>/measured_state`, else its `<robot>/state`) and the second predicted (its `<robot>/state`).

    Where a recording has the commands that the robot took, `<robot>/applied_command`, its model predicts anew with
    these commands at these instants, unless `predicted_topic` asks for states as they were recorded.
    """
    first = read_recording(recording, warn=False)
    other = first if second is None else read_recording(second, warn=False)
    for each in (first, other):
        require_no_hole(each, "reported on: the robot would be blamed for what is missing")
    measured = measured_topic or _topic(first, ("measured_state",) if second is None else ("measured_state", "state"))
    predicted = predicted_topic or _topic(other, ("state",))
    if other is first and measured == predicted:
        raise StreamError(
            f"{recording}: {measured!r} would be compared with itself; name two topics, or two recordings"
        )
    plan = _plan(other)
    sim = plan.get("sim", {})
    described = other.description or first.description
    sliding = [joint.name for joint in described.joints if joint.unit == "m"] if described is not None else []
    compared = _compared_with(_plan(first)) or _compared_with(plan)
    settle_s = compared.get("settle_s", 0.0)
    said = _source(other, predicted)
    if other is first and predicted_topic is None:
        said = _driven(first, f"{measured.rpartition('/')[0]}/applied_command", said, sim)
    source = _source(first, measured)
    return Case(
        _since(source, settle_s),
        _since(said, settle_s),
        located_if_there(str(sim.get("robot", "")), *folders_of(other.path)),
        sim.get("parameters", {}),
        frozenset(sliding),
        other is first and _commands_are_efforts(first, predicted),
        source.clock is not None or _plan(first).get("sim", {}).get("mode") == "realtime",
        (first.description.step_s if first.description is not None else 0.0) or math.inf,
        {key: value for key, value in compared.items() if key in Limits.__struct_fields__},
        tuple(run_notes(first, predicted, _plan(first), COMPARER)),
    )


def _rises(time: Floats) -> NDArray[np.bool_]:
    """Which stamps are after all those before: where a clock was stepped, its two sides are known to some ms only.

    A stamp that falls back by more begins anew, as the simulation was reset.
    """
    latest, keep = -math.inf, np.ones(len(time), dtype=bool)
    for index, stamp in enumerate(time.tolist()):
        keep[index] = stamp > latest or stamp < latest - STEP_KNOWN_S
        if keep[index]:
            latest = stamp
    return keep


def _commands_are_efforts(recording: Recording, predicted: str) -> bool:
    """Whether nobody asked the predicted robot's servos for velocities or positions: they would give other efforts."""
    topic = f"{predicted.rpartition('/')[0]}/command"
    return topic not in recording.topics or bool((recording[topic]["mode"] == "effort").all())


def _since(source: Source, settle_s: float) -> Source:
    return replace(source, stream=source.stream.since(settle_s))


def _driven(recording: Recording, taken: str, said: Source, sim: Mapping[str, Any]) -> Source:
    """The prediction with the commands as the robot took them, where it says them; else as it was, with a note why."""
    if taken not in recording.topics:
        return said
    try:
        found = prediction(recording, taken, said.stream, sim)
    except StreamError as error:
        why = f"{taken} is not used, so that commands which came late count as a lag of the robot: {error}"
        return replace(said, stream=replace(said.stream, notes=(*said.stream.notes, why)))
    stream = replace(found.stream, notes=(*said.stream.notes, *filter(None, [found.doubt])))
    return replace(said, stream=stream, driven=found.driven, doubt=found.doubt)


def _source(recording: Recording, topic: str) -> Source:
    if topic not in recording.topics:
        raise StreamError(f"{recording.path} has no topic {topic!r}; its topics are {', '.join(recording.topics)}")
    columns = recording[topic]
    if "name" not in columns or "position" not in columns:
        raise StreamError(f"{recording.path}: {topic!r} carries no joint states; it has {', '.join(columns)}")
    what = f"{recording.path.name} {topic}"
    placed = simulation_time(recording, topic, what)
    if placed is None:
        return Source(str(recording.path), topic, stream_of(columns, what), recording.truncated)
    time, clock = placed
    known = np.isfinite(time)
    known[known] = _rises(time[known])
    stream = stream_of({name: column[known] for name, column in {**columns, "timestamp": time}.items()}, what)
    return Source(str(recording.path), topic, stream, recording.truncated, clock)


def _topic(recording: Recording, leaves: tuple[str, ...]) -> str:
    """The first topic of the recorded robot with one of these names, in their order; of any robot otherwise."""
    robot = recording.metadata.get("robot", "")
    for leaf in leaves:
        found = [topic for topic in recording.topics if topic.rpartition("/")[2] == leaf]
        if f"{robot}/{leaf}" in found:
            return f"{robot}/{leaf}"
        if len(found) == 1:
            return found[0]
    wanted = " or ".join(f"'<robot>/{leaf}'" for leaf in leaves)
    there = ", ".join(recording.topics) or "none"
    hint = ""
    if leaves == ("measured_state",):
        hint = ": nothing was measured in it; give a second recording to compare with, or name the topic (--measured)"
    raise StreamError(f"{recording.path} has no single topic {wanted}; its topics are {there}{hint}")


def _plan(recording: Recording) -> dict[str, Any]:
    try:
        return msgspec.json.decode(recording.metadata.get("plan", "{}"), type=dict[str, Any])
    except msgspec.DecodeError:
        return {}


def _compared_with(plan: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters of the launch file's hil_compare node."""
    for node in plan.get("nodes", []):
        if str(node.get("run", "")).endswith(COMPARER):
            found: dict[str, Any] = node.get("params", {})
            return found
    return {}
