"""An arm from a URDF file, held by an impedance controller, pushes a block against a stop."""

from __future__ import annotations

from pathlib import Path

import pytest

from nodes.framework.plan.files.file import load_plan
from nodes.framework.simulation.compose import compose

FILE = Path(__file__).resolve().parents[3] / "launch/examples/push.toml"
STIFFNESS, TARGET = 400.0, 0.55  # N/m and m: those of the launch file
STOP, HALF, TOOL = 0.62, 0.05, 0.03  # m: place of the stop, half the block, radius of the tool


def test_the_arm_presses_with_its_stiffness_times_the_way_that_the_stop_denies_it() -> None:
    plan = load_plan(FILE)
    plan.nodes = [node for node in plan.nodes if node.name != "recorder"]
    with compose(plan) as run:
        run.step(round(0.9 / run.server.simulation.step_s))
        before = run.server.simulation.frames()["block"][0]
        run.step(round(3.2 / run.server.simulation.step_s))
        sim = run.server.simulation
        block, outputs, names = sim.frames()["block"][0], sim.outputs(), [b.name for b in sim.system.mechanism.bodies]
        tool = sim.system.poses(sim.time, sim.state.q, sim.state.v, sim.state.p)[0][names.index("tool")]
    assert before[0] == pytest.approx(0.42, abs=1e-4)  # friction held the block until the tool came
    assert block[0] == pytest.approx(STOP - HALF, abs=2e-3)
    assert tool[0] == pytest.approx(STOP - 2 * HALF - TOOL, abs=4e-3)
    pressed = -outputs["tool_x"]
    assert pressed == pytest.approx(STIFFNESS * (TARGET - tool[0]), rel=0.02)
    assert sum(outputs[f"stop_{k}_x"] for k in range(4)) == pytest.approx(-pressed, rel=0.02)
