"""The launch plan: what a launch file says, checked before any process starts.

Every error is a `PlanError`: one line that names the file, the node and the key, and what would be right.
"""

from __future__ import annotations

import difflib
import enum
import math
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args, get_origin

import msgspec

from sim_core.tables import misfit

Mode = Literal["realtime", "fast", "lockstep"]
SPEED_MIN, SPEED_MAX = 1e-3, 1e3  # simulated seconds per wall second that a pacer keeps
WATCHDOG_S = 0.1  # in realtime, where nothing else is asked for
PLAN_FILE = "plan.json"  # of a live launch, in its domain's folder
PLAIN_KEYS = ("seed", "domain", "duration_s", "name")  # of a launch file, outside of its tables
NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
LOCAL = "localhost"  # the host of a launch that has one

T = TypeVar("T", bound=msgspec.Struct)


class PlanError(ValueError):
    """A plan that cannot run; the only argument is one line for a person."""


class SimPlan(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """The simulation server.

    stepper, stabilizer  a name, or a table of name and parameters
    watchdog_ms  silence of a commanding node before its actuators go into safe_mode, in simulation time, in the clock's
                 where that goes faster; 0 or false: never; None: 100 in realtime, otherwise never
    safe_mode    "zero_effort"; "hold": servos keep their joints where they are, other actuators their effort
    speed        simulated seconds per wall second in realtime, 0.001 .. 1000
    rate_hz      of the state, in simulation time, None: every step
    deadline_ms  how long lockstep waits for one participant's reply
    host         where the server and the registry run, one of [hosts]; the only host where there are none
    deadline     what becomes of steps in realtime that are late by a period or more: left out, taken at once, the end
    cpu          core of the server's loop, None: any
    realtime_priority  SCHED_FIFO for the server's loop, where that is permitted
    """

    robot: str
    parameters: dict[str, float | str] = {}
    mode: Mode = "realtime"
    step_ms: float = 1.0
    stepper: str | dict[str, Any] = "rk4"
    stabilizer: str | dict[str, Any] = "sampled_fuzzy"
    watchdog_ms: float | bool | None = None
    safe_mode: Literal["zero_effort", "hold"] = "zero_effort"
    speed: float = 1.0
    rate_hz: float | None = None
    poses_hz: float = 60.0
    deadline_ms: float = 1000.0
    host: str = LOCAL
    deadline: Literal["skip", "catch_up", "stop"] = "skip"
    cpu: int | None = None
    realtime_priority: bool = False

    @property
    def step_s(self) -> float:
        """The simulation step, seconds."""
        return self.step_ms * 1e-3

    def method_text(self) -> str:
        """Stepper, stabilizer and step, in words."""
        return f"{_method_text(self.stepper)}, {_method_text(self.stabilizer)}, steps of {self.step_ms:g} ms"

    def make_stepper(self) -> Any:
        """The stepper asked for; InvalidRequest where there is none."""
        from sim_core.integrators.steppers import stepper_named

        return _made(stepper_named, self.stepper)

    def make_stabilizer(self) -> Any:
        """The stabilizer asked for; InvalidRequest where there is none."""
        from sim_core.stabilization.stabilizers import stabilizer_named

        return _made(stabilizer_named, self.stabilizer)

    @property
    def watchdog_s(self) -> float | None:
        """Seconds of silence before the safe mode, None for never."""
        if self.watchdog_ms is None:
            return WATCHDOG_S if self.mode == "realtime" else None
        return self.watchdog_ms * 1e-3 or None


def _method_text(asked: str | dict[str, Any]) -> str:
    """ "baumgarte (alpha = 5, beta = 12)"."""
    if isinstance(asked, str):
        return asked
    rest = ", ".join(f"{key} = {value}" for key, value in asked.items() if key != "name")
    return f"{asked['name']} ({rest})" if rest else str(asked["name"])


def _made(named: Callable[..., Any], asked: str | dict[str, Any]) -> Any:
    table = {"name": asked} if isinstance(asked, str) else dict(asked)
    return named(str(table.pop("name")), **table)


class NodePlan(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """One node process. `every`: called on each n-th step in lockstep; `host`: by default the server's.

    cpu, realtime_priority  as of the server
    """

    name: str
    run: str
    every: int = 1
    restart: Literal["never", "on-failure", "always"] = "never"
    max_restarts: int = 3
    params: dict[str, Any] = {}
    host: str = LOCAL
    cpu: int | None = None
    realtime_priority: bool = False


class Milestone(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Reached when `joint` has stayed within tolerance of target (modulo 360 degrees) for hold_s.

    after  the name of another milestone: this one counts only once that one was reached; "" for none
    """

    name: str
    joint: str
    target_deg: float
    tolerance_deg: float = 10.0
    hold_s: float = 1.0
    required: bool = True
    after: str = ""


class Plan(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A whole launch. `folder`: where relative paths of `run` resolve first; `hosts`: {name: address in numbers}."""

    name: str
    sim: SimPlan
    nodes: list[NodePlan] = []
    milestones: list[Milestone] = []
    seed: int = 0
    domain: int = 0
    duration_s: float | None = None
    folder: str = "."
    hosts: dict[str, str] = {}

    def nodes_on(self, host: str) -> list[NodePlan]:
        """The nodes that run on a host."""
        return [node for node in self.nodes if node.host == host]

    def node(self, name: str) -> NodePlan:
        """The node of that name; PlanError names those there are."""
        for node in self.nodes:
            if node.name == name:
                return node
        raise PlanError(f"plan {self.name!r} has no node {name!r}; its nodes are {[n.name for n in self.nodes]}")


def load_plan(path: str | Path, overrides: Sequence[str] = ()) -> Plan:
    """The checked plan of a launch file, with "node.key=value" and "sim.key=value" overrides applied."""
    from nodes.runtime.plan_check import check_plan

    file = Path(path)
    try:
        document = tomllib.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise PlanError(f"{file}: no such launch file") from None
    except (OSError, UnicodeDecodeError) as error:
        raise PlanError(f"{file}: cannot be read: {error}") from None
    except tomllib.TOMLDecodeError as error:
        raise PlanError(f"{file}: not valid TOML: {error}") from None
    for override in overrides:
        _override(document, override, str(file))
    plan = _plan(document, file)
    check_plan(plan, file)
    return plan


def save_plan(plan: Plan, path: Path) -> None:
    """Write the plan as JSON, for the processes of a launch to read."""
    path.write_bytes(msgspec.json.format(msgspec.json.encode(plan)))


def read_plan(path: str | Path) -> Plan:
    """The plan that `save_plan` wrote; already checked, so only its shape is."""
    try:
        return msgspec.json.decode(Path(path).read_bytes(), type=Plan)
    except (OSError, msgspec.MsgspecError) as error:
        raise PlanError(f"{path}: not a saved plan: {error}") from None


def project_folder(file: Path) -> Path:
    """The folder that holds launch/, for a file in launch/ or below it; otherwise the file's own."""
    for parent in file.resolve().parents:
        if parent.name == "launch":
            return parent.parent
    return file.resolve().parent


def suggestion(word: str, known: Iterable[str]) -> str:
    """ "; did you mean 'step_ms'?" or, when nothing is near, the list of what there is."""
    names = sorted(known)
    return near_word(word, names) or f"; known are {', '.join(names)}"


def near_word(word: str, known: Sequence[str]) -> str:
    """ "; did you mean 'step_ms'?" or, when nothing is near, nothing."""
    near = difflib.get_close_matches(word, known, n=1, cutoff=0.6)
    return f"; did you mean {near[0]!r}?" if near else ""


def convert(value: Mapping[str, Any], kind: type[T], where: str) -> T:
    """`value` as a `kind` struct; PlanError names `where`, the key and the nearest known key.

    Numbers are finite, except in a field whose default is not; a table of anything is checked where it is used.
    """
    fields = {field.encode_name: field for field in msgspec.structs.fields(kind)}
    value = worded(value, kind)
    for key, item in value.items():
        if key not in fields:
            raise PlanError(f"{where}: unknown key {key!r}{suggestion(key, fields)}")
        if not (_is_finite(item) or fields[key].type == dict[str, Any] or not _is_finite(fields[key].default)):
            raise PlanError(f"{where}: key {key!r}: {item} is not finite")
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        text, _, key = str(error).partition(" - at `$")
        key = key.rstrip("`").lstrip(".")
        field, part = _key_and_rest(key)
        allowed = choices(fields[field].type) if field in fields else []
        if allowed and not part:
            text = f"{value[field]!r} is none of {', '.join(allowed)}{near_word(str(value[field]), allowed)}"
        elif line := misfit(value, kind):
            found, _, rest = line.partition(" is ")
            raise PlanError(f"{where}: key {found!r} is {rest}" if rest else f"{where}: {line}") from None
        raise PlanError(f"{where}: {f'key {key!r}: ' if key else ''}{text}") from None


def worded(value: Mapping[str, Any], kind: type[msgspec.Struct]) -> dict[str, Any]:
    """The values with TOML's nan and inf as the words that they are where `kind` asks for a word."""
    words = {field.encode_name for field in msgspec.structs.fields(kind) if field.type is str}
    return {
        key: str(item) if key in words and isinstance(item, float) and not math.isfinite(item) else item
        for key, item in value.items()
    }


def _key_and_rest(path: str) -> tuple[str, str]:
    """ "modes[0]" as ("modes", "[0]"), "mode" as ("mode", "")."""
    key = re.split(r"[.\[]", path, maxsplit=1)[0]
    return key, path[len(key) :]


def _is_finite(value: Any) -> bool:
    """Whether every number in a value as TOML and JSON know them is finite."""
    if isinstance(value, Mapping):
        return all(map(_is_finite, value.values()))
    if isinstance(value, list | tuple):
        return all(map(_is_finite, value))
    return not isinstance(value, float) or math.isfinite(value)


def choices(kind: Any) -> list[str]:
    """The values of a Literal or an enumeration, also of one that may be None or in a list; none for any other type."""
    if get_origin(kind) is Literal:
        return [str(choice) for choice in get_args(kind)]
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return [str(member.value) for member in kind]
    return [choice for part in get_args(kind) for choice in choices(part)]


def type_text(kind: Any) -> str:
    """A type as a person would write it: "number", "realtime | fast | lockstep", "list of number"."""
    if words := choices(kind):
        return " | ".join(words)
    name = getattr(kind, "__name__", str(kind))
    inner = [part for part in get_args(kind) if part is not type(None)]
    if name == "dict" or not inner:
        return {"float": "number", "int": "whole number", "str": "text", "bool": "true | false", "dict": "table"}.get(
            name, name
        )
    if name == "list":
        return f"list of {type_text(inner[0])}"
    return " or ".join(dict.fromkeys(map(type_text, inner)))


def _plan(document: dict[str, Any], file: Path) -> Plan:
    top = {"sim", "nodes", "milestones", "hosts", *PLAIN_KEYS}
    for key in document:
        if key not in top:
            raise PlanError(f"{file}: unknown key {key!r}{suggestion(key, top)}")
    sim = document.get("sim")
    if not isinstance(sim, dict):
        raise PlanError(f'{file}: a table [sim] with robot = "..." is missing')
    nodes = [
        convert(table, NodePlan, f"{file}: node {table.get('name', f'number {index}')!r}")
        for index, table in enumerate(_tables(document, "nodes", file), 1)
    ]
    milestones = [
        convert(table, Milestone, f"{file}: milestone {table.get('name', f'number {index}')!r}")
        for index, table in enumerate(_tables(document, "milestones", file), 1)
    ]
    rest: dict[str, Any] = {key: document[key] for key in ("seed", "domain", "duration_s", "hosts") if key in document}
    plan = convert(
        {
            "name": document.get("name", file.stem),
            "sim": {"robot": ""},
            "folder": str(project_folder(file)),
            **rest,
        },
        Plan,
        str(file),
    )
    plan.sim = convert(sim, SimPlan, f"{file}: [sim]")
    plan.nodes, plan.milestones = nodes, milestones
    return plan


def _tables(document: dict[str, Any], key: str, file: Path) -> list[dict[str, Any]]:
    tables = document.get(key, [])
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise PlanError(f"{file}: {key!r} is a list of tables, written [[{key}]]")
    return tables


def _override(document: dict[str, Any], override: str, where: str) -> None:
    """Apply one "owner.key=value"; a key that no node table has is one of the node's params."""
    target, equals, text = override.partition("=")
    owner, dot, key = target.strip().partition(".")
    if not equals or not owner or (dot and not key):
        raise PlanError(f"--set {override!r}: write node.key=value, sim.key=value or seed=value")
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        value = text.strip()  # a bare word is a string: the shell eats the quotes
    if not dot:
        if owner not in PLAIN_KEYS:
            names = ", ".join(["sim", *(str(table.get("name")) for table in _node_tables(document))])
            raise PlanError(f"--set {override!r}: write node.key=value; {owner!r} alone is no key; nodes are {names}")
        document[owner] = value
        return
    if owner == "hosts" and isinstance(hosts := document.setdefault("hosts", {}), dict):
        if hosts and key not in hosts:
            raise PlanError(f"--set {override!r}: [hosts] has no {key!r}{suggestion(key, hosts)}")
        hosts[key] = value
        return
    table = _owner(document, owner, override, where)
    if owner == "sim" and (first := key.partition(".")[0]) not in SimPlan.__struct_fields__:
        hint = near_word(first, SimPlan.__struct_fields__)
        raise PlanError(
            f"--set {override!r}: [sim] has no key {first!r}{hint}; one of the robot is sim.parameters.{first}=value"
        )
    if owner != "sim" and key not in NodePlan.__struct_fields__ and not key.startswith("params."):
        key = f"params.{key}"
    *path, last = key.split(".")
    for part in path:
        table = table.setdefault(part, {})
        if not isinstance(table, dict):
            raise PlanError(f"--set {override!r}: {part!r} is no table")
    table[last] = value


def _owner(document: dict[str, Any], owner: str, override: str, where: str) -> dict[str, Any]:
    if owner == "sim":
        table: dict[str, Any] = document.setdefault("sim", {})
        return table
    tables = _node_tables(document)
    for table in tables:
        if table.get("name") == owner:
            return table
    names = ["sim", *(str(table.get("name")) for table in tables)]
    raise PlanError(f"{where}: --set {override!r}: no node {owner!r}{suggestion(owner, names)}")


def _node_tables(document: dict[str, Any]) -> list[dict[str, Any]]:
    tables = document.get("nodes", [])
    return [table for table in tables if isinstance(table, dict)] if isinstance(tables, list) else []


def positive(value: float | None) -> bool:
    """Whether a number is finite and above zero; None (not asked for) is."""
    return value is None or (math.isfinite(value) and value > 0)


def load_node_class(run: str, folder: str | Path) -> type[Any]:
    """The Node class of "path/to/file.py:Class"; see `nodes.runtime.loading`."""
    from nodes.runtime.loading import load_class

    return load_class(run, folder)
