"""The live run of a window: takes the messages of the feed, and knows the state of the launch and of its simulation."""

from __future__ import annotations

import html
import time

import msgspec
from pyqtgraph.Qt import QtCore

from viewer.data.follower import LaunchFollower
from viewer.data.live import LiveFeed
from viewer.data.signals import diverged_text
from viewer.qt import theme
from viewer.source import Source
from viewer.window.run_window import RunWindow

SURVEY_EVERY = 30  # frames between two surveys of the live motion for the scene's limits
OUTGROWN_EVERY = 5  # frames between two checks that the current pose lies inside the scene
SETTLED_S = 0.3  # after this long without a new state, the scene and the plots are fitted to all states and drawn whole
PAUSED = "the simulation is paused, and has sent no state since this window opened: resume or step it"
STOPS = ("estop", "estop_released")  # kinds of the events that begin and end an emergency stop
RESTING = ("paused", "stopped")  # states in which a simulation does not advance
MOST_LETTERS = 80  # of the reason of an emergency stop below the title


class LiveRun(QtCore.QObject):
    """The live run that a window shows.

    frames       number of frames with new messages so far
    began        Qt signal that is emitted when another launch has begun
    status_came  Qt signal with the status of a node
    """

    began = QtCore.pyqtSignal()
    status_came = QtCore.pyqtSignal(object)

    def __init__(self, window: RunWindow, feed: LiveFeed) -> None:
        super().__init__(window)
        self._window, self._feed = window, feed
        self._follower = LaunchFollower(feed, window.signals, self._begin, self.status_came.emit)
        self.frames = 0
        self._drawn, self._drawn_at = (0, 0), 0.0  # latest state of which a frame was drawn, and when
        self._is_settled = True  # whether scene and plots were drawn whole since that frame

    @property
    def simulation_state(self) -> str:
        """State of the simulation, such as "paused", from its latest status."""
        return self._follower.state

    @property
    def is_receiving(self) -> bool:
        """Whether messages of the launch are arriving."""
        return self._follower.is_receiving

    @property
    def is_stopped(self) -> bool:
        """Whether an emergency stop holds.

        The latest statuses of the nodes report a stop, also to a window that was opened during the stop. Events report
        a change between two statuses.
        """
        kinds = [mark.kind for mark in self._window.sources[0].store.events if mark.kind in STOPS]
        return bool(self._follower.stops) or (bool(kinds) and kinds[-1] == STOPS[0])

    @property
    def resting(self) -> tuple[str, float]:
        """(state of a simulation that does not advance, such as "paused", time at which it entered this state).

        The time is in s of the monotonic clock. The state is "" if the simulation advances or its launch has ended.
        """
        rests = self.simulation_state in RESTING and self.is_receiving
        return (self.simulation_state, self._follower.state_since) if rests else ("", 0.0)

    def take(self) -> None:
        """Show the messages that have arrived since the last frame."""
        window, instant = self._window, time.monotonic()
        known = window.signals.description
        has_messages = self._follower.take()
        self._show()
        if (latest := (window.signals.states, window.signals.seq)) != self._drawn:
            self._drawn, self._drawn_at, self._is_settled = latest, instant, False
        elif not self._is_settled and instant - self._drawn_at > SETTLED_S:
            self._is_settled = True
            self._draw_whole()
            return
        if not has_messages:
            return
        if self.frames % SURVEY_EVERY == 0 or window.signals.description is not known:
            self._fit()
        elif self.frames % OUTGROWN_EVERY == 0 and window.scene.camera is None and window.scene.outgrown:
            window.survey()
        self.frames += 1
        window.refresh()

    def _fit(self) -> None:
        """Fit the scene, the plots and the marks of events to all messages so far."""
        self._window.survey()
        self._window.choose_plots()
        self._window.events.mark_plots()

    def _draw_whole(self) -> None:
        """Draw the scene and the plots anew after the last state, because further frames may not come.

        While the simulation runs, a frame draws only the newest pieces of the curves, and most frames leave the view of
        the scene as it is.
        """
        self._fit()
        self._window.plots.invalidate()
        self._window.refresh()

    def _begin(self) -> None:
        """Show the signals of another launch, which has begun, in place of those of the launch before."""
        window = self._window
        window.sources[0] = Source("live", self._follower.signals, live=True)
        window.plots.set_interval(None)
        window.plots.hover(None, None)
        window.plots.marks = []
        self.began.emit()
        if window.history.layout.time is not None:  # a part of the old launch
            window.history.change(msgspec.structs.replace(window.history.layout, time=None), "next launch")
        window.plots.invalidate()

    def _show(self) -> None:
        """Show the state of the launch in the line below the title."""
        window = self._window
        if window.signals.states == 0:
            paused = self.simulation_state == "paused" and self.is_receiving
            window.page.empty.setText(PAUSED if paused else self._feed.waiting)
        if self._follower.received_at is None:
            return
        how = f": sim {self.simulation_state}" if self.simulation_state else ""
        if self.is_stopped:
            alarm = f"<span style='color:{theme.ALARM};font-weight:bold'>EMERGENCY STOP</span>"
            how = f": {alarm} until it is released; sim {self.simulation_state}{self._reasons()}"
        if not self.is_receiving:
            how = f": no message for {self._follower.silence_s:.0f} s, the launch has ended; waiting for the next ..."
        how += diverged_text(window.signals)
        live, *overlaid = window.subtitles
        window.page.show_subtitle("; ".join([live + how, *overlaid]))

    def _reasons(self) -> str:
        """Reasons of the emergency stop with the nodes that report it, as rich text; "" if none is reported."""
        nodes: dict[str, list[str]] = {}
        for node, reason in sorted(self._follower.stops.items()):
            nodes.setdefault(reason, []).append(node)
        text = "; ".join(f"{', '.join(names)}: {reason}" for reason, names in nodes.items())
        return f" ({html.escape(text[:MOST_LETTERS])})" if text else ""
