"""Finds the point of a recording at which a run is restarted, and checks that a plan can continue from it."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from nodes.framework.hosting.outgoing import topic_of
from nodes.framework.hosting.snapshots import code_of, read_node_state
from nodes.framework.messages import Description, Event, JointCommand, Message, Snapshot
from nodes.framework.messages.codec import encode
from nodes.framework.messages.topics import lookup
from nodes.framework.plan.key_checks import PlanError
from nodes.framework.plan.launch_plan import NodePlan, Plan
from nodes.framework.plan.node_classes import load_class
from nodes.framework.recording.reader import Recorded, RecordingError, RecordingFile
from nodes.framework.recording.runs import Run, RunCutter, picked
from nodes.framework.recording.schema import decode_json, schema_name
from nodes.framework.simulation.links import takes_time
from nodes.framework.simulation.replay.replay import SERVER, ReplayStart, plan_of
from nodes.framework.simulation.restart.overrides import FREE
from nodes.framework.simulation.restart.snapshots import ACTIONS, STOPS, Restart, RunState
from nodes.node import Node

HOW = "use the recorded value, which 'armswing launch FILE --from RECORDING --differences' prints"
NAME = "sim"  # of the simulation server, in events about its parameters


class _Tick(msgspec.Struct):
    tick: int = -1


class _Run:
    """Data of one run for a restart at a tick.

    These are the latest snapshot before this tick, and the nodes' messages and the users' actions after the snapshot.
    """

    def __init__(self) -> None:
        self.first_s: float | None = None  # time of the first snapshot
        self.end_s = 0.0
        self.snapshot: Recorded | None = None
        self.after: list[tuple[int, Recorded]] = []
        self.actions: list[tuple[int, Event]] = []

    def state(self, path: Path) -> RunState:
        """State of the run in the snapshot. Raises RecordingError with a one-line message if the snapshot cannot be
        read."""
        message = None if self.snapshot is None else self.snapshot.message()
        try:
            return RunState.decode(message.data if isinstance(message, Snapshot) else b"")
        except ValueError as error:
            raise RecordingError(f"{path}: {error}") from None


def read_restart(path: str | os.PathLike[str], at_s: float, plan: Plan, run: int | None = None) -> Restart:
    """Point of a recording from which a run of `plan` continues. The run first publishes messages at the time `at_s`.

    at_s  simulation time in s, which is rounded to the nearest tick
    run   number of the run in the recording, from 1; None for the last run

    Raises RecordingError if the recording cannot be restarted at `at_s`, for example because it has no snapshot before
    that time. Raises PlanError if `plan` has several robots, if the state of a node of `plan` was not recorded, or if
    the robot, the table [sim] or the simulated communication links of `plan` differ from the recorded ones. Each error
    message is one line.

    A node whose code or parameters differ from the recorded ones starts anew; `Restart.fresh` names the node and the
    reason.
    """
    path, step_s = Path(path), plan.sim.step_s
    if plan.simulations:
        raise PlanError(
            f"plan {plan.name!r} has several robots, but only the recorded run of a single robot can be continued; "
            "start a new run"
        )
    file = RecordingFile(path)
    with warnings.catch_warnings(record=True) as caught:  # shown only where no error follows
        warnings.simplefilter("always")
        there, code_hash = _point(
            file, at_s, step_s, run, lambda: _require_same(plan_of(file.metadata, path), plan, path)
        )
    begin = Restart(step_s=step_s, tick=round(at_s / step_s), run=there.state(path), code_hash=code_hash)
    begin.fresh = dict(_fresh(plan_of(file.metadata, path), plan, begin.run, path))
    begin.actions = [(tick, event) for tick, event in there.actions if event.node in ("", NAME)]
    for _, event in there.actions:
        if event.node in begin.run.nodes:
            why = f"its parameter {event.key} was set at t = {event.timestamp:.6g} s, after the snapshot"
            begin.fresh.setdefault(event.node, why)
    begin.played = _played(begin, plan, there.after)
    for warning in caught:
        warnings.warn(warning.message, stacklevel=2)
    return begin


def read_replay_start(
    path: str | os.PathLike[str], at_s: float, plan: Plan, node_plan: NodePlan
) -> tuple[ReplayStart, str]:
    """Point of a lockstep recording at which the replay of a node begins.

    Returns (point, reason why the node starts anew). The reason is "" for a node that continues from its recorded
    state.

    at_s       simulation time in s from which the messages of the replay are compared with the recorded ones
    plan       the recorded plan
    node_plan  plan of the node to replay; it has the name of the recorded node that it replaces

    Raises RecordingError if the recording has no snapshots, or does not cover the time `at_s`.
    """
    path, step_s = Path(path), plan.sim.step_s
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the whole recording was read before, with its warnings
        there, _ = _point(RecordingFile(path), at_s, step_s, None, lambda: None)
    state = there.state(path)
    cls = load_class(node_plan.run, Path.cwd())
    saved = state.nodes.get(node_plan.name)
    why = "" if saved is None else _change(plan.node(node_plan.name), node_plan, cls, saved)
    if not why and (saved is None or not (read_node_state(saved).node is not None or cls.stateless)):
        why = "its state is not recorded"
    compare_s = (round(at_s / step_s) - 0.5) * step_s
    if why:
        return ReplayStart(round(at_s / step_s), compare_s), why
    return ReplayStart(state.tick + 1, compare_s, saved or b"", state.waiting.get(node_plan.name, []), state.links), ""


def _point(
    file: RecordingFile, at_s: float, step_s: float, run: int | None, check: Callable[[], None]
) -> tuple[_Run, str]:
    """Returns (data of the run for a restart at the time `at_s`, code hash in the robot's description).

    check  function that is called once the file is read, before its runs are examined

    Raises RecordingError if the run cannot be restarted at `at_s`.
    """
    tick = round(at_s / step_s) if abs(at_s) < 1e12 else -1
    runs, found, code_hash = _read(file, tick, step_s)
    file.require_no_hole("restarted")
    check()
    try:
        there = found.get(picked(runs, -1 if run is None else run) or 0, _Run())
    except ValueError as error:
        raise RecordingError(f"{file.path}: {error}") from None
    if there.first_s is None:
        how = "record again in lockstep (--set sim.mode=lockstep), with a snapshot_s in [sim] that is not 0"
        raise RecordingError(f"{file.path} has no snapshots to restart from; {how}")
    first_s = there.first_s + step_s
    if there.snapshot is None or not at_s <= there.end_s + step_s / 2.0:
        range_s = f"t = {first_s:.6g} .. {there.end_s:.6g} s"
        raise RecordingError(f"{file.path} cannot be restarted at {at_s:g} s; choose a time in {range_s}")
    return there, code_hash


def notes(begin: Restart, path: str | os.PathLike[str]) -> list[str]:
    """Lines for the user: the time from which the run continues, and each node that starts anew, with the reason."""
    at_s, snapshot_s = (tick * begin.step_s for tick in (begin.tick, begin.run.tick))
    lines = [f"continues {os.fspath(path)} at t = {at_s:.6g} s, from its snapshot of t = {snapshot_s:.6g} s"]
    return lines + [f"node {name!r} starts fresh: {reason}" for name, reason in begin.fresh.items()]


def _read(file: RecordingFile, tick: int, step_s: float) -> tuple[list[Run], dict[int, _Run], str]:
    """Returns (runs of a recording, {index of a run: its data for a restart at `tick`}, code hash in the robot's
    description)."""
    cutter, runs, code_hash = RunCutter(), dict[int, _Run](), ""
    now = 0
    for recorded in file:
        place = cutter.place(recorded.topic, recorded.time_ns, recorded.payload)
        leaf = recorded.topic.rpartition("/")[2]
        if recorded.schema == schema_name(Description):
            code_hash = _code_hash(recorded)
        if place is None or "/" not in recorded.topic:
            continue
        if place not in runs:
            runs[place], now = _Run(), 0
        run = runs[place]
        if leaf == "state":
            run.end_s = max(run.end_s, recorded.time_ns * 1e-9)
        if recorded.schema == schema_name(Snapshot):
            at = msgspec.json.decode(recorded.payload, type=_Tick).tick
            run.first_s = at * step_s if run.first_s is None else run.first_s
            if at < tick:
                run.snapshot, run.after, run.actions = recorded, [], []
        elif leaf == "event":
            if run.snapshot is not None and (action := _action(recorded, step_s)) is not None and action[0] < tick:
                run.actions.append(action)
        elif leaf not in SERVER and now < tick:
            now = max(now, round(recorded.time_ns * 1e-9 / step_s))
            if now < tick and run.snapshot is not None:
                run.after.append((now, recorded))
        elif leaf in ("state", "body_poses"):
            now = max(now, round(recorded.time_ns * 1e-9 / step_s))
    return cutter.runs, runs, code_hash


def _action(recorded: Recorded, step_s: float) -> tuple[int, Event] | None:
    """(tick, event) if a recorded message logs an action of a user; None for any other message."""
    message = recorded.message() if recorded.schema == schema_name(Event) else None
    if not isinstance(message, Event) or message.kind not in ACTIONS:
        return None
    if message.node and message.kind in STOPS:  # of a driver, which the simulation's own one accompanies
        return None
    return round(message.timestamp / step_s), message


def _code_hash(recorded: Recorded) -> str:
    message = recorded.message()
    return message.code_hash if isinstance(message, Description) else ""


def _require_same(recorded: Plan, plan: Plan, path: Path) -> None:
    """Raise PlanError with a one-line message if robot, table [sim] or simulated links differ from the recorded ones.

    A simulated link delays the messages of a node. The keys of [sim] that are listed in FREE may differ.
    """
    if recorded.sim.robot_name != plan.sim.robot_name:
        raise PlanError(
            f"{path} is a recording of robot {recorded.sim.robot_name!r}, but the plan has robot "
            f"{plan.sim.robot_name!r}; use a launch file with the recorded robot"
        )
    before, after = msgspec.to_builtins(recorded.sim), msgspec.to_builtins(plan.sim)
    for key in before:
        if key not in FREE and before[key] != after[key]:
            old, new = (msgspec.json.encode(value).decode() for value in (before[key], after[key]))
            raise PlanError(
                f"{path} cannot be continued: [sim] {key} is {old} in the recording and {new} in the plan; {HOW}"
            )
    _require_same_links(recorded, plan, path)


def _require_same_links(recorded: Plan, plan: Plan, path: Path) -> None:
    """Raise PlanError with a one-line message if a node's simulated link or computing time differs from the recorded
    one."""
    nodes = {node.name: node for node in plan.nodes}
    for before in recorded.nodes:
        after = nodes.get(before.name)
        if after is None and takes_time(before):
            raise PlanError(
                f"{path} cannot be continued: the plan lacks node {before.name!r}, whose messages are delayed in the "
                "recording; add the node to the plan"
            )
    there = {node.name: node for node in recorded.nodes}
    for name, node in nodes.items():
        before = there.get(name, NodePlan(name=name, run=node.run))
        for key in ("link", "compute_ms"):
            old, new = (_text(msgspec.to_builtins(getattr(each, key))) for each in (before, node))
            if old != new and (name in there or takes_time(node)):
                raise PlanError(
                    f"{path} cannot be continued: {key} of node {name!r} is {old} in the recording and {new} in the "
                    f"plan; {HOW}"
                )


def _fresh(recorded: Plan, plan: Plan, state: RunState, path: Path) -> Iterator[tuple[str, str]]:
    """(node, reason) of each node that starts anew, because it cannot continue from its recorded state.

    Recorders are left out, because the run does not depend on them. Raises PlanError for a node whose state was not
    recorded.
    """
    before = {node.name: node for node in recorded.nodes}
    for node in plan.nodes:
        cls = load_class(node.run, plan.folder)
        if cls.lossless and not cls.publishes:
            continue  # a recorder: the run does not depend on it
        saved = state.nodes.get(node.name)
        if saved is None or node.name not in before:
            yield node.name, "the recording does not have this node"
        elif reason := _change(before[node.name], node, cls, saved):
            yield node.name, reason
        elif read_node_state(saved).node is None and not cls.stateless:
            raise PlanError(
                f"{path} cannot be continued: the state of node {node.name!r} is not recorded; define "
                "`state_attributes`, or `snapshot` and `restore`, or `stateless = True` in its class, and record again"
            )


def _change(before: NodePlan, after: NodePlan, cls: type[Node], saved: bytes) -> str:
    """First difference between a recorded node and the same node of the plan, as text; "" if the two are equal.

    saved  recorded state of the node, encoded
    """
    if read_node_state(saved).code != code_of(cls):
        return "its code changed"
    if before.remap != after.remap:
        return "its remapping of topics changed"
    if before.decimation != after.decimation:
        return f"its decimation changed from {before.decimation} to {after.decimation}"
    for key in {**before.params, **after.params}:
        old, new = before.params.get(key), after.params.get(key)
        if old != new:
            return f"its parameter {key} changed from {_text(old)} to {_text(new)}"
    return ""


def _text(value: Any) -> str:
    return "the default" if value is None else msgspec.json.encode(value).decode()


def _played(begin: Restart, plan: Plan, after: list[tuple[int, Recorded]]) -> dict[str, list[tuple[int, str, bytes]]]:
    """{node: [(tick, topic, encoded message)]} of the recorded messages that are sent in place of nodes.

    The messages are those after the snapshot and before `begin.tick`. The nodes are those that start anew without their
    recorded state, and those that `plan` lacks; the key "" stands for an unknown node.

    after  (tick, recorded message) of each message after the snapshot
    """
    robot = plan.sim.robot_name
    classes = {node.name: load_class(node.run, plan.folder) for node in plan.nodes}
    speakers: dict[str, tuple[str, type[Message]]] = {}  # {topic: first node that publishes it, and its type}
    for node in plan.nodes:
        for topic, kind in classes[node.name].publishes.items():
            speakers.setdefault(topic_of(topic, remap=node.remap, robot=robot), (node.name, kind))
    owners = begin.run.server["actuation"]["owners"]
    played: dict[str, list[tuple[int, str, bytes]]] = {}
    for tick, recorded in after:
        name, kind = speakers.get(recorded.topic, ("", Message))
        row = lookup(recorded.topic)
        if row is None and kind is Message:
            continue  # of a type that is not known here: no node of the plan receives it
        message = decode_json(kind if row is None else row.message, recorded.payload)
        if isinstance(message, JointCommand) and message.name:
            name = owners.get(message.name[0], name)
        if message is not None and (name in begin.fresh or name not in classes):
            played.setdefault(name, []).append((tick, recorded.topic, encode(message, recorded.topic)))
    return played
