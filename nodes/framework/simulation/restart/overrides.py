"""Overrides that give the plan of a launch file the values with which a run was recorded."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from nodes.framework.plan.key_checks import PlanError
from nodes.framework.plan.launch_plan import NodePlan, Plan

# keys of [sim] that may differ: the run does not depend on them
FREE = ("host", "cpu", "realtime_priority", "deadline_ms", "snapshot_s", "speed", "overrun_policy", "robot")
OF_NODES = ("decimation", "compute_ms", "link", "params")


def recorded_overrides(recorded: Plan, plan: Plan) -> list[str]:
    """Overrides such as "sim.mode=lockstep", one for each value of the plan that differs from the recorded plan.

    Compared are the seed, the keys of [sim] on which the run depends, and the parameters, links and computing times of
    the nodes that both plans have. A parameter of a node that only `plan` has is left out: the node then starts anew.
    Raises PlanError with a one-line message for a key of [sim] that is set in `plan` and not in the recorded plan,
    because no override removes a key.
    """
    found = [] if recorded.seed == plan.seed else [f"seed={recorded.seed}"]
    before, after = (msgspec.to_builtins(each.sim) for each in (recorded, plan))
    for key in before:
        if key not in FREE:
            found += _changes(f"sim.{key}", before[key], after[key], key == "parameters")
    nodes = {node.name: node for node in plan.nodes}
    for node in recorded.nodes:
        if node.name in nodes:
            found += _node_changes(node, nodes[node.name])
    return found


def _node_changes(recorded: NodePlan, node: NodePlan) -> Iterator[str]:
    before, after = msgspec.to_builtins(recorded), msgspec.to_builtins(node)
    for key in OF_NODES:
        if not isinstance(before[key], dict):
            yield from _changes(f"{node.name}.{key}", before[key], after[key], False)
            continue
        for name, value in before[key].items():
            if name not in after[key] or after[key][name] != value:
                yield override_text(f"{node.name}.{name}" if key == "params" else f"{node.name}.{key}.{name}", value)


def _changes(target: str, before: Any, after: Any, by_key: bool) -> Iterator[str]:
    """Overrides that change the value of the key `target` in the plan from `after` to the recorded value `before`.

    by_key  whether the two values are tables, each key of which gets an override of its own
    """
    if before == after:
        return
    if by_key and isinstance(before, Mapping) and isinstance(after, Mapping):
        for key in {**before, **after}:
            yield from _changes(f"{target}.{key}", before.get(key), after.get(key), False)
    elif before is None:
        now = json.dumps(after)
        raise PlanError(f"{target} is {now} in the launch file and not set in the recording; take it out of the file")
    else:
        yield override_text(target, before)


def override_text(target: str, value: Any) -> str:
    """Text of the override `--set target=value`."""
    return f"{target}={_toml(value, bare=True)}"


def _toml(value: Any, bare: bool = False) -> str:
    """A value in TOML notation.

    bare  whether strings have no quotation marks, except those that TOML would read as a number, a date or a boolean
    """
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{json.dumps(key)} = {_toml(each)}" for key, each in value.items()) + " }"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_toml(each) for each in value) + "]"
    if isinstance(value, str) and bare and _is_bare(value):
        return value
    return json.dumps(value, ensure_ascii=False)


def _is_bare(text: str) -> bool:
    """Whether `text`, written without quotation marks as the value of an override, is read as this string."""
    try:
        tomllib.loads(f"value = {text}")
    except ValueError:
        return text.strip() == text != ""
    return False
