"""`armswing node`: lists the live nodes and shows their state."""

from __future__ import annotations

import contextlib
from typing import Annotated, Any

import typer

from nodes.cli.terminal import AsJson, Domain, print_json, print_line, print_table
from nodes.framework.client import Client, guard_state, lost_messages
from nodes.framework.transport.service import ServiceError, ServiceTimeout

NO_ANSWER = "no answer"
ANSWER_S = 1.0  # longest wait for the status of a node

app = typer.Typer(epilog="Example: armswing node list", no_args_is_help=True)


@app.command("list", epilog="Example: armswing node list --json")
def list_nodes(domain: Domain = None, as_json: AsJson = False) -> None:
    """List name, process, state, endpoints and lost messages of every node, and what the guards do.

    The state of a node that does not answer is "no answer", with the time for which it has been silent: its process
    stands still or is busy.
    """
    with Client(domain) as client:
        found = [_describe(client, entry) for entry in client.nodes()]
    if as_json:
        print_json(found)
        return
    hosts, has_guard = {n["host"] for n in found}, any(n["guard"] for n in found)
    print_table(
        (
            "node",
            *(["host"] if len(hosts) > 1 else []),
            *("pid", "state", "lost", "publishes"),
            *(["guard"] if has_guard else []),
        ),
        [
            (
                n["name"],
                *([n["host"]] if len(hosts) > 1 else []),
                str(n["pid"]),
                _state(n),
                "-" if n["lost"] is None else str(n["lost"]),
                " ".join(n["publishes"]),
                *([n["guard"].text() if n["guard"] else "-"] if has_guard else []),
            )
            for n in found
        ],
    )


@app.command("info", epilog="Example: armswing node info swing_up")
def node_info(
    name: Annotated[str, typer.Argument(help="Name of a node, as `armswing node list` prints it.", show_default=False)],
    domain: Domain = None,
    as_json: AsJson = False,
) -> None:
    """Show the endpoints, topics, counters, timing and parameters of one node."""
    with Client(domain) as client:
        info = _describe(client, client.node(name))
        info["status"] = client.call(name, "status")
        info["parameters"] = {}
        with contextlib.suppress(ServiceError):  # a node of another program may have no parameters
            info["parameters"] = client.call(name, "get_parameters")
    if as_json:
        print_json(info)
        return
    info["guard"] = info["guard"].text() if info["guard"] else None
    for key, value in _nonempty(info).items():
        if isinstance(value, dict):
            print_line(key)
            rows = _nonempty(value)
            width = max(map(len, rows), default=0)
            for inner, text in rows.items():
                print_line(f"  {inner:<{width}}  {_text(text)}")
        else:
            print_line(f"{key:<9}  {_text(value)}")


def _nonempty(rows: dict[str, Any]) -> dict[str, Any]:
    """Return the table rows {name: value} without those that have no value.

    A row with None or an empty text, list or map is left out; a row with the number 0 is kept.
    """
    return {key: value for key, value in rows.items() if value not in (None, "", [], {})}


def _text(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {item}" for key, item in value.items())
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)


def _state(node: dict[str, Any]) -> str:
    """A node's state as text, such as "ready" or "no answer for 12 s"."""
    return f"{node['state']} for {node['silent_s']:.0f} s" if node["silent_s"] else str(node["state"])


def _describe(client: Any, entry: Any) -> dict[str, Any]:
    """Description of a node: its registry entry and, if the node replies, its state, its number of lost messages and
    the state of its guard.

    A node that does not reply has the state NO_ANSWER. `silent_s` is the time for which a node has been silent (s), 0
    for all others: the time since it renewed its entry or, where it does so while its calls wait, the wait of a call.
    """
    status: dict[str, Any] | None = None
    state, silent_s = entry.state, 0.0
    with contextlib.suppress(Exception):  # an ending node is listed too, with the state that the registry has
        try:
            status = client.call(entry.name, "status", timeout_s=ANSWER_S)
        except ServiceTimeout:
            latest = {node.name: node for node in client.nodes()}[entry.name]
            state, silent_s = NO_ANSWER, max(latest.silent_s, ANSWER_S)
    return {
        "name": entry.name,
        "pid": entry.pid,
        "host": entry.host,
        "state": (status or {}).get("state") or state,
        "silent_s": silent_s,
        "endpoints": entry.endpoints,
        "publishes": list(entry.publishes),
        "subscribes": list(entry.subscribes),
        "lost": lost_messages(status) if status is not None else None,
        "guard": guard_state(status) if status is not None else None,
    }
