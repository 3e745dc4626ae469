"""Epicyclic gear train: 7 bodies with Euler parameters, and holonomic and nonholonomic constraints.

[NadaBayoumi2024, sec. 5]

Masses, inertias and tooth counts are assumed, because the paper does not state them. SOURCES.md lists the sources of
the numbers.
"""

from __future__ import annotations

import math
from typing import Annotated

from robots.parameters import ParameterInfo
from sim_core.mechanism import Body, Joint, Mechanism, PointOutput, Shape, SpinRelation, Z

SUN_TEETH, PLANET_TEETH = 24, 18
MODULE = 1e-3  # m per tooth
AXIS_DISTANCE = MODULE * (SUN_TEETH + PLANET_TEETH)  # 42 mm between the planets' axes and the sun's
RIM_CORNERS = 72
NAMES = ("ring", "sun", "arm", "pin_a", "planet_a", "pin_b", "planet_b")
MASSES = (1.0, 0.2, 0.4, 0.02, 0.1, 0.02, 0.1)
ACROSS = (2e-3, 2e-4, 5e-4, 2e-6, 5e-5, 2e-6, 5e-5)  # Ixx = Iyy
AXIAL = (4e-3, 3e-4, 1e-3, 1e-6, 8e-5, 1e-6, 8e-5)  # Izz


def epicyclic_gear_train(
    torque: Annotated[float, ParameterInfo("torque on the arm about its z axis", "N m")] = 0.1,
) -> Mechanism:
    """Epicyclic gear train: fixed ring, sun, and an arm with two planets on pins; at rest, without gravity.

    There are 45 holonomic constraint rows: differences of coordinates, dot products of axes, and e'e - 1 for the Euler
    parameters e of each body. The 3 nonholonomic rows are the gear meshes, with tooth counts as factors.

    torque  constant torque on the arm about its z axis (N m)
    """
    places = (0.0, 0.0, 0.0, AXIS_DISTANCE, AXIS_DISTANCE, -AXIS_DISTANCE, -AXIS_DISTANCE)
    bodies = tuple(
        Body(
            name=name,
            mass=mass,
            inertia=(across, across, axial, 0.0, 0.0, 0.0),
            orientation="euler_parameters",
            shapes=_shapes(name),
        )
        for name, mass, across, axial in zip(NAMES, MASSES, ACROSS, AXIAL, strict=True)
    )
    right, left = (AXIS_DISTANCE, 0.0, 0.0), (-AXIS_DISTANCE, 0.0, 0.0)
    joints = (
        Joint(name="ring", kind="fixed", child="ring"),
        Joint(name="sun", child="sun"),
        Joint(name="arm", child="arm", load=torque),
        Joint(name="pin_a", kind="fixed", parent="arm", child="pin_a", parent_point=right),
        Joint(name="planet_a", parent="pin_a", child="planet_a"),
        Joint(name="pin_b", kind="fixed", parent="arm", child="pin_b", parent_point=left),
        Joint(name="planet_b", parent="pin_b", child="planet_b"),
    )
    return Mechanism(
        name="epicyclic_gear_train",
        coordinates="absolute",
        bodies=bodies,
        joints=joints,
        constraints=_meshes(),
        outputs=(PointOutput(name="planet", body="planet_a", axes="xy"),),
        gravity=(0.0, 0.0, 0.0),
        initial_q=tuple(c for x in places for c in (x, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0)),
        initial_v=(0.0,) * 49,
        parameters={"torque": torque, "sun_teeth": float(SUN_TEETH), "planet_teeth": float(PLANET_TEETH)},
    )


def _meshes() -> tuple[SpinRelation, ...]:
    """Rolling constraints of the gear meshes, with tooth counts as factors. [NadaBayoumi2024, eqs. 26-28]"""
    sun, planet = float(SUN_TEETH), float(PLANET_TEETH)
    first = (("sun", Z, sun), ("planet_a", Z, planet), ("arm", Z, -(sun + planet)))
    ring = (("ring", Z, sun + 2 * planet), ("arm", Z, -(sun + planet)), ("planet_a", Z, -planet))
    second = (("sun", Z, sun), ("planet_b", Z, planet), ("arm", Z, -(sun + planet)))
    return (
        SpinRelation(name="sun_planet_a", terms=first),
        SpinRelation(name="ring_planet_a", terms=ring),
        SpinRelation(name="sun_planet_b", terms=second),
    )


def _shapes(name: str) -> tuple[Shape, ...]:
    """Shapes of a body.

    A gear has its pitch circle. All gears but the fixed ring also have a spoke, which makes the rotation visible. The
    arm has a line between the planets, and a pin is a cylinder.
    """
    if name == "arm":
        return (Shape(kind="line", points=(-AXIS_DISTANCE, 0.0, 0.0, AXIS_DISTANCE, 0.0, 0.0)),)
    if name in ("pin_a", "pin_b"):
        return (Shape(kind="cylinder", size=(2e-3, 5e-3)),)
    teeth = {"ring": SUN_TEETH + 2 * PLANET_TEETH, "sun": SUN_TEETH}.get(name, PLANET_TEETH)
    radius = teeth * MODULE  # the stated axis distance makes the pitch radius one module per tooth
    angles = [2 * math.pi * corner / RIM_CORNERS for corner in range(RIM_CORNERS + 1)]
    rim = [c for a in angles for c in (radius * math.cos(a), radius * math.sin(a), 0.0)]
    spoke = [] if name == "ring" else [0.0, 0.0, 0.0]
    return (Shape(kind="line", points=(*spoke, *rim)),)
