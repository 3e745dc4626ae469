"""Prediction by a new simulation of the model, in which recorded commands act from the instants at which the robot
applied them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np

from nodes.framework.messages import JointCommand, RobotState
from nodes.framework.plan.launch_plan import SimPlan
from nodes.framework.recording.columns import Columns
from nodes.framework.recording.reader import Recording
from nodes.hil.alignment.stamps import SERVER, UNKNOWN_S
from nodes.hil.alignment.streams import Floats, Stream, StreamError
from nodes.hil.clocks.recorded import simulation_time
from nodes.hil.prediction.command_replay import FIRST_S, CommandAges, retraced
from sim_core.errors import SimulationDiverged

SAME_INSTANT_S = 0.05  # difference of stamps below which commands may count as applied together
SAME_START = 1e-3  # largest distance between the model's start and the first recorded state, rad or m


@dataclass(frozen=True)
class Prediction:
    """States of the plan's model, simulated with the commands that the robot applied.

    driven  one line of text about these commands, and about the ages of the states from which they were computed
    caveat  one line that says why the simulated states may be wrong; "" if nothing suggests this
    """

    stream: Stream
    driven: str
    caveat: str


def prediction(recording: Recording, applied: str, recorded: Stream, sim: Mapping[str, Any]) -> Prediction:
    """States of the plan's model, simulated with the commands that the robot applied.

    applied   topic of the applied commands, each stamped when the robot received it
    recorded  recorded states of the simulation server's model, which received the same commands at other instants
    The simulation ends at the last applied command whose simulation time is known. Raises StreamError with a one-line
    message if the simulated model differs from the model of the recorded run, or if the recording does not contain the
    start of the run.
    """
    if why := _changed(recording):
        raise StreamError(why)
    if recorded.time[0] > FIRST_S:
        raise StreamError(
            f"the recording begins at t = {recorded.time[0]:g} s; "
            "record the run from its start, so that it begins at t = 0"
        )
    times = _times(recording, applied)
    end_s = min(float(recorded.time[-1]), _known_until(recording[applied], times))
    ages = _ages(recording, applied)
    commands = []
    for time, command in _commands(recording[applied], times):
        ages.add(time, command)
        commands.append((time, command))
    try:
        stream = retraced(msgspec.convert(sim, SimPlan), end_s, commands)
    except (ValueError, SimulationDiverged) as error:
        raise StreamError(f"simulating the model with the recorded commands failed: {error}") from None
    if set(stream.names) != set(recorded.names):
        raise StreamError(
            f"the plan's model has the joints {', '.join(stream.names)}, but the recorded states have the joints "
            f"{', '.join(recorded.names)}"
        )
    first = stream.position[np.searchsorted(stream.time, recorded.time[0] - 1e-9)]
    off = np.abs(first - recorded.only(stream.names).position[0]).max()
    if off > SAME_START:
        raise StreamError(
            f"the start of the plan's model differs from the first recorded state by {off:.3g} rad or m; "
            f"a difference of at most {SAME_START:g} is permitted"
        )
    caveat = _missing_commands(recording[applied]) or _commands_at_unknown_times(recording[applied], times)
    return Prediction(stream, ages.text, caveat)


def _missing_commands(commands: Columns) -> str:
    """One line about applied commands that are missing in the recording; "" if none is missing.

    A gap in the sequence numbers, which begin at 1, shows that commands are missing.
    """
    seq = np.r_[0, commands["seq"]]
    lost = int((np.diff(seq)[np.diff(seq) > 0] - 1).sum())
    return f"{lost} of the commands that the robot applied were lost on their way to the recorder" if lost else ""


def _commands_at_unknown_times(commands: Columns, times: Floats) -> str:
    """One line about applied commands whose simulation times are unknown; "" if this is of no consequence.

    The model applies a command with an unknown time together with the previous command. This is of no consequence if
    the stamps of the two commands, or the known times before and after the unknown one, are at most UNKNOWN_S apart.

    times  simulation times of the commands (s), NaN where unknown
    """
    stamps, known = np.asarray(commands["timestamp"], dtype=float), np.flatnonzero(np.isfinite(times))
    before = np.searchsorted(known, np.arange(len(times)), side="right") - 1
    between = (before >= 0) & (before < len(known) - 1) & ~np.isfinite(times)
    index = np.flatnonzero(between)
    last, following = known[before[index]], known[before[index] + 1]
    apart = np.minimum(times[following] - times[last], np.abs(stamps[index] - stamps[last]))
    count = int((apart > UNKNOWN_S).sum())
    return f"{count} of the commands that the robot applied acted at unknown instants" if count else ""


def _changed(recording: Recording) -> str:
    """One line about an event by which the server's model became different from the plan's model.

    The result is "" if there is no such event.
    """
    for topic in recording.topics:
        if topic.rpartition("/")[2] != "event":
            continue
        event = recording[topic]
        for kind, node, key in zip(event["kind"], event["node"], event["key"], strict=True):
            if kind == "set" and node == SERVER:
                return f"parameter {key} of the model was changed during the run"
            if kind == "push":
                return "the model was pushed during the run"
            if kind == "restore":
                return "the model was set to another state during the run"
    return ""


def _ages(recording: Recording, applied: str) -> CommandAges:
    state = recording[f"{applied.rpartition('/')[0]}/state"]
    ages = CommandAges(len(state["seq"]))
    for seq, time in zip(state["seq"].tolist(), state["timestamp"].tolist(), strict=True):
        ages.add_state(RobotState(seq=seq, timestamp=time))
    return ages


def _times(recording: Recording, applied: str) -> Floats:
    """Simulation times of the applied commands (s); NaN where unknown."""
    placed = simulation_time(recording, applied, f"{recording.path.name} {applied}")
    return np.asarray(recording[applied]["timestamp"], dtype=float) if placed is None else placed[0]


def _known_until(commands: Columns, times: Floats) -> float:
    """Simulation time (s) up to which the applied commands are known; infinite if all of them are known."""
    stamps = np.asarray(commands["timestamp"], dtype=float)
    known = np.flatnonzero(np.isfinite(times))
    last = int(known[-1])
    return np.inf if stamps[-1] - stamps[last] < SAME_INSTANT_S else float(times[last])


def _commands(columns: Columns, times: Floats) -> Iterator[tuple[float, JointCommand]]:
    """Yield (simulation time, command) of each command in the recording's last run, with non-decreasing times."""
    time, start = _risen(times)
    fields = [columns[name].tolist() for name in ("mode", "name", "value", "state_seq")]
    for at, mode, names, values, state_seq in list(zip(time.tolist(), *fields, strict=True))[start:]:
        seq = None if state_seq is None or math.isnan(state_seq) else int(state_seq)
        yield at, msgspec.convert({"mode": mode, "name": names, "value": values, "state_seq": seq}, JointCommand)


def _risen(time: Floats) -> tuple[Floats, int]:
    """Return (simulation times (n,) in s; index at which the last run begins).

    Within the last run, the returned times do not decrease, and an unknown time is replaced by the latest known time
    before it.
    """
    known = np.flatnonzero(np.isfinite(time))
    falls = known[1:][np.diff(time[known]) < -FIRST_S]
    start = int(falls[-1]) if len(falls) else 0
    found = np.where(np.isfinite(time), time, -np.inf)
    found[start:] = np.maximum(np.maximum.accumulate(found[start:]), 0.0)
    return found, start
