"""A sweep as the user requests it: the launch, its axes and repeats, and the resulting cells (runs)."""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec

import nodes.recorder
from nodes.framework.plan.files.file import load_plan
from nodes.framework.plan.key_checks import PlanError
from nodes.framework.plan.launch_plan import NodePlan, Plan
from nodes.recorder import without_recorders
from nodes.research.sweeps.axes import Axis, as_text, seed_of
from robots.files import is_reference
from robots.files import split as split_reference
from sim_core.errors import InvalidRequest
from sim_core.kernels.machine_code.native import source_hash

RECORDER = "recorder_of_cell"  # name of the node that records a cell
RECORDER_FILE = Path(nodes.recorder.__file__)
MOST_CELLS = 5_000_000
LEAST_LIMIT_S, SLOWNESS = 60.0, 20.0  # default limit of a cell: at least this, and this many times its duration, s


class SweepError(InvalidRequest):
    """Raised for a sweep that cannot be carried out. The message is one line for the user."""


class Cell(msgspec.Struct, frozen=True):
    """One run of a sweep.

    number  index of the run, from 0; the repeats of one combination of values have consecutive indices
    values  {key: value} of the axes
    repeat  index of the run among the repeats of its combination of values, from 0
    seed    seed of the run
    """

    number: int
    values: dict[str, Any]
    repeat: int
    seed: int


class Sweep(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Definition of a sweep, which is stored in the sweep's folder.

    A sweep can be continued in its folder only if its definition, apart from `cwd`, has not changed.

    launch     absolute path of the launch file
    cwd        folder in which relative paths of the launch are searched for
    arguments  values of the launch file's arguments, as "name=value"
    sets       overrides of the command line, as "key=value"
    repeat     number of runs of each combination of values
    seconds    simulated duration of every cell, s
    seed       seed of the plan, from which the seeds of the cells are computed
    plan       hash of the plan without the values of the axes
    files      {path or name: hash of the content} of all files and parts of the code on which the results depend
    """

    launch: str
    cwd: str
    arguments: list[str] = []
    sets: list[str] = []
    axes: list[Axis]
    repeat: int = 1
    seconds: float
    seed: int = 0
    plan: str = ""
    files: dict[str, str] = {}

    @property
    def cells(self) -> int:
        """Number of cells (runs)."""
        return self.repeat * math.prod(len(axis.values) for axis in self.axes if not axis.random)

    @property
    def seeded(self) -> bool:
        """Whether each cell (run) has a seed of its own."""
        return self.repeat > 1 or any(axis.random for axis in self.axes)

    def cell(self, number: int) -> Cell:
        """The cell (run) with this index.

        The repeats of one combination of values have consecutive indices. From one combination to the next, the value
        of the last axis changes first. Raises IndexError for an index that no cell has.
        """
        if not 0 <= number < self.cells:
            raise IndexError(number)
        seed = seed_of(self.seed, number) if self.seeded else self.seed
        rest, repeat = divmod(number, self.repeat)
        values: dict[str, Any] = {}
        for axis in reversed(self.axes):
            if axis.random:
                values[axis.key] = axis.draw(seed)
            else:
                rest, place = divmod(rest, len(axis.values))
                values[axis.key] = axis.values[place]
        return Cell(number, {axis.key: values[axis.key] for axis in self.axes}, repeat, seed)

    def plan_of(self, cell: Cell, recording: Path | None = None) -> Plan:
        """The plan of a cell (run of the sweep), in lockstep and without the launch's recorders.

        recording  path of a recording to write; None if no recording is written

        Raises PlanError with a one-line message for invalid values.
        """
        plan = plan_with(self, [f"{key}={as_text(value)}" for key, value in cell.values.items()])
        if self.seeded:
            for view in (plan, *plan.simulations.values()):
                view.seed = cell.seed
        if recording is not None:
            plan.nodes.append(NodePlan(name=RECORDER, run=f"{RECORDER_FILE}:Recorder", params={"file": str(recording)}))
        else:
            for view in plan.views:
                view.sim.snapshot_s = 0.0  # snapshots serve recordings only
        return plan


def plan_with(sweep: Sweep, overrides: Iterable[str]) -> Plan:
    """Plan of the launch in lockstep with some overrides.

    The plan has no recorders, because the recorders of all runs would write to the same file.
    """
    plan = load_plan(sweep.launch, [*sweep.sets, *overrides, "sim.mode=lockstep"], arguments=sweep.arguments)
    plan = without_recorders(plan)
    for view in (plan, *plan.simulations.values()):
        view.duration_s = sweep.seconds
    return plan


def make_sweep(
    launch: Path,
    axes: Sequence[Axis],
    repeat: int = 1,
    seconds: float | None = None,
    arguments: Sequence[str] = (),
    sets: Sequence[str] = (),
) -> tuple[Sweep, str]:
    """Check a sweep and return (the sweep, mode of the simulation in the launch file).

    The first and the last value of every axis are checked here; an invalid value between them is reported in the
    results of the runs with this value. Raises PlanError or SweepError with a one-line message for an invalid sweep.
    """
    keys = [axis.key for axis in axes]
    for key in keys:
        if keys.count(key) > 1:
            raise SweepError(f"--over {key}: two axes have this key; write all values of the key in one axis")
        if key == "sim.mode":
            raise SweepError(
                "--over sim.mode: the runs of a sweep always use mode lockstep, because only lockstep runs give the "
                "same results when they are repeated; omit this axis"
            )
        if key in ("duration_s", "domain", "name"):
            hint = ", and pass --seconds, which sets the duration of all runs" if key == "duration_s" else ""
            raise SweepError(f"--over {key}: no result depends on this key; omit this axis{hint}")
    if "seed" in keys and (repeat > 1 or any(axis.random for axis in axes)):
        raise SweepError(
            "--over seed: with --repeat or random axes, the sweep draws the seeds of its runs; omit --over seed, or "
            "omit --repeat and the random axes"
        )
    given = load_plan(launch, sets, arguments=list(arguments))
    found = seconds if seconds is not None else given.duration_s
    if found is None:
        raise SweepError(f"{launch} has no duration_s; pass the simulated duration with --seconds")
    if not 0.0 < found < math.inf or round(found / given.sim.step_s) < 1:
        raise SweepError(f"--seconds {found:g}: the duration must be at least one time step, {given.sim.step_ms:g} ms")
    sweep = Sweep(
        launch=str(launch.resolve()),
        cwd=os.getcwd(),
        arguments=list(arguments),
        sets=list(sets),
        axes=list(axes),
        repeat=repeat,
        seconds=found,
        seed=given.seed,
    )
    if sweep.cells > MOST_CELLS:
        raise SweepError(
            f"the axes and --repeat give {sweep.cells} runs, but a sweep has at most {MOST_CELLS}; use fewer values or "
            "repeats"
        )
    plan = plan_with(sweep, ())
    sweep.plan = hashlib.sha256(msgspec.json.encode(plan)).hexdigest()[:16]
    sweep.files = files_of(plan)
    for axis in axes:
        for value in [axis.draw(sweep.seed)] if axis.random else [axis.values[0], axis.values[-1]]:
            _check_value(sweep, f"{axis.key}={as_text(value)}")
    return sweep, given.sim.mode


def default_limit_s(sweep: Sweep) -> float:
    """Default wall time after which a run that has not ended is stopped, s."""
    return max(LEAST_LIMIT_S, SLOWNESS * sweep.seconds)


def changed_files(before: Sweep, now: Sweep) -> list[str]:
    """Keys of `Sweep.files` (files and parts of the code) whose content differs between two sweeps."""
    return sorted(name for name in {*before.files, *now.files} if before.files.get(name) != now.files.get(name))


def made_again(sweep: Sweep) -> Sweep:
    """The sweep with the present content of its launch file and of the code.

    Raises PlanError or SweepError with a one-line message if the sweep has become invalid.
    """
    return make_sweep(Path(sweep.launch), sweep.axes, sweep.repeat, sweep.seconds, sweep.arguments, sweep.sets)[0]


def is_same(before: Sweep, now: Sweep) -> bool:
    """Whether two sweeps have the same definition, apart from the content of their files and the folder `cwd`."""
    return msgspec.structs.replace(before, files={}, cwd="") == msgspec.structs.replace(now, files={}, cwd="")


def _check_value(sweep: Sweep, text: str) -> None:
    try:
        plan_with(sweep, [text])
    except PlanError as error:
        raise PlanError(str(error).replace("--set", "--over")) from None


def files_of(plan: Plan) -> dict[str, str]:
    """{name or path: hash of the content} of the parts of the project's code, and of the user's files with nodes and
    robots."""
    package = Path(__file__).resolve().parents[3]
    found = {"sim_core": source_hash()[:16], "nodes and robots": _hash_of(_sources(package, ("nodes", "robots")))}
    own = {str(Path(plan.folder) / node.run.rpartition(":")[0]) for node in plan.nodes}
    for view in plan.views:
        if is_reference(view.sim.robot):
            own.add(str(split_reference(view.sim.robot)[0]))
        if isinstance(file := view.sim.parameters.get("file"), str) and file:
            own.add(file)
    for name in sorted(own):
        path = Path(name).resolve()
        if path.is_file() and not path.is_relative_to(package / "nodes"):
            found[str(path)] = _hash_of([path])
    return found


def _sources(package: Path, parts: Sequence[str]) -> list[Path]:
    """Python files of a package on which the results of a run may depend.

    The files of the command line, of `nodes.research`, of bridges and of launching are left out.

    parts  subfolders of the package to search
    """
    kept = [path for part in parts for path in sorted((package / part).rglob("*.py"))]
    skipped = {"cli", "research", "bridges", "launching"}
    return [path for path in kept if not skipped & set(path.relative_to(package).parts)]


def _hash_of(paths: Iterable[Path]) -> str:
    digest = hashlib.sha256()
    for path in paths:
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]
