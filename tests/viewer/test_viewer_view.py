"""Which way the picture looks, from where real robots' bodies are and have been."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest

from nodes.framework.simulation.description import describe
from robots.registry import BUILTIN, build
from sim_core.simulation import Simulation
from sim_core.system import assemble
from viewer.scene.bodies import Skeleton
from viewer.scene.projection import PoseBounds

SPATIAL = {"rotary_pendulum", "arm_2dof", "arm_4dof", "arm_6dof", "charmie", "acromonk", "ricmonk"}
ON_WHEELS = {"rolling_disk", "differential_drive"}  # that have depth, too
FROM_ABOVE = {"chaplygin_sleigh", "snakeboard"}  # flat on the ground, as a top view shows them
PLANAR = sorted(BUILTIN.keys() - SPATIAL - ON_WHEELS)
UPRIGHT = math.pi


def simulated(robot: str, **parameters: Any) -> tuple[Simulation, Skeleton]:
    mechanism = build(robot, **parameters)
    return Simulation(assemble(mechanism), step_s=1e-4), Skeleton(describe(mechanism, 1e-4, (), ""))


def row_of(simulation: Simulation) -> np.ndarray[Any, Any]:
    p, quaternion = simulation.poses()
    return np.concatenate([p.ravel(), quaternion.ravel()])


class Pendulum:
    """The rotary pendulum, put where a test wants it, and the plane chosen from all the poses so far."""

    def __init__(self) -> None:
        self._simulation, self._skeleton = simulated("rotary_pendulum", coordinates="joint")
        self._seen: PoseBounds = self._skeleton.bounds()

    def plane_after(self, poses: Iterable[tuple[float, float]]) -> str:
        rows = []
        for pose in poses:
            self._simulation.reset(q=pose)
            rows.append(row_of(self._simulation))
        self._seen.add(self._skeleton.spots(np.stack(rows)))
        return self._seen.plane(self._skeleton.gravity)


@pytest.mark.parametrize("arm_deg", [30.0, -45.0, 100.0])
def test_a_robot_at_rest_across_the_planes_is_seen_in_space(arm_deg: float) -> None:
    assert Pendulum().plane_after([(math.radians(arm_deg), UPRIGHT)]) == "space"


def test_an_upright_pendulum_whose_arm_moves_a_little_is_not_seen_from_its_end() -> None:
    swing = [(0.1 * math.sin(angle), UPRIGHT) for angle in np.linspace(0.0, 6.0, 50)]
    assert Pendulum().plane_after(swing) == "space"


def test_a_pendulum_that_turns_about_an_arm_at_rest_is_not_seen_along_the_arm() -> None:
    assert Pendulum().plane_after([(0.0, angle) for angle in np.linspace(0.0, 6.0, 50)]) == "space"


def test_what_was_seen_out_of_its_plane_once_stays_seen_in_space() -> None:
    pendulum = Pendulum()
    assert pendulum.plane_after([(0.0, UPRIGHT)]) == "xz"
    assert pendulum.plane_after([(0.2, UPRIGHT)]) == "space"
    assert pendulum.plane_after([(0.0, UPRIGHT)] * 20) == "space"


def test_an_arm_that_creeps_out_of_its_plane_is_noticed_over_all_that_was_seen() -> None:
    pendulum = Pendulum()
    planes = [pendulum.plane_after([(angle, UPRIGHT)]) for angle in np.linspace(0.0, 0.2, 40)]
    assert planes[0] == "xz"
    assert planes[-1] == "space"


@pytest.mark.parametrize("robot", PLANAR)
def test_a_planar_robot_is_seen_face_on_from_its_first_pose_to_its_last(robot: str) -> None:
    simulation, skeleton = simulated(robot)
    seen = skeleton.bounds()
    planes = []
    for _ in range(10):
        seen.add(skeleton.spots(row_of(simulation)[None]))
        planes.append(seen.plane(skeleton.gravity))
        simulation.step(100)
    upright = simulation.system.mechanism.gravity[2] != 0.0 and robot not in FROM_ABOVE
    assert planes == ["xz" if upright else "xy"] * 10
