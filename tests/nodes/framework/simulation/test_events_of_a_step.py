"""Events of one step in the server, in lockstep, in a recording and in `armswing info`: all of them, in their order."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from nodes.cli.application import run
from nodes.framework.messages import Event
from nodes.framework.messages.codec import decode
from nodes.framework.plan.launch_plan import NodePlan, Plan, SimPlan
from nodes.framework.recording.reader import RecordingFile
from nodes.framework.simulation.compose import compose
from nodes.framework.simulation.server import SimServer
from robots import registry
from sim_core.mechanism import Anchored, Body, ConstraintMode, Crossing, Joint, Mechanism, Z

BALLS = 5
G = 9.81


def balls() -> Mechanism:
    """Balls that fall on a floor each, the last one first."""
    count, inertia = range(BALLS), (0.1, 0.1, 0.1, 0.0, 0.0, 0.0)
    return Mechanism(
        name="balls",
        coordinates="joint",
        bodies=tuple(Body(name=f"ball_{k}", mass=1.0, inertia=inertia) for k in count),
        joints=tuple(Joint(name=f"fall_{k}", kind="prismatic", child=f"ball_{k}", axis=Z) for k in count),
        constraints=tuple(
            Anchored(name=f"floor_{k}", body=f"ball_{k}", point=(0.0, 0.0, 0.0), axis=Z, at=0.0) for k in count
        ),
        constraint_modes=(ConstraintMode(name="falling", constraints=()),),
        guards=tuple(
            Crossing(
                name=f"lands_{k}",
                body=f"ball_{k}",
                axis=Z,
                direction=-1,
                engages=(f"floor_{k}",),
                kind="lands",
                part=f"ball_{k}",
            )
            for k in count
        ),
        initial_q=tuple(0.5 * G * (0.1519 - 1e-4 * k) ** 2 for k in count),
        initial_v=(0.0,) * BALLS,
    )


@pytest.fixture(autouse=True)
def known(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(registry.BUILTIN, "balls", balls)
    monkeypatch.chdir(tmp_path)


def plan(**sim: Any) -> Plan:
    return Plan(name="balls", duration_s=0.2, sim=SimPlan(robot="balls", **sim))


def check(events: Sequence[Event]) -> None:
    assert [event.part for event in events] == [f"ball_{k}" for k in reversed(range(BALLS))]
    assert [event.seq for event in events] == list(range(1, BALLS + 1))
    assert [event.timestamp for event in events] == pytest.approx([0.152] * BALLS)
    assert [event.energy for event in events] == pytest.approx([0.5 * (G * 0.152) ** 2] * BALLS, rel=1e-9)
    assert events[0].source == "falling"
    assert [event.target for event in events[:2]] == ["floor_4", "floor_3 + floor_4"]


def test_a_server_says_each_event_of_a_step() -> None:
    server = SimServer(plan(mode="fast"))
    said: list[Any] = []
    server.out = lambda topic, payload: said.append(decode(topic, payload))
    server.start()
    server.request("resume", {"first": True})
    assert server.status()["constraint_mode"] == "falling"
    kept = None
    for tick in range(200):
        if tick == 160:
            kept = server.request("snapshot", {})
        server.step()
    check([message for message in said if isinstance(message, Event)])
    assert server.status()["constraint_mode"] == " + ".join(f"floor_{k}" for k in range(BALLS))
    end = server.request("snapshot", {})
    server.request("reset", {})
    assert server.status()["constraint_mode"] == "falling"
    server.request("restore", {"state": kept})
    server.request("resume", {"first": True})
    assert server.status()["constraint_mode"].startswith("floor_0 + ")
    for _ in range(40):
        server.step()
    assert server.request("snapshot", {}) == end


def test_a_lockstep_recording_has_all_of_them_and_so_has_info(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two runs are the same bytes."""
    files = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / name)
        recorder = NodePlan(name="recorder", run="nodes/recorder.py:Recorder", params={"file": "balls.mcap"})
        whole = plan(mode="lockstep")
        whole.nodes = [recorder]
        with compose(whole) as composition:
            composition.run()
        files.append(Path("balls.mcap").read_bytes())
    assert files[0] == files[1]
    check([message for line in RecordingFile("balls.mcap") if isinstance(message := line.message(), Event)])
    assert run(["info", "balls.mcap"]) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("lands")]
    assert lines == [f"lands: t = 0.152 s  ball_{k}" for k in reversed(range(BALLS))]
