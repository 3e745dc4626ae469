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
from nodes.research.sweeps.margins import margins_of, resolve_crossings
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


@pytest.mark.parametrize(
    ("points", "knows_the_resonance"), [(2, True), (5, True), (40, True), (20, False), (40, False)]
)
def test_margins_of_a_resonance_between_the_frequencies_are_those_of_the_exact_loop(
    points: int, knows_the_resonance: bool
) -> None:
    s = control.tf("s")
    robot = (s**2 + 2.0 * 0.02 * 10.7 * s + 10.7**2) / (s**2 * (s**2 + 2.0 * 0.03 * 12.5 * s + 12.5**2))
    loop = robot * (20.0 + 6.0 * s) * control.tf(*control.pade(0.01, 4))

    def gain(f: Any) -> Any:
        return loop(2j * np.pi * f)

    measured = {float(f): complex(gain(f)) for f in np.geomspace(0.3, 60.0, points)}

    def measure(f: float) -> float:
        measured[f] = complex(gain(f))
        return f

    notes = resolve_crossings(measured, measure, (lambda f: robot(2j * np.pi * f)) if knows_the_resonance else None)
    upper, phase, _, upper_w, phase_w, _ = control.stability_margins(loop, returnall=True)
    delays = [math.radians(p % 360.0) / w for p, w in zip(phase, phase_w, strict=True)]
    found = margins_of(measured)
    assert not notes
    assert len(delays) == 3
    assert found.delay_s == pytest.approx(min(delays), rel=1e-3)
    assert found.phase_deg == pytest.approx(min(abs(phase)), rel=1e-3)
    assert found.gain == pytest.approx(min(g for g, w in zip(upper, upper_w, strict=True) if g > 1.0), rel=1e-3)
    assert len(measured) < points + 60


def test_a_part_of_the_range_that_is_not_resolved_is_named() -> None:
    def gain(f: float) -> complex:
        return 3.0 / (1j * f) * (-1.0 if f > 1.0 else 1.0)

    measured = {0.5: gain(0.5), 2.0: gain(2.0)}

    def measure(f: float) -> float:
        measured[f] = gain(f)
        return f

    notes = resolve_crossings(measured, measure, None)
    assert any("Hz the loop gain is not resolved" in note for note in notes)
    assert any("|L| is above 1 at 2 Hz" in note for note in notes)


def test_few_frequencies_give_the_same_delay_margin(found: FrequencyResponse) -> None:
    plan = load_plan(FILE, ["sim.mode=lockstep"])
    few = frequency_response(plan, "arm", [0.5, 10.0], 2e-4)
    assert few.margins.delay_s == pytest.approx(found.margins.delay_s, rel=0.01)
    assert few.margins.delay_hz == pytest.approx(found.margins.delay_hz, rel=0.01)


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


def _delayed(delay_ms: float) -> Plan:
    return load_plan(FILE, ["sim.mode=lockstep", f"my_controller.link.delay_ms={delay_ms}"])


def test_a_high_frequency_is_measured_beside_slow_motions_that_decay() -> None:
    found = frequency_response(_delayed(15.0), "arm", [19.0, 20.0], 5e-4, settle_s=10.0)
    assert found.linear is not None
    assert np.abs(found.robot / found.linear - 1.0).max() < 1e-2


def test_a_launch_that_comes_to_rest_is_given_more_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nodes.research.sweeps.frequency.LEAST_WAIT_S", 0.0)
    with pytest.raises(InvalidRequest, match=r"has not settled after 3 s: the launch still comes to rest.*--settle 6"):
        frequency_response(_delayed(15.0), "arm", [20.0], 1e-5, settle_s=3.0)


def test_a_launch_that_does_not_settle_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="does not decay; the loop is unstable"):
        frequency_response(_delayed(45.0), "arm", [5.0], 5e-4)
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
