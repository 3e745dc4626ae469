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
    "command": ("clipped", "cmd", "command", "tau_con"),
    "effort": ("effort", "torque", "tau", "trq", "current", "amps", "force", "i"),
    "velocity": ("velocity", "velocities", "vel", "speed", "dq", "qd", "rate"),
    "position": ("position", "positions", "pos", "angle", "ang", "q", "theta", "encoder", "enc", "counts", "ticks"),
}
MEASURED = {"meas", "measured", "actual"}
DEMANDS = {
    *("des", "desired", "ref", "reference", "goal", "target", "setpoint", "store"),
    *("filt", "raw", "acc", "error", "fric", "friction"),
}
TIMES = ("time", "t", "timestamp", "stamp", "meas_time", "sec", "seconds")
TIME_UNITS = {"s": "s", "sec": "s", "ms": "ms", "msec": "ms", "us": "us", "usec": "us", "ns": "ns", "nsec": "ns"}
# Unit that words of a column's name say, and what a person has to add to it.
UNITS: dict[Channel, tuple[tuple[str, ...], str, str]] = {
    "effort": (("current", "amps", "i"), "A", "; add gain = N m per A, and gear"),
    "position": (("encoder", "enc", "counts", "ticks"), "counts", "; add counts_per_turn, gear, sign and offset"),
}
TURN = 2.0 * np.pi


def _words(name: str) -> list[str]:
    return re.findall(r"[a-z]+|[0-9]+", re.sub(r"([a-z])([A-Z])", r"\1_\2", name).lower())


def guess(tables: Sequence[Table], mechanism: Mechanism, robot: str) -> str:
    """Text of a table of columns (TOML). Joints without a match are left as comments, as are columns without a joint.

    The guess is by names, measured and changing columns first; comments say how far each column goes.
    """
    every = {name: values for table in tables for name, values in table.columns.items()}
    columns = {name: every[name] for name in sorted(every, key=lambda name: _rank(name, every[name]))}
    time, time_unit = next(((name, unit) for name in columns if (unit := _time_unit(name))), ("", "s"))
    chosen: dict[str, dict[Channel, str]] = {joint.name: {} for joint in mechanism.moving_joints}
    used = {time}
    for name in columns:
        channel = _channel(name)
        joint = _joint(name, list(chosen), channel) if channel is not None else None
        if channel is not None and joint is not None and name not in used and channel not in chosen[joint]:
            chosen[joint][channel] = name
            used.add(name)
    _by_number(columns, chosen, used)
    if len(chosen) == 1:
        _of_the_only_joint(columns, next(iter(chosen.values())), used)
    lines = [
        f"robot = {json.dumps(robot)}",
        "# parameters = { }      # of the robot, as `armswing robot show` lists them",
        "",
        "[time]",
        f"column = {json.dumps(time)}"
        if time
        else '# column = "..."      # the log has no column that is named as a time',
        f'unit = "{time_unit}"{" " * (15 - len(time_unit))}# s, ms, us or ns',
        "# ranges = [[0.0, 10.0]]  # s; by default all of the log",
    ]
    rest = [name for name in every if name not in used]
    held = [joint for joint in mechanism.moving_joints if not chosen[joint.name].get("position")]
    if held:
        starts = dict(zip((joint.name for joint in mechanism.moving_joints), mechanism.initial_q, strict=False))
        lines += ["", "[locked]                # joints without a column: their positions, rad or m, to be confirmed"]
        hidden = "# " if rest else ""  # one of the columns that are not used may be the joint's
        lines += [f"{hidden}{_key(joint.name)} = {starts.get(joint.name, 0.0):g}" for joint in held]
        if rest:
            names = ", ".join(joint.name for joint in held)
            lines += [
                f"# {names}: no column is named so, and columns are left below. A joint that moved gets a section with",
                "# its column; one that was held gets its position here.",
            ]
    driven = {actuator.joint for actuator in mechanism.actuators}
    for each in mechanism.moving_joints:
        if chosen[each.name].get("position"):
            lines += ["", f"[joints.{_key(each.name)}]", *_lines(columns, chosen[each.name], each.unit == "m")]
            if each.name in driven and "effort" not in chosen[each.name]:
                lines.append('# effort = "..."        # it has a motor, and no column names its effort')
    if rest:
        lines += ["", "# Columns that are not used:", *(f"#   {name}  {_span(every[name])}" for name in rest)]
    texts = {name: where for table in tables for name, where in table.texts.items()}
    if texts:
        lines += ["", "# Columns that are not of numbers, and cannot be used:"]
        lines += [f"#   {name}: {where}" for name, where in texts.items()]
    return "\n".join(lines) + "\n"


def _time_unit(name: str) -> str:
    """Unit of a column that is named as a time, s where its name has none; "" for another column."""
    *words, last = _words(name) or [""]
    if " ".join((*words, last)) in _spoken(TIMES):
        return "s"
    return TIME_UNITS.get(last, "") if " ".join(words) in _spoken(TIMES) else ""


def _spoken(names: Iterable[str]) -> set[str]:
    return {" ".join(_words(name)) for name in names}


def _channel(name: str) -> Channel | None:
    """The quantity that the name of a column says; None for set values, and if no word tells."""
    words = _words(name)
    if DEMANDS & set(words) and not MEASURED & set(words):
        return None
    return next((channel for channel, hints in WORDS.items() if any(_has(words, hint) for hint in hints)), None)


def _rank(name: str, values: Floats) -> tuple[bool, bool, int]:
    """Order in which columns are taken: those that change, those that are measured, the most telling word."""
    words, known = _words(name), values[np.isfinite(values)]
    hints = [at for each in WORDS.values() for at, hint in enumerate(each) if _has(words, hint)]
    return not (len(known) and np.ptp(known) > 0.0), not MEASURED & set(words), min(hints, default=len(words))


def _has(words: Sequence[str], hint: str) -> bool:
    parts = _words(hint)
    return any(list(words[k : k + len(parts)]) == parts for k in range(len(words)))


def _joint(name: str, joints: Sequence[str], channel: Channel) -> str | None:
    """The joint whose name is in the name of a column, the longest first, or the only one that a word abbreviates."""
    words = _words(name)
    for joint in sorted(joints, key=lambda each: -len(_words(each))):
        own = [word for word in _words(joint) if word != "joint"] or _words(joint)
        if _has([word for word in words if word != "joint"], "_".join(own)):
            return joint
    short = [joint for joint in joints if any(len(word) > 1 and joint.lower().startswith(word) for word in words)]
    return short[0] if len(short) == 1 else None


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


def _of_the_only_joint(columns: dict[str, Floats], given: dict[Channel, str], used: set[str]) -> None:
    """Give the only joint of a robot the columns that name a quantity and no joint: "position", "torque"."""
    for name in columns:
        channel = _channel(name)
        if channel is not None and name not in used and channel not in given:
            given[channel] = name
            used.add(name)


def _span(values: Floats) -> str:
    """Text such as "-0.4 .. 0.7"."""
    known = values[np.isfinite(values)]
    return f"{known.min():.4g} .. {known.max():.4g}" if len(known) else "no values"


def _lines(columns: dict[str, Floats], given: dict[Channel, str], slides: bool) -> list[str]:
    units = {"position": "m", "velocity": "m/s"} if slides else {"position": "rad", "velocity": "rad/s"}
    lines = []
    for channel in CHANNELS:
        if name := given.get(channel):
            unit, missing = units.get(channel, "N" if slides else "N m"), ""
            if channel in UNITS and any(_has(_words(name), hint) for hint in UNITS[channel][0]):
                _, unit, missing = UNITS[channel]
            values = columns[name][np.isfinite(columns[name])]
            wide = channel == "position" and unit == "rad" and len(values) and np.ptp(values) > 2.0 * TURN
            text = f'{channel} = {{ column = {json.dumps(name)}, unit = "{unit}" }}'
            lines.append(f"{text}  # {_span(values)}{missing}" + ("; degrees?" if wide else ""))
    return lines


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else json.dumps(name)
