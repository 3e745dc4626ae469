"""What `armswing estop` says where a node does not answer."""

from __future__ import annotations

from typing import Any

import pytest

from nodes.cli import main
from nodes.client import Stopped


class Silent:
    """A client of a launch whose driver does not answer."""

    def __init__(self, domain: int | None) -> None:
        pass

    def __enter__(self) -> Silent:
        return self

    def __exit__(self, *args: Any) -> None:
        pass

    def estop(self, reason: str, release: bool) -> list[Stopped]:
        return [Stopped(node="sim", ms=2.0), Stopped(node="driver", ms=500.0, error="no answer")]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "driver did not stop; press the emergency switch of the robot"),
        (["--release"], "driver did not confirm the end of the stop; give 'armswing estop --release' again"),
    ],
)
def test_a_node_that_does_not_answer_is_named_with_what_to_do(
    arguments: list[str], says: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("nodes.client.Client", Silent)
    monkeypatch.setattr("sys.argv", ["armswing", "estop", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    error = capsys.readouterr().err
    assert (ended.value.code, error.count("\n")) == (1, 1)
    assert says in error
