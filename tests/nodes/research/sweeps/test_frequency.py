"""Frequency responses of launches in lockstep: loop gains of a known law, margins that hold, refusals in one line."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import control
import numpy as np
import pytest

from nodes.cli.application import run as command
from nodes.framework.plan.files.file import load_plan
from nodes.framework.plan.launch_plan import NodePlan, Plan, SimPlan
from nodes.framework.simulation.compose import compose
from nodes.research.sweeps.frequency import FrequencyResponse, frequency_response
from sim_core.errors import InvalidRequest, UnknownName

FILE = Path(__file__).resolve().parents[4] / "launch/examples/my_controller.toml"
STIFFNESS, DAMPING = 0.02, 0.003  # of the example's controller


@pytest.fixture(scope="module")
def found() -> FrequencyResponse:
    plan = load_plan(FILE, ["sim.mode=lockstep"])
    return frequency_response(plan, "arm", np.geomspace(0.4, 12.0, 9).tolist(), 2e-4)


def test_the_robot_responds_in_the_loop_as_its_linear_model_and_the_law_is_the_controllers(
    found: FrequencyResponse,
) -> None:
    assert found.linear is not None
    assert np.quantile(np.abs(found.robot / found.linear - 1.0), 0.8) < 1e-3  # the robot has a zero near 1.5 Hz
    s = 2j * np.pi * found.frequencies
    law = STIFFNESS + DAMPING * s
    assert np.quantile(np.abs(found.loop / found.robot / law - 1.0), 0.8) < 0.02  # sampled velocities


def test_the_delay_margin_is_that_of_the_linear_loop_and_of_delayed_runs(found: FrequencyResponse) -> None:
    margin = found.margins.delay_s
    assert margin is not None
    sampled = control.frd(found.loop, 2.0 * np.pi * found.frequencies)
    _, phase, _, _, at, _ = control.stability_margins(sampled, returnall=True)
    delays = [math.radians(p % 360.0) / w for p, w in zip(phase, at, strict=True)]
    assert margin == pytest.approx(min(delays), rel=0.02)
    moves = [_motion(0.5 * share * margin) for share in (0.96, 1.04)]  # a link delays both ways
    assert moves[0] < 0.1 < 0.3 < moves[1]


def _motion(delay_s: float) -> float:
    """Range of the arm's motion from 11 to 12 s, rad, with a delay of each way."""
    plan = load_plan(FILE, ["sim.mode=lockstep", f"my_controller.link.delay_ms={1e3 * delay_s:.3f}"])
    plan.nodes = [node for node in plan.nodes if node.name == "my_controller"]
    arm = []
    with compose(plan) as run:
        for _ in range(12000):
            run.step()
            arm.append(float(run.server.robots[0].simulation.joints()[0][0]))
    return float(np.ptp(arm[11000:]))


def test_the_command_prints_margins_and_draws(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    picture = tmp_path / "loop.png"
    options = ["--from", "1", "--to", "8", "--points", "4", "--amplitude", "2e-4", "--settle", "1"]
    assert command(["bode", str(FILE), *options, "-o", str(picture)]) == 0
    out = capsys.readouterr().out
    assert "phase margin" in out
    assert "delay margin" in out
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert command(["bode", str(FILE), *options, "--json"]) == 0
    plain = json.loads(capsys.readouterr().out)
    assert len(plain["hz"]) == len(plain["loop"]) >= 4
    assert plain["margins"]["delay_s"] > 0.0


@pytest.mark.parametrize(
    ("arguments", "error", "line"),
    [
        ({"actuator": "amr"}, UnknownName, "has no actuator 'amr'"),
        ({"joint": "hand"}, UnknownName, "has no joint 'hand'"),
        ({"frequencies": [400.0]}, InvalidRequest, "400 Hz: the frequencies must lie in 0 .. 250 Hz"),
    ],
)
def test_bad_input_is_one_line(arguments: dict[str, Any], error: type[Exception], line: str) -> None:
    given = {"actuator": "arm", "frequencies": [1.0], "amplitude": 1e-4, "settle_s": 0.0} | arguments
    with pytest.raises(error, match=line):
        frequency_response(load_plan(FILE, ["sim.mode=lockstep"]), **given)


def test_a_launch_that_does_not_settle_is_refused() -> None:
    swinging = Plan(name="free", sim=SimPlan(robot="arm_2dof", mode="lockstep"), nodes=list[NodePlan]())
    with pytest.raises(InvalidRequest, match="has not settled"):
        frequency_response(swinging, "joint_2", [5.0], 1e-3, settle_s=0.1)


def test_options_of_the_command_are_checked(capsys: pytest.CaptureFixture[str]) -> None:
    for options, line in (
        (["--from", "5", "--to", "1"], "the lower one first"),
        (["-o", "loop.pdf"], "give the name of a PNG file"),
        (["--amplitude", "0"], "it must be above 0"),
    ):
        assert command(["bode", str(FILE), *options]) == 2
        assert line in capsys.readouterr().err
