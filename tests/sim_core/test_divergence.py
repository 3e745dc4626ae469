"""What a diverged run leaves behind: its last states, and no more files than of the last few runs."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from robots.registry import build
from sim_core.errors import SimulationDiverged
from sim_core.monitoring import divergence
from sim_core.simulation import Simulation
from sim_core.system import assemble


def test_only_the_files_of_the_last_few_runs_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(divergence.tempfile, "tempdir", str(tmp_path))
    other = tmp_path / "armswing-diverged-notes.txt"
    other.write_text("mine")
    written = []
    for run in range(divergence.KEPT + 3):
        written.append(divergence.write_history(np.full((2, 3), float(run)), ["x"]))
        os.utime(written[-1], ns=(run, run))  # a file system's clock may be too coarse to order them
    kept = sorted(tmp_path.glob("*.npz"))
    assert kept == sorted(written[-divergence.KEPT :])
    assert [np.load(file)["t_q_v"][0, 0] for file in written[-2:]] == [divergence.KEPT + 1.0, divergence.KEPT + 2.0]
    assert other.exists()


STRETCHED = """<mujoco model="stretched">
  <worldbody>
    <body name="arm" pos="0 0 1" euler="10 0 0">
      <joint name="shoulder" axis="0 1 0" ref="30" damping="0.1"/>
      <geom type="capsule" fromto="0 0 0 0.3 0 0" size="0.02" mass="1" contype="0" conaffinity="0"/>
      <body name="fore" pos="0.3 0 0">
        <joint name="elbow" axis="0 1 0" ref="-20" damping="0.1" stiffness="2"/>
        <inertial pos="0.1 0 0" mass="0.5" diaginertia="0.001 0.003 0.003"/>
      </body>
    </body>
    <body name="other" pos="0.5 0.3 1">
      <joint name="axle" axis="1 0 0" damping="0.1"/>
      <geom type="box" size=".1 .1 .05" pos="0 .1 0" mass="1" contype="0" conaffinity="0"/>
    </body>
  </worldbody>
  <equality><connect name="pin" body1="fore" body2="other" anchor="0.1 0 0"/></equality>
</mujoco>
"""


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("step_s", [1e-3, 1e-4])
def test_a_run_that_starts_where_constraints_lose_rank_says_so_whatever_its_step(step_s: float, tmp_path: Path) -> None:
    file = tmp_path / "stretched.xml"
    file.write_text(STRETCHED)
    sim = Simulation(assemble(build(str(file))), step_s=step_s, stepper="rk4")
    with pytest.raises(SimulationDiverged) as caught:
        sim.advance(0.5)
    assert "constraint rows of 'pin' depend on one another at t = 0 s, as those of a stretched arm do" in str(
        caught.value
    )


def test_constraints_that_are_independent_or_dependent_everywhere_are_not_blamed(tmp_path: Path) -> None:
    file = tmp_path / "bent.xml"
    twice = STRETCHED.replace(
        "</equality>", '<connect name="again" body1="fore" body2="other" anchor="0.1 0 0"/></equality>'
    )
    for text in (STRETCHED.replace('euler="10 0 0"', ""), twice):
        file.write_text(text.replace('name="fore" pos="0.3 0 0"', 'name="fore" pos="0.3 0 0" euler="0 70 0"'))
        system = assemble(build(str(file)))
        state = np.concatenate([[0.0], system.mechanism.initial_q, system.mechanism.initial_v])
        assert divergence._at_lost_rank(system, state) == ""
