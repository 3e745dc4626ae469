"""`armswing doctor`: checks whether this computer can run simulations in real time, and lists missing software."""

from __future__ import annotations

import ctypes
import math
import os
import platform
import sys
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import msgspec
import typer

from nodes.cli.terminal import AsJson, InputError, print_json, print_line
from nodes.framework.hosting.computer import settings
from nodes.framework.hosting.timing.jitter import Jitter, measure_jitter
from nodes.framework.transport.domain import DomainError, default_domain, domain_folder

LIBRARIES = ("pyzmq", "msgspec", "msgpack", "mcap", "rich")
SIMULATION_LIBRARIES = ("numpy", "casadi", "llvmlite", "numba", "scipy")
VIEWER_LIBRARIES = ("PyQt5", "pyqtgraph")
# Shared libraries that PyQt5 needs from the system, with the Debian package of each.
QT_LIBRARIES = {
    "libGL.so.1": "libgl1",
    "libglib-2.0.so.0": "libglib2.0-0",
    "libfontconfig.so.1": "libfontconfig1",
    "libdbus-1.so.3": "libdbus-1-3",
    "libxkbcommon-x11.so.0": "libxkbcommon-x11-0",
    "libxcb-icccm.so.4": "libxcb-icccm4",
    "libxcb-image.so.0": "libxcb-image0",
    "libxcb-keysyms.so.1": "libxcb-keysyms1",
    "libxcb-randr.so.0": "libxcb-randr0",
    "libxcb-render-util.so.0": "libxcb-render-util0",
    "libxcb-xinerama.so.0": "libxcb-xinerama0",
    "libxcb-shape.so.0": "libxcb-shape0",
}
SECONDS = 10.0
SHORTEST_S, LONGEST_S = 0.1, 3600.0
BUSY = 0.7  # fraction of the cores used by other processes above which wake-ups are late
STOLEN = 0.01  # fraction of the time taken by a virtual machine's host that is worth a note
CALLS, WARM_CALLS = 300, 20  # of a rehearsal: measured, and before
LONGEST_FOLDER = 80  # a Unix socket path holds 107 characters, file name included


class Finding(NamedTuple):
    """Result of one check of the computer.

    level    "ok", "note" (works, but could be better) or "fault" (has to be repaired)
    figures  {name: measured value}, for scripts
    """

    level: str
    subject: str
    text: str
    figures: dict[str, Any] = {}


def add_to(app: typer.Typer) -> None:
    """Add the command `doctor`."""
    app.command(epilog="Example: armswing doctor --seconds 60")(doctor)


def doctor(
    launch: Annotated[
        str, typer.Argument(help="Launch file whose predictive controllers are timed.", show_default="none")
    ] = "",
    seconds: Annotated[float, typer.Option("--seconds", help="Duration of the wake-up measurement (s).")] = SECONDS,
    as_json: AsJson = False,
) -> None:
    """Check this computer: libraries, Qt, cores, settings, and the rate that a loop sustains. Exit code 1 on a fault.

    With a launch file, the time that its predictive controllers take for a plan is compared with their `solve_ms`.

    The loop rate is measured with the usual scheduling for half of the time. For the other half it is measured with
    SCHED_FIFO, if that is permitted.
    """
    if not SHORTEST_S <= seconds <= LONGEST_S:
        raise InputError(f"--seconds {seconds:g}: expected a number in {SHORTEST_S:g} .. {LONGEST_S:g}")
    findings = [finding for check in CHECKS for finding in check()]
    findings += _rehearsed(launch) if launch else []
    if not as_json:
        for finding in findings:
            _show(finding)
    measured = _punctuality(seconds, _bar(as_json))
    if as_json:
        print_json([finding._asdict() for finding in [*findings, *measured]])
    else:
        for finding in measured:
            _show(finding)
    findings += measured
    if any(finding.level == "fault" for finding in findings):
        raise typer.Exit(1)


def _show(finding: Finding) -> None:
    print_line(f"{finding.level:<5}  {finding.subject:<15} {finding.text}")


def _bar(as_json: bool) -> Callable[[float], None] | None:
    """Return a function that shows the progress of the measurement, from 0 to 1, as a bar on a terminal.

    Returns None if the output is not a terminal, or for output as JSON.
    """
    # for a terminal alone
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    if as_json or not console.is_terminal:
        return None
    progress = Progress(
        TextColumn("measuring wake-ups"), BarColumn(), TimeRemainingColumn(), console=console, auto_refresh=False
    )
    task = progress.add_task("", total=1.0)
    progress.start()

    def show(done: float) -> None:
        progress.update(task, completed=done, refresh=True)
        if done >= 1.0:
            progress.stop()

    return show


def _punctuality(seconds: float, show: Callable[[float], None] | None) -> list[Finding]:
    """Measure which loop rates this computer sustains, and return the results.

    Half of the time is used for the measurement with the usual scheduling, the other half for SCHED_FIFO.
    """

    def part(number: int) -> Callable[[float], None] | None:
        return None if show is None else lambda done: show((number + done) / 2.0)

    usual = measure_jitter(seconds / 2.0, progress=part(0))
    first = measure_jitter(seconds / 2.0, fifo=True, progress=part(1))
    if show is not None:
        show(1.0)
    found = [_jitter_finding("wake-up", usual)] if isinstance(usual, Jitter) else []
    if isinstance(first, Jitter):
        found.append(_jitter_finding("with SCHED_FIFO", first))
        holds = [each.holds_hz for each in (usual, first) if isinstance(each, Jitter)]
        better = (holds[1] or 0) > (holds[0] or 0)
        text = "real-time priority is permitted; realtime_priority = true in [sim] lets the server have it"
        found.append(Finding("note" if better else "ok", "priority", text))
    else:
        advice = "@GROUP - rtprio 50 in /etc/security/limits.conf permits it; the worst cases get shorter"
        found.append(Finding("note", "priority", f"{first}; {advice}"))
    return found


def _jitter_finding(subject: str, jitter: Any) -> Finding:
    holds = jitter.holds_hz
    verdict = "no rate from 10 Hz on is held" if holds is None else f"{holds} Hz is held"
    stolen = ""
    if jitter.stolen is not None and jitter.stolen > STOLEN:
        stolen = f"; the host of this virtual machine took {100 * jitter.stolen:.0f} % of the time"
    fit = holds is not None and holds >= jitter.rate_hz
    hint = "" if fit else "; expect overruns at 1 kHz: end other programs, or follow the notes"
    figures = {**msgspec.to_builtins(jitter), "holds_hz": holds}
    return Finding("ok" if fit else "note", subject, f"{verdict}: {jitter.text}{stolen}{hint}", figures)


def _rehearsed(launch: str) -> list[Finding]:
    """Time the rehearsals of the launch file's nodes, and compare with the time that they have in lockstep."""
    found = []
    for name, assumed_ms, work in rehearsals(launch):
        p50, p99 = processor_times_ms(work)
        text = f"{name} takes {p50:.2f} ms for a plan, p99 {p99:.2f} ms of processor time"
        line = f"solve_ms = {math.ceil(10.0 * p99) / 10.0:g}"
        advice = f"write {line} into its params, or launch with --set {name}.{line.replace(' ', '')}"
        text += "; " + (
            f"its solve_ms = {assumed_ms:g}" if p99 <= assumed_ms else f"its solve_ms = {assumed_ms:g}: {advice}"
        )
        level = "ok" if p99 <= assumed_ms else "note"
        found.append(
            Finding(level, "plan time", text, {"node": name, "p50_ms": p50, "p99_ms": p99, "solve_ms": assumed_ms})
        )
    return found or [Finding("note", "plan time", f"no node of {launch} has a time to measure")]


def rehearsals(launch: str) -> Iterator[tuple[str, float, Callable[[], Any]]]:
    """(name, solve_ms, rehearsal) of the nodes of a launch file that have one, in this process."""
    # plans and robots, which the other checks do not need
    from nodes.framework.plan.files.file import load_plan
    from nodes.framework.plan.key_checks import PlanError, convert
    from nodes.framework.plan.node_classes import load_class

    try:
        plan = load_plan(launch)
        for node in plan.nodes:
            cls = load_class(node.run, plan.folder)
            params: Any = convert(node.params, cls.Params, node.name)
            if (work := cls.rehearsal(params, plan)) is not None:
                yield node.name, params.solve_ms, work
    except PlanError as error:
        raise InputError(str(error)) from error


def processor_times_ms(work: Callable[[], Any]) -> tuple[float, float]:
    """Median and 99th percentile of the processor time of a call, ms."""
    for _ in range(WARM_CALLS):
        work()
    times = []
    for _ in range(CALLS):
        before = time.process_time()
        work()
        times.append(time.process_time() - before)
    ordered = sorted(times)
    return 1e3 * ordered[len(times) // 2], 1e3 * ordered[math.ceil(0.99 * len(times)) - 1]


def _python() -> Iterator[Finding]:
    level = "ok" if sys.version_info >= (3, 11) else "fault"
    text = f"{platform.python_version()} on {platform.machine()}"
    yield Finding(level, "python", text if level == "ok" else f"{text}; 3.11 or later is needed")


def _libraries() -> Iterator[Finding]:
    from importlib.metadata import PackageNotFoundError, version  # 0.01 s of each help page

    found, missing = [], []
    for name in LIBRARIES:
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            missing.append(name)
    if missing:
        yield Finding("fault", "libraries", f"missing: {' '.join(missing)}; pip install {' '.join(missing)}")
    else:
        yield Finding("ok", "libraries", ", ".join(found))
    for extra, what, names in (("sim", "simulation", SIMULATION_LIBRARIES), ("viewer", "viewer", VIEWER_LIBRARIES)):
        try:
            yield Finding("ok", what, ", ".join(f"{name} {version(name)}" for name in names))
        except PackageNotFoundError:
            yield Finding("note", what, f"not installed; pip install 'armswing[{extra}]'")


def _has_viewer() -> bool:
    return all(find_spec(name) is not None for name in VIEWER_LIBRARIES)


def _qt() -> Iterator[Finding]:
    missing = []
    for library, package in QT_LIBRARIES.items():
        try:
            ctypes.CDLL(library)
        except OSError:
            missing.append(package)
    if missing:
        yield Finding("note", "Qt libraries", f"for the viewer: apt-get install -y {' '.join(missing)}")
    else:
        there = "all there" if _has_viewer() else "those of the system are there; Qt itself comes with the viewer"
        yield Finding("ok", "Qt libraries", there)


def _cores() -> Iterator[Finding]:
    cores = len(os.sched_getaffinity(0))
    load = os.getloadavg()[0]
    busy = load > BUSY * cores
    hint = (
        "; server and controller share one"
        if cores < 2
        else "; others keep them busy: end what is not needed"
        if busy
        else ""
    )
    yield Finding("note" if cores < 2 or busy else "ok", "cores", f"{cores}, load {load:.1f}{hint}")
    for subject, found, advice in settings(kernel=os.uname().version, cores=cores):
        yield Finding("note" if advice else "ok", subject, f"{found}; {advice}" if advice else found)


def _clock() -> Iterator[Finding]:
    slack = Path("/proc/self/timerslack_ns")
    if slack.is_file():
        yield Finding("ok", "timer slack", f"{slack.read_text().strip()} ns; the server sets its own to 1 ns")


def _folder() -> Iterator[Finding]:
    try:
        folder = domain_folder(default_domain())
    except DomainError as error:
        yield Finding("fault", "sockets", str(error))
        return
    except OSError as error:
        yield Finding("fault", "sockets", f"no folder for them: {error}")
        return
    if len(str(folder)) > LONGEST_FOLDER:
        yield Finding("fault", "sockets", f"{folder} is too long a path; set XDG_RUNTIME_DIR to a shorter one")
    elif not os.access(folder if folder.exists() else folder.parent.parent, os.W_OK):
        yield Finding("fault", "sockets", f"{folder} cannot be written; set XDG_RUNTIME_DIR")
    else:
        yield Finding("ok", "sockets", str(folder))


CHECKS = (_python, _libraries, _qt, _cores, _clock, _folder)
