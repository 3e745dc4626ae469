"""A disk that ends, a file that is deleted, taken or not to be written: the run goes on, and the launch names the loss.

One launch has a recorder for each, as every one of them fails the launch on its own.
"""

from __future__ import annotations

import json
import re
import resource
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from nodes.framework.client import Client, read_recording
from nodes.framework.recording.reader import RecordingFile
from nodes.framework.transport.service import ServiceError

NOBODY_WRITES = Path("/sys/run.mcap")  # root neither
DURATION_S = 6.0
STEP_S = 5e-3
STATE = "rotary_pendulum/state"


def recorder(name: str, file: object, flush_s: float = 0.1) -> str:
    return f'[[nodes]]\nname = "{name}"\nrun = "nodes/recorder.py:Recorder"\n' + (
        f'params = {{ file = "{file}", flush_s = {flush_s} }}\n'
    )


@pytest.mark.parametrize("mode", [pytest.param("realtime", marks=pytest.mark.soak), "lockstep"])
def test_what_a_disk_did_not_take_is_named_at_the_end(mode: str, ground: Any, until: Callable[..., None]) -> None:
    files = {"whole": "whole.mcap", "full": "full.mcap", "deleted": "deleted.mcap", "second": "sub/../whole.mcap"}
    (ground.folder / "sub").mkdir()
    nodes = "".join(recorder(name, file) for name, file in files.items()) + recorder("read_only", NOBODY_WRITES)
    plan = ground.launch_file(nodes, mode, f"duration_s = {DURATION_S}\n")
    process = ground.start("launch", plan, "--json", "summary.json")
    folder = ground.folder
    children = ground.wait_until_running(process, 6)
    with Client(0) as client:
        until(lambda: client.sim_status()["time"] > 1.0)
        client.call("sim", "pause")
        until(lambda: (folder / "deleted.mcap").is_file() and (folder / "full.mcap").is_file())
        with pytest.raises(ServiceError, match="a recorder reads its parameter file once, at the start"):
            client.call("full", "set_parameters", file="other.mcap")
        assert client.call("full", "set_parameters", flush_s=0.2)["flush_s"] == 0.2
        pid = client.node("full").pid
        assert pid in {child.pid for child in children}
        usual = resource.prlimit(pid, resource.RLIMIT_FSIZE)
        resource.prlimit(pid, resource.RLIMIT_FSIZE, ((folder / "full.mcap").stat().st_size + 1, usual[1]))
        (folder / "deleted.mcap").unlink()
        paused = client.sim_status()["time"]
        client.call("sim", "resume")
    out, err = process.communicate(timeout=60.0)
    assert process.returncode == 1, err
    assert "Traceback" not in out + err
    summary = json.loads((folder / "summary.json").read_text())
    assert summary["time"] == pytest.approx(DURATION_S, abs=0.1)  # the run went on
    verdicts = summary["verdicts"]
    assert set(verdicts) == {"full", "deleted", "second", "read_only"}
    assert {verdict["outcome"] for verdict in verdicts.values()} == {"failed"}
    assert all(f"{name} failed: {verdict['reason']}" in summary["ended"] for name, verdict in verdicts.items())

    states = round(DURATION_S / STEP_S)
    lacks = re.compile(r"(\S+) lacks t = (\S+) \.\. (\S+) s \((all )?(\d+)[^)]* messages\): (.+)")
    found = {name: lacks.fullmatch(verdicts[name]["reason"]) for name in ("read_only", "full", "deleted")}
    groups = {name: match.groups() for name, match in found.items() if match is not None}
    file, start, end, everything, count, why = groups["read_only"]
    assert (file, everything, float(start)) == (str(NOBODY_WRITES), "all ", 0.0)
    assert int(count) > 0.9 * states
    assert float(end) == pytest.approx(DURATION_S, abs=0.1)
    assert "nothing of this run is recorded" in why

    file, start, end, everything, count, why = groups["full"]
    assert (file, why) == ("full.mcap", "File too large, the rest is in full.mcap")
    assert paused - 0.5 < float(start) < paused + 0.5
    assert float(end) == pytest.approx(DURATION_S, abs=0.1)
    cut = RecordingFile(folder / "full.mcap").scan()
    assert cut.cut_off
    assert cut.holes[-1].start_s == pytest.approx(float(start), abs=0.1)

    file, start, end, everything, count, why = groups["deleted"]
    assert why.startswith("deleted.mcap was deleted, replaced or cut at t = ")
    assert why.endswith("the rest is in deleted.mcap")
    anew = read_recording(folder / "deleted.mcap")
    assert anew.description is not None
    assert float(end) <= anew[STATE]["timestamp"][0] <= float(end) + 0.1
    assert anew[STATE]["timestamp"][-1] == pytest.approx(DURATION_S, abs=0.1)
    assert not anew.holes

    second = verdicts["second"]["reason"]
    assert second.startswith("sub/../whole.mcap: node 'whole' writes it too, no message is missing: ")
    assert second.endswith("is in sub/../whole.second.mcap")
    for name in ("whole.mcap", "whole.second.mcap"):
        recording = read_recording(folder / name)
        assert not recording.holes
        assert recording[STATE]["timestamp"][-1] == pytest.approx(DURATION_S, abs=0.1)


def test_a_recorder_by_hand_leaves_a_file_that_is_being_written(ground: Any, until: Callable[..., None]) -> None:
    process = ground.start("launch", ground.launch_file(recorder("recorder", "run.mcap")))
    ground.wait_until_running(process, 2)
    file = ground.folder / "run.mcap"
    until(lambda: file.is_file() and file.stat().st_size > 10_000)
    refused = ground.run("record", "-o", "run.mcap", "--force")
    assert refused.returncode == 1
    with Client(0) as client:
        pid = client.node("recorder").pid
    assert refused.stderr == f"armswing: --output 'run.mcap': another recorder writes it, process {pid}\n"

    by_hand = ground.start("record", "-o", "mine.mcap")
    until(lambda: (ground.folder / "mine.mcap").is_file())
    (ground.folder / "mine.mcap").unlink()
    until(lambda: (ground.folder / "mine.mcap").is_file())
    by_hand.send_signal(2)
    _, err = by_hand.communicate(timeout=20.0)
    assert by_hand.returncode == 1
    assert "mine.mcap lacks t = " in err.splitlines()[-1]
    assert psutil.pid_exists(pid)


@pytest.mark.soak
def test_a_recorder_that_is_killed_at_the_end_is_noticed(ground: Any, until: Callable[..., None]) -> None:
    """It says nothing any more; the launch looks at the file."""
    process = ground.start("launch", ground.launch_file(recorder("recorder", "run.mcap"), more="duration_s = 3.0\n"))
    ground.wait_until_running(process, 2)
    with Client(0) as client:
        until(lambda: client.call("recorder", "recording")["kept"])
        psutil.Process(client.node("recorder").pid).suspend()
    out, _ = process.communicate(timeout=60.0)
    assert process.returncode == 1
    line = r"recorder failed: run\.mcap was not closed: messages after t = \S+ s of 3\.000 s are missing"
    assert re.search(line, " ".join(out.split()))


def test_a_run_outlives_its_killed_recorder_and_names_the_hole(ground: Any, until: Callable[..., None]) -> None:
    node = recorder("recorder", "run.mcap") + "required = false\n"
    plan = ground.launch_file(node, more="duration_s = 3.0\n")
    process = ground.start("launch", plan, "--json", "summary.json")
    ground.wait_until_running(process, 2)
    with Client(0) as client:
        until(lambda: client.call("recorder", "recording")["kept"])
        psutil.Process(client.node("recorder").pid).kill()
    out, err = process.communicate(timeout=60.0)
    assert process.returncode == 1, out
    summary = json.loads((ground.folder / "summary.json").read_text())
    assert summary["time"] == pytest.approx(3.0)
    assert "run.mcap was not closed: messages after" in summary["holes"]["recorder"]
    assert "ended with exit code 137; the run continues without it" in out + err
