"""A computer that is started as another host than it is, is told so before anything else is looked for."""

from __future__ import annotations

from pathlib import Path

import pytest

from nodes.cli.application import run
from nodes.framework.launching.hosts import own_address
from nodes.framework.launching.hosts.own_address import check_own_address
from nodes.framework.plan.files.file import load_plan
from nodes.framework.plan.key_checks import PlanError
from nodes.framework.transport.addresses import is_own, own_addresses
from nodes.framework.transport.security import keys

LAUNCH_FILE = Path(__file__).resolve().parents[4] / "launch/hil_controller.toml"
ELSEWHERE = "192.0.2.77"  # for documentation: no computer has it


def test_an_address_is_ones_own_if_a_socket_can_have_it() -> None:
    assert is_own("127.0.0.1")
    assert not is_own(ELSEWHERE)
    assert all(map(is_own, own_addresses()))
    assert "127.0.0.1" not in own_addresses()


@pytest.mark.parametrize(
    ("own", "host", "says"),
    [
        (
            "robot",
            "desk",
            "this launch starts as host 'desk', but this computer does not have that host's address 10.66.6.1; this "
            "computer has the address 10.66.6.2 of host 'robot'",
        ),
        ("robot", "desk", "did you mean --host robot?"),
        ("desk", "robot", "did you mean to leave out --host?"),
        ("", "desk", "are 10.0.0.9; start the launch on each host with --set hosts.desk=ADDRESS, where ADDRESS is"),
        ("", "robot", "are 10.0.0.9; start the launch on each host with --set hosts.robot=ADDRESS, where ADDRESS is"),
    ],
)
def test_another_host_than_the_one_meant(
    own: str, host: str, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    keys.make_key("desk")
    plan = load_plan(LAUNCH_FILE, ["hosts.desk=10.66.6.1", "hosts.robot=10.66.6.2"])
    monkeypatch.setattr(own_address, "is_own", lambda address: address == plan.hosts.get(own))
    monkeypatch.setattr(own_address, "own_addresses", lambda: ["10.0.0.9"])
    with pytest.raises(PlanError) as error:
        check_own_address(plan, host)
    assert says in str(error.value)


@pytest.mark.parametrize("host", [[], ["--host", "robot"]])
def test_a_launch_looks_at_its_own_address_first(
    host: list[str], domain: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    keys.make_key("desk")
    addresses = [word for name in ("desk", "robot") for word in ("--set", f"hosts.{name}={ELSEWHERE}")]
    assert run(["launch", str(LAUNCH_FILE), *addresses, *host]) == 2
    said = capsys.readouterr().err
    assert f"this computer does not have that host's address {ELSEWHERE}" in said
    assert f"--set hosts.{'robot' if host else 'desk'}=ADDRESS" in said
