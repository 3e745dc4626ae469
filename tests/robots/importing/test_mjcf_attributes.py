"""Every attribute of MJCF that changes the motion in MuJoCo is read, refused or named in a warning.

Each attribute in MuJoCo's schema is set in turn in a file that has all elements that the import reads. Where MuJoCo's
motion differs from that of the file without the attribute, so must the mechanism, or a message must name the
attribute.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable

import mujoco
import numpy as np
import pytest

from armswing import build
from sim_core.errors import InvalidRequest
from sim_core.mechanism import Mechanism

Write = Callable[..., str]


def schema() -> dict[tuple[str, str], str]:
    """{(parent tag, tag): attributes} of MuJoCo's own schema; <worldbody> counts as a <body>."""
    found, path, last = dict[tuple[str, str], str](), list[str](), ("", "")
    for line in mujoco.mj_printSchema(False, True).splitlines():
        if element := re.match(r"( *)(?:\(world\))?(\w+) \(.\)(.*)", line):
            path[len(element[1]) // 3 :] = [element[2]]
            last = (path[-2] if len(path) > 1 else "", path[-1])
            last = ("body", "body") if last == ("mujoco", "body") else last
            found[last] = element[3]
        else:
            found[last] += f" {line}"
    return found


ATTRIBUTES = schema()
FILE = """
<compiler {compiler}/>
<option {option}><flag {flag}/></option>
<default><default class="soft"><joint damping="3"/><geom density="500" solref="0.1 1"/></default></default>
<worldbody>
<geom name="floor" type="plane" size="9 9 1" {plane}/>
<body name="a" pos="0 0 1" {body}><joint name="hinge" axis="0 1 0" stiffness="2" frictionloss="0.1" {hinge}/>
<inertial mass="1" pos="0.1 0 0" diaginertia="0.1 0.1 0.1" {inertial}/><geom name="rod" type="capsule" size="0.1 0.2"/>
<body name="b" pos="0 0 0.5"><joint name="slide" type="slide" axis="1 0 0" stiffness="10" range="-1 1" {slide}/>
<geom name="bob" size="0.1" {geom}/></body></body>
<body name="box" pos="1 0 0.299"><freejoint name="free"/>
<geom name="touching" type="box" size="0.1 0.2 0.3" {touching}/></body>
<body name="disc" pos="4 0 0.299"><freejoint/><geom name="paired" type="sphere" size="0.3"/></body>
<body name="c" pos="2 0 1"><joint name="ball" type="ball" {ball}/><geom size="0.1" pos="0 0 0.3"/></body>
<body name="d" pos="3 0 1"><joint name="tied" axis="0 1 0"/><geom size="0.1" pos="0 0 0.3"/></body>
<body name="e" pos="3 1 1"><joint name="lead" axis="0 1 0"/><geom size="0.1" pos="0 0 0.3"/></body>
<body name="f" pos="5 1 1"><freejoint {freejoint}/><geom size="0.1" pos="0 0 0.3"/></body>
<body name="g" pos="6 1 1"><freejoint/><geom size="0.1" pos="0 0 0.3"/></body>
</worldbody>
<contact><pair geom1="floor" geom2="paired" {pair}/></contact>
<equality><joint joint1="tied" joint2="lead" {follow}/><weld body1="f" body2="c" {weld}/>
<connect body1="g" body2="world" anchor="0 0 0.1" {connect}/></equality>
<tendon><fixed name="t" {fixed}><joint joint="hinge" coef="1"/></fixed></tendon>
<actuator><motor name="m" joint="hinge" {motor}/><position name="p" joint="slide" kp="20" {position}/>
<general name="n" joint="tied" {general}/></actuator>
<keyframe><key name="start" {key}/></keyframe>
"""
PLACES = {
    "compiler": ("mujoco", "compiler"),
    "option": ("mujoco", "option"),
    "flag": ("option", "flag"),
    "plane": ("body", "geom"),
    "body": ("body", "body"),
    "hinge": ("body", "joint"),
    "inertial": ("body", "inertial"),
    "slide": ("body", "joint"),
    "geom": ("body", "geom"),
    "freejoint": ("body", "freejoint"),
    "touching": ("body", "geom"),
    "ball": ("body", "joint"),
    "pair": ("contact", "pair"),
    "follow": ("equality", "joint"),
    "weld": ("equality", "weld"),
    "connect": ("equality", "connect"),
    "fixed": ("tendon", "fixed"),
    "motor": ("actuator", "motor"),
    "position": ("actuator", "position"),
    "general": ("actuator", "general"),
    "key": ("keyframe", "key"),
}
# values that differ from the defaults; attributes without one name other elements, which the file does not have
WORDS = """
alignfree=true angle=radian autolimits=false boundinertia=0.5 boundmass=2 eulerseq=zyx inertiafromgeom=true
inertiagrouprange=0,3 settotalmass=3 fusestatic=true discardvisual=true balanceinertia=true
axisangle=1,0,0,20 childclass=soft class=soft euler=10,20,30 gravcomp=1 quat=0.5,0.5,0.5,0.5 xyaxes=0,1,0,-1,0,0
zaxis=0,1,0 actuatorgroupdisable=0 cone=elliptic density=2 gravity=1,2,3 impratio=5 integrator=RK4 noslip_iterations=3
timestep=0.001 viscosity=2 wind=1,2,3 o_friction=2,0.1,0.1,0.1,0.1 o_margin=0.1 o_solimp=0.5,0.6,0.1 o_solref=0.1,2
actuatorfrcrange=-1,1 armature=0.7 damping=1.5 frictionloss=0.3 group=2 margin=0.2 pos=0,0.1,0 range=0.1,0.4 ref=0.2
solimpfriction=0.5,0.6,0.1 solimplimit=0.5,0.6,0.1 solreffriction=0.1,2 solreflimit=0.1,2 springdamper=0.2,0.3
springref=0.4 springyield=0.3 stiffness=4 fullinertia=1,1.1,1.2,0.1,0.1,0.1 diaginertia=1,1,1.2
mass=2.5 adhesion=1 conaffinity=2 condim=1
contype=2 fluidshape=ellipsoid friction=0.3,0.1,0.1 gap=0.1 priority=2 shellinertia=true
size=0.12,0.25,0.3 solimp=0.5,0.6,0.1 solmix=3 solref=0.1,2 surfacevel=1,0,0,0,0,0 align=true active=false
anchor=0.1,0,0 torquescale=0.3 relpose=0,0,1,1,0,0,0 polycoef=0.1,2,0,0,0 springlength=0.1 ctrlrange=-0.5,1
forcerange=-0.2,0.3 gear=3 inheritrange=0.5 kv=4 timeconst=0.2 gainprm=3 biasprm=1,2,3 biastype=affine
dyntype=integrator ctrl=0.1,0.2,0.3 qvel=VELOCITIES qpos=POSITIONS type=hinge name=
"""
VALUES = dict(word.split("=", 1) for word in WORDS.split())
FLAGS_ENABLED = ("override", "energy", "fwdinv", "invdiscrete", "multiccd", "sleep")
HARMLESS = {"integrator", "timestep", "solver"}  # of the numerical method


def written(place: str = "", name: str = "", value: str = "") -> str:
    """Content of the file with one attribute more, or with another value of one that it has."""
    content = FILE
    if place:
        line = re.search(rf"<[^<]*{{{place}}}", FILE)
        assert line is not None
        kept = re.sub(rf' {name}="[^"]*"', "", line[0])
        content = FILE.replace(line[0], kept.replace(f"{{{place}}}", f'{name}="{value}" {{{place}}}'))
    return re.sub(r" ?\{\w+\}", "", content)


def written_in_defaults(tag: str, name: str, value: str) -> str:
    """Content of the file with an attribute that all elements of a kind have by default."""
    return written().replace("<default>", f'<default><{tag} {name}="{value}"/>', 1)


def motion(model: mujoco.MjModel) -> np.ndarray:
    """State of MuJoCo after some steps that move all joints, load all actuators, and reach a limit."""
    data = mujoco.MjData(model)
    mujoco.mj_resetDataKeyframe(model, data, 0)
    data.qvel[:] += np.linspace(0.1, 1.0, model.nv)
    data.qpos[1] += 1.1
    data.ctrl[:] += 1.3
    for _ in range(20):
        mujoco.mj_step(model, data)
    return np.concatenate([data.qpos, data.qvel])


def read(file: str) -> tuple[Mechanism | None, set[str]]:
    """The mechanism of a file, None if it is refused, and the messages about it."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            mechanism = build(file)
        except InvalidRequest as error:
            return None, {str(error)}
    return mechanism, {str(each.message) for each in caught}


DEFAULTS = ("joint", "geom", "pair", "equality", "tendon", "motor", "position", "general")


@pytest.mark.parametrize("place", PLACES)
def test_an_attribute_that_changes_the_motion_is_read_or_named(write_mjcf: Write, elsewhere: None, place: str) -> None:
    is_read_or_named(write_mjcf, place, ATTRIBUTES[PLACES[place]], written)


@pytest.mark.parametrize("tag", DEFAULTS)
def test_a_default_that_changes_the_motion_is_read_or_named(write_mjcf: Write, elsewhere: None, tag: str) -> None:
    is_read_or_named(write_mjcf, tag, ATTRIBUTES["default", tag], written_in_defaults)


def is_read_or_named(write_mjcf: Write, place: str, names: str, written_with: Callable[[str, str, str], str]) -> None:
    """Fails if an attribute changes the motion in MuJoCo and is neither read nor named.

    place         place of the attribute in the file, the first argument of `written_with`
    names         the attributes
    written_with  function that returns the content of the file for a place, an attribute and its value
    """
    plain, messages = read(write_mjcf(written()))
    assert plain is not None
    model = mujoco.MjModel.from_xml_path(write_mjcf(written()))
    before, n = motion(model), model.nv
    states = {
        "VELOCITIES": ",".join(f"{0.1 * k:g}" for k in range(n)),
        "POSITIONS": ",".join(f"{each:g}" for each in model.qpos0 + np.where(model.qpos0 == 0.0, 0.1, 0.0)),
    }
    silent, changes = [], 0
    for name in names.split():
        value = ("enable" if name in FLAGS_ENABLED else "disable") if place == "flag" else VALUES.get(name, "")
        file = write_mjcf(written_with(place, name, states.get(value, value).replace(",", " ")), name=f"{name}.xml")
        try:
            after = motion(mujoco.MjModel.from_xml_path(file))
        except ValueError:
            continue  # the value does not suit this place
        if after.shape == before.shape and np.array_equal(after, before):
            continue
        changes += 1
        mechanism, said = read(file)
        named = any(re.search(rf"\b{name}\b", line) for line in said - messages)
        if mechanism is not None and mechanism == plain and not named and name not in HARMLESS:
            silent.append(name)
    assert not silent
    assert changes, "no attribute of this element changed the motion"
