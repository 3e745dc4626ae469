"""`armswing robot guard`: prints the table of a guard's limits and margins for a robot."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
import typer

from nodes.cli.commands.models.choice import Name, Param, built
from nodes.cli.terminal import AsJson, InputError, print_json, print_line, warn, working

FASTER = "; at higher speeds, the efforts cannot brake all joints at once"
EXAMPLE = "Example: armswing robot guard arm_2dof --delay-ms 10"


def add_to(app: typer.Typer) -> None:
    """Add the command to the commands about robots."""
    app.command("guard", epilog=EXAMPLE)(guard_table)


def guard_table(
    name: Name,
    param: Param = None,
    delay_ms: Annotated[
        float,
        typer.Option(
            "--delay-ms",
            min=0.0,
            max=1000.0,
            help="Time from a measurement to the effect of the command that answers it, with one period of the states.",
        ),
    ] = 5.0,
    effort_percent: Annotated[
        float,
        typer.Option(
            "--effort-percent",
            min=0.0,
            max=100.0,
            help="Efforts that commands may use, in percent of the effort limits; 0: commands of efforts are refused.",
        ),
    ] = 0.0,
    driver: Annotated[
        bool, typer.Option("--driver", help="Print the table `guard` of a driver, for a guard in its process.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Print the limits and margins of a guard that a robot can keep, as a table to paste into a launch file.

    The numbers follow from the worst case of the model: masses up to 20 % off, gravity, effort limits, the delay and
    the servos. A robot whose efforts do not hold 1.5 times its weight is refused.
    """
    from nodes.guard import worst_case

    mechanism, _ = built(name, param)
    limits = {each.joint: each.effort_limit or 0.0 for each in mechanism.actuators if each.joint}
    efforts = {joint: 0.01 * effort_percent * limit for joint, limit in limits.items()}
    with working(f"computing the worst case of {mechanism.name!r}"):
        try:
            worst = worst_case.worst_case(mechanism, 1e-3 * delay_ms, efforts)
        except ValueError as error:
            raise InputError(str(error)) from error
    if worst.weak:
        raise InputError("; ".join(worst.weak))
    _require_short_delay(worst, delay_ms)
    table = worst_case.table_of(worst)
    if as_json:
        print_json({"delay_ms": delay_ms, "joints": table})
        return
    print_line("\n".join(_toml(name, worst, table, delay_ms, "nodes.guard" if driver else "nodes.params")))
    if worst.no_servo:
        warn(
            f"warning: the model has no servo for {', '.join(worst.no_servo)}; the numbers hold for drives as stiff as "
            "those of --param servos=stiff"
        )


def _require_short_delay(worst: Any, delay_ms: float) -> None:
    """Raise InputError if commands of efforts accelerate a joint to twice its velocity limit within the delay."""
    for k, joint in enumerate(worst.joints):
        gained = 1e-3 * delay_ms * worst.free_acceleration[k]
        if worst.commanded.any() and gained > worst.velocity[k]:
            longest = 1e3 * worst.velocity[k] / worst.free_acceleration[k]
            raise InputError(
                f"efforts of --effort-percent accelerate joint {joint!r} by {gained:.3g} within {delay_ms:g} ms, more "
                f"than its velocity limit {worst.velocity[k]:.3g}; give smaller efforts, or a delay of at most "
                f"{longest:.2g} ms, or leave the option out"
            )


def _toml(name: str, worst: Any, table: dict[str, dict[str, Any]], delay_ms: float, prefix: str) -> list[str]:
    """Lines of the table in TOML, with comments about the numbers."""
    lines = [
        f"# armswing robot guard {name} --delay-ms {delay_ms:g}; units: rad or m, s, N m or N",
        "# Worst case over positions, speeds and masses up to 20 % off; docs/guides/guard.md has the formulas.",
        f"[{prefix}]",
        f"delay_ms = {delay_ms:g}",
        "# heartbeat_ms = 100             # stop where no command comes for so long: some periods of the controller",
    ]
    for k, (joint, keys) in enumerate(table.items()):
        slower = worst.velocity[k] < 0.99 * worst.fastest[k]
        about = {
            "lower": f"{worst.lower[k]:.4g} in the model; the margin is left to the joint's own limit",
            "upper": f"{worst.upper[k]:.4g} in the model",
            "velocity": f"{worst.fastest[k]:.4g} in the model{FASTER if slower else ''}",
            "deceleration": f"effort {worst.effort[k]:.4g} in the model; gravity takes {worst.holding[k]:.4g}",
            "free_acceleration": "by the efforts of all joints, in the worst directions",
            "modes": "efforts accelerate the joint too much within the delay",
            "margin": f"its servo swings by {worst.swing[k]:.3g}; falling, it accelerates by {worst.fall[k]:.3g}",
            "velocity_margin": f"accelerated by {worst.free_acceleration[k]:.4g} for the delay; swing of its servo",
        }
        lines += ["", f"[{prefix}.joints.{_key(joint)}]"]
        for key, value in keys.items():
            text = f"{key} = {_value(value)}"
            lines.append(f"{text:33}  # {about[key]}" if key in about else text)
    return lines


def _key(name: str) -> str:
    bare = name.replace("_", "").replace("-", "").isalnum() and name.isascii()
    return name if bare else _value(name)


def _value(value: Any) -> str:
    return msgspec.json.encode(value).decode().replace('","', '", "')
