"""A live domain in the browser: scene, plots, and the panels that steer the simulation."""

from __future__ import annotations

import threading
import time

import msgspec

from nodes.framework.transport import background_threads
from viewer.data.follower import LaunchFollower
from viewer.data.live import LiveFeed
from viewer.data.signals import Signals, diverged_text
from viewer.request import Request
from viewer.web.joints import Joints
from viewer.web.plots import WebPlots
from viewer.web.scene import WebScene
from viewer.web.server import WebServer
from viewer.web.steering import Parameters, Steering

FRAME_S = 1.0 / 30.0
PATHS_EVERY = 4  # frames between two drawings of the paths of the tips
PLOTS_S = 0.4  # time between two drawings of the plots
SURVEY_S = 1.0  # time between two surveys of the motion
MOST_EVENTS = 30


class WebLive:
    """The page of a live domain. `run` serves it until `stop` is set.

    frames  number of poses sent to the browsers so far
    """

    def __init__(self, server: WebServer, request: Request, stop: threading.Event) -> None:
        self._server, self._stop = server, stop
        self._feed = LiveFeed(request.domain)
        self._follower = LaunchFollower(self._feed, Signals(), self._begin)
        self._scene = WebScene(server, request.plane)
        self._scene.space.scene.latest_only = True
        self._drawn = self._plotted_at = self._surveyed_at = -1.0
        self.frames = 0
        gui = server.viser.gui
        self._title = gui.add_markdown("")
        self._steering = Steering(server.viser, self._feed.domain, self._scene, lambda: self._follower.signals)
        panel = gui.add_panel()
        panel.dock_below(gui.main_panel)
        self._plots = WebPlots(gui, panel.add_tab("Plots"), request.fields, is_live=True)
        self._joints = Joints(gui, panel.add_tab("Joints"), self._feed.domain)
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
                self._follower.take()
                self._show()
                due = max(due + FRAME_S, time.monotonic())
                self._stop.wait(due - time.monotonic())
        finally:
            self._feed.close()
            self._steering.close()
            self._joints.close()
            self._parameters.close()

    def _begin(self) -> None:
        """Forget all data of the launch that was shown, because another launch has begun."""
        self._scene.bodies = []
        self._joints.forget()
        self._parameters.forget()
        self._steering.forget()

    def _show(self) -> None:
        """Show what has changed, if any browser is there to see it."""
        if not self._server.is_watched:
            return
        signals, instant = self._follower.signals, time.monotonic()
        is_receiving = self._follower.is_receiving
        self._title.content = self._text(is_receiving)
        self._steering.show_state(is_receiving, bool(self._follower.stops))
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
            self._joints.show(signals)
            if is_receiving:
                self._joints.read()
                self._parameters.read()
        if instant - self._plotted_at > PLOTS_S:
            self._plotted_at = instant
            self._plots.show(signals, signals.time)

    def _show_events(self) -> None:
        marks = self._follower.signals.store.events
        latest = (len(marks), msgspec.json.encode(marks[-1]).decode() if marks else "")
        if latest != self._shown_events:
            self._shown_events = latest
            rows = [f"{each.time:.3f}\u00a0s | {each.kind} | {each.detail}" for each in marks[-MOST_EVENTS:][::-1]]
            self._events.content = "\n".join(["t | event | detail", "-|-|-", *rows]) if rows else "no events"

    def _text(self, is_receiving: bool) -> str:
        """State of the launch, as Markdown."""
        signals = self._follower.signals
        if not signals.states:
            return self._feed.waiting
        how = f"sim {self._follower.state}" if is_receiving else "the launch has ended; waiting for the next ..."
        alarm = "".join(f"  \n**EMERGENCY STOP** {node}: {reason}" for node, reason in self._follower.stops.items())
        robot = signals.robot.replace("_", " ")
        return f"**{robot}**, domain {self._feed.domain}: {how}{diverged_text(signals)}{alarm}"
