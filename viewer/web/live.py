"""A live domain in the browser: scene, plots, and the panels that steer the simulation."""

from __future__ import annotations

import threading
import time

import msgspec

from nodes.framework.messages import Description, Status
from nodes.framework.transport import background_threads
from viewer.data.boundaries import Boundary, boundary
from viewer.data.live import LiveFeed
from viewer.data.signals import Signals, diverged_text
from viewer.request import Request
from viewer.web.plots import WebPlots
from viewer.web.scene import WebScene
from viewer.web.server import WebServer
from viewer.web.steering import Parameters, Steering

FRAME_S = 1.0 / 30.0
PATHS_EVERY = 4  # frames between two drawings of the paths of the tips
PLOTS_S = 0.4  # time between two drawings of the plots
SURVEY_S = 1.0  # time between two surveys of the motion
SILENT_S = 3.0  # a launch from which no message came for this long, not even a status, has ended
MOST_EVENTS = 30


class WebLive:
    """The page of a live domain. `run` serves it until `stop` is set.

    frames  number of poses sent to the browsers so far
    """

    def __init__(self, server: WebServer, request: Request, stop: threading.Event) -> None:
        self._server, self._stop = server, stop
        self._feed = LiveFeed(request.domain)
        self._signals = Signals()
        self._scene = WebScene(server, request.plane)
        self._scene.space.scene.latest_only = True
        self._state = ""
        self._received_at: float | None = None
        self._emergency: dict[str, str] = {}  # {node: reason of the emergency stop that its latest status reports}
        self._drawn = self._plotted_at = self._surveyed_at = -1.0
        self.frames = 0
        gui = server.viser.gui
        self._title = gui.add_markdown("")
        self._steering = Steering(server.viser, self._feed.domain, self._scene, lambda: self._signals)
        panel = gui.add_panel()
        panel.dock_below(gui.main_panel)
        self._plots = WebPlots(gui, panel.add_tab("Plots"), request.fields, is_live=True)
        self._parameters = Parameters(gui, panel.add_tab("Parameters"), self._feed.domain)
        with panel.add_tab("Events"):
            self._events = gui.add_markdown("")
        self._shown_events: tuple[int, str] = (-1, "")

    def run(self) -> None:
        """Serve the page."""
        background_threads.defer_this()
        background_threads.defer_others()
        due = time.monotonic()
        try:
            while not self._stop.is_set():
                self._take()
                self._show()
                due = max(due + FRAME_S, time.monotonic())
                self._stop.wait(due - time.monotonic())
        finally:
            self._feed.close()
            self._steering.close()
            self._parameters.close()

    def _take(self) -> None:
        """Take the messages that have arrived since the last frame."""
        messages, instant = self._feed.take(), time.monotonic()
        has_ended = self._received_at is not None and instant - self._received_at > SILENT_S
        first = 0  # of the messages that are not in the store yet
        for place, (topic, message) in enumerate(messages):
            self._received_at, signals = instant, self._signals
            found = boundary(topic, message, signals.robot, signals.time, signals.seq, has_ended)
            if found == Boundary.LAUNCH:
                self._begin(None)
                first = place + 1
                continue
            if found == Boundary.ROBOT:
                self._begin(None)
                has_ended = False
            elif found == Boundary.SERVER:
                self._begin(signals.description)
                first = place
            if isinstance(message, Status):
                self._emergency.pop(message.node, None)
                if message.emergency:
                    self._emergency[message.node] = message.emergency
                if message.node == "sim":
                    self._state = message.state
            self._signals.take(topic, message)
        self._signals.keep(messages[first:])

    def _begin(self, description: Description | None) -> None:
        """Forget all data of the launch that was shown, because another launch has begun."""
        robot, self._signals = self._signals.robot, Signals()
        self._signals.description = description
        if description is not None:
            self._signals.keep([(f"{robot}/description", description)])
        self._scene.bodies, self._state = [], ""
        self._emergency.clear()
        self._parameters.forget()
        self._steering.forget()

    def _show(self) -> None:
        """Show what has changed, if any browser is there to see it."""
        if not self._server.is_watched:
            return
        signals, instant = self._signals, time.monotonic()
        is_receiving = self._received_at is not None and instant - self._received_at <= SILENT_S
        self._title.content = self._text(is_receiving)
        self._steering.show_state(self._state, is_receiving, bool(self._emergency))
        if not self._scene.bodies and not self._scene.build(signals):
            return
        self._scene.follows = self._steering.follows
        if signals.time != self._drawn:
            self._drawn = signals.time
            self._scene.show(signals, signals.time, with_paths=self.frames % PATHS_EVERY == 0)
            self.frames += 1
        if instant - self._surveyed_at > SURVEY_S:
            self._surveyed_at = instant
            self._scene.space.scene.survey(signals)
            self._plots.choose(signals)
            self._show_events()
            if is_receiving:
                self._parameters.read()
        if instant - self._plotted_at > PLOTS_S:
            self._plotted_at = instant
            self._plots.show(signals, signals.time)

    def _show_events(self) -> None:
        marks = self._signals.store.events
        latest = (len(marks), msgspec.json.encode(marks[-1]).decode() if marks else "")
        if latest != self._shown_events:
            self._shown_events = latest
            rows = [f"{each.time:.3f} s | {each.kind} | {each.detail}" for each in marks[-MOST_EVENTS:][::-1]]
            self._events.content = "\n".join(["t | event | detail", "-|-|-", *rows]) if rows else "no events"

    def _text(self, is_receiving: bool) -> str:
        """State of the launch, as Markdown."""
        signals = self._signals
        if not signals.states:
            return self._feed.waiting
        how = f"sim {self._state}" if is_receiving else "the launch has ended; waiting for the next ..."
        alarm = "".join(f"  \n**EMERGENCY STOP** {node}: {reason}" for node, reason in self._emergency.items())
        robot = signals.robot.replace("_", " ")
        return f"**{robot}**, domain {self._feed.domain}: {how}{diverged_text(signals)}{alarm}"
