"""What users of version 0.1 import and name in launch files works until version 0.3."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import msgspec
import pytest

import armswing
from nodes.framework.hosting.node_state import decode_state, encode_state
from nodes.framework.messages import JointCommand

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


@pytest.mark.filterwarnings("ignore:(nodes|robots):FutureWarning")
@pytest.mark.parametrize("name", NAMES)
def test_a_name_of_version_0_1_is_the_public_one(name: str) -> None:
    module, _, last = name.rpartition(".")
    found = getattr(importlib.import_module(module), last)
    ours = (armswing, armswing.client, armswing.mechanism, armswing.messages)
    assert any(getattr(each, last, None) is found for each in ours)


@pytest.mark.parametrize("name", ["nodes.client", "nodes.messages", "nodes.Node", "robots.build"])
def test_a_name_of_version_0_1_names_its_new_place(name: str) -> None:
    package, last = name.split(".")
    code = f"from {package} import {last}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    notices = [line for line in done.stderr.splitlines() if "FutureWarning" in line]
    assert len(notices) == 1
    assert re.search(rf"{name} is removed in version 0.3; import (armswing.{last}|it from armswing)$", notices[0])


def test_a_snapshot_names_classes_by_their_module_of_version_0_2_0() -> None:
    command = JointCommand(name=["elbow"], value=[1.5])
    plain = msgspec.msgpack.decode(encode_state(command))
    old = msgspec.msgpack.encode(plain | {"type": plain["type"].replace("nodes.framework.", "nodes.")})
    assert decode_state(old) == command


@pytest.mark.parametrize("name", NODES)
def test_a_shipped_node_is_named_by_its_file_of_version_0_1(name: str) -> None:
    from nodes.framework.plan.node_classes import load_class

    assert load_class(f"nodes/{name}").__name__ == name.rpartition(":")[2]


def test_these_tests_go_with_version_0_3() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert version.startswith("0.2.")
