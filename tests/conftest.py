"""What all tests have in common."""

from __future__ import annotations

import os
import re
from collections.abc import Generator
from typing import Any

import pytest
from hypothesis import settings

from viewer.availability import APT_LINE

os.environ.pop("ARMSWING_DOMAIN", None)  # of the shell: tests make folders of their own, and use domain 0 there

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


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, Any, Any]:
    """A test that lacks a library of the system says what installs it."""
    return _complete((yield))


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, Any, Any]:
    """And so does a file of tests."""
    return _complete((yield))
