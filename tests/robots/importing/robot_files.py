"""The URDF files of the package example-robot-data."""

from __future__ import annotations

import importlib.metadata
import random
from functools import cache
from pathlib import Path

import pytest

PACKAGE = "example-robot-data"
MARK = "share/example-robot-data/robots/"
# as pinocchio reads a file
CHOICES = {"friction": "ignore", "mimic": "free", "limits": "none", "meshes": "boxes", "contacts": "none"}


@cache
def robot_files() -> dict[str, Path]:
    """{path below the package's folder of robots: file}, sorted; empty if the package is not installed."""
    try:
        listed = importlib.metadata.files(PACKAGE) or []
    except importlib.metadata.PackageNotFoundError:
        return {}
    found = {str(each).partition(MARK)[2]: Path(str(each.locate())).resolve() for each in listed if MARK in str(each)}
    return {name: path for name, path in sorted(found.items()) if name.endswith(".urdf")}


def sample(seed: int, count: int) -> list[str]:
    """Names of `count` files, drawn by a seed."""
    names = list(robot_files())
    return random.Random(seed).sample(names, count) if names else []


needs_files = pytest.mark.skipif(not robot_files(), reason=f"{PACKAGE} is not installed; make test installs it")
