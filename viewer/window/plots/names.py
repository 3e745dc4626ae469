"""Names and colours of the curves of one plot."""

from __future__ import annotations

from collections.abc import Sequence

from viewer.qt.titles import REFERENCE
from viewer.window.layout import Curve


def colour_key(curve: Curve) -> str:
    """Key of a curve's colour: curves with equal keys have the same colour.

    The state and the reference of a joint have equal keys.
    """
    robot, _, topic = curve.topic.rpartition("/")
    return f"{robot} {curve.field}" if topic in ("reference", "state") else f"{curve.topic} {curve.field}"


def curve_names(curves: Sequence[Curve]) -> list[str]:
    """Names of the curves of one plot, as short as possible but distinct."""
    fields = {curve.field.partition(".")[0] for curve in curves}
    topics = {curve.topic for curve in curves if not curve.topic.endswith("/reference")}
    robots = {curve.topic.rpartition("/")[0] for curve in curves}
    names = []
    for curve in curves:
        _, _, rest = curve.field.partition(".")
        name = rest if rest and len(fields) == 1 else curve.field
        if curve.topic.endswith("/reference"):
            name += REFERENCE
        elif len(topics) > 1:
            name = f"{curve.topic.rpartition('/')[2]} {name}"
        if len(robots) > 1:
            name = f"{curve.topic.rpartition('/')[0]} {name}"
        names.append(name)
    return names


def common_name(curves: Sequence[Curve]) -> str:
    """Title of a plot without a title of its own: the kinds of its curves, such as "Position and velocity".

    At most two kinds are named.
    """
    kinds = list(dict.fromkeys(curve.field.partition(".")[0] for curve in curves))
    return " and ".join(kinds[:2]).capitalize() if kinds else ""
