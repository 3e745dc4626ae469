"""Faults planted in a log of a TIAGo, and which of them the checks on logs name.

    python tests/benchmarks/log_faults.py FOLDER

FOLDER has the files of the public repository thanhndv212/figaroh-examples: tiago_position.csv, tiago_velocity.csv,
tiago_effort.csv and tiago_48_schunk.urdf. Its data are not part of this project.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from nodes.hil.logs.checks import check_log
from nodes.hil.logs.columns import Channels, Column, Columns, TimeColumn
from nodes.hil.logs.files import read_tables
from nodes.hil.logs.findings import Floats, LogSamples
from nodes.hil.logs.importing import import_log
from robots.registry import build
from sim_core.mechanism import Mechanism

JOINTS = ("torso_lift_joint", *(f"arm_{number}_joint" for number in range(1, 8)))
GEAR = (1.0, 100.0, 100.0, 100.0, 100.0, 336.0, 336.0, 336.0)
CONSTANT = (1.0, 0.136, 0.136, -0.087, -0.087, -0.0613, -0.0613, -0.0613)
Fault = tuple[str, LogSamples, set[str]]  # (name, the log with the fault, kinds of findings that name it)


def read(folder: Path) -> tuple[LogSamples, Mechanism]:
    """The log in SI units, and the robot."""
    robot = str(folder / "tiago_48_schunk.urdf")
    held = [joint.name for joint in build(robot).moving_joints if joint.name not in JOINTS]
    joints = {
        name: Channels(
            position=f"- {name}_position",
            velocity=f"- {name}_velocity",
            effort=Column(column=f"- {name}_effort", unit="A", gear=gear, gain=constant),
        )
        for name, gear, constant in zip(JOINTS, GEAR, CONSTANT, strict=True)
    }
    columns = Columns(robot=robot, time=TimeColumn(column="t"), joints=joints, locked=dict.fromkeys(held, 0.0))
    files = [folder / f"tiago_{channel}.csv" for channel in ("position", "velocity", "effort")]
    log = import_log([table for file in files for table in read_tables(file)], columns)
    described = {joint.name: joint for joint in log.mechanism.moving_joints}
    lower, upper = (
        np.array([edge if (limit := getattr(described[name], side)) is None else limit for name in log.names])
        for side, edge in (("lower", -np.inf), ("upper", np.inf))
    )
    position, velocity, effort = (log.channels[channel] for channel in ("position", "velocity", "effort"))
    slides = np.array([described[name].unit == "m" for name in log.names])
    return LogSamples(log.names, log.time, position, velocity, effort, lower, upper, slides), log.mechanism


def faults(s: LogSamples) -> Iterator[Fault]:
    """The 19 faults, in the joints 2 to 4 of the arm."""
    rng = np.random.default_rng(1)
    two, three, four = (s.joint(f"arm_{number}_joint") for number in (2, 3, 4))
    position, velocity, effort, time = s.position, s.velocity, s.effort, s.time

    def swapped(values: Floats, i: int, j: int) -> Floats:
        found = values.copy()
        found[:, [i, j]] = values[:, [j, i]]
        return found

    def changed(values: Floats, joint: int, change: Callable[[Floats], Floats]) -> Floats:
        found = values.copy()
        found[:, joint] = change(values[:, joint])
        return found

    def frozen(values: Floats) -> Floats:
        return np.where((np.arange(len(values)) >= 3000) & (np.arange(len(values)) < 5000), values[3000], values)

    def late(delay_s: float, columns: list[int]) -> LogSamples:
        found = effort.copy()
        for joint in columns:
            found[:, joint] = np.interp(time - delay_s, time, effort[:, joint])
        return replace(s, effort=found)

    def without(renumbered: bool) -> LogSamples:
        kept = (time < 30.0) | (time > 33.0)
        stamps = np.arange(kept.sum()) * np.median(np.diff(time)) if renumbered else time[kept]
        return replace(s, time=stamps, position=position[kept], velocity=velocity[kept], effort=effort[kept])

    every = list(range(len(s.names)))
    again = time.copy()
    again[2000:2600:3] = time[1999:2599:3]
    size, crossed = {"size of effort"}, {"exchanged positions or velocities"}
    yield "efforts exchanged", replace(s, effort=swapped(effort, two, four)), {"exchanged efforts"}
    yield "positions exchanged", replace(s, position=swapped(position, three, four)), crossed
    yield "velocities exchanged", replace(s, velocity=swapped(velocity, two, three)), crossed
    whole = [swapped(each, two, four) for each in (position, velocity, effort)]
    joints = replace(s, position=whole[0], velocity=whole[1], effort=whole[2])
    yield "joints exchanged", joints, {"exchanged joints"}
    degrees = replace(s, position=np.degrees(position), velocity=np.degrees(velocity))
    yield "degrees", degrees, {"degrees"}
    yield "gap", without(False), {"gap"}
    yield "repeated times", replace(s, time=again), {"repeated times"}
    yield "constant times 1.5", replace(s, effort=changed(effort, three, lambda e: 1.5 * e)), size
    yield "constant times 2", replace(s, effort=changed(effort, two, lambda e: 2.0 * e)), size
    yield "sign", replace(s, effort=changed(effort, three, lambda e: -e)), {"sign of effort"}
    yield "frozen effort", replace(s, effort=changed(effort, two, frozen)), {"frozen effort"}
    noise = changed(effort, three, lambda e: e + e.std() * rng.normal(size=len(e)))
    yield "noisy effort", replace(s, effort=noise), {"noisy effort"}
    yield "dead encoder", replace(s, position=changed(position, three, frozen)), {"dead position"}
    yield "zero of arm_2", replace(s, position=changed(position, two, lambda q: q + 0.2)), {"zero"}
    yield "zero of arm_4", replace(s, position=changed(position, four, lambda q: q + 0.2)), {"zero"}
    yield "effort 20 ms late", late(0.02, every), {"late effort"}
    yield "effort of arm_3 20 ms late", late(0.02, [three]), {"late effort"}
    yield "effort 100 ms late", late(0.1, every), {"late effort"}
    yield "cut with renumbered times", without(True), {"cut"}


def main() -> None:
    warnings.simplefilter("ignore")  # of the URDF
    samples, mechanism = read(Path(sys.argv[1]))
    usual = {(finding.kind, finding.joint) for finding in check_log(samples, mechanism)}
    print("without a fault:", ", ".join(f"{kind} ({joint})" for kind, joint in sorted(usual)))
    named = 0
    for name, planted, kinds in faults(samples):
        found = [each for each in check_log(planted, mechanism) if (each.kind, each.joint) not in usual]
        is_named = any(each.kind in kinds for each in found)
        named += is_named
        shown = ", ".join(f"{each.kind} ({each.joint})" for each in found)
        print(f"{'named' if is_named else 'MISSED':7}{name}: {shown}", flush=True)
    print(f"{named} of {sum(1 for _ in faults(samples))} named")


if __name__ == "__main__":
    main()
