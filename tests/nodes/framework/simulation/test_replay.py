"""A recorded run fed to one node says what was recorded; a node that acts otherwise is found out at its first word."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from nodes.cli.application import run as armswing
from nodes.framework.messages import JointReference, RobotState
from nodes.framework.plan.launch_plan import LinkPlan, NodePlan, Plan, SimPlan
from nodes.framework.simulation.compose import compose
from nodes.framework.simulation.replay.comparison import Line, Outcome, Tolerances
from nodes.framework.simulation.replay.replay import node_of, plan_of, read_lines, replay

SMALL = '''
import msgspec
from nodes.node import Node
from nodes.framework.messages import JointCommand, JointReference, RobotState


class Filter(Node):
    """Draws the arm to a reference it approaches slowly: what it says rests on all that it heard, in order."""

    subscribes = {"state": RobotState, "reference": JointReference}
    publishes = {"command": JointCommand}

    class Params(msgspec.Struct, forbid_unknown_fields=True):
        share: float = 0.1  # of the way to the reference per state
        answers_all: bool = True

    def on_start(self, context):
        self.context, self.target, self.wanted = context, 0.0, 0.0

    def on_message(self, name, message):
        if name == "reference":
            self.wanted = message.position[0]
            return
        self.target += self.context.params.share * (self.wanted - self.target)
        effort = 0.02 * (self.target - message.position[0]) - 0.002 * message.velocity[0]
        effort += 1e-6 * self.context.random.normal()
        if self.context.params.answers_all or message.seq % 2:
            yield "command", JointCommand(name=["arm"], value=[effort], state_seq=message.seq)


class Wave(Node):
    """Speaks on its clock alone, and hears the commands said before its turn."""

    subscribes = {"command": JointCommand}
    publishes = {"reference": JointReference}
    rate_hz = 50.0

    def on_start(self, context):
        self.heard = 0

    def on_message(self, name, message):
        self.heard += 1

    def on_tick(self, now):
        yield "reference", JointReference(name=["arm"], position=[now], velocity=[float(self.heard)])


class Mute(Node):
    subscribes = {"state": RobotState}
'''
SLOW: dict[str, Any] = {
    "Filter": {"link": LinkPlan(delay_ms=5.0, jitter_ms=20.0, loss=0.05), "compute_ms": 2.5},
    "Wave": {"link": LinkPlan(jitter_ms=10.0)},
}
ORDERS = (("Wave", "Filter"), ("Filter", "Wave"))


def recorded(folder: Path, nodes: Sequence[str], decimation: int = 1, slow: bool = False, **sim: Any) -> Path:
    """A lockstep run of 0.5 s, in process; `slow`: messages and turns take time, and messages get lost."""
    (folder / "small.py").write_text(SMALL)
    file = folder / f"{'_'.join(nodes)}.mcap"
    plan = Plan(
        name="small",
        folder=str(folder),
        duration_s=0.5,
        seed=3,
        sim=SimPlan(robot="rotary_pendulum", mode="lockstep", **sim),
        nodes=[
            *(
                NodePlan(
                    name=name.lower(), run=f"small.py:{name}", decimation=decimation, **(SLOW[name] if slow else {})
                )
                for name in nodes
            ),
            NodePlan(name="recorder", run="nodes/recorder.py:Recorder", params={"file": str(file)}),
        ],
    )
    with compose(plan) as composition:
        composition.run()
        composition.request("reset")
        composition.step(40)
    return file


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def replayed(
    file: Path, cls: str, mode: str = "lockstep", lines: Sequence[Line] | None = None, **params: Any
) -> Outcome:
    found, metadata = read_lines(file)
    plan = plan_of(metadata, file)
    plan.sim.mode = mode  # type: ignore[assignment]
    node = node_of(plan, f"{file.parent / 'small.py'}:{cls}", None, params)
    return replay(found if lines is None else lines, plan, node, Tolerances())


def until_reset(file: Path) -> list[Line]:
    lines = read_lines(file)[0]
    return lines[: next(i for i, line in enumerate(lines) if line.topic.endswith("event"))]


@pytest.mark.parametrize("slow", [False, True], ids=["at once", "slow"])
@pytest.mark.parametrize("decimation", [1, 4])
@pytest.mark.parametrize("nodes", ORDERS, ids=" then ".join)
def test_a_lockstep_run_is_repeated_bit_by_bit(
    nodes: Sequence[str], decimation: int, slow: bool, tmp_path: Path
) -> None:
    file = recorded(tmp_path, nodes, decimation, slow)
    for cls in nodes:
        outcome = replayed(file, cls)
        assert (outcome.differing, outcome.first) == (0, [])
        assert outcome.compared == sum(
            line.topic.endswith(("command", "reference")[cls == "Wave"]) for line in read_lines(file)[0]
        )
        assert set(outcome.worst.values()) == {0.0}


@pytest.mark.parametrize("mode", ["lockstep", "realtime"])
@pytest.mark.parametrize("order", [("shoulder", "elbow"), ("elbow", "shoulder")], ids=" then ".join)
def test_of_two_nodes_that_command_each_is_set_beside_its_own_words(
    order: Sequence[str], mode: str, tmp_path: Path
) -> None:
    file = tmp_path / "two.mcap"
    joints = {"shoulder": "joint_2", "elbow": "joint_4"}
    nodes = [
        NodePlan(
            name=name,
            run="nodes/controllers/pd.py:JointPD",
            params={"joints": [joints[name]], "stiffness": [100.0], "damping": [10.0]},
        )
        for name in order
    ]
    recorder = NodePlan(name="recorder", run="nodes/recorder.py:Recorder", params={"file": str(file)})
    sim = SimPlan(robot="arm_2dof", mode="lockstep")
    with compose(Plan(name="two", folder=str(tmp_path), duration_s=0.3, sim=sim, nodes=[*nodes, recorder])) as run:
        run.run()
    lines, metadata = read_lines(file)
    plan = plan_of(metadata, file)
    plan.sim.mode = mode  # type: ignore[assignment]
    for name in order:
        outcome = replay(lines, plan, node_of(plan, "nodes/controllers/pd.py:JointPD", name, {}), Tolerances())
        assert (outcome.compared, outcome.differing) == (300, 0)
        stiffer = node_of(plan, "nodes/controllers/pd.py:JointPD", name, {"stiffness": [101.0]})
        assert replay(lines, plan, stiffer, Tolerances()).differing > 200


def test_states_that_are_said_less_often_than_steps_are_taken_are_repeated_too(tmp_path: Path) -> None:
    file = recorded(tmp_path, ("Wave", "Filter"), rate_hz=100.0)
    assert [replayed(file, cls).differing for cls in ("Wave", "Filter")] == [0, 0]


def test_a_changed_node_is_found_out_at_its_first_other_word(tmp_path: Path) -> None:
    file = recorded(tmp_path, ("Wave", "Filter"))
    outcome = replayed(file, "Filter", share=0.2)
    assert outcome.differing > 400
    first = outcome.first[0]
    assert (first.topic, first.field) == ("rotary_pendulum/command", "value[0]")
    assert first.time == pytest.approx(0.021)  # the first reference above zero is heard after the state of 0.02
    assert first.recorded != first.replayed
    assert outcome.worst["value"] > 0.0


def test_words_that_are_missing_are_differences(tmp_path: Path) -> None:
    file = recorded(tmp_path, ("Wave", "Filter"))
    outcome = replayed(file, "Filter", answers_all=False)
    assert not outcome.same
    assert (outcome.first[0].field, outcome.first[0].replayed) == ("", None)
    silent = [line for line in read_lines(file)[0] if not (line.topic.endswith("command") and line.message.seq % 2)]
    outcome = replayed(file, "Filter", lines=silent)
    assert (outcome.first[0].field, outcome.first[0].recorded) == ("", None)


def test_messages_that_crossed_on_their_way_in_real_time_are_put_in_order(tmp_path: Path) -> None:
    lines = until_reset(file := recorded(tmp_path, ("Wave", "Filter")))
    references = [line for line in lines if isinstance(line.message, JointReference)]
    for k, line in enumerate(references[1:]):  # heard by the recorder some states later or earlier than by the node
        place = lines.index(line)
        lines.insert(place + (-14, -7, 9, 17)[k % 4], lines.pop(place))
    assert [line.time for line in lines if isinstance(line.message, RobotState)] == sorted(
        line.time for line in lines if isinstance(line.message, RobotState)
    )
    outcome = replayed(file, "Filter", mode="realtime", lines=lines)
    assert outcome.same
    assert outcome.crossed > len(references)


def test_a_state_that_a_node_in_real_time_did_not_answer_is_no_difference(tmp_path: Path) -> None:
    lines = until_reset(file := recorded(tmp_path, ("Filter",)))
    kept = [line for line in lines if not (line.topic.endswith("command") and line.message.seq in (7, 8))]
    outcome = replayed(file, "Filter", mode="realtime", lines=kept)
    assert (outcome.same, outcome.unanswered) == (True, 3)  # and the last, after which the run was over


def test_tolerances_are_field_by_field_and_relative_for_large_numbers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = [
        "replay",
        str(recorded(tmp_path, ("Wave", "Filter"))),
        "--node",
        "small.py:Filter",
        "--param",
        "share=0.11",
    ]
    assert armswing(command) == 1
    text = capsys.readouterr().out
    assert "rotary_pendulum/command at t = 0.021 s (seq 22): value[0] was" in text
    assert armswing([*command, "--tolerance", "state_seq=1"]) == 1
    assert armswing([*command, "--tolerance", "value=0.1"]) == 0
    assert armswing([*command, "--tolerance", "0.1", "--json"]) == 0
    found = json.loads(capsys.readouterr().out.rpartition("\n{")[2].join(["{", ""]))
    assert found["same"] is True
    assert 0.0 < found["worst"]["value"] < 0.1


def test_a_relative_path_and_a_stand_in_by_name_are_found(tmp_path: Path) -> None:
    file = recorded(tmp_path, ("Wave", "Filter"))
    (tmp_path / "new.py").write_text(SMALL.replace("class Filter", "class Better"))
    assert armswing(["replay", str(file), "--node", "new.py:Better", "--as", "filter"]) == 0


BAD = {
    "none.mcap --node small.py:Filter": "no recording 'none.mcap'",
    "FILE --node small.py:Nobody": "run = 'small.py:Nobody': class 'Nobody' does not exist; known are ",
    "FILE --node small.py:Filtr": "class 'Filtr' does not exist; did you mean 'Filter'?",
    "FILE --node small.py:Mute": "the recorded plan has no node of the class 'Mute'; use --as NAME to say",
    "FILE --node small.py:Filter --tolerance valu=1e-9": "valu: Filter publishes no such field; its fields are",
    "FILE --node small.py:Filter --tolerance seq=1": "--tolerance seq: Filter publishes no such field",
    "FILE --node small.py:Filter --tolerance vale=1 --tolerance 0": "did you mean 'value'?",
    "FILE --node small.py:Nobody --as filter": "class 'Nobody' does not exist",
    "FILE --node small.py:Filter --as filer": "has no node 'filer'; its nodes are ['wave', 'filter', 'recorder']",
    "FILE --node small.py:Mute --as filter": "publishes no topic, so there is nothing to compare",
    "FILE --node small.py:Filter --param shares=1": "unknown key 'shares'; did you mean 'share'?",
    "FILE --node small.py:Filter --tolerance value=x": "--tolerance 'value=x': expected a number of at least 0",
    "REALTIME --node small.py:Wave": "its own timer (rate_hz = 50), and a recording in mode 'realtime' does not",
}


@pytest.mark.parametrize("arguments", list(BAD))
def test_bad_input_is_one_line(
    arguments: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = recorded(tmp_path, ("Wave", "Filter"))
    if "REALTIME" in arguments:
        monkeypatch.setattr(
            "nodes.framework.simulation.replay.replay.plan_of",
            lambda *given: (plan := plan_of(*given), setattr(plan.sim, "mode", "realtime"))[0],
        )
    files = {"FILE": str(file), "REALTIME": str(file)}
    assert armswing(["replay", *(files.get(word, word) for word in arguments.split())]) == 2
    error = capsys.readouterr().err
    assert BAD[arguments] in error
    assert error.count("\n") == 1
