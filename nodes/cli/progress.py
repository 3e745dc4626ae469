"""Progress of a long command, as bars on a terminal and as lines of text elsewhere, and its end by a signal."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Any, Self

LINE_EVERY_S = 20.0  # period of progress lines without a terminal
DRAWN_EVERY_S = 0.1
COUNTED = {
    "simulating": "runs",
    "drawing": "plots",
    "compiling": "kernels and loops",
    "searching": "iterations",
    "refining": "iterations",
    "rehearsing": "runs",
    "exporting": "messages",
    "importing": "messages",
}


class Interrupted(KeyboardInterrupt):
    """Raised after SIGINT or SIGTERM was received; `signal` is the number of that signal."""

    def __init__(self, number: int) -> None:
        self.signal = number
        super().__init__(number)


@contextmanager
def interruptible() -> Iterator[Callable[[], None]]:
    """Context manager that yields a function. This function raises Interrupted after SIGINT or SIGTERM was received.

    The signal handler itself raises nothing: an exception while a lock is being acquired would leave the lock locked,
    and an exception in a finalizer would be lost. Later signals do not change how the command ends.
    """
    signals: list[int] = []

    def note(number: int, _frame: FrameType | None) -> None:
        signals.append(number)

    def go_on() -> None:
        if signals:
            raise Interrupted(signals[0])

    before = {kind: signal.signal(kind, note) for kind in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield go_on
    except BaseException:
        if signals:  # the command is ending: ignore further signals
            before = dict.fromkeys(before, signal.SIG_IGN)
        raise
    finally:
        for kind, handler in before.items():
            signal.signal(kind, handler)


def _nothing() -> None:
    pass


class ProgressBar:
    """Context manager that shows the progress of several kinds of work: a bar for each, or lines of text.

    Without a terminal, a line is printed when a new kind of work begins, and afterwards every LINE_EVERY_S seconds. No
    thread draws the bars, because worker processes are forked beside them.

    go_on  function of `interruptible`, which each report of progress calls
    """

    def __init__(self, go_on: Callable[[], None] = _nothing, clock: Callable[[], float] = time.monotonic) -> None:
        # for a terminal alone
        from rich.console import Console
        from rich.progress import Progress

        console = Console(stderr=True, highlight=False)
        self._progress = (
            Progress(*self._columns(), console=console, auto_refresh=False, speed_estimate_period=600.0)
            if console.is_terminal
            else None
        )
        self._tasks: dict[str, Any] = {}
        self._go_on, self._clock = go_on, clock
        self._began = self._shown = clock()

    def _columns(self) -> tuple[Any, ...]:
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn  # for a terminal alone

        return TextColumn("{task.description:<16}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()

    def __enter__(self) -> Self:
        if self._progress is not None:
            self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._progress is not None:
            self._progress.refresh()
            self._progress.stop()

    def show(self, what: str, done: int, of: int) -> None:
        """Show that `done` of `of` pieces of the work `what` are done. Shows nothing if `of` is 0."""
        self._go_on()
        if of == 0:
            return
        now, is_new = self._clock(), what not in self._tasks
        if self._progress is None:
            self._tasks[what] = None
            if is_new or now - self._shown >= LINE_EVERY_S:
                self._shown = now
                self._print_line(what, done, of, now, is_new)
            return
        if is_new:
            self._tasks[what] = self._progress.add_task(what, total=of, completed=done)
        self._progress.update(self._tasks[what], completed=done, total=of)
        if done == of or now - self._shown >= DRAWN_EVERY_S:
            self._shown = now
            self._progress.refresh()

    def _print_line(self, what: str, done: int, of: int, now: float, is_new: bool) -> None:
        after = f"{now - self._began:.0f} s"
        if is_new:
            _print(f"{what} {of} {COUNTED.get(what, 'pieces')} (begun after {after})")
        else:
            _print(f"{what}: {done} of {of} done ({after})")


class RunsBar(ProgressBar):
    """Context manager that shows how many runs are completed, and the remaining time.

    noun  name of the runs in the plural
    """

    def __init__(
        self, go_on: Callable[[], None], noun: str = "runs", clock: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__(go_on, clock)
        self._first = 0
        self.noun = noun

    def _columns(self) -> tuple[Any, ...]:
        from rich.progress import TextColumn, TimeRemainingColumn  # for a terminal alone

        return TextColumn("{task.description}"), *super()._columns()[1:], TextColumn("left"), TimeRemainingColumn()

    def count(self, done: int, of: int) -> None:
        """Show that `done` of `of` runs are completed."""
        self.show(self.noun, done, of)

    def _print_line(self, what: str, done: int, of: int, now: float, is_new: bool) -> None:
        if is_new:
            self._first, self._began = done, now
            if done:
                _print(f"{done} of {of} {what} were done before")
            return
        passed, made = now - self._began, done - self._first
        left = f", about {(of - done) * passed / made:.0f} s left" if made else ""
        _print(f"{done} of {of} {what} done after {passed:.0f} s{left}")


def _print(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
