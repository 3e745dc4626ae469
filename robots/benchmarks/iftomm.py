"""Mechanisms A01 and A02 of the IFToMM library of computational benchmark problems. [GonzalezEtAl2006]

SOURCES.md lists the sources of the numbers.
"""

from __future__ import annotations

from typing import Annotated

from robots.parameters import ParameterInfo, require_positive
from sim_core.errors import InvalidRequest
from sim_core.mechanism import ORIGIN, Body, Distance, Joint, Mechanism, PointOutput, Shape


def simple_pendulum() -> Mechanism:
    """Mechanism A01: a point mass of 1 kg, 1 m from the pivot, at rest at x = -1 m; gravity along -y.

    The model has Cartesian coordinates and one distance constraint.
    """
    mass = Body(
        name="mass",
        mass=1.0,
        inertia=(0.0, 0.0, 0.0, 0.0, 0.0, 0.0),
        free=("x", "y"),
        shapes=(Shape(kind="sphere", size=(0.03,)),),
    )
    rod = Distance(name="rod", body_a="mass", point_a=ORIGIN, body_b="ground", point_b=ORIGIN, length=1.0)
    return Mechanism(
        name="simple_pendulum",
        coordinates="absolute",
        bodies=(mass,),
        constraints=(rod,),
        outputs=(PointOutput(name="tip", body="mass", axes="xy"),),
        gravity=(0.0, -9.81, 0.0),
        initial_q=(-1.0, 0.0),
        initial_v=(0.0, 0.0),
        parameters={"length": 1.0, "mass": 1.0},
    )


def four_bar_chain(loops: Annotated[int, ParameterInfo("number of square four-bars in a row")] = 2) -> Mechanism:
    """Mechanism A02: N = `loops` square four-bars in a row; rockers upright, tips at 1 m/s along x, gravity along -y.

    The mechanism has 2 N + 1 bars of 1 kg and 1 m each, and passes positions where all bars are collinear and the
    constraint rows lose rank. The exact equation of motion is theta'' = ((N + 1) / 2 + N) / ((N + 1) / 3 + N) g
    sin(theta), where theta is the angle of the rockers from upright.
    """
    require_positive("four_bar_chain", loops=loops)
    if loops != int(loops):
        raise InvalidRequest(f"robot 'four_bar_chain': loops is {loops!r}; it must be a whole number")
    line = Shape(kind="line", points=(-0.5, 0.0, 0.0, 0.5, 0.0, 0.0))
    bodies, joints = [], []
    q: list[float] = []
    v: list[float] = []
    for i in range(loops + 1):
        bodies.append(_bar(f"rocker_{i + 1}", line))
        joints.append(_pin(f"ground_{i + 1}", "ground", (float(i), 0.0, 0.0), f"rocker_{i + 1}", (-0.5, 0.0, 0.0)))
        q += [float(i), 0.5, UPRIGHT]
        v += [0.5, 0.0, -1.0]
    for i in range(loops):
        bodies.append(_bar(f"coupler_{i + 1}", line))
        left, right = f"rocker_{i + 1}", f"rocker_{i + 2}"
        joints.append(_pin(f"left_{i + 1}", left, (0.5, 0.0, 0.0), f"coupler_{i + 1}", (-0.5, 0.0, 0.0)))
        joints.append(_pin(f"right_{i + 1}", right, (0.5, 0.0, 0.0), f"coupler_{i + 1}", (0.5, 0.0, 0.0)))
        q += [i + 0.5, 1.0, 0.0]
        v += [1.0, 0.0, 0.0]
    return Mechanism(
        name="four_bar_chain",
        coordinates="absolute",
        bodies=tuple(bodies),
        joints=tuple(joints),
        outputs=(PointOutput(name="tip", body="rocker_1", point=(0.5, 0.0, 0.0), axes="xy"),),
        gravity=(0.0, -9.81, 0.0),
        initial_q=tuple(q),
        initial_v=tuple(v),
        parameters={"length": 1.0, "mass": 1.0, "loops": float(loops)},
    )


UPRIGHT = 1.5707963267948966


def _bar(name: str, shape: Shape) -> Body:
    return Body(name=name, mass=1.0, inertia=(0.0, 0.0, 1.0 / 12.0, 0.0, 0.0, 0.0), shapes=(shape,))


def _pin(
    name: str,
    parent: str,
    parent_point: tuple[float, float, float],
    child: str,
    child_point: tuple[float, float, float],
) -> Joint:
    return Joint(name=name, parent=parent, child=child, parent_point=parent_point, child_point=child_point)
