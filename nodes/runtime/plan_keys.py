"""Every key of a launch file with its default and its unit, from the plan's own schema."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from nodes.runtime.plan import Milestone, NodePlan, Plan, SimPlan, type_text
from sim_core.integrators.steppers import STEPPERS
from sim_core.stabilization.stabilizers import STABILIZERS

# What no name or type says. A test asks for a line for each key, and for no other.
ABOUT = {
    "": {
        "name": "what the plan is called; by default as its file",
        "seed": "of all randomness of its nodes",
        "domain": "which of several launches on this computer, 0 .. 232; --domain goes before it",
        "duration_s": "s of simulation time, then the run ends; without it, Ctrl-C does; --duration goes before it",
    },
    "[sim]": {
        "robot": "one of `armswing robot list`",
        "parameters": "of the robot, as `armswing robot show` lists them",
        "mode": "paced by the clock, as fast as it goes, or each step waits for every node: the same bytes each time",
        "step_ms": "ms, the integration step",
        "stepper": "the method of integration",
        "stabilizer": "what holds closed loops together",
        "watchdog_ms": "ms without a command before the safe mode; 100 in realtime, else never; 0 or false: never",
        "safe_mode": "what the actuators do when their commander is silent",
        "speed": "simulated seconds per second of the clock in realtime, 0.001 .. 1000",
        "rate_hz": "Hz of the state in simulation time; without it, every step",
        "poses_hz": "Hz of the bodies' poses in simulation time",
        "deadline_ms": "ms that lockstep waits for one node's answer",
    },
    "[[nodes]]": {
        "name": "of your choice, once in a plan",
        "run": '"path/to/file.py:ClassName", from the folder above launch/, or the launch file\'s own',
        "every": "steps between two turns of the node in lockstep",
        "restart": "whether it is started again when it ends; never in lockstep",
        "max_restarts": "how often at most",
        "params": "of the node, its class `Params` says which",
        "host": "this computer; no other yet",
    },
    "[[milestones]]": {
        "name": "of your choice",
        "joint": "whose position is watched",
        "target_deg": "degrees, modulo 360",
        "tolerance_deg": "degrees to either side",
        "hold_s": "s of simulation time that it has to stay there",
        "required": "whether the exit code is 1 when it is missed",
        "after": "name of another milestone: this one counts only once that one was reached",
    },
}
TABLES: dict[str, type[msgspec.Struct]] = {
    "": Plan,
    "[sim]": SimPlan,
    "[[nodes]]": NodePlan,
    "[[milestones]]": Milestone,
}
NOT_IN_A_FILE = {"": ("sim", "nodes", "milestones", "folder")}


def keys(table: str) -> Iterator[tuple[str, str, str, str]]:
    """(key, type, default, what it is) of a table of TABLES."""
    methods: dict[str, Iterable[str]] = {}
    if table == "[sim]":
        methods = {"stepper": STEPPERS, "stabilizer": STABILIZERS}
    for field in msgspec.structs.fields(TABLES[table]):
        if field.name not in NOT_IN_A_FILE.get(table, ()):
            about = ABOUT[table].get(field.name, "")
            names = f": {', '.join(methods[field.name])}" if field.name in methods else ""
            yield field.name, type_text(field.type), _default(table, field), about + names


def _default(table: str, field: msgspec.structs.FieldInfo) -> str:
    if field.required:
        return "its file's" if (table, field.name) == ("", "name") else "required"
    if field.default_factory is not msgspec.NODEFAULT:
        return msgspec.json.encode(field.default_factory()).decode()
    return "-" if field.default is None else msgspec.json.encode(field.default).decode()
