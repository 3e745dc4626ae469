"""Violation of the rolling rows, and the energy of a rolling disk, over 60 s at 1 ms with the default stabilizer.

python tests/benchmarks/rolling.py [--json FILE]
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bars import at_most, json_file

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from robots.registry import build
from sim_core.mechanism import Mechanism
from sim_core.simulation import Simulation
from sim_core.system import assemble
from tests.sim_core.test_rolling import mecanum, turntable

SECONDS, BAR, ENERGY_BAR = 60.0, 1e-9, 1e-6
ROBOTS: dict[str, Callable[[], Mechanism]] = {
    "rolling disk": lambda: build("rolling_disk"),
    "Chaplygin's sleigh": lambda: build("chaplygin_sleigh"),
    "snakeboard": lambda: build("snakeboard"),
    "ball on a turntable": turntable,
    "mecanum base": mecanum,
    "base on two wheels": lambda: build("differential_drive"),
}


def main(json_path: str | None = None) -> dict[str, Any]:
    """Run every robot, print, write JSON where asked, and give the figures."""
    report, bars = dict[str, Any](), []
    for name, made in ROBOTS.items():
        simulation = Simulation(assemble(made()))
        if simulation.system.n_u:
            simulation.set_effort([0.1, 0.05])
        energy = simulation.energy()
        simulation.advance(SECONDS)
        bars.append(at_most(f"{name}: largest |Phidot| in {SECONDS:g} s", simulation.peak_violation()[1], BAR))
        if name == "rolling disk":
            change = abs(simulation.energy() / energy - 1.0)
            bars.append(at_most(f"{name}: relative change of energy in {SECONDS:g} s", change, ENERGY_BAR))
    report["bars"] = bars
    for bar in bars:
        print(bar)
    if json_path is not None:
        Path(json_path).write_text(json.dumps(report, indent=1))
    return report


if __name__ == "__main__":
    main(json_file(__doc__))
