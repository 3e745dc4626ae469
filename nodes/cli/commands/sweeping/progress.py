"""Progress of a sweep: a bar with the remaining time on a terminal, and lines of text elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from types import TracebackType

LINE_EVERY_S = 20.0  # period of progress lines without a terminal
DRAWN_EVERY_S = 0.1


class SweepBar:
    """Context manager that shows how many runs are completed.

    The bar starts no thread, because the process forks workers while the bar is shown.

    noun  name of the runs in the plural
    """

    def __init__(self, noun: str = "runs", clock: Callable[[], float] = time.monotonic) -> None:
        # for a terminal alone
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )

        console = Console(stderr=True, highlight=False)
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
        )
        terminal = console.is_terminal
        self._progress = Progress(*columns, console=console, auto_refresh=False, speed_estimate_period=600.0)
        self._on_terminal = terminal
        self._noun, self._clock = noun, clock
        self._task: int | None = None
        self._first = 0
        self._began = self._shown = clock()

    def __enter__(self) -> SweepBar:
        if self._on_terminal:
            self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._on_terminal:
            self._progress.refresh()
            self._progress.stop()

    def show(self, done: int, of: int) -> None:
        """Show the progress of the sweep.

        done  number of completed runs
        of    number of all runs
        """
        now = self._clock()
        if self._task is None:
            self._task = int(self._progress.add_task(self._noun, total=of, completed=done))
            self._first, self._began = done, now
            if not self._on_terminal and done:
                self._line(f"{done} of {of} {self._noun} were done before")
        elif not self._on_terminal:
            if now - self._shown >= LINE_EVERY_S:
                self._shown = now
                self._line(
                    f"{done} of {of} {self._noun} done after {now - self._began:.0f} s{self._remaining(done, of, now)}"
                )
            return
        if now - self._shown >= DRAWN_EVERY_S or done == of:
            self._shown = now
            self._progress.update(self._task, completed=done)  # type: ignore[arg-type]
            if self._on_terminal:
                self._progress.refresh()

    def _remaining(self, done: int, of: int, now: float) -> str:
        made = done - self._first
        return f", about {(of - done) * (now - self._began) / made:.0f} s left" if made else ""

    def _line(self, text: str) -> None:
        print(text, file=sys.stderr, flush=True)
