"""The double pendulum sliding on a beam at 1 ms: ours in its real-time form, and Exudyn's sliding joint on 50 elements.

    python tests/benchmarks/beam.py [--json FILE]

Both are pinned to one core and measured in turn, in time of the processor: wall time of a loaded machine charges the
longer one more. Ours are linear beam elements in 20 modes, Exudyn's ANCF cables in absolute coordinates: the same arms
on a beam of the same numbers, started in the same shape.
"""

from __future__ import annotations

import importlib
import importlib.util
import itertools
import json
import os
import statistics
import time
from pathlib import Path
from typing import Any

import numpy as np
from bars import at_least, json_file

from robots.benchmarks import lipinski as data
from robots.registry import build
from sim_core.flexible.elements import beam_model
from sim_core.simulation import Simulation
from sim_core.system import assemble

STEP_S, STEPS, REPEATS, REPEATS_OF_PEER = 1e-3, 1000, 15, 5
REAL_TIME_BAR, PEER_BAR = 100.0, 50.0
FORMS = {
    "implicit_midpoint, 20 modes": (dict[str, Any](), "implicit_midpoint"),
    "generalized_alpha, 20 modes": (dict[str, Any](), "generalized_alpha"),
    "implicit_midpoint, 30 modes": ({"modes": 30}, "implicit_midpoint"),
}


def exudyn_model(exu: Any) -> Any:
    """The assembled system: arms of 1.5 m and 1 m on a clamped beam whose right end may slide along it."""
    items = importlib.import_module("exudyn.itemInterface")

    mechanism = build("lipinski_pendulum", modes=0, formulation="schur")
    beam, gravity = mechanism.beams[0], mechanism.parameters["gravity"]
    nodes = (beam_model(beam).basis @ np.array(mechanism.initial_q[4:])).reshape(-1, 2)
    length = beam.length / beam.elements
    mbs = exu.SystemContainer().AddSystem()
    ends = []
    along = np.sqrt(1.0 - nodes[:, 1] ** 2)
    x = np.concatenate([[0.0], np.cumsum(length * (along[1:] + along[:-1]) / 2)])
    for k, (w, slope) in enumerate(nodes.tolist()):
        moved = [x[k] - length * k, -w, along[k] - 1.0, -slope]
        node = items.NodePoint2DSlope1(referenceCoordinates=[length * k, 0.0, 1.0, 0.0], initialCoordinates=moved)
        ends.append(mbs.AddNode(node))
    cables = []
    for left, right in itertools.pairwise(ends):
        cable = items.ObjectANCFCable2D(
            length=length,
            massPerLength=beam.mass_per_length,
            bendingStiffness=beam.bending_stiffness,
            axialStiffness=data.YOUNG * data.AREA,
            nodeNumbers=[left, right],
        )
        body = mbs.AddObject(cable)
        marker = mbs.AddMarker(items.MarkerBodyMass(bodyNumber=body))
        mbs.AddLoad(items.LoadMassProportional(markerNumber=marker, loadVector=[0.0, -gravity, 0.0]))
        cables.append(mbs.AddMarker(items.MarkerBodyCable2DCoordinates(bodyNumber=body)))
    _clamp(mbs, items, ((ends[0], (0, 1, 3)), (ends[-1], (1, 3))))
    middle = beam.elements // 2
    hook = _arms(mbs, items, (x[middle], *mechanism.initial_q[1:4]), gravity)
    start = items.NodeGenericData(initialCoordinates=[middle, length * middle], numberOfDataCoordinates=2)
    joint = items.ObjectJointSliding2D(
        markerNumbers=[hook, cables[middle]],
        slidingMarkerNumbers=cables,
        slidingMarkerOffsets=[length * k for k in range(len(cables))],
        nodeNumber=mbs.AddNode(start),
    )
    mbs.AddObject(joint)
    mbs.Assemble()
    return mbs


def _clamp(mbs: Any, items: Any, held: Any) -> None:
    ground = mbs.AddNode(items.NodePointGround())
    fixed = mbs.AddMarker(items.MarkerNodeCoordinate(nodeNumber=ground, coordinate=0))
    for node, coordinates in held:
        for coordinate in coordinates:
            marker = mbs.AddMarker(items.MarkerNodeCoordinate(nodeNumber=node, coordinate=coordinate))
            mbs.AddObject(items.ObjectConnectorCoordinate(markerNumbers=[fixed, marker]))


def _arms(mbs: Any, items: Any, q: tuple[float, ...], gravity: float) -> int:
    """Both arms as rigid bodies with a revolute between them; gives the marker of the point that slides."""
    x, y, angle = q[0], -q[1], 0.0
    markers = []
    for length, turn in ((data.UPPER_LENGTH, q[2]), (data.LOWER_LENGTH, q[3])):
        angle -= turn  # counter-clockwise is positive there
        down = np.array([np.sin(angle), -np.cos(angle)])
        center = np.array([x, y]) + length / 2 * down
        node = mbs.AddNode(items.NodeRigidBody2D(referenceCoordinates=[*center, angle]))
        arm = items.ObjectRigidBody2D(mass=data.ARM_MASS, inertia=data.ARM_INERTIA, nodeNumber=node)
        body = mbs.AddObject(arm)
        marker = mbs.AddMarker(items.MarkerBodyPosition(bodyNumber=body))
        mbs.AddLoad(items.LoadForceVector(markerNumber=marker, loadVector=[0.0, -data.ARM_MASS * gravity, 0.0]))
        markers += [
            mbs.AddMarker(items.MarkerBodyPosition(bodyNumber=body, localPosition=[0.0, side * length / 2, 0.0]))
            for side in (1, -1)
        ]
        x, y = np.array([x, y]) + length * down
    mbs.AddObject(items.ObjectJointRevolute2D(markerNumbers=markers[1:3]))
    return int(markers[0])


def exudyn_seconds(exu: Any) -> tuple[float, float]:
    """Processor time of the second, s, and where its contact is after it, m."""
    mbs = exudyn_model(exu)
    settings = exu.SimulationSettings()
    integration = settings.timeIntegration
    integration.numberOfSteps, integration.endTime = STEPS, STEPS * STEP_S
    integration.verboseMode = 0
    integration.newton.useModifiedNewton = True
    integration.generalizedAlpha.spectralRadius = 0.9
    settings.solution.file.write = False
    settings.linearSolver.solverType = exu.LinearSolverType.EigenSparse
    start = time.process_time()
    mbs.SolveDynamic(settings, storeSolver=False)
    seconds = time.process_time() - start
    hook = mbs.GetMarkerOutput(_last_position_marker(mbs), exu.OutputVariableType.Position)
    return seconds, float(hook[0])


def _last_position_marker(mbs: Any) -> int:
    """The marker that slides: the first point of the sliding joint."""
    joint = mbs.GetObject(mbs.systemData.NumberOfObjects() - 1)
    return int(joint["markerNumbers"][0])


def measure() -> dict[str, Any]:
    """us per step, minimum and median, of each form and of Exudyn; None where it is not installed."""
    sims = {
        name: Simulation(assemble(build("lipinski_pendulum", **options)), step_s=STEP_S, stepper=stepper)
        for name, (options, stepper) in FORMS.items()
    }
    for sim in sims.values():
        sim.step(10)
    costs: dict[str, list[float]] = {name: [] for name in sims}
    contact: dict[str, float] = {}
    exu: Any = importlib.import_module("exudyn") if importlib.util.find_spec("exudyn") else None
    peer = "Exudyn, sliding joint on 50 ANCF cables"
    for repeat in range(REPEATS):
        for name, sim in sims.items():
            sim.reset()
            start = time.process_time()
            sim.step(STEPS)
            costs[name].append((time.process_time() - start) / STEPS * 1e6)
            contact[name] = sim.outputs()["contact_position"]
        if exu is not None and repeat < REPEATS_OF_PEER:
            seconds, contact[peer] = exudyn_seconds(exu)
            costs.setdefault(peer, []).append(seconds / STEPS * 1e6)
    return {
        name: {"min_us": min(us), "median_us": statistics.median(us), "contact_m": contact[name]}
        for name, us in costs.items()
    }


def main(json_path: str | None = None) -> dict[str, Any]:
    """Measure, print the table, write JSON where asked, and give the figures."""
    affinity = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(affinity)})
    try:
        costs = measure()
    finally:
        os.sched_setaffinity(0, affinity)
    print("1 ms of the double pendulum sliding on a beam, us: minimum, median; times real time; contact after 1 s, m")
    for name, cost in costs.items():
        times = STEP_S * 1e6 / cost["median_us"]
        figures = f"{cost['min_us']:9.2f} {cost['median_us']:9.2f} {times:8.0f} {cost['contact_m']:10.4f}"
        print(f"  {name:40} {figures}")
    ours, *_, last = costs
    real_time = STEP_S * 1e6 / costs[ours]["median_us"]
    print(f"  {ours}: {real_time:.0f} times real time; the bar is {REAL_TIME_BAR:.0f}")
    result: dict[str, Any] = {"steps": costs, "real_time": real_time}
    result["bars"] = [at_least("times real time", real_time, REAL_TIME_BAR)]
    if last.startswith("Exudyn"):
        ratio = costs[last]["median_us"] / costs[ours]["median_us"]
        print(f"  {ratio:.0f} times faster than {last}; the bar is {PEER_BAR:.0f}")
        result["bars"].append(at_least("times faster than Exudyn", ratio, PEER_BAR))
    else:
        print("  Exudyn is not installed: not measured")
    if json_path:
        Path(json_path).write_text(json.dumps(result, indent=1))
    return result


if __name__ == "__main__":
    main(json_file(__doc__))
