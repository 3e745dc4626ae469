"""Inputs of a fit, read from recordings: robot, joints, positions and efforts."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from nodes.framework.recording.reader import Recording, read_recording, require_no_hole
from nodes.framework.recording.sidecar import folders_of
from nodes.hil.alignment.streams import Stream, StreamError, stream_of
from nodes.hil.clocks.recorded import place
from robots.files import located_if_there, with_located_corrections
from robots.registry import build, with_joint_coordinates
from robots.smoothing import without_bristles
from sim_core.identification.loops import constraints_among, dependent_joints
from sim_core.identification.signals import Recorded
from sim_core.mechanism import Mechanism
from sim_core.mechanism.quantities import value_of

LEAVES = ("measured_state", "state")  # topics with joint states, in the order in which they are looked for
EMULATED = "hardware.py:Hardware"
COMMANDS = "applied_command", "command"  # topics, in the order in which they are looked for
LEAST_STEPS = 1.5  # time steps per period, from which on a command lasts for several of them
IMPORT = "import"  # key of the metadata of an imported recording

Array = np.ndarray[Any, np.dtype[np.float64]]
Commands = list[tuple[float, float, str]]  # (time, value, mode)


@dataclass(frozen=True)
class FitCase:
    """Recordings of a robot to which its model is fitted.

    robot, parameters  the model, as in a launch file
    mechanism          in joint coordinates; its dry friction is smooth
    names              joints with recorded positions
    topics             {file: topic} of the recordings
    unit_unknown       joints whose efforts have an unknown unit
    constant_sd        {joint: relative standard deviation of its motor constant}
    notes              one line about each kind of data that was left out on reading
    sticking           joints of the robot whose dry friction has bristles
    """

    robot: str
    parameters: Mapping[str, Any]
    mechanism: Mechanism
    names: tuple[str, ...]
    recordings: tuple[Recorded, ...]
    topics: Mapping[str, str]
    unit_unknown: tuple[str, ...]
    constant_sd: Mapping[str, float]
    notes: tuple[str, ...]
    sticking: frozenset[str] = frozenset()


def read_fit_case(paths: Sequence[Path], robot: str = "") -> FitCase:
    """The recordings at `paths`, and the robot of the first one's plan.

    robot  name or file of a robot in place of that of the plan
    Raises StreamError, RecordingError or InvalidRequest with a one-line message for the user.
    """
    streams, topics, unknown, held_s = [], {}, list[str](), list[float]()
    constants: dict[str, float] = {}
    sim: dict[str, Any] = {}
    folders: list[Path] = []
    for path in paths:
        recording = read_recording(path, warn=False)
        require_no_hole(recording, "fitted: the robot would be blamed for what is missing")
        topic = _topic(recording)
        if topic.rpartition("/")[2] == LEAVES[1] and not robot:
            raise StreamError(
                f"nothing was measured: {path} has simulated states only, of the model itself; --robot names another "
                "model that is fitted to them"
            )
        streams.append(_stream(recording, topic))
        held_s.append(_held_s(recording, topic))
        topics[str(path)] = topic
        sim = sim or _plan(recording).get("sim", {})
        folders += folders_of(recording.path)
        imported = _import_note(recording)
        constants |= imported.get("gain_sigma", {})
        unknown += [name for name in imported.get("unknown_effort", []) if name not in unknown]
    if not robot and not sim.get("robot"):
        raise StreamError(f"{paths[0]} does not name its robot; name it with --robot")
    name = located_if_there(robot or str(sim["robot"]), *folders)
    parameters = {} if robot and robot != sim.get("robot") else dict(sim.get("parameters", {}))
    parameters = with_located_corrections(parameters, *folders)
    described = _model(name, parameters)
    sticking = frozenset(joint.name for joint in described.moving_joints if joint.bristle)
    mechanism = without_bristles(described)
    names = _joints(mechanism, streams, paths)
    dependent = _dependent_joints(mechanism, names)
    driven = {actuator.joint for actuator in mechanism.actuators}
    recordings = tuple(
        _recorded(
            stream.only(names),
            driven,
            gains_of(mechanism, names, topics[str(path)]),
            path,
            held,
            ripple_of(read_recording(path, warn=False), topics[str(path)], mechanism, names, stream.time, held),
        )
        for stream, path, held in zip(streams, paths, held_s, strict=True)
    )
    notes = [note for stream in streams for note in stream.notes]
    if rough := [name for k, name in enumerate(names) if any(_has_ripple(each, k) for each in recordings)]:
        notes.append(
            f"{', '.join(rough)}: efforts were recorded as seldom as commands came, so that the intervals contain an "
            "unknown phase of the steps; a recording of every time step (--set sim.rate_hz) has narrower ones"
        )
    if dependent:
        joints = ", ".join(dependent)
        notes.append(f"{joints}: follow the other joints through closed loops; friction there is taken to be none")
    if held := [joint.name for joint in mechanism.moving_joints if joint.name not in {*names, *dependent}]:
        notes.append(f"{', '.join(held)}: not recorded, and taken to be at rest at 0")
    return FitCase(
        name, parameters, mechanism, names, recordings, topics, tuple(unknown), constants, tuple(notes), sticking
    )


def _has_ripple(recorded: Recorded, joint: int) -> bool:
    return recorded.ripple is not None and bool(recorded.ripple[:, joint].any())


def ripple_of(
    recording: Recording, topic: str, mechanism: Mechanism, names: Sequence[str], time: Array, step_s: float
) -> Array | None:
    """Changes (n, n_q) of the joints' efforts with each step of the commands, at the times (n,) of the states.

    None without commands, and if every time step is commanded or recorded: then an effort is that of its time.

    topic   of the joint states
    step_s  time step of the simulation; 0 if the robot was not simulated
    """
    root = topic.rpartition("/")[0]
    source = next((f"{root}/{leaf}" for leaf in COMMANDS if f"{root}/{leaf}" in recording.topics), "")
    if not step_s or not source or len(time) < 3:
        return None
    found = np.zeros((len(time), len(names)))
    actuators = {actuator.name: actuator for actuator in mechanism.actuators if actuator.joint in names}
    for name, commands in _commands(recording, source, actuators).items():
        times = np.array([at for at, _, _ in commands])
        if len(commands) < 3 or not (np.diff(times) > 0.0).all():
            continue
        period = min(float(np.median(np.diff(times))), float(np.median(np.diff(time))))
        if period < LEAST_STEPS * step_s:
            continue
        servo = actuators[name].servo
        gains = {"effort": 1.0} | ({} if servo is None else {"position": servo.stiffness, "velocity": servo.damping})
        rate = np.gradient(np.interp(time, times, [value for _, value, _ in commands]), time)
        found[:, list(names).index(actuators[name].joint)] = gains.get(commands[-1][2], 0.0) * period * rate
    return found if found.any() else None


def _commands(recording: Recording, topic: str, actuators: Collection[str]) -> dict[str, Commands]:
    """Commands of each actuator."""
    columns = recording[topic]
    found: dict[str, Commands] = {name: [] for name in actuators}
    for time, mode, names, values in zip(
        columns["timestamp"], columns["mode"], columns["name"], columns["value"], strict=True
    ):
        for name, value in zip(names, values, strict=True):
            if str(name) in found and np.isfinite(time) and np.isfinite(value):
                found[str(name)].append((float(time), float(value), str(mode)))
    return found


def _model(robot: str, parameters: Mapping[str, Any]) -> Mechanism:
    chosen = {key: value for key, value in parameters.items() if key != "coordinates"}
    mechanism = build(robot, **with_joint_coordinates(robot, chosen))
    if not mechanism.has_joint_coordinates:
        raise StreamError(f"robot {robot!r} has no joint coordinates; a fit needs a tree of joints")
    return mechanism


def _dependent_joints(mechanism: Mechanism, names: Sequence[str]) -> tuple[str, ...]:
    """Joints without motor that follow the others through closed loops.

    names  recorded joints; relations of other joints have no effect
    Raises StreamError for a robot with other forces than gravity, motors and friction of its joints, and undamped
    springs in loops.
    """
    constraints = constraints_among(mechanism, names)
    dependent = dependent_joints(mechanism, names)
    damped = [spring.name for spring in mechanism.springs if value_of(spring.damping) or not dependent]
    springs = damped + [joint.name for joint in mechanism.joints if joint.spring is not None and joint.name in names]
    others = {"springs": springs, "beams": mechanism.beams, "contacts": mechanism.contacts}
    for what, parts in (others | {"forces of its own": mechanism.forces}).items():
        if parts:
            raise StreamError(f"robot {mechanism.name!r} has {what}, which a fit does not take into account")
    driven = {actuator.joint for actuator in mechanism.actuators}
    if constraints and not dependent:
        raise StreamError(
            f"robot {mechanism.name!r} has the constraint {constraints[0].name!r}, which couples joints with motors; a "
            "fit needs joints without motors that close the loops"
        )
    if dependent and (missing := [name for name in driven if name not in names]):
        raise StreamError(
            f"the joint {sorted(missing)[0]!r} of robot {mechanism.name!r} is not recorded; through loops, a fit needs "
            "the positions of all joints with motors"
        )
    return dependent


def _joints(mechanism: Mechanism, streams: Sequence[Stream], paths: Sequence[Path]) -> tuple[str, ...]:
    """Joints of the mechanism that every recording has, in the order of the mechanism."""
    known = [joint.name for joint in mechanism.moving_joints]
    for stream, path in zip(streams, paths, strict=True):
        if not set(known) & set(stream.names):
            raise StreamError(
                f"{path} has the joints {', '.join(stream.names)}; robot {mechanism.name!r} has {', '.join(known)}"
            )
        if stream.effort is None:
            raise StreamError(f"{path} has no efforts; a fit needs positions and efforts")
    return tuple(name for name in known if all(name in stream.names for stream in streams))


def _held_s(recording: Recording, topic: str) -> float:
    """Time, s, for which an effort was held before its stamp: the step of a simulated or emulated robot, else 0."""
    emulated = any(str(node.get("run", "")).endswith(EMULATED) for node in _plan(recording).get("nodes", []))
    if recording.description is None or not (emulated or topic.rpartition("/")[2] == LEAVES[1]):
        return 0.0
    return float(recording.description.step_s)


def gains_of(mechanism: Mechanism, names: Sequence[str], topic: str) -> Array:
    """Effort at each joint over that which the topic has; a simulation states those at the joints."""
    return np.array(mechanism.gains(names) if topic.rpartition("/")[2] == LEAVES[0] else [1.0] * len(names))


def _recorded(stream: Stream, driven: set[str], gains: Array, path: Path, held_s: float, ripple: Any) -> Recorded:
    """Positions and efforts at the joints; a joint without an actuator and without recorded efforts has the effort 0.

    An effort that was held for `held_s` before its stamp is that of the middle of this time.
    """
    if stream.effort is None:
        raise StreamError(f"{path} has no efforts; a fit needs positions and efforts")
    effort = np.array(stream.effort, dtype=float) * gains
    passive = np.array([name not in driven for name in stream.names]) & np.isnan(effort).all(axis=0)
    effort[:, passive] = 0.0
    if held_s:
        columns = [np.interp(stream.time, stream.time - held_s / 2.0, each) for each in effort.T]
        effort = np.stack(columns, axis=1)
    return Recorded(stream.time, np.asarray(stream.position, dtype=float), effort, ripple)


def _topic(recording: Recording) -> str:
    robot = recording.metadata.get("robot", "")
    for leaf in LEAVES:
        found = [topic for topic in recording.topics if topic.rpartition("/")[2] == leaf]
        if f"{robot}/{leaf}" in found:
            return f"{robot}/{leaf}"
        if len(found) == 1:
            return found[0]
    raise StreamError(
        f"{recording.path} has no topic '<robot>/measured_state'; "
        f"its topics are {', '.join(recording.topics) or 'none'}"
    )


def _stream(recording: Recording, topic: str) -> Stream:
    columns = recording[topic]
    what = f"{recording.path.name} {topic}"
    if "name" not in columns or "position" not in columns:
        raise StreamError(f"{recording.path}: {topic!r} has no joint states, only the fields {', '.join(columns)}")
    placed = place(recording, topic, what)
    if placed is None:
        return stream_of(columns, what)
    known = np.isfinite(placed.time)
    return stream_of({key: column[known] for key, column in {**columns, "timestamp": placed.time}.items()}, what)


def _plan(recording: Recording) -> dict[str, Any]:
    return _decoded(recording.metadata.get("plan", "{}"))


def _import_note(recording: Recording) -> dict[str, Any]:
    return _decoded(recording.metadata.get(IMPORT, "{}"))


def _decoded(text: str) -> dict[str, Any]:
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except msgspec.DecodeError:
        return {}
