"""`armswing robot map`: draws how far the motion moves away from an equilibrium, over a grid of initial states.

Two components of the initial state vary over the grid.
"""

from __future__ import annotations

import importlib.util
import json
import math
import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from nodes.cli.commands.models.choice import Param, Yes, built, numbers
from nodes.cli.commands.models.map_checks import JOINT_COORDINATES, check_rows, check_servos
from nodes.cli.commands.models.studies import Interrupted, interruptible
from nodes.cli.commands.sweeping.progress import SweepBar
from nodes.cli.terminal import InputError, UnavailableError, parse_assignments, print_line, warn, working
from sim_core.errors import InvalidRequest, UnknownName

MOST_CELLS = 25_000_000
ENDING = ".runs"  # of the file of finished runs, beside the picture
EXAMPLE = "armswing robot map double_pendulum --over upper.angle=-3:3:100,lower.angle=-3:3:100 --seconds 20"
LOOSE = 1e-3  # violation beyond which a map warns, in characteristic lengths
FAR = 0.5  # rad or m: an equilibrium farther from the values of --near is warned of


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
    axes = _axes(over)
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
        yes,
    )
    try:
        plan = _plan(name, request, param, set_)
    except ValueError as error:
        raise InputError(str(error)) from error
    mechanism = built(name, param)[0] if plan is None else plan.sim.make_mechanism()
    picture = output or Path(f"{mechanism.name}_map.png")
    kept = picture.with_suffix(ENDING)
    _check_output(picture)
    try:
        with interruptible() as go_on:
            found, how = _computed(mechanism, request, go_on) if plan is None else _launched(plan, request, kept, go_on)
            given = {"robot": name, "parameters": param or [], "set": set_ or [], "start": request.start}
            data = _write(picture, found, {**how, **given})
            if plan is not None:
                kept.unlink(missing_ok=True)
    except Interrupted as end:
        is_kept = plan is not None and kept.exists()
        where = f"finished runs are in {kept}; repeat the command to continue" if is_kept else "nothing written"
        warn(f"armswing: interrupted; {where}")
        raise typer.Exit(128 + end.signal) from None
    except ValueError as error:
        raise InputError(str(error)) from error
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


def _axes(text: str) -> dict[str, Any]:
    """Return {component of the state: its values} for the two axes in the text of `--over`.

    Raises InputError for an invalid axis.
    """
    import numpy as np

    found: dict[str, Any] = {}
    for part in text.split(","):
        row, _, span = part.partition("=")
        pieces = span.split(":")
        try:
            low, high, count = float(pieces[0]), float(pieces[1]), int(pieces[2])
        except (ValueError, IndexError):
            raise InputError(f"--over {part!r}: expected ROW=FROM:TO:NUMBER, such as elbow=-3:3:400") from None
        if len(pieces) != 3 or not -np.inf < low < high < np.inf or count < 2:
            raise InputError(f"--over {part!r}: FROM must be below TO, and NUMBER must be at least 2")
        if row in found:
            raise InputError(f"--over {text!r}: {row!r} is named twice; name two different rows")
        found[row] = np.linspace(low, high, count)
    if len(found) != 2:
        raise InputError(f"--over {text!r}: a map has two axes, not {len(found)}")
    cells = len(next(iter(found.values()))) * len([*found.values()][1])
    if cells > MOST_CELLS:
        raise InputError(
            f"--over {text!r}: the grid has {cells} motions, but a map can have {MOST_CELLS} at most; lower the "
            "NUMBER of an axis"
        )
    return found


def _check_output(picture: Path) -> None:
    if picture.suffix != ".png":
        raise InputError(f"--output {str(picture)!r}: the picture is a PNG; give it a name that ends in .png")
    if not picture.absolute().parent.is_dir():
        raise InputError(f"--output {str(picture)!r}: there is no folder {str(picture.parent)!r}; create it first")
    for path in (picture, picture.with_suffix(".npz"), picture.with_suffix(ENDING)):
        if path.is_dir():
            raise InputError(f"--output {str(picture)!r}: {str(path)!r} is a folder; give another name")
    try:
        with tempfile.TemporaryFile(dir=picture.absolute().parent):
            pass
    except OSError as error:
        raise InputError(f"--output {str(picture)!r} cannot be written: {error.strerror}") from None


@dataclass(frozen=True)
class Request:
    """A stability map that the user requests on the command line.

    axes    {component of the state: its values} of the two axes
    start   {component of the state: its value} for components of the initial state that are on no axis
    near    {coordinate: value} of the goal of a launch, or of the start of the search for a robot's equilibrium
    servos  {actuator: position}, rad or m
    rows    components of the state by which distances are measured; None for all
    """

    axes: dict[str, Any]
    start: dict[str, float]
    near: dict[str, float]
    servos: dict[str, float]
    rows: list[str] | None
    seconds: float
    step_ms: float | None
    time_unit_s: float | None
    lanes: int | None
    threads: int | None
    yes: bool


def moved_from(near: dict[str, float], found: dict[str, float]) -> Iterator[str]:
    """A line for each coordinate of the equilibrium that is farther than FAR from the value given by --near."""
    for name, value in near.items():
        if name in found and abs(found[name] - value) > FAR:
            yield f"the equilibrium that was found has {name} = {found[name]:g}, not {value:g} as in --near"


def beyond_stops(mechanism: Any, axes: dict[str, Any]) -> Iterator[str]:
    """A line for each joint with stops, of whose positions on an axis of the map some lie beyond the stops."""
    from sim_core.mechanism.quantities import value_of

    for joint in mechanism.moving_joints:
        if joint.stops is None or joint.name not in axes:
            continue
        lower, upper = (None if limit is None else value_of(limit) for limit in (joint.lower, joint.upper))
        values = axes[joint.name]
        count = sum((lower is not None and x < lower) or (upper is not None and x > upper) for x in values)
        if count:
            limits = " .. ".join("none" if limit is None else f"{limit:g}" for limit in (lower, upper))
            yield (
                f"{count} of {len(values)} positions of {joint.name!r} lie beyond its stops at {limits}, which push it "
                "back from there; map within them, or without stops: --param limits=none, where the robot has it"
            )


def _assembled(mechanism: Any, request: Request, remedy: str = JOINT_COORDINATES) -> tuple[Any, Any]:
    """(system of the mechanism, its initial coordinates with the values that the user gives by --near).

    remedy  option that selects joint coordinates, for messages
    """
    import numpy as np

    from sim_core.analysis.attitudes import Attitudes
    from sim_core.kernels.effort import LIMIT_S
    from sim_core.system import assemble

    if importlib.util.find_spec("matplotlib") is None:
        raise UnavailableError("a map needs matplotlib; install it: pip install 'armswing[studies]'")
    with working(f"assembling {mechanism.name!r}"):
        system = assemble(mechanism, math.inf if request.yes else LIMIT_S)
    named = {"--over": request.axes, "--start": request.start, "--near": request.near, "--rows": request.rows or []}
    check_rows(system, named, remedy)
    start = np.array(mechanism.initial_q, dtype=float)
    attitudes = Attitudes(system, start)
    place = attitudes.offsets(start[None, :], 0.0 * start[None, :])
    for row, value in request.near.items():
        if row not in system.coordinate_names:
            raise UnknownName(f"robot {mechanism.name!r}", "coordinate", row, system.coordinate_names)
        place[0, system.coordinate_names.index(row)] = value
    return system, attitudes.states(place)[0][0]


def _computed(mechanism: Any, request: Request, go_on: Any) -> tuple[Any, dict[str, Any]]:
    """(stability map of a robot without nodes, description of how the map was computed).

    request  the map that the user requests
    go_on    function that is called repeatedly; it raises an error to stop the computation
    """
    import numpy as np

    from sim_core.analysis.equilibria import equilibrium, is_unstable
    from sim_core.analysis.held import HeldInputs
    from sim_core.analysis.maps import state_map
    from sim_core.analysis.stability import StateNorm
    from sim_core.monitoring.servo_loops import unstable_servos

    check_servos(mechanism, request.servos)
    driven = {actuator.joint: actuator.name for actuator in mechanism.actuators if actuator.name in request.servos}
    system, place = _assembled(mechanism, request)
    for joint, name in driven.items():
        if joint in system.coordinate_names and joint not in request.near:
            place[system.coordinate_names.index(joint)] = request.servos[name]  # an equilibrium lies close to it
    u = np.array([request.servos.get(actuator.name, actuator.start) for actuator in mechanism.actuators])
    try:
        held = HeldInputs.of(system, u, dict.fromkeys(request.servos, "position"))
    except InvalidRequest as error:
        raise InputError(f"--servo: {error}") from error
    efforts = held.efforts
    try:
        about = equilibrium(system, place, efforts)
    except InvalidRequest as error:
        free = [actuator.name for actuator in mechanism.actuators if actuator.name not in request.servos]
        unheld = f"; without --servo no position is held by {', '.join(free)}" if free else ""
        raise InputError(f"{error}, by --near COORDINATE=VALUE{unheld}") from error
    step_s = None if request.step_ms is None else request.step_ms / 1e3
    norm = StateNorm.of(system, about, request.rows, request.time_unit_s, None, step_s, efforts)
    if unstable := unstable_servos(system, norm.step_s, about, request.servos):
        raise InputError(f"--step-ms: {unstable}")
    with SweepBar("motions") as bar:

        def show(done: int, of: int) -> None:
            go_on()
            bar.show(done, of)

        show(0, math.prod(map(len, request.axes.values())))
        found = state_map(
            norm,
            request.axes,
            request.start,
            request.seconds,
            u=held.u,
            modes=held.modes,
            lanes=request.lanes,
            threads=request.threads,
            progress=show,
        )
    how = _described(found) | {"efforts": efforts(about, 0.0 * about).tolist(), "servos": request.servos}
    return found, how | {"unstable": is_unstable(system, about, efforts)}


def _plan(name: str, request: Request, param: list[str] | None, sets: list[str] | None) -> Any:
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


def _launched(plan: Any, request: Request, kept: Path, go_on: Any) -> tuple[Any, dict[str, Any]]:
    """(stability map of a launch, description of how the map was computed).

    plan     launch plan in lockstep
    request  the map that the user requests
    kept     file with the finished runs of an interrupted map; the map continues after these runs
    go_on    function that is called repeatedly; it raises an error to stop the computation
    """
    from nodes.research.sweeps.engine import default_workers
    from nodes.research.maps.starts import ranges_from
    from sim_core.analysis.maps import grid, map_of
    from sim_core.analysis.stability import StateNorm

    system, place = _assembled(plan.sim.make_mechanism(), request, "--set sim.parameters.coordinates=joint")
    norm = StateNorm.of(system, place, request.rows, request.time_unit_s, None, plan.sim.step_s)
    q, v = grid(norm, request.axes, request.start, request.seconds)
    with SweepBar("motions") as bar:

        def show(done: int, of: int) -> None:
            go_on()
            bar.show(done, of)

        workers = request.threads or default_workers()
        attitudes = norm.attitudes.quaternions if norm.turning else None
        peaks = ranges_from(
            plan, system, q, v, request.seconds, workers=workers, progress=show, kept=kept, attitudes=attitudes
        )
    found = map_of(norm, request.axes, request.seconds, q, v, peaks)
    return found, _described(found) | {"nodes": [node.name for node in plan.nodes], "unstable": False}


def _described(found: Any) -> dict[str, Any]:
    """Description of how a stability map was computed: equilibrium, method of integration and units."""
    import numpy as np

    from sim_core.analysis.attitudes import Attitudes

    norm, peaks = found.norm, found.peaks
    names = norm.system.coordinate_names
    start = np.array(norm.system.mechanism.initial_q)
    about = Attitudes(norm.system, start).offsets(norm.about[None, :], 0.0 * norm.about[None, :])[0]
    rounded = {name: round(float(x), 6) + 0.0 for name, x in zip(names, about, strict=False)}
    how = {"equilibrium": ", ".join(f"{key} = {value:g}" for key, value in rounded.items()), "seconds": found.seconds}
    how |= {"distances": list(norm.rows)}
    how |= {"step_s": peaks.step_s, "steps": peaks.steps, "stepper": peaks.stepper, "time_unit_s": norm.time_unit_s}
    how |= {"found": rounded}
    return how | {"length_unit_m": norm.length_unit_m, "lanes": peaks.lanes, "cpu": peaks.cpu}


def _write(picture: Path, found: Any, how: dict[str, Any]) -> Path:
    """Write the picture and a file with the picture's numbers, and return the path of the file with the numbers.

    Each file appears only when it is complete.
    """
    import numpy as np

    from nodes.research.pages.state_map import draw_state_map

    data, (across, up) = picture.with_suffix(".npz"), found.axes
    shape = (*found.is1.shape, -1)
    numbers = {f"axis_{name}": values for name, values in found.axes.items()}
    numbers |= {"is1": found.is1, "goes_over": found.turns_over, "about": json.dumps(how), "rows": found.peaks.rows}
    numbers |= {"low": found.peaks.low.reshape(shape), "high": found.peaks.high.reshape(shape)}
    numbers |= {"end": np.hstack([found.peaks.q, found.peaks.v]).reshape(shape)}
    if found.peaks.orientations.size:
        numbers |= {"attitudes": found.peaks.orientations.reshape(*shape[:2], -1, 4)}
    title = f"{found.norm.system.mechanism.name}: motions of {found.seconds:g} s, by their initial state"
    with tempfile.TemporaryDirectory(dir=picture.absolute().parent, prefix=".map") as folder:
        made = [Path(folder) / "map.png", Path(folder) / "map.npz"]
        units = [_unit(found.norm, name) for name in (across, up)]
        labels = f"{across} ({units[0]})", f"{up} ({units[1]})"
        places = dict(zip(found.norm.system.coordinate_names, found.norm.center, strict=False))
        about = places.get(across, 0.0), places.get(up, 0.0)  # velocities are zero
        center = "goal" if "nodes" in how else "equilibrium"
        values = [*found.axes.values()]
        of_distances = str(found.norm).replace(" (time_unit_s)", "")
        draw_state_map(made[0], title, labels, values, found.is1, found.turns_over, about, center, of_distances)
        np.savez_compressed(made[1], **numbers)
        for path, final in zip(made, (picture, data), strict=True):
            os.replace(path, final)
    return data


def _unit(norm: Any, row: str) -> str:
    """Unit of the state's component `row`, as text."""
    import numpy as np

    from sim_core.solve import coordinate_scales

    system = norm.system
    lengths = [joint.name for joint in system.mechanism.moving_joints if joint.is_length]
    base = row.removesuffix(".velocity")
    is_length = np.isinf(coordinate_scales((base,), lengths, np.inf))[0]
    return ("m" if is_length else "rad") + ("/s" if row != base else "")
