"""Selection and arrangement of the plots of a robot that the user has not chosen one by one.

A panel is a plot of the curves of one field that share a unit. Panels without data are left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

import numpy as np

from sim_core.support.suggestion import did_you_mean
from viewer.data.signals import Signals, unit_of
from viewer.data.store import FORCE, HOLD, ORIENTATION, PLACE
from viewer.layout import Curve, PlotSpec

NO_DRIVE = "this robot has no actuators"
NO_OUTPUTS = "this robot has no outputs"
LACKS = {  # reason for which a field has no curve
    FORCE: "this robot reports no forces",
    HOLD: "this robot has no grippers",
    PLACE: "this robot has no free joints",
    ORIENTATION: "this robot has no free or spherical joints",
}
SMALL = 1e-9  # constraint violation below which its panel is left out when forces or grippers can be shown instead
NO_VIOLATION = "exactly 0 in every state: no constraints"


@dataclass(frozen=True)
class Field:
    """A field that can be plotted.

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
    Field("position", "Position", "{joint}", over="reference"),
    Field("velocity", "Velocity", "{joint}/s"),
    Field("effort", "Effort", "{effort}"),
    Field("energy", "Energy", "J"),
    Field("phi", "Violation |Φ|", "constraints' units", log=True),
    Field("phidot", "Violation |dΦ/dt|", "constraints' units/s", log=True),
    Field("outputs", "Outputs", "{output}"),
    Field(FORCE, "Force", "N"),
    Field(HOLD, "Grippers", "state", words=("open", "slides", "grips")),
    Field(PLACE, "Position of free joints", "m"),
    Field(ORIENTATION, "Orientation as quaternion w x y z", "1"),
)
COMMON = FIELDS[:6]


@dataclass(frozen=True)
class Panel:
    """One plot: the curves of a field that share a unit.

    only    labels of the curves to draw; None to draw all curves
    remark  text that is shown instead of curves, if there are none
    """

    field: Field
    unit: str
    only: frozenset[str] | None = None
    remark: str = ""

    def takes(self, label: str) -> bool:
        """Whether the curve with this label is drawn in this panel."""
        return self.only is None or label in self.only


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
            meant = did_you_mean(name, curves) or did_you_mean(name, known)
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


def arrange(fields: Sequence[Field], signals: Signals, keep_empty: bool) -> tuple[tuple[Panel, ...], str]:
    """(panels of these fields for a robot, sentence that lists the fields left out).

    keep_empty  whether a field without curves keeps its panel, with a remark
    """
    panels: list[Panel] = []
    if tuple(fields) == COMMON:
        frames = [field for field in FIELDS if field.name in (PLACE, ORIENTATION) and signals.labels(field.name)]
        fields = (*frames, *_default(signals))
    for per_joint, run in groupby(fields, key=lambda field: field.unit.startswith("{joint}")):
        found = [panel for field in run for panel in _of_field(field, signals)]
        if per_joint:  # position and velocity in m below position and velocity in rad
            order = list(dict.fromkeys(panel.only for panel in found))
            found.sort(key=lambda panel: order.index(panel.only))
        panels += found
    shown = [panel for panel in panels if keep_empty or not panel.remark]
    left_out = dict.fromkeys(
        f"{panel.field.title.split()[0].lower()} ({panel.remark})" for panel in panels if panel not in shown
    )
    return tuple(shown), f"not plotted: {', '.join(left_out)}" if left_out else ""


def _of_field(field: Field, signals: Signals) -> list[Panel]:
    panels = _whole_field(field, signals)
    if not field.curve:
        return panels
    of_it = next((panel for panel in panels if panel.takes(field.curve)), panels[0])
    return [replace(of_it, only=frozenset([field.curve]))]


def _whole_field(field: Field, signals: Signals) -> list[Panel]:
    description = signals.description
    if (lacks := LACKS.get(field.name)) is not None:
        there = signals.states == 0 or signals.labels(field.name)
        return [Panel(field, field.unit) if there else Panel(field, field.unit, frozenset(), lacks)]
    if field.name in ("phi", "phidot"):
        if signals.violated or signals.states == 0:
            return [Panel(field, field.unit)]
        return [Panel(field, field.unit, frozenset(), NO_VIOLATION)]
    if "{" not in field.unit:
        return [Panel(field, field.unit)]
    if description is None or (field.name == "outputs" and len(description.outputs) != len(description.output_units)):
        return [Panel(field, field.unit.format(joint="rad", effort="N m", output="SI"))]
    if field.name == "effort":
        if not description.actuators:
            return [Panel(field, "N m", frozenset(), NO_DRIVE)]
        units = [(name, one.unit) for one in description.actuators for name in (one.joint, one.name)]
    elif field.name == "outputs":
        if not description.outputs:
            return [Panel(field, "SI", frozenset(), NO_OUTPUTS)]
        named = zip(description.outputs, description.output_units, strict=True)
        units = [(name, unit or "SI") for name, unit in named]
    else:
        units = [(joint.name, joint.unit) for joint in description.joints]
        units += [(one.name, _of_joint(one.unit)) for one in description.actuators]
    measured = signals.labels(field.name)  # a switch, for one, is commanded but in no state
    return _by_unit(field, [(name, unit) for name, unit in units if not measured or name in measured])


def _of_joint(effort: str) -> str:
    """Unit of the position of an actuator without a joint, from the unit `effort` of its effort: "m" for N, otherwise
    "rad".
    """
    return "m" if effort == "N" else "rad"


def _by_unit(field: Field, units: Iterable[tuple[str, str]]) -> list[Panel]:
    known: dict[str, str] = {}
    for name, unit in units:
        known.setdefault(name, unit)
    return [
        Panel(
            field,
            field.unit.format(joint=unit, effort=unit, output=unit),
            frozenset(n for n in known if known[n] == unit),
        )
        for unit in dict.fromkeys(known.values())
    ]


def default_plots(
    fields: Sequence[Field], signals: Signals, keep_empty: bool, is_live: bool = False
) -> tuple[tuple[PlotSpec, ...], str]:
    """(plots of these fields for a robot, sentence that lists the fields left out).

    keep_empty  whether a field without curves keeps its plot
    is_live     whether topics that are not there may still come

    Raises ValueError with a one-line message for a topic or field that a recording does not have.
    """
    plots = [plot for field in fields if field.is_topic for plot in _of_topic(field.name, signals, is_live)]
    of_state = tuple(field for field in fields if not field.is_topic)
    panels, left_out = arrange(of_state, signals, keep_empty) if of_state else ((), "")
    for panel in panels:
        field = panel.field
        labels = [field.curve] if field.curve else [each for each in signals.labels(field.name) if panel.takes(each)]
        names = [field.name if label == field.name else f"{field.name}.{label}" for label in labels]
        curves = [Curve(signals.topic_of(field.name), name) for name in names]
        if field.over:
            followed = signals.store.fields(f"{signals.robot}/{field.over}")
            curves += [Curve(f"{signals.robot}/{field.over}", name) for name in followed if name in names]
        title = field.title + (f"  ({panel.remark})" if panel.remark else "")
        plots.append(PlotSpec(tuple(curves), title, panel.unit, field.log, words=field.words))
    return tuple(plots), left_out


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
