"""Default plots of a robot, which are shown if the user has not chosen any."""

from __future__ import annotations

from collections.abc import Sequence

from sim_core.support.suggestion import did_you_mean
from viewer.data.signals import DERIVED
from viewer.data.topics import DERIVED_TOPIC, unit_of
from viewer.panels import Field, arrange, series_of
from viewer.window.layout import Curve, PlotSpec
from viewer.window.source import Source


def default_plots(fields: Sequence[Field], source: Source, keep_empty: bool) -> tuple[tuple[PlotSpec, ...], str]:
    """(plots of these fields for the robot of a run, sentence that lists the fields left out).

    keep_empty  whether a field without curves keeps its plot

    Raises ValueError with a one-line message for a topic or field that a recording does not have.
    """
    signals = source.signals
    plots = [plot for field in fields if field.is_topic for plot in _of_topic(field.name, source)]
    of_state = tuple(field for field in fields if not field.is_topic)
    panels, left_out = arrange(of_state, signals, keep_empty) if of_state else ((), "")
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


def _of_topic(text: str, source: Source) -> list[PlotSpec]:
    """Plots of TOPIC or TOPIC.FIELD, one for each unit of the values. The name of the topic may lack the robot's."""
    store, signals = source.store, source.signals
    wanted, _, field = text.partition(".")
    topic = next((each for each in (wanted, f"{signals.robot}/{wanted}") if each in store.topics), "")
    if not topic:
        if source.live:  # it may come
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
