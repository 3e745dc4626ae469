"""Progress display of a launch: one line per node and, when the duration is known, a progress bar."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, NamedTuple

from nodes.framework.launching.logs import RunLog
from sim_core.support.shown import printable

if TYPE_CHECKING:  # rich is imported where a terminal is redrawn: a launch without one starts without it
    # for a terminal alone
    from rich.console import Group
    from rich.live import Live
    from rich.progress import Progress

REFRESH_S = 0.25
PLAIN_PERIOD_S = 5.0
UNCHANGED_PERIOD_S = 60.0  # period of plain lines while no state changes
STYLES = {"running": "green", "ready": "green", "paused": "yellow", "safe": "yellow", "waiting": "yellow"}
TROUBLE = "red"


class NodeLine(NamedTuple):
    """Displayed state of one node.

    lost       number of messages that the node lost, None when unknown
    is_reason  whether `detail` tells for which event the node waits, or why it has stopped the robot
    """

    name: str
    pid: int
    state: str
    lost: int | None
    detail: str
    is_reason: bool = False


class Display:
    """Context manager that displays a run. A terminal is redrawn in place; any other output gets a line at intervals.

    duration_s  planned simulation time, s; None when the run ends by Ctrl-C
    """

    def __init__(self, duration_s: float | None) -> None:
        self._duration_s = duration_s
        self.log: RunLog | None = None
        self._live: Live | None = None
        self._progress: Progress | None = None
        self._next_plain = time.monotonic() + PLAIN_PERIOD_S
        self._next_picture = 0.0
        self._last_states: tuple[tuple[str, str], ...] = ()
        self._last_plain = ("", 0.0)  # the last line printed, and when

    def __enter__(self) -> Display:
        # stderr: stdout is for the summary, so that `armswing launch ... > summary.txt` holds that alone.
        if sys.stderr.isatty():
            # for a terminal alone
            from rich.console import Console
            from rich.live import Live
            from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

            console = Console(stderr=True, highlight=False, soft_wrap=True)
            if self._duration_s is not None:
                self._progress = Progress(
                    TextColumn("t = {task.completed:.1f} of {task.total:g} s"),
                    BarColumn(),
                    TimeRemainingColumn(),
                    console=console,
                )
                self._progress.add_task("run", total=self._duration_s)
            self._live = Live(console=console, auto_refresh=False, transient=True)
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def print_line(self, text: str, name: str = "launch") -> None:
        """Print a line that stays on the screen and begins with `name`, the source of the line.

        The line is also added to the log of the run. Control characters are shown as text.
        """
        text = printable(text.rstrip("\r"), "\n\t")
        if self.log is not None:
            self.log.add(name, text)
        if self._live is not None:
            from rich.text import Text  # for a terminal alone

            self._live.console.print(Text(f"[{name}] {text}"))
        else:
            with contextlib.suppress(OSError, ValueError):  # a full disk or a closed pipe does not end the run
                print(f"[{name}] {text}", file=sys.stderr, flush=True)

    def update(self, time_s: float, nodes: Sequence[NodeLine]) -> None:
        """Display the nodes' states at simulation time `time_s`."""
        if self._live is not None:
            now = time.monotonic()
            if now >= self._next_picture:
                self._next_picture = now + REFRESH_S
                self._live.update(self._picture(time_s, nodes), refresh=True)
        else:
            self._plain(time_s, nodes)

    def _picture(self, time_s: float, nodes: Sequence[NodeLine]) -> Group:
        # for a terminal alone
        from rich.console import Group
        from rich.table import Table
        from rich.text import Text

        table = Table.grid(padding=(0, 2))
        for line in nodes:
            lost = "" if not line.lost else f"lost {line.lost}"
            state = Text(printable(line.state), style=STYLES.get(line.state, TROUBLE if line.state == "failed" else ""))
            table.add_row(line.name, str(line.pid or "-"), state, lost, Text(printable(line.detail), style="dim"))
        if self._progress is None:
            return Group(table, Text(f"t = {time_s:.1f} s   Ctrl-C ends it"))
        self._progress.update(self._progress.task_ids[0], completed=time_s)
        return Group(table, self._progress)

    def _plain(self, time_s: float, nodes: Sequence[NodeLine]) -> None:
        states = tuple((line.name, _state(line)) for line in nodes)
        now = time.monotonic()
        starting = any(line.state == "starting" for line in nodes)
        if now < self._next_plain and (starting or states == self._last_states):
            return
        self._last_states, self._next_plain = states, now + PLAIN_PERIOD_S
        shown = ", ".join(
            f"{line.name} {_state(line)}" + (f" (lost {line.lost})" if line.lost else "") for line in nodes
        )
        text = f"t = {time_s:.1f} s: {shown}"
        last, printed_at = self._last_plain
        if text != last or now >= printed_at + UNCHANGED_PERIOD_S:
            self._last_plain = text, now
            self.print_line(text)


def _state(line: NodeLine) -> str:
    """Text for a node's state, or the reason for which it waits or has stopped the robot."""
    return line.detail if line.is_reason else line.state
