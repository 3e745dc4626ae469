"""Names and colours of the curves of one plot."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from nodes.framework.messages import Description
from viewer.layout import Curve, PlotSpec

REFERENCE = " (reference)"  # end of the name of a reference's curve
OF_JOINTS = ("position", "velocity", "effort", "acceleration")


def colour_key(curve: Curve) -> str:
    """Key of a curve's colour: curves with equal keys have the same colour.

    The state and the reference of a joint have equal keys.
    """
    robot, _, topic = curve.topic.rpartition("/")
    return f"{robot} {curve.field}" if topic in ("reference", "state") else f"{curve.topic} {curve.field}"


def colour_places(curves: Sequence[Curve], joints: Sequence[str]) -> dict[str, int]:
    """{key of a curve's colour: index of this colour} of the curves of one plot.

    A joint has the same colour in all plots of one quantity of joints. In other plots, the colours are in the order of
    the curves.
    """
    keys = list(dict.fromkeys(map(colour_key, curves)))
    parts = [key.rpartition(" ")[2].partition(".") for key in keys] if joints else []
    labels = [label for kind, _, label in parts if kind in OF_JOINTS and label in joints]
    if len({kind for kind, *_ in parts}) == 1 and len(set(labels)) == len(keys):
        return {key: joints.index(label) for key, label in zip(keys, labels, strict=True)}
    return {key: place for place, key in enumerate(keys)}


class Styled(NamedTuple):
    """A curve of a plot with its name in the legend.

    place         index of its colour
    is_reference  whether it is the reference of another curve of the plot
    """

    curve: Curve
    name: str
    place: int
    is_reference: bool


def styled(curves: Sequence[Curve], description: Description | None) -> list[Styled]:
    """The curves of one plot with their names and colours.

    description  description of the robot; None if it is not known
    """
    joints: list[str] = []
    if description is not None:
        joints = [joint.name for joint in description.joints] + [each.name for each in description.actuators]
    places = colour_places(curves, list(dict.fromkeys(joints)))
    return [
        Styled(curve, name, places[colour_key(curve)], is_reference(curve) and len(curves) > 1)
        for curve, name in zip(curves, curve_names(curves), strict=True)
    ]


def curve_names(curves: Sequence[Curve]) -> list[str]:
    """Names of the curves of one plot, as short as possible but distinct."""
    fields = {curve.field.partition(".")[0] for curve in curves}
    topics = {curve.topic for curve in curves if not is_reference(curve)}
    robots = {curve.topic.rpartition("/")[0] for curve in curves}
    names = []
    for curve in curves:
        _, _, rest = curve.field.partition(".")
        name = rest if rest and len(fields) == 1 else curve.field
        if is_reference(curve):
            name += REFERENCE
        elif len(topics) > 1:
            name = f"{curve.topic.rpartition('/')[2]} {name}"
        if len(robots) > 1:
            name = f"{curve.topic.rpartition('/')[0]} {name}"
        names.append(name)
    return names


def is_reference(curve: Curve) -> bool:
    """Whether a curve is that of a reference, which other curves follow."""
    return curve.topic.endswith("/reference")


def common_name(curves: Sequence[Curve]) -> str:
    """Title of a plot without a title of its own: the kinds of its curves, such as "Position and velocity".

    At most two kinds are named.
    """
    kinds = list(dict.fromkeys(curve.field.partition(".")[0] for curve in curves))
    return " and ".join(kinds[:2]).capitalize() if kinds else ""


def titled(spec: PlotSpec) -> str:
    """Title of a plot with its unit."""
    words = ", ".join(f"{place} {word}" for place, word in enumerate(spec.words))
    unit = words or spec.unit
    return (spec.title or common_name(spec.curves)) + (f"  [{unit}]" if unit else "")
