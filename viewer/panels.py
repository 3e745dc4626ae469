"""Selection and arrangement of plots. A plot panel shows the curves of one field that share a unit.

Panels without data are left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

import numpy as np

from sim_core.support.suggestion import did_you_mean
from viewer.data.series import Series
from viewer.data.signals import DERIVED, ORIENTATION, PLACE, Signals

NO_DRIVE = "this robot has no actuators"
NO_OUTPUTS = "this robot has no outputs"
NO_FREE, NO_ORIENTATION = "this robot has no free joints", "this robot has no free or spherical joints"
NO_FORCE, NO_GRIPPER = "this robot reports no forces", "this robot has no grippers"
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
    Field("force", "Force", "N"),
    Field("hold", "Grippers", "state", words=("open", "slides", "grips")),
    Field(PLACE, "Position of free joints", "m"),
    Field(ORIENTATION, "Orientation as quaternion w x y z", "1"),
)
COMMON = FIELDS[:6]


@dataclass(frozen=True)
class Panel:
    """One plot: the curves of a field that share a unit.

    only    labels of the curves to draw; None to draw all curves
    remark  text that is shown instead of curves, if there are none
    wide    whether the panel spans both columns of the grid of panels
    """

    field: Field
    unit: str
    only: frozenset[str] | None = None
    remark: str = ""
    wide: bool = False

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
    series = signals.series.get(field)
    return field == "outputs" and series is not None and curve in series.labels


def check_curves(fields: Sequence[Field], signals: Signals) -> None:
    """Raise ValueError if a field names a curve that the signals do not have."""
    for field in fields:
        if field.is_topic:
            continue
        series = series_of(field, signals)
        labels = () if series is None else series.labels
        if field.curve and field.curve not in labels:
            meant = did_you_mean(f"{field.name}.{field.curve}", [f"{field.name}.{label}" for label in labels])
            there = ", ".join(labels) or "none"
            raise ValueError(
                f"field {field.name!r} has no curve {field.curve!r}{meant}; choose a curve of this field ({there})"
            )


def series_of(field: Field, signals: Signals) -> Series | None:
    """The time series that a field plots; None if the signals do not have it."""
    return signals.derived(field.name) if field.name in DERIVED else signals.series.get(field.name)


def _default(signals: Signals) -> tuple[Field, ...]:
    """The fields to plot by default for a robot.

    These are the common fields (COMMON) and, if the robot has them, the fields force and hold (grippers). If force or
    hold is plotted, phidot is left out, and phi is left out unless phi has exceeded SMALL.
    """
    better = tuple(field for field in FIELDS if field.name in DERIVED and series_of(field, signals) is not None)
    phi = signals.series.get("phi")
    if not better:
        return COMMON
    large = phi is not None and len(phi.values) > 0 and bool(np.nanmax(phi.values) > SMALL)
    return tuple(field for field in COMMON if field.name != "phidot" and (large or field.name != "phi")) + better


def arrange(fields: Sequence[Field], signals: Signals, keep_empty: bool) -> tuple[tuple[Panel, ...], str]:
    """(panels of these fields for a robot, sentence that lists the fields left out).

    keep_empty  whether a field without curves keeps its panel, with a remark
    """
    panels: list[Panel] = []
    if tuple(fields) == COMMON:
        frames = [field for field in FIELDS if field.name in (PLACE, ORIENTATION) and field.name in signals.series]
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
    return _widened(shown), f"not plotted: {', '.join(left_out)}" if left_out else ""


def _widened(panels: Sequence[Panel]) -> tuple[Panel, ...]:
    """The panels for a grid of two columns. If the number of panels is odd, one panel is marked to span both columns.

    The energy panel is marked if an even number of panels precedes it, otherwise the last panel. A single panel is not
    marked.
    """
    if len(panels) % 2 == 0 or len(panels) == 1:
        return tuple(panels)
    widest = next((i for i, panel in enumerate(panels) if panel.field.name == "energy" and i % 2 == 0), len(panels) - 1)
    return tuple(
        Panel(panel.field, panel.unit, panel.only, panel.remark, wide=i == widest) for i, panel in enumerate(panels)
    )


def _of_field(field: Field, signals: Signals) -> list[Panel]:
    panels = _whole_field(field, signals)
    if not field.curve:
        return panels
    of_it = next((panel for panel in panels if panel.takes(field.curve)), panels[0])
    return [replace(of_it, only=frozenset([field.curve]))]


def _whole_field(field: Field, signals: Signals) -> list[Panel]:
    description = signals.description
    if field.name in DERIVED:
        lacks = {"force": NO_FORCE, "hold": NO_GRIPPER}[field.name]
        there = signals.states == 0 or series_of(field, signals) is not None
        return [Panel(field, field.unit) if there else Panel(field, field.unit, frozenset(), lacks)]
    if field.name in (PLACE, ORIENTATION):
        there = signals.states == 0 or field.name in signals.series
        lacks = NO_FREE if field.name == PLACE else NO_ORIENTATION
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
    series = signals.series.get(field.name)
    measured = None if series is None else set(series.labels)  # a switch, for one, is commanded but in no state
    return _by_unit(field, [(name, unit) for name, unit in units if measured is None or name in measured])


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
