"""`armswing hil excite`: computes and rehearses a trajectory that excites a robot for `armswing hil fit`."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, Any

import typer

from nodes.cli.commands.models.choice import Name, Param, built, numbers
from nodes.cli.progress import ProgressBar, interruptible
from nodes.cli.terminal import AsJson, InputError, parse_assignments, print_json, print_line, print_table, working
from sim_core.errors import InvalidRequest

HIGHEST_HZ, FEWEST, MOST = 1.2, 4, 12  # frequency of the highest harmonic by default, and bounds of their number
EXAMPLE = "Example: armswing hil excite arm_4dof --seconds 10 --compare hil_robot -o via.csv"


def excite(
    robot: Name,
    output: Annotated[Path, typer.Option("--output", "-o", help="Via-point file to write (.csv).", show_default=False)],
    param: Param = None,
    seconds: Annotated[float, typer.Option("--seconds", help="Duration of the motion (s).")] = 10.0,
    joint: Annotated[
        list[str] | None,
        typer.Option("--joint", help="A joint that moves; by default all. Repeatable.", show_default=False),
    ] = None,
    start: Annotated[
        list[str] | None,
        typer.Option(
            "--start",
            help="joint=position (rad or m) at both ends of the motion; by default the robot's start. Repeatable.",
            show_default=False,
        ),
    ] = None,
    compare: Annotated[
        Path | None,
        typer.Option(
            "--compare",
            metavar="LAUNCH",
            help="Launch file with a trajectory for comparison, whose peak speeds are limits, too.",
            show_default=False,
        ),
    ] = None,
    delay_ms: Annotated[
        float, typer.Option("--delay-ms", min=0.0, max=1000.0, help="Delay of the guard, see armswing robot guard.")
    ] = 5.0,
    effort_percent: Annotated[
        float,
        typer.Option(
            "--effort-percent", min=1.0, max=100.0, help="Efforts of the motion, in percent of the effort limits."
        ),
    ] = 80.0,
    harmonics: Annotated[
        int | None,
        typer.Option(
            "--harmonics",
            min=2,
            max=100,
            help="Harmonics of the Fourier series; the highest has the frequency HARMONICS / SECONDS.",
            show_default="1.2 per second, 4 to 12",
        ),
    ] = None,
    iterations: Annotated[
        int, typer.Option("--iterations", min=1, max=100_000, help="Most iterations of the search.")
    ] = 200,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Seed of the search.")] = 0,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
    as_json: AsJson = False,
) -> None:
    """Compute a trajectory that excites a robot for identification, and write it as a via-point file.

    The motion of each joint is a Fourier series from rest to rest. With --start, the robot first moves there. The
    condition number of the base regressor is minimized within the limits of the robot and of the guard that `armswing
    robot guard` prints. The trajectory is rehearsed in the simulator, with the robot's servos and this guard, and
    written only if all limits were kept.

    Obstacles and collisions of the robot with itself are not considered: watch the motion before the robot moves.
    """
    _check(output, seconds, force)
    # numpy, scipy and CasADi: not for the help page
    from nodes import hil_excitation as excitation
    from nodes.framework.plan.files.file import load_plan
    from nodes.framework.recording.new_file import write_file
    from robots.registry import with_joint_coordinates

    begin = numbers(start, "--start")
    mechanism, _ = built(robot, param, as_tree=True)
    parameters = with_joint_coordinates(robot, parse_assignments(param or [], "--param"))
    number = harmonics or min(MOST, max(FEWEST, round(HIGHEST_HZ * seconds)))
    try:
        joints = excitation.joints_of(mechanism, joint or [])
        excitation.check_start(mechanism, joints, begin)
        other = None if compare is None else excitation.trajectory_of(load_plan(compare), robot, joints)
        with working(f"computing the guard of {mechanism.name!r}"):
            guard = excitation.guard_of(mechanism, joints, delay_ms)
        speeds = {} if other is None else dict(zip(joints, abs(other[1]).max(axis=0).tolist(), strict=True))
        limits = excitation.limits_of(mechanism, joints, guard, excitation.SHARE, 0.01 * effort_percent, speeds)
        repeated = {"--param": param, "--joint": joint, "--start": start, "--compare": compare and [compare]}
        options = [f"{option} {value}" for option, values in repeated.items() for value in values or []]
        numbered = f"--seconds {seconds:g} --delay-ms {delay_ms:g} --effort-percent {effort_percent:g}"
        search = f"--harmonics {number} --iterations {iterations} --seed {seed}"
        about = " ".join(["armswing hil excite", robot, *options, numbered, search])
        exciter = excitation.Exciter(robot, parameters, mechanism, joints, guard, limits, about, begin)
        with interruptible() as go_on, ProgressBar(go_on) as bar:
            found = exciter.run(seconds, number, seed, iterations, bar.show)
    except (excitation.ExcitationError, InvalidRequest) as error:
        raise InputError(str(error)) from None
    write_file(output, found.text)
    conditions = excitation.conditions(exciter.excited, found, other)
    if as_json:
        print_json(
            {
                "file": str(output),
                "seconds": found.seconds,
                "condition": conditions,
                "joints": excitation.peaks(exciter, found),
            }
        )
    else:
        _print(excitation.peaks(exciter, found), conditions, compare)
        print_line(f"wrote {output}: {found.seconds:.1f} s")


def _check(output: Path, seconds: float, force: bool) -> None:
    if output.suffix != ".csv":
        raise InputError(f"--output {str(output)!r}: the ending must be .csv")
    if output.exists() and not force:
        raise InputError(f"--output {str(output)!r} exists; pass --force to replace it")
    if not output.absolute().parent.is_dir():
        raise InputError(f"--output {str(output)!r}: there is no folder {str(output.absolute().parent)!r}")
    if not (math.isfinite(seconds) and 1.0 <= seconds <= 600.0):
        raise InputError(f"--seconds {seconds:g}: the duration must be in 1 .. 600 s")


def _print(peaks: list[dict[str, Any]], conditions: dict[str, float], compare: Path | None) -> None:
    header = ("joint", "position", "within", "velocity", "limit", "acceleration", "limit", "effort", "limit", "lag")
    rows = [
        (
            peak["name"],
            f"{peak['lower']:.3g} .. {peak['upper']:.3g} {peak['unit']}",
            f"{peak['lower_limit']:.3g} .. {peak['upper_limit']:.3g}" if math.isfinite(peak["upper_limit"]) else "any",
            *(f"{peak[key]:.3g}" for each in ("velocity", "acceleration", "effort") for key in (each, f"{each}_limit")),
            f"{peak['lag']:.2g}",
        )
        for peak in peaks
    ]
    print_table(header, rows)
    print_line("\npositions, velocities, efforts and lag of the rehearsal; accelerations of the reference")
    lines = [f"{conditions['start']:.3g} of the best random motion, {conditions['after']:.3g} of this one"]
    if compare is not None:
        ratio = conditions["compared"] / conditions["after"]
        lines.append(f"{conditions['compared']:.3g} of the trajectory of {compare}, {ratio:.3g} times as large")
    print_line(f"condition number of the base regressor: {'; '.join(lines)}")
