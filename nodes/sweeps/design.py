"""A sweep as requested by the user: the launch, its axes and repeats, and the cells that follow from them."""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec

import nodes.recorder
from nodes.plan.files.file import load_plan
from nodes.plan.key_checks import PlanError
from nodes.plan.launch_plan import NodePlan, Plan
from nodes.plan.loading import load_class
from nodes.recorder import Recorder
from nodes.sweeps.axes import Axis, as_text, seed_of
from robots.files import is_reference
from robots.files import split as split_reference

RECORDER = "recorder_of_cell"  # name of the node that records a cell
RECORDER_FILE = Path(nodes.recorder.__file__)
MOST_CELLS = 10**9
LEAST_LIMIT_S, SLOWNESS = 60.0, 20.0  # default limit of a cell: at least this, and this many times its duration, s


class SweepError(ValueError):
    """A sweep that cannot be carried out. The only argument is one line for the user."""


class Cell(msgspec.Struct, frozen=True):
    """One run of a sweep.

    number  row in the table, from 0; the repeats of one combination follow one another
    values  {key: value} of the axes
    """

    number: int
    values: dict[str, Any]
    repeat: int
    seed: int


class Sweep(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Definition of a sweep. Two sweeps of one folder are equal in all of these fields.

    launch     absolute path of the launch file
    cwd        folder in which relative paths of the launch are searched for
    arguments  values of the file's arguments, "name=value"
    sets       overrides of the command line, "key=value"
    repeat     number of runs of each combination of values
    seconds    simulated duration of every cell, s
    seed       seed of the plan, from which the seeds of the cells are computed
    plan       hash of the plan without the values of the axes
    files      {path or name of a part: hash of its content}, of all code and data that the cells' numbers depend on
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
        """Number of cells."""
        return self.repeat * math.prod(len(axis.values) for axis in self.axes if not axis.random)

    @property
    def seeded(self) -> bool:
        """Whether each cell has a seed of its own."""
        return self.repeat > 1 or any(axis.random for axis in self.axes)

    def cell(self, number: int) -> Cell:
        """The cell with this number: the last axis changes faster than the others, and repeats fastest.

        IndexError for an unknown number.
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
        """The plan of a cell, in lockstep and without recorders. PlanError, one line, for invalid values.

        recording  path of a recording to write; None for no recording
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

    Recorders are left out, because all cells would write to the same file.
    """
    plan = load_plan(sweep.launch, [*sweep.sets, *overrides, "sim.mode=lockstep"], arguments=sweep.arguments)
    for view in (plan, *plan.simulations.values()):
        view.duration_s = sweep.seconds
        view.nodes = [node for node in view.nodes if not issubclass(load_class(node.run, plan.folder), Recorder)]
    return plan


def make_sweep(
    launch: Path,
    axes: Sequence[Axis],
    repeat: int = 1,
    seconds: float | None = None,
    arguments: Sequence[str] = (),
    sets: Sequence[str] = (),
) -> tuple[Sweep, str]:
    """(checked sweep, mode that the launch file itself has). PlanError or SweepError, one line, for an invalid sweep.

    The first and the last value of every axis are checked; an invalid value between them is reported in its row.
    """
    keys = [axis.key for axis in axes]
    for key in keys:
        if keys.count(key) > 1:
            raise SweepError(f"--over {key}: the key has two axes; write all its values in one")
        if key == "sim.mode":
            raise SweepError(
                "--over sim.mode: cells run in lockstep only, so that their rows are the same on every run"
            )
        if key in ("duration_s", "domain", "name"):
            hint = "; --seconds is the same for all cells" if key == "duration_s" else ""
            raise SweepError(f"--over {key}: no result depends on this key{hint}")
    if "seed" in keys and (repeat > 1 or any(axis.random for axis in axes)):
        raise SweepError("--over seed: --repeat and random axes draw the seeds of the cells; use one of the two")
    given = load_plan(launch, sets, arguments=list(arguments))
    found = seconds if seconds is not None else given.duration_s
    if found is None:
        raise SweepError(f"{launch}: it has no duration_s; give --seconds")
    if not 0.0 < found < math.inf or round(found / given.sim.step_s) < 1:
        raise SweepError(f"--seconds {found:g}: expected one step of {given.sim.step_ms:g} ms at least")
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
        raise SweepError(f"these are {sweep.cells} cells; a sweep has at most {MOST_CELLS}")
    plan = plan_with(sweep, ())
    sweep.plan = hashlib.sha256(msgspec.json.encode(plan)).hexdigest()[:16]
    sweep.files = _files(sweep, plan)
    for axis in axes:
        for value in [axis.draw(sweep.seed)] if axis.random else [axis.values[0], axis.values[-1]]:
            _check_value(sweep, f"{axis.key}={as_text(value)}")
    return sweep, given.sim.mode


def default_limit_s(sweep: Sweep) -> float:
    """Wall time after which a cell is ended, s."""
    return max(LEAST_LIMIT_S, SLOWNESS * sweep.seconds)


def changed_files(before: Sweep, now: Sweep) -> list[str]:
    """Names of files and parts whose content differs between two sweeps that are otherwise equal."""
    return sorted(name for name in {*before.files, *now.files} if before.files.get(name) != now.files.get(name))


def made_again(sweep: Sweep) -> Sweep:
    """The sweep, made again from the present content of its files. PlanError or SweepError, one line."""
    return make_sweep(Path(sweep.launch), sweep.axes, sweep.repeat, sweep.seconds, sweep.arguments, sweep.sets)[0]


def is_same(before: Sweep, now: Sweep) -> bool:
    """Whether two sweeps run the same cells, without regard to changes of the files."""
    return msgspec.structs.replace(before, files={}, cwd="") == msgspec.structs.replace(now, files={}, cwd="")


def _check_value(sweep: Sweep, text: str) -> None:
    try:
        plan_with(sweep, [text])
    except PlanError as error:
        raise PlanError(str(error).replace("--set", "--over")) from None


def _files(sweep: Sweep, plan: Plan) -> dict[str, str]:
    """{file or part: hash} of the code of the plan's nodes and robots, and of the project's own code."""
    from sim_core.kernels.native import source_hash

    package = Path(__file__).resolve().parents[2]
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
    """Python files on which a cell's numbers may depend: all except command line, pages and sweeps."""
    kept = [path for part in parts for path in sorted((package / part).rglob("*.py"))]
    skipped = {"cli", "pages", "sweeps", "workers.py", "bridges", "launching"}
    return [path for path in kept if not skipped & set(path.relative_to(package).parts)]


def _hash_of(paths: Iterable[Path]) -> str:
    digest = hashlib.sha256()
    for path in paths:
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]
