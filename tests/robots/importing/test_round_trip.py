"""An MJCF file that is read, written and read again gives the same mechanism, to 1e-12 of every number."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import mujoco
import numpy as np
import pytest

from armswing import build
from robots.export import export
from sim_core.mechanism import Mechanism
from tests.robots.importing.same import assert_same
from tests.robots.importing.suite_files import choices_for, suite_files

Write = Callable[..., str]

pytestmark = [
    pytest.mark.filterwarnings("ignore::sim_core.errors.DescriptionWarning"),
    pytest.mark.usefixtures("elsewhere"),
]


def is_read_again(mechanism: Mechanism, folder: Path) -> None:
    """Fails unless the motion and the start are the same after an export to MJCF and an import."""
    file = folder / "again.xml"
    file.write_text(export(mechanism, "mjcf").text)
    again = build(str(file))
    assert_same(again, mechanism)


# ---- files of random content


class Content:
    """Text of an MJCF file with a random tree of bodies and joints, and with constraints."""

    def __init__(self, seed: int) -> None:
        self._random, self._count = np.random.default_rng(seed), 0
        self._joints: list[str] = []
        trees = "".join(self._body(depth, top=True) for depth in (3, 2))
        angle = self._choice("degree", "radian")
        sequence = "".join(self._random.permutation([*"xyz"]).tolist())
        self.text = (
            f'<compiler angle="{angle}" eulerseq="{sequence}"/><worldbody>{trees}</worldbody>'
            f"{self._tendon()}<equality>{''.join(map(self._constraint, range(5)))}</equality>"
        )

    def _choice(self, *options: str) -> str:
        return options[self._random.integers(len(options))]

    def _numbers(self, count: int, digits: int = 0) -> str:
        """Random numbers, with few digits as in files that people write, or with all."""
        digits = digits or (3 if self._random.integers(2) else 17)
        return " ".join(f"{number:.{digits}g}" for number in self._random.normal(size=count))

    def _turn(self) -> str:
        kind = self._choice("quat", "euler", "axisangle", "xyaxes", "zaxis", "right", "none")
        counts = {"quat": 4, "euler": 3, "axisangle": 4, "xyaxes": 6, "zaxis": 3}
        if kind == "right":
            return f' quat="{self._choice("1 1 0 0", "0.5 0.5 -0.5 0.5", "0.70710678 0 0.70710678 0", "0 0 0 -1")}"'
        return f' {kind}="{self._numbers(counts[kind])}"' if kind in counts else ""

    def _joint(self, kind: str) -> str:
        name = f"j{len(self._joints)}"
        self._joints.append(name if kind in ("hinge", "slide") else "")
        if kind == "free":
            return f'<joint name="{name}" type="free" stiffness="{self._random.integers(2)}"/>'
        place = f'pos="{self._numbers(3)}" damping="0.3" stiffness="{self._random.integers(2)}"'
        if kind == "ball":
            return f'<joint name="{name}" type="ball" {place} armature="0.01"/>'
        ref = self._numbers(1) if self._random.integers(2) else "0"
        return f'<joint name="{name}" type="{kind}" axis="{self._numbers(3)}" ref="{ref}" {place} springref="0.2"/>'

    def _inertia(self) -> str:
        kind, at = self._choice("diagonal", "full", "geoms"), self._numbers(3)
        a, b, c = np.sort(self._random.uniform(0.02, 0.03, 3)).tolist()
        if kind == "diagonal":
            return f'<inertial pos="{at}" mass="{a}" diaginertia="{a} {b} {c}"{self._turn()}/>'
        if kind == "full":
            return f'<inertial pos="{at}" mass="{b}" fullinertia="{a} {b} {c} 0.001 -0.002 0.0005"/>'
        return (
            f'<geom type="capsule" size="0.05" fromto="{self._numbers(6)}" contype="0"/>'
            f'<geom type="box" size="0.1 0.2 0.05" pos="{at}"{self._turn()} conaffinity="0" contype="0"/>'
        )

    def _body(self, depth: int, top: bool = False) -> str:
        self._count += 1
        name = f"body{self._count}"
        inner = ("", "hinge", "slide", "hinge slide hinge", "slide slide", "ball")
        kinds = self._choice(*(("hinge", "slide hinge", "free") if top else inner)).split()
        joints = "".join(self._joint(kind) for kind in kinds)
        site = f'<site name="s{self._count}" pos="{self._numbers(3)}"{self._turn()}/>'
        inside = "".join(self._body(depth - 1) for _ in range(self._random.integers(1, 3) if depth else 0))
        place = f'name="{name}" pos="{self._numbers(3)}"{self._turn()}'
        return f"\n<body {place}>{joints}{self._inertia()}{site}{inside}</body>"

    def _axial(self) -> list[str]:
        return [name for name in self._joints if name]

    def _tendon(self) -> str:
        joints = "".join(f'<joint joint="{name}" coef="{self._numbers(1)}"/>' for name in self._axial()[:3])
        return f'<tendon><fixed name="sum">{joints}</fixed></tendon>' if len(self._axial()) > 1 else ""

    def _constraint(self, number: int) -> str:
        one, other = (f"{place}" for place in self._random.choice(self._count, 2, replace=False) + 1)
        kind = self._choice("connect", "weld", "sites", "weldsites", "joint", "tendon")
        if kind == "connect":
            return f'<connect name="e{number}" body1="body{one}" body2="body{other}" anchor="{self._numbers(3)}"/>'
        if kind == "weld":
            return f'<weld name="e{number}" body1="body{one}" body2="body{other}"/>'
        if kind in ("sites", "weldsites"):
            tag = "connect" if kind == "sites" else "weld"
            return f'<{tag} name="e{number}" site1="s{one}" site2="s{other}"/>'
        if len(self._axial()) < 2:
            return ""
        factors = f'polycoef="{self._numbers(2)} 0 0 0"'
        if kind == "tendon":
            return f'<tendon name="e{number}" tendon1="sum" {factors}/>'
        first, second = self._axial()[:2]
        return f'<joint name="e{number}" joint1="{first}" joint2="{second}" {factors}/>'


def random_file_is_read_again(seed: int, write_mjcf: Write, folder: Path) -> None:
    file = write_mjcf(Content(seed).text)
    mujoco.MjModel.from_xml_path(file)  # MuJoCo accepts the file
    mechanism = build(file)
    is_read_again(mechanism, folder)
    mujoco.MjModel.from_xml_string(export(mechanism, "mjcf").text)


# with 141, two constraints keep the same points together
@pytest.mark.parametrize("seed", [*range(10), 141])
def test_a_random_file_is_the_same_mechanism_after_its_export(seed: int, write_mjcf: Write, tmp_path: Path) -> None:
    random_file_is_read_again(seed, write_mjcf, tmp_path)


@pytest.mark.soak
def test_many_random_files_are_the_same_mechanisms_after_their_exports(write_mjcf: Write, tmp_path: Path) -> None:
    for seed in range(300):
        random_file_is_read_again(seed, write_mjcf, tmp_path)


# ---- files of others


def suite_file_is_read_again(name: str, folder: Path) -> None:
    choices = choices_for(suite_files()[name])
    if isinstance(choices, str):
        pytest.skip("this file is refused")
    is_read_again(build(str(suite_files()[name]), **choices), folder)


needs_suite = pytest.mark.skipif(
    not suite_files(), reason="dm-control is not installed: pip install --no-deps dm-control"
)


@pytest.mark.soak
@needs_suite
@pytest.mark.parametrize("name", suite_files())
def test_every_file_of_the_suite_is_the_same_mechanism_after_its_export(name: str, tmp_path: Path) -> None:
    suite_file_is_read_again(name, tmp_path)


# ---- parts that an export keeps


def test_a_body_without_mass_that_carries_a_fixed_one_is_kept(write_mjcf: Write, tmp_path: Path) -> None:
    inner = '<body name="inner"><geom size="0.1"/></body>'
    mechanism = build(write_mjcf(f'<worldbody><body name="outer"><freejoint name="base"/>{inner}</body></worldbody>'))
    is_read_again(mechanism, tmp_path)
    assert mujoco.MjModel.from_xml_string(export(mechanism, "mjcf").text).nbody == 3
