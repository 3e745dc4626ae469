"""Selection and arrangement of the plots of a robot that the user has not chosen one by one.

A plot has the curves of one field that share a unit. Fields without data are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby

import numpy as np

from sim_core.support.suggestion import did_you_mean
from viewer.curves import OF_JOINTS
from viewer.data.signals import Signals, unit_of
from viewer.data.store import FORCE, HOLD, ORIENTATION, PLACE
from viewer.layout import Curve, PlotSpec

SMALL = 1e-9  # constraint violation below which its plot is left out when forces or grippers can be shown instead
NO_VIOLATION = "exactly 0 in every state: no constraints"
LACKS = {  # reason for which a field has no curve
    "effort": "this robot has no actuators",
    "outputs": "this robot has no outputs",
    FORCE: "this robot reports no forces",
    HOLD: "this robot has no grippers",
    PLACE: "this robot has no free joints",
    ORIENTATION: "this robot has no free or spherical joints",
}


@dataclass(frozen=True)
class Field:
    """A field that can be plotted.

    unit   unit of values for which the robot's description gives none
    over   name of another field, such as "reference"; its curves are drawn dashed over the curves of this field
    curve  label of the only curve to draw; "" to draw all curves
    words  labels of the values 0, 1, 2 ..., which the axis shows instead of numbers
    is_topic  whether `name` is TOPIC or TOPIC.FIELD of another topic than the state
    """

    name: str
    title: str
    unit: str
    log: bool = False
    over: str = ""
    curve: str = ""
    words: tuple[str, ...] = ()
    is_topic: bool = False


FIELDS = (
    Field("position", "Position", "rad", over="reference"),
    Field("velocity", "Velocity", "rad/s"),
    Field("effort", "Effort", "N m"),
    Field("energy", "Energy", "J"),
    Field("phi", "Violation |Φ|", "constraints' units", log=True),
    Field("phidot", "Violation |dΦ/dt|", "constraints' units/s", log=True),
    Field("outputs", "Outputs", "SI"),
    Field(FORCE, "Force", "N"),
    Field(HOLD, "Grippers", "state", words=("open", "slides", "grips")),
    Field(PLACE, "Position of free joints", "m"),
    Field(ORIENTATION, "Orientation as quaternion w x y z", "1"),
)
COMMON = FIELDS[:6]


def choose_fields(requested: Sequence[str], signals: Signals | None = None) -> tuple[Field, ...]:
    """The fields with the given names; the common fields if no name is given.

    requested  NAME of each field, NAME.CURVE for a single curve of a field, or TOPIC or TOPIC.FIELD, with a slash in
               TOPIC, for fields of another topic, which only the window draws

    Raises ValueError for an unknown field. If an output in `signals` has the name of this unknown field, the message
    suggests to plot that output.
    """
    if not requested:
        return COMMON
    known = {field.name: field for field in FIELDS}
    found = []
    for text in requested:
        if "/" in text:
            found.append(Field(text, text, "", is_topic=True))
            continue
        name, _, curve = text.partition(".")
        if name not in known:
            curves = [] if signals is None else [f"{key}.{name}" for key in known if _has(signals, key, name)]
            topics = [] if signals is None else [t for t in signals.store.topics if t.endswith(f"/{text}")]
            meant = (
                f"; did you mean {topics[0]!r}?" if topics else did_you_mean(name, curves) or did_you_mean(name, known)
            )
            raise ValueError(
                f"there is no field {name!r} to plot{meant}; use one of {', '.join(known)}, FIELD.CURVE for a single "
                f"curve, such as outputs.{name}, or TOPIC.FIELD, such as my_controller/plot.values.{name}"
            )
        found.append(replace(known[name], curve=curve))
    return tuple(found)


def _has(signals: Signals, field: str, curve: str) -> bool:
    return field == "outputs" and curve in signals.labels(field)


def check_curves(fields: Sequence[Field], signals: Signals) -> None:
    """Raise ValueError if a field names a curve that the signals do not have."""
    for field in fields:
        if field.is_topic:
            continue
        labels = signals.labels(field.name)
        if field.curve and field.curve not in labels:
            meant = did_you_mean(f"{field.name}.{field.curve}", [f"{field.name}.{label}" for label in labels])
            there = ", ".join(labels) or "none"
            raise ValueError(
                f"field {field.name!r} has no curve {field.curve!r}{meant}; choose a curve of this field ({there})"
            )


def _default(signals: Signals) -> tuple[Field, ...]:
    """The fields to plot by default for a robot.

    These are the common fields (COMMON) and, if the robot has them, the fields force and hold (grippers). If force or
    hold is plotted, phidot is left out, and phi is left out unless phi has exceeded SMALL.
    """
    better = tuple(field for field in FIELDS if field.name in (FORCE, HOLD) and signals.labels(field.name))
    if not better:
        return COMMON
    phi = signals.column("phi", "phi")
    large = phi is not None and len(phi[1]) > 0 and bool(np.nanmax(phi[1]) > SMALL)
    return tuple(field for field in COMMON if field.name != "phidot" and (large or field.name != "phi")) + better


def default_plots(
    fields: Sequence[Field], signals: Signals, keep_empty: bool, is_live: bool = False
) -> tuple[tuple[PlotSpec, ...], str]:
    """(plots of these fields for a robot, sentence that lists the fields left out).

    keep_empty  whether a field without curves keeps its plot, with the reason in its title
    is_live     whether topics that are not there may still come

    Raises ValueError with a one-line message for a topic or field that a recording does not have.
    """
    plots = [plot for field in fields if field.is_topic for plot in _of_topic(field.name, signals, is_live)]
    chosen = [field for field in fields if not field.is_topic]
    if tuple(fields) == COMMON:
        frames = [field for field in FIELDS if field.name in (PLACE, ORIENTATION) and signals.labels(field.name)]
        chosen = [*frames, *_default(signals)]
    left_out: list[str] = []
    for per_joint, run in groupby(chosen, key=lambda field: field.name in ("position", "velocity")):
        found: list[PlotSpec] = []
        for field in run:
            if not (reason := _reason(field, signals)):
                found += _of_field(field, signals)
            elif keep_empty:
                found.append(PlotSpec((), f"{field.title}  ({reason})", field.unit, field.log, words=field.words))
            else:
                left_out.append(f"{field.title.split()[0].lower()} ({reason})")
        if per_joint:  # position and velocity in m below position and velocity in rad
            order = list(dict.fromkeys(map(_joints_of, found)))
            found.sort(key=lambda spec: order.index(_joints_of(spec)))
        plots += found
    return tuple(plots), f"not plotted: {', '.join(dict.fromkeys(left_out))}" if left_out else ""


def _reason(field: Field, signals: Signals) -> str:
    """Reason for which a field has nothing to plot; "" if it has something, or may have it when states arrive."""
    if signals.states == 0:
        return ""
    if field.name in ("phi", "phidot"):
        return "" if signals.violated else NO_VIOLATION
    description = signals.description
    is_lacking = not signals.labels(field.name) or (
        field.name == "effort" and description is not None and not description.actuators
    )
    return LACKS.get(field.name, "") if is_lacking else ""


def _of_field(field: Field, signals: Signals) -> list[PlotSpec]:
    """Plots of a field, one for each unit of its values."""
    topic, labels = signals.topic_of(field.name), signals.labels(field.name)
    if not labels and not field.curve:
        return [] if signals.states else [PlotSpec((), field.title, field.unit, field.log, words=field.words)]
    units: dict[str, str] = {}
    for label in labels:
        name = field.name if label == field.name else f"{field.name}.{label}"
        unit = unit_of(signals, topic, name)
        # what is no joint and no actuator of the robot has no unit, and no effort without an actuator
        if unit or signals.description is None or field.name not in OF_JOINTS:
            units[name] = unit or field.unit
    if field.curve:
        units = {f"{field.name}.{field.curve}": units.get(f"{field.name}.{field.curve}", field.unit)}
    plots = []
    for unit in dict.fromkeys(units.values()):
        names = [name for name in units if units[name] == unit]
        curves = [Curve(topic, name) for name in names]
        if field.over:
            followed = signals.store.fields(f"{signals.robot}/{field.over}")
            curves += [Curve(f"{signals.robot}/{field.over}", name) for name in followed if name in names]
        plots.append(PlotSpec(tuple(curves), field.title, unit, field.log, words=field.words))
    return plots


def _joints_of(spec: PlotSpec) -> frozenset[str]:
    return frozenset(curve.field.partition(".")[2] for curve in spec.curves)


def _of_topic(text: str, signals: Signals, is_live: bool) -> list[PlotSpec]:
    """Plots of TOPIC or TOPIC.FIELD, one for each unit of the values. The name of the topic may lack the robot's."""
    store = signals.store
    wanted, _, field = text.partition(".")
    topic = next((each for each in (wanted, f"{signals.robot}/{wanted}") if each in store.topics), "")
    if not topic:
        if is_live:
            return [PlotSpec((), text)]
        raise ValueError(
            f"the recording has no topic {wanted!r} with numbers{did_you_mean(wanted, store.topics)}; its topics are "
            f"{', '.join(store.topics)}"
        )
    names = [each for each in store.fields(topic) if not field or each == field or each.startswith(f"{field}.")]
    if not names:
        known = store.fields(topic)
        raise ValueError(
            f"topic {topic!r} has no field {field!r}{did_you_mean(field, known)}; its fields are {', '.join(known)}"
        )
    units = {name: unit_of(signals, topic, name) for name in names}
    return [
        PlotSpec(tuple(Curve(topic, name) for name in names if units[name] == unit), text, unit)
        for unit in dict.fromkeys(units.values())
    ]
