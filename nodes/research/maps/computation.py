"""Computes a stability map: of a robot without nodes in the lanes of a batch, or of a launch by one run per motion."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from nodes.framework.plan.launch_plan import Plan
from nodes.research.maps.map_request import JOINT_COORDINATES, Request, check_rows, check_servos
from nodes.research.maps.starts import ranges_from
from nodes.research.sweeps.engine import default_workers
from sim_core.analysis.attitudes import Attitudes
from sim_core.analysis.equilibria import equilibrium
from sim_core.analysis.held import HeldInputs
from sim_core.analysis.maps import StateMap, grid, map_of, state_map
from sim_core.analysis.small_motions import is_unstable
from sim_core.analysis.stability import StateNorm
from sim_core.errors import InvalidRequest, UnknownName
from sim_core.kernels.effort import LIMIT_S
from sim_core.monitoring.servo_loops import unstable_servos
from sim_core.system import System, assemble

Array = np.ndarray
Report = Callable[[int, int], None]  # (finished motions, all motions); may raise to stop the map
Described = dict[str, Any]  # how a map was computed: equilibrium, method of integration, units


def assembled(mechanism: Any, request: Request, is_launch: bool, limit_s: float = LIMIT_S) -> System:
    """System of the mechanism of a map.

    Raises InvalidRequest if a component of the state or a servo of the request does not exist.

    limit_s  estimated time (s) to compile the kernels beyond which they are refused
    """
    check_servos(mechanism, request.servos)
    system = assemble(mechanism, limit_s)
    check_rows(system, request, "--set sim.parameters.coordinates=joint" if is_launch else JOINT_COORDINATES)
    return system


def map_of_robot(system: System, request: Request, report: Report) -> tuple[StateMap, Described]:
    """(stability map of a robot without nodes, description of how the map was computed)."""
    mechanism, place = system.mechanism, _place(system, request)
    for actuator in mechanism.actuators:
        joint, held = actuator.joint, actuator.name in request.servos
        if held and joint in system.coordinate_names and joint not in request.near:
            # an equilibrium lies close to it
            place[system.coordinate_names.index(joint)] = request.servos[actuator.name]
    u = np.array([request.servos.get(actuator.name, actuator.start) for actuator in mechanism.actuators])
    try:
        inputs = HeldInputs.of(system, u, dict.fromkeys(request.servos, "position"))
    except InvalidRequest as error:
        raise InvalidRequest(f"--servo: {error}") from error
    efforts = inputs.efforts
    try:
        about = equilibrium(system, place, efforts)
    except InvalidRequest as error:
        free = [actuator.name for actuator in mechanism.actuators if actuator.name not in request.servos]
        unheld = f"; without --servo no position is held by {', '.join(free)}" if free else ""
        raise InvalidRequest(f"{error}, by --near COORDINATE=VALUE{unheld}") from error
    norm = StateNorm.of(system, about, request.rows, request.time_unit_s, None, request.step_s, efforts)
    if unstable := unstable_servos(system, norm.step_s, about, request.servos):
        raise InvalidRequest(f"--step-ms: {unstable}")
    report(0, math.prod(map(len, request.axes.values())))
    found = state_map(
        norm,
        request.axes,
        request.start,
        request.seconds,
        u=inputs.u,
        modes=inputs.modes,
        lanes=request.lanes,
        threads=request.threads,
        progress=report,
    )
    how = _described(found) | {"efforts": efforts(about, 0.0 * about).tolist(), "servos": request.servos}
    return found, how | {"unstable": is_unstable(system, about, efforts)}


def map_of_launch(
    plan: Plan, system: System, request: Request, kept: Path, report: Report
) -> tuple[StateMap, Described]:
    """(stability map of a launch, description of how the map was computed).

    plan  launch plan in lockstep, from `plan_for_starts`
    kept  file with the finished runs of an interrupted map; the map continues after these runs
    """
    place = _place(system, request)
    norm = StateNorm.of(system, place, request.rows, request.time_unit_s, None, plan.sim.step_s)
    q, v = grid(norm, request.axes, request.start, request.seconds)
    workers = request.threads or default_workers()
    attitudes = norm.attitudes.quaternions if norm.turning else None
    peaks = ranges_from(
        plan, system, q, v, request.seconds, workers=workers, progress=report, kept=kept, attitudes=attitudes
    )
    found = map_of(norm, request.axes, request.seconds, q, v, peaks)
    return found, _described(found) | {"nodes": [node.name for node in plan.nodes], "unstable": False}


def _place(system: System, request: Request) -> Array:
    """Initial coordinates (n_q,) of the mechanism, with the values of `request.near`."""
    start = np.array(system.mechanism.initial_q, dtype=float)
    attitudes = Attitudes(system, start)
    place = attitudes.offsets(start[None, :], 0.0 * start[None, :])
    for row, value in request.near.items():
        if row not in system.coordinate_names:
            raise UnknownName(f"robot {system.mechanism.name!r}", "coordinate", row, system.coordinate_names)
        place[0, system.coordinate_names.index(row)] = value
    return np.asarray(attitudes.states(place)[0][0])


def _described(found: StateMap) -> Described:
    """Description of how a stability map was computed: equilibrium, method of integration and units."""
    norm, peaks = found.norm, found.peaks
    names = norm.system.coordinate_names
    start = np.array(norm.system.mechanism.initial_q)
    about = Attitudes(norm.system, start).offsets(norm.about[None, :], 0.0 * norm.about[None, :])[0]
    rounded = {name: round(float(x), 6) + 0.0 for name, x in zip(names, about, strict=False)}
    return {
        "equilibrium": ", ".join(f"{key} = {value:g}" for key, value in rounded.items()),
        "seconds": found.seconds,
        "distances": list(norm.rows),
        "step_s": peaks.step_s,
        "steps": peaks.steps,
        "stepper": peaks.stepper,
        "time_unit_s": norm.time_unit_s,
        "found": rounded,
        "length_unit_m": norm.length_unit_m,
        "lanes": peaks.lanes,
        "cpu": peaks.cpu,
    }
