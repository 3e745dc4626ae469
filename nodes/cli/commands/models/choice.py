"""The robot that a command is about: by its name or file, and `--param`."""

from __future__ import annotations

import inspect
from typing import Annotated, Any

import typer

from nodes.cli.terminal import InputError, parse_assignments
from sim_core.errors import InvalidRequest

Name = Annotated[
    str,
    typer.Argument(
        help="One of `armswing robot list`, path/to/file.py:function or path/to/robot.urdf (or .xml, MJCF).",
        show_default=False,
    ),
]
Param = Annotated[
    list[str] | None,
    typer.Option("--param", help="key=value of a parameter of the robot. Repeatable.", show_default=False),
]
Yes = Annotated[
    bool, typer.Option("--yes", help="Compile the robot's kernels also if that takes more than 60 s or 2 GB.")
]


def built(name: str, param: list[str] | None, as_tree: bool = False) -> tuple[Any, dict[str, Any]]:
    """Build a robot, and return (its mechanism, {parameter of the robot's builder: default}).

    A parameter without a default has the value None. With `as_tree`, a robot with a choice of coordinates is built in
    joint coordinates.
    """
    # ZeroMQ: 0.04 s
    from nodes.framework.launching.process import print_warnings_plainly
    from robots.registry import build, builder, with_joint_coordinates

    print_warnings_plainly()
    try:
        given = parse_assignments(param or [], "--param")
        chosen = with_joint_coordinates(name, given) if as_tree else given
        return build(name, **chosen), _choices(builder(name))
    except InvalidRequest:  # names the robot, its mechanism or its file
        raise
    except (TypeError, ValueError) as error:
        raise InputError(f"robot {name!r}: {error}") from error


def numbers(given: list[str] | None, option: str) -> dict[str, float]:
    """{key: number} of the values key=NUMBER of an option. Raises InputError for a value that is no number."""
    found = parse_assignments(given or [], option, "elbow=0.5")
    for key, value in found.items():
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise InputError(f"{option} {key}={value}: the value must be a number")
    return {key: float(value) for key, value in found.items()}


def _choices(builder: Any) -> dict[str, Any]:
    parameters = inspect.signature(builder).parameters.values()
    return {p.name: None if p.default is inspect.Parameter.empty else p.default for p in parameters}
