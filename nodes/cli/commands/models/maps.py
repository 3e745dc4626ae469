"""`armswing robot map`: draws how far the motion moves away from an equilibrium, over a grid of initial states.

Two components of the initial state vary over the grid.
"""

from __future__ import annotations

import importlib.util
import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nodes.cli.commands.models.choice import Param, Yes, built, numbers
from nodes.cli.progress import Interrupted, RunsBar, interruptible
from nodes.cli.terminal import InputError, UnavailableError, parse_assignments, print_line, warn, working

if TYPE_CHECKING:
    from nodes.framework.plan.launch_plan import Plan
    from nodes.research.maps.map_request import Request

EXAMPLE = "armswing robot map double_pendulum --over upper.angle=-3:3:100,lower.angle=-3:3:100 --seconds 20"
LOOSE = 1e-3  # violation beyond which a map warns, in characteristic lengths


def add_to(app: typer.Typer) -> None:
    """Add the command `map`."""
    app.command("map", epilog=f"Example: {EXAMPLE}")(map_robot)


def map_robot(
    name: Annotated[
        str,
        typer.Argument(
            help="A robot, as in `armswing robot show`, or a launch file, path/to/file.toml, with a robot and its "
            "controllers.",
            show_default=False,
        ),
    ],
    over: Annotated[
        str,
        typer.Option(
            "--over",
            help="Two axes ROW=FROM:TO:NUMBER, separated by a comma. ROW is the component of the initial state that "
            "varies: COORDINATE (rad or m) or COORDINATE.velocity (rad/s or m/s). JOINT.rx, JOINT.ry and JOINT.rz of a "
            "spherical or free joint form the rotation vector from its attitude at the equilibrium.",
            show_default=False,
        ),
    ],
    seconds: Annotated[float, typer.Option("--seconds", help="Duration of every motion (s).")] = 10.0,
    start: Annotated[
        list[str] | None,
        typer.Option(
            "--start",
            help="ROW=VALUE of another component of the initial state. Repeatable.",
            show_default="the robot's start",
        ),
    ] = None,
    near: Annotated[
        list[str] | None,
        typer.Option(
            "--near",
            help="COORDINATE=VALUE from which the search for the equilibrium starts; of a launch file, the goal. "
            "Repeatable.",
            show_default="the start",
        ),
    ] = None,
    rows: Annotated[
        str | None,
        typer.Option(
            "--rows",
            help="ROW,ROW,...: the components of the state by which distances are measured.",
            show_default="all",
        ),
    ] = None,
    servo: Annotated[
        list[str] | None,
        typer.Option(
            "--servo",
            help="ACTUATOR=POSITION, rad or m, which the actuator's servo holds. Repeatable.",
            show_default=False,
        ),
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", help="Of a launch: node.key=value or sim.key=value. Repeatable.", show_default=False),
    ] = None,
    step_ms: Annotated[
        float | None,
        typer.Option(
            "--step-ms",
            help="Step size of RK4 (ms).",
            show_default="from the fastest mode; of a launch, its sim.step_ms",
        ),
    ] = None,
    time_unit_s: Annotated[
        float | None,
        typer.Option(
            "--time-unit-s",
            help="Time (s) by which velocities are multiplied to compute distances.",
            show_default="from the slowest mode",
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="PNG file to write; the numbers go to an NPZ file of the same name.",
            show_default="ROBOT_map.png",
        ),
    ] = None,
    param: Param = None,
    lanes: Annotated[
        int | None,
        typer.Option(
            "--lanes", help="Number of motions in one SIMD vector: 2, 4, 8, 16 or 32.", show_default="16 or 8, by size"
        ),
    ] = None,
    threads: Annotated[
        int | None,
        typer.Option(
            "--threads", min=1, help="Number of threads; of processes for a launch file.", show_default="one per core"
        ),
    ] = None,
    yes: Yes = False,
) -> None:
    """Simulate a robot from a grid of initial states, and draw how far each motion moves away from the equilibrium.

    The colour shows Schiehlen's stability measure IS1: the largest distance of the motion from the equilibrium, divided
    by the distance of the initial state from the equilibrium. Each actuator applies its initial effort; with --servo,
    the actuator's servo holds a position instead. A launch file is run in lockstep with all its nodes, once for each
    initial state; distances are then measured from the goal, the state at rest with the coordinates that --near gives.
    After Ctrl-C, the same command continues the map of a launch file with the remaining runs. The numbers are written
    to an NPZ file beside the picture, such as ROBOT_map.npz.
    """
    if importlib.util.find_spec("matplotlib") is None:
        raise UnavailableError("a map needs matplotlib; install it: pip install 'armswing[studies]'")
    from nodes.research.maps.computation import assembled, map_of_launch, map_of_robot
    from nodes.research.maps.map_picture import RUNS, check_output, write_map
    from nodes.research.maps.map_request import Request, beyond_stops, moved_from, parse_axes
    from sim_core.kernels.effort import LIMIT_S

    axes = parse_axes(over)
    for key in parse_assignments(servo or [], "--servo", "motor=0.5"):
        if key.endswith(".velocity"):
            raise InputError(
                f"--servo {key}: a servo that drives its joint at a velocity leaves it without an equilibrium; write "
                f"--servo {key.removesuffix('.velocity')}=POSITION, or map a launch file with a node that commands "
                "velocities"
            )
    request = Request(
        axes,
        numbers(start, "--start"),
        numbers(near, "--near"),
        numbers(servo, "--servo"),
        None if rows is None else rows.split(","),
        seconds,
        step_ms,
        time_unit_s,
        lanes,
        threads,
    )
    plan = _plan(name, request, param, set_)
    mechanism = built(name, param)[0] if plan is None else plan.sim.make_mechanism()
    picture = output or Path(f"{mechanism.name}_map.png")
    kept = picture.with_suffix(RUNS)
    check_output(picture)
    try:
        with interruptible() as go_on:
            with working(f"assembling {mechanism.name!r}"):
                system = assembled(mechanism, request, plan is not None, math.inf if yes else LIMIT_S)
            with RunsBar(go_on, "motions") as bar:
                if plan is None:
                    found, how = map_of_robot(system, request, bar.count)
                else:
                    found, how = map_of_launch(plan, system, request, kept, bar.count)
            given = {"robot": name, "parameters": param or [], "set": set_ or [], "start": request.start}
            data = write_map(picture, found, {**how, **given})
            if plan is not None:
                kept.unlink(missing_ok=True)
    except Interrupted as end:
        is_kept = plan is not None and kept.exists()
        where = f"finished runs are in {kept}; repeat the command to continue" if is_kept else "nothing written"
        warn(f"armswing: interrupted; {where}")
        raise typer.Exit(128 + end.signal) from None
    share = float(found.turns_over.mean())
    print_line(
        f"{found.is1.size} motions of {seconds:g} s about {how['equilibrium']}: in a share of {share:.4f}, an angle "
        "goes further than 180° from the equilibrium"
    )
    print_line(str(found.norm).replace("(time_unit_s)", "(--time-unit-s)"))
    for line in (*moved_from(request.near, how.get("found", {})), *beyond_stops(mechanism, request.axes)):
        warn(f"warning: {line}")
    if how["unstable"]:
        warn("warning: this equilibrium is unstable; select another equilibrium with --near COORDINATE=VALUE")
    if found.diverged:
        warn(f"warning: {found.diverged} motions diverged; try a smaller --step-ms than {1e3 * how['step_s']:.3g}")
    if found.violation > LOOSE * mechanism.characteristic_length:
        far = f"{found.violation:.2g}"
        warn(f"warning: constraints are violated by up to {far} at the end; try a smaller --step-ms")
    print_line(f"wrote {picture} and {data}")


def _plan(name: str, request: Request, param: list[str] | None, sets: list[str] | None) -> Plan | None:
    """The plan in lockstep of the launch file `name`; None if `name` is a robot.

    Raises InputError if an option for robots alone is given with a launch file, or an option for launch files alone is
    given with a robot.
    """
    if not name.endswith(".toml"):
        if sets:
            raise InputError(f"--set {sets[0]}: only a launch file has such keys; use --param for {name!r}")
        return None
    from nodes.research.maps.starts import plan_for_starts

    for option, given, remedy in (
        ("--param", param, "use --set sim.parameters.NAME=VALUE"),
        ("--servo", request.servos, "let a node of the launch command it, such as nodes/controllers/position.py"),
    ):
        if given:
            raise InputError(f"{option}: {name!r} is a launch file; {remedy}")
    step = [] if request.step_ms is None else [f"sim.step_ms={request.step_ms:g}"]
    return plan_for_starts(Path(name), request.seconds, [*(sets or []), *step])
