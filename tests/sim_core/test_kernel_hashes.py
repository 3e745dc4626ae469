"""The machine-independent code of the robots' kernels: a robot without a new part keeps its LLVM IR byte for byte.

Rotated inertias are matrix products, whose last digits depend on the processor. The code is therefore derived by a
process whose BLAS takes the instructions that all processors of the architecture have. The mode shapes of beams also
depend on the sizes of the processor's caches, by the order of summation: the constants of robots with beams, tables of
6,000 numbers among them, are compared to three digits.

After a change that is meant to change the code: .venv/bin/python tests/sim_core/test_kernel_hashes.py
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import platform
import re
import struct
import subprocess
import sys
from pathlib import Path

import casadi
import pytest

import robots
from robots.registry import build
from sim_core.derivation.equations import derive
from sim_core.kernels.tables import module_with_tables

HASHES = Path(__file__).with_name("kernel_hashes.json")
STOPPED = ("arm_2dof", "arm_4dof", "arm_6dof", "charmie")  # robots with stops by default
BARE = tuple(f"{robot} limits=none" for robot in STOPPED)  # the same without stops
SAMPLED = (*BARE, "arm_2dof", "arm_6dof", "charmie", "four_bar_chain", "gibbon", "rotary_pendulum", "triple_pendulum")
PLAIN_BLAS = {"x86_64": "Prescott"}  # by processor


def code_hash(robot: str) -> str:
    """Hash of the code of a robot's kernels.

    robot  name of the robot, and parameters as in "charmie limits=none"
    """
    name, *given = robot.split()
    mechanism = build(name, **dict(pair.split("=") for pair in given))
    derivation = derive(mechanism)
    ir = module_with_tables(derivation.functions, derivation.twins, derivation.uses, derivation.tables)
    return hashlib.sha256((rounded(ir) if mechanism.beams else ir).encode()).hexdigest()


def rounded(ir: str) -> str:
    """The code with each constant as a whole number that keeps three digits, and none of values far below 1e-4.

    The factor 1 / pi moves the limits of rounding away from values such as 1/512.
    """

    def whole(match: re.Match[str]) -> str:
        (value,) = struct.unpack(">d", bytes.fromhex(match[1]))
        return str(round(1e4 / math.pi * math.asinh(1e4 * value))) if math.isfinite(value) else match[0]

    return re.sub(r"\b0x([0-9A-F]{16})\b", whole, ir)


def hashes(names: list[str]) -> dict[str, str]:
    """The hashes of the robots' kernels, derived in a process with a plain BLAS."""
    environment = os.environ | {"OPENBLAS_CORETYPE": PLAIN_BLAS[platform.machine()]}
    done = subprocess.run(
        [sys.executable, __file__, "--derive", *names],
        env=environment | {"PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        text=True,
        check=True,
    )
    return dict(json.loads(done.stdout))


def check(names: list[str]) -> None:
    known = json.loads(HASHES.read_text())
    if known["casadi"] != casadi.__version__:
        pytest.skip(f"the hashes are those of casadi {known['casadi']}; this is {casadi.__version__}")
    if platform.machine() not in PLAIN_BLAS:
        pytest.skip(f"the hashes are those of {', '.join(PLAIN_BLAS)}; this is {platform.machine()}")
    changed = [name for name, found in hashes(names).items() if found != known["robots"][name]]
    assert not changed, (
        f"the kernels of {changed} changed; if that is meant, run .venv/bin/python tests/sim_core/test_kernel_hashes.py"
    )


def test_a_robot_keeps_the_code_of_its_kernels() -> None:
    check(list(SAMPLED))


@pytest.mark.soak
def test_every_other_robot_keeps_the_code_of_its_kernels() -> None:
    check([name for name in (*robots.names(), *BARE) if name not in SAMPLED])


if __name__ == "__main__":
    if sys.argv[1:2] == ["--derive"]:
        print(json.dumps({name: code_hash(name) for name in sys.argv[2:]}))
    else:
        known = json.loads(HASHES.read_text())["robots"] if sys.argv[1:] else {}
        found = known | hashes(sys.argv[1:] or [*robots.names(), *BARE])
        HASHES.write_text(json.dumps({"casadi": casadi.__version__, "robots": found}, indent=1) + "\n")
