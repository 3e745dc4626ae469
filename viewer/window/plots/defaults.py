"""Default plots of a robot, which are shown if the user has not chosen any."""

from __future__ import annotations

from collections.abc import Sequence

from viewer.data.signals import DERIVED
from viewer.data.topics import DERIVED_TOPIC
from viewer.panels import Field, arrange, series_of
from viewer.window.layout import Curve, PlotSpec
from viewer.window.source import Source


def default_plots(fields: Sequence[Field], source: Source, keep_empty: bool) -> tuple[tuple[PlotSpec, ...], str]:
    """(plots of these fields for the robot of a run, sentence that lists the fields left out).

    keep_empty  whether a field without curves keeps its plot
    """
    signals = source.signals
    panels, left_out = arrange(fields, signals, keep_empty)
    plots = []
    for panel in panels:
        field = panel.field
        topic = f"{signals.robot}/state" if field.name not in DERIVED else f"{signals.robot}/{DERIVED_TOPIC}"
        series = series_of(field, signals)
        labels = [label for label in (series.labels if series is not None else ()) if panel.takes(label)]
        if field.curve:
            labels = [field.curve]
        scalar = labels == [field.name]
        curves = [Curve(topic, field.name if scalar else f"{field.name}.{label}") for label in labels]
        if field.over and (over := signals.series.get(field.over)) is not None:
            followed = [label for label in over.labels if panel.takes(label) and label in labels]
            curves += [Curve(f"{signals.robot}/{field.over}", f"{field.name}.{label}") for label in followed]
        title = field.title + (f"  ({panel.remark})" if panel.remark else "")
        plots.append(PlotSpec(tuple(curves), title, panel.unit, field.log, words=field.words))
    return tuple(plots), left_out
