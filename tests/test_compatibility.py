"""What users of version 0.1 import and name in launch files works until version 0.3."""

from __future__ import annotations

import importlib
import tomllib
from pathlib import Path

import pytest

import armswing

ROOT = Path(__file__).resolve().parent.parent
NAMES = [
    "nodes.Context",
    "nodes.Node",
    "nodes.client.Client",
    "nodes.client.read_recording",
    "nodes.messages.JointCommand",
    "robots.build",
    "robots.names",
    "sim_core.Simulation",
    "sim_core.assemble",
    "sim_core.forward_dynamics",
    "sim_core.forward_kinematics",
    "sim_core.inverse_dynamics",
    "sim_core.mass_matrix",
    "sim_core.mechanism.Body",
    "sim_core.mechanism.Mechanism",
]
NODES = [
    "clock_watch.py:ClockWatch",
    "controllers/brachiation.py:Brachiation",
    "controllers/computed_torque.py:ComputedTorque",
    "controllers/gravity_pd.py:GravityPD",
    "controllers/impedance.py:Impedance",
    "controllers/omni_base.py:OmniBase",
    "controllers/pd.py:JointPD",
    "controllers/position.py:JointPosition",
    "controllers/swing_up.py:SwingUp",
    "emulated_board.py:EmulatedBoard",
    "guard/node.py:Guard",
    "hardware.py:Hardware",
    "hil_check.py:HilCheck",
    "hil_compare.py:HilCompare",
    "player.py:Player",
    "recorder.py:Recorder",
    "serial_board.py:SerialBoard",
    "swing_planner.py:SwingPlanner",
    "trajectory.py:Trajectory",
]


@pytest.mark.parametrize("name", NAMES)
def test_a_name_of_version_0_1_is_the_public_one(name: str) -> None:
    module, _, last = name.rpartition(".")
    found = getattr(importlib.import_module(module), last)
    ours = (armswing, armswing.client, armswing.mechanism, armswing.messages)
    assert any(getattr(each, last, None) is found for each in ours)


@pytest.mark.parametrize("name", NODES)
def test_a_shipped_node_is_named_by_its_file_of_version_0_1(name: str) -> None:
    from nodes.framework.plan.loading import load_class

    assert load_class(f"nodes/{name}").__name__ == name.rpartition(":")[2]


def test_these_tests_go_with_version_0_3() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert version.startswith("0.2.")
