"""Starts the processes of a plan, restarts them by their policy, and ends every one of them.

Contains no sockets: the caller passes functions that tell whether a process is ready and that ask it to end.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from nodes.framework.launching.logs import Log

READY_DEADLINE_S = 60.0  # longest time without output of those not ready: a cold start compiles, and prints so
# A stop takes at most 5 s: POLITE_S from the reply to the request, then TERMINATE_S after SIGTERM, then KILL_S. Time in
# which a process waited for a core does not count: on a loaded computer a stop may take LONGEST_STOP_S.
POLITE_S = 2.0
LONGEST_STOP_S = 15.0
TERMINATE_S = 1.0
KILL_S = 1.0
LONGEST_BACKOFF_S = 5.0
SHOWN_LINES = 40  # enough for a whole traceback through the runner
POLL_S = 0.01

RESTARTS = "ARMSWING_RESTARTS"  # environment variable of a node's process: how often the process was restarted
Restart = Literal["never", "on-failure", "always"]


@dataclass(frozen=True)
class Program:
    """One process to run.

    restart       whether the process is restarted after it has ended: "never", "on-failure" or "always"
    max_restarts  largest number of restarts
    backoff_s     wait before the first restart, s; each further wait is twice as long, but at most 5 s
    needed        False: the launch does not wait until the process is ready; if the process fails, the launch reports
                  the failure and continues
    required      False: if the process fails after it was ready, the launch continues; `Supervisor.failed` lists the
                  process
    """

    name: str
    command: Sequence[str]
    restart: Restart = "never"
    max_restarts: int = 3
    backoff_s: float = 0.25
    needed: bool = True
    required: bool = True

    def restarts_after(self, exit_code: int) -> bool:
        """Whether the policy restarts a process that ended with this exit code."""
        return self.restart == "always" or (self.restart == "on-failure" and exit_code != 0)


@dataclass(frozen=True)
class Failure:
    """A process that failed and is not restarted, with its exit code (128 + signal when killed) and last lines of
    output.
    """

    name: str
    exit_code: int
    reason: str
    last_lines: list[str]


@dataclass
class Child:
    """A program and its current process.

    pid           process id of the current process; 0 before it is started
    state         "starting", "running", "waiting" (for a restart) or "ended"
    is_deaf       whether the process is still loading, so that it cannot be asked to end and gets SIGTERM at once
    answered_at   time.monotonic() at which the process replied to the request to end; None before
    is_signalled  whether `Supervisor.stop` has sent the process a signal
    was_deaf      whether the process could not be asked to end
    is_hung       whether the process did not answer the request to end, or could not be asked and ignored SIGTERM
    """

    program: Program
    log: Log
    pid: int = 0
    state: str = "starting"
    was_ready: bool = False
    restarts: int = 0
    started_at: float = 0.0
    last_output_at: float = 0.0  # time.monotonic() of its last line of output
    exit_code: int | None = None
    start_again_at: float = 0.0
    is_deaf: bool = False
    answered_at: float | None = None
    is_signalled: bool = False
    was_deaf: bool = False
    is_hung: bool = False


def execute(program: Program, environment: Mapping[str, str], output: int) -> int:
    """Start a program in a session of its own, with stdout and stderr to the file descriptor `output`.

    Returns its process id. Raises OSError if the program cannot be started.
    """
    return os.posix_spawnp(
        program.command[0],
        list(program.command),
        dict(environment),
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_DUP2, output, 1),
            (os.POSIX_SPAWN_DUP2, output, 2),
        ],
        setsid=True,
        setsigdef=[signal.SIGPIPE, signal.SIGXFSZ],  # which Python ignores
    )


@dataclass
class Supervisor:
    """Owns the child processes of one launch. Use from the main thread only.

    Linux sends a child its parent-death signal when the *thread* that created it ends, so a child started from a
    short-lived thread would die with that thread.

    folder        folder of the output files, `<folder>/<name>.log`
    is_ready      function (name, pid) -> whether that process has reported ready
    request_stop  function that asks a process to end and returns False if the process cannot be reached; the function
                  may take 1 s and may raise an exception
    has_stopped   function (name) -> whether a process that has ended with exit code 0 announced its end
    note          function called with (name, line) for each message to the user
    environment   environment variables of every child
    spawn         function that starts a program and returns its process id, with the arguments of `execute`
    polite_s      time (s) within which a process must end after it has replied to the request to end
    failed        {name: exit code} of the programs that have failed and are not required
    in_a_hurry    whether `stop` uses SIGKILL at once; may be set at any time, also by a signal handler
    """

    folder: Path
    is_ready: Callable[[str, int], bool]
    request_stop: Callable[[str], bool]
    has_stopped: Callable[[str], bool] = lambda name: True
    note: Callable[[str, str], None] = lambda name, line: None
    environment: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    spawn: Callable[[Program, Mapping[str, str], int], int] = execute
    ready_deadline_s: float = READY_DEADLINE_S
    polite_s: float = POLITE_S
    children: dict[str, Child] = field(default_factory=dict)
    in_a_hurry: bool = False
    failed: dict[str, int] = field(default_factory=dict)

    def start(self, programs: Sequence[Program]) -> None:
        """Start all programs in the given order. The caller then calls `poll` until `ready` is true.

        The programs load at the same time, because most of the time goes into imports. Output files of an earlier
        launch are overwritten.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        for program in programs:
            child = Child(program, Log(self.folder / f"{program.name.replace('/', '.')}.log"))
            self.children[program.name] = child
            self._spawn(child)

    @property
    def ready(self) -> bool:
        """Whether every needed child has reported ready."""
        return all(child.was_ready for child in self.children.values() if child.program.needed)

    def poll(self) -> Failure | None:
        """Check the children, and restart each child that has ended and whose policy requires a restart.

        Returns the first failure after which a process is not restarted, or None without such a failure. A process that
        ends before it was ever ready is not restarted, because the fault then lies in the plan.
        """
        for child in self.children.values():
            failure = self._look_at(child)
            if failure is not None:
                return failure
        return None

    def _look_at(self, child: Child) -> Failure | None:
        program, now = child.program, time.monotonic()
        if child.state == "waiting" and now >= child.start_again_at:
            self._spawn(child)
        if child.state not in ("starting", "running"):
            return None
        exit_code = self._ended(child)
        if not program.needed:
            if exit_code:
                self.note(program.name, f"ended with exit code {exit_code}")
        elif exit_code is not None:
            if not child.was_ready:
                return self._failure(child, exit_code, "ended before it was ready")
            if program.restarts_after(exit_code) and child.restarts < program.max_restarts:
                self._schedule_restart(child, exit_code)
            elif exit_code == 0 and (program.name == "sim" or self.has_stopped(program.name)):
                return None
            elif not program.required:
                self.failed[program.name] = exit_code
                self.note(program.name, f"ended with exit code {exit_code}; the run continues without it")
            else:
                times = f"{child.restarts} restart{'s' if child.restarts > 1 else ''}"
                spent = f" after {times}" if child.restarts else ""
                return self._failure(child, exit_code, f"failed{spent}" if exit_code else "ended during the run")
        elif child.state == "starting":
            if self.is_ready(program.name, child.pid):
                child.state, child.was_ready = "running", True
            elif now - max(child.started_at, self._last_output_of_starting) > self.ready_deadline_s:
                return self._failure(child, 1, f"not ready within {self.ready_deadline_s:g} s")
        return None

    @property
    def _last_output_of_starting(self) -> float:
        """Time of the latest line of a child that is not ready yet: a recorder waits for a simulation that compiles."""
        return max(each.last_output_at for each in self.children.values() if each.state == "starting")

    def new_lines(self) -> list[tuple[str, str]]:
        """(name, line) of the children's output since the last call."""
        lines = []
        for name, child in self.children.items():
            if new := child.log.new_lines():
                child.last_output_at = time.monotonic()
                lines += [(name, line) for line in new]
        return lines

    def stop(self) -> None:
        """End every child and its descendants, within 5 s.

        Each child is first asked to end; a child that does not end gets SIGTERM, and then SIGKILL. Time in which a
        child waits for a processor core does not count towards the 5 s.
        """
        for child in self.children.values():
            if child.state == "waiting":
                child.state = "ended"
            if self._lives(child):
                threading.Thread(target=self._request_stop, args=(child,), daemon=True).start()
        self._wait_for_all(self.polite_s)
        for number, wait_s in ((signal.SIGTERM, TERMINATE_S), (signal.SIGKILL, 0.0)):
            for child in self._living():
                self.note(child.program.name, f"did not end on request, so {number.name}")
                is_silent = child.answered_at is None or (child.was_deaf and number == signal.SIGKILL)
                child.is_hung |= is_silent and not self.in_a_hurry
                self._signal(child, number)
            self._wait_for_all(wait_s)
        self.in_a_hurry = False  # SIGKILL cannot be ignored: this wait is short
        self._wait_for_all(KILL_S)

    def failure_at_end(self) -> Failure | None:
        """The first process that failed after the last `poll`, for use after `stop`; None without one.

        Such a process ended with an exit code other than 0 before it was asked to end, or while it ended, or it hung.
        Another process that got a signal, whose policy would have restarted it, or that is not needed has not failed.
        """
        for name, child in self.children.items():
            program, code = child.program, child.exit_code
            if child.is_hung and child.was_ready and program.required and program.needed:
                return self._failure(child, 1, "hung: it did not answer the request to end")
            if not code or child.is_signalled or not child.was_ready or name in self.failed:
                continue
            if program.restarts_after(code) and child.restarts < program.max_restarts:
                continue
            if program.required:
                return self._failure(child, code, "failed")
            self.failed[name] = code
        return None

    def _signal(self, child: Child, number: signal.Signals) -> None:
        child.is_signalled = True
        _signal_group(child.pid, number)

    def _spawn(self, child: Child) -> None:
        child.log.forget()
        output = child.log.descriptor()
        try:
            child.pid = self.spawn(child.program, {**self.environment, RESTARTS: str(child.restarts)}, output)
        finally:
            os.close(output)
        child.state = "starting" if child.program.needed else "running"
        child.exit_code, child.started_at = None, time.monotonic()

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
        """Exit code of a child whose process has ended, None while it runs.

        The rest of the process group of an ended child is killed.
        """
        if child.exit_code is not None or not child.pid:
            return child.exit_code
        # WNOWAIT leaves the process unreaped, so its group id cannot have been reused yet.
        if os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
            return None
        _signal_group(child.pid, signal.SIGKILL)
        code = os.waitstatus_to_exitcode(os.waitpid(child.pid, 0)[1])
        child.exit_code = code if code >= 0 else 128 - code
        child.state = "ended"
        return child.exit_code

    def _failure(self, child: Child, exit_code: int, reason: str) -> Failure:
        return Failure(child.program.name, exit_code or 1, reason, child.log.last(SHOWN_LINES))

    def _request_stop(self, child: Child) -> None:
        until = time.monotonic() + self.polite_s
        while child.answered_at is None and time.monotonic() < until and child.exit_code is None:
            try:
                child.is_deaf = child.was_deaf = not self.request_stop(child.program.name)
            except Exception:  # without a reply it is asked again, and signalled when its time is over
                time.sleep(POLL_S)
            else:
                child.answered_at = time.monotonic()

    def _lives(self, child: Child) -> bool:
        return bool(child.pid) and self._ended(child) is None

    def _living(self) -> list[Child]:
        return [child for child in self.children.values() if self._lives(child)]

    def _wait_for_all(self, seconds: float) -> None:
        began = time.monotonic()
        waited = {child.pid: waited_for_a_core(child.pid) for child in self._living()}
        while (living := self._living()) and not self.in_a_hurry:
            if time.monotonic() - began > LONGEST_STOP_S:
                break
            if all(_is_overdue(child, seconds, began, waited.get(child.pid, 0.0)) for child in living):
                break
            for child in living:
                if child.is_deaf:
                    child.is_deaf = False
                    self._signal(child, signal.SIGTERM)
            time.sleep(POLL_S)


def _is_overdue(child: Child, seconds: float, began: float, waited: float) -> bool:
    """Whether a child that still runs has had more than `seconds` to end.

    The time counts from `began` or, if the child replied to the request to end after `began`, from this reply. Time in
    which the child has waited for a processor core since `began` does not count.

    began   time.monotonic() at which the wait for the child's end began
    waited  result of `waited_for_a_core` for the child at `began`, s
    """
    late = time.monotonic() - max(began, child.answered_at or began) - seconds
    return late > 0.0 and late > waited_for_a_core(child.pid) - waited


def waited_for_a_core(pid: int) -> float:
    """Time (s) that a process has waited for a processor core: the maximum over its threads; 0 where unknown."""
    longest = 0
    for file in Path(f"/proc/{pid}/task").glob("*/schedstat"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            longest = max(longest, int(file.read_text().split()[1]))
    return 1e-9 * longest


def _signal_group(pid: int, number: signal.Signals) -> None:
    # A child leads its own session, so its group contains it and its descendants.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)
