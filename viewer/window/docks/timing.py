"""Panel with the timing of the live simulation.

The panel shows step time, real-time factor, jitter, overruns, lost messages and frame rate.
"""

from __future__ import annotations

import time
from typing import Any

from pyqtgraph.Qt import QtCore, QtGui, QtWidgets

from nodes.framework.messages import Status
from viewer.qt import theme

BAR_HEIGHT = 18
WAITING = "the timing appears when a launch is live"


class Histogram(QtWidgets.QWidget):
    """Horizontal bars of counts by label, with lengths on a logarithmic scale."""

    def __init__(self) -> None:
        super().__init__()
        self.counts: dict[str, int] = {}

    def show_counts(self, counts: dict[str, int]) -> None:
        self.counts = dict(counts)
        self.setMinimumHeight(BAR_HEIGHT * max(1, len(counts)) + 4)
        self.update()

    def paintEvent(self, event: Any) -> None:
        """Qt override: draw one row per count, with its label, a bar and its share of all counts."""
        painter = QtGui.QPainter(self)
        painter.setFont(theme.font(8.5))
        total, most = sum(self.counts.values()), max(self.counts.values(), default=1)
        left, right = 80, 70
        room = max(10, self.width() - left - right)
        for row, (label, count) in enumerate(self.counts.items()):
            top = row * BAR_HEIGHT
            painter.setPen(QtGui.QColor(theme.MUTED))
            flags = int(QtCore.Qt.AlignmentFlag.AlignRight | QtCore.Qt.AlignmentFlag.AlignVCenter)
            painter.drawText(0, top, left - 6, BAR_HEIGHT, flags, label)
            length = max(2, round(room * (len(bin(count)) - 2) / max(1, len(bin(most)) - 2)))
            painter.fillRect(left, top + 3, length, BAR_HEIGHT - 6, QtGui.QColor(theme.ACCENT))
            painter.setPen(QtGui.QColor(theme.INK))
            text = f"{100.0 * count / total:.3g} %"
            painter.drawText(left + length + 4, top, right, BAR_HEIGHT, int(QtCore.Qt.AlignmentFlag.AlignVCenter), text)
        painter.end()


class TimingPanel(QtWidgets.QWidget):
    """Timing of the simulation, and the numbers of messages that nodes have lost."""

    def __init__(self) -> None:
        super().__init__()
        self.histogram = Histogram()
        self.figures = QtWidgets.QLabel(WAITING)
        self.figures.setTextFormat(QtCore.Qt.TextFormat.RichText)
        self.figures.setAlignment(QtCore.Qt.AlignmentFlag.AlignTop)
        self.figures.setWordWrap(True)
        title = QtWidgets.QLabel("time of a step, from the computation to the published state (logarithmic bars)")
        title.setObjectName("caption")
        title.setWordWrap(True)
        inside = QtWidgets.QWidget()
        column = QtWidgets.QVBoxLayout(inside)
        column.setContentsMargins(4, 4, 4, 4)
        column.addWidget(self.figures)
        column.addWidget(title)
        column.addWidget(self.histogram)
        column.addStretch(1)
        area = QtWidgets.QScrollArea()
        area.setWidget(inside)
        area.setWidgetResizable(True)
        outer = QtWidgets.QVBoxLayout(self)
        outer.setContentsMargins(0, 0, 0, 0)
        outer.addWidget(area)
        self._lost: dict[str, int] = {}
        self._drawn = (time.monotonic(), time.process_time(), 0)

    def forget(self) -> None:
        """Remove the figures, which are of a launch that has ended."""
        self._lost.clear()
        self.histogram.show_counts({})
        self.figures.setText(WAITING)

    def process_status(self, status: Status) -> None:
        """Record the number of messages that a node has lost, from its status."""
        self._lost[status.node] = status.counters.get("lost", 0)

    def show_status(self, status: dict[str, Any], frames: int, own_lost: int) -> None:
        """Show the status of the simulation.

        frames    number of frames that the window has drawn so far
        own_lost  number of messages that the viewer lost
        """
        self.histogram.show_counts(status.get("step_histogram") or {})
        instant, busy = time.monotonic(), time.process_time()
        before, busy_before, count = self._drawn
        passed = max(instant - before, 1e-9)
        rate, share = (frames - count) / passed, (busy - busy_before) / passed
        self._drawn = (instant, busy, frames)
        lost = ", ".join(f"{node} {count}" for node, count in {**self._lost, "viewer": own_lost}.items())
        rows = {
            "real-time factor": _number(status.get("real_time_factor")),
            "speed": _number(status.get("speed")),
            "step time": _quantiles(status, "step"),
            "jitter": _quantiles(status, "jitter"),
            "round trip": _quantiles(status, "round_trip"),
            "overruns": str(status.get("overruns", "-")),
            "skipped steps": str(status.get("skipped", "-")),
            "messages lost": lost or "-",
            "viewer": f"{rate:.1f} frames/s, {100.0 * share:.0f} % of a core",
        }
        self.figures.setText(
            "<table cellspacing='0' cellpadding='1'>"
            + "".join(
                f"<tr><td style='color:{theme.MUTED};padding-right:10px'>{name}</td><td>{text}</td></tr>"
                for name, text in rows.items()
            )
            + "</table>"
        )


def _number(value: Any) -> str:
    return "-" if value is None else f"{value:.4g}"


def _quantiles(status: dict[str, Any], name: str) -> str:
    """Median, 99 % quantile and largest value of a duration, as text in a suitable unit."""
    parts = [
        f"{label} {_duration(status[key])}"
        for label, key in (("p50", f"{name}_p50_s"), ("p99", f"{name}_p99_s"), ("max", f"{name}_max_s"))
        if status.get(key) is not None
    ]
    return ", ".join(parts) or "-"


def _duration(seconds: float) -> str:
    for unit, factor in (("s", 1.0), ("ms", 1e3), ("us", 1e6)):
        if seconds * factor >= 1.0 or unit == "us":
            return f"{seconds * factor:.3g} {unit}"
    return ""
