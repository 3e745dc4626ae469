"""Planar crank-sliders in five coordinates: Man's example 2, and a mechanism that passes singular positions.

The second mechanism has a crank and a rod of equal length. SOURCES.md lists the sources of the numbers.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Annotated, Literal

from robots.parameters import ParameterInfo, require_choice
from sim_core.mechanism import Body, Joint, Mechanism, PointOutput, Shape, X


def crank_slider(
    start: Annotated[Literal["consistent", "printed"], ParameterInfo("velocities at the start")] = "consistent",
) -> Mechanism:
    """Man's crank-slider: crank at 0 rad, rotating at pi/3 rad/s, gravity along -y. [Man2025, example 2]

    Crank 0.2 m (J 45 kg m2), rod 0.35 m (3.5 kg, J 3.5 kg m2), slider 2.5 kg along x. In the paper's equations, L2 is
    half the length of the rod.

    start  velocities at the start: "consistent" with the constraints, or "printed" in the paper, which violate
           constraint row 2 by 0.2094 m/s
    """
    require_choice("crank_slider", "start", start, ("consistent", "printed"))
    made = _crank_slider("crank_slider", (0.2, 0.35), (45.0, 3.5), (20.0, 3.5, 2.5), angle=0.0, rate=math.pi / 3)
    if start == "consistent":
        return made
    printed = (math.pi / 3, 0.0, 0.0, 0.0, 0.0)
    return dataclasses.replace(made, initial_v=printed, open_start=True)


def equal_crank_slider() -> Mechanism:
    """Crank-slider with equal bars: crank at 0.3 rad, rotating at 6 rad/s, consistent velocities, gravity along -y.

    The crank and the rod are 0.3 m long (J 0.01 kg m2 each); the rod and the slider have 1 kg each. When the crank is
    upright, the slider is on the crank's axis and the constraint rows lose rank.
    """
    return _crank_slider("equal_crank_slider", (0.3, 0.3), (0.01, 0.01), (1.0, 1.0, 1.0), angle=0.3, rate=6.0)


def _crank_slider(
    name: str,
    lengths: tuple[float, float],
    inertias: tuple[float, float],
    masses: tuple[float, float, float],
    angle: float,
    rate: float,
) -> Mechanism:
    crank, rod = lengths
    half = rod / 2
    q, v = _consistent_start(crank, rod, angle, rate)
    return Mechanism(
        name=name,
        coordinates="absolute",
        bodies=(
            Body(
                name="crank",
                mass=masses[0],
                inertia=(0.0, 0.0, inertias[0], 0.0, 0.0, 0.0),
                free=("theta",),
                shapes=(Shape(kind="line", points=(0.0, 0.0, 0.0, crank, 0.0, 0.0)),),
            ),
            Body(
                name="rod",
                mass=masses[1],
                inertia=(0.0, 0.0, inertias[1], 0.0, 0.0, 0.0),
                shapes=(Shape(kind="line", points=(-half, 0.0, 0.0, half, 0.0, 0.0)),),
            ),
            Body(
                name="slider",
                mass=masses[2],
                inertia=(0.0, 0.0, 0.02, 0.0, 0.0, 0.0),
                free=("x",),
                shapes=(Shape(kind="box", size=(0.06, 0.04, 0.04)),),
            ),
        ),
        joints=(
            Joint(name="crank", child="crank"),
            Joint(
                name="crank_pin",
                parent="crank",
                child="rod",
                parent_point=(crank, 0.0, 0.0),
                child_point=(-half, 0.0, 0.0),
            ),
            Joint(name="slider_pin", parent="rod", child="slider", parent_point=(half, 0.0, 0.0)),
            Joint(name="slider", kind="prismatic", child="slider", axis=X),
        ),
        outputs=(PointOutput(name="slider", body="slider", axes="x"),),
        gravity=(0.0, -9.81, 0.0),
        initial_q=q,
        initial_v=v,
        parameters={"crank_length": crank, "rod_length": rod},
    )


def _consistent_start(
    crank: float, rod: float, angle: float, rate: float
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return (q, v) for an angle (rad) and a rate (rad/s) of the crank, with the slider on the positive x side.

    crank, rod  lengths (m)
    """
    half = rod / 2
    rod_angle = -math.asin(crank * math.sin(angle) / rod)
    rod_rate = -crank * math.cos(angle) * rate / (rod * math.cos(rod_angle))
    pin = (crank * math.cos(angle), crank * math.sin(angle))
    pin_rate = (-pin[1] * rate, pin[0] * rate)
    reach = (half * math.cos(rod_angle), half * math.sin(rod_angle))
    reach_rate = (-reach[1] * rod_rate, reach[0] * rod_rate)
    q = (angle, pin[0] + reach[0], pin[1] + reach[1], rod_angle, pin[0] + 2 * reach[0])
    v = (rate, pin_rate[0] + reach_rate[0], pin_rate[1] + reach_rate[1], rod_rate, pin_rate[0] + 2 * reach_rate[0])
    return q, v
