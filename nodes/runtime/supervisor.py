"""Starts the processes of a plan, restarts them by their policy, and ends every one of them.

Knows processes, not sockets: what "ready" means and how a process is asked to end are given to it.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from nodes.runtime.logs import Log

READY_DEADLINE_S = 30.0
# Of the 5 s a stop may take: time for the polite request, then for SIGTERM, then SIGKILL.
POLITE_S = 2.5
TERMINATE_S = 1.0
KILL_S = 1.0
LONGEST_BACKOFF_S = 5.0
POLL_S = 0.01


@dataclass(frozen=True)
class Program:
    """One process to run. Exponential backoff: backoff_s, twice that, ... at most 5 s."""

    name: str
    command: Sequence[str]
    restart: Literal["never", "on-failure", "always"] = "never"
    max_restarts: int = 3
    backoff_s: float = 0.25

    def restarts_after(self, exit_code: int) -> bool:
        """Whether the policy restarts a process that ended with this code."""
        return self.restart == "always" or (self.restart == "on-failure" and exit_code != 0)


@dataclass(frozen=True)
class Failure:
    """A process that failed for good: its exit code (128 + signal when killed) and its last lines."""

    name: str
    exit_code: int
    reason: str
    last_lines: list[str]


@dataclass
class Child:
    """A program and its current process. state: "starting", "running", "waiting" (for a restart), "ended"."""

    program: Program
    log: Log
    process: subprocess.Popen[bytes] | None = None
    state: str = "starting"
    restarts: int = 0
    exit_code: int | None = None
    start_again_at: float = 0.0

    @property
    def pid(self) -> int:
        """Process id of the current process, 0 when there is none."""
        return self.process.pid if self.process else 0


@dataclass
class Supervisor:
    """Owns the children of one launch. Use from the main thread only.

    Linux sends a child its parent-death signal when the *thread* that made it ends, so a child started from a
    passing thread would die with that thread.

    folder        where outputs are kept, `<folder>/<name>.log`
    is_ready      (name, pid) -> whether that process has reported ready
    ask_to_stop   asks a process to end; may block up to 2 s and may raise
    note          (name, line) for a person
    environment   of every child
    """

    folder: Path
    is_ready: Callable[[str, int], bool]
    ask_to_stop: Callable[[str], object]
    note: Callable[[str, str], None] = lambda name, line: None
    environment: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    ready_deadline_s: float = READY_DEADLINE_S
    children: dict[str, Child] = field(default_factory=dict)

    def start(self, programs: Sequence[Program]) -> Failure | None:
        """Start all in the order given and wait until each is ready; the first that fails to is returned.

        The processes load at the same time: their imports, not their readiness, take the time. One that ends
        before it was ever ready is not restarted: its fault is in the plan, not in the run.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        for program in programs:
            child = Child(program, Log(self.folder / f"{program.name}.log"))
            self.children[program.name] = child
            self._spawn(child)
        deadline = time.monotonic() + self.ready_deadline_s
        waiting = list(self.children.values())
        while waiting:
            for child in list(waiting):
                exit_code = self._ended(child)
                if exit_code is not None:
                    return self._failure(child, exit_code, "ended before it was ready")
                if self.is_ready(child.program.name, child.pid):
                    child.state = "running"
                    waiting.remove(child)
            if waiting and time.monotonic() > deadline:
                return self._failure(waiting[0], 1, f"not ready within {self.ready_deadline_s:g} s")
            time.sleep(POLL_S)
        return None

    def poll(self) -> Failure | None:
        """See which children ended, restart those whose policy says so; the one that failed for good or None."""
        for child in self.children.values():
            if child.state == "waiting" and time.monotonic() >= child.start_again_at:
                self._spawn(child)
            exit_code = self._ended(child) if child.state in ("starting", "running") else None
            if exit_code is None:
                if child.state == "starting" and self.is_ready(child.program.name, child.pid):
                    child.state = "running"
                continue
            if child.program.restarts_after(exit_code) and child.restarts < child.program.max_restarts:
                self._schedule_restart(child, exit_code)
            elif exit_code != 0:
                spent = f" after {child.restarts} restarts" if child.restarts else ""
                return self._failure(child, exit_code, f"failed{spent}")
        return None

    def new_lines(self) -> list[tuple[str, str]]:
        """(name, line) of what the children wrote since the last call."""
        return [(name, line) for name, child in self.children.items() for line in child.log.new_lines()]

    def stop(self) -> None:
        """End every child, and what it started, within 5 s: a request, then SIGTERM, then SIGKILL."""
        for child in self.children.values():
            if child.state == "waiting":
                child.state = "ended"
            if self._lives(child):
                threading.Thread(target=self._ask, args=(child.program.name,), daemon=True).start()
        self._wait_for_all(POLITE_S)
        for sent, wait_s in ((signal.SIGTERM, TERMINATE_S), (signal.SIGKILL, KILL_S)):
            for child in self._living():
                self.note(child.program.name, f"did not end when asked: {sent.name}")
                _signal_group(child.pid, sent)
            self._wait_for_all(wait_s)

    def kill(self) -> None:
        """End every child at once."""
        for child in self._living():
            _signal_group(child.pid, signal.SIGKILL)
        self._wait_for_all(KILL_S)

    def _spawn(self, child: Child) -> None:
        output = child.log.descriptor()
        try:
            child.process = subprocess.Popen(
                list(child.program.command),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=dict(self.environment),
                start_new_session=True,
            )
        finally:
            os.close(output)
        child.state, child.exit_code = "starting", None

    def _schedule_restart(self, child: Child, exit_code: int) -> None:
        wait_s = min(child.program.backoff_s * 2**child.restarts, LONGEST_BACKOFF_S)
        child.restarts += 1
        child.state = "waiting"
        child.start_again_at = time.monotonic() + wait_s
        self.note(
            child.program.name,
            f"ended with exit code {exit_code}; restart {child.restarts} of {child.program.max_restarts}"
            f" in {wait_s:g} s",
        )

    def _ended(self, child: Child) -> int | None:
        """The exit code if the child's process has ended; what it left running in its group is killed."""
        if child.exit_code is not None or child.process is None:
            return child.exit_code
        # WNOWAIT leaves the process unreaped, so its group id cannot have been given to anybody else yet.
        if os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
            return None
        _signal_group(child.pid, signal.SIGKILL)
        code = child.process.wait()
        child.exit_code = code if code >= 0 else 128 - code
        child.state = "ended"
        return child.exit_code

    def _failure(self, child: Child, exit_code: int, reason: str) -> Failure:
        return Failure(child.program.name, exit_code or 1, reason, child.log.last(20))

    def _ask(self, name: str) -> None:
        with contextlib.suppress(Exception):  # one that cannot be asked is signalled next
            self.ask_to_stop(name)

    def _lives(self, child: Child) -> bool:
        return child.process is not None and self._ended(child) is None

    def _living(self) -> list[Child]:
        return [child for child in self.children.values() if self._lives(child)]

    def _wait_for_all(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while self._living() and time.monotonic() < deadline:
            time.sleep(POLL_S)


def _signal_group(pid: int, number: signal.Signals) -> None:
    # A child leads its own session, so its group holds it and whatever it started.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)
