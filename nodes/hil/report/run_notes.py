"""Notes on a recorded run that affect a comparison: lag behind real time, lost messages, verdicts of nodes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from nodes.framework.messages import Event, Verdict
from nodes.framework.recording.columns import Columns
from nodes.framework.recording.reader import Recording
from nodes.guard.stop_log import GuardActions

SHORT = 0.98  # fraction of the launch file's duration below which a recording was interrupted
HELD = 0.98  # real-time factor below which a run fell behind


def run_notes(recording: Recording, state: str, plan: Mapping[str, Any], comparer: str) -> Iterator[str]:
    """Yield notes on a run, one line each.

    state     topic of the simulated states
    comparer  file and class of the nodes that compare states, such as "hil_compare.py:HilCompare"
    """
    sim, whole_s = plan.get("sim", {}), plan.get("duration_s") or 0.0
    end_s = float(recording[state]["timestamp"][-1]) if state in recording.topics else whole_s
    if end_s < SHORT * whole_s:
        yield f"the recording ends at t = {end_s:.3g} s of the {whole_s:g} s of its launch file"
    if recording.cut_off:
        yield f"the recording was cut off: {recording.warning}"
    last = _last(recording["status"]) if "status" in recording.topics else {}
    if sim.get("mode") == "realtime":
        yield from _real_time(recording, state, float(sim.get("speed", 1.0)), last.get("sim", {}))
    actions, last_s = guard_actions(recording, state)
    yield from (f"guard: {line}" for line in actions.lines(last_s))
    lost = {
        name: int(status["counters.lost"]) for name, status in last.items() if status.get("counters.lost", 0.0) > 0.0
    }
    if lost:
        yield f"messages were lost on the way to {', '.join(f'{name} {count}' for name, count in lost.items())}"
    judges = [str(node["name"]) for node in plan.get("nodes", []) if str(node.get("run", "")).endswith(comparer)]
    for name, status in last.items():
        if "verdict.outcome" not in status:
            continue
        verdict = Verdict(*(status[f"verdict.{field}"] for field in ("outcome", "reason", "detail")))
        yield f"verdict of {name} at the end of the recording: {verdict}"
        if name in judges and (name in lost or status.get("counters.unpaired", 0.0) > 0.0):
            yield (
                f"{name} compared the states that reached it in time; this report compares those that were recorded, "
                "at the instants of the slower stream, so that the counts differ"
            )


def guard_actions(recording: Recording, state: str) -> tuple[GuardActions, float]:
    """Return (what guards did in a recorded run, time in s of the last simulated state or 0 if there is none).

    state  topic of the simulated states
    """
    found, topic = GuardActions(), f"{state.rpartition('/')[0]}/event"
    if topic in recording.topics:
        columns = recording[topic]
        fields = [columns[name].tolist() for name in ("kind", "node", "key", "part", "detail")]
        for time, kind, node, key, part, detail in zip(columns["timestamp"].tolist(), *fields, strict=True):
            found.add(Event(kind=kind, node=node, key=key, part=part, detail=detail), time)
    return found, float(recording[state]["timestamp"][-1]) if state in recording.topics else 0.0


def _last(columns: Columns) -> dict[str, dict[str, Any]]:
    """Return {node: {field: value}} of the last recorded status of each node.

    Fields that the node does not have are left out.
    """
    rows = {str(name): index for index, name in enumerate(columns["node"].tolist())}
    found: dict[str, dict[str, Any]] = {}
    for name, index in rows.items():
        status = {field: column[index] for field, column in columns.items() if column.ndim == 1}
        found[name] = {field: value for field, value in status.items() if not _is_left_out(value)}
    return found


def _is_left_out(value: object) -> bool:
    """Whether a recorded value means that the node's status lacks this field: None for text, NaN for numbers."""
    return value is None or (isinstance(value, float) and math.isnan(value))


def _real_time(recording: Recording, state: str, speed: float, sim: Mapping[str, Any]) -> Iterator[str]:
    """Yield a note if the simulation was slower than planned, or if it skipped the deadlines of time steps.

    state  topic of the simulated states
    speed  planned speed, in simulated seconds per wall-clock second
    sim    last status of the simulation server
    """
    if state not in recording.topics or "sent_ns" not in recording[state]:
        return
    time, sent = recording[state]["timestamp"], 1e-9 * recording[state]["sent_ns"]
    forward = (np.diff(time) > 0.0) & (np.diff(sent) > 0.0)
    passed = float(np.diff(sent)[forward].sum())
    factor = float(np.diff(time)[forward].sum()) / passed if passed > 0.0 else math.inf
    skipped = int(sim.get("counters.skipped", 0.0))
    if factor < HELD * speed or skipped:
        left_out = f", the deadlines of {skipped} steps were skipped" if skipped else ""
        yield f"the simulation fell behind the clock: real-time factor {factor:.3f}{left_out}"
