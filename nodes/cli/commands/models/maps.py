"""`armswing robot map`: draws how far the motion moves away from an equilibrium, over a grid of initial states.

Two components of the initial state vary over the grid.
"""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Annotated, Any

import typer

from nodes.cli.commands.models.robots import Name, Param, built
from nodes.cli.commands.models.studies import Bar, Interrupted, interruptible
from nodes.cli.terminal import InputError, UnavailableError, parse_assignments, say, warn, working

MOST_CELLS = 25_000_000
EXAMPLE = "armswing robot map double_pendulum --over upper.angle=-3:3:100,lower.angle=-3:3:100 --seconds 20"
LOOSE = 1e-3  # violation beyond which a map warns, in characteristic lengths


def add_to(app: typer.Typer) -> None:
    """Add the command `map`."""
    app.command("map", epilog=f"Example: {EXAMPLE}")(map_robot)


def map_robot(
    name: Name,
    over: Annotated[
        str,
        typer.Option(
            "--over",
            help="Two axes ROW=FROM:TO:NUMBER, separated by a comma. ROW is the component of the initial state that "
            "varies: COORDINATE (rad or m) or COORDINATE.velocity (rad/s or m/s).",
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
            help="COORDINATE=VALUE from which the search for the equilibrium starts. Repeatable.",
            show_default="the start",
        ),
    ] = None,
    step_ms: Annotated[
        float | None, typer.Option("--step-ms", help="Step size of RK4 (ms).", show_default="from the fastest mode")
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
    lanes: Annotated[int, typer.Option("--lanes", help="Number of motions in one SIMD vector: 2, 4, 8, 16 or 32.")] = 8,
    threads: Annotated[
        int | None, typer.Option("--threads", min=1, help="Number of threads.", show_default="one per core")
    ] = None,
) -> None:
    """Simulate a robot from a grid of initial states, and draw how far each motion moves away from the equilibrium.

    The colour shows Schiehlen's stability measure IS1: the largest distance of the motion from the equilibrium, divided
    by the distance of the initial state from the equilibrium. The actuators hold their initial efforts. The numbers are
    written to an NPZ file beside the picture, such as ROBOT_map.npz.
    """
    axes = _axes(over)
    mechanism, _ = built(name, param)
    picture = output or Path(f"{mechanism.name}_map.png")
    _check_output(picture)
    rows = _numbers(start, "--start")
    try:
        with interruptible() as go_on:
            place = _numbers(near, "--near")
            units = step_ms, time_unit_s
            found, how = _computed(mechanism, axes, rows, place, seconds, *units, lanes, threads, go_on)
            data = _write(picture, found, {**how, "robot": name, "parameters": param or [], "start": rows})
    except Interrupted as end:
        warn("armswing: interrupted; nothing written")
        raise typer.Exit(128 + end.signal) from None
    except ValueError as error:
        raise InputError(str(error)) from error
    share = float(found.goes_over.mean())
    say(f"{found.is1.size} motions of {seconds:g} s about {how['equilibrium']}: a share of {share:.4f} turns over")
    if how["unstable"]:
        warn("warning: this equilibrium is unstable; select another equilibrium with --near COORDINATE=VALUE")
    if found.diverged:
        warn(f"warning: {found.diverged} motions diverged; try a smaller --step-ms")
    if found.violation > LOOSE * mechanism.characteristic_length:
        far = f"{found.violation:.2g}"
        warn(f"warning: constraints are violated by up to {far} at the end; try a smaller --step-ms")
    say(f"wrote {picture} and {data}")


def _axes(text: str) -> dict[str, Any]:
    """Return {row: values} of the two axes in the text of `--over`. Raises InputError for an invalid axis."""
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
            f"--over {text!r}: the grid has {cells} motions, but a map can have {MOST_CELLS} at most; lower a NUMBER"
        )
    return found


def _numbers(given: list[str] | None, option: str) -> dict[str, float]:
    found = parse_assignments(given or [], option)
    for key, value in found.items():
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise InputError(f"{option} {key}={value}: the value must be a number")
    return {key: float(value) for key, value in found.items()}


def _check_output(picture: Path) -> None:
    if picture.suffix != ".png":
        raise InputError(f"--output {str(picture)!r}: the picture is a PNG; give it a name that ends in .png")
    if not picture.absolute().parent.is_dir():
        raise InputError(f"--output {str(picture)!r}: there is no folder {str(picture.parent)!r}; create it first")
    for path in (picture, picture.with_suffix(".npz")):
        if path.is_dir():
            raise InputError(f"--output {str(picture)!r}: {str(path)!r} is a folder; give another name")
    try:
        with tempfile.TemporaryFile(dir=picture.absolute().parent):
            pass
    except OSError as error:
        raise InputError(f"--output {str(picture)!r} cannot be written: {error.strerror}") from None


def _computed(
    mechanism: Any,
    axes: dict[str, Any],
    start: dict[str, float],
    near: dict[str, float],
    seconds: float,
    step_ms: float | None,
    time_unit_s: float | None,
    lanes: int,
    threads: int | None,
    go_on: Any,
) -> tuple[Any, dict[str, Any]]:
    import importlib.util

    import numpy as np

    from sim_core.analysis.maps import state_map
    from sim_core.analysis.stability import StateNorm, equilibrium, is_unstable
    from sim_core.errors import UnknownName
    from sim_core.system import assemble

    if importlib.util.find_spec("matplotlib") is None:
        raise UnavailableError("a map needs matplotlib; install it: pip install 'armswing[studies]'")
    with working(f"assembling {mechanism.name!r}"):
        system = assemble(mechanism)
    place = np.array(mechanism.initial_q, dtype=float)
    for row, value in near.items():
        if row not in system.coordinate_names:
            raise UnknownName(f"robot {mechanism.name!r}", "coordinate", row, system.coordinate_names)
        place[system.coordinate_names.index(row)] = value
    u = np.array([actuator.start for actuator in mechanism.actuators])
    about = equilibrium(system, place, u)
    norm = StateNorm.of(system, about, None, time_unit_s, None, None if step_ms is None else step_ms / 1e3)
    with Bar() as bar:

        def show(done: int, of: int) -> None:
            go_on()
            bar.show("simulating", done, of)

        found = state_map(norm, axes, start, seconds, u=u, lanes=lanes, threads=threads, progress=show)
    peaks = found.peaks
    rounded = {name: round(float(x), 6) + 0.0 for name, x in zip(system.coordinate_names, about, strict=True)}
    how = {"equilibrium": ", ".join(f"{key} = {value:g}" for key, value in rounded.items()), "seconds": seconds}
    how |= {"step_s": peaks.step_s, "steps": peaks.steps, "stepper": peaks.stepper, "time_unit_s": norm.time_unit_s}
    how |= {"length_unit_m": norm.length_unit_m, "efforts": u.tolist(), "lanes": peaks.lanes, "cpu": peaks.cpu}
    how |= {"unstable": is_unstable(system, about, u)}
    return found, how


def _write(picture: Path, found: Any, how: dict[str, Any]) -> Path:
    """Write the picture and the file with its numbers, and return the path of that file.

    Each file appears only when it is complete.
    """
    import numpy as np

    from nodes.pages.state_map import draw_state_map

    data, (across, up) = picture.with_suffix(".npz"), found.axes
    shape = (*found.is1.shape, -1)
    numbers = {f"axis_{name}": values for name, values in found.axes.items()}
    numbers |= {"is1": found.is1, "goes_over": found.goes_over, "about": json.dumps(how), "rows": found.peaks.rows}
    numbers |= {"low": found.peaks.low.reshape(shape), "high": found.peaks.high.reshape(shape)}
    title = f"{found.norm.system.mechanism.name}, {found.seconds:g} s"
    with tempfile.TemporaryDirectory(dir=picture.absolute().parent, prefix=".map") as folder:
        made = [Path(folder) / "map.png", Path(folder) / "map.npz"]
        units = [_unit(found.norm, name) for name in (across, up)]
        labels = f"{across} ({units[0]})", f"{up} ({units[1]})"
        draw_state_map(made[0], title, labels, [*found.axes.values()], found.is1, found.goes_over)
        np.savez_compressed(made[1], **numbers)
        for path, final in zip(made, (picture, data), strict=True):
            os.replace(path, final)
    return data


def _unit(norm: Any, row: str) -> str:
    """Unit of the state's component `row`, as text."""
    import numpy as np

    from sim_core.solve import coordinate_scales

    system = norm.system
    lengths = [joint.name for joint in system.mechanism.moving_joints if joint.kind == "prismatic"]
    base = row.removesuffix(".velocity")
    is_length = np.isinf(coordinate_scales((base,), lengths, np.inf))[0]
    return ("m" if is_length else "rad") + ("/s" if row != base else "")
