"""Comparison of two recordings: equality of bytes, differences of the plans, and deviations of the joints."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from nodes.framework.recording.reader import Recording, RecordingError, read_recording, require_no_hole

Floats = NDArray[np.float64]
BEGINS = 1e-3  # fraction of a joint's largest deviation at which the deviation counts as begun
SAME_INSTANT_S = 1e-6
MISSING = "(not there)"


def compare(first: str | os.PathLike[str], second: str | os.PathLike[str], run: int | None = None) -> dict[str, Any]:
    """Differences between two recordings, as plain data.

    first, second  paths of the recordings
    run            number of the run to compare, from 1; None for the last run of each recording

    The main keys of the result:

    same_bytes   whether the whole files are equal
    plan         [{key, first, second}], the differences of the launch plans
    joints       [{joint, largest, at_s, begins_s, unit}], deviations of the joint positions at the instants that both
                 recordings have: `largest` is the largest deviation (rad or m), `at_s` its time, and `begins_s` the
                 first time at which the deviation reaches a thousandth of the largest; without deviation, `largest` is
                 0 and both times are None
    instants     number of instants that both recordings have; `only_first` and `only_second` count the instants that
                 only one recording has
    cut_off      paths of the truncated files, in which the end of the run is missing

    Raises RecordingError for a file that is no recording, for a recording that lacks messages before its end, and for a
    recording without states of a robot.
    """
    one, two = (read_recording(path, run=-1 if run is None else run, warn=False) for path in (first, second))
    for recording in (one, two):
        require_no_hole(recording, "compared")
    states = _states(one), _states(two)
    first_rows, second_rows = _shared(*(table["timestamp"] for table in states))
    return {
        "first": str(one.path),
        "second": str(two.path),
        "runs": [one.run, two.run],
        "same_bytes": _digest(one.path) == _digest(two.path),
        "plan": list(_plan_differences(one, two)),
        "instants": len(first_rows),
        "only_first": len(states[0]["timestamp"]) - len(first_rows),
        "only_second": len(states[1]["timestamp"]) - len(second_rows),
        "joints": list(_deviations(states, first_rows, second_rows, one)),
        "joints_of_one": _joints_of_one(*states),
        "cut_off": [str(recording.path) for recording in (one, two) if recording.cut_off],
    }


def _states(recording: Recording) -> dict[str, NDArray[Any]]:
    topic = recording.topic_of_states()
    if topic is None or recording[topic]["name"].ndim != 2:
        raise RecordingError(
            f"{recording.path} contains no robot states, so it cannot be compared; "
            "give a recording that contains the topic ROBOT/state"
        )
    return recording[topic]


def _digest(path: Path) -> bytes:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").digest()


def _shared(first: Floats, second: Floats) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Indices of the instants that both recordings contain: (indices in `first`, indices in `second`).

    Two instants are equal if they agree to within a microsecond.
    """
    one, two = (np.round(times / SAME_INSTANT_S).astype(np.int64) for times in (first, second))
    _, first_rows, second_rows = np.intersect1d(one, two, return_indices=True)
    return first_rows, second_rows


def _deviations(
    states: tuple[dict[str, NDArray[Any]], dict[str, NDArray[Any]]],
    first_rows: NDArray[np.intp],
    second_rows: NDArray[np.intp],
    recording: Recording,
) -> Iterator[dict[str, Any]]:
    one, two = states
    names = [[str(name) for name in table["name"][0]] for table in states]
    units = {joint.name: joint.unit for joint in recording.description.joints} if recording.description else {}
    times = one["timestamp"][first_rows]
    for joint in names[0]:
        if joint not in names[1]:
            continue
        apart = np.abs(
            one["position"][first_rows, names[0].index(joint)] - two["position"][second_rows, names[1].index(joint)]
        )
        row = {"joint": joint, "largest": 0.0, "at_s": None, "begins_s": None, "unit": units.get(joint, "rad")}
        if len(apart) and (largest := float(np.nanmax(apart))) > 0.0:
            begins = float(times[np.argmax(apart >= BEGINS * largest)])
            row |= {"largest": largest, "at_s": float(times[np.nanargmax(apart)]), "begins_s": begins}
        yield row


def _joints_of_one(one: dict[str, NDArray[Any]], two: dict[str, NDArray[Any]]) -> list[str]:
    """Names of the joints that only one of the two recordings has."""
    first, second = ({str(name) for name in table["name"][0]} for table in (one, two))
    return sorted(first ^ second)


def _plan_differences(one: Recording, two: Recording) -> Iterator[dict[str, Any]]:
    """Yield {key, first, second} for each entry in which the launch plans of two recordings differ.

    Nodes are matched by name.
    """
    first, second = (dict(_leaves("", _plan(recording))) for recording in (one, two))
    for key in dict.fromkeys([*first, *second]):
        values = first.get(key, MISSING), second.get(key, MISSING)
        if values[0] != values[1]:
            yield {"key": key, "first": values[0], "second": values[1]}


def _plan(recording: Recording) -> Any:
    try:
        return msgspec.json.decode(recording.metadata.get("plan", "{}"))
    except msgspec.DecodeError:
        return {}


def _leaves(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, list) and all(isinstance(item, dict) and "name" in item for item in value):
        value = {item["name"]: {key: inner for key, inner in item.items() if key != "name"} for item in value}
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _leaves(f"{path}.{key}" if path else key, item)
    else:
        yield path, value
