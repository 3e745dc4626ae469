"""What all tests have in common."""

from __future__ import annotations

import gc
import os
import re
import signal
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from viewer.availability import APT_LINE

os.environ.pop("ARMSWING_DOMAIN", None)  # of the shell: tests make folders of their own, and use domain 0 there
# of the shell too: without bytecode files each of a thousand processes compiles the sources of all modules anew
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
os.environ.setdefault(
    "OPENBLAS_NUM_THREADS", "1"
)  # as `armswing` does: two workers and their processes share the cores

# A shell ignores SIGINT in its background processes, as in `make test &`, and tests send it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

settings.register_profile("armswing", deadline=None)  # timings are benchmarks: a busy computer fails no test
settings.load_profile("armswing")

ABSENT = re.compile(r"(lib[\w.+-]+\.so[.\d]*): cannot open shared object file|PyQtGraph requires one of")
PACKAGES = {"libgomp.so.1": "apt-get install -y libgomp1"}  # any other library is one of Qt's


def with_apt_line(reason: str) -> str:
    """The reason of a skip, and where it is an absent library the line that installs it."""
    absent = ABSENT.search(reason)
    if absent is None or "apt-get" in reason:
        return reason
    return f"{reason.strip()}; {PACKAGES.get(absent[1], APT_LINE)}"


def _complete(report: Any) -> Any:
    if report.skipped and isinstance(report.longrepr, tuple):
        path, line, reason = report.longrepr
        report.longrepr = (path, line, with_apt_line(reason))
    return report


# Files in which tests take longest, begun first: the workers of `make test`, which take one file at a time, then end
# together. Without its entry a file is only begun later. `--durations=0` shows what takes long.
LONG_FILES = (
    "test_launch_files.py",
    "laws/test_systems.py",
    "sim_core/test_derivatives.py",
    "docs/test_blocks.py",
    "network/test_robot_in_the_loop.py",
    "nodes/launched/test_launch.py",
    "nodes/launched/test_hil_robot_launched.py",
    "sim_core/test_cache.py",
    "network/test_faults.py",
    "nodes/research/studies/test_studies.py",
    "test_package.py",
    "nodes/research/sweeps/test_sweep.py",
    "robots/test_export_native.py",
    "robots/test_equations.py",
    "sim_core/test_kernels.py",
    "robots/test_gibbon_planner.py",
    "nodes/launched/test_cli_live.py",
    "nodes/guard/test_guard.py",
    "docs/test_extending.py",
    "test_benchmarks.py",
    "nodes/launched/test_foxglove.py",
    "sim_core/test_batch.py",
    "nodes/hil/test_hil_report.py",
    "nodes/test_gibbon.py",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the tests of long files first."""
    here = Path(__file__).parent
    places = {here / name: place for place, name in enumerate(LONG_FILES)}
    items.sort(key=lambda item: places.get(item.path, len(places)))


def pytest_collection_finish() -> None:
    """No garbage collection visits the ten thousand tests and the modules they are in."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, Any, Any]:
    """A test that lacks a library of the system says what installs it."""
    return _complete((yield))


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, Any, Any]:
    """And so does a file of tests."""
    return _complete((yield))
