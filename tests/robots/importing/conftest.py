"""URDF and MJCF files of a few lines."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., str]:
    """Writes a <robot> of these parts to a file, and returns its path."""

    def written(*parts: str, name: str = "robot.urdf") -> str:
        path = tmp_path / name
        path.write_text(f'<?xml version="1.0"?>\n<robot name="made">{"".join(parts)}\n</robot>\n')
        return str(path)

    return written


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """MuJoCo writes its warnings into a file of the current folder."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def write_mjcf(tmp_path: Path) -> Callable[..., str]:
    """Writes a <mujoco> of this content to a file, and returns its path."""

    def written(content: str, name: str = "robot.xml") -> str:
        path = tmp_path / name
        path.write_text(f'<mujoco model="made">\n{content}\n</mujoco>\n')
        return str(path)

    return written
