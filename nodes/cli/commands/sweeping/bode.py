"""`armswing bode`: the frequency response of a launch with its controllers in the loop, and its margins."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from nodes.cli.progress import Interrupted, RunsBar, interruptible
from nodes.cli.terminal import AsJson, InputError, print_json, print_line, print_table, warn
from nodes.framework.plan.files.file import load_plan
from nodes.research.sweeps.frequency import FrequencyResponse, frequency_response

EXAMPLE = "armswing bode launch/examples/my_controller.toml --from 0.3 --to 20 -o loop.png"
SHARE = 0.01  # default amplitude, as a share of the effort limit


def add_to(app: typer.Typer) -> None:
    """Add the command `bode`."""
    app.command(epilog=f"Example: {EXAMPLE}")(bode)


def bode(
    launch: Annotated[Path, typer.Argument(help="A launch file (TOML) of one robot.", show_default=False)],
    from_: Annotated[float, typer.Option("--from", help="Lowest frequency, Hz.")] = 0.1,
    to: Annotated[float, typer.Option("--to", help="Highest frequency, Hz.")] = 50.0,
    points: Annotated[
        int, typer.Option("--points", min=2, max=1000, help="Number of frequencies, before those that margins need.")
    ] = 20,
    actuator: Annotated[
        str, typer.Option("--actuator", help="Actuator at which the loop is opened.", show_default="the only one")
    ] = "",
    joint: Annotated[
        str, typer.Option("--joint", help="Joint whose position is measured.", show_default="the actuator's")
    ] = "",
    amplitude: Annotated[
        float | None,
        typer.Option("--amplitude", help="Amplitude of the sine, N m or N.", show_default="1 % of the effort limit"),
    ] = None,
    settle_s: Annotated[
        float, typer.Option("--settle", help="Time until the first measurement, and longest wait at a frequency (s).")
    ] = 2.0,
    set_: Annotated[
        list[str] | None, typer.Option("--set", help="node.key=value or sim.key=value. Repeatable.", show_default=False)
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="PNG file to write.", show_default="no picture")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Measure the loop gain of a launch in lockstep, with its controllers in the loop, and print its margins.

    A sine is added to the effort of one actuator, one frequency after the other; the launch should hold the robot in
    one place. The loop is opened at this effort. Beside it: the position of a joint by this effort, measured in the
    loop and of the linear model of the robot. Links and delays of the launch are in the loop.
    """
    if not 0.0 < from_ < to < np.inf:
        raise InputError(f"--from {from_:g} --to {to:g}: expected two frequencies above 0, the lower one first")
    if output is not None and (output.suffix != ".png" or not output.absolute().parent.is_dir()):
        raise InputError(f"--output {str(output)!r}: give the name of a PNG file, .png, in an existing folder")
    if amplitude is not None and not 0.0 < amplitude < np.inf:
        raise InputError(f"--amplitude is {amplitude:g}; it must be above 0")
    if not 0.0 <= settle_s < np.inf:
        raise InputError(f"--settle is {settle_s:g}; it must not be negative")
    plan = load_plan(launch, [*(set_ or []), "sim.mode=lockstep"])
    named = plan.sim.make_mechanism().actuators
    if not actuator and len(named) != 1:
        raise InputError(
            f"--actuator: the robot has {', '.join(each.name for each in named) or 'no actuators'}; name one"
        )
    actuator = actuator or named[0].name
    limit = next((each.effort_limit for each in named if each.name == actuator), None)
    if amplitude is None and limit is None:
        raise InputError(f"--amplitude: actuator {actuator!r} has no effort limit; give an amplitude, N m or N")
    size = SHARE * (limit or 0.0) if amplitude is None else amplitude
    if not sys.stderr.isatty():
        warn(f"measuring {points} frequencies, then those that the margins need")
    try:
        with interruptible() as go_on, RunsBar(go_on, "frequencies") as bar:
            found = frequency_response(
                plan, actuator, np.geomspace(from_, to, points).tolist(), size, joint, settle_s, bar.count
            )
    except Interrupted as end:
        warn("armswing: interrupted; nothing written")
        raise typer.Exit(128 + end.signal) from None
    if output is not None:
        from nodes.research.pages.bode_plot import draw_bode_plot  # with a picture alone

        unit = "m" if plan.sim.make_mechanism().joint(found.joint).kind == "prismatic" else "rad"
        draw_bode_plot(output, f"{plan.name}, amplitude {size:g}", found, f"{unit} by effort")
    if as_json:
        print_json(_plain(found))
        return
    _print(found)
    if output is not None:
        print_line(f"wrote {output}")


def _plain(found: FrequencyResponse) -> dict[str, Any]:
    def parts(values: Any) -> Any:
        return None if values is None else [[value.real, value.imag] for value in values.tolist()]

    return {
        "actuator": found.actuator,
        "joint": found.joint,
        "hz": found.frequencies.tolist(),
        "loop": parts(found.loop),
        "robot": parts(found.robot),
        "linear": parts(found.linear),
        "margins": found.margins._asdict(),
        "notes": list(found.notes),
    }


def _print(found: FrequencyResponse) -> None:
    rows = []
    for k, f in enumerate(found.frequencies.tolist()):
        gain, robot = found.loop[k], found.robot[k]
        linear = "" if found.linear is None else f"{abs(found.linear[k]):.4g}"
        phase = f"{np.degrees(np.angle(gain)):.1f}"
        rows.append((f"{f:.4g}", f"{abs(gain):.4g}", phase, f"{abs(robot):.4g}", linear))
    print_table(("Hz", "|L|", "phase deg", f"|{found.joint}/{found.actuator}|", "of the linear model"), rows)
    m = found.margins
    if m.gain is not None:
        print_line(f"gain margin   {m.gain:.4g} at {m.gain_hz:.4g} Hz")
    if m.lower_gain is not None:
        print_line(f"gain margin   {m.lower_gain:.4g} downwards, at {m.lower_gain_hz:.4g} Hz")
    if m.phase_deg is not None:
        print_line(f"phase margin  {m.phase_deg:.4g} degrees at {m.phase_hz:.4g} Hz")
    if m.delay_s is not None:
        print_line(f"delay margin  {1e3 * m.delay_s:.4g} ms at {m.delay_hz:.4g} Hz")
    if m.phase_deg is None and m.gain is None and m.lower_gain is None:
        print_line("no margins: the loop gain crosses neither 1 nor the negative real axis in this range")
    for line in found.notes:
        warn(f"note: {line}")
    if found.without_linear:
        warn(f"note: without linear model, so that narrow resonances may be missed: {found.without_linear}")
