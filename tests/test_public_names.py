"""The package armswing: its names have types, and it stays light until they are used."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from pathlib import Path

import armswing

ROOT = Path(__file__).resolve().parent.parent
MODULES = ("armswing.mechanism", "armswing.messages", "armswing.client", "armswing.charmie")


def names_of(module: str) -> list[str]:
    """Names of the classes and functions of a module for users."""
    found = importlib.import_module(module)
    homes = {name: getattr(getattr(found, name), "__module__", "") or "" for name in dir(found)}
    return [name for name, home in homes.items() if home.partition(".")[0] in ("nodes", "robots", "sim_core")]


def test_a_script_that_uses_every_public_name_passes_strict_type_checks(tmp_path: Path) -> None:
    lines = [f"from armswing import {', '.join(armswing.__all__)}", *(f"print({name})" for name in armswing.__all__)]
    for module in MODULES:
        assert len(names_of(module)) >= 9
        lines += [f"import {module}", *(f"print({module}.{name})" for name in names_of(module))]
    lines += ["sim: Simulation = Simulation(assemble(build('rotary_pendulum')))", "reveal_type(sim.energy())"]
    script = tmp_path / "script.py"
    script.write_text("\n".join(lines))
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path / "cache"), str(script)],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout
    assert 'Revealed type is "float"' in done.stdout


def test_a_node_file_and_a_client_load_nothing_heavy() -> None:
    program = (
        "import sys; from armswing import Node, client, messages; from armswing.client import Client;"
        "print(sorted({'numpy', 'numba', 'casadi', 'mcap'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", program],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "[]"
