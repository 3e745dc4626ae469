"""`armswing estop`: stops the actuators of all robots of a launch."""

from __future__ import annotations

from typing import Annotated

import typer

from nodes.cli.terminal import AsJson, Domain, UnavailableError, print_json, print_table
from nodes.framework.client import Client


def add_to(app: typer.Typer) -> None:
    """Add the command `estop`."""
    app.command(epilog="Example: armswing estop")(estop)


def estop(
    reason: Annotated[str, typer.Option("--reason", help="Reason, for the recording.")] = "emergency stop",
    release: Annotated[bool, typer.Option("--release", help="End the stop: commands are accepted again.")] = False,
    domain: Domain = None,
    as_json: AsJson = False,
) -> None:
    """Stop the actuators of all robots of the launch. The command works on any of the launch's computers.

    The simulation puts the actuators into their safe mode, a guard brakes its robot to a standstill, and a driver
    without a guard gets no more commands. The simulation, guards and drivers refuse commands until `armswing estop
    --release`. Exit code 1 if one of these nodes does not answer.
    """
    with Client(domain) as client:
        answers = client.estop(reason, release)
    if as_json:
        print_json(answers)
    else:
        done = "released" if release else "stopped"
        rows = [(each.node, each.error or each.how or done, f"{each.ms:.1f} ms") for each in answers]
        print_table(("node", "what", "after"), rows)
    missing = [each.node for each in answers if each.error]
    if missing or not answers:
        what = ", ".join(missing) or "the launch"
        if release:
            raise UnavailableError(
                f"{what} did not confirm the end of the stop; give 'armswing estop --release' again, or start the "
                "launch again"
            )
        raise UnavailableError(f"{what} did not stop; press the emergency switch of the robot")
