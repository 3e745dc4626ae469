"""Overrides of the command line, `--set node.key=value`, applied to the tables of a launch file."""

from __future__ import annotations

import tomllib
from typing import Any

from nodes.framework.plan.files.document import TOO_DEEP, is_deeper
from nodes.framework.plan.files.including import Entry, Tables
from nodes.framework.plan.key_checks import PlanError, suggestion
from nodes.framework.plan.launch_plan import DEPTH, PLAIN_KEYS, NodePlan, SimPlan
from sim_core.support.suggestion import did_you_mean, nearest


def override(tables: Tables, text: str) -> None:
    """Apply one override, such as "planner.tolerance_mm=30", "sim.step_ms=1" or "seed=3", to the tables.

    The part before the first dot is "sim", "hosts" or the name of a node. A key that is not a key of [[nodes]] is
    taken as a parameter of the node. Where included simulations have namespaces, "sim.key=value" applies to all
    simulations. Raises PlanError for an unknown node or key.
    """
    target, equals, given = text.partition("=")
    owner, dot, key = target.strip().partition(".")
    if not equals or not owner or (dot and not key):
        raise PlanError(f"--set {text!r} is incomplete; write node.key=value, sim.key=value or seed=value")
    value = _value(target, given)
    if not dot:
        _set_plain(tables, owner, value, text)
    elif owner == "hosts":
        _set_host(tables, key, value, text)
    elif owner == "sim" and tables.parts:  # one clock, one mode
        for part in tables.parts.values() if tables.sim is None else (tables, *tables.parts.values()):
            _set_in(part.of_sim(), "sim", key, value, text)
    else:
        _set_in(_owner(tables, owner, text), owner.rpartition("/")[2], key, value, text)


def _value(target: str, given: str) -> Any:
    try:
        value = tomllib.loads(f"value = {given}")["value"]
    except RecursionError:
        raise PlanError(f"--set {target}: {TOO_DEEP}") from None
    except ValueError:
        return given.strip()  # a bare word is a string: the shell eats the quotes
    if is_deeper(value, DEPTH - 2):
        raise PlanError(f"--set {target}: {TOO_DEEP}")
    return value


def _set_plain(tables: Tables, key: str, value: Any, text: str) -> None:
    if key not in PLAIN_KEYS:
        names = ", ".join(["sim", *_names(tables)])
        hint = f"{key!r} alone is no key; nodes are {names}"
        if key in tables.arguments:
            hint = f"{key!r} is an argument, written {text} after the file, without --set"
        raise PlanError(f"--set {text!r}: write node.key=value; {hint}")
    tables.source.lines.forget((key,))
    tables.plain[key] = Entry({key: value}, tables.source, tables.source.file.parent)


def _set_host(tables: Tables, key: str, value: Any, text: str) -> None:
    entry = tables.plain.setdefault("hosts", Entry({"hosts": {}}, tables.source, tables.source.file.parent))
    hosts = entry.table["hosts"]
    if not isinstance(hosts, dict):
        return  # refused when the plan is made
    if hosts and key not in hosts:
        raise PlanError(f"--set {text!r}: [hosts] has no {key!r}{suggestion(key, hosts)}")
    entry.source.lines.forget(("hosts", key))
    hosts[key] = value


def _set_in(entry: Entry, owner: str, key: str, value: Any, text: str) -> None:
    if owner == "sim" and (first := key.partition(".")[0]) not in SimPlan.__struct_fields__:
        near, rest = nearest(first, SimPlan.__struct_fields__), key.partition(".")[2]
        if first in PLAIN_KEYS:
            meant = f"; it is a key outside of the tables: write {first}={text.partition('=')[2]}"
        elif rest and near:
            meant = f"; did you mean sim.{near}.{rest}={text.partition('=')[2]}?"
        else:
            hint = did_you_mean(first, SimPlan.__struct_fields__)
            meant = f"{hint}; a parameter of the robot is set by sim.parameters.{first}=value"
        raise PlanError(f"--set {text!r}: [sim] has no key {first!r}{meant}")
    if owner != "sim" and key.partition(".")[0] not in NodePlan.__struct_fields__:
        key = f"params.{key}"
    table = entry.table
    *path, last = key.split(".", 1) if owner == "sim" else key.split(".")  # a robot's parameter has no keys of its own
    for part in path:
        table = table.setdefault(part, {})
        if not isinstance(table, dict):
            raise PlanError(f"--set {text!r}: {part!r} is not a table, so that it has no keys to set")
    table[last] = value
    entry.source.lines.forget((*entry.source.path, *path, last))


def _owner(tables: Tables, owner: str, text: str) -> Entry:
    if owner == "sim":
        if tables.sim is None:
            tables.sim = Entry({}, tables.source.table("[sim]", "sim"), tables.source.file.parent)
        return tables.sim
    namespace, _, name = owner.rpartition("/")
    if name == "sim" and namespace in tables.parts:
        return tables.parts[namespace].of_sim()
    for entry in tables.nodes:
        if entry.name == owner:
            return entry
    where = f"{tables.source.file}: --set {text!r}"
    if owner in tables.switched_off:
        raise PlanError(
            f"{where}: node {owner!r} is switched off by the 'if' at {tables.switched_off[owner].place()}; leave out "
            "this --set"
        )
    raise PlanError(f"{where}: there is no node {owner!r}{suggestion(owner, ['sim', *_names(tables)])}")


def _names(tables: Tables) -> list[str]:
    return [*(f"{namespace}/sim" for namespace in tables.parts), *(entry.name for entry in tables.nodes)]
