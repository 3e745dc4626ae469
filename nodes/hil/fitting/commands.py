"""Commands of a recording on a grid of time steps, as the drives of an output-error fit."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from nodes.framework.recording.reader import Recording, read_recording
from nodes.hil.alignment.streams import StreamError
from nodes.hil.clocks.recorded import simulation_time
from sim_core.identification.output_error.shots import Drive
from sim_core.identification.signals import Recorded, motion_of, sampled
from sim_core.mechanism import Mechanism
from sim_core.servos.kernels import EFFORT, VELOCITY
from sim_core.servos.loops import Servos

APPLIED = "applied_command"
CUTOFF_HZ = 20.0  # of the measured motion along which the servos' targets move
BEHIND = 0.01  # share of the stretch at the largest effort, by which a servo's target is held back
MOST_STEP_S = 2e-3  # of the simulation of a log that has no time step
Array = np.ndarray[Any, np.dtype[np.float64]]


def drive_of(path: Path, topic: str, mechanism: Mechanism, names: Sequence[str], recorded: Recorded) -> Drive:
    """The drive of a recording.

    topic  of the joint states
    Raises StreamError, with a one-line reason, if no commands were recorded, or if their modes change.
    """
    recording = read_recording(path, warn=False)
    applied = f"{topic.rpartition('/')[0]}/{APPLIED}"
    if applied not in recording.topics or not len(recording[applied]["timestamp"]):
        raise StreamError(f"{path.name} has no commands on {applied!r}")
    step_s = _step_s(recording, recorded)
    times, q, v = _motion(recorded, step_s)
    commands = list(_commands(recording, applied))
    begin = int(np.searchsorted(times, commands[0][0] - 0.5 * step_s))
    if begin >= len(times) - 1:
        raise StreamError(f"{path.name}: the first command comes after the last measured state")
    return _drive(mechanism, names, step_s, (times[begin:], q[begin:], v[begin:]), commands, path.name)


def _drive(
    mechanism: Mechanism,
    names: Sequence[str],
    step_s: float,
    motion: tuple[Array, Array, Array],
    commands: list[tuple[float, str, list[str], list[float]]],
    what: str,
) -> Drive:
    """The servos follow the commands along the measured motion, so that their targets are known."""
    # without limits of the efforts, the targets do not depend on the joints' positions
    free = tuple(dataclasses.replace(actuator, effort_limit=None) for actuator in mechanism.actuators)
    servos, times = Servos(dataclasses.replace(mechanism, actuators=free), step_s), motion[0]
    limited = Servos(mechanism, step_s)
    order = [joint.name for joint in mechanism.moving_joints]
    q, v = (np.zeros((len(times), len(order))) for _ in range(2))
    for column, name in enumerate(names):
        q[:, order.index(name)], v[:, order.index(name)] = motion[1][:, column], motion[2][:, column]
    n_u = len(servos.names)
    target, held, mode, effort, value = (np.zeros((len(times), n_u)) for _ in range(5))
    waiting = iter(commands)
    following = next(waiting, None)
    for k, time in enumerate(times.tolist()):
        while following is not None and following[0] <= time + 0.5 * step_s:
            for each in (servos, limited):
                each.command(*following[1:], q[k], v[k])
            following = next(waiting, None)
        value[k] = servos.commanded()
        effort[k] = servos.efforts(q[k], v[k])
        limited.efforts(q[k], v[k])
        plain = servos.to_plain()
        mode[k], target[k], held[k] = plain["mode"], plain["target"], limited.to_plain()["target"]
    if (mode != mode[0]).any():
        name = servos.names[int(np.flatnonzero((mode != mode[0]).any(axis=0))[0])]
        raise StreamError(f"{what}: the mode of the commands to {name!r} changes; output error needs one mode")
    return _of_joints(mechanism, names, step_s, times[0], mode[0], (target, held, value, effort), q)


def _of_joints(
    mechanism: Mechanism,
    names: Sequence[str],
    step_s: float,
    start_s: float,
    mode: Array,
    of_actuators: tuple[Array, Array, Array, Array],
    q: Array,
) -> Drive:
    """The drive with a column per joint.

    of_actuators  targets, targets within the limits of the efforts, values and efforts, with a column per actuator
    q             positions of all moving joints
    """
    target, held, value, effort = of_actuators
    order = [joint.name for joint in mechanism.moving_joints]
    n, count = len(target), len(names)
    signal, rate, along = np.zeros((3, n, count))
    behind = np.zeros((n, count), dtype=bool)
    stiffness, damping, limit, servo = np.zeros(count), np.zeros(count), np.full(count, np.inf), np.zeros(count, bool)
    for column, actuator in enumerate(mechanism.actuators):
        if actuator.joint not in names:
            continue
        joint = list(names).index(actuator.joint)
        most = np.inf if actuator.effort_limit is None else actuator.effort_limit
        along[:, joint] = effort[:, column]
        if mode[column] == EFFORT or actuator.servo is None:
            signal[:, joint] = np.clip(value[:, column], -most, most)
            continue
        servo[joint], signal[:, joint] = True, target[:, column]
        stiffness[joint], damping[joint] = actuator.servo.stiffness, actuator.servo.damping
        limit[joint] = most
        slack = most / actuator.servo.stiffness if actuator.servo.stiffness else np.inf
        at = q[:, order.index(actuator.joint)]
        off = np.abs(held[:, column] - np.clip(target[:, column], at - slack, at + slack))
        behind[:, joint] = off > BEHIND * slack
        if mode[column] == VELOCITY:
            rate[1:, joint] = np.diff(target[:, column]) / step_s
    return Drive(start_s, step_s, servo, signal, rate, along, stiffness, damping, limit, behind=behind)


def _step_s(recording: Recording, recorded: Recorded) -> float:
    """Time step of a simulated or emulated robot, as a whole share of the sampling period; otherwise a short one."""
    period = float(np.median(np.diff(recorded.time)))
    wanted = MOST_STEP_S if recording.description is None else min(float(recording.description.step_s), period)
    return period / max(1, round(period / wanted))


def _motion(recorded: Recorded, step_s: float) -> tuple[Array, Array, Array]:
    """Times, positions and velocities of all steps, interpolated through gaps."""
    parts = sampled(recorded)
    if not parts:
        raise StreamError("no part of the recording is long enough for output error")
    known = np.concatenate([part.time for part in parts])
    motions = [motion_of(part, CUTOFF_HZ) for part in parts]
    times = np.arange(known[0], known[-1] + 0.5 * step_s, step_s)
    q, v = (np.concatenate([motion[k] for motion in motions]) for k in range(2))
    return times, _at(times, known, q), _at(times, known, v)


def _at(times: Array, known: Array, values: Array) -> Array:
    return np.stack([np.interp(times, known, column) for column in values.T], axis=1)


def _commands(recording: Recording, topic: str) -> Iterator[tuple[float, str, list[str], list[float]]]:
    """Yield (simulation time, mode, actuators, values) of each command, with non-decreasing times."""
    columns, placed = recording[topic], simulation_time(recording, topic, topic)
    times = np.asarray(columns["timestamp"] if placed is None else placed[0], dtype=float)
    latest = np.maximum.accumulate(np.where(np.isfinite(times), times, -np.inf))
    for time, mode, names, values in zip(
        latest.tolist(), columns["mode"], columns["name"], columns["value"], strict=True
    ):
        if np.isfinite(time) and np.isfinite(values).all():
            yield time, str(mode), [str(name) for name in names], [float(each) for each in values]
