"""Rolling rows over 60 s at 1 ms with the default stabilizer; CHARMIE on its wheels picks something up.

Of the rows: their violation, and the energy of a rolling disk. Of CHARMIE: the path beside that of its planar base, and
the loads of its wheels.

python tests/benchmarks/rolling.py [--json FILE]
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from bars import at_most, json_file

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from nodes.framework.plan.files.file import load_plan
from nodes.framework.simulation.compose import Composition
from robots.registry import build
from sim_core.mechanism import Mechanism, with_reactions
from sim_core.simulation import Simulation
from sim_core.system import assemble
from tests.robots.test_charmie_wheels import loads_of, upward_force
from tests.sim_core.test_rolling import mecanum, turntable

SECONDS, BAR, ENERGY_BAR = 60.0, 1e-9, 1e-6
PATH_BAR, LOAD_BAR = 0.01, 1e-9
PICK = Path(__file__).resolve().parents[2] / "launch/charmie_pick.toml"
ROBOTS: dict[str, Callable[[], Mechanism]] = {
    "rolling disk": lambda: build("rolling_disk"),
    "Chaplygin's sleigh": lambda: build("chaplygin_sleigh"),
    "snakeboard": lambda: build("snakeboard"),
    "ball on a turntable": turntable,
    "mecanum base": mecanum,
    "base on two wheels": lambda: build("differential_drive"),
}


def picked(base: str) -> tuple[np.ndarray, float, float]:
    """CHARMIE picks something up: the poses of its base (n, 3) every 0.1 s, the largest relative difference between the
    sum of the wheels' loads and weight plus inertia, and the smallest load, N.

    base  "planar" or "wheels"; the loads are 0 for the former
    """
    plan = load_plan(PICK, ["sim.mode=lockstep", f"sim.parameters.base={base}"])
    plan.nodes = [node for node in plan.nodes if node.name != "recorder"]
    made = build("charmie", loops="closed", base=base)
    poses, worst, least = [], 0.0, np.inf
    with Composition(plan, assembled=assemble(with_reactions(made, ["base_yaw"]))) as run:
        simulation = run.server.simulation
        for _ in range(round((plan.duration_s or 0.0) / 0.1)):
            poses.append(simulation.coordinates[:3])
            if base == "wheels":
                loads = loads_of(simulation)
                worst = max(worst, abs(loads.sum() / upward_force(simulation) - 1.0))
                least = min(least, loads.min())
            run.step(100)
    return np.array(poses), worst, float(least)


def charmie() -> list[dict[str, Any]]:
    """Bars of CHARMIE on wheels."""
    (planar, *_), (wheels, worst, least) = picked("planar"), picked("wheels")
    length = np.linalg.norm(np.diff(planar[:, :2], axis=0), axis=1).sum()
    apart = np.linalg.norm((wheels - planar)[:, :2], axis=1).max()
    turned = np.abs((wheels - planar)[:, 2]).max() / np.abs(np.diff(planar[:, 2])).sum()
    print(f"CHARMIE picks: path of {length:.3f} m, smallest load of a wheel {least:.1f} N")
    return [
        at_most("CHARMIE picks: wheels from planar base, share of the path", float(apart / length), PATH_BAR),
        at_most("CHARMIE picks: wheels from planar base, share of the turn", float(turned), PATH_BAR),
        at_most("CHARMIE picks: sum of loads from weight plus inertia", float(worst), LOAD_BAR),
    ]


def slippery() -> None:
    """Print where a base ends whose right wheel is at the cone while its left one spins, at three steps."""
    system, ends = assemble(build("differential_drive", friction=0.2)), []
    for step_s in (1e-3, 5e-4, 2.5e-4):
        simulation = Simulation(system, step_s=step_s)
        simulation.set_effort([0.4, 0.1])
        simulation.advance(2.0)
        ends.append(simulation.poses()[0][0, :2])
    apart = max(float(np.linalg.norm(end - ends[-1])) for end in ends)
    print(f"two slippery wheels: {np.linalg.norm(ends[-1]):.2f} m from the start, at 0.25 to 1 ms {apart:.3f} m apart")


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
    slippery()
    bars += charmie()
    report["bars"] = bars
    for bar in bars:
        print(bar)
    if json_path is not None:
        Path(json_path).write_text(json.dumps(report, indent=1))
    return report


if __name__ == "__main__":
    main(json_file(__doc__))
