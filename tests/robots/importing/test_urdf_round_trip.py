"""A URDF file that is read, written and read again gives the same mechanism, to the last bit of every number."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from armswing import build
from robots.export import export
from sim_core.errors import DescriptionWarning
from sim_core.inverse import inverse_dynamics
from sim_core.mechanism import Actuator, Mechanism
from sim_core.system import assemble
from tests.robots.importing.parts import link

Write = Callable[..., str]

pytestmark = pytest.mark.filterwarnings("ignore::sim_core.errors.DescriptionWarning")

RIGHT = (0.0, 1.5707963267948966, -1.5707963267948966, 1.5708, 0.5)
KINDS = ("revolute", "continuous", "prismatic", "planar", "floating", "fixed")
DRIVE = """<joint name="drive" type="planar"><parent link="base"/><child link="cart"/>
  <origin xyz="0.1 0.2 0.3" rpy="0.3 -0.2 0.1"/><axis xyz="0 0.6 -0.8"/><dynamics damping="0.4" friction="0.2"/></joint>
"""


def text_of(random: np.random.Generator) -> list[str]:
    """Links and joints of a random tree; each third angle and axis is a right angle and a coordinate axis."""
    count = int(random.integers(3, 9))
    parts = [link(f"link_{k}", mass=round(random.uniform(0.5, 2.0), 3)) for k in range(count + 1)]
    leader = None
    for k in range(1, count + 1):
        kind = "continuous" if k == 1 else str(random.choice(KINDS))
        angles = random.choice(RIGHT, 3) if random.integers(2) else random.uniform(-1.5, 1.5, 3).round(3)
        axis = np.eye(3)[random.integers(3)] if random.integers(3) == 0 else random.normal(size=3).round(3)
        more = f'<dynamics damping="{random.uniform():.3f}"' + ' friction="0.2"' * (kind != "floating") + "/>"
        if kind in ("revolute", "prismatic"):
            more += f'<limit lower="{random.uniform(-1, 0.1):.2f}" upper="{random.uniform(0.5, 1):.2f}" effort="3"/>'
            if leader is not None and random.integers(3) == 0:
                more += f'<mimic joint="{leader}" multiplier="0.5"/>'
            elif leader is None and kind == "revolute":
                leader = f"joint_{k}"
        xyz, rpy, along = (" ".join(map(str, each.tolist())) for each in (random.normal(size=3), angles, axis))
        parts.append(
            f'<joint name="joint_{k}" type="{kind}"><parent link="link_{random.integers(k)}"/><child link="link_{k}"/>'
            f'<origin xyz="{xyz}" rpy="{rpy}"/><axis xyz="{along}"/>{more}</joint>'
        )
    return parts


def built(text: str, folder: Path) -> Mechanism:
    file = folder / "again.urdf"
    file.write_text(text)
    return build(str(file))


def written(mechanism: Mechanism) -> str:
    return export(mechanism, "urdf").text


@pytest.mark.parametrize("seed", range(12))
def test_a_random_file_is_the_same_mechanism_after_its_export(seed: int, write: Write, tmp_path: Path) -> None:
    mechanism = build(write(*text_of(np.random.default_rng(seed))))
    again = built(written(mechanism), tmp_path)
    assert again.joints == mechanism.joints
    assert again.canonical_hash == mechanism.canonical_hash
    assert again.initial_q == mechanism.initial_q


@pytest.mark.soak
def test_many_random_files_are_the_same_mechanisms_after_their_exports(write: Write, tmp_path: Path) -> None:
    different = []
    for seed in range(400):
        mechanism = build(write(*text_of(np.random.default_rng(seed))))
        if built(written(mechanism), tmp_path).canonical_hash != mechanism.canonical_hash:
            different.append(seed)
    assert not different


# ---- planar joints, which an export writes as three joints


def test_a_planar_joint_is_read_again_with_its_motor_and_its_limits(write: Write, tmp_path: Path) -> None:
    first = build(write(link("base"), link("cart"), DRIVE), limits="none")
    motor = Actuator(name="drive", joint="drive", unit="N m", effort_limit=3.0, velocity_limit=2.0)
    joints = [
        dataclasses.replace(each, lower=0.2, upper=0.5) if each.name == "drive" else each for each in first.joints
    ]
    driven = dataclasses.replace(first, joints=tuple(joints), actuators=(motor,), initial_q=(0.0, 0.0, 0.2))
    with pytest.warns(DescriptionWarning, match="'drive.x', 'drive.y' and 'drive.theta' are read as the planar joint"):
        again = built(written(driven), tmp_path)
    assert again.joint("drive").stops is not None
    plain = [dataclasses.replace(each, stops=None) for each in again.joints]
    assert dataclasses.replace(again, joints=tuple(plain)).canonical_hash == driven.canonical_hash
    assert again.initial_q[:3] == (0.0, 0.0, 0.2)
    assert not [note for note in export(driven, "urdf").notes if "start" in note]


DRAWN = '<link name="drive.x"><visual><geometry><sphere radius="0.1"/></geometry></visual></link>'
ASIDE = '<joint name="aside" type="fixed"><parent link="drive.y"/><child link="aside"/></joint>'
WHEEL = """<joint name="wheel" type="continuous"><parent link="cart"/><child link="wheel"/><mimic joint="drive.theta"/>
</joint>"""


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param('<link name="drive.x" />', DRAWN, id="a drawn link"),
        pytest.param('lower="-1e+30"', 'lower="-1"', id="a limit"),
        pytest.param('effort="0.0"', 'effort="2"', id="a motor"),
        pytest.param("</robot>", f'<link name="aside"/>{ASIDE}</robot>', id="another joint"),
        pytest.param("</robot>", f"{link('wheel')}{WHEEL}</robot>", id="a mimic joint"),
        pytest.param('<joint name="drive.y"', '<joint name="drive.other"', id="another name"),
    ],
)
def test_three_joints_that_are_not_just_a_planar_joint_stay_three(
    old: str, new: str, write: Write, tmp_path: Path
) -> None:
    text = written(build(write(link("base"), link("cart"), DRIVE)))
    assert old in text
    joints = {each.name: each.kind for each in built(text.replace(old, new, 1), tmp_path).joints}
    assert joints["drive.x"] == "prismatic"
    assert joints["drive.theta"] == "revolute"


def test_slides_that_lie_otherwise_stay_joints_of_their_own(write: Write, tmp_path: Path) -> None:
    text = written(build(write(link("base"), link("cart"), DRIVE.replace("0 0.6 -0.8", "0 0 1"))))
    axis = re.search(r'<axis xyz="(.*)" />', text)
    assert axis is not None
    x, y, z = map(float, axis[1].split())
    turned = text.replace(axis[1], f"{0.8 * x - 0.6 * y} {0.6 * x + 0.8 * y} {z}", 1)
    swapped = text.replace("drive.x", "drive.z").replace("drive.y", "drive.x").replace("drive.z", "drive.y")
    for changed in (turned, swapped):
        assert changed != text
        assert "drive.x" in [each.name for each in built(changed, tmp_path).joints]


def test_the_three_joints_move_as_the_planar_joint(write: Write, tmp_path: Path) -> None:
    first = build(write(link("base"), link("cart"), DRIVE))
    text = written(first)
    three = built(text.replace("drive.y", "drive.other"), tmp_path)
    one = built(text, tmp_path)
    assert [len(each.joints) for each in (one, three)] == [2, 4]
    random = np.random.default_rng(0)
    systems = [assemble(each) for each in (one, three)]
    for _ in range(10):
        q, v, a = random.normal(size=(3, 3))
        expected, found = (inverse_dynamics(each, q, v, a) for each in systems)
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)
