"""`armswing replay`: feeds a recorded run to one node and compares the node's messages with the recorded ones."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from nodes.cli.terminal import AsJson, InputError, parse_assignments, print_json, print_line, require_recording, warn
from nodes.framework.plan.node_classes import load_class
from nodes.framework.simulation.replay.comparison import NOT_COMPARED, Tolerances
from sim_core.support.suggestion import did_you_mean

if TYPE_CHECKING:
    from nodes.node import Node

EPILOG = "Example: armswing replay demo.mcap --node nodes/controllers/swing_up.py:SwingUp --tolerance value=1e-9"
SHOWN = 8  # most fields listed of the first message that differs


def add_to(app: typer.Typer) -> None:
    """Add the command `replay`."""
    app.command(epilog=EPILOG)(replay)


def replay(
    recording: Annotated[Path, typer.Argument(help="A recording of a launch (.mcap).", show_default=False)],
    node: Annotated[str, typer.Option("--node", help="The node: path/to/file.py:Class.", show_default=False)],
    name: Annotated[
        str | None,
        typer.Option("--as", help="Name of the recorded node to replace.", show_default="the node of the same class"),
    ] = None,
    param: Annotated[
        list[str] | None,
        typer.Option(
            "--param", help="key=value of a parameter, instead of the recorded value. Repeatable.", show_default=False
        ),
    ] = None,
    tolerance: Annotated[
        list[str] | None,
        typer.Option(
            "--tolerance",
            help="Largest permitted difference: 1e-9 for all fields, or FIELD=1e-9 for one field. Repeatable.",
            show_default="0",
        ),
    ] = None,
    from_: Annotated[
        float | None,
        typer.Option(
            "--from", help="Simulation time (s) from which messages are compared.", show_default="the beginning"
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Feed a recorded run to one node, without sockets, and compare the node's messages with the recorded messages.

    Exit code 0 if all messages are the same, 1 if one differs; the first difference is printed. A tolerance is relative
    for numbers above 1. A lockstep run is repeated step by step; in any other run, the messages are fed in the order of
    the file. With --from, the node begins with its state in the latest snapshot before the given time. If the node's
    code or parameters differ from the recorded ones, the node begins without this state.
    """
    from nodes.framework.simulation.replay import replay as replays

    require_recording(recording)
    tolerances = _tolerances(tolerance or [])
    cls = load_class(node, Path.cwd())
    _check_fields(tolerances.fields, cls)
    lines, metadata = replays.read_lines(recording)
    plan = replays.plan_of(metadata, recording)
    node_plan = replays.node_of(plan, node, name, parse_assignments(param or [], "--param"))
    start = None
    if from_ is not None:
        from nodes.framework.simulation.restart.finding import read_replay_start

        if plan.sim.mode != "lockstep":
            raise InputError(
                f"--from: a launch in mode {plan.sim.mode!r} records no snapshots; record a launch in mode 'lockstep'"
            )
        start, why = read_replay_start(recording, from_, plan, node_plan)
        if why:
            warn(f"node {node_plan.name!r} starts fresh: {why}")
    outcome = replays.replay(lines, plan, node_plan, tolerances, start)
    if as_json:
        print_json({"same": outcome.same, **_plain(outcome)})
    else:
        _print(outcome)
    raise typer.Exit(0 if outcome.same else 1)


def _tolerances(texts: list[str]) -> Any:
    default, fields = 0.0, {}
    for text in texts:
        name, equals, number = text.rpartition("=")
        try:
            value = float(number)
        except ValueError:
            value = -1.0
        if not 0.0 <= value < float("inf") or (equals and not name):
            raise InputError(
                f"--tolerance {text!r}: expected a number of at least 0, such as 1e-9 for all "
                "fields, or FIELD=1e-9 for one field"
            )
        if name:
            fields[name] = value
        else:
            default = value
    return Tolerances(default, fields)


def _check_fields(names: Iterable[str], cls: type[Node]) -> None:
    """Raise InputError if a tolerance names a field that no message of the node has."""
    fields = {field for message in cls.publishes.values() for field in message.__struct_fields__} - NOT_COMPARED
    for name in names:
        if fields and name.partition(".")[0] not in fields:
            known = ", ".join(sorted(fields))
            hint = did_you_mean(name.partition(".")[0], fields)
            raise InputError(
                f"--tolerance {name}: {cls.__name__} publishes no such field; its fields are {known}{hint}"
            )


def _plain(outcome: Any) -> dict[str, Any]:
    plain: dict[str, Any] = msgspec.to_builtins(outcome)
    return plain


def _print(outcome: Any) -> None:
    print_line(f"{outcome.node} ({outcome.run}), {outcome.mode}: received {outcome.heard} messages")
    if outcome.compared == 0:
        print_line("nothing could be compared: the node published none of the recorded messages")
    elif outcome.same:
        print_line(f"{outcome.compared} messages compared, none differs")
    if outcome.differing:
        print_line(f"{outcome.compared} messages compared, {outcome.differing} differ; the first:")
        for difference in outcome.first[:SHOWN]:
            print_line(f"  {difference.text}")
        if len(outcome.first) > SHOWN:
            print_line(f"  and {len(outcome.first) - SHOWN} more fields of this message")
    apart = {name: value for name, value in outcome.worst.items() if value > 0.0}
    if apart:
        print_line("largest differences: " + ", ".join(f"{name} {value:.3g}" for name, value in sorted(apart.items())))
    if outcome.unanswered:
        print_line(
            f"{outcome.unanswered} messages were published in the replay only: in real time a node may lose messages"
        )
    if outcome.crossed:
        print_line(f"{outcome.crossed} times the node must have received messages in another order than the recorder")
    if outcome.refused:
        print_line(f"{outcome.refused} messages were refused as invalid")
