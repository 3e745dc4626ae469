"""Runs inside Python from one call: equal to a launch, with classes, starts and continued recordings of one's own."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from armswing import (
    InvalidRequest,
    Node,
    Plan,
    PlanError,
    SimPlan,
    SimulationError,
    messages,
    open_run,
    read_recording,
    run,
)

ROOT = Path(__file__).parents[1]
FILE = ROOT / "launch/examples/my_controller.toml"
STATE = "rotary_pendulum/state"


class Push(Node):
    subscribes = {"state": messages.RobotState}
    publishes = {"command": messages.JointCommand}

    def on_message(self, name: str, state: Any) -> Any:
        yield "command", messages.JointCommand(name=["arm"], value=[0.001], state_seq=state.seq)


def plan() -> Plan:
    return Plan(name="pushed", sim=SimPlan(robot="rotary_pendulum", parameters={"coordinates": "joint"}))


def test_one_call_runs_a_launch_file_and_returns_its_recording(tmp_path: Path) -> None:
    kept = tmp_path / "run.mcap"
    found = run(FILE, overrides=["my_controller.angle_deg=60"], seconds=0.3, record=kept)
    assert found[STATE]["timestamp"][-1] == pytest.approx(0.3)
    assert found.description is not None
    again = run(FILE, overrides=["my_controller.angle_deg=60"], seconds=0.3, record=tmp_path / "again.mcap")
    assert kept.read_bytes() == again.path.read_bytes()
    assert np.array_equal(read_recording(kept)[STATE]["position"], found[STATE]["position"])
    assert sorted(each.name for each in tmp_path.iterdir() if each.suffix == ".mcap") == ["again.mcap", "run.mcap"]


def test_classes_of_the_program_run_from_a_start_of_ones_own() -> None:
    found = run(plan(), {"push": Push}, seconds=0.1, start=([0.2, 1.0], [0.0, 0.0]))
    assert found[STATE]["position"][0] == pytest.approx([0.2, 1.0], abs=1e-9)
    assert found["rotary_pendulum/command"]["value"][0] == [0.001]


def test_a_recorded_run_continues_in_the_same_states(tmp_path: Path) -> None:
    whole = run(FILE, seconds=1.0, record=tmp_path / "whole.mcap")
    rest = run(FILE, seconds=0.4, start=tmp_path / "whole.mcap", at=0.6)
    both = [found[STATE]["position"][found[STATE]["timestamp"] > 0.65] for found in (whole, rest)]
    assert len(both[0]) > 100
    assert np.array_equal(*both)


def test_a_run_is_stepped_by_hand_and_closed_twice() -> None:
    with open_run(FILE) as live:
        live.step(5)
        assert live.time == pytest.approx(5 * live.plan.sim.step_s)
        assert set(live.nodes) == {"my_controller", "recorder"}
    assert live.close() is live.recording
    assert len(live.recording[STATE]["seq"]) == 6


def test_a_run_that_has_ended_takes_no_steps_and_requests() -> None:
    with open_run(FILE) as live:
        live.step()
        with pytest.raises(PlanError, match="seconds is 'x'"):
            live.run("x")  # type: ignore[arg-type]
    for request in (live.step, live.run, lambda: live.request("status")):
        with pytest.raises(InvalidRequest, match="the run of 'my_controller' has ended; open another one"):
            request()
    assert len(live.recording[STATE]["seq"]) == 2


class Misnamed(Push):
    def on_message(self, name: str, state: Any) -> Any:
        yield "command", messages.JointCommand(name=["amr"], value=[0.001], state_seq=state.seq)


class Invalid(Push):
    def on_message(self, name: str, state: Any) -> Any:
        yield "command", messages.JointCommand(name=["arm"], value=[0.001, 0.002], state_seq=state.seq)


@pytest.mark.parametrize(("node", "reason"), [(Misnamed, "'amr'"), (Invalid, "value")])
def test_a_node_without_one_accepted_command_is_an_error_after_the_run(
    node: type[Node], reason: str, tmp_path: Path
) -> None:
    with pytest.raises(SimulationError, match=f"no command of node 'push' was accepted: .*{reason}"):
        run(plan(), {"push": node}, seconds=0.05, record=tmp_path / "run.mcap")
    assert len(read_recording(tmp_path / "run.mcap")[STATE]["seq"]) > 10
    with open_run(plan(), {"push": node}) as live:
        live.step(5)
        assert list(live.ignored_commands()) == ["push"]


def test_runs_in_threads_do_not_disturb_each_other() -> None:
    found: list[Any] = [None] * 3

    def one(k: int) -> None:
        found[k] = run(FILE, overrides=[f"my_controller.angle_deg={20 * (1 + k % 2)}"], seconds=0.2)

    threads = [threading.Thread(target=one, args=(k,)) for k in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60.0)
    positions = [each[STATE]["position"] for each in found]
    assert np.array_equal(positions[0], positions[2])
    assert not np.array_equal(positions[0], positions[1])


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ({"plan": "nowhere.toml"}, "nowhere.toml"),
        ({"plan": plan()}, "no duration_s; give `seconds`"),
        ({"plan": plan(), "seconds": -1.0}, "seconds is -1.0"),
        ({"plan": plan(), "seconds": "x"}, "seconds is 'x'; it must be a positive number"),
        ({"plan": FILE, "seconds": 1.0, "start": "run.mcap", "at": "x"}, "at is 'x'; it must be a number"),
        ({"plan": plan(), "seconds": 1.0, "overrides": ["sim.step_ms=2"]}, "overrides are for launch files"),
        ({"plan": FILE, "seconds": 1.0, "at": 1.0}, "give the recording as `start`"),
        ({"plan": FILE, "seconds": 1.0, "start": "run.mcap"}, "give `at`"),
    ],
)
def test_bad_arguments_are_one_line(arguments: dict[str, Any], line: str) -> None:
    with pytest.raises(PlanError, match=line.replace(".", r"\.")) as error:
        run(**arguments)
    assert "\n" not in str(error.value)
