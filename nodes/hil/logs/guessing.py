"""First table of columns for a log and a robot, guessed from names, for a person to complete."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence

import numpy as np

from nodes.hil.logs.columns import CHANNELS
from nodes.hil.logs.tables import Floats, Table
from nodes.hil.logs.units import Channel
from sim_core.mechanism import Mechanism

# Words of column names, the most telling first; a set value or a controller's demand is no measurement.
WORDS: dict[Channel, tuple[str, ...]] = {
    "command": ("cmd", "command", "clipped", "tau_con"),
    "effort": ("effort", "torque", "tau", "trq", "current", "force"),
    "velocity": ("velocity", "velocities", "vel", "speed", "dq", "qd", "rate"),
    "position": ("position", "positions", "pos", "angle", "ang", "q", "theta"),
}
DEMANDS = {"des", "desired", "ref", "reference", "goal", "target", "setpoint", "filt", "raw", "acc", "store", "error"}
TIMES = ("time", "t", "timestamp", "stamp", "meas_time", "time_s", "sec", "seconds")
TURN = 2.0 * np.pi


def _words(name: str) -> list[str]:
    return re.findall(r"[a-z]+|[0-9]+", re.sub(r"([a-z])([A-Z])", r"\1_\2", name).lower())


def guess(tables: Sequence[Table], mechanism: Mechanism, robot: str) -> str:
    """Text of a table of columns (TOML). Joints without a match are left as comments, as are columns without a joint.

    The guess is by names alone; comments say how far each column goes.
    """
    columns = {name: values for table in tables for name, values in table.columns.items()}
    time = next((name for name in columns if _words(name) and " ".join(_words(name)) in _spoken(TIMES)), "")
    chosen: dict[str, dict[Channel, str]] = {joint.name: {} for joint in mechanism.moving_joints}
    used = {time}
    for name in columns:
        channel = _channel(name)
        joint = _joint(name, list(chosen), channel) if channel is not None else None
        if channel is not None and joint is not None and name not in used and channel not in chosen[joint]:
            chosen[joint][channel] = name
            used.add(name)
    _by_number(columns, chosen, used)
    lines = [
        f"robot = {json.dumps(robot)}",
        "# parameters = { }      # of the robot, as `armswing robot show` lists them",
        "",
        "[time]",
        f"column = {json.dumps(time)}"
        if time
        else '# column = "..."      # the log has no column that is named as a time',
        'unit = "s"              # s, ms, us or ns',
        "# ranges = [[0.0, 10.0]]  # s; by default all of the log",
    ]
    held = [joint for joint in mechanism.moving_joints if not chosen[joint.name].get("position")]
    if held:
        starts = dict(zip((joint.name for joint in mechanism.moving_joints), mechanism.initial_q, strict=False))
        lines += ["", "[locked]                # joints without a column: their positions, rad or m, to be confirmed"]
        lines += [f"{_key(joint.name)} = {starts.get(joint.name, 0.0):g}" for joint in held]
    for each in mechanism.moving_joints:
        if chosen[each.name].get("position"):
            lines += ["", f"[joints.{_key(each.name)}]", *_lines(columns, chosen[each.name], each.unit == "m")]
    rest = [name for name in columns if name not in used]
    if rest:
        lines += ["", "# Columns that are not used:", *(f"#   {name}" for name in rest)]
    texts = {name: where for table in tables for name, where in table.texts.items()}
    if texts:
        lines += ["", "# Columns that are not of numbers, and cannot be used:"]
        lines += [f"#   {name}: {where}" for name, where in texts.items()]
    return "\n".join(lines) + "\n"


def _spoken(names: Iterable[str]) -> set[str]:
    return {" ".join(_words(name)) for name in names}


def _channel(name: str) -> Channel | None:
    """The quantity that the name of a column says; None for set values, and if no word tells."""
    words = _words(name)
    if DEMANDS & set(words) and not {"meas", "measured", "actual"} & set(words):
        return None
    return next((channel for channel, hints in WORDS.items() if any(_has(words, hint) for hint in hints)), None)


def _has(words: Sequence[str], hint: str) -> bool:
    parts = _words(hint)
    return any(list(words[k : k + len(parts)]) == parts for k in range(len(words)))


def _joint(name: str, joints: Sequence[str], channel: Channel) -> str | None:
    """The joint whose name is in the name of a column, the longest first."""
    words = _words(name)
    for joint in sorted(joints, key=lambda each: -len(_words(each))):
        own = [word for word in _words(joint) if word != "joint"] or _words(joint)
        if _has([word for word in words if word != "joint"], "_".join(own)):
            return joint
    return None


def _by_number(columns: dict[str, Floats], chosen: dict[str, dict[Channel, str]], used: set[str]) -> None:
    """Give joints without any column those that are numbered in their order: "pos1", "q[0]"."""
    if any(given for given in chosen.values()):
        return
    numbered: dict[Channel, dict[int, str]] = {}
    for name in columns:
        channel, digits = _channel(name), re.findall(r"[0-9]+", name)
        if channel is not None and digits and name not in used:
            numbered.setdefault(channel, {}).setdefault(int(digits[-1]), name)
    for channel, names in numbered.items():
        for joint, number in zip(chosen, sorted(names), strict=False):
            chosen[joint][channel] = names[number]
            used.add(names[number])


def _lines(columns: dict[str, Floats], given: dict[Channel, str], slides: bool) -> list[str]:
    units = {"position": "m", "velocity": "m/s"} if slides else {"position": "rad", "velocity": "rad/s"}
    lines = []
    for channel in CHANNELS:
        if name := given.get(channel):
            unit = units.get(channel, "N" if slides else "N m")
            values = columns[name][np.isfinite(columns[name])]
            span = f"{values.min():.4g} .. {values.max():.4g}" if len(values) else "no values"
            wide = channel == "position" and not slides and len(values) and np.ptp(values) > 2.0 * TURN
            text = f'{channel} = {{ column = {json.dumps(name)}, unit = "{unit}" }}'
            lines.append(f"{text}  # {span}" + ("; degrees?" if wide else ""))
    return lines


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else json.dumps(name)
