"""`armswing doctor`: is this computer fit to run a simulation in real time, and what is missing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import typer

from nodes.runtime.cli.terminal import AsJson, say, say_json

LIBRARIES = ("numpy", "pyzmq", "msgspec", "msgpack", "mcap", "casadi", "llvmlite", "numba", "scipy", "rich")
VIEWER_LIBRARIES = ("PyQt5", "pyqtgraph")
# Shared object -> Debian package, of what PyQt5 needs from the system.
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
LATENESS_SAMPLES = 200
UNFIT_LATENESS_S = 500e-6  # half a step at 1 kHz
LONGEST_FOLDER = 80  # a Unix socket path holds 107 characters, file name included


class Finding(NamedTuple):
    """One thing looked at. level: "ok", "note" (works, could be better) or "fault" (must be mended)."""

    level: str
    subject: str
    text: str


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog="Example: armswing doctor")(doctor)


def doctor(as_json: AsJson = False) -> None:
    """Check this computer: Python, libraries, Qt, cores, clock and priorities. Exit code 1 on a fault."""
    findings = [finding for check in CHECKS for finding in check()]
    if as_json:
        say_json([finding._asdict() for finding in findings])
    else:
        for level, subject, text in findings:
            say(f"{level:<5}  {subject:<14}  {text}")
    if any(finding.level == "fault" for finding in findings):
        raise typer.Exit(1)


def _python() -> Iterator[Finding]:
    import platform
    import sys

    level = "ok" if sys.version_info >= (3, 11) else "fault"
    text = f"{platform.python_version()} on {platform.machine()}"
    yield Finding(level, "python", text if level == "ok" else f"{text}; 3.11 or later is needed")


def _libraries() -> Iterator[Finding]:
    from importlib.metadata import PackageNotFoundError, version

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
    try:
        yield Finding("ok", "viewer", ", ".join(f"{name} {version(name)}" for name in VIEWER_LIBRARIES))
    except PackageNotFoundError:
        yield Finding("note", "viewer", "not installed; pip install 'armswing[viewer]'")


def _qt() -> Iterator[Finding]:
    import ctypes

    missing = []
    for library, package in QT_LIBRARIES.items():
        try:
            ctypes.CDLL(library)
        except OSError:
            missing.append(package)
    if missing:
        yield Finding("note", "Qt libraries", f"for the viewer: apt-get install -y {' '.join(missing)}")
    else:
        yield Finding("ok", "Qt libraries", "all there")


def _cores() -> Iterator[Finding]:
    import os
    from pathlib import Path

    cores = len(os.sched_getaffinity(0))
    load = os.getloadavg()[0]
    level = "ok" if cores >= 2 and load < cores else "note"
    hint = "" if cores >= 2 else "; server and controller share one"
    yield Finding(level, "cores", f"{cores}, load {load:.1f}{hint}")
    governor = Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
    if governor.is_file():
        name = governor.read_text().strip()
        level = "ok" if name == "performance" else "note"
        hint = "" if level == "ok" else "; cpupower frequency-set -g performance steadies the step time"
        yield Finding(level, "cpu governor", name + hint)


def _clock() -> Iterator[Finding]:
    import resource
    import time
    from pathlib import Path

    slack = Path("/proc/self/timerslack_ns")
    if slack.is_file():
        yield Finding("ok", "timer slack", f"{slack.read_text().strip()} ns; the server sets its own to 1 ns")
    lateness = []
    for _ in range(LATENESS_SAMPLES):
        begin = time.perf_counter()
        time.sleep(1e-3)
        lateness.append(time.perf_counter() - begin - 1e-3)
    p99 = sorted(lateness)[int(0.99 * LATENESS_SAMPLES)]
    level = "ok" if p99 < UNFIT_LATENESS_S else "note"
    hint = "" if level == "ok" else "; this computer is busy, expect overruns at 1 kHz"
    yield Finding(level, "wake-up", f"a sleep of 1 ms is late by {1e6 * p99:.0f} us (p99){hint}")
    limit = resource.getrlimit(resource.RLIMIT_RTPRIO)[0]
    if limit == 0:
        yield Finding("note", "priority", "no real-time priority allowed (ulimit -r); worst cases will be longer")
    else:
        yield Finding("ok", "priority", "real-time priority is allowed")


def _folder() -> Iterator[Finding]:
    import os

    from nodes.wire.domain import domain_folder

    try:
        folder = domain_folder(0)
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
