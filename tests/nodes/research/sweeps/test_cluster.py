"""Sweeps on Dask: two local workers, one of them killed."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from nodes.cli.application import run
from nodes.research.sweeps.folder import read_rows
from tests.nodes.research.sweeps.conftest import COMMAND, rows_of

KINDS = "well,segfault,raise,diverge,killed"
ARGUMENTS = ("--over", f"node.how={KINDS}", "--over", "node.gain=normal:1:0.1", "--repeat", "10")  # 50 cells
SETS = ("--set", "node.noisy=true", "--set", "node.pause_s=0.2", "--no-page")


def until(condition: Callable[[], bool], what: str, limit_s: float = 300.0) -> None:
    deadline = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_a_killed_dask_worker_loses_no_cell_and_the_table_is_the_same(
    launch: Path, sweep: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    pytest.importorskip("distributed")
    scheduler_file = tmp_path / "scheduler.json"
    dask = [sys.executable, "-m"]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    where = ["--scheduler-file", str(scheduler_file), "--no-dashboard"]
    started = [
        subprocess.Popen(
            [*dask, "distributed.cli.dask_scheduler", "--port", "0", "--host", "127.0.0.1", *where], **quiet
        )
    ]
    try:
        until(scheduler_file.exists, "no scheduler")
        worker = [*dask, "distributed.cli.dask_worker", "--no-nanny", "--nthreads", "1", *where]
        started += [subprocess.Popen([*worker, "--local-directory", str(tmp_path / name)], **quiet) for name in "ab"]
        from distributed import Client

        with Client(scheduler_file=str(scheduler_file)) as client:
            client.wait_for_workers(2, timeout=60)
            address = client.scheduler.address
        folder = tmp_path / "dask"
        command = [*COMMAND, str(launch), *ARGUMENTS, *SETS, "-o", str(folder), "--dask", address]
        running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        started.append(running)
        until(lambda: (folder / "cells.jsonl").exists() and len(read_rows(folder)) >= 4, "no rows")
        started[1].kill()
        said = running.communicate(timeout=300)
        assert running.returncode == 1, said  # segmentation faults
        along = tmp_path / "along"
        made = sweep(launch, "--over", "node.gain=0:8:2", "--set", "node.how=diverge", "--no-page", "-o", along)
        assert made.returncode == 0, made.stderr
        target = ("--find-boundary", "load.arm.peak=3", "--along", "node.gain")
        found = sweep(along, *target, "--dask", address)
        assert found.returncode == 0, found.stderr
        assert (along / "boundary.csv").read_text().splitlines()[1] == "load.arm.peak,3.0,node.gain,,2.875,3,2.875,3"
    finally:
        for process in started:
            process.kill()
            process.wait()
    assert sweep(launch, *ARGUMENTS, *SETS, "-o", tmp_path / "here").returncode == 1
    assert (folder / "cells.csv").read_bytes() == (tmp_path / "here" / "cells.csv").read_bytes()
    results = [row["result"] for row in rows_of(folder)]
    assert {name: results.count(name) for name in set(results)} == {"passed": 20, "crashed": 20, "error": 10}


def test_without_a_scheduler_the_refusal_is_one_line(
    launch: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nodes.research.sweeps.dask_cluster.CONNECT_S", 1.0)
    arguments = ["sweep", str(launch), "--over", "node.gain=1,2", "-o", str(tmp_path / "out")]
    code = run([*arguments, "--dask", "tcp://127.0.0.1:9"])
    said = capfd.readouterr().err
    try:
        import distributed  # noqa: F401
    except ModuleNotFoundError:
        told = "armswing: --dask needs the package distributed; install it: pip install 'armswing[dask]'\n"
        assert (code, said) == (1, told)
        assert not os.path.exists(tmp_path / "out")
        return
    assert code == 2
    assert said.splitlines()[-1].startswith("armswing: --dask 'tcp://127.0.0.1:9': no scheduler replies: ")
