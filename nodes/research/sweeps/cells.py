"""Runs one cell (run) of a sweep in lockstep in this process, and determines its row of results."""

from __future__ import annotations

import math
import time
import traceback
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from nodes.framework.plan.key_checks import PlanError
from nodes.framework.simulation.compose import Composition
from nodes.guard.stop_log import open_stops
from nodes.research.sweeps.design import RECORDER, Cell, Sweep
from sim_core.errors import InvalidRequest, SimulationDiverged, SimulationError, SimulationWarning
from sim_core.support.shown import printable

PASSED, FAILED, UNCERTAIN = "passed", "failed", "not certain"  # the run came to its end
DIVERGED, ERROR, REFUSED = "diverged", "error", "refused"  # it did not, and says why
CRASHED, HUNG = "crashed", "hung"  # its process was ended
ENDED = (PASSED, FAILED, UNCERTAIN)
LOST = (DIVERGED, ERROR, REFUSED, CRASHED, HUNG)

# Figures of the simulation's status that depend on nothing but the plan and the processor's type.
OF_STATUS: tuple[str, ...] = (
    *("time", "tick", "energy", "energy_drift", "peak_phi", "peak_phidot", "peak_solve_residual", "substeps"),
    *("largest_departure", "watchdog_trips"),
)
LONGEST = 400  # characters of a reason

Figure = float | int | str | None


class Row(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Results of a cell (run of a sweep), one row of the sweep's tables.

    result    verdict of a launch ("passed", "failed" or "not certain") for a completed run; otherwise "diverged",
              "error", "refused", "crashed" or "hung"
    reason    reason of the result, as one line; empty if the result is "passed"
    figures   {name: value} in SI units; the values "nan", "inf" and "-inf" are text
    warnings  warnings of the simulation
    cpu_s     processor time of the cell, s
    wall_s    wall time of the cell, s
    """

    cell: int
    seed: int
    result: str
    reason: str = ""
    figures: dict[str, Figure] = {}
    warnings: list[str] = []
    cpu_s: float = 0.0
    wall_s: float = 0.0


def run_cell(sweep: Sweep, cell: Cell, recording: Path | None = None) -> Row:
    """Run one cell (run of the sweep) to its end, and return its row of results.

    Errors of the plan, the nodes and the simulation are not raised, but reported in the row.

    recording  path of a recording to write; None if no recording is written
    """
    began, began_wall = time.process_time(), time.perf_counter()
    row = Row(cell=cell.number, seed=cell.seed, result=PASSED)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", SimulationWarning)
        _fill(row, sweep, cell, recording)
    row.warnings = list(dict.fromkeys(_line(str(each.message)) for each in caught))
    row.cpu_s, row.wall_s = time.process_time() - began, time.perf_counter() - began_wall
    return row


def _fill(row: Row, sweep: Sweep, cell: Cell, recording: Path | None) -> None:
    try:
        plan = sweep.plan_of(cell, recording)
    except PlanError as error:
        row.result, row.reason = REFUSED, _line(str(error).replace("--set", "--over"))
        return
    composition: Composition | None = None
    try:
        composition = Composition(plan)
        composition.run()
        row.figures = dict(figures_of(composition))
        row.result, row.reason = judged(composition)
    except SimulationDiverged as error:
        row.result, row.reason = DIVERGED, _line(error.line)
        row.figures = {"time": float(error.time)}
    except (InvalidRequest, SimulationError) as error:
        row.result, row.reason = ERROR, _line(str(error))
    except Exception as error:
        row.result, row.reason = ERROR, _line(_error_text(error))
    finally:
        if composition is not None:
            try:
                composition.close()
            except Exception as error:
                row.result, row.reason = ERROR, _line(_error_text(error))


def judged(composition: Composition) -> tuple[str, str]:
    """(result, reason) of a completed run, by the same rules as for a launch.

    The first of these conditions that is true gives the result. "failed": a guard stops the robot until the end, a
    required milestone is not reached, all commands of a node were refused, or a node's verdict is "failed". "not
    certain": a node's verdict is "not certain". If none is true: "passed", with the reason "".
    """
    plan, server = composition.plan, composition.server
    status = server.status()
    stops = {name: each for name, hosted in composition.nodes.items() if (each := hosted.guard_stops) is not None}
    if held := list(open_stops(stops)):
        return FAILED, _line("; ".join(held))
    required = [name for name, milestone in plan.all_milestones.items() if milestone.required]
    missed = [name for name in required if status["milestones"].get(name) is None]
    if missed:
        return FAILED, f"milestone {', '.join(missed)} not reached"
    for name, reason in composition.ignored_commands().items():
        return FAILED, _line(f"no command of {name} was accepted: {reason}")
    verdicts = {name: hosted.verdict for name, hosted in composition.nodes.items()}
    for outcome in (FAILED, UNCERTAIN):
        found = [f"{name}: {v.reason}" for name, v in verdicts.items() if v is not None and v.outcome == outcome]
        if found:
            return outcome, _line("; ".join(found))
    return PASSED, ""


def figures_of(composition: Composition) -> Iterator[tuple[str, Figure]]:
    """(name, value) of each result of a finished run, without results that depend on the computer's speed."""
    status = composition.server.status()
    for name in OF_STATUS:
        yield name, _plain(status[name])
    for name, reached in status["milestones"].items():
        yield f"milestone.{name}", _plain(reached)
    for name, load in status["loads"].items():
        yield f"load.{name}.peak", _plain(load["peak"])
        yield f"load.{name}.rms", _plain(load["rms"])
    robots = composition.server.robots
    for robot in robots:
        within = f"{robot.name}/" if len(robots) > 1 else ""
        position, velocity = robot.simulation.readings.motion()
        for place, joint in enumerate(robot.simulation.system.joint_names):
            yield f"position.{within}{joint}", _plain(position[place])
            yield f"velocity.{within}{joint}", _plain(velocity[place])
        for name, value in robot.simulation.outputs().items():
            yield f"output.{within}{name}", _plain(value)
    for name, far in status["beyond_limits"].items():
        yield f"beyond.{name}", _plain(far["position"])
    for name, fast in status["beyond_velocity_limits"].items():
        yield f"too_fast.{name}", _plain(fast["speed"])
    for name, refused in status["commands_refused"].items():
        yield f"refused.{name}", _plain(refused["count"])
    for name, hosted in composition.nodes.items():
        if name == RECORDER:
            continue
        for key, value in {**hosted.node.counters, **hosted.node.figures}.items():
            yield f"{name}.{key}", _plain(value)
        if (verdict := hosted.verdict) is not None:
            yield f"{name}.verdict", verdict.outcome


def number(value: Figure) -> float | None:
    """Value of a result as a number; None for text and for a missing value."""
    if isinstance(value, str):
        return float(value) if value in ("nan", "inf", "-inf") else None
    return value


def _plain(value: Any) -> Figure:
    """A value in a form that JSON represents exactly; numbers that are not finite become text."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool | int):
        return int(value)
    found = float(value)
    return found if math.isfinite(found) else str(found)


def _line(text: str) -> str:
    line = printable(" ".join(text.split()))
    return line if len(line) <= LONGEST else f"{line[: LONGEST - 3]}..."


def _error_text(error: Exception) -> str:
    """Type, message and place of an error as text. The place has the name of the file without its folder."""
    frames = traceback.extract_tb(error.__traceback__)
    place = f" ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}: {error}{place}"


def values_text(values: Mapping[str, Any]) -> str:
    """The values of the axes in a cell (run of the sweep), as text, such as "sim.parameters.mass=0.2,
    planner.tolerance_mm=30".
    """
    return ", ".join(
        f"{key}={value:g}" if isinstance(value, float) else f"{key}={printable(str(value))}"
        for key, value in values.items()
    )
