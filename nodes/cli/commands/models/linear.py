"""`armswing robot linearize` and `armswing robot modes`: the linear model of a robot, and its modes."""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal

import typer

from nodes.cli.commands.models.choice import Name, Param, Yes, built, numbers
from nodes.cli.terminal import (
    AsJson,
    InputError,
    compilations_shown,
    print_json,
    print_line,
    print_table,
    warn,
    working,
)
from sim_core.errors import UnknownName

EXAMPLE = "armswing robot linearize rotary_pendulum --step-ms 1 --format matlab"
EXAMPLE_MODES = "armswing robot modes double_pendulum"
SHOWN = 3  # states named for a mode
STILL = 1e-6  # rate of a state, relative to the largest entry of A, up to which a position is an equilibrium
ROUNDING = (
    1e-12  # real part of a pole, relative to the largest entry of A, up to which the mode neither decays nor grows
)
LEAST_SHARE = 0.05  # participation of a state that is named

At = Annotated[
    list[str] | None,
    typer.Option(
        "--at",
        help="COORDINATE=VALUE, rad or m, of the position, at rest; the loops are closed. Repeatable.",
        show_default="the robot's start",
    ),
]
Effort = Annotated[
    list[str] | None,
    typer.Option(
        "--effort",
        help="ACTUATOR=VALUE, N m or N. Repeatable. Without it, the efforts that hold the robot best.",
        show_default=False,
    ),
]
StepMs = Annotated[
    float | None,
    typer.Option("--step-ms", help="Step of the discrete model of a simulation (ms).", show_default="continuous"),
]


def add_to(app: typer.Typer) -> None:
    """Add the commands to the commands about robots."""
    app.command("linearize", epilog=f"Example: {EXAMPLE}")(linearize_robot)
    app.command("modes", epilog=f"Example: {EXAMPLE_MODES}")(show_modes)


def linearize_robot(
    name: Name,
    param: Param = None,
    at: At = None,
    effort: Effort = None,
    step_ms: StepMs = None,
    output: Annotated[
        list[str] | None,
        typer.Option(
            "--output",
            help="Name of a joint, JOINT.velocity or an output of the robot. Repeatable.",
            show_default="the positions of all joints",
        ),
    ] = None,
    file_format: Annotated[Literal["text", "csv", "matlab"], typer.Option("--format", help="Format.")] = "text",
    yes: Yes = False,
) -> None:
    """Print the linear model x' = A x + B u, y = C x + D u of a robot at a position.

    The derivatives are exact, and the loops stay closed: x are independent coordinates and their velocities. With
    --step-ms, x+ = A x + B u is the step that a simulation takes with RK4, with inputs held over the step.
    """
    linear = _linear(name, param, at, effort, step_ms, output, yes)
    print_line("\n".join({"text": _text, "csv": _csv, "matlab": _matlab}[file_format](linear)))


def show_modes(
    name: Name,
    param: Param = None,
    at: At = None,
    effort: Effort = None,
    as_json: AsJson = False,
    yes: Yes = False,
) -> None:
    """List the modes of small motions about a position: frequency, damping, and the states that take part.

    The frequency is undamped in rad/s, the absolute value of the pole, and damped in Hz, that of the oscillation. A
    rigid-body motion has no frequency: nothing drives the robot back.
    """
    linear = _linear(name, param, at, effort, None, None, yes)
    poles = [pole for pole in linear.poles() if pole.value.imag >= 0.0]
    still = ROUNDING * _size(linear)
    if as_json:
        keys = ("frequency", "damping", "participation")
        print_json(
            [{"re": p.value.real, "im": p.value.imag, **{k: getattr(p, k) for k in keys}} for p in poles],
        )
        return
    rows = []
    for pole in poles:
        parts = [f"{state} {100 * share:.0f} %" for state, share in pole.participation.items() if share > LEAST_SHARE]
        part = ", ".join(parts[:SHOWN])
        if not pole.value:
            rows.append(("0", "0", "", "", f"{part} (rigid-body motion)"))
            continue
        hertz = f"{abs(pole.value.imag) / (2.0 * math.pi):.4g}"
        decays = abs(pole.value.real) > still
        damping, decay = (f"{pole.damping:.4g}", f"{-1.0 / pole.value.real:.4g}") if decays else ("0", "")
        rows.append((f"{pole.frequency:.4g}", hertz, damping, decay, part))
    print_table(("undamped rad/s", "damped Hz", "damping", "decay in s", "states that take part"), rows)
    if growing := [pole for pole in poles if pole.value.real > still]:
        fastest = max(pole.value.real for pole in growing)
        modes = "1 mode grows" if len(growing) == 1 else f"{len(growing)} modes grow, the fastest"
        print_line(f"unstable: {modes} by e in {1.0 / fastest:.4g} s")


def _linear(
    name: str,
    param: list[str] | None,
    at: list[str] | None,
    effort: list[str] | None,
    step_ms: float | None,
    output: list[str] | None,
    yes: bool,
) -> Any:
    from sim_core.analysis.linearization import linearize, operating_point
    from sim_core.kernels.effort import LIMIT_S
    from sim_core.system import assemble

    if step_ms is not None and not 0.0 < step_ms < math.inf:
        raise InputError(f"--step-ms is {step_ms:g}; it must be above 0")
    place, efforts = (numbers(given, option) for given, option in ((at, "--at"), (effort, "--effort")))
    mechanism, _ = built(name, param, as_tree=True)
    with working(f"linearizing {mechanism.name!r}"), compilations_shown():
        system = assemble(mechanism, math.inf if yes else LIMIT_S)
        point = operating_point(system, place)
        u = point.u
        if efforts:
            names = [actuator.name for actuator in mechanism.actuators]
            for key in efforts:
                if key not in names:
                    raise UnknownName(f"robot {mechanism.name!r}", "actuator", key, names)
            u = system.start_inputs
            for key, value in efforts.items():
                u[names.index(key)] = value
        found = linearize(system, (point.q, point.v), u, output, None if step_ms is None else 1e-3 * step_ms)
    for line in found.notes:
        warn(f"note: {line}")
    rates = {s: x for s, x in zip(found.states, found.offset.tolist(), strict=True) if abs(x) > STILL * _size(found)}
    if rates:
        listed = ", ".join(f"{state} {rate:.4g}" for state, rate in list(rates.items())[:SHOWN])
        warn(
            f"note: the position is no equilibrium; the rates there are {listed} ({'per step' if step_ms else 'per s'})"
        )
    return found


def _size(linear: Any) -> float:
    return max(1.0, float(abs(linear.A).max(initial=0.0)))


def _matrices(linear: Any) -> list[tuple[str, Any, tuple[str, ...], tuple[str, ...]]]:
    """(letter, matrix, names of its rows, names of its columns)."""
    states, inputs, outputs = linear.states, linear.inputs, linear.outputs
    return [
        ("A", linear.A, states, states),
        ("B", linear.B, states, inputs),
        ("C", linear.C, outputs, states),
        ("D", linear.D, outputs, inputs),
    ]


def _text(linear: Any) -> list[str]:
    kind = "x' = A x + B u" if linear.step_s is None else f"x+ = A x + B u, step {1e3 * linear.step_s:g} ms"
    lines = [f"{kind}; y = C x + D u"]
    for letter, names, units in (
        ("x", linear.states, linear.state_units),
        ("u", linear.inputs, linear.input_units),
        ("y", linear.outputs, linear.output_units),
    ):
        shown = (f"{name} ({unit})" if unit else name for name, unit in zip(names, units, strict=True))
        lines.append(f"{letter}: {', '.join(shown) or '(none)'}")
    for letter, matrix, rows, _ in _matrices(linear):
        if not matrix.size:
            continue
        lines.append(f"{letter} =")
        cells = [[f"{value:.6g}" for value in row] for row in (matrix + 0.0).tolist()]
        width = max(len(cell) for row in cells for cell in row)
        longest = max(map(len, rows))
        lines += [
            f"  {name.ljust(longest)}  {' '.join(cell.rjust(width) for cell in row)}"
            for name, row in zip(rows, cells, strict=True)
        ]
    return lines


def _csv(linear: Any) -> list[str]:
    lines = ["matrix,row,column,value"]
    for letter, matrix, rows, columns in _matrices(linear):
        lines += [
            f"{letter},{row},{column},{float(matrix[i, k])!r}"
            for i, row in enumerate(rows)
            for k, column in enumerate(columns)
        ]
    return lines


def _matlab(linear: Any) -> list[str]:
    lines = [
        f"{letter} = reshape([{' '.join(repr(float(x)) for x in matrix.ravel(order='F'))}], "
        f"{matrix.shape[0]}, {matrix.shape[1]});"
        for letter, matrix, _, _ in _matrices(linear)
    ]
    names = [
        f"{{{', '.join(repr(name) for name in names)}}}" for names in (linear.states, linear.inputs, linear.outputs)
    ]
    step = "" if linear.step_s is None else f", {linear.step_s!r}"
    keys = ("StateName", "InputName", "OutputName")
    named = ", ".join(f"'{key}', {value}" for key, value in zip(keys, names, strict=True))
    return [*lines, f"sys = ss(A, B, C, D{step}, {named});"]
