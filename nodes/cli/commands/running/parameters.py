"""`armswing param`: lists, reads and sets the parameters of live nodes."""

from __future__ import annotations

import contextlib
from typing import Annotated, Any

import typer

from nodes.cli.terminal import AsJson, Domain, InputError, NegativeNumbers, parse_value, print_json, print_line
from nodes.framework.client import Client
from nodes.framework.transport.service import ServiceError
from sim_core.support.suggestion import did_you_mean

app = typer.Typer(epilog="Example: armswing param list swing_up", no_args_is_help=True)


def _apart(context: typer.Context, node: str, value: str = "") -> None:
    """Raise InputError if a node is written as NODE.KEY, which is the form of `launch --set`.

    The message shows the command with a space in place of the dot.
    """
    name, dot, key = node.partition(".")
    if dot:
        line = f"param {context.info_name} {name} {key} {value}".rstrip()
        raise InputError(f"node {node!r} contains a dot; write `{line}`, with a space between node and parameter")


def _node_alone(context: typer.Context, node: str) -> str:
    _apart(context, node)
    return node


NodeName = Annotated[str, typer.Argument(help="Name of a node, as `armswing node list` prints it.", show_default=False)]
Key = Annotated[str, typer.Argument(help="A parameter, as `armswing param list NODE` prints it.", show_default=False)]


def _parameters(domain: int | None, node: str) -> dict[str, Any]:
    with Client(domain) as client:
        found: dict[str, Any] = client.call(node, "get_parameters")
        return found


def _require_parameter(key: str, parameters: dict[str, Any], node: str) -> None:
    if key not in parameters:
        there = ", ".join(sorted(parameters)) or "none"
        raise InputError(
            f"node {node!r} has no parameter {key!r}; its parameters are {there}{did_you_mean(key, parameters)}"
        )


@app.command("list", epilog="Example: armswing param list swing_up")
def list_parameters(
    node: Annotated[
        str | None, typer.Argument(help="Name of a node; without a name, all nodes.", show_default=False)
    ] = None,
    domain: Domain = None,
    as_json: AsJson = False,
) -> None:
    """List all parameters and their values, of one node or of all nodes."""
    if node is None:
        _list_all(domain, as_json)
        return
    parameters = _parameters(domain, node)
    if as_json:
        print_json(parameters)
    elif not parameters:
        what = "tunables: no number of this robot can be changed in a run" if node == "sim" else "parameters"
        print_line(f"node {node!r} has no {what}")
    else:
        for key, value in parameters.items():
            print_line(f"{key} = {_toml(value)}")


def _list_all(domain: int | None, as_json: bool) -> None:
    """Print `NODE KEY = VALUE` for every parameter of every live node."""
    found: dict[str, dict[str, Any]] = {}
    with Client(domain) as client:
        for entry in client.nodes():
            with contextlib.suppress(ServiceError):  # a node of another program may have no parameters
                found[entry.name] = client.call(entry.name, "get_parameters")
    if as_json:
        print_json(found)
        return
    for name, parameters in found.items():
        for key, value in parameters.items():
            print_line(f"{name} {key} = {_toml(value)}")
    if not any(found.values()):
        print_line(f"no node has parameters; live are {', '.join(found) or 'none'}")


@app.command("get", epilog="Example: armswing param get swing_up torque_limit")
def get_parameter(
    node: Annotated[
        str,
        typer.Argument(
            help="Name of a node, as `armswing node list` prints it.", show_default=False, callback=_node_alone
        ),
    ],
    key: Key,
    domain: Domain = None,
    as_json: AsJson = False,
) -> None:
    """Print the value of one parameter."""
    parameters = _parameters(domain, node)
    _require_parameter(key, parameters, node)
    if as_json:
        print_json(parameters[key])
    else:
        print_line(_toml(parameters[key]))


@app.command("set", epilog="Example: armswing param set swing_up torque_limit 0.04", cls=NegativeNumbers)
def set_parameter(
    node: NodeName,
    key: Annotated[
        str, typer.Argument(help="A parameter, as `armswing param list NODE` prints it.", show_default=False)
    ],
    value: Annotated[
        str | None, typer.Argument(help="New value, written as in TOML: 0.04, true, [1, 2].", show_default=False)
    ] = None,
    domain: Domain = None,
    as_json: AsJson = False,
) -> None:
    """Change one parameter of a running node. NODE.KEY VALUE is accepted in place of NODE KEY VALUE."""
    if value is None:
        name, dot, rest = node.partition(".")
        if not dot:
            name, equals, rest = key.partition("=")
            if equals:
                raise InputError(
                    f"the parameter name {key!r} has an equals sign; write `param set {node} {name} {rest}`"
                )
            raise InputError(f"the value is missing; write `param set {node} {key} VALUE`")
        node, key, value = name, rest, key
    with Client(domain) as client:
        parameters = client.call(node, "get_parameters")
        _require_parameter(key, parameters, node)
        client.call(node, "set_parameters", **{key: parse_value(value)})
        now = client.call(node, "get_parameters")
    if as_json:
        print_json(now)
    else:
        print_line(f"{node}.{key} = {_toml(now[key])}")


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f'"{value}"' if isinstance(value, str) else str(value)
