"""The quadruped A1 from its maker's URDF file, which `pip install example-robot-data` brings, on the ground."""

from dataclasses import replace
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path

from armswing import build
from armswing.mechanism import Mechanism

FILES = {"a1": "a1.urdf", "go1": "go1.urdf"}


def quadruped(name="a1", contacts="ground", mu=0.8) -> Mechanism:
    """A1 or Go1 with bent legs, its feet on the ground; `armswing.push` acts on its trunk."""
    try:
        found = [Path(str(file.locate())) for file in files("example-robot-data") or () if file.name == FILES[name]]
    except PackageNotFoundError:
        raise ModuleNotFoundError("the robot's file is missing: pip install example-robot-data") from None
    robot = build(
        str(found[0].resolve()),
        base="free",
        contacts=contacts,
        mu=mu,
        start="*_thigh_joint=0.8 *_calf_joint=-1.6",
    )
    return replace(robot, pushable=("trunk",))
