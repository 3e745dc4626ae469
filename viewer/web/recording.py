"""A recording in the browser: time slider, play and pause."""

from __future__ import annotations

import threading
import time
from typing import Any

import numpy as np

from viewer.data.series import row_at
from viewer.request import Request
from viewer.source import open_source, warn_of
from viewer.web.plots import WebPlots
from viewer.web.scene import WebScene
from viewer.web.server import WebServer

FRAME_S = 1.0 / 30.0
MARK_S = 0.1  # while a recording plays, the plots mark the time this often
SPEEDS = ("0.1", "0.25", "0.5", "1", "2", "5", "10")
STEPS = 1000  # places of the slider
MOST_EVENTS = 200


class WebRecording:
    """The page of a recording. `run` serves it until `stop` is set.

    now  time that is shown, s
    """

    def __init__(self, server: WebServer, request: Request, stop: threading.Event) -> None:
        assert request.file is not None
        self._server, self._stop = server, stop
        self._part, self._reading = open_source(request.file, request.fields, request.run_number)
        self._scene = WebScene(server, request.plane)
        self._woken, self._guard = threading.Event(), threading.Lock()
        self._played_at: float | None = None
        self._marked_at = -1.0
        gui = server.viser.gui
        self._title = gui.add_markdown("")
        self._slider: Any = gui.add_slider("time [s]", 0.0, 1.0, 0.001, 0.0)
        self._buttons = gui.add_button_group("", ("◀ step", "▶ play", "❚❚ pause", "step ▶"))
        self._speed = gui.add_dropdown("speed", SPEEDS, initial_value="1")
        self._follow = gui.add_checkbox("follow the robot", True)
        fit = gui.add_button("Show all of it")
        panel = gui.add_panel()
        panel.dock_below(gui.main_panel)
        self._plots = WebPlots(gui, panel.add_tab("Plots"), request.fields, is_live=False)
        with panel.add_tab("Events"):
            self._events = gui.add_markdown("")
        self._slider.on_update(lambda event: self._sought(event))
        self._buttons.on_click(lambda event: self._pressed(event.target.value))
        fit.on_click(lambda _: self._scene.fit(self._part.source.signals))
        self.now = 0.0
        self._show_part()
        self.seek(self._span[0])

    @property
    def _span(self) -> tuple[float, float]:
        return self._part.source.span

    def run(self) -> None:
        """Serve the page."""
        try:
            while not self._stop.is_set():
                self._woken.wait(FRAME_S if self._played_at is not None or self._reading is not None else 0.25)
                self._woken.clear()
                self._grow()
                self._advance()
                self._scene.follows = bool(self._follow.value)
        finally:
            if self._reading is not None:
                self._reading.close()

    def seek(self, instant: float) -> None:
        """Show a time, s, or the nearest one of the recording."""
        with self._guard:
            start, end = self._span
            self.now = max(start, min(end, instant))
            signals = self._part.source.signals
            with self._server.viser.atomic():
                self._slider.value = self.now
                self._scene.show(signals, self.now)
                if time.monotonic() - self._marked_at > MARK_S or self._played_at is None:
                    self._marked_at = time.monotonic()
                    self._plots.mark(self.now)

    def _show_part(self) -> None:
        """Show the part of the recording that was read so far."""
        part, signals = self._part, self._part.source.signals
        done = "" if self._reading is None else f"\n\n*still being read: {100.0 * self._reading.share:.0f} %*"
        robot = signals.robot.replace("_", " ")
        self._title.content = f"**{robot}**  \n{part.subtitle if signals.states else part.waiting}{done}"
        if not signals.states:
            return
        start, end = self._span
        self._slider.min, self._slider.max = start, max(end, start + 1e-9)
        self._slider.step = max((end - start) / STEPS, 1e-9)
        if not self._scene.bodies:
            self._scene.build(signals)
        self._plots.choose(signals)
        self._plots.show(signals, self.now)
        marks = part.source.events
        rows = [f"{each.time:.3f}\u00a0s | {each.kind} | {each.detail}" for each in marks[:MOST_EVENTS]]
        more = f"\n\nand {len(marks) - MOST_EVENTS} more" if len(marks) > MOST_EVENTS else ""
        self._events.content = "\n".join(["t | event | detail", "-|-|-", *rows]) + more if rows else "no events"

    def _grow(self) -> None:
        reading = self._reading
        if reading is None:
            return
        finished = reading.finished  # before the last part is taken
        if (found := reading.take()) is not None:
            self._part = found
        if finished:
            self._reading = None
            reading.close()
            warn_of(self._part)
            if reading.failure:
                self._part.subtitle += f"; the rest cannot be read: {reading.failure}"
        if finished or found is not None:
            with self._guard:
                self._show_part()

    def _advance(self) -> None:
        if self._played_at is None:
            return
        instant = time.monotonic()
        now = self.now + (instant - self._played_at) * float(self._speed.value)
        self._played_at = instant
        if now >= self._span[1] and self._reading is None:
            self._played_at = None
        self.seek(now)

    def _sought(self, event: Any) -> None:
        if event.client is not None:  # not moved by this process
            self._played_at = None
            self.seek(float(event.target.value))

    def _pressed(self, button: str) -> None:
        poses = self._part.source.signals.poses
        if "play" in button:
            if self.now >= self._span[1]:
                self.now = self._span[0]
            self._played_at = time.monotonic()
            self._woken.set()
            return
        self._played_at = None
        place = None if poses is None else row_at(poses.times, self.now)
        if poses is not None and place is not None and "step" in button:
            step = -1 if button.startswith("◀") else 1
            self.seek(float(poses.times[int(np.clip(place + step, 0, len(poses.times) - 1))]))
        else:
            self.seek(self.now)
