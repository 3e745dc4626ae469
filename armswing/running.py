"""Runs of a launch inside this process, in lockstep, without sockets: `run` from one call, `open_run` step by step."""

from __future__ import annotations

import math
import numbers
import os
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from nodes.framework.plan.files.file import load_plan
from nodes.framework.plan.key_checks import PlanError
from nodes.framework.plan.launch_plan import NodePlan, Plan
from nodes.framework.recording.reader import Recording, read_recording
from nodes.framework.simulation.compose import compose
from nodes.framework.simulation.restart.finding import read_restart
from nodes.node import Node
from nodes.recorder import without_recorders
from sim_core.errors import InvalidRequest, SimulationError
from sim_core.support.shown import shown

RECORDER = "recorder"


class OpenRun:
    """A run that is stepped by hand, as a context manager; `recording` is what it has recorded.

    server      the simulation server; `server.simulation` is the Simulation
    nodes       {name: hosted node}; `nodes[name].node` is the node itself
    plan        plan of the run
    """

    def __init__(
        self,
        plan: Plan | str | os.PathLike[str],
        nodes: Mapping[str, type[Node]] | None = None,
        overrides: Sequence[str] = (),
        start: Any = None,
        at: float | None = None,
        record: str | os.PathLike[str] | None = None,
    ) -> None:
        if isinstance(plan, Plan):
            if overrides:
                raise PlanError(f"overrides are for launch files; change the plan {plan.name!r} itself")
        else:
            plan = load_plan(Path(plan), [*overrides, "sim.mode=lockstep"])
        self._folder = None if record is not None else tempfile.TemporaryDirectory(prefix="armswing-run-")
        self.file = Path(record) if record is not None else Path(self._folder.name if self._folder else "") / "run.mcap"
        self.plan = _recorded(plan, self.file)
        begin = None
        if isinstance(start, str | os.PathLike):
            if at is None:
                raise PlanError(
                    f"start is the recording {str(start)!r}; give `at`, the time (s) from which to continue"
                )
            _require_number("at", at)
            begin = read_restart(start, at, self.plan)
        elif at is not None:
            raise PlanError("`at` is a time of a recording; give the recording as `start`")
        self._run = compose(self.plan, None, nodes, begin, None if begin is not None else start)
        self._recording: Recording | None = None
        self._has_ended = False

    @property
    def server(self) -> Any:
        """The simulation server of the run."""
        return self._run.server

    @property
    def nodes(self) -> dict[str, Any]:
        """The hosted nodes of the run, by name."""
        return self._run.nodes

    @property
    def time(self) -> float:
        """Simulation time, s."""
        return float(self._run.server.time)

    def step(self, n: int = 1) -> None:
        """Take n time steps with all nodes. Raises InvalidRequest after the end of the run, as all requests do."""
        self._require_open()
        self._run.step(n)

    def run(self, seconds: float | None = None) -> None:
        """Run for `seconds` of simulation time, by default until the plan's duration_s."""
        self._require_open()
        if seconds is not None:
            _require_number("seconds", seconds)
        self._run.run(seconds)

    def request(self, name: str, **args: Any) -> Any:
        """Response of the simulation server to a service call, such as "push". Raises ValueError if it refuses."""
        self._require_open()
        return self._run.request(name, **args)

    def _require_open(self) -> None:
        if self._has_ended:
            raise InvalidRequest(f"the run of {self.plan.name!r} has ended; open another one with open_run")

    def ignored_commands(self) -> dict[str, str]:
        """{node: latest reason} of the nodes that commanded the robot without one accepted command."""
        return self._run.ignored_commands()

    def close(self) -> Recording:
        """End the run and return its recording; a further call returns it again."""
        if self._recording is None:
            self._run.run(0.0)  # delivers the messages of the last step
            self._has_ended = True
            self._run.close()
            self._recording = read_recording(self.file)
            if self._folder is not None:
                self._folder.cleanup()
        return self._recording

    @property
    def recording(self) -> Recording:
        """What the run has recorded. Ends the run."""
        return self.close()

    def __enter__(self) -> OpenRun:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            self.close()
        else:
            self.abandon()

    def abandon(self) -> None:
        """End the run without its recording, as after an error."""
        self._has_ended = True
        with suppress(Exception):  # an earlier error is the one to show
            self._run.close()
        if self._folder is not None:
            self._folder.cleanup()


def open_run(
    plan: Plan | str | os.PathLike[str],
    nodes: Mapping[str, type[Node]] | None = None,
    overrides: Sequence[str] = (),
    start: Any = None,
    at: float | None = None,
    record: str | os.PathLike[str] | None = None,
) -> OpenRun:
    """A run of a launch in this process, to be stepped by hand; the arguments are those of `run`.

    with open_run("launch/examples/my_controller.toml") as live:
        live.step(100)
    angle = live.recording["rotary_pendulum/state"]["position"]
    """
    return OpenRun(plan, nodes, overrides, start, at, record)


def run(
    plan: Plan | str | os.PathLike[str],
    nodes: Mapping[str, type[Node]] | None = None,
    overrides: Sequence[str] = (),
    seconds: float | None = None,
    start: Any = None,
    at: float | None = None,
    record: str | os.PathLike[str] | None = None,
) -> Recording:
    """The recording of a launch that runs in this process in lockstep, without sockets and as fast as it can.

    plan       a Plan, the path of a launch file, or the name of an installed one, such as "gibbon_cable"
    nodes      {name: class} of node classes of this program, which replace the plan's nodes of these names or are added
    overrides  texts such as "node.key=value" and "sim.key=value", for a launch file
    seconds    simulation time of the run, s; by default the plan's duration_s
    start      (q, v): coordinates and velocities of the robot at the start; or the path of a recording to continue
    at         time (s) of the recording `start` from which the run continues
    record     path of the file to write; by default the recording is kept in memory only. Recorders of the plan do not
               write their own files

    The bytes are those of a launch in lockstep. Raises PlanError for an invalid plan, without a duration included, and
    SimulationError after a run in which no command of a node was accepted, for which a launch has the exit code 1; the
    file `record` is then complete. A run of `open_run` tells these nodes as `ignored_commands()`.
    """
    opened = open_run(plan, nodes, overrides, start, at, record)
    if seconds is None and opened.plan.duration_s is None:
        opened.abandon()
        raise PlanError(f"plan {opened.plan.name!r} has no duration_s; give `seconds`")
    if seconds is not None and not (_is_number(seconds) and seconds > 0.0):
        opened.abandon()
        raise PlanError(f"seconds is {shown(seconds)}; it must be a positive number")
    with opened:
        opened.run(seconds)
    for name, reason in opened.ignored_commands().items():
        raise SimulationError(f"no command of node {name!r} was accepted: {reason}")
    return opened.recording


def _is_number(value: Any) -> bool:
    return not isinstance(value, bool) and isinstance(value, numbers.Real) and math.isfinite(value)


def _require_number(name: str, value: Any) -> None:
    if not _is_number(value) or value < 0.0:
        raise PlanError(f"{name} is {shown(value)}; it must be a number of at least 0")


def _recorded(plan: Plan, file: Path) -> Plan:
    """The plan in lockstep with one recorder, which writes `file` and gets everything."""
    plan = without_recorders(plan)
    names = {node.name for node in plan.nodes}
    name = next(each for each in (RECORDER, *(f"{RECORDER}_{k}" for k in range(2, 1000))) if each not in names)
    recorder = NodePlan(name=name, run="nodes/recorder.py:Recorder", params={"file": str(file)})
    sim = msgspec.structs.replace(plan.sim, mode="lockstep")
    return msgspec.structs.replace(plan, sim=sim, nodes=[*plan.nodes, recorder])
