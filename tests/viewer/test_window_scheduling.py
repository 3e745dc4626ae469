"""A window does not interrupt a simulation: its threads are deferred, and the processes that it starts are not."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytest.importorskip("pyqtgraph", exc_type=ImportError)  # also where Qt's system libraries are missing

WINDOW = """
import os, subprocess, sys, threading
from pathlib import Path
from nodes.framework.transport import background_threads
from viewer.window import session

policy = [sys.executable, "-c", "import os; print(os.sched_getscheduler(0))"]
started = threading.Event()
threading.Thread(target=started.wait, daemon=True).start()
session.defer_threads()
later = threading.Thread(target=started.wait, daemon=True)
later.start()
found = {os.sched_getscheduler(int(task.name)) for task in Path("/proc/self/task").iterdir()}
with background_threads.not_deferred():
    child = int(subprocess.run(policy, capture_output=True, check=True).stdout)
print(found == {os.SCHED_BATCH}, child == os.SCHED_OTHER, os.sched_getscheduler(0) == os.SCHED_BATCH)
"""


def test_all_threads_of_a_window_are_deferred_and_a_launch_that_it_starts_is_not() -> None:
    result = subprocess.run([sys.executable, "-c", WINDOW], capture_output=True, text=True, check=True, timeout=60)
    assert result.stdout.split() == ["True", "True", "True"]
