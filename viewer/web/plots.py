"""Plots of the browser view: curves on one time axis, with the time that the scene shows."""

from __future__ import annotations

import html
import math
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

from viewer import palette
from viewer.curves import Styled, styled, titled
from viewer.data.series import Floats, sampled
from viewer.data.signals import Signals
from viewer.layout import SMALLEST, Curve, PlotSpec
from viewer.panels import choose_fields, default_plots

BINS = 400  # intervals of the time axis, of each of which the smallest and the largest value are drawn
LIVE_BINS = 200
LIVE_S = 20.0  # time that the plots of a live run show, s
HEIGHT = 190  # of a plot, pixels
MOST_NAMED = 8  # curves of a plot whose values the pointer shows
NOW = "now"
ALL, NONE = "all", "-"


class WebPlots:
    """The plots of one run in all browsers.

    fields  names of the fields to plot; empty for the default fields
    """

    def __init__(self, gui: Any, tab: Any, fields: Sequence[str], is_live: bool) -> None:
        self._gui, self._tab, self._fields, self._is_live = gui, tab, fields, is_live
        self._specs: tuple[PlotSpec, ...] = ()
        self._shown: list[tuple[PlotSpec, list[Styled], Any]] = []
        self._handles: list[Any] = []
        self._added: list[PlotSpec] = []
        self._signals: Signals | None = None
        self._now = 0.0
        self._guard = threading.RLock()
        with tab, gui.add_folder("Add a plot", expand_by_default=False):
            self._kind = gui.add_dropdown("signals", (NONE,))
            self._curve = gui.add_dropdown("curve", (ALL,))
            add = gui.add_button("Add")
            self._remove = gui.add_button("Remove the added plots", visible=False)
        self._kind.on_update(lambda _: self._offer_curves())
        add.on_click(lambda _: self._add_chosen())
        self._remove.on_click(lambda _: self._remove_added())

    def choose(self, signals: Signals) -> None:
        """Make the plots that this robot has, unless they are there, and offer its signals to add."""
        with self._guard:
            self._signals, states = signals, f"{signals.robot}/{signals.states_topic}"
            kinds = tuple(
                f"{topic} {kind}"
                for topic in sorted(signals.store.topics, key=lambda each: (each != states, each))
                for kind in dict.fromkeys(_kind_of(each) for each in signals.store.fields(topic))
            )
            if kinds and tuple(self._kind.options) != kinds:
                self._kind.options = kinds
                self._offer_curves()
            fields = choose_fields(self._fields, signals)
            found, _ = default_plots(fields, signals, keep_empty=bool(self._fields), is_live=self._is_live)
            specs = (*self._added, *found)
            if specs == self._specs:
                return
            self._specs = specs
            for handle in self._handles:
                handle.remove()
            self._handles, self._shown = [], []
            with self._tab:
                for spec in specs:
                    self._add(spec, signals)

    def _offer_curves(self) -> None:
        """Offer the curves of the chosen kind of signals."""
        topic, _, kind = self._kind.value.partition(" ")
        if self._signals is not None:
            names = [each for each in self._signals.store.fields(topic) if _kind_of(each) == kind]
            self._curve.options = (ALL, *names) if len(names) > 1 else (ALL,)

    def _add_chosen(self) -> None:
        """Add a plot of the chosen curve, or of all curves of the chosen kind."""
        topic, _, kind = self._kind.value.partition(" ")
        with self._guard:
            if self._signals is None or self._kind.value == NONE:
                return
            chosen = self._curve.value
            names = [each for each in self._signals.store.fields(topic) if _kind_of(each) == kind]
            spec = PlotSpec(tuple(Curve(topic, each) for each in names if chosen in (ALL, each)), self._kind.value)
            if spec.curves and spec not in self._added:
                self._redraw([*self._added, spec])

    def _remove_added(self) -> None:
        with self._guard:
            self._redraw([])

    def _redraw(self, added: list[PlotSpec]) -> None:
        assert self._signals is not None
        self._added, self._remove.visible = added, bool(added)
        self.choose(self._signals)
        self.show(self._signals, self._now)

    def show(self, signals: Signals, now: float) -> None:
        """Draw the curves; `now` is the time that the scene shows, s."""
        with self._guard:
            self._now = now
            times = signals.times
            if not len(times):
                return
            end = min(float(times[-1]), signals.sane_until)
            start = max(float(times[0]), end - LIVE_S) if self._is_live else float(times[0])
            for spec, curves, handle in self._shown:
                columns = [signals.store.column(each.curve.topic, each.curve.field) for each in curves]
                x, values = sampled(columns, start, end, LIVE_BINS if self._is_live else BINS)
                if spec.log:
                    values = [np.maximum(np.abs(each), SMALLEST) for each in values]
                if not self._is_live:
                    values.append(marked(x, values, now))
                handle.data = (x, *values)

    def mark(self, now: float) -> None:
        """Mark the time `now`, s, in the plots of a recording."""
        with self._guard:
            self._now = now
            for _, _, handle in self._shown:
                x, *values, _ = handle.data
                handle.data = (x, *values, marked(x, values, now))

    def _add(self, spec: PlotSpec, signals: Signals) -> None:
        curves = styled(spec.curves, signals.description)
        series: list[dict[str, Any]] = [{"label": "t"}]
        for each in curves:
            color, dash = palette.curve_color(each.place), palette.curve_dash(each.place)[1]
            line: dict[str, Any] = {"label": each.name, "stroke": color, "width": 1.5, "points": {"show": False}}
            if each.is_reference:
                line |= {"stroke": palette.INK, "width": 1.0, "dash": (2, 4)}
            elif dash:
                line["dash"] = tuple(2.0 * part for part in dash)
            series.append(line)
        if not self._is_live:
            series.append({"label": NOW, "stroke": palette.ALARM, "width": 1.0, "points": {"show": False}})
        is_long = len(curves) > MOST_NAMED
        axis = {"stroke": palette.INK, "grid": {"stroke": palette.FAINT, "width": 1}, "size": 46}
        empty = tuple(np.zeros(2) if k else np.array([0.0, 1.0]) for k in range(len(series)))
        handle = self._gui.add_uplot(
            empty,
            tuple(series),
            title=titled(spec),
            scales={"x": {"time": False}, "y": {"distr": 3} if spec.log else {}},
            axes=({**axis, "size": 28}, axis),
            legend={"show": not is_long, "live": True},
            cursor={"drag": {"x": True, "y": False}, "sync": {"key": "armswing"}},
            height=HEIGHT,
        )
        self._handles.append(handle)
        self._shown.append((spec, curves, handle))
        if is_long:
            self._handles.append(self._gui.add_html(legend(curves)))


def _kind_of(field: str) -> str:
    """First part of a field's name, such as "position" of "position.elbow"."""
    return field.partition(".")[0]


def legend(curves: Sequence[Styled]) -> str:
    """Names of many curves in their colours, as HTML."""
    parts = [
        f"<span style='white-space:nowrap;margin-right:.8em'><b style='color:{palette.curve_color(each.place)}'>"
        f"{palette.curve_dash(each.place)[0]}</b> {html.escape(each.name)}</span>"
        for each in curves
        if not each.is_reference
    ]
    return f"<div style='font-size:11px;line-height:1.35;color:{palette.INK};padding:0 .6em'>{' '.join(parts)}</div>"


def marked(x: Floats, values: Sequence[Floats], now: float) -> Floats:
    """A curve that is a vertical line at the time `now`, from the smallest to the largest of the values."""
    line = np.full(len(x), math.nan)
    finite = np.concatenate([each[np.isfinite(each)] for each in values]) if values else np.zeros(0)
    if len(finite) and len(x) > 1:
        place = min(max(int(np.searchsorted(x, now, side="right")) - 1, 0), len(x) - 2)
        line[place], line[place + 1] = finite.min(), finite.max()
    return line
