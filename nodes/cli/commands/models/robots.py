"""`armswing robot`: lists, shows and exports robots."""

from __future__ import annotations

import dataclasses
import importlib.util
import inspect
import math
import warnings
from pathlib import Path
from typing import Annotated, Any

import typer

from nodes.cli.commands.models import guards, linear, maps
from nodes.cli.commands.models.choice import Name, Param, Yes, built
from nodes.cli.commands.models.description import plain_description, print_description, print_start
from nodes.cli.terminal import (
    AsJson,
    InputError,
    UnavailableError,
    parse_assignments,
    print_json,
    print_line,
    print_table,
    warn,
    working,
)
from nodes.framework.recording.new_file import write_file
from robots.files import is_model_file, robot_name
from sim_core.errors import InvalidRequest
from sim_core.support.suggestion import MODELS, did_you_mean

app = typer.Typer(epilog="Example: armswing robot list", no_args_is_help=True)
maps.add_to(app)
guards.add_to(app)
linear.add_to(app)

EQUATION_FORMATS = ("text", "latex", "sympy", "c")


@app.command("list", epilog="Example: armswing robot list")
def list_robots(as_json: AsJson = False) -> None:
    """List all built-in and installed robots with their sizes and descriptions; with --json, only their names."""
    from robots.registry import names

    if as_json:
        print_json(sorted(names()))
    else:
        print_table(("robot", "bodies", "joints", "actuators", "what it is"), [_row(name) for name in sorted(names())])


def _row(name: str) -> tuple[str, str, str, str, str]:
    """Table row of one robot. For a robot that cannot be built, the row has the error in place of the description."""
    from robots.registry import build, builder

    try:
        mechanism, about = build(name), inspect.getdoc(builder(name)) or ""
    except (TypeError, ValueError) as error:
        return name, "-", "-", "-", str(error)
    counts = (len(part) for part in (mechanism.bodies, mechanism.moving_joints, mechanism.actuators))
    bodies, joints, actuators = map(str, counts)
    return name, bodies, joints, actuators, about.partition("\n")[0]


@app.command("show", epilog="Example: armswing robot show rotary_pendulum")
def show_robot(
    name: Name,
    param: Param = None,
    as_json: AsJson = False,
    yes: Yes = False,
) -> None:
    """Show the bodies, joints, actuators and parameters of a robot.

    If the robot's start violates constraints, a start that satisfies them is shown, too.
    """
    from robots.registry import OF_EVERY_ROBOT, builder, parameters
    from sim_core.derivation.start import checked_rows, violated_at_start
    from sim_core.mechanism.checks.plausibility import implausibilities

    has_meshes = not as_json and is_model_file(name) and "meshes" not in parse_assignments(param or [], "--param")
    mechanism, choices = _without_meshes(name, param) if has_meshes else built(name, param)
    about = (inspect.getdoc(builder(name)) or "").partition("\n")[0]
    own = parameters(name)
    every = [each for each in OF_EVERY_ROBOT if each.name not in {parameter.name for parameter in own}]
    takes = [dataclasses.asdict(parameter) for parameter in [*own, *every]]
    description = {**plain_description(mechanism), "choices": choices, "takes": takes, "about": about}
    if not as_json:
        print_description(description)
    if has_meshes:
        with working(f"reading the meshes of {name!r}"):
            mechanism, _ = built(name, param)
    with working(f"deriving the constraints of {name!r}"):
        lines = implausibilities(mechanism, checked_rows(mechanism))
        violated = violated_at_start(mechanism)
    start = _examined(mechanism, yes) if violated or mechanism.beams or mechanism.contacts else _Start()
    consistent = start.consistent if violated else None
    description |= {"start_violates": violated, "consistent_start": consistent, "doubts": lines}
    if as_json:
        print_json(description)
    elif consistent:
        print_start(consistent)
    for line in [*lines, *start.warnings]:
        warn(f"warning: {line}")
    if start.refused:
        raise InputError(start.refused)


def _without_meshes(name: str, param: list[str] | None) -> tuple[Any, dict[str, Any]]:
    """The result of `built` for a model file whose meshes are not read; its warnings are not printed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return built(name, [*(param or []), "meshes=boxes"])


@dataclasses.dataclass(frozen=True)
class _Start:
    """Result of the check of a mechanism's start.

    warnings    warnings of the check
    refused     reason why a simulation would refuse the start; "" if it would not
    consistent  {"q": ..., "v": ...} of a nearby start that satisfies the constraints; None if none was found
    """

    warnings: list[str] = dataclasses.field(default_factory=list)
    refused: str = ""
    consistent: dict[str, list[float]] | None = None


def _examined(mechanism: Any, yes: bool) -> _Start:
    """Check a mechanism's start as a simulation does, and search nearby for a start that satisfies the constraints."""
    import numpy as np

    from sim_core.assembly import checked_start, consistent_start
    from sim_core.kernels.effort import LIMIT_S
    from sim_core.start import FAR
    from sim_core.system import assemble

    q, v = np.array(mechanism.initial_q), np.array(mechanism.initial_v)
    refused, consistent = "", None
    with working(f"assembling {mechanism.name!r}"), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        system = assemble(mechanism, math.inf if yes else LIMIT_S)
        caught.clear()  # these repeat the doubts about the description, printed already
        try:
            checked_start(system, q, v, system.default_parameters(), False, FAR, stacklevel=1)
        except InvalidRequest as error:
            refused = str(error)
        try:
            near = consistent_start(system, q, v)
            consistent = {"q": near[0].tolist(), "v": near[1].tolist()}
        except InvalidRequest as error:
            refused = refused and (refused if str(error) in refused else f"{refused}; {error}")
    return _Start([str(each.message) for each in caught], refused, consistent)


@app.command("export", epilog="Example: armswing robot export rotary_pendulum --param coordinates=joint --format urdf")
def export_robot(
    name: Name,
    form: Annotated[str, typer.Option("--format", help="Format: urdf, mjcf, c or object.", show_default=False)],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="File to write; for c and object, a folder.", show_default="standard output"
        ),
    ] = None,
    param: Param = None,
    open_tree: Annotated[
        bool,
        typer.Option("--open-tree", help="Leave out the parts that the format cannot express, such as closed loops."),
    ] = False,
    target: Annotated[
        str, typer.Option("--target", help="Processor that object code is compiled for: x86_64 or aarch64.")
    ] = "x86_64",
) -> None:
    """Export a robot as URDF or MJCF, or its compiled functions as C or object code.

    URDF and MJCF require that the joints form a tree.
    """
    from robots.export import FOLDERS, export

    _require_place(output, name)
    mechanism, choices = built(name, param, as_tree=form not in FOLDERS)
    if form in FOLDERS:
        _export_folder(mechanism, form, output, target)
        return
    try:
        written = export(mechanism, form, open_tree)
    except ValueError as error:
        other = mechanism.has_body_coordinates and "coordinates" in choices
        raise InputError(f"{error}{'; try --param coordinates=joint' if other else ''}") from error
    if output is None:
        print_line(written.text.rstrip())
    else:
        try:
            write_file(output, written.text)
        except OSError as error:
            raise InputError(f"--output {output}: {error.strerror}") from error
    for note in written.notes:
        warn(note)


@app.command("import", epilog="Example: armswing robot import launch/examples/bench_arm.urdf")
def import_robot(
    file: Annotated[
        str, typer.Argument(help="A URDF or MJCF file: path/to/robot.urdf or path/to/robot.xml.", show_default=False)
    ],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="The Python file to write.", show_default="standard output"),
    ] = None,
    param: Param = None,
) -> None:
    """Convert a URDF or MJCF file to a Python file, to be edited, with a function that returns the robot.

    Every unsupported element of the model file causes a warning with its line number. A model file can also be
    simulated without this conversion.
    """
    from robots.importing.source import function_name, python_source

    if not is_model_file(file):
        raise InputError(f"{file!r} is no model file; give a file with a name that ends with {' or '.join(MODELS)}")
    _require_place(output, file)
    mechanism, _ = built(file, param)
    name = robot_name(file)
    text = python_source(mechanism, name, f"The robot of {Path(file).name}, written by armswing robot import.")
    if output is None:
        print_line(text.rstrip())
        return
    try:
        write_file(output, text)
    except OSError as error:
        raise InputError(f"--output {output}: {error.strerror}") from error
    moving = [joint for joint in mechanism.joints if not joint.is_fixed]
    counts = (len(part) for part in (mechanism.bodies, moving, mechanism.actuators))
    print_line("{}: {} bodies, {} moving joints, {} actuators".format(f"{output}:{function_name(name)}", *counts))


def _require_place(output: Path | None, robot: str) -> None:
    """Raise InputError if the folder of `output` does not exist, or if `output` is the file of the robot itself."""
    if output is None:
        return
    if not output.absolute().parent.is_dir():
        raise InputError(f"--output {output}: there is no folder {str(output.parent)!r}; create it first")
    source = Path(robot.partition(".py:")[0] + ".py") if ".py:" in robot else Path(robot)
    if output.is_file() and source.is_file() and output.samefile(source):
        raise InputError(f"--output {output} is the file of the robot itself; name another file")


def _export_folder(mechanism: Any, form: str, output: Path | None, target: str) -> None:
    from robots.export.native import export_files

    if output is None:
        raise InputError(f"--format {form} writes several files; name a folder for them with --output")
    if output.exists() and not output.is_dir():
        raise InputError(f"--output {output} is a file, but --format {form} writes into a folder; name a folder")
    try:
        with working(f"deriving the equations of {mechanism.name!r} and writing its kernels, a few seconds"):
            files = export_files(mechanism, form, target)
    except ValueError as error:
        raise InputError(str(error)) from error
    try:
        output.mkdir(exist_ok=True)
        for name, content in files.items():
            write_file(output / name, content)
    except OSError as error:
        raise InputError(f"--output {output}: {error.strerror}") from error
    for name in files:
        print_line(str(output / name))


@app.command("equations", epilog="Example: armswing robot equations double_pendulum --format latex")
def print_equations(
    name: Name,
    form: Annotated[str, typer.Option("--format", help="Format: text, latex, sympy or c.")] = "text",
    param: Param = None,
) -> None:
    """Print the equations of motion M a + J' lam = f of a robot, with the names in the robot's description.

    M is the mass matrix, a the vector of accelerations, J' the transposed Jacobian of the constraints, lam the vector
    of Lagrange multipliers and f the vector of all other forces.

    A robot in absolute coordinates is written in joint coordinates if it has the parameter coordinates; the option
    `--param coordinates=absolute` prevents this. The equations of small systems are simplified. For systems of more
    than six degrees of freedom, for systems with beams, and for systems of many bodies in absolute coordinates, all
    formats except c show only sizes and structure.
    """
    if form not in EQUATION_FORMATS:
        raise InputError(
            f"no format {form!r}; formats are {', '.join(EQUATION_FORMATS)}{did_you_mean(form, EQUATION_FORMATS)}"
        )
    if importlib.util.find_spec("sympy") is None:
        raise UnavailableError("equations need SymPy; install it: pip install 'armswing[equations]'")
    mechanism, _ = built(name, param)
    if mechanism.has_body_coordinates:
        mechanism, _ = built(name, param, as_tree=True)
    from robots.export.equations import written

    with working(f"deriving the equations of {name!r}"):
        text = written(mechanism, form)
    print_line(text)
