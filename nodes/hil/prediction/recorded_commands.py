"""What the model predicts with the commands of a recording as the robot took them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
import numpy as np

from nodes.hil.alignment.stamps import SERVER
from nodes.hil.alignment.streams import Floats, Stream, StreamError
from nodes.hil.clocks.recorded import simulation_time
from nodes.hil.prediction.command_replay import FIRST_S, CommandAges, retraced
from nodes.messages import JointCommand, RobotState
from nodes.recording.reader import Recording
from sim_core.errors import SimulationDiverged

SAME_START = 1e-3  # rad or m between the model's start and the first state that was recorded


def prediction(recording: Recording, taken: str, said: Stream, sim: Mapping[str, Any]) -> tuple[Stream, str]:
    """The states that the model of the plan has with these commands, and in words how old they were.

    taken  the topic of the commands, each at the instant that the robot had it; `said` what the server's model did,
           with the commands as they reached that one
    StreamError, one line, where the plan's model with these commands is not the one that ran.
    """
    if why := _changed(recording):
        raise StreamError(why)
    if said.time[0] > FIRST_S:
        raise StreamError(f"the recording begins at t = {said.time[0]:g} s, so the model's start is not in it")
    ages = _ages(recording, taken)
    commands = []
    for time, command in _commands(recording, taken):
        ages.add(time, command)
        commands.append((time, command))
    try:
        stream = retraced(sim, float(said.time[-1]), commands)
    except (ValueError, SimulationDiverged) as error:
        raise StreamError(f"the model with these commands: {error}") from None
    if set(stream.names) != set(said.names):
        raise StreamError(f"the plan's model has joints {', '.join(stream.names)}, the recorded one others")
    first = stream.position[np.searchsorted(stream.time, said.time[0] - 1e-9)]
    off = np.abs(first - said.only(stream.names).position[0]).max()
    if off > SAME_START:
        raise StreamError(f"the model's start is {off:.3g} off the first state that was recorded")
    return stream, ages.text


def _changed(recording: Recording) -> str:
    """What made the model another than that of the plan, in one line; "" for nothing."""
    for topic in recording.topics:
        if topic.rpartition("/")[2] != "event":
            continue
        event = recording[topic]
        for kind, node, key in zip(event["kind"], event["node"], event["key"], strict=True):
            if kind == "set" and node == SERVER:
                return f"{key} of the model was set while it ran"
            if kind == "restore":
                return "the model was put elsewhere while it ran"
    return ""


def _ages(recording: Recording, taken: str) -> CommandAges:
    state = recording[f"{taken.rpartition('/')[0]}/state"]
    ages = CommandAges(len(state["seq"]))
    for seq, time in zip(state["seq"].tolist(), state["timestamp"].tolist(), strict=True):
        ages.see(RobotState(seq=seq, timestamp=time))
    return ages


def _commands(recording: Recording, taken: str) -> Iterator[tuple[float, JointCommand]]:
    """Simulation times that do not fall, and the commands; those of the last run, where time was put back."""
    columns = recording[taken]
    placed = simulation_time(recording, taken, f"{recording.path.name} {taken}")
    time = np.asarray(columns["timestamp"], dtype=float) if placed is None else placed[0]
    time, start = _risen(time)
    fields = [columns[name].tolist() for name in ("mode", "name", "value", "state_seq")]
    for at, mode, names, values, state_seq in list(zip(time.tolist(), *fields, strict=True))[start:]:
        seq = None if state_seq is None or math.isnan(state_seq) else int(state_seq)
        yield at, msgspec.convert({"mode": mode, "name": names, "value": values, "state_seq": seq}, JointCommand)


def _risen(time: Floats) -> tuple[Floats, int]:
    """Times (n,), each at least that before it, those that are not known too; and where the last run begins."""
    known = np.flatnonzero(np.isfinite(time))
    falls = known[1:][np.diff(time[known]) < -FIRST_S]
    start = int(falls[-1]) if len(falls) else 0
    found = np.where(np.isfinite(time), time, -np.inf)
    found[start:] = np.maximum(np.maximum.accumulate(found[start:]), 0.0)
    return found, start
