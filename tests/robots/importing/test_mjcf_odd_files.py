"""MJCF files with rare combinations of elements move as in MuJoCo, in random states and for one second."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import mujoco
import numpy as np
import pytest

from armswing import build
from sim_core.simulation import Simulation
from sim_core.system import assemble
from tests.robots.importing.test_mjcf_import import qpos_of, worst_miss

Write = Callable[..., str]
RELATIVE = 1e-9
INCLUDED = {
    "inner.xml": '<mujocoinclude><body name="inc"><joint name="ji" axis="0 1 0"/><geom size=".1" pos=".1 0 0"/>'
    '<include file="sub/geoms.xml"/></body></mujocoinclude>',
    "geoms.xml": '<mujoco><geom type="box" size=".1 .1 .1" pos="0 .2 0"/></mujoco>',
}
FILES = {
    "defaults nested": """
<default><joint damping="0.2" armature="0.01"/><geom density="500" type="capsule" size=".05 .2"/>
<default class="arm"><joint axis="0 1 0" stiffness="2" springref="10"/><geom rgba="1 0 0 1"/>
<default class="elbow"><joint axis="1 0 0" damping="0"/><default class="deep"><joint type="slide" axis="0 0 1"/>
<geom type="box" size=".1 .1 .1"/></default></default></default><default class="free">
<joint armature="0.3" stiffness="0"/></default></default><worldbody><body name="a" childclass="arm" pos="0 0 1">
<joint name="j1"/><geom/><body name="b" pos="0 0 -.4"><joint name="j2" class="elbow"/><geom class="elbow"/>
<body name="c" childclass="free" pos="0 .1 -.4"><joint name="j3" class="deep"/><geom class="deep"/>
<joint name="j4" axis="1 1 0"/></body></body></body></worldbody>""",
    "default type slide": """
<default><joint type="slide" axis="1 0 0" ref=".2" stiffness="3"/></default><worldbody><body name="a">
<joint name="s"/><joint name="h" type="hinge" axis="0 1 0"/><geom size=".1" pos=".1 0 0"/></body></worldbody>""",
    "free defaults": """
<default><joint damping="1.5" armature=".2" stiffness="3"/></default><worldbody>
<body name="a" pos="1 2 3" euler="10 20 30"><joint name="f" type="free"/><geom type="box" size=".1 .2 .3"/>
</body><body name="b" pos="3 2 3"><freejoint name="g"/><geom type="box" size=".1 .2 .3"/></body></worldbody>""",
    "two compilers": """
<compiler angle="radian" eulerseq="zyx"/><compiler eulerseq="xZy"/><option gravity="0 0 -3"/>
<option gravity="1 0 -5" timestep="0.001"/><worldbody><body name="a" euler=".1 .2 .3">
<joint name="j" axis="1 2 3" ref=".3" stiffness="1" springref=".5"/>
<geom type="ellipsoid" size=".1 .2 .3" pos=".2 0 0" euler=".4 .5 .6"/></body></worldbody>""",
    "seq upper": """
<compiler eulerseq="XYZ"/><worldbody><body name="a" euler="10 20 30"><joint name="j" axis="1 2 3"/>
<geom type="ellipsoid" size=".1 .2 .3" pos=".2 0 0" euler="40 50 60"/></body></worldbody>""",
    "include in body": """
<worldbody><body name="a"><joint name="j"/><geom size=".1" pos=".3 0 0"/><include file="sub/inner.xml"/></body>
</worldbody>""",
    "slide ball": """
<worldbody><body name="a" euler="10 20 30"><joint name="s" type="slide" axis="1 1 0" ref=".1"/>
<joint name="b" type="ball" pos=".1 .2 .3" stiffness="2"/><geom size=".1" pos=".3 0 0"/>
<geom type="box" size=".1 .2 .3"/></body></worldbody>""",
    "ball slide": """
<worldbody><body name="a" euler="10 20 30"><joint name="b" type="ball" pos=".1 .2 .3" stiffness="2"/>
<joint name="s" type="slide" axis="1 1 0" ref=".1"/><geom size=".1" pos=".3 0 0"/>
<geom type="box" size=".1 .2 .3"/></body></worldbody>""",
    "three hinges pos": """
<worldbody><body name="a" euler="10 20 30" pos="1 2 3"><joint name="j1" pos=".1 0 0" axis="1 0 0" ref="20"/>
<joint name="j2" pos="0 .2 0" axis="0 1 0" ref="-30" stiffness="1"/>
<joint name="j3" pos="0 0 .3" axis="0 0 1" springref="20" stiffness="2"/>
<geom type="box" size=".1 .2 .3" pos=".1 .1 .1"/></body></worldbody>""",
    "actuator mixed defaults": """
<default><general gainprm="12" biasprm="0 -12 -1" biastype="affine"/></default><worldbody><body name="a">
<joint name="j" axis="0 1 0"/><geom size=".1" pos=".3 0 0"/></body></worldbody><actuator>
<motor name="m" joint="j"/></actuator>""",
    "settotalmass": """
<compiler settotalmass="5"/><worldbody><body name="a"><joint name="j" axis="0 1 0" armature=".3"/>
<geom size=".1" pos=".3 0 0"/><body name="b"><geom size=".2"/></body></body></worldbody>""",
    "discardvisual": """
<compiler discardvisual="true"/><worldbody><body name="a"><joint name="j" axis="0 1 0"/>
<geom size=".1" pos=".3 0 0"/><geom size=".2" pos=".5 0 0" contype="0" conaffinity="0" group="1"/></body>
</worldbody>""",
    "fusestatic": """
<compiler fusestatic="true"/><worldbody><body name="w" pos="1 2 3" euler="10 20 30"><body name="a">
<joint name="j" axis="0 1 0"/><geom size=".1" pos=".3 0 0"/><body name="b" pos="0 0 1" euler="20 30 40">
<geom type="box" size=".1 .2 .3"/><body name="c" pos="0 1 0"><joint name="k" axis="1 0 0"/>
<geom size=".1" pos=".3 0 0"/></body></body></body></body></worldbody>""",
    "default quat geom": """
<default><geom quat="1 1 0 0"/></default><worldbody><body name="a"><joint name="j" axis="0 1 0"/>
<geom type="capsule" size=".1" fromto="0 0 0 1 1 1"/><geom type="box" size=".1 .2 .3" euler="10 20 30"/></body>
</worldbody>""",
    "gravity flag": """
<option gravity="0 0 -5"><flag gravity="disable"/></option><worldbody><body name="a">
<joint name="j" axis="0 1 0" damping=".1"/><geom size=".1" pos=".3 0 0"/></body></worldbody>""",
    "flag enable again": """
<option><flag gravity="disable"/></option><option><flag gravity="enable"/></option><worldbody><body name="a">
<joint name="j" axis="0 1 0" damping=".1"/><geom size=".1" pos=".3 0 0"/></body></worldbody>""",
    "mocap joint": """
<worldbody><body name="m" mocap="true" pos="1 0 0"><geom size=".1"/><body name="a">
<joint name="j" axis="0 1 0" damping=".1"/><geom size=".1" pos=".3 0 0"/></body></body></worldbody>""",
    "key time": """
<worldbody><body name="a"><joint name="j" axis="0 1 0" ref="20"/><geom size=".1" pos=".3 0 0"/></body>
</worldbody><keyframe><key name="start" time="3" qvel="2"/></keyframe>""",
    "two worldbodies": """
<worldbody><body name="a"><joint name="j" axis="0 1 0"/><geom size=".1" pos=".3 0 0"/></body></worldbody>
<default><geom density="300"/></default><worldbody><body name="b"><joint name="k" axis="0 1 0"/>
<geom size=".1" pos=".3 0 0"/></body></worldbody>""",
    "names odd": """
<worldbody><body name="left/arm [1]"><joint name="j 1/x" axis="0 1 0"/><geom size=".1" pos=".3 0 0"/></body>
</worldbody><actuator><motor joint="j 1/x"/><motor joint="j 1/x" gear="2"/></actuator>""",
    "damping neg springref": """
<worldbody><body name="a">
<joint name="j" type="slide" axis="0 0 -1" stiffness="100" springref="-.3" ref="-.1" damping="2"/>
<geom size=".1" pos=".3 0 0"/></body></worldbody>""",
    "xyaxes left": """
<worldbody><body name="a" xyaxes="1 1 0 0 2 1"><joint name="j" axis="0 1 0"/>
<geom type="box" size=".1 .2 .3" xyaxes="0 0 -2 1 0 3" pos=".3 0 0"/></body></worldbody>""",
    "cylinder negative": """
<worldbody><body name="a"><joint name="j" axis="0 1 0"/><geom type="cylinder" size=".1" fromto="0 0 1 0 0 -1"/>
<geom type="capsule" size=".1 .2" zaxis="0 0 -1" pos=".1 .2 .3"/>
<geom type="box" size=".1 .2" fromto="1 0 0 0 0 -1"/></body></worldbody>""",
    "magnetic": """
<option magnetic="1 0 0" wind="0 0 0" density="0"/><worldbody><body name="a"><joint name="j" axis="0 1 0"/>
<geom size=".1" pos=".3 0 0"/></body></worldbody>""",
    "joint gravcomp": """
<worldbody><body name="a" gravcomp="0"><joint name="j" axis="0 1 0" actuatorgravcomp="true"/>
<geom size=".1" pos=".3 0 0"/></body></worldbody>""",
    "default mass": """
<default><geom mass="2"/></default><worldbody><body name="a"><joint name="j" axis="0 1 0"/>
<geom size=".1" density="30" pos=".3 0 0"/></body></worldbody>""",
    "quat default": """
<default><geom euler="10 20 30" type="box" size=".1 .2 .3"/><site quat="0 1 0 0"/></default><worldbody>
<body name="a"><joint name="j" axis="0 1 0"/><geom pos=".1 .2 .3"/></body></worldbody>""",
    "key two": """
<worldbody><body name="a"><joint name="j" axis="0 1 0"/><geom size=".1" pos=".3 0 0"/></body></worldbody>
<keyframe><key name="start" qpos="1"/></keyframe><keyframe><key name="b" qpos="2"/></keyframe>""",
    "joint names missing": """
<worldbody><body><joint axis="0 1 0"/><geom size=".1" pos=".3 0 0"/><body><joint axis="0 1 0"/>
<joint axis="1 1 0"/><geom size=".1" pos=".3 0 0"/></body></body><body><joint axis="0 1 0"/>
<geom size=".1" pos=".3 0 0"/></body></worldbody>""",
    "autolimits ball": """
<worldbody><body name="a"><joint name="j" type="ball" range="0 30" damping=".2" armature=".1" stiffness="3"/>
<geom size=".1" pos=".3 0 0"/></body></worldbody>""",
    "deep static": """
<worldbody><body name="s" pos="1 0 0" euler="30 0 0"><body name="s2" pos="0 1 0" axisangle="1 1 1 40">
<body name="a"><joint name="j" axis="0 1 0" pos=".1 .1 .1" ref="15" stiffness="3"/>
<geom size=".1" pos=".3 0 0"/></body></body></body></worldbody>""",
    "exp numbers": """
<worldbody><body name="a" pos="1e-1 +.5 -2."><joint name="j" axis="0 1e0 0"  damping=" .1 "/>
<geom size="1E-1" pos="  .3  0  0"/></body></worldbody>""",
    "armature act": """
<worldbody><body name="a"><joint name="j" axis="0 1 0" armature=".1"/><geom size=".1" pos=".3 0 0"/></body>
</worldbody><actuator><motor name="m" joint="j" gear="4" armature=".01" damping=".2"/></actuator>""",
    "inertia group": """
<compiler inertiagrouprange="2 4"/><worldbody><body name="a"><joint name="j" axis="0 1 0"/>
<geom size=".1" pos=".3 0 0" group="3"/><geom size=".2" group="1"/></body></worldbody>""",
    "visual zero mass geom": """
<default><default class="visual"><geom mass="0" contype="0" conaffinity="0" group="2"/></default></default>
<worldbody><body name="a"><joint name="j" axis="0 1 0"/><geom size=".1" pos=".3 0 0"/>
<geom class="visual" type="box" size="1 1 1"/></body></worldbody>""",
    "slide free chain": """
<worldbody><body name="a"><joint name="x" type="slide" axis="1 0 0"/><joint name="y" type="slide" axis="0 1 0"/>
<joint name="z" type="slide" axis="0 0 1"/><joint name="b" type="ball"/>
<geom type="box" size=".1 .2 .3" pos=".1 0 0"/><body name="c"><joint name="k" axis="0 1 0"/>
<geom size=".1" pos=".3 0 0"/></body></body></worldbody>""",
    "disabled group": """
<option actuatorgroupdisable="1 2"/><worldbody><body name="a"><joint name="j" axis="0 1 0"/>
<geom size=".1" pos=".3 0 0"/></body></worldbody><actuator><motor name="m" joint="j" group="1"/>
<motor name="n" joint="j"/></actuator>""",
    "main named": """
<default class="main"><joint damping="1"/><default class="x"><joint armature=".1"/></default></default><default>
<joint stiffness="2"/></default><worldbody><body name="a" childclass="x"><joint name="j" axis="0 1 0"/>
<geom size=".1" pos=".3 0 0"/></body></worldbody>""",
    "class empty": """
<default><default class="e"/></default><worldbody><body name="a" childclass="e"><joint name="j" axis="0 1 0"/>
<geom size=".1" pos=".3 0 0"/></body></worldbody>""",
    "connect self world": """
<worldbody><body name="a" pos="0 0 1"><joint name="j" type="ball"/><geom size=".1" pos=".3 0 0"/>
<body name="b" pos=".5 0 0"><joint name="k" axis="0 1 0"/><geom size=".1" pos=".3 0 0"/></body></body>
</worldbody><equality><connect body1="b" anchor=".5 0 0" body2="world"/></equality>""",
    "weld to mocap": """
<worldbody><body name="m" mocap="true" pos="0 0 1" euler="0 0 90"/><body name="a" pos="0 0 1"><freejoint/>
<geom size=".1" pos=".3 0 0"/></body></worldbody><equality><weld body1="m" body2="a" torquescale="2"/>
</equality>""",
    "tendon joint equality": """
<worldbody><body name="a"><joint name="j" axis="0 1 0" ref="20"/><geom size=".1" pos=".3 0 0"/><body name="b">
<joint name="k" type="slide" ref=".1"/><geom size=".1" pos=".3 0 0"/></body></body></worldbody><tendon>
<fixed name="t"><joint joint="j" coef=".3"/><joint joint="k" coef="-2"/></fixed></tendon><equality>
<tendon tendon1="t" polycoef=".1"/></equality>""",
    "eq joint short": """
<worldbody><body name="a"><joint name="j" axis="0 1 0" ref="10"/><geom size=".1" pos=".3 0 0"/><body name="b">
<joint name="k" axis="0 1 0" ref="-20"/><geom size=".1" pos=".3 0 0"/></body></body></worldbody><equality>
<joint joint1="j" joint2="k" polycoef="0 2"/></equality>""",
    "weld relpose zero": """
<worldbody><body name="a"><joint name="j" axis="0 1 0"/><geom size=".1" pos=".3 0 0"/></body>
<body name="b" pos="1 0 0"><freejoint/><geom size=".1" pos=".3 0 0"/></body></worldbody><equality>
<weld body1="a" body2="b" relpose="1 2 3 0 0 0 0"/></equality>""",
    "connect default class": """
<default><default class="c"><equality active="false"/></default></default><worldbody><body name="a">
<joint name="j" axis="0 1 0"/><geom size=".1" pos=".3 0 0"/></body><body name="b" pos="1 0 0"><freejoint/>
<geom size=".1" pos=".3 0 0"/></body></worldbody><equality>
<connect class="c" body1="a" body2="b" anchor="0 0 0"/></equality>""",
}
SAMPLE = random.Random(8).sample([*FILES], 6)

pytestmark = [
    pytest.mark.filterwarnings("ignore::sim_core.errors.DescriptionWarning"),
    pytest.mark.usefixtures("elsewhere"),
]


def moves_as_in_mujoco(name: str, write_mjcf: Write, folder: Path) -> None:
    (folder / "sub").mkdir()
    for file, content in INCLUDED.items():
        (folder / "sub" / file).write_text(content)
    path = write_mjcf(FILES[name])
    assert worst_miss(path, 5) < RELATIVE
    mechanism = build(path, contacts="ignore", limits="none")
    if mechanism.constraints:
        return  # MuJoCo's are soft
    model = mujoco.MjModel.from_xml_path(path)
    model.opt.timestep, model.opt.integrator = 1e-3, mujoco.mjtIntegrator.mjINT_RK4
    model.opt.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_CONSTRAINT)
    data, simulation = mujoco.MjData(model), Simulation(assemble(mechanism))
    if "start" in [model.key(k).name for k in range(model.nkey)]:
        mujoco.mj_resetDataKeyframe(model, data, model.key("start").id)
    for _ in range(1000):
        mujoco.mj_step(model, data)
    simulation.advance(1.0)
    state = simulation.state
    np.testing.assert_allclose(state.v, data.qvel, rtol=0.0, atol=1e-8)
    if not mechanism.oriented_joints:
        moving = [joint for joint in mechanism.joints if joint.coordinates]
        np.testing.assert_allclose(
            qpos_of(moving, np.array(state.q), np.array(state.p)), data.qpos, rtol=0.0, atol=1e-8
        )


@pytest.mark.parametrize("name", SAMPLE)
def test_files_of_a_sample_move_as_in_mujoco(name: str, write_mjcf: Write, tmp_path: Path) -> None:
    moves_as_in_mujoco(name, write_mjcf, tmp_path)


@pytest.mark.soak
@pytest.mark.parametrize("name", FILES)
def test_every_file_moves_as_in_mujoco(name: str, write_mjcf: Write, tmp_path: Path) -> None:
    moves_as_in_mujoco(name, write_mjcf, tmp_path)


BALL = '<geom size=".1" pos=".3 0 0"/>'
BODY = '<worldbody><body name="a"><joint name="j" axis="0 1 0"/>{inside}</body></worldbody>'


def test_actuators_without_a_name_have_different_ones(write_mjcf: Write) -> None:
    motors = '<motor joint="j"/><motor joint="j" gear="2"/><motor name="j.2" joint="j"/>'
    file = write_mjcf(BODY.format(inside=BALL) + f"<actuator>{motors}</actuator>")
    assert [actuator.name for actuator in build(file).actuators] == ["j", "j.3", "j.2"]


def test_geoms_for_collisions_are_not_drawn_over_visible_ones(tmp_path: Path) -> None:
    file = tmp_path / "arm.xml"
    file.write_text(
        """<mujoco><worldbody><body><joint axis="0 1 0"/><geom size=".1" pos=".3 0 0" group="2"/>
<geom type="box" size=".2 .2 .2" pos=".3 0 0" group="3"/>
<body pos=".5 0 0"><joint axis="0 1 0"/><geom type="box" size=".1 .1 .1" pos=".3 0 0" group="3"/></body>
</body></worldbody></mujoco>"""
    )
    mechanism = build(str(file), contacts="ignore")
    assert [[shape.kind for shape in body.shapes] for body in mechanism.bodies] == [["sphere"], ["box"]]
