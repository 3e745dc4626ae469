"""Hosts of one launch compare their plans: a line where they were given different ones."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from nodes.framework.launching.hosts.remote_nodes import difference, digests
from nodes.framework.launching.observer import Observer
from nodes.framework.plan.files.file import load_plan
from nodes.framework.transport.registry import Registry

LAUNCH_FILE = Path(__file__).resolve().parents[4] / "launch/hil_controller.toml"


def test_equal_plans_in_other_folders_at_other_addresses_are_the_same(tmp_path: Path) -> None:
    ours = load_plan(LAUNCH_FILE, ["hosts.desk=10.1.1.1"])
    theirs = load_plan(LAUNCH_FILE, ["hosts.desk=10.2.2.2"])
    theirs.folder = str(tmp_path)
    theirs.duration_s = 3.0
    for node in theirs.nodes:
        node.run = str(tmp_path / node.run)
    assert difference(ours, digests(theirs)) == ""
    assert difference(ours, {}) == ""  # a server that says nothing of its plan


@pytest.mark.parametrize(
    ("override", "says"),
    [
        ("swing_up.torque_limit=0.04", "node 'swing_up' differs"),
        ("sim.step_ms=2.0", "[sim] differs"),
        ("seed=7", "seed differs"),
    ],
)
def test_the_part_that_differs_is_named(override: str, says: str) -> None:
    line = difference(load_plan(LAUNCH_FILE), digests(load_plan(LAUNCH_FILE, [override])))
    said = f"the plan here is not that of host 'desk': {says}; give all hosts the same launch file and the same --set"
    assert line == said


def test_nodes_that_only_one_has_are_named_and_many_are_counted() -> None:
    ours, theirs = load_plan(LAUNCH_FILE), load_plan(LAUNCH_FILE)
    theirs.nodes = []
    assert "node 'trajectory', node 'swing_up', node 'recorder' differ;" in difference(ours, digests(theirs))
    others = {f"node 'n{k}'": "0" for k in range(9)}
    assert "node 'n3' and 5 more differ;" in difference(ours, {**digests(ours), **others})


def test_the_registry_tells_the_plan_of_its_launch(domain: int, until: Callable[..., object]) -> None:
    plan = load_plan(LAUNCH_FILE)
    with Registry(domain) as registry:
        registry.plan = digests(plan)
        observer = Observer(domain)
        until(lambda: observer.registry_instance)
        heard = observer.remote_plan
        observer.close()
    assert heard == digests(plan)
